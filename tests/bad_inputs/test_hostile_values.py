"""Every option and argument that takes a path, a device, a dtype or a text, given what nobody should give.

The cases are generated from the commands themselves (numbers are in test_numbers.py). What must be refused is refused in one
line, fast, with nothing written. In the marked test every option is given every value: each is refused so, or taken.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from command_lines import FINE, commands
from refusals import TooLate, changed, given, refusal, trees

import unmask
from unmask.options.kinds import File

SECONDS = 10
"""Of one refusal, on a busy machine; most take a hundredth of one."""
DIGITS, LONG = "1" * 5000, "x" * 5000
NAMELESS = ["", "a\0b", LONG, "{world}/texts.txt/x", " ", "{world}/loop.txt", "~nobody-here/x"]
"""Paths at which no file or folder is, or can be made."""
DEVICES = ["", "meta", "mps", "cpu:7", "xpu", "vulkan", "cuda:-1", "cuda:99", f"cuda:{DIGITS}", "tpu", "cpu\n"]
DTYPES = ["", "int8", "float8_e4m3fn", "complex64", "bool", "float32\n", DIGITS]
TEXTS = ["", DIGITS, "a\0b", "\udcff"]
NUMBERED = [f"{DIGITS}=a", f"1={DIGITS}", "", "=", "²=a"]
FEW = {"path": 4, "device": 4, "dtype": 2, "text": 2, "list": 2}
"""So many of them are tried with every option in each run of the tests."""
MORE = [
    "--", "-", "-1", "0", "nan", "inf", "1e400", "٣", "²", "a\nb", ",", ":", "*", "(", "[/b]", "{world}/folder", "{model}",
    "{world}/none/none", "{world}/texts.txt", "/proc/self/mem", "/dev/null", "1B", "1e400GB", "1-2-3", f"1-{DIGITS}",
    f"1:{DIGITS}", f"1,{DIGITS}", f"a{{{DIGITS}}}", "(" * 5000,
]  # fmt: skip
FREE = {
    ("fill", "--forbid"): "any word that no blank takes may be forbidden",
    ("score", "inputs"): "what is too long for a path is a text",
    ("train", "--field"): "any name may be that of a field",
    ("train", "--licence"): "any text may name a licence",
    ("serve", "--host"): "asks the network",
}
"""Options whose text may be anything, and why."""


PATHS = {(name, row.name) for name, one in commands() for row in one.table.declared() if isinstance(row.kind, File)}


def kind(command: str, option: Any) -> str:
    if option.name in ("device", "dtype"):
        return str(option.name)
    if getattr(option, "is_flag", False) or option.type_descriptor.annotation in (int, float, list[float]):
        return "number"
    if (command, option.name) in PATHS:
        return "path"
    return "list" if option.type_descriptor.annotation == list[str] else "text"


def must_refuse(command: str, option: Any) -> list[str]:
    """What this option must refuse; numbers are in test_numbers.py."""
    if (command, option.opts[0]) in FREE:
        return []
    by_kind = {"device": DEVICES, "dtype": DTYPES, "path": NAMELESS, "text": TEXTS, "list": NUMBERED}
    return by_kind.get(kind(command, option), [])


def line_of(command: str, option: Any, value: str) -> list[str]:
    """The command's line with this value of the option; an argument takes the place of the line's own."""
    words, name = shlex.split(FINE[command]), option.opts[0]
    if not name.startswith("-"):
        words[len(command.split())] = value
        return words
    return [*words, *([name, value, value] if option.nargs == 2 else [f"{name}={value}"])]


COMMANDS = dict(commands())


def test_every_command_is_there_with_its_devices_and_paths():
    found = [(command, option) for command, one in COMMANDS.items() for option in one.params]
    assert set(COMMANDS) == set(FINE) and len(found) > 300
    assert sum(kind(command, option) == "device" for command, option in found) >= 11
    paths = {option.opts[0] for command, option in found if kind(command, option) == "path"}
    assert paths >= {"--out", "--file", "--figure", "--init", "--runs", "--table", "--cache", "corpus", "texts", "run"}
    assert {(command, option.opts[0]) for command, option in found} >= set(FREE)


@pytest.mark.parametrize("command", FINE)
def test_what_nobody_should_give_is_refused(refused, command):
    tried = 0
    for option in COMMANDS[command].params:
        for value in must_refuse(command, option)[: FEW.get(kind(command, option), 0)]:
            said = refused(line_of(command, option, value), seconds=SECONDS if tried else 6 * SECONDS)
            tried += 1
            assert len(said) < 1000 and (kind(command, option) not in ("device", "dtype") or f"{option.name} " in said)
    assert tried >= 4


@pytest.mark.slow
@pytest.mark.parametrize("command", FINE)
def test_whatever_is_given_is_refused_or_taken(places, monkeypatch, command):
    """Every value with every option: a refusal is one line and leaves nothing; what is taken ends without a traceback."""
    monkeypatch.setattr("uvicorn.Server.run", lambda *args, **named: None)
    unmask.sample(model=places["model"], chains=2, sweeps=4, length=3, out=places["world"] / "run")
    everything = dict.fromkeys([*NAMELESS, *DEVICES, *DTYPES, *TEXTS, *NUMBERED, *MORE])
    wrong = []
    for option in COMMANDS[command].params:
        for value in [] if getattr(option, "is_flag", False) else everything:
            wrong += _wrong(line_of(command, option, value), places, value in must_refuse(command, option))
    assert wrong == []


def _wrong(words: list[str], places: dict[str, Path], refuses: bool) -> list[str]:
    """What is against the law in how a command ends; what it wrote is removed."""
    before, tried = trees(places), " ".join(word if len(word) < 40 else word[:30] + "..." for word in words)
    try:
        result = given(words, places, seconds=60)
        if result.exit_code == 2:
            refusal(result)
        assert result.exit_code == 2 or not refuses, "taken"
        assert result.exit_code in (0, 1, 2), f"exit code {result.exit_code}"
        assert result.exit_code != 2 or not changed(before, trees(places)), "something was written or lost"
    except (Exception, TooLate) as error:
        return [f"{tried}: {error!r}"[:400]]
    finally:
        for path in sorted(set(trees(places)) - set(before), reverse=True):
            Path(path).unlink() if not Path(path).is_dir() or Path(path).is_symlink() else Path(path).rmdir()
    return []
