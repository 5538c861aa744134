"""Names of other tools: each is answered with an option that its verb has, on the command line and in Python."""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import Any

import pytest
from typer.testing import CliRunner

import unmask
from unmask.cli.app import app, command
from unmask.errors import InputError
from unmask.options import VERBS, table
from unmask.options.elsewhere import A_FILE, COMMANDS, EVERYWHERE, OF_VERB, SAID, TEXT, meant, misnamed
from unmask.options.lab import STUDIES, with_output
from unmask.options.option import Row

TABLES = {verb: table(verb) for verb in VERBS if verb != "lab"}
TABLES |= {f"lab {name}": with_output(kind, "lab") for name, kind in STUDIES.items()}


def entries(verb: str) -> dict[str, Row | str | tuple[str, str]]:
    """Every name that this verb answers, and with what."""
    lists = (OF_VERB.get(verb, {}).values(), SAID.get(verb, {}), EVERYWHERE.values(), SAID[""])
    found = {name: meant(verb, TABLES[verb], name) for names in lists for one in names for name in one.split()}
    return {name: answer for name, answer in found.items() if answer is not None and not own(verb, name)}


def own(verb: str, name: str) -> bool:
    return name in {row.name for row in TABLES[verb].declared()}


@cache
def made(verb: str) -> Any:
    return command("lab").commands[verb[4:]] if verb.startswith("lab ") else command(verb)


def flags(verb: str) -> set[str]:
    return {flag for one in made(verb).params for flag in (*one.opts, *one.secondary_opts)}


def said_to(verb: str, name: str) -> str:
    """What the command answers to an option."""
    with pytest.raises(InputError) as error:
        made(verb).make_context(f"unmask {verb}", [f"--{name.replace('_', '-')}", "1"])
    return str(error.value)


def test_every_list_is_about_an_option_that_there_is():
    assert set(OF_VERB) <= set(TABLES) and set(SAID) - {""} <= set(TABLES)
    for verb, options in OF_VERB.items():
        assert not set(options) - {row.name for row in TABLES[verb].declared()}, verb
    assert not set(EVERYWHERE) - {row.name for one in TABLES.values() for row in one.declared()}


@pytest.mark.parametrize("verb", sorted({*OF_VERB, *SAID} - {""}))
def test_no_name_of_a_verb_is_its_own_or_means_two_things(verb):
    names = " ".join([*OF_VERB.get(verb, {}).values(), *SAID.get(verb, {})]).split()
    assert sorted(names) == sorted(set(names))
    assert [name for name in names if own(verb, name) and name not in f"{TEXT} {A_FILE}".split()] == []


@pytest.mark.parametrize("verb", TABLES)
def test_the_command_answers_every_name_with_an_option_that_it_has(verb):
    assert len(entries(verb)) > 20 or verb.startswith("lab ")
    for name, answer in entries(verb).items():
        said = said_to(verb, name)
        assert "\n" not in said and said.startswith(f"--{name.replace('_', '-')} is not an option of "), said
        if isinstance(answer, Row) and not answer.argument:
            assert re.search(r": use (--[\w-]+) \(", said)[1] in flags(verb), said
            assert answer.flags[0].split("/")[0] in said
        elif isinstance(answer, Row):
            assert said.endswith(f"give it without a name, such as {TABLES[verb].examples[0]}")
        else:
            mentioned = set(
                re.findall(r"(?<![\w-])--[a-z][a-z-]*", re.sub(r"`unmask[^`]*`|torchrun.*", "", said.partition(": ")[2]))
            )
            assert mentioned <= flags(verb), said
            assert set(re.findall(r"`unmask (\w+)", said)) <= set(VERBS), said


@pytest.mark.parametrize("verb", TABLES)
def test_python_answers_every_name_with_an_argument_that_it_has(verb):
    function = getattr(unmask.lab, verb[4:]) if verb.startswith("lab ") else getattr(unmask, verb)
    arguments = inspect.signature(function).parameters
    for name, answer in entries(verb).items():
        if name in arguments:
            continue
        with pytest.raises(InputError) as error:
            function(**{name: 1})
        said = str(error.value)
        assert said.startswith(f"{name} is not an argument of {verb}: ") and "\n" not in said
        if isinstance(answer, Row) and not answer.command_only:
            assert re.search(r": use (\w+) \(", said)[1] in arguments, said
        elif isinstance(answer, Row):
            assert said.endswith(f": {answer.python}") and answer.python
        else:
            assert "--" not in said or "ssh" in said or "torchrun" in said, said
            assert all(hasattr(unmask, one) for one in re.findall(r"unmask\.(\w+)", said))


def test_exit_code_two_and_one_line():
    done = CliRunner().invoke(app, ["fill", "A [MASK].", "--top-k", "5"])
    assert done.exit_code == 2 and done.stdout == ""
    assert done.stderr == "error: --top-k is not an option of fill: use --top (how many completions to show)\n"
    done = CliRunner().invoke(app, ["lab", "masking", "--num-samples", "5"])
    assert done.stderr == "error: --num-samples is not an option of lab masking: use --samples (samples of each fit)\n"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("--targts", ": use --targets ("),
        ("--num-return-sequence", ": use --top ("),
        ("--qqqq", "--qqqq is not an option of fill: see unmask fill --help"),
    ],
)
def test_other_unknown_names_get_the_nearest_or_the_help(typed, said):
    assert said in misnamed("fill", TABLES["fill"], typed)


def test_a_name_that_no_list_has_is_not_answered_with_an_option():
    assert misnamed("fill", TABLES["fill"], "qqqq", python=True) == "qqqq is not an argument of fill: see help(unmask.fill)"


def test_arguments_that_only_commands_have():
    with pytest.raises(InputError, match=r"json is not an argument of fill: use \.to_dict\(\) of what it returns$"):
        unmask.fill("A [MASK].", json=True)


def test_functions_without_a_table_name_the_nearest_argument():
    with pytest.raises(InputError, match="dtyp is not an argument of load: did you mean dtype\\?$"):
        unmask.MaskedLM.load(dtyp="float32")
    with pytest.raises(InputError, match="^framework is not an argument of pipeline: use task, model, "):
        unmask.pipeline("fill-mask", framework="pt")


@pytest.mark.parametrize("ours", COMMANDS)
def test_commands_of_other_tools(ours):
    verb, *options = ours.split()
    assert verb in VERBS and set(options) <= (flags(verb) if options else set())
    for name in COMMANDS[ours].split():
        assert name not in VERBS
        done = CliRunner().invoke(app, [name, "A [MASK]."])
        assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"error: {name} is not a command: use unmask {ours}\n")


def test_no_name_stands_for_two_commands():
    names = " ".join(COMMANDS.values()).split()
    assert len(names) == len(set(names))


def test_functions_of_other_tools():
    with pytest.raises(AttributeError, match="module 'unmask' has no attribute 'perplexity': use unmask.score$"):
        unmask.perplexity  # noqa: B018
    with pytest.raises(AttributeError, match="module 'unmask' has no attribute 'filll': use unmask.fill$"):
        unmask.filll  # noqa: B018
    with pytest.raises(AttributeError, match="module 'unmask' has no attribute '_fill'$"):
        unmask._fill  # noqa: B018


def test_words_where_a_number_of_candidates_belongs():
    done = CliRunner().invoke(app, ["fill", "A [MASK].", "--candidates", "cat,dog"])
    assert done.exit_code == 2 and "'cat,dog' is not a whole number" in done.stderr and "--answers" in done.stderr


def test_more_targets_than_blanks():
    with pytest.raises(InputError, match="^2 targets for 1 blank: give one word per blank; to score alternatives, use answers"):
        unmask.fill("The [MASK] sat.", targets=["cat", "dog"])


def test_a_text_without_quotes():
    done = CliRunner().invoke(app, ["fill", "The", "[MASK]", "sat."])
    assert done.exit_code == 2
    assert done.stderr.startswith("error: '[MASK] sat.' is left over: put quotes around a text of several words, such as unmask")


def test_a_list_that_names_an_option_that_is_not_there_is_found(monkeypatch):
    monkeypatch.setitem(OF_VERB, "fill", {"no_such_option": "top_k"})
    with pytest.raises(AssertionError):
        test_every_list_is_about_an_option_that_there_is()
