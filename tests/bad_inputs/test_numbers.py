"""Every numeric option of every command, given what is no number of its kind: generated from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from command_lines import FINE, commands

WRONG = {
    int: ["1.5", "nan", "", "1" * 30, "-" + "1" * 30, "1" * 5000, "²"],
    float: ["nan", "inf", "", "1e300", "-1e300", "1" * 5000, "²"],
}


def cases() -> Iterator[tuple[str, str, str]]:
    for name, one in commands():
        for option in one.params:
            for value in WRONG.get(option.type_descriptor.annotation, []) if option.opts[0].startswith("-") else ():
                yield name, option.opts[0], value


CASES = list(cases())


def test_there_are_enough_of_them_and_every_command_is_there():
    assert len(CASES) > 250
    numeric = {name for name, _, _ in CASES}
    assert numeric <= set(FINE)


@pytest.mark.parametrize(("command", "option", "value"), CASES, ids=[f"{c} {o}={v[:9]}" for c, o, v in CASES])
def test_what_is_no_number_of_its_kind_is_refused(refused, command, option, value):
    said = refused(f"{FINE[command]} {option}={value or chr(34) * 2}")
    name = option.lstrip("-")
    assert any(spelled in said for spelled in (name, name.replace("-", "_"), name.replace("-", " ")))
