"""Measures the dependence profile of a model (`unmask.tables.profile`) on texts.

In every text a random number of tokens, from 2 to all, is hidden at random, and one hidden site i is chosen. With its likeliest
tokens a put there in turn, and q_i renormalised over them,

    I_ij = sum_a q_i(a) KL(q_j(. | x_i = a) || m_j) = H(m_j) - sum_a q_i(a) H(q_j(. | x_i = a))
    m_j  = sum_a q_i(a) q_j(. | x_i = a)

for other hidden sites j: as many passes as tokens, and one for the entropies H_i. i is random, so that the mean over pairs
(i, j) at one distance is that of the symmetrised information. f(d) = mean I_ij / mean min(H_i, H_j) at distance d. Fewer
tokens see less of a site: I_ij is at most log of their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask import __version__, checks
from unmask.errors import InputError
from unmask.models.conditional_model import ConditionalModel
from unmask.models.load import Model, as_model
from unmask.models.masked_lm import MaskedLM
from unmask.runs.files import user_path
from unmask.runs.lines import plain_texts, source_name
from unmask.runs.outputs import output_file
from unmask.runs.progress import Progress
from unmask.tables.profile import Profile
from unmask.tables.revealing import Conditionals, logit_rows, regular_tokens
from unmask.tables.unary import of_one_key

USUAL_CANDIDATES = 16
NEAR, MOST_OTHERS = 4, 16
"""Sites j of one site i: those up to NEAR tokens away, and random others up to MOST_OTHERS in all. Means are by distance."""
LEAST = -1e4
"""Bound of log q from below, so that q log q is 0 where q is 0."""
Row = tuple[list[int], list[bool]]
"""Ids of a text, and which of its tokens may be hidden: two or more regular ones."""
FEWEST_PAIRS, ENOUGH = 20, 100
"""Pairs of neighbours that a profile needs, and pairs that a distance needs to have a value of its own."""
TEXTS_AT_ONCE = 32


@dataclass
class Sums:
    """Sums over pairs by distance, from 0 on: informations, smaller entropies, pairs; and the mass of the tokens tried."""

    information: Float[Tensor, " D"]
    entropy: Float[Tensor, " D"]
    pairs: Float[Tensor, " D"]
    mass: float = 0.0
    texts: int = 0

    @classmethod
    def empty(cls, distances: int) -> Sums:
        """Of no pair."""
        information, entropy, pairs = torch.zeros((3, distances), dtype=torch.float64)
        return cls(information, entropy, pairs)

    def add(self, distance: Int[Tensor, " m"], information: Float[Tensor, " m"], entropy: Float[Tensor, " m"]) -> None:
        """Pairs at these distances."""
        for kept, values in ((self.information, information), (self.entropy, entropy), (self.pairs, torch.ones_like(entropy))):
            kept.index_add_(0, distance.cpu(), values.double().cpu())

    @property
    def longest(self) -> int:
        """The largest distance that has a pair."""
        return int(self.pairs.nonzero().max()) if bool(self.pairs.any()) else 0

    def by_distance(self) -> tuple[float, ...]:
        """f from distance 1 to the largest; a distance with few pairs takes in the nearest, until there are enough."""
        found = []
        for distance in range(1, self.longest + 1):
            width = 0
            while self._around(self.pairs, distance, width) < ENOUGH and width < self.longest:
                width += 1
            information, entropy = (self._around(sums, distance, width) for sums in (self.information, self.entropy))
            found.append(round(max(0.0, information / max(entropy, 1e-12)), 6))
        return tuple(found)

    def _around(self, sums: Float[Tensor, " D"], distance: int, width: int) -> float:
        return float(sums[max(1, distance - width) : distance + width + 1].sum())


def written_profile(
    model: Model,
    data: str | PathLike[str] | Sequence[str],
    sentences: int,
    candidates: int | None,
    seed: int,
    out: str | PathLike[str] | None,
    progress: Progress | None,
) -> Profile:
    """Measure a profile and write it to `out`."""
    file = None if out is None else output_file("out", out, (data, model), (b'{\n  "by_distance"',))
    profile = measure_profile(as_model(model), data, sentences, candidates, seed, progress)
    if file is not None:
        profile.save(file)
    return profile


def measure_profile(
    model: MaskedLM,
    data: str | PathLike[str] | Sequence[str],
    sentences: int = 2000,
    candidates: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Profile:
    """The profile of a model on the first `sentences` texts that have two known tokens or more."""
    rows, skipped = _readable(model, data, sentences)
    if not rows:
        raise InputError(f"{_named(data)} has no text of two known tokens: give texts of the kind that the model was trained on")
    return profile_of(model, rows, _named(data), candidates, seed, progress, skipped)


def profile_of(
    model: MaskedLM,
    rows: Sequence[Row],
    name: str,
    candidates: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    skipped: int = 0,
) -> Profile:
    """The profile of a model on texts whose sites are given; other tokens are never hidden. `name`: of the texts."""
    tried = min(candidates or USUAL_CANDIDATES, len(model.regular_ids))
    sums = Sums.empty(max(len(ids) for ids, _ in rows))
    draw = torch.Generator().manual_seed(seed)
    most = min(TEXTS_AT_ONCE, logit_rows(model, tried * MOST_OTHERS))
    for group in of_one_key(rows, lambda row: len(row[0]), most):
        ids = torch.tensor([row for row, _ in group], device=model.device)
        free = torch.tensor([sites for _, sites in group], device=model.device)
        measure(model, ids, *hidden_sites(ids, free, draw), tried, sums)
        if progress:
            progress(sums.texts, len(rows), "texts")
    if sums.pairs[1] < FEWEST_PAIRS:
        raise InputError(f"{len(rows):,} texts of {name} have fewer than {FEWEST_PAIRS} pairs of hidden neighbours: give more")
    kept = slice(1, sums.longest + 1)
    about = {
        "measured": datetime.now(UTC).date().isoformat(),
        "unmask": __version__,
        "data": name,
        "dtype": str(model.dtype).removeprefix("torch."),
        "candidates": tried,
        "seed": seed,
        "skipped_texts": skipped,
        "mass_of_candidates": round(sums.mass / sums.texts, 4),
        "pairs": [int(n) for n in sums.pairs[kept].tolist()],
        "information": [round(x, 6) for x in (sums.information / sums.pairs.clamp(min=1))[kept].tolist()],
        "smaller_entropy": [round(x, 6) for x in (sums.entropy / sums.pairs.clamp(min=1))[kept].tolist()],
    }
    return Profile(sums.by_distance(), model.fingerprint, len(rows), about)


@torch.no_grad()
def measure(
    model: ConditionalModel,
    ids: Int[Tensor, "n T"],
    hidden: Bool[Tensor, "n T"],
    site: Int[Tensor, " n"],
    chance: Float[Tensor, "n T"],
    candidates: int,
    sums: Sums,
) -> None:
    """Add the pairs of texts of one length: `site` of each with the hidden positions near it, and others in order of `chance`."""
    n, others = len(ids), hidden.scatter(1, site.unsqueeze(1), False)
    rows = ids.masked_fill(hidden, model.mask_id)
    distance = (torch.arange(ids.shape[1], device=ids.device) - site.unsqueeze(1)).abs()
    first = torch.where(others, chance - 2.0 * (distance <= NEAR), torch.inf)
    most = min(MOST_OTHERS, int(others.sum(1).max()))
    places = first.topk(most, 1, largest=False).indices
    there = others.gather(1, places)
    conditionals = Conditionals(model, regular_tokens(model))
    entropy = torch.special.entr(conditionals.distributions(rows, torch.cat([places, site.unsqueeze(1)], 1)).exp()).sum(2)
    own = conditionals.distributions(rows, site.unsqueeze(1))[:, 0].exp()
    weight, tokens = own.topk(candidates, 1)
    sums.mass += float(weight.sum())
    weight = weight / weight.sum(1, keepdim=True)
    tried = rows.repeat_interleave(candidates, 0)
    tried[torch.arange(len(tried), device=ids.device), site.repeat_interleave(candidates)] = tokens.flatten()
    log_q = conditionals.distributions(tried, places.repeat_interleave(candidates, 0)).unflatten(0, (n, candidates))
    given = log_q.exp()
    after = torch.einsum("nc,ncp->np", weight, -torch.einsum("ncpv,ncpv->ncp", given, log_q.clamp(min=LEAST)))
    information = torch.special.entr(torch.einsum("nc,ncpv->npv", weight, given)).sum(2) - after
    sums.add(distance.gather(1, places)[there], information[there], torch.minimum(entropy[:, :-1], entropy[:, -1:])[there])
    sums.texts += n


def hidden_sites(
    ids: Int[Tensor, "n T"], free: Bool[Tensor, "n T"], draw: torch.Generator
) -> tuple[Bool[Tensor, "n T"], Int[Tensor, " n"], Float[Tensor, "n T"]]:
    """Random hidden sets of 2 or more of the `free` positions of each text, one position of each, and random numbers."""
    count = free.sum(1)
    score = torch.rand(ids.shape, generator=draw).to(ids.device).masked_fill(~free, 2.0)
    hide = 2 + (torch.rand(len(ids), generator=draw).to(ids.device) * (count - 1)).long()
    rank = score.argsort(1).argsort(1)
    return rank < hide.unsqueeze(1), rank.argmin(1), torch.rand(ids.shape, generator=draw).to(ids.device)


def _readable(model: MaskedLM, data: str | PathLike[str] | Sequence[str], most: int) -> tuple[list[Row], int]:
    """Texts with 2 regular tokens or more, cut to what the model takes; and the number of other texts."""
    special, found, others = {*model.special_ids, model.mask_id}, list[Row](), 0
    _, after = model.around()
    for text in data if not isinstance(data, str | PathLike) else plain_texts(user_path(data, "profile")):
        if len(found) == most:
            break
        if not isinstance(text, str):
            raise InputError(f"{checks.shown(text)} among the texts of profile is not a text: give strings")
        try:
            ids = model.words.encode(text)
        except InputError:
            others += 1
            continue
        if model.max_length is not None and len(ids) > model.max_length:
            ids = [*ids[: model.max_length - len(after)], *after]
        free = [i not in special for i in ids]
        if sum(free) < 2:
            others += 1
        else:
            found.append((ids, free))
    return found, others


def _named(data: str | PathLike[str] | Sequence[str]) -> str:
    if isinstance(data, str | PathLike):
        return Path(source_name(user_path(data, "profile"))).name
    return f"{len(data):,} texts given"
