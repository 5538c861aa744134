"""Scores as bars: each word's share of a score, and of two texts which one a token speaks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import copysign, isinf, isnan
from typing import TYPE_CHECKING, Any, NamedTuple

from typing_extensions import TypedDict

from unmask.common.formats import count, in_form, nats
from unmask.common.result_tables import NO_VALUE, Column, Table
from unmask.scoring.scored_batch import STOPPED
from unmask.surfaces.serving.drawings.shapes import SavedTable, Told, largest_size, saved_table
from unmask.surfaces.serving.texts import Nouns, visible

if TYPE_CHECKING:
    from unmask.scoring.row_shape import Rows
    from unmask.scoring.scores.score import Score
    from unmask.verbs.score import Scores

DIFFERENCE = in_form("+.3f")
"""Writes the difference of two tokens, as the command does."""


class Bar(TypedDict):
    """A word, a residue or two aligned tokens, with a bar.

    texts     what is written below the bar, a line for each text
    share     its height from -1 to 1: 1 is that of the largest finite number. A bar below 0 goes
              down. Without a number there is no bar: None
    number    the number of the bar
    title     what it is, with its number; of a word each token with its number
    differs   whether the texts differ here
    """

    texts: list[str]
    share: float | None
    number: str
    title: str
    differs: bool


class Profile(TypedDict):
    """A text bar by bar.

    label   what it is, for readers of screens
    text    the text, which says in which direction it is written
    bars    in the order of the text
    scale   the number of a bar of full height; an infinite number has such a bar, too
    """

    label: str
    text: str
    bars: list[Bar]
    scale: str


class Profiles(TypedDict):
    """The texts by one score, and what their bars are."""

    profiles: list[Profile]
    legend: str


class ScoreDrawing(TypedDict):
    """What the page draws of scores.

    shown        the scores that are sums over tokens; the first is shown unless another is chosen
    profiles     by these scores: the words of each text
    differences  of two texts, by the scores that both have: the texts side by side
    words        the numbers of `profiles`, for a file
    aligned      the numbers of `differences`, for a file; None without any
    of_texts     how many of the result's first tables are of a text each
    failed       why a text lacks a number, a sentence for each such text
    part         "2 of 6 scores" if the work was stopped, each text's counted; "" if it was not
    told         the scores of each text
    """

    shown: list[str]
    profiles: dict[str, Profiles]
    differences: dict[str, Profiles]
    words: SavedTable
    aligned: SavedTable | None
    of_texts: int
    failed: list[str]
    part: str
    told: Told


class Unit(NamedTuple):
    """A word of a text, or a residue of a sequence.

    text     what is written
    row      its numbers by their columns, without those of scores that the text lacks
    tokens   the rows of its tokens
    """

    text: str
    row: dict[str, Any]
    tokens: Rows

    def number(self, column: str) -> float | None:
        """Its number in a column; None without one."""
        return self.row.get(column)


@dataclass(frozen=True)
class _Scale:
    """How high the bars of some numbers are.

    end   the largest finite number, signs aside: its bar has full height. Infinity if only
          infinities have a bar
    """

    end: float

    @classmethod
    def of(cls, values: Sequence[float | None]) -> _Scale:
        """The scale of some numbers."""
        return cls(largest_size([values]))

    def share(self, value: float | None) -> float | None:
        """The height of a bar from -1 to 1; None without a number."""
        if value is None or isnan(value):
            return None
        if isinf(value):
            return copysign(1.0, value)
        if self.end == 0:
            return 0.0
        return value / self.end


def drawn_scores(scores: Scores, nouns: Nouns) -> ScoreDrawing:
    """The bars of nested scores.

    nouns   what a text and its units are called
    """
    shown = [score for score in scores.shape.scores if score.by_token]
    units = [_units(row, nouns) for row in scores.rows]
    differences, aligned = _differences(scores)
    profiles = {}
    is_any_scored = any(units)  # a text that was not scored has no words
    if is_any_scored:
        profiles = {score.name: _profiles(score, scores, units, nouns) for score in shown}
    n_tables = len(scores.tables())
    n_tables_of_texts = n_tables if aligned is None else n_tables - 1  # the last is `aligned`
    return ScoreDrawing(
        shown=[score.name for score in shown],
        profiles=profiles,
        differences=differences,
        words=_words_table(shown, units, nouns),
        aligned=aligned,
        of_texts=n_tables_of_texts,
        failed=[f"“{row['text']}”: {row['reason']}." for row in scores.rows if row["reason"]],
        part=_part(scores),
        told=_told(scores, nouns),
    )


def _part(scores: Scores) -> str:
    """ "2 of 6 scores" if the work was stopped, else "". Three scores of two texts count as six."""
    was_stopped = any(STOPPED in (row["reason"] or "") for row in scores.rows)
    if not was_stopped:
        return ""
    n_measured = 0
    for row in scores.rows:
        n_measured += len([name for name in scores.scores if row[name] is not None])
    n_asked = len(scores.rows) * len(scores.scores)
    return f"{count(n_measured)} of {count(n_asked)} scores"


def _units(row: dict[str, Any], nouns: Nouns) -> list[Unit]:
    """The words of a text, or its residues; none of a text that was not scored."""
    tokens = row["tokens"] or []
    if nouns.by_character:
        return [Unit(visible(token["token"]), token, [token]) for token in tokens]
    tokens_of_words: dict[int, Rows] = {}
    for token in tokens:
        tokens_of_words.setdefault(token["word_number"], []).append(token)
    units = []
    for word in row["words"] or []:
        of_word = tokens_of_words.get(word["word_number"], [])
        units.append(Unit(word["word"], word, of_word))
    return units


# ---- each text by itself ----


def _profiles(
    score: Score, scores: Scores, units: Sequence[Sequence[Unit]], nouns: Nouns
) -> Profiles:
    """The texts by a score, whose bars have one scale.

    units   of each text
    """
    column = score.share_column
    numbers = [unit.number(column) for of_text in units for unit in of_text]
    scale = _Scale.of(numbers)
    profiles = []
    for place, row in enumerate(scores.rows):
        if not units[place]:
            continue
        bars = _bars(score, scores, units, text=place, scale=scale, nouns=nouns)
        label = f"{score.name} of {nouns.text} {place + 1}, {nouns.unit} by {nouns.unit}"
        profile = Profile(label=label, text=row["text"], bars=bars, scale=nats(scale.end))
        profiles.append(profile)
    legend = (
        f"{column}: the higher the bar, the more a {nouns.unit} counts against the {nouns.text},"
        f" in {scores.unit} (up to {nats(scale.end)})"
    )
    if not nouns.by_character:
        legend += "; a word’s tokens add up"
    return Profiles(profiles=profiles, legend=f"{legend}.")


def _bars(
    score: Score,
    scores: Scores,
    units: Sequence[Sequence[Unit]],
    text: int,
    scale: _Scale,
    nouns: Nouns,
) -> list[Bar]:
    """The bars of a text.

    units   of each text: residues are compared with those of the other text
    text    the number of the text, from 0
    """
    bars = []
    for place, unit in enumerate(units[text]):
        number = unit.number(score.share_column)
        if nouns.by_character:
            title = f"{unit.text}{place + 1}: {_written(number)} {scores.unit}"
            differs = _differs(units, place)
        else:
            title = _tokens_of(unit, score)
            differs = False  # words are compared in the card of two texts side by side
        bar = Bar(
            texts=[unit.text],
            share=scale.share(number),
            number=_written(number),
            title=title,
            differs=differs,
        )
        bars.append(bar)
    return bars


def _tokens_of(unit: Unit, score: Score) -> str:
    """The tokens of a word, each with its number."""
    numbers = []
    for token in unit.tokens:
        number = _written(token.get(score.share_column))
        numbers.append(f"{visible(token['token'])} {number}")
    return ", ".join(numbers)


def _differs(units: Sequence[Sequence[Unit]], place: int) -> bool:
    """Whether two sequences have other residues at a place, or one of them ends before it. A
    sequence that was not scored has no residues, and is not compared.
    """
    are_two_scored = len(units) == 2 and all(units)
    if not are_two_scored:
        return False
    first, second = units
    if place >= min(len(first), len(second)):
        return True
    return first[place].text != second[place].text


# ---- two texts side by side ----


def _differences(scores: Scores) -> tuple[dict[str, Profiles], SavedTable | None]:
    """Two texts side by side, by the name of each score that both have, and the numbers as a
    table.

    There is nothing, ({}, None), for one text or for more than two, and for two texts without
    such a score.
    """
    n_texts = len(scores.rows)
    if n_texts != 2:
        return {}, None
    compared = scores.by_token()
    if not compared:
        return {}, None
    table = scores.tables()[-1]  # the verb puts its table of the difference last
    rows = scores.difference()
    of_scores = {score.name: _side_by_side(score, scores, rows, table) for score in compared}
    return of_scores, saved_table(table)


def _side_by_side(score: Score, scores: Scores, rows: Rows, table: Table) -> Profiles:
    """Two texts token by token: a bar goes up where a token is for the first text."""
    column = f"{score.name}_difference"
    scale = _Scale.of([row[column] for row in rows])
    bars = []
    for row in rows:
        tokens = [row["first_token"], row["second_token"]]
        texts = [_written_token(token) for token in tokens]
        difference = row[column]  # first minus second, of a gap, too
        # `better` is 1 if a higher score is better, else -1. It turns the bar, which says which
        # text the token is for, and not the number, which is as in the table.
        for_the_first = score.better * difference
        number = DIFFERENCE(difference)
        bar = Bar(
            texts=texts,
            share=scale.share(for_the_first),
            number=number,
            title=f"{texts[0]} / {texts[1]}: {number}",
            differs=tokens[0] != tokens[1],
        )
        bars.append(bar)
    label = "the first against the second, token by token"
    text = scores.rows[0]["text"]
    profile = Profile(label=label, text=text, bars=bars, scale=nats(scale.end))
    legend = f"{table.title}. Blue: for the first, by {score.name} ({score.direction})."
    return Profiles(profiles=[profile], legend=legend)


def _written_token(token: str | None) -> str:
    """An aligned token, or a dash for a gap."""
    return NO_VALUE if token is None else visible(token)


def _words_table(
    shown: Sequence[Score], units: Sequence[Sequence[Unit]], nouns: Nouns
) -> SavedTable:
    """A row for each word of each text, with its share of every score."""
    shares = [score.share_column for score in shown]
    columns = [Column(nouns.text), Column(nouns.unit, text=True)]
    columns += [Column(name) for name in shares]
    rows = []
    for number, of_text in enumerate(units, 1):
        for unit in of_text:
            numbers = [unit.number(name) for name in shares]
            rows.append([number, unit.text, *numbers])
    return saved_table(Table(columns, rows))


def _told(scores: Scores, nouns: Nouns) -> Told:
    """Every score of every text."""
    values = {}
    for name in scores.scores:
        for number, row in enumerate(scores.rows, 1):
            values[f"{name}, {nouns.text} {number}"] = row[name]
    return {"by": f"scores, in {scores.unit}", "values": values}


def _written(value: float | None) -> str:
    """A number, or a dash where there is none."""
    return NO_VALUE if value is None else nats(value)
