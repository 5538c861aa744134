"""The tables of options: what signatures, commands, help and documents have is what the rows say."""

from __future__ import annotations

import inspect
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from inspect import Parameter
from typing import ClassVar

import pytest
from typer.testing import CliRunner

import unmask
from unmask.cli.app import app, command
from unmask.cli.build import command as build
from unmask.errors import InputError
from unmask.options import VERBS, table
from unmask.options.kinds import Choice, Flag, Numbers, Whole, Words
from unmask.options.lab import STUDIES, with_output
from unmask.options.option import Options, Reads, argument_lines, documented, option

WITH_A_TABLE = [verb for verb in VERBS if verb != "lab"]


def lines() -> list[str]:
    tables = [*map(table, WITH_A_TABLE), *STUDIES.values()]
    return [line for one in tables for line in one.examples]


@pytest.mark.parametrize("verb", WITH_A_TABLE)
def test_the_signature_of_a_verb_is_its_table(verb):
    given = {name: one.default for name, one in inspect.signature(getattr(unmask, verb)).parameters.items()}
    rows = table(verb)
    assert {name: default for name, default in given.items() if name not in rows.python_only} == rows.signature()
    assert set(rows.python_only) == set(given) - set(rows.signature())


@pytest.mark.parametrize("verb", WITH_A_TABLE)
def test_the_command_has_every_row_and_nothing_else(verb):
    shown = {one.name: one for one in command(verb).params}
    assert set(shown) == {row.name for row in table(verb).declared()}
    for row in table(verb).declared():
        flags = [flag for pair in row.flags for flag in pair.split("/")]
        assert [*shown[row.name].opts, *shown[row.name].secondary_opts] == flags or row.argument


@pytest.mark.parametrize("verb", WITH_A_TABLE)
def test_help_in_python_has_every_argument(verb):
    said = inspect.getdoc(getattr(unmask, verb))
    assert argument_lines(table(verb)) in said
    assert [name for name in inspect.signature(getattr(unmask, verb)).parameters if f"\n{name} " not in said] == []


def test_help_of_a_function_of_one_text_says_what_a_list_gives():
    assert "-> 'Filling | ChainFilling | list[Filling | ChainFilling]'" in str(inspect.signature(unmask.fill))
    assert "text: 'str | Sequence[str]'" in str(inspect.signature(unmask.fill))


@pytest.mark.parametrize("verb", WITH_A_TABLE)
def test_no_short_name_twice_and_every_row_says_something(verb):
    rows = table(verb).declared()
    short = [row.short for row in rows if row.short]
    assert len(short) == len(set(short))
    assert all(row.command_help().endswith(".") and row.command_help()[0] != " " for row in rows)


@pytest.mark.parametrize("kind", [*map(table, WITH_A_TABLE), *STUDIES.values()])
def test_every_command_has_two_examples(kind):
    assert len(kind.examples) == 2


@pytest.mark.parametrize("line", lines())
def test_examples_parse_and_pass_the_checks(line):
    _, verb, *words = shlex.split(line)
    rows, words = (STUDIES[words[0]], words[1:]) if verb == "lab" else (table(verb), words)
    seen = []
    build(verb, "", with_output(rows, "lab") if verb == "lab" else rows, seen.append).main(words, standalone_mode=False)
    assert rows.given(seen[0]) and (len(seen[0]) > 0) == bool(words)


def listed() -> list[tuple[str, str]]:
    return [(verb, row.flags[0]) for verb in WITH_A_TABLE for row in table(verb).declared() if row.kind.commas]


@pytest.mark.parametrize(("verb", "flag"), listed())
def test_a_list_of_values_is_given_once(verb, flag):
    done = CliRunner().invoke(app, [verb, flag, "1", flag, "2"])
    assert (
        done.exit_code == 2 and done.stderr == f"error: {flag} was given twice: give its values once, with commas between them\n"
    )


def test_what_is_repeated_may_be_given_twice():
    made = command("fill").make_context("fill", ["x", "--allow", "1=a", "--allow", "2=b"]).params
    assert list(made["allow"]) == ["1=a", "2=b"]


def test_tables_load_without_torch():
    code = (
        "import sys; from unmask.options import VERBS, table; [table(v) for v in VERBS if v != 'lab']; import unmask.options.lab"
    )
    done = subprocess.run([sys.executable, "-c", f"{code}; print(*sys.modules)"], capture_output=True, text=True, check=True)
    assert not {"torch", "numpy", "pandas", "typer", "rich"} & set(done.stdout.split())


@dataclass(frozen=True)
class Cake(Options):
    """Options of a verb that there is not."""

    more: ClassVar[str] = "It has [brackets]."
    examples: ClassVar[tuple[str, ...]] = ("unmask cake --layers 2", "unmask cake --plain")
    reads: ClassVar[tuple[Reads, ...]] = (Reads("way", {"baked": ("minutes",), "raw": (), "boiled": ("minutes", "water")}),)
    python_only: ClassVar[dict[str, str]] = {}

    way: str = option("baked", Choice(("baked", "raw", "boiled")), "How it is made", "-w")
    layers: int = option(3, Whole(1, 9), "How many layers.")
    minutes: int = option(40, Whole(1, 99), "How long.")
    water: float | None = option(None, Whole(1, 9), "Cups.", otherwise="none")
    plain: bool = option(False, Flag(), "No cream.")
    warm: bool = option(True, Flag(), "Eat it warm.")
    fruit: list[str] | None = option(None, Words(), "On top.")
    sizes: tuple[int, ...] = option((20, 26), Numbers(int, Whole(1, 99), alone=True), "Of the tins.", left_out=None)


def test_a_table_checks_what_is_given_and_fills_in_the_rest():
    made = Cake.given({"layers": 2, "sizes": None, "water": None, "minutes": None, "unheard_of": 1})
    assert made == Cake(layers=2) and made.sizes == (20, 26) and made.minutes == 40
    assert Cake.given(sizes=9).sizes == (9,) and Cake.given(sizes=[1, 2]).sizes == (1, 2)
    assert Cake.signature() == {
        "way": "baked",
        "layers": 3,
        "minutes": None,
        "water": None,
        "plain": False,
        "warm": True,
        "fruit": None,
        "sizes": None,
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"layers": 0}, "layers 0 is out of range: give a whole number from 1 to 9"),
        ({"layers": None}, "layers None is not a whole number: give one from 1 to 9"),
        ({"way": "bakd"}, "way 'bakd' is unknown: did you mean baked\\? Use one of baked, raw, boiled"),
        (
            {"way": "raw", "minutes": 3},
            "which way raw does not use: leave it out, or use way baked or boiled$",
        ),
        ({"water": 3}, "water was given, which way baked does not use: leave it out, or use way boiled$"),
        ({"sizes": [20, 1000]}, "sizes 1000 is out of range"),
    ],
)
def test_wrong_values_and_options_that_nothing_reads_are_refused(given, said):
    with pytest.raises(InputError, match=said):
        Cake.given(given)


def test_a_command_is_its_rows(capsys, monkeypatch):
    seen = []
    made = build("cake", "Make a cake.", Cake, seen.append)
    typed = "--layers 2 --no-warm --fruit kiwi,fig --sizes 3,4 --plain -w boiled"
    made.main(typed.split(), standalone_mode=False)
    assert seen == [{"way": "boiled", "layers": 2, "plain": True, "warm": False, "fruit": ["kiwi", "fig"], "sizes": [3, 4]}]
    made.main([], standalone_mode=False)
    assert seen[1] == {}
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 200)
    made.main(["--help"], standalone_mode=False)
    said = " ".join(capsys.readouterr().out.split())
    for words in (
        "Make a cake. It has [brackets].",
        "How it is made: baked, raw, boiled. [default: baked]",
        "How long. [all but raw] [default: 40]",
        "Cups. [boiled] [default: none]",
        "Eat it warm. [default: yes]",
        "On top; with commas.",
        "Of the tins. [default: 20,26]",
        "Examples: unmask cake --layers 2 unmask cake --plain",
    ):
        assert words in said


def test_a_docstring_gets_the_arguments_before_its_examples():
    @documented(Cake)
    def cake():
        """Make a cake.

        >>> cake()
        """

    said = inspect.getdoc(cake)
    assert said.startswith("Make a cake.\n\nway      How it is made: baked, raw, boiled. [default: baked]\n")
    assert said.endswith("sizes    Of the tins. As a list. [default: 20,26]\n\n>>> cake()")


def test_an_argument_that_must_be_given_has_no_default():
    assert table("train").signature()["out"] is Parameter.empty and table("evaluate").signature()["out"] is None


def shown(*words: str) -> set[str]:
    done = CliRunner().invoke(app, [*words, "--help"])
    assert done.exit_code == 0 and "<bool>" not in done.output
    return set(re.findall(r"^│ (?:[ *]  )?(--[\w-]+)", done.output, re.MULTILINE)) - {"--help"}


def test_a_help_has_the_options_of_all_methods_or_those_that_a_named_one_reads():
    rows = table("sample")
    named = [row for row in rows.declared() if row.flags]
    common = {row.flags[0] for row in named if not any(reads.many and reads.some(row.name) for reads in rows.reads)}
    folded = {f"--{name.replace('_', '-')}" for fold in rows.folds for name in fold.names}
    assert shown("sample") == common - folded
    assert shown("sample", "--kernel", "annealing") >= {"--hot", "--cold"}
    everywhere = common.union(*(shown("sample", "--kernel", name) for name in rows.reads[0].options))
    assert everywhere == {row.flags[0] for row in named}


@pytest.mark.parametrize("verb", [verb for verb in WITH_A_TABLE if table(verb).folds])
def test_a_help_of_folds_has_every_option_somewhere_and_names_what_opens_them(verb):
    rows, alone = table(verb), " ".join(CliRunner().invoke(app, [verb, "--help"]).output.split())
    assert all(f"{fold.typed} ({fold.what})" in alone for fold in rows.folds)
    opened = [shown(verb, *FOLDS[fold.typed]) for fold in rows.folds]
    assert [sorted(one) for one in opened] == [sorted(f"--{n.replace('_', '-')}" for n in fold.names) for fold in rows.folds]
    assert not shown(verb) & set().union(*opened)
    of_methods = {row.name for row in rows.declared() for reads in rows.reads if reads.many and reads.some(row.name)}
    named = {row.flags[0].split("/")[0] for row in rows.declared() if not row.argument and row.name not in of_methods}
    assert shown(verb).union(*opened) == named


def test_an_opened_fold_leaves_out_what_the_chosen_method_does_not_read():
    assert shown("train", "--objective", "causal") == {"--label-smoothing"}


def test_a_fold_opens_beside_a_method_too():
    assert (
        shown("sample", "--kernel", "mh", "--device", "cpu")
        == shown("sample", "--device", "cpu")
        == shown("fill", "--device", "cpu")
    )


FOLDS = {
    "--objective NAME": ("--objective", "masked"),
    "--parallel SOURCE TARGET": ("--parallel", "a", "b"),
    "--size NAME": ("--size", "tiny"),
    "--valid FILE": ("--valid", "texts.txt"),
    "--device NAME": ("--device", "cpu"),
    "--push-to NAME": ("--push-to", "someone/model"),
    "--measured FILE": ("--measured", "variants.csv", "--engine", "ray"),
    "--profile FILE": ("--profile", "texts.txt"),
    "--forbid WORDS": ("--forbid", "red"),
}
ONE_SCREEN = ["", *VERBS, *(f"lab {study}" for study in STUDIES), "lab all", "score --score any_order,pair"]
ONE_SCREEN += [f"sample --kernel {name}" for name in table("sample").reads[0].options]
ONE_SCREEN += [f"translate --{name}" for name in table("translate").reads[0].options]
ONE_SCREEN += [" ".join([verb, *FOLDS[fold.typed]]) for verb in WITH_A_TABLE for fold in table(verb).folds]


@pytest.mark.parametrize("words", ONE_SCREEN)
def test_a_help_is_one_screen(words):
    said = CliRunner().invoke(app, [*words.split(), "--help"]).output
    assert len(said.splitlines()) <= 70 and max(map(len, said.splitlines())) <= 80 and "<bool>" not in said


def test_an_unknown_method_beside_help_is_refused():
    done = CliRunner().invoke(app, ["sample", "--kernel", "mhh", "--help"])
    assert done.exit_code == 2 and done.stderr.startswith("error: kernel 'mhh' is unknown: did you mean mh?")
