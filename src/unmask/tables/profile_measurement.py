"""The measurement of a model's dependence profile (`unmask.tables.profile`) on texts.

In every text a random number of tokens, from 2 to all, is hidden at random, and one hidden site i
is chosen. Each of its likeliest tokens is put there in turn. For such tokens a, with q_i
renormalised over them, and for other hidden sites j,

    I_ij = sum_a q_i(a) KL(q_j(. | x_i = a) || m_j) = H(m_j) - sum_a q_i(a) H(q_j(. | x_i = a))
    m_j  = sum_a q_i(a) q_j(. | x_i = a)

This takes a pass per token a, and two passes with all hidden sites masked: one for the entropies
H_i and H_j, one for q_i.
i is random, so that the mean of I_ij over pairs at one distance is that of (I_ij + I_ji) / 2.

    f(d) = mean I_ij / mean min(H_i, H_j) at distance d

Fewer tokens see less of a site: I_ij is at most log of their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask import __version__
from unmask.common.batches import of_one_key
from unmask.common.errors import InputError
from unmask.common.formats import how_many
from unmask.models.conditional_model import ConditionalModel
from unmask.models.masked_lm import MaskedLM
from unmask.runs.progress import Progress
from unmask.tables.conditionals import Conditionals, logit_rows, regular_tokens
from unmask.tables.profile import USUAL_CANDIDATES, DependenceProfile

NEAR = 4  # sites j up to this many tokens from i come first
MOST_OTHERS = 16  # sites j of one site i; beyond the near ones they are random
LEAST_LOG_Q = -1e4  # bounds log q from below, so that q log q is 0 where q is 0
LEAST_ENTROPY = 1e-12  # in nats, so that no information over no entropy is 0
FEWEST_PAIRS = 20  # pairs of neighbours that a profile needs
ENOUGH = 100  # pairs that a distance needs to have a value of its own
TEXTS_AT_ONCE = 32
SEED = 0  # of the random sites
DECIMALS = 6  # of the numbers that a profile's file keeps


class Row(NamedTuple):
    """A text as token ids, and which of them may be hidden: two or more regular ones."""

    ids: list[int]
    free: list[bool]


def readable_rows(model: MaskedLM, texts: Iterable[str], most: int) -> tuple[list[Row], int]:
    """Up to `most` texts with 2 regular tokens or more, cut to what the model takes; and the
    number of texts that were passed over.
    """
    special = {*model.special_ids, model.mask_id}
    rows: list[Row] = []
    skipped = 0
    _, after = model.around()
    for text in texts:
        if len(rows) == most:
            break
        try:
            ids = model.words.encode(text)
        except InputError:
            skipped += 1
            continue
        if model.max_length is not None and len(ids) > model.max_length:
            ids = [*ids[: model.max_length - len(after)], *after]
        free = [i not in special for i in ids]
        if sum(free) < 2:
            skipped += 1
        else:
            rows.append(Row(ids, free))
    return rows, skipped


def profile_of(
    model: MaskedLM,
    rows: Sequence[Row],
    name: str,
    candidates: int = USUAL_CANDIDATES,
    progress: Progress | None = None,
    skipped: int = 0,
) -> DependenceProfile:
    """The profile of a model on texts.

    name        of the texts
    candidates  tokens that are put at a site
    skipped     texts that were left out
    """
    tried = min(candidates, len(model.regular_ids))
    sums = SumsByDistance.zeros(max(len(row.ids) for row in rows))
    draw = torch.Generator().manual_seed(SEED)
    most = min(TEXTS_AT_ONCE, logit_rows(model, tried * MOST_OTHERS))
    if progress:
        progress(0, len(rows), "texts")
    for batch in of_one_key(rows, lambda row: len(row.ids), most):
        ids = torch.tensor([row.ids for row in batch], device=model.device)
        free = torch.tensor([row.free for row in batch], device=model.device)
        add_pairs(sums, model, ids, random_sites(free, draw), tried)
        if progress:
            progress(sums.texts, len(rows), "texts")
    _, _, pairs = sums.totals
    neighbours = pairs[1]
    if neighbours < FEWEST_PAIRS:
        raise InputError(
            f"fewer than {FEWEST_PAIRS} pairs of hidden neighbours in"
            f" {how_many(len(rows), 'text')} ({name})",
            use="give more texts",
        )
    information, entropy, pairs = sums.totals[:, 1 : sums.longest + 1]
    at_least_one = pairs.clamp(min=1)
    measurement = {
        "measured": datetime.now(UTC).date().isoformat(),
        "unmask": __version__,
        "data": name,
        "dtype": str(model.dtype).removeprefix("torch."),
        "candidates": tried,
        "seed": SEED,
        "skipped_texts": skipped,
        "mass_of_candidates": round(sums.mass / sums.texts, 4),
        "pairs": [int(n) for n in pairs.tolist()],
        "information": _rounded(information / at_least_one),
        "smaller_entropy": _rounded(entropy / at_least_one),
    }
    return DependenceProfile(
        by_distance=sums.by_distance(),
        fingerprint=model.fingerprint,
        n_texts=len(rows),
        measurement=measurement,
    )


def _rounded(numbers: Tensor) -> list[float]:
    return [round(number, DECIMALS) for number in numbers.tolist()]


class RandomSites(NamedTuple):
    """What is hidden in n texts of T tokens.

    hidden   2 or more free positions of each text
    chosen   one of these, the site i
    chance   random numbers from 0 to 1, by which the sites j are chosen
    """

    hidden: Bool[Tensor, "n T"]
    chosen: Int[Tensor, " n"]
    chance: Float[Tensor, "n T"]


def random_sites(free: Bool[Tensor, "n T"], draw: torch.Generator) -> RandomSites:
    """Random sites among the `free` positions of each text, of which it has two or more."""
    n, _ = free.shape
    score = torch.rand(free.shape, generator=draw).to(free.device)
    share = torch.rand(n, generator=draw).to(free.device)
    chance = torch.rand(free.shape, generator=draw).to(free.device)
    sizes = 2 + (share * (free.sum(1) - 1)).long()  # uniform from 2 to all, since share < 1
    order = score.masked_fill(~free, 2.0).argsort(1)  # free positions first: their scores are < 1
    rank = order.argsort(1)  # the place of each position in `order`
    return RandomSites(hidden=rank < sizes.unsqueeze(1), chosen=rank.argmin(1), chance=chance)


@dataclass
class SumsByDistance:
    """Sums over pairs of sites, and over texts.

    totals  for distances 0 to D - 1: the sums of informations and of smaller entropies in nats,
            and the number of pairs
    mass    sum over texts of the mass that q_i puts on the tokens tried
    texts   how many
    """

    totals: Float[Tensor, "3 D"]
    mass: float = 0.0
    texts: int = 0

    @classmethod
    def zeros(cls, distances: int) -> SumsByDistance:
        return cls(torch.zeros((3, distances), dtype=torch.float64))

    def add(
        self,
        distance: Int[Tensor, " m"],
        information: Float[Tensor, " m"],
        entropy: Float[Tensor, " m"],
    ) -> None:
        """Add m pairs: their distances, informations, and the smaller of both entropies."""
        ones = torch.ones_like(entropy, dtype=torch.float64)
        values = torch.stack([information.double(), entropy.double(), ones])
        self.totals.index_add_(1, distance.cpu(), values.cpu())

    @property
    def longest(self) -> int:
        """The largest distance that has a pair; 0 if there is none."""
        pairs = self.totals[2]
        return int(pairs.nonzero().max()) if bool(pairs.any()) else 0

    def by_distance(self) -> tuple[float, ...]:
        """f from distance 1 to the largest; a distance with few pairs takes in the nearest,
        until there are enough.
        """
        ratios: list[float] = []
        for distance in range(1, self.longest + 1):
            for width in range(self.longest + 1):
                near = self.totals[:, max(1, distance - width) : distance + width + 1]
                information, entropy, pairs = near.sum(1).tolist()
                if pairs >= ENOUGH:
                    break  # else the widest takes in all distances
            ratio = information / max(entropy, LEAST_ENTROPY)
            ratios.append(round(max(0.0, ratio), DECIMALS))
        return tuple(ratios)


@torch.no_grad()
def add_pairs(
    sums: SumsByDistance,
    model: ConditionalModel,
    ids: Int[Tensor, "n T"],
    sites: RandomSites,
    candidates: int,
) -> None:
    """Add the pairs of texts of one length: the chosen site i of each with other hidden sites j,
    the near ones first, then in the order of `chance`.
    """
    n = len(ids)
    i = sites.chosen.unsqueeze(1)
    rows = ids.masked_fill(sites.hidden, model.mask_id)
    others = sites.hidden.scatter(1, i, False)
    distance = (torch.arange(ids.shape[1], device=ids.device) - i).abs()
    order = sites.chance - 2.0 * (distance <= NEAR)  # below 0 for near sites
    order = torch.where(others, order, torch.inf)
    most = min(MOST_OTHERS, int(others.sum(1).max()))
    j = order.topk(most, 1, largest=False).indices
    is_site = others.gather(1, j)  # where a text has fewer sites, j goes on with other positions
    conditionals = Conditionals(model, regular_tokens(model))

    log_q = conditionals.distributions(rows, torch.cat([j, i], 1))
    entropy = torch.special.entr(log_q.exp()).sum(2)
    smaller_entropy = torch.minimum(entropy[:, :-1], entropy[:, -1:])

    q_i = conditionals.distributions(rows, i)[:, 0].exp()
    weight, tokens = q_i.topk(candidates, 1)
    sums.mass += float(weight.sum())
    weight = weight / weight.sum(1, keepdim=True)

    tried = rows.repeat_interleave(candidates, 0)  # a row per text and token
    every_row = torch.arange(len(tried), device=ids.device)
    chosen = sites.chosen.repeat_interleave(candidates)
    tried[every_row, chosen] = tokens.flatten()
    log_q_j = conditionals.distributions(tried, j.repeat_interleave(candidates, 0))
    log_q_j = log_q_j.unflatten(0, (n, candidates))
    q_j = log_q_j.exp()
    # n texts, c candidates at i, p sites j, v tokens at j
    entropies = -torch.einsum("ncpv,ncpv->ncp", q_j, log_q_j.clamp(min=LEAST_LOG_Q))
    mean_entropy = torch.einsum("nc,ncp->np", weight, entropies)
    mean_q_j = torch.einsum("nc,ncpv->npv", weight, q_j)
    information = torch.special.entr(mean_q_j).sum(2) - mean_entropy
    sums.add(distance.gather(1, j)[is_site], information[is_site], smaller_entropy[is_site])
    sums.texts += n
