"""The scores of many variants of one sequence, each distinct context passed once.

A term of a score is log q_t(x_t | x_S) (`scoring.registry`). Its context is x_S, so the passes
of a set S are as many as there are distinct x_S among the variants, for all terms and scores
with that S. For all 2^k variants of k binary sites,

    pll         k 2^(k-1) passes, and not k 2^k
    one order   1 + 2 + .. + 2^(k-1) = 2^k - 1 passes, and not k 2^k

Contexts are numbered by sorting integer keys, a digit per revealed site. Rows of one set that
fill a batch pass through what they share (`MaskedLM.substitutions`), rows of small sets in
common batches. Kept are one number per chain and variant, and one batch.

Scores of the parent and its neighbours, mu the joint of sites s and t by a construction, all
other tokens as in the parent w:

    single effect   e_t(x)    = log q_t(x | w) - log q_t(w_t | w)
    epistasis       E_st(x,y) = log mu(x, y) - log mu(w_s, w_t) - e_s(x) - e_t(y),
                    if both change; 0 otherwise
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import combinations
from math import log

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.common.batches import cut, grouped
from unmask.common.cloze import blanked
from unmask.joints.deriving import derive_blocks
from unmask.joints.registry import DEFAULT_OF_MUTANTS, named
from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress
from unmask.scoring.registry import OF_VARIANTS, PAIRS, chosen_of_variants
from unmask.studies.variants.mutants import TOGETHER, effects
from unmask.tables.conditional_table import ROWS, enough_rows
from unmask.tables.lattice import random_orders
from unmask.tables.unary import pass_count, tables_of

Pair = tuple[int, int]
VARIANTS = "variants"
"""The unit of progress."""
EPISTASIS, MEAN_LOG = "epistasis", "mean_log"
"""The second column of a score that is a mean over chains: the mean of their logarithms."""
LARGEST_KEY = 2**62


class Contexts:
    """The contexts that the scores of variants of one parent need.

    ids       the parent's token ids
    sites     the positions that vary, each once
    names     of scores
    allowed   the token ids that q is normalised over; the variants' are among them, and for
              singles and pairs the parent's
    orders    sampled orders of `any_order`, from `seed`
    joint     the construction of `epistasis`, and of `pairs` without a name
    passes    rows passed so far
    """

    def __init__(
        self,
        model: ConditionalModel,
        ids: Sequence[int],
        sites: Sequence[int],
        names: str | Sequence[str],
        allowed: Sequence[int],
        orders: int = 8,
        seed: int = 0,
        joint: str = DEFAULT_OF_MUTANTS,
    ) -> None:
        self.model, self.ids, self.passes = model, list(ids), 0
        self.names = chosen_of_variants(names, joint)
        self.columns = sorted(range(len(sites)), key=lambda column: sites[column])
        self.sites = [sites[column] for column in self.columns]
        of_pairs = [name for name in self.names if name.startswith(PAIRS) or name == EPISTASIS]
        self.joint_of = {
            name: named(joint if name == EPISTASIS else name.removeprefix(PAIRS)).name
            for name in of_pairs
        }
        self.joints = list(dict.fromkeys(self.joint_of.values()))
        self.allowed = torch.tensor(list(allowed), dtype=torch.long, device=model.device)
        self.place = torch.full((model.input_size,), -1, dtype=torch.long, device=model.device)
        self.place[self.allowed] = torch.arange(len(self.allowed), device=model.device)
        generator = torch.Generator().manual_seed(seed)
        drawn = random_orders(1, orders, len(self.sites), generator)[0].tolist()
        known = [OF_VARIANTS[name] for name in self.names if name in OF_VARIANTS]
        self.chains = {
            score.name: chains
            for score in known
            if (chains := score.variant_chains(len(self.sites), drawn))
        }
        self.of_parent = len(self.chains) < len(self.names)
        averaged = [score.name for score in known if MEAN_LOG in score.extra]
        self.score_columns = [
            column
            for n in self.names
            for column in ([n, f"{n}_{MEAN_LOG}"] if n in averaged else [n])
        ]
        self.wild = self.place[torch.tensor([self.ids[t] for t in self.sites], device=model.device)]
        self.sites_read: dict[int, list[int]] = {}
        for revealed, site in sorted(
            {term for chains in self.chains.values() for chain in chains for term in chain}
        ):
            self.sites_read.setdefault(revealed, []).append(site)

    def pass_count(self, variants: Int[Tensor, "n k"]) -> int:
        """How many passes these variants take, exactly."""
        cells = self._cells(variants)
        return sum(self._row_counts(cells).values()) + self._parent_passes(cells)

    @property
    def passes_per_pair(self) -> int:
        """Passes for the tables of one pair of sites."""
        return pass_count([len(self.allowed)] * 2)

    def scores(
        self, variants: Int[Tensor, "n k"], progress: Progress | None = None
    ) -> dict[str, Float[Tensor, " n"]]:
        """The scores of each variant, in nats and float64 on the CPU, by column; `any_order`
        has two.

        variants  the token id of each variant at each site; equal variants get the same numbers
        progress  variants done, in proportion to the passes
        """
        cells = self._cells(variants)
        example, number, _ = self._distinct(cells, (1 << len(self.sites)) - 1)
        cells = cells[example]
        counts = self._row_counts(cells)
        total, start = sum(counts.values()) + self._parent_passes(cells), self.passes

        def add(passes: int) -> None:
            self.passes += passes
            if progress:
                progress(
                    len(variants) * (self.passes - start) // max(1, total), len(variants), VARIANTS
                )

        logs = {
            name: cells.new_zeros((len(chains), len(cells)), dtype=torch.float64)
            for name, chains in self.chains.items()
        }
        readers: dict[tuple[int, int], list[Tensor]] = {}
        for name, chains in self.chains.items():
            for sums, chain in zip(logs[name], chains, strict=True):
                for term in chain:
                    readers.setdefault(term, []).append(sums)
        add(0)
        self._pass(cells, counts, readers, add)
        scores = self._parent_scores(cells, add)
        for name, values in logs.items():
            scores[name], scores[f"{name}_{MEAN_LOG}"] = (
                values.logsumexp(0) - log(len(values)),
                values.mean(0),
            )
        if any(bool(values.isnan().any()) for values in scores.values()):
            raise self.model.not_finite()
        return {column: scores[column][number].cpu() for column in self.score_columns}

    def _cells(self, variants: Int[Tensor, "n k"]) -> Int[Tensor, "n k"]:
        """Each token's place in the alphabet, sites from left to right."""
        return self.place[variants[:, self.columns].to(self.model.device, torch.long)]

    def _row_counts(self, cells: Int[Tensor, "n k"]) -> dict[int, int]:
        """How many distinct contexts each revealed set has."""
        return (
            {revealed: len(self._key(cells, revealed).unique()) for revealed in self.sites_read}
            if len(cells)
            else {}
        )

    def _key(self, cells: Int[Tensor, "n k"], revealed: int) -> Int[Tensor, " n"]:
        """One whole number per variant, the same exactly for those that agree at the revealed
        sites.
        """
        key, span = cells.new_zeros(len(cells)), 1
        for site in members(revealed):
            if span * len(self.allowed) > LARGEST_KEY:
                key, span = key.unique(return_inverse=True)[1], len(cells)
            key, span = key * len(self.allowed) + cells[:, site], span * len(self.allowed)
        return key

    def _distinct(self, cells: Int[Tensor, "n k"], revealed: int) -> tuple[Tensor, Tensor, Tensor]:
        """For each distinct context, in order, a variant that has it; which context each
        variant has; how many have each.
        """
        keys, context, counts = self._key(cells, revealed).unique(
            return_inverse=True, return_counts=True
        )
        numbers = torch.arange(len(cells), device=cells.device)
        return numbers.new_empty(len(keys)).scatter_(0, context, numbers), context, counts

    def _pass(
        self,
        cells: Int[Tensor, "n k"],
        counts: dict[int, int],
        readers: dict[tuple[int, int], list[Tensor]],
        add: Callable[[int], None],
    ) -> None:
        """Add every term to the sums that read it: sets that fill batches by themselves, then
        all others in common batches.
        """
        in_order = sorted(counts, key=lambda revealed: (counts[revealed], revealed))
        enough = enough_rows(self.model, len(self.ids))
        alone = [
            revealed
            for revealed in in_order
            if len(self.sites_read[revealed]) == 1 and counts[revealed] >= enough
        ]
        together = [revealed for revealed in in_order if revealed not in set(alone)]

        def rows_of(revealed: int) -> _RevealedSet:
            sites = self.sites_read[revealed]
            return _RevealedSet(
                self, cells, revealed, sites, [readers[revealed, site] for site in sites]
            )

        for group in grouped(together, lambda revealed: len(self.sites_read[revealed])):
            places = len(self.sites_read[together[group[0]]])
            at_once = self.model.rows_at_once(len(self.ids), places) or ROWS
            sets = ((rows_of(together[i]), counts[together[i]]) for i in group)
            for batch in cut(sets, at_once):
                texts = torch.cat([contexts.texts(rows) for contexts, rows in batch])
                positions = torch.cat(
                    [
                        contexts.positions.expand(rows.stop - rows.start, -1)
                        for contexts, rows in batch
                    ]
                )
                logits = self.model.logits(texts, positions).split(
                    [rows.stop - rows.start for _, rows in batch]
                )
                for (contexts, rows), part in zip(batch, logits, strict=True):
                    contexts.read(rows, part)
                add(len(texts))
        for revealed in alone:
            contexts, (predict,) = rows_of(revealed), self.sites_read[revealed]
            vary = [self.sites[site] for site in members(revealed)]
            for rows, part in self.model.substitutions(
                self.base, vary, contexts.values, self.sites[predict]
            ):
                contexts.read(rows, part.unsqueeze(1))
                add(len(part))

    @cached_property
    def base(self) -> tuple[int, ...]:
        """The parent with all sites masked."""
        return blanked(self.ids, self.sites, self.model.mask_id).ids

    def _parent_passes(self, cells: Int[Tensor, "n k"]) -> int:
        """Passes of the parent and its neighbours."""
        return len(self.sites) * self.of_parent + len(self._pairs(cells)) * self.passes_per_pair

    def _pairs(self, cells: Int[Tensor, "n k"]) -> list[Pair]:
        """The pairs of sites that some variant changes both of, if a score needs pairs; by
        number, from left to right.
        """
        if not self.joints:
            return []
        changed = (cells != self.wild).float()
        together = (changed.T @ changed > 0).tolist()
        return [(s, t) for s, t in combinations(range(len(self.sites)), 2) if together[s][t]]

    def _singles(self) -> Float[Tensor, "k a"]:
        """The effect e_t of each single change; one pass per site."""
        places = torch.tensor(self.sites, device=self.model.device)[:, None]
        rows = (
            torch.tensor([self.ids], device=self.model.device)
            .repeat(len(places), 1)
            .scatter_(1, places, self.model.mask_id)
        )
        log_q = self.model.logits(rows, places)[:, 0, self.allowed].double().log_softmax(-1)
        return log_q - log_q.gather(1, self.wild[:, None])

    def _parent_scores(
        self, cells: Int[Tensor, "n k"], add: Callable[[int], None]
    ) -> dict[str, Tensor]:
        """The scores that need only conditionals of the parent and its neighbours."""
        if not self.of_parent:
            return {}
        singles = self._singles()[torch.arange(len(self.sites), device=cells.device), cells].sum(1)
        add(len(self.sites))
        sums = {name: torch.zeros_like(singles) for name in self.joints}
        pairs = self._pairs(cells)
        for start in range(0, len(pairs), TOGETHER):
            group = pairs[start : start + TOGETHER]
            blanks = [
                blanked(self.ids, [self.sites[site] for site in pair], self.model.mask_id)
                for pair in group
            ]
            axes = [[self.allowed, self.allowed]] * len(group)
            tables = tables_of(self.model, blanks, axes, torch.float64, supports=axes)
            for (s, t), derived in zip(group, derive_blocks(tables, self.joints), strict=True):
                wild = self.wild[[s, t]].tolist()
                for name, joint in zip(self.joints, derived, strict=True):
                    table = effects(joint, wild)[EPISTASIS].clone()
                    table[wild[0]], table[:, wild[1]] = 0.0, 0.0
                    sums[name] += table[cells[:, s], cells[:, t]]
                add(self.passes_per_pair)
        return {"singles": singles} | {
            name: sums[joint] + (0.0 if name == EPISTASIS else singles)
            for name, joint in self.joint_of.items()
        }


class _RevealedSet:
    """The contexts of one revealed set: its rows, and who reads log q at which of its masked
    sites.
    """

    def __init__(
        self,
        contexts: Contexts,
        cells: Int[Tensor, "n k"],
        revealed: int,
        predicted: list[int],
        readers: list[list[Tensor]],
    ) -> None:
        self.contexts, self.cells, self.predicted, self.readers = (
            contexts,
            cells,
            predicted,
            readers,
        )
        example, self.context, counts = contexts._distinct(cells, revealed)
        sites = members(revealed)
        self.values = contexts.allowed[cells[example][:, sites]]
        self.vary = torch.tensor(
            [[contexts.sites[site] for site in sites]], dtype=torch.long, device=cells.device
        )
        self.positions = torch.tensor(
            [[contexts.sites[site] for site in predicted]], device=cells.device
        )
        self.by_context = self.context.argsort()
        self.first = [0, *counts.cumsum(0).tolist()]

    def texts(self, rows: slice) -> Int[Tensor, "b T"]:
        """These contexts as token ids."""
        values = self.values[rows]
        base = torch.tensor([self.contexts.base], device=values.device).repeat(len(values), 1)
        return base.scatter_(1, self.vary.expand(len(values), -1), values)

    def read(self, rows: slice, logits: Float[Tensor, "b p V"]) -> None:
        """Add log q of each variant with one of these contexts to the sums that read it."""
        log_q = logits[..., self.contexts.allowed].double().log_softmax(-1)
        mine = self.by_context[self.first[rows.start] : self.first[rows.stop]]
        context = self.context[mine] - rows.start
        for i, (site, readers) in enumerate(zip(self.predicted, self.readers, strict=True)):
            values = log_q[context, i, self.cells[mine, site]]
            for sums in readers:
                sums[mine] += values


def members(revealed: int) -> list[int]:
    """The sites of a bit mask."""
    return [site for site in range(revealed.bit_length()) if revealed >> site & 1]
