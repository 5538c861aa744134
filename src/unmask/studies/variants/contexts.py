"""The scores of many variants of one sequence, each distinct context passed once.

A term of a score is log q_t(x_t | x_S) (`variants.scores.score`). Its context is x_S, so the passes
of a set S are as many as there are distinct x_S among the variants, for all terms and scores
with that S. For all 2^k variants of k binary sites,

    pll         k 2^(k-1) passes, and not k 2^k
    one order   1 + 2 + .. + 2^(k-1) = 2^k - 1 passes, and not k 2^k

Contexts are numbered by sorting integer keys, a digit per revealed site. Rows of one set that
fill a batch pass through what they share (`MaskedLM.substitutions`), rows of small sets in
common batches. Kept are one number per chain and variant, and one batch.

Scores that are no such sums are in `parent_scores`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import log
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.common.batches import cut, grouped
from unmask.common.cloze import blanked
from unmask.joints.constructions.construction import Construction
from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress
from unmask.studies.variants.parent_scores import ParentScores
from unmask.studies.variants.scores.score import Chain, VariantScore
from unmask.tables.conditional_table import ROWS, enough_rows

SiteSet = int
"""A set of sites as a number: bit i is 1 if site i is in it."""
Term = tuple[SiteSet, int]
"""S and t of a term log q_t(x_t | x_S)."""
Sums = Float[Tensor, " n"]
"""Of one chain: for each variant the sum of the terms read so far."""
VARIANTS = "variants"
"""The unit of progress."""
MEAN_LOG = "mean_log"
"""The second column of a score that is a mean over chains: the mean of their logarithms."""
LARGEST_KEY = 2**62
"""Keys of contexts stay below this, so that they are whole numbers of 64 bits."""


class Contexts:
    """The contexts that the scores of variants of one parent need.

    ids       the parent's token ids
    sites     the positions that vary, each once
    scores    the scores of variants, each once
    allowed   the token ids that q is normalised over; the variants' are among them, and for
              singles and pairs the parent's
    passes    rows passed so far
    """

    def __init__(
        self,
        model: ConditionalModel,
        ids: Sequence[int],
        sites: Sequence[int],
        scores: Sequence[VariantScore],
        allowed: Sequence[int],
    ) -> None:
        self.model = model
        self.ids: list[int] = list(ids)
        self.passes = 0

        # Sites are numbered from left to right; `columns` are theirs in lists of variants.
        self.columns: list[int] = sorted(range(len(sites)), key=lambda column: sites[column])
        self.sites: list[int] = [sites[column] for column in self.columns]
        self.allowed: Tensor = torch.tensor(list(allowed), dtype=torch.long, device=model.device)
        # The place of each token id in `allowed`, -1 of others.
        self.place: Tensor = torch.full(
            (model.input_size,), -1, dtype=torch.long, device=model.device
        )
        self.place[self.allowed] = torch.arange(len(self.allowed), device=model.device)

        self.chains: dict[str, list[Chain]] = {}
        self.score_columns: list[str] = []
        for score in scores:
            self.score_columns.append(score.name)
            if MEAN_LOG in score.extra:
                self.score_columns.append(f"{score.name}_{MEAN_LOG}")
            chains = score.chains(len(self.sites))
            if chains:
                self.chains[score.name] = chains

        self.needs_parent: bool = len(self.chains) < len(scores)
        wild_ids = torch.tensor([self.ids[site] for site in self.sites], device=model.device)
        self.parent_scores: ParentScores = ParentScores(
            model=model,
            ids=self.ids,
            sites=self.sites,
            allowed=self.allowed,
            wild=self.place[wild_ids],
            construction_of=_constructions_of_scores(scores),
        )
        self.predicted_sites: dict[SiteSet, list[int]] = _predicted_sites(self.chains)

    def pass_count(self, variants: Int[Tensor, "n k"]) -> int:
        """How many passes these variants take, exactly."""
        cells = self._cells(variants)
        return self._pass_count(cells, self._row_counts(cells))

    def scores(
        self, variants: Int[Tensor, "n k"], progress: Progress | None = None
    ) -> dict[str, Float[Tensor, " n"]]:
        """The scores of each variant, in nats and float64 on the CPU, by column;
        `any_order_sites` has two.

        variants  the token id of each variant at each site; equal variants get the same numbers
        progress  variants done, in proportion to the passes
        """
        every_site = (1 << len(self.sites)) - 1
        cells_of_all = self._cells(variants)
        distinct = self.distinct(cells_of_all, every_site)
        cells = cells_of_all[distinct.example]
        row_counts = self._row_counts(cells)
        total = self._pass_count(cells, row_counts)
        passes_before = self.passes

        def add(passes: int) -> None:
            self.passes += passes
            if progress:
                passed = self.passes - passes_before
                done = len(variants) * passed // max(1, total)
                progress(done, len(variants), VARIANTS)

        sums: dict[str, Float[Tensor, "chains n"]] = {}
        for name, chains in self.chains.items():
            sums[name] = cells.new_zeros((len(chains), len(cells)), dtype=torch.float64)
        add(0)
        self._add_terms(cells, row_counts, self._readers(sums), add)

        scores: dict[str, Float[Tensor, " n"]] = {}
        if self.needs_parent:
            scores |= self.parent_scores.scores(cells, add)
        for name, by_chain in sums.items():  # of one chain, both are that chain
            scores[name] = by_chain.logsumexp(0) - log(len(by_chain))
            scores[f"{name}_{MEAN_LOG}"] = by_chain.mean(0)
        if any(bool(values.isnan().any()) for values in scores.values()):
            raise self.model.not_finite()
        return {column: scores[column][distinct.context].cpu() for column in self.score_columns}

    def distinct(self, cells: Int[Tensor, "n k"], revealed: SiteSet) -> Distinct:
        """The distinct contexts of a revealed set, in the order of their keys."""
        keys, context, counts = self._key(cells, revealed).unique(
            return_inverse=True, return_counts=True
        )
        numbers = torch.arange(len(cells), device=cells.device)
        example = numbers.new_empty(len(keys)).scatter_(0, context, numbers)
        return Distinct(example, context, counts)

    @cached_property
    def base(self) -> tuple[int, ...]:
        """The parent with all sites masked."""
        return blanked(self.ids, self.sites, self.model.mask_id).ids

    def _cells(self, variants: Int[Tensor, "n k"]) -> Int[Tensor, "n k"]:
        """Each token's place in `allowed`, sites from left to right."""
        return self.place[variants[:, self.columns].to(self.model.device, torch.long)]

    def _row_counts(self, cells: Int[Tensor, "n k"]) -> dict[SiteSet, int]:
        """How many distinct contexts each revealed set has."""
        if not len(cells):
            return {}
        return {
            revealed: len(self._key(cells, revealed).unique()) for revealed in self.predicted_sites
        }

    def _pass_count(self, cells: Int[Tensor, "n k"], row_counts: Mapping[SiteSet, int]) -> int:
        """Passes of all contexts, and of the parent and its neighbours."""
        passes = sum(row_counts.values())
        if self.needs_parent:
            passes += self.parent_scores.pass_count(cells)
        return passes

    def _key(self, cells: Int[Tensor, "n k"], revealed: SiteSet) -> Int[Tensor, " n"]:
        """One whole number per variant, the same exactly for those that agree at the revealed
        sites: its tokens there as digits, in the base of the size of `allowed`.
        """
        base = len(self.allowed)
        key = cells.new_zeros(len(cells))
        above = 1  # all keys are less
        for site in members(revealed):
            if above * base > LARGEST_KEY:  # the distinct keys are numbered, from 0
                key = key.unique(return_inverse=True)[1]
                above = len(cells)
            key = key * base + cells[:, site]
            above = above * base
        return key

    def _readers(self, sums: Mapping[str, Float[Tensor, "chains n"]]) -> dict[Term, list[Sums]]:
        """For each term the sums of the chains that it is in, which are views of `sums`."""
        readers: dict[Term, list[Sums]] = {}
        for name, chains in self.chains.items():
            for of_chain, chain in zip(sums[name], chains, strict=True):
                for term in chain:
                    readers.setdefault(term, []).append(of_chain)
        return readers

    def _add_terms(
        self,
        cells: Int[Tensor, "n k"],
        row_counts: Mapping[SiteSet, int],
        readers: Mapping[Term, list[Sums]],
        add: Callable[[int], None],
    ) -> None:
        """Add every term to the sums that read it: small sets in common batches, then sets that
        fill batches by themselves.
        """

        def make_set(revealed: SiteSet) -> RevealedSet:
            predicted = self.predicted_sites[revealed]
            return RevealedSet(
                contexts=self,
                cells=cells,
                revealed=revealed,
                predicted=predicted,
                readers=[readers[revealed, site] for site in predicted],
            )

        enough = enough_rows(self.model, len(self.ids))
        alone: list[SiteSet] = []
        together: list[SiteSet] = []
        for revealed in sorted(row_counts, key=lambda one: (row_counts[one], one)):
            # `substitutions` predicts one position.
            one_site = len(self.predicted_sites[revealed]) == 1
            if one_site and row_counts[revealed] >= enough:
                alone.append(revealed)
            else:
                together.append(revealed)

        # Rows of one batch predict the same number of sites.
        for group in grouped(together, lambda revealed: len(self.predicted_sites[revealed])):
            chosen = [together[i] for i in group]
            predicted = len(self.predicted_sites[chosen[0]])
            at_once = self.model.rows_at_once(len(self.ids), predicted) or ROWS
            # A generator: a set is made when its rows are next, and dropped after them.
            sets = ((make_set(revealed), row_counts[revealed]) for revealed in chosen)
            for batch in cut(sets, at_once):
                self._pass_batch(batch)
                add(sum(_length(rows) for _, rows in batch))
        for revealed in alone:
            self._pass_alone(make_set(revealed), add)

    def _pass_batch(self, batch: Sequence[tuple[RevealedSet, slice]]) -> None:
        """Pass rows of several sets in one call of the model."""
        texts = [revealed_set.texts(rows) for revealed_set, rows in batch]
        positions = [
            revealed_set.positions.expand(_length(rows), -1) for revealed_set, rows in batch
        ]
        logits = self.model.logits_at(torch.cat(texts), torch.cat(positions))
        parts = logits.split([_length(rows) for _, rows in batch])
        for (revealed_set, rows), part in zip(batch, parts, strict=True):
            revealed_set.read(rows, part)

    def _pass_alone(self, revealed_set: RevealedSet, add: Callable[[int], None]) -> None:
        """Pass the rows of a set that predicts one site through what they share."""
        (predict,) = revealed_set.predicted
        passed = self.model.substitutions(
            self.base,
            revealed_set.revealed_positions,
            revealed_set.values,
            self.sites[predict],
        )
        for rows, logits in passed:
            revealed_set.read(rows, logits.unsqueeze(1))
            add(len(logits))


class Distinct(NamedTuple):
    """The distinct contexts of some variants.

    example   for each context a variant that has it
    context   for each variant the number of its context
    counts    for each context how many variants have it
    """

    example: Int[Tensor, " c"]
    context: Int[Tensor, " n"]
    counts: Int[Tensor, " c"]


class RevealedSet:
    """The contexts of one revealed set.

    predicted            the masked sites at which log q is read
    readers              for each of these the sums that read it
    values               the tokens of each context at the revealed sites, (rows, sites)
    revealed_positions   of these sites in the text; `revealed_index`: the same, (1, sites)
    positions            of the predicted sites in the text, (1, sites)
    """

    def __init__(
        self,
        contexts: Contexts,
        cells: Int[Tensor, "n k"],
        revealed: SiteSet,
        predicted: list[int],
        readers: list[list[Sums]],
    ) -> None:
        self.contexts = contexts
        self.cells = cells
        self.predicted = predicted
        self.readers = readers
        sites = members(revealed)
        distinct = contexts.distinct(cells, revealed)
        self.context: Tensor = distinct.context
        self.values: Tensor = contexts.allowed[cells[distinct.example][:, sites]]
        self.revealed_positions: list[int] = [contexts.sites[site] for site in sites]
        self.revealed_index: Tensor = torch.tensor(
            [self.revealed_positions], dtype=torch.long, device=cells.device
        )
        predicted_positions = [contexts.sites[site] for site in predicted]
        self.positions: Tensor = torch.tensor([predicted_positions], device=cells.device)
        # The variants sorted by context, and where those of each context begin among them.
        self.by_context: Tensor = self.context.argsort()
        self.first: list[int] = [0, *distinct.counts.cumsum(0).tolist()]

    def texts(self, rows: slice) -> Int[Tensor, "b T"]:
        """These contexts as token ids."""
        values = self.values[rows]
        base = torch.tensor([self.contexts.base], device=values.device).repeat(len(values), 1)
        return base.scatter_(1, self.revealed_index.expand(len(values), -1), values)

    def read(self, rows: slice, logits: Float[Tensor, "b p V"]) -> None:
        """Add log q of each variant with one of these contexts to the sums that read it.

        logits   at the predicted sites, in their order
        """
        log_q = logits[..., self.contexts.allowed].double().log_softmax(-1)
        variants = self.by_context[self.first[rows.start] : self.first[rows.stop]]
        row = self.context[variants] - rows.start
        for i, (site, readers) in enumerate(zip(self.predicted, self.readers, strict=True)):
            terms = log_q[row, i, self.cells[variants, site]]
            for sums in readers:
                sums[variants] += terms


def members(revealed: SiteSet) -> list[int]:
    """The sites of a set, in ascending order."""
    return [site for site in range(revealed.bit_length()) if revealed >> site & 1]


def _length(rows: slice) -> int:
    return int(rows.stop - rows.start)


def _constructions_of_scores(scores: Sequence[VariantScore]) -> dict[str, Construction]:
    """The construction of each score that needs the joints of pairs, by the score's name."""
    of_scores = {score.name: score.construction_of_pairs for score in scores}
    return {name: one for name, one in of_scores.items() if one is not None}


def _predicted_sites(chains: Mapping[str, Sequence[Chain]]) -> dict[SiteSet, list[int]]:
    """By revealed set, in ascending order, the sites whose log q some chain reads."""
    terms: set[Term] = set()
    for of_score in chains.values():
        for chain in of_score:
            terms.update(chain)
    predicted: dict[SiteSet, list[int]] = {}
    for revealed, site in sorted(terms):
        predicted.setdefault(revealed, []).append(site)
    return predicted
