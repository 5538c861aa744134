"""The registry of constructions: names, numbers in names, options; and that each entry tells
the truth about its rule.
"""

import pytest
import torch

from support.joint_cases import random_tables
from unmask.common.border.values import accepted
from unmask.common.errors import InputError
from unmask.joints.constructions.construction import Rules, all_constructions
from unmask.joints.deriving import derive, derive_all
from unmask.joints.registry import CONSTRUCTIONS, DEFAULT, named


def all_named(given):
    """The constructions that a call gets of this argument."""
    return accepted("constructions", given, Rules)


@pytest.mark.parametrize("construction", all_constructions(), ids=lambda one: one.name)
def test_every_construction_derives_a_joint_of_its_own_name(construction):
    joint = derive(random_tables((2, 3), 1), construction)
    assert joint.name == construction.name == CONSTRUCTIONS[construction.name].name
    assert construction.label
    assert construction.meaning()


def test_no_two_constructions_look_alike_in_a_figure():
    looks = {(c.style.colour, c.style.marker) for c in CONSTRUCTIONS.values()}
    assert len(looks) == len(CONSTRUCTIONS)
    assert len({c.label for c in CONSTRUCTIONS.values()}) == len(CONSTRUCTIONS)
    assert DEFAULT in CONSTRUCTIONS


def test_a_number_in_a_name_is_the_member_s():
    tables = random_tables((2, 4), 6)
    for alpha, name in ((0.0, "arnold_gokhale"), (0.5, "balanced"), (1.0, "pseudo_gibbs")):
        joint = derive(tables, f"family:{alpha}", tolerance=1e-9)
        assert joint.report["alpha"] == alpha
        assert joint.name == f"family:{alpha:g},0"
        torch.testing.assert_close(
            joint.dense(), derive(tables, name, tolerance=1e-9).dense(), rtol=0, atol=1e-7
        )
    between = derive(tables, "family:0.25").dense()
    assert float((between - derive(tables, "balanced").dense()).abs().max()) > 1e-3


def test_names_with_commas_and_numbers_are_told_apart():
    assert [c.name for c in all_named("product, family:0.5,chain")] == [
        "product",
        "family:0.5,0",
        "chain",
    ]
    assert [c.name for c in all_named("family:0.50,.25,mrf,family:1,0.1")] == [
        "family:0.5,0.25",
        "mrf",
        "family:1,0.1",
    ]
    assert [c.name for c in all_named("all")] == [n for n in CONSTRUCTIONS if n != "family"]
    assert [c.name for c in all_named(["mrf", "hcb"])] == ["mrf", "hcb"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "balance",
            (
                r"construction 'balance' is unknown: did you mean balanced\? Use one of product,"
                r" .*family"
            ),
        ),
        ("family:", "'family:' is not understood"),
        ("family:2", "alpha 2.0 is out of range"),
        ("family:nan", "alpha nan is out of range"),
        ("family:0.5,1.5", "lambda 1.5 is out of range"),
        ("family:1,0,0", "is not understood: give one or two numbers, such as family:0.5,0.25"),
        (3, "construction 3 is unknown"),
    ],
)
def test_unknown_names_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        named(given, "construction")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("mrf,mrf", "constructions names mrf twice"),
        ([], "constructions is empty: name one or more of product"),
        ("mrf,", "constructions '' is unknown"),
    ],
)
def test_lists_that_name_nothing_or_one_twice_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        all_named(given)


def test_an_option_that_a_construction_does_not_take_is_refused():
    tables = random_tables((2, 3), 1)
    with pytest.raises(InputError, match="construction mrf has no option 'steps': it takes none"):
        derive(tables, "mrf", steps=3)
    with pytest.raises(
        InputError, match="construction hcb has no option 'order': its options are pivot"
    ):
        derive_all(tables, ["hcb"], {"hcb": {"order": "mean"}})
