"""The laws that every score must keep, checked on models so small that all texts are enumerated.

For a score s, texts x of T tokens and sites S:

    1. probability    if s says that it is one:  sum over x of exp(better s(x)) = 1,
                      over all regular tokens at the sites, all other tokens being given
    2. shares         if s is by token:          s(x) = sum over sites of its shares
    3. better         a text that the model is nearly sure of is not worse than one that it nearly
                      excludes
    4. company        s(x) does not depend on the texts beside it, nor on their order
    5. repetition     s(x) is the same in each call: randomness comes from an option alone
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Annotated

from unmask.common.border.calls import checked
from unmask.common.border.marks import TakesMethod
from unmask.common.errors import InputError
from unmask.common.lazy import torch
from unmask.scoring.scores.score import Score, Scored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float
    from torch import Tensor

    from unmask.models.tabular import TabularMLM
    from unmask.scoring.text_batch import TextBatch

LENGTH = 3
VOCABULARY = 5
SPECIAL = (0, 3)
"""Special tokens, which get most of the model's probability: a score that forgets to normalise over
the regular tokens does not sum to 1.
"""
REGULAR = (1, 2, 4)
GIVEN = 1
"""The position whose token is given where a target is scored in its context."""
SEED = 57
OF_SPECIAL = 2.0
"""Nats that logits of special tokens have more than others."""
SURE = 6.0
"""Nats by which a sure model prefers one token at each position."""
EXACT = 1e-9
"""Rounding of sums of 27 probabilities and of batches of other sizes, in float64, with room."""


@checked
def check_score(
    score: Annotated[Score | str, TakesMethod("unmask.scoring.scores.score:SCORES")],
) -> None:
    """Test that a score keeps the laws of scores, on models whose texts can be enumerated.

    Raises AssertionError with a sentence that says what is broken.

    Parameters:
        score: The score with its options, or a name, also of own code: my.py:Mine.

    >>> unmask.testing.check_score(unmask.AnyOrder(orders=8))
    """
    assert isinstance(score, Score)  # `checked` turned a name into an object
    _check_facts(score)
    model = _random_model()
    texts = _all_texts()
    whole = _batch(texts)
    in_context = _batch([text for text in texts if text[GIVEN] == REGULAR[0]], given=[GIVEN])
    for batch, what in ((whole, "whole texts"), (in_context, "a target in its context")):
        scored = _computed(score, model, batch)
        _check_shares(score, scored)
        _check_company(score, model, batch, scored.values)
        if score.probability:
            _check_probability(score, scored.values, what)
    _check_better(score)


def _check_facts(score: Score) -> None:
    """The facts that a score states about itself."""
    name = score.name
    if score.better not in (1, -1):
        raise AssertionError(
            f"score {name} does not say which values are better: better is {score.better!r}, give"
            " 1 (higher) or -1 (lower)"
        )
    if not score.definition:
        raise AssertionError(
            f"score {name} has no definition: begin its docstring with its formula"
        )
    cost = score.cost(LENGTH)
    if not isinstance(cost, int) or cost < 0:
        raise AssertionError(f"score {name} costs {cost!r} passes: cost returns a whole number")


def _check_shares(score: Score, scored: Scored) -> None:
    """A score by token is the sum of its shares."""
    if not score.by_token:
        return
    assert scored.by_site is not None  # `_computed` has checked it
    difference = float((scored.by_site.double().sum(1) - scored.values.double()).abs().max())
    if not difference <= EXACT:
        raise AssertionError(
            f"score {score.name} is by token, but its shares do not add up to it: they differ by"
            f" {difference:.3g} nats"
        )


def _check_company(
    score: Score, model: TabularMLM, batch: TextBatch, values: Float[Tensor, " n"]
) -> None:
    """A text has the same score in each call, alone, and beside other texts in another order."""
    again = _computed(score, model, batch).values
    _refuse_difference(score, again, values, "changes from call to call: draw from a seed alone")
    company = "depends on the texts beside it: compute each text by itself"
    backwards = list(range(len(batch)))[::-1]
    reversed_values = _computed(score, model, batch.part(backwards)).values
    _refuse_difference(score, reversed_values, values[backwards], company)
    for row in (0, len(batch) - 1):
        alone = _computed(score, model, batch.part([row])).values
        _refuse_difference(score, alone, values[[row]], company)


def _refuse_difference(
    score: Score, values: Float[Tensor, " n"], others: Float[Tensor, " n"], what: str
) -> None:
    """Raise if two computations of the same scores differ."""
    if not torch.allclose(values.double(), others.double(), rtol=0, atol=EXACT, equal_nan=True):
        raise AssertionError(f"score {score.name} {what}")


def _check_probability(score: Score, values: Float[Tensor, " n"], what: str) -> None:
    """A score that says that it is a probability sums to 1 over all texts."""
    total = float((score.better * values.double()).exp().sum())
    if not abs(total - 1) <= EXACT:
        raise AssertionError(
            f"score {score.name} says that it is a probability, but over all {len(values)} texts of"
            f" a tiny model it sums to {total:.6g} for {what}"
        )


def _check_better(score: Score) -> None:
    """The text that a model is nearly sure of is not the worse one."""
    likely, unlikely = [REGULAR[0]] * LENGTH, [REGULAR[1]] * LENGTH
    scored = _computed(score, _sure_model(), _batch([likely, unlikely]))
    of_likely, of_unlikely = (score.better * scored.values.double()).tolist()
    if of_likely < of_unlikely:
        values = "higher" if score.better > 0 else "lower"
        raise AssertionError(
            f"score {score.name} says that {values} values are better, but a text that the model is"
            " nearly sure of has a worse one than a text that it nearly excludes"
        )


def _computed(score: Score, model: TabularMLM, batch: TextBatch) -> Scored:
    """The score of a batch."""
    try:
        (scored,) = score.computation([score], model, batch, None).values()
    except InputError as error:
        raise AssertionError(str(error)) from error
    if not bool(scored.values.isfinite().all()):
        raise AssertionError(
            f"score {score.name} is not finite for a text to which the model gives a probability"
        )
    return scored


def _all_texts() -> list[list[int]]:
    """All texts of regular tokens."""
    return [list(text) for text in product(REGULAR, repeat=LENGTH)]


def _batch(texts: Sequence[Sequence[int]], given: Sequence[int] = ()) -> TextBatch:
    """Texts whose tokens are scored, without those at the positions `given`."""
    from unmask.scoring.text_batch import TextBatch

    free = [position for position in range(LENGTH) if position not in given]
    sites = torch.tensor([free] * len(texts))
    return TextBatch.of(torch.tensor(texts), sites)


def _random_model() -> TabularMLM:
    """Random conditionals, which come from no joint, with most of their mass on special tokens."""
    from unmask.models.tabular import TabularMLM

    model = TabularMLM.random(VOCABULARY, LENGTH, SEED)
    model.table[..., list(SPECIAL)] += OF_SPECIAL
    model.special_ids = SPECIAL
    return model


def _sure_model() -> TabularMLM:
    """The same token is likely everywhere, whatever is revealed."""
    model = _random_model()
    model.table[...] = 0.0
    model.table[..., REGULAR[0]] = SURE
    return model
