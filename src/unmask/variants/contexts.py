"""`variant_scores`: the scores of many variants of one sequence, each distinct context passed once.

A term of a score is log q_t(x_t | x_S) (`variants.registry`). Its context is x_S, so the passes of a set S are as many as there
are distinct x_S among the variants, for all terms and scores with that S. For all 2^k variants of k binary sites,

    pll         k 2^(k-1) passes, and not k 2^k
    one order   1 + 2 + .. + 2^(k-1) = 2^k - 1 passes, and not k 2^k

Contexts are numbered by sorting integer keys, a digit per revealed site. Rows of one set that fill a batch pass through what they
share (`MaskedLM.substitutions`), rows of small sets in common batches. Kept are one number per chain and variant, and one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import log

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask import checks
from unmask.cloze import blanked
from unmask.errors import InputError
from unmask.joints.registry import DEFAULT_OF_MUTANTS
from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress
from unmask.tables.lattice import random_orders
from unmask.tables.unary import pass_count, tables_of
from unmask.variants.mutants import TOGETHER, effects
from unmask.variants.registry import VariantScore, chosen, columns_of

VARIANTS = "variants"
"""The unit of progress."""
MOST_ORDERS = 10_000
LARGEST_KEY = 2**62


def variant_scores(
    model: ConditionalModel,
    ids: Sequence[int],
    sites: Sequence[int],
    variants: Int[Tensor, "n k"],
    names: str | Sequence[str],
    allowed: Sequence[int],
    orders: int = 8,
    seed: int = 0,
    joint: str = DEFAULT_OF_MUTANTS,
    progress: Progress | None = None,
) -> dict[str, Float[Tensor, " n"]]:
    """The scores `names` of each variant, in nats and float64 on the CPU, by column; `any_order` has two.

    ids       the parent's token ids
    sites     the positions that vary
    variants  the token id of each variant at each site
    allowed   the token ids that q is normalised over
    orders    sampled orders of `any_order`, from `seed`
    joint     the construction of `epistasis`, and of `pairs` without a name
    progress  variants done, in proportion to the passes
    """
    lattice = Contexts(model, ids, sites, allowed, names, orders, seed, joint)
    return lattice.scores(variants, progress)


@dataclass(frozen=True)
class _Asked:
    """The contexts of one revealed set: distinct rows of values, and which of them each variant has."""

    revealed: list[int]
    predicted: list[int]
    values: Int[Tensor, "c s"]
    context: Int[Tensor, " n"]


class Contexts:
    """What is asked of the model for the scores of variants of one parent; `scores` may be called for many lists of them.

    passes   rows passed so far
    """

    def __init__(
        self,
        model: ConditionalModel,
        ids: Sequence[int],
        sites: Sequence[int],
        allowed: Sequence[int],
        names: str | Sequence[str],
        orders: int = 8,
        seed: int = 0,
        joint: str = DEFAULT_OF_MUTANTS,
    ) -> None:
        self.model, self.ids, self.passes = model, list(ids), 0
        for site in sites:
            checks.whole("site", site, 0, len(ids) - 1)
        if not len(sites) or len(set(sites)) < len(sites):
            raise InputError(f"sites {checks.shown(list(sites))} are empty or name a position twice: name each position once")
        self.columns = sorted(range(len(sites)), key=lambda column: sites[column])
        self.sites = [sites[column] for column in self.columns]
        self.scored: list[VariantScore] = chosen(names, joint)
        self.allowed = torch.tensor(list(allowed), dtype=torch.long, device=model.device)
        self.place = torch.full((model.input_size,), -1, dtype=torch.long, device=model.device)
        self.place[self.allowed] = torch.arange(len(self.allowed), device=model.device)
        self.wild = self.place[torch.tensor([self.ids[t] for t in self.sites], device=model.device)]
        if bool((self.wild < 0).any()) and any(score.chains is None for score in self.scored):
            place = self.sites[int((self.wild < 0).nonzero()[0])]
            raise InputError(f"token {model.token(self.ids[place])!r} of the parent is not in the alphabet: add it there")
        generator = torch.Generator().manual_seed(seed)
        drawn = random_orders(1, checks.whole("orders", orders, 1, MOST_ORDERS), len(self.sites), generator)[0].tolist()
        self.chains = {score.name: score.chains(len(self.sites), drawn) for score in self.scored if score.chains}
        self.asked: dict[int, set[int]] = {}
        for chains in self.chains.values():
            for revealed, site in (term for chain in chains for term in chain):
                self.asked.setdefault(revealed, set()).add(site)

    def pass_count(self, variants: Int[Tensor, "n k"]) -> int:
        """How many passes these variants take, exactly."""
        cells = self._cells(variants)
        return sum(self._row_counts(cells).values()) + self._parent_passes(cells)

    def scores(self, variants: Int[Tensor, "n k"], progress: Progress | None = None) -> dict[str, Float[Tensor, " n"]]:
        """As in `variant_scores`; equal variants get the same numbers."""
        cells = self._cells(variants)
        one, number = self._distinct(cells, (1 << len(self.sites)) - 1)
        cells = cells[one]
        counts = self._row_counts(cells)
        total, start = sum(counts.values()) + self._parent_passes(cells), self.passes

        def report() -> None:
            if progress:
                progress(len(variants) * (self.passes - start) // max(1, total), len(variants), VARIANTS)

        readers: dict[tuple[int, int], list[Tensor]] = {}
        sums = {}
        for name, chains in self.chains.items():
            sums[name] = torch.zeros((len(chains), len(cells)), dtype=torch.float64, device=cells.device)
            for total_of_chain, chain in zip(sums[name], chains, strict=True):
                for term in chain:
                    readers.setdefault(term, []).append(total_of_chain)
        for revealed, site, log_q in self._terms(cells, counts, report):
            for total_of_chain in readers[revealed, site]:
                total_of_chain += log_q
        found: dict[str, Tensor] = {}
        parents = self._of_parent(cells, report)
        for score in self.scored:
            if score.chains is None:
                found[score.name] = parents[score.name]
                continue
            logs = sums[score.name]
            found[score.name] = logs.logsumexp(0) - log(len(logs)) if len(logs) > 1 else logs[0]
            if score.extra:
                found |= dict(zip(score.columns[1:], [logs.mean(0)], strict=True))
        if any(bool(values.isnan().any()) for values in found.values()):
            raise self.model.not_finite()
        return {column: found[column][number].cpu() for column in columns_of(self.scored)}

    def _cells(self, variants: Int[Tensor, "n k"]) -> Int[Tensor, "n k"]:
        """Each token's place in the alphabet, sites from left to right."""
        if variants.dim() != 2 or variants.shape[1] != len(self.sites):
            raise InputError(
                f"variants of shape {tuple(variants.shape)} do not fill {len(self.sites)} sites: one column per site"
            )
        tokens = variants[:, self.columns].to(self.model.device, torch.long)
        inside = (tokens >= 0) & (tokens < len(self.place))
        cells = torch.where(inside, self.place[tokens.clamp(0, len(self.place) - 1)], -1)
        if bool((cells < 0).any()):
            row, site = (cells < 0).nonzero()[0].tolist()
            raise InputError(f"variant {row + 1} has a token outside the alphabet at position {self.sites[site]}: leave it out")
        return cells

    def _row_counts(self, cells: Int[Tensor, "n k"]) -> dict[int, int]:
        """How many distinct contexts each revealed set has."""
        return {revealed: len(self._key(cells, revealed).unique()) for revealed in self.asked} if len(cells) else {}

    def _key(self, cells: Int[Tensor, "n k"], revealed: int) -> Int[Tensor, " n"]:
        """One whole number per variant, the same exactly for those that agree at the revealed sites."""
        key, span = cells.new_zeros(len(cells)), 1
        for site in _members(revealed):
            if span * len(self.allowed) > LARGEST_KEY:
                key = key.unique(return_inverse=True)[1]
                span = len(cells)
            key, span = key * len(self.allowed) + cells[:, site], span * len(self.allowed)
        return key

    def _distinct(self, cells: Int[Tensor, "n k"], revealed: int) -> tuple[Int[Tensor, " c"], Int[Tensor, " n"]]:
        """For each distinct context, in order, a variant that has it; and which context each variant has."""
        keys, context = self._key(cells, revealed).unique(return_inverse=True)
        return context.new_empty(len(keys)).scatter_(0, context, torch.arange(len(cells), device=cells.device)), context

    def _question(self, cells: Int[Tensor, "n k"], revealed: int) -> _Asked:
        one, context = self._distinct(cells, revealed)
        sites = _members(revealed)
        return _Asked(sites, sorted(self.asked[revealed]), self.allowed[cells[one][:, sites]], context)

    def _terms(self, cells: Tensor, counts: dict[int, int], report: object) -> Iterator[tuple[int, int, Tensor]]:
        """(revealed set, site, log q of each variant) for every term; small sets first."""
        for revealed in sorted(counts, key=lambda revealed: (counts[revealed], revealed)):
            asked = self._question(cells, revealed)
            values = torch.empty((len(asked.predicted), len(cells)), dtype=torch.float64, device=cells.device)
            base = blanked(self.ids, self.sites, self.model.mask_id)
            rows = torch.tensor(base.ids, device=cells.device).repeat(len(asked.values), 1)
            rows[:, [self.sites[s] for s in asked.revealed]] = asked.values
            places = torch.tensor([[self.sites[t] for t in asked.predicted]], device=cells.device).expand(len(rows), -1)
            log_q = self._normalised(self.model.logits(rows, places))
            self.passes += len(rows)
            for i, site in enumerate(asked.predicted):
                yield revealed, site, log_q[asked.context, i, cells[:, site]]

    def _normalised(self, logits: Float[Tensor, "*n V"]) -> Float[Tensor, "*n a"]:
        return logits[..., self.allowed].double().log_softmax(-1)

    def _parent_passes(self, cells: Tensor) -> int:
        singles = len(self.sites) if any(score.chains is None for score in self.scored) else 0
        return singles + len(self._pairs(cells)) * pass_count([len(self.allowed)] * 2)

    def _pairs(self, cells: Tensor) -> list[tuple[int, int]]:
        """Pairs of sites that some variant changes both of, if a score needs pairs."""
        if not any(score.joint for score in self.scored):
            return []
        changed = (cells != self.wild).float()
        together = (changed.T @ changed > 0).tolist()
        return [(s, t) for s, t in combinations(range(len(self.sites)), 2) if together[s][t]]

    def _of_parent(self, cells: Tensor, report: object) -> dict[str, Tensor]:
        """The scores that need only conditionals of the parent and its neighbours."""
        wanted = [score for score in self.scored if score.chains is None]
        if not wanted:
            return {}
        rows = torch.tensor([self.ids], device=cells.device).repeat(len(self.sites), 1)
        places = torch.tensor(self.sites, device=cells.device)[:, None]
        log_q = self._normalised(self.model.logits(rows.scatter(1, places, self.model.mask_id), places)[:, 0])
        self.passes += len(rows)
        effect = log_q - log_q.gather(1, self.wild[:, None])
        singles = effect[torch.arange(len(self.sites), device=cells.device), cells].sum(1)
        joints = sorted({score.joint for score in wanted if score.joint})
        sums = {joint: torch.zeros_like(singles) for joint in joints}
        axis, pairs = [self.allowed, self.allowed], self._pairs(cells)
        for start in range(0, len(pairs), TOGETHER):
            group = pairs[start : start + TOGETHER]
            clozes = [blanked(self.ids, [self.sites[s], self.sites[t]], self.model.mask_id) for s, t in group]
            axes = [axis] * len(group)
            for (s, t), table in zip(group, tables_of(self.model, clozes, axes, torch.float64, supports=axes), strict=True):
                wild = [int(self.wild[s]), int(self.wild[t])]
                both = (cells[:, s] != wild[0]) & (cells[:, t] != wild[1])
                for joint in joints:
                    own = effects(table, wild, joint)["epistasis"]
                    sums[joint] += own[cells[:, s], cells[:, t]].where(both, 0.0)
            self.passes += len(group) * pass_count([len(self.allowed)] * 2)
        made = {"singles": singles}
        for score in wanted:
            if score.joint:
                made[score.name] = sums[score.joint] + (0.0 if score.name == "epistasis" else singles)
        return made


def _members(revealed: int) -> list[int]:
    return [site for site in range(revealed.bit_length()) if revealed >> site & 1]
