"""Entropy-bound unmasking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.common.lazy import torch
from unmask.common.methods.method import method
from unmask.sampling.decoders.revealing import Bounded, Observed

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from torch import Tensor

    from unmask.sampling.on_target import DecoderOnTarget

PARTS = 32
"""Into how many parts a round of the search for the least bound cuts what is left."""
ROUNDS = 4
"""Rounds of that search: it ends with 1 / 32^4 of the sum of the entropies, one in a million."""


@method
class EntropyBound(Bounded):
    """A new text: the blanks of lowest entropy filled, as many as stay under a bound.

        H_1 <= H_2 <= ... entropies of the blanks' conditionals;   fill 1 ... m, the largest m with
                sum_{i<=m} H_i - H_m <= gamma

    The blanks that are filled together can hardly depend on each other: drawing m tokens from the
    product of their conditionals loses their total correlation, TC <= sum_i H_i - max_i H_i, so
    each step loses at most gamma nats. gamma = 0 fills one blank per step, the one of lowest
    entropy (and with it those that are certain). Given a number of passes, each pass takes the
    smallest gamma with which the passes that are left suffice if entropies stay as they are.

    >>> decoder = unmask.EntropyBound(gamma=0.5)
    >>> generation = unmask.generate("A [MASK] [MASK] sat.", decoder=decoder, n_texts=2)
    >>> generation.settings.decoder.name, len(generation.texts)
    ('entropy-bound', 2)
    """

    name = "entropy-bound"
    label = "entropy-bound"
    colour = "#44AA99"
    place = 9
    step_passes = "`passes`, or as many as `gamma` needs, at most T"
    chooses = (
        "the blanks of lowest entropy whose entropies without the largest sum to gamma at most"
    )

    def choose(self, on: DecoderOnTarget, observed: Observed) -> Bool[Tensor, "n F"]:
        """The largest set of lowest entropies that stays under the bound."""
        entropy = torch.where(observed.blank, observed.entropy, torch.inf)
        if observed.passes_left is None:
            bound = torch.full_like(entropy[:, :1], self.limit)
        else:
            bound = least_bound(entropy, observed.passes_left)
        return under_bound(entropy, bound)


def under_bound(entropy: Float[Tensor, "n F"], gamma: Float[Tensor, "n 1"]) -> Bool[Tensor, "n F"]:
    """The largest set of lowest entropies whose sum without its largest is at most gamma;
    infinite ones are never in it.
    """
    rising, order = entropy.sort(dim=1, stable=True)
    before = rising.cumsum(1).roll(1, 1)  # the sum of those that are lower,
    before[:, 0] = 0.0  # and of none for the lowest
    chosen = (before <= gamma) & rising.isfinite()
    nowhere = torch.zeros_like(entropy, dtype=torch.bool)
    return nowhere.scatter(1, order, chosen)


def least_bound(entropy: Float[Tensor, "n F"], passes: int) -> Float[Tensor, "n 1"]:
    """The smallest gamma, to one part in a million, that parts the finite entropies into at
    most this many sets.

    Each round tries PARTS values between the bounds at once.
    """
    rising = entropy.sort(dim=1).values
    finite = rising.isfinite()
    low = torch.zeros_like(rising[:, :1])
    high = torch.where(finite, rising, 0.0).sum(1, keepdim=True)
    shares = torch.arange(1, PARTS, dtype=rising.dtype, device=rising.device) / PARTS
    for _ in range(ROUNDS):
        between = low + (high - low) * shares
        tried = torch.cat([between, high], 1)  # `high` itself, which fits, not rounded
        fits = _sets(rising, finite, tried) <= passes
        first = fits.byte().argmax(1, keepdim=True)  # the smallest that fits
        one_before = tried.gather(1, (first - 1).clamp(min=0))
        low = torch.where(first > 0, one_before, low)
        high = tried.gather(1, first)
    return high


def _sets(
    rising: Float[Tensor, "n F"], finite: Bool[Tensor, "n F"], gamma: Float[Tensor, "n g"]
) -> Float[Tensor, "n g"]:
    """Into how many sets each bound parts the entropies, lowest first."""
    spent = torch.full_like(gamma, torch.inf)  # by the set, before the entropy that comes next
    sets = torch.zeros_like(gamma)
    for column in range(rising.shape[1]):
        is_finite = finite[:, column : column + 1]
        begins = (spent > gamma) & is_finite
        sets = sets + begins
        spent = torch.where(begins, 0.0, spent) + rising[:, column : column + 1]
    return sets
