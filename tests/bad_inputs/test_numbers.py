"""Every numeric option of every command, given what is no number of its kind: generated from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from unmask.cli.app import command
from unmask.options import VERBS

FINE = {
    "fill": "fill 'the [MASK] sat' --model {model}",
    "compare": "compare 'the [MASK] [MASK]' --model {model}",
    "dependence": "dependence 'the [MASK] [MASK]' --model {model}",
    "mutants": "mutants 'the cat sat' --positions 2 --alphabet the,cat,dog --model {model}",
    "evaluate": "evaluate --data {world}/texts.txt --out {new} --model {model} --pairs 2",
    "score": "score 'the cat sat' --model {model}",
    "sample": "sample --out {new} --model {model} --chains 2 --sweeps 1 --length 3",
    "train": "train {world}/texts.txt --out {new} --device cpu --steps 1 --cache {new}-cache",
    "translate": "translate {world}/texts.txt --model {model}",
    "serve": "serve --model {model}",
    "lab dictionary": "lab dictionary --out {new}",
    "lab masking": "lab masking --out {new}",
    "lab dependence": "lab dependence --out {new}",
    "lab parallel": "lab parallel --out {new}",
    "lab stutter": "lab stutter --out {new}",
    "lab schedule": "lab schedule --out {new}",
    "lab all": "lab all --out {new}",
}
"""A command line of each command that is right but for the option that is tried."""
WRONG = {int: ["1.5", "nan", "", "1" * 30, "-" + "1" * 30], float: ["nan", "inf", "", "1e300", "-1e300"]}


def commands() -> Iterator[tuple[str, object]]:
    for name in VERBS:
        found = command(name)
        inner = getattr(found, "commands", None)
        yield from [(name, found)] if inner is None else [(f"{name} {part}", one) for part, one in inner.items()]


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
