"""One function makes values plain, and one writes the numbers that JSON has not."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from unmask.common.files import as_json
from unmask.common.plain import in_json, plain
from unmask.common.results import Result

INF, NAN = math.inf, math.nan


@dataclass(frozen=True)
class Inner:
    KEYS = ("a", "renamed=b")
    a: float
    b: tuple[int, ...]


@dataclass(frozen=True)
class Outer(Result):
    inner: Inner
    path: Path
    named: object


class Named:
    name = "by its name"


def test_a_value_is_plain_and_keeps_its_numbers():
    made = plain(Outer(Inner(INF, (1, 2)), Path("a"), Named()))
    assert made == {
        "inner": {"a": INF, "renamed": [1, 2]},
        "path": "a",
        "named": "by its name",
    }
    assert plain([Outer(Inner(1.0, ()), Path("a"), None)])[0]["inner"]["a"] == 1.0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (NAN, "NaN"),
        (INF, "Infinity"),
        (-INF, "-Infinity"),
        (np.float32("nan"), "NaN"),
        (np.array([1.0, NAN]), [1.0, "NaN"]),
        (torch.tensor([-INF, 2.0]), ["-Infinity", 2.0]),
        ({1: (NAN, None, True)}, {"1": ["NaN", None, True]}),
        ("NaN", "NaN"),
        (2, 2),
    ],
)
def test_numbers_that_json_has_not_are_words(value, expected):
    assert in_json(value) == expected
    assert json.loads(as_json(value)) == expected


def test_float_reads_the_words():
    for number in (INF, -INF):
        assert float(in_json(number)) == number
    assert math.isnan(float(in_json(NAN)))


def test_a_number_that_is_not_known_is_a_word_in_a_diagnosis_too():
    """The negative control of one spelling: no result writes null for NaN by itself."""
    from unmask.sampling.chains.chain_statistics import Functional

    numbers = {key: NAN for key in Functional.__dataclass_fields__}
    written = as_json(Functional(**(numbers | {"name": "energy", "length": 4})))
    assert '"NaN"' in written
    assert "null" not in written
