"""The laws that every construction must keep, checked on blocks so small that every filling is
enumerated.

For the joint mu that a construction derives from tables:

    1. distribution   mu(x) >= 0 is a number for every filling x, and sum_x mu(x) = 1
    2. permutation    with the candidates of a blank in another order, every filling keeps its
                      probability
    3. compatible     if the tables are the conditionals of one joint p, then mu = p; a construction
                      that need not keep this says so: keeps_compatible = False
    4. tables         the tables are afterwards what they were
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from unmask.common.border.calls import checked
from unmask.common.border.marks import TakesMethod
from unmask.common.errors import InputError
from unmask.common.lazy import torch
from unmask.joints.constructions.construction import WHERE, Construction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from unmask.joints.joint import Joint
    from unmask.models.tabular import TabularMLM
    from unmask.tables.unary import Tables

VOCABULARY = 4
BLOCKS = ((0, 1), (0, 1, 2))
"""The positions of the blocks: a pair, and three blanks."""
SEED = 60
ROUNDING = 1e-6
"""How far a sum of at most 64 probabilities in float64 may be from 1, with room."""
NEAR = 1e-3
"""Total variation that counts as the same joint: ten times the tolerance of constructions that are
iterated.
"""
ORDER = (2, 0, 3, 1)
"""Another order of the vocabulary, in which no token keeps its place."""


@checked
def check_construction(
    construction: Annotated[Construction | str, TakesMethod(WHERE)],
) -> None:
    """Check that a construction keeps the laws of constructions, on tiny tables.

    Raises AssertionError with a sentence that says what is broken.

    Parameters:
        construction: The construction with its options, or a name, also of own code: my.py:Mine;
            or a function from tables to a joint, which cannot say whether it keeps law 3.

    >>> unmask.testing.check_construction(unmask.Family(alpha=0.75, restart=0.1))
    """
    assert isinstance(construction, Construction)  # `checked` turned a name into an object
    from unmask.models.tabular import TabularMLM

    for block in BLOCKS:
        model = TabularMLM.random(VOCABULARY, len(block), SEED)
        _check_distribution(construction, model, block)
        _check_permutation(construction, model, block)
        if construction.keeps_compatible:
            _check_compatible(construction, block)


def _check_distribution(
    construction: Construction, model: TabularMLM, block: Sequence[int]
) -> None:
    """Laws 1 and 4, over the whole vocabulary and over some of its tokens."""
    for tokens in (range(VOCABULARY), (3, 0, 1)):
        tables = _tables(model, block, tokens)
        before = [log_q.clone() for log_q in tables.log_q]
        mu = _dense(construction, tables).exp()
        total = float(mu.sum())
        if bool(mu.isnan().any()):
            raise AssertionError(f"{construction.name} has probabilities that are NaN")
        if not abs(total - 1) <= ROUNDING:
            raise AssertionError(
                f"the probabilities of {construction.name} sum to {total:.6g}, and not to 1, over"
                f" {len(block)} blanks of {len(tables.candidates[0])} candidates"
            )
        for log_q, was in zip(tables.log_q, before, strict=True):
            if not torch.equal(log_q, was):
                raise AssertionError(f"{construction.name} changes the tables that it is given")


def _check_permutation(construction: Construction, model: TabularMLM, block: Sequence[int]) -> None:
    """Law 2."""
    plain = _dense(construction, _tables(model, block, range(VOCABULARY))).exp()
    permuted = _dense(construction, _tables(model, block, ORDER)).exp()
    expected = plain
    for axis in range(len(block)):
        expected = expected.index_select(axis, torch.tensor(ORDER))
    apart = _total_variation(expected, permuted)
    if not apart <= NEAR:
        raise AssertionError(
            f"{construction.name} depends on the order of the candidates: with another order the"
            f" joint is {apart:.3g} away in total variation"
        )


def _check_compatible(construction: Construction, block: Sequence[int]) -> None:
    """Law 3."""
    from unmask.models.tabular import TabularMLM

    generator = torch.Generator().manual_seed(SEED)
    shape = (VOCABULARY,) * len(block)
    log_p = torch.randn(shape, generator=generator, dtype=torch.float64)
    p = log_p.flatten().softmax(0).reshape(shape)
    model = TabularMLM.from_joint(p)
    mu = _dense(construction, _tables(model, block, range(VOCABULARY))).exp()
    apart = _total_variation(mu, p)
    if not apart <= NEAR:
        raise AssertionError(
            f"{construction.name} says that it keeps compatible tables, and does not: the tables of"
            f" a joint of {len(block)} blanks give another joint, {apart:.3g} away in total"
            " variation; if that is meant, say keeps_compatible = False"
        )


def _tables(model: TabularMLM, block: Sequence[int], tokens: Sequence[int]) -> Tables:
    """The tables of a block, over these tokens at each blank."""
    from unmask.common.cloze import Cloze
    from unmask.tables.unary import unary_tables

    cloze = Cloze((model.mask_id,) * len(block), tuple(block))
    return unary_tables(model, cloze, [torch.tensor(list(tokens))] * len(block))


def _dense(construction: Construction, tables: Tables) -> Tensor:
    """All log-probabilities; an error of the construction is a law that is broken."""
    from unmask.joints.deriving import derived

    try:
        joint: Joint = derived(tables, construction)
        return joint.dense().double()
    except InputError as error:
        raise AssertionError(f"{construction.name} derives no joint: {error}") from error


def _total_variation(mu: Tensor, nu: Tensor) -> float:
    return 0.5 * float((mu - nu).abs().sum())
