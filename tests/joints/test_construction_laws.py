"""Every construction keeps the laws of constructions, and wrong ones are found out."""

import pytest
import torch

import unmask
from unmask.common.errors import InputError
from unmask.joints.constructions.construction import CONSTRUCTIONS
from unmask.testing import check_construction


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_a_construction_keeps_the_laws(name):
    check_construction(CONSTRUCTIONS[name]())


@pytest.mark.parametrize(
    "construction",
    [
        unmask.HCB(pivot=[1, 0]),
        unmask.Family(alpha=0.3, restart=0.4),
        unmask.Balanced(tolerance=1e-8),
    ],
    ids=lambda one: one.name,
)
def test_so_do_options(construction):
    if isinstance(construction, unmask.HCB):  # its pivot is of two blanks
        with pytest.raises(AssertionError, match="pivot .* has 2 tokens for 3 blanks"):
            check_construction(construction)
    else:
        check_construction(construction)


# ---- controls ----


@unmask.method
class Unnormalised(unmask.Construction):
    """The product of the conditionals, not normalised."""

    def derive(self, tables):
        return sum(tables.log_q)


@unmask.method
class NotANumber(unmask.Construction):
    """NaN at every filling."""

    def derive(self, tables):
        return tables.log_q[0] * torch.nan


@unmask.method
class OfPlaces(unmask.Construction):
    """The first candidate of every blank is likelier than the others."""

    keeps_compatible = False

    def derive(self, tables):
        cells = sum(tables.log_q).clone()
        cells[(0,) * tables.sites] += 1
        return cells.flatten().log_softmax(0).reshape(tables.shape)


@unmask.method
class Boastful(unmask.Construction):
    """The independent joint, which says that it keeps compatible tables."""

    def derive(self, tables):
        return unmask.Product().derive(tables).dense()


@unmask.method
class InPlace(unmask.Construction):
    """The independent joint, which writes into the tables."""

    keeps_compatible = False

    def derive(self, tables):
        dense = unmask.Product().derive(tables).dense()
        tables.log_q[0].fill_(0)
        return dense


@unmask.method
class Flattened(unmask.Construction):
    """The independent joint, in one row."""

    def derive(self, tables):
        return unmask.Product().derive(tables).dense().flatten()


@unmask.method
class Failing(unmask.Construction):
    """No joint at all."""

    def derive(self, tables):
        return {}["nothing"]


@pytest.mark.parametrize(
    ("construction", "sentence"),
    [
        (Unnormalised(), "the probabilities of construction unnormalised sum to"),
        (NotANumber(), "construction not-anumber returns NaN"),
        (OfPlaces(), "of-places depends on the order of the candidates"),
        (Boastful(), "boastful says that it keeps compatible tables, and does not"),
        (InPlace(), "in-place changes the tables"),
        (Flattened(), r"returns a tensor of torch.float64 and shape \(16,\)"),
        (Failing(), "construction failing fails: KeyError: 'nothing'"),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_a_wrong_construction_is_told_what_is_broken(construction, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_construction(construction)


def without_sum(tables):
    return tables.log_q[0].new_zeros(tables.shape)


def even(tables):
    return without_sum(tables).flatten().log_softmax(0).reshape(tables.shape)


def test_a_plain_function_is_checked_too():
    check_construction(even)
    with pytest.raises(AssertionError, match="of construction without_sum sum to"):
        check_construction(without_sum)


def test_a_failure_has_its_file_and_line():
    with pytest.raises(AssertionError, match=r"\(test_construction_laws.py line \d+\): mend it"):
        check_construction(Failing())


def test_a_class_without_its_decorator_is_refused():
    class Bare(unmask.Construction):
        def derive(self, tables):
            return even(tables)

    with pytest.raises(InputError, match="is a class without its decorator"):
        check_construction(Bare())


def test_the_same_joint_that_says_what_it_is_keeps_the_laws():
    @unmask.method
    class Modest(Boastful):
        """The independent joint."""

        keeps_compatible = False

    check_construction(Modest())
