"""Any result on a terminal: parts in their order, and tables that fit."""

from dataclasses import dataclass, field
from io import BytesIO, StringIO, TextIOWrapper

from rich.console import Console

from unmask.common.formats import nats, percent
from unmask.common.result_tables import Column, Filled, Table
from unmask.common.results import Result
from unmask.surfaces.cli.show import print_result, print_table


@dataclass
class Shown(Result):
    """A result of given parts."""

    title: str = ""
    sentences: list[str] = field(default_factory=list)
    of_tables: list[Table] = field(default_factory=list)
    judgement: list[str] = field(default_factory=list)

    @property
    def heading(self):
        return self.title

    def about(self):
        return self.sentences

    def tables(self):
        return self.of_tables

    def verdict(self):
        return self.judgement


def printed(result: Result, width: int = 80) -> list[str]:
    screen = Console(file=StringIO(), width=width, highlight=False, markup=False, emoji=False)
    print_result(screen, result)
    return [line.rstrip() for line in screen.file.getvalue().splitlines()]


def printed_table(table: Table, width: int = 80, **settings) -> list[str]:
    screen = Console(file=StringIO(), width=width, highlight=False, markup=False, **settings)
    print_table(screen, table)
    return screen.file.getvalue().splitlines()


NUMBERS = Table(
    columns=[Column("name", text=True), Column("nats", nats)],
    rows=[["a cat", 1.25], ["a dog", None]],
    title="Two names",
    notes=["* a note"],
)


def test_the_parts_of_a_result_stand_in_their_order_with_empty_lines_between():
    result = Shown("the [MASK] sat", ["All are exact."], [NUMBERS, NUMBERS], ["The first wins."])
    lines = printed(result)
    assert lines[:4] == ["the [MASK] sat", "All are exact.", "", "Two names"]
    assert lines[4].split() == ["name", "nats"]
    assert [line.split() for line in lines[6:8]] == [["a", "cat", "1.250"], ["a", "dog", "-"]]
    assert lines[8:11] == ["* a note", "", "Two names"]
    assert lines[-3:] == ["* a note", "", "The first wins."]


def test_several_sentences_of_a_verdict_have_bullets_and_parts_that_are_missing_leave_nothing():
    result = Shown(judgement=["The first wins.", "By 2 nats."])
    assert printed(result) == ["- The first wins.", "- By 2 nats."]
    assert printed(Shown())[0].startswith("Shown(title=''")


def test_numbers_that_do_not_fit_beside_the_names_follow_below():
    heads = [f"number {place}" for place in range(6)]
    names = "a name of thirty characters or so"
    table = Table(
        columns=[Column("name", text=True), *(Column(head, nats) for head in heads)],
        rows=[[names, *(float(place) for place in range(6))]],
    )
    wide = printed_table(table, width=100)
    assert len(wide) == 3
    assert wide[2].startswith(names)
    narrow = printed_table(table, width=60)
    assert max(len(line) for line in narrow) <= 60
    assert sum(line.startswith("name") for line in narrow) == 2  # the names are there again
    words = " ".join(narrow).split()
    for place in range(6):
        assert words.count(f"{place}.000") == 1
    unfolded = Table(
        columns=[Column("name", text=True, least=40), *table.columns[1:]], rows=table.rows
    )
    assert any(names in line for line in printed_table(unfolded, width=60))


def test_long_heads_are_folded_before_a_table_is_split():
    heads = ["a head of many short words", "another head of such words"]
    columns = [Column("name", text=True), *(Column(head, nats) for head in heads)]
    lines = printed_table(Table(columns, rows=[["cat", 1.0, 2.0]]), width=40)
    assert lines[-1].split() == ["cat", "1.000", "2.000"]


def test_a_filled_text_is_cut_to_the_room_that_numbers_leave_and_keeps_its_mark():
    text = "word " * 30 + "blue" + " word" * 30
    filled = Filled(text, spans=[(150, 154)], mark=" *")
    table = Table(
        [Column("probability", percent), Column("completion", text=True)], [[0.0, filled]]
    )
    (line,) = printed_table(table, width=60)[2:]
    assert len(line) <= 60
    assert line.startswith("   100.00 %  …")
    assert "blue" in line
    assert line.endswith("… *")
    whole = Filled("short", mark=" *")
    assert printed_table(Table(table.columns, [[0.0, whole]]))[-1].endswith("  short *")


def test_a_long_text_is_folded_on_a_terminal_and_whole_in_a_file():
    text = "word " * 20 + "end"
    table = Table([Column("nats", nats), Column("text", text=True)], [[1.0, text], [2.0, "a"]])
    lines = printed_table(table, width=40, force_terminal=True)[2:]
    assert [line[:5] for line in lines] == ["1.000", *["     "] * (len(lines) - 2), "2.000"]
    assert " ".join(lines).split() == ["1.000", *["word"] * 20, "end", "2.000", "a"]
    assert max(len(line) for line in lines) <= 40
    assert printed_table(table, width=40)[2:] == [f"1.000  {text}", "2.000  a"]


def test_a_table_without_heads_has_no_line_for_them():
    table = Table([Column("", text=True), Column("", text=True)], [["family", "BERT"]])
    assert printed_table(table) == ["family  BERT"]


def test_a_table_without_box_characters_has_one_line_and_the_same_columns():
    table = Table([Column("nats"), Column("text", text=True)], [["1.0", "a cat"], ["20.0", "dog"]])
    tables = []
    for encoding in ("utf-8", "cp1252"):
        file = TextIOWrapper(BytesIO(), encoding)
        print_table(Console(file=file, width=40), table)
        file.flush()
        tables.append(file.buffer.getvalue().decode(encoding))
    assert tables[1].isascii()
    assert tables[1] == tables[0].replace("─", "-")
