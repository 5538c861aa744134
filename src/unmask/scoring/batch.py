"""Texts of one length side by side, and the numbers that come out of them.

Sites are the positions that are scored: all tokens of a text, or those of a target that stands between given words. What
is neither a site nor a start or end token is context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress
from unmask.scoring.registry import SCORES
from unmask.scoring.settings import ScoreSettings


@dataclass(frozen=True)
class Batch:
    """n texts of T tokens, k of which are scored.

    ids        token ids, start and end tokens included
    sites      positions that are scored, rising
    regular    which positions hold a token of the text, rather than a start or end token
    word_end   for each site the first position after its word
    """

    ids: Int[Tensor, "n T"]
    sites: Int[Tensor, "n k"]
    regular: Bool[Tensor, "n T"]
    word_end: Int[Tensor, "n k"]

    @classmethod
    def of(
        cls,
        ids: Int[Tensor, "n T"],
        sites: Int[Tensor, "n k"] | None = None,
        regular: Bool[Tensor, "n T"] | None = None,
        word_end: Int[Tensor, "n k"] | None = None,
    ) -> Batch:
        """By default every position is regular, every regular one a site, and every token a word of its own."""
        if regular is None:
            regular = torch.ones_like(ids, dtype=torch.bool)
        if sites is None:
            sites = regular.nonzero()[:, 1].reshape(len(ids), -1)
        return cls(ids, sites, regular, sites + 1 if word_end is None else word_end)

    def to(self, device: torch.device) -> Batch:
        """The same on another device."""
        return Batch(self.ids.to(device), self.sites.to(device), self.regular.to(device), self.word_end.to(device))

    def part(self, rows: slice | list[int]) -> Batch:
        """Some of the texts."""
        return Batch(self.ids[rows], self.sites[rows], self.regular[rows], self.word_end[rows])

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Scored:
    """One score of n texts, in nats.

    values    the scores; nan where there is none
    by_site   each site's share, where the score is a sum over sites
    extra     further columns, by suffix
    reasons   why a text has no value, by its row
    """

    values: Float[Tensor, " n"]
    by_site: Float[Tensor, "n k"] | None = None
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    reasons: Mapping[int, str] = field(default_factory=dict)


@runtime_checkable
class Family(Protocol):
    """Computes several scores of a batch from shared passes; tells `progress` of work that is long within a batch."""

    def __call__(
        self,
        model: ConditionalModel,
        batch: Batch,
        names: Sequence[str],
        settings: ScoreSettings,
        progress: Progress | None = None,
    ) -> dict[str, Scored]: ...


def score_batch(
    model: ConditionalModel, batch: Batch, settings: ScoreSettings, progress: Progress | None = None
) -> dict[str, Scored]:
    """All scores of `settings`, each family run once; twice where texts have tokens that only some of its scores know."""
    batch = batch.to(model.device)
    families: dict[str, list[str]] = {}
    for name in settings.scores:
        families.setdefault(SCORES[name].family, []).append(name)
    found: dict[str, Scored] = {}
    limit = model.max_length
    too_long = limit is not None and batch.ids.shape[1] > limit
    impossible = outside_support(model, batch)
    for family, names in families.items():
        served = [name for name in names if not too_long or (SCORES[name].windows and settings.long == "windows")]
        refused = [name for name in names if name not in served]
        found.update({name: _too_long(batch, name, limit) for name in refused})
        some = [name for name in served if impossible and not SCORES[name].unknown]
        every = [name for name in served if name not in some]
        if every:
            found.update(_load(family)(model, batch, every, settings, progress))
        if some:
            possible = [row for row in range(len(batch)) if row not in impossible]
            part = _load(family)(model, batch.part(possible), some, settings, progress) if possible else _nothing(some)
            found.update({name: _among(len(batch), possible, scored, impossible) for name, scored in part.items()})
    return {name: found[name] for name in settings.scores}


def _nothing(names: Sequence[str]) -> dict[str, Scored]:
    """The scores of no text."""
    none = torch.empty(0, dtype=torch.float64)
    return {name: Scored(none, extra=dict.fromkeys(SCORES[name].extra, none)) for name in names}


def _among(n: int, rows: list[int], part: Scored, reasons: Mapping[int, str]) -> Scored:
    """The score of `rows` among n texts; the others have none, for these reasons."""

    def spread(values: Tensor) -> Tensor:
        whole = torch.full((n, *values.shape[1:]), torch.nan, dtype=torch.float64, device=values.device)
        whole[rows] = values.double()
        return whole

    by_site = None if part.by_site is None else spread(part.by_site)
    return Scored(spread(part.values), by_site, {suffix: spread(values) for suffix, values in part.extra.items()}, reasons)


def outside_support(model: ConditionalModel, batch: Batch) -> dict[int, str]:
    """Texts with a special token, such as an unknown one, among their sites: a law over regular tokens gives them nothing."""
    special = torch.tensor(sorted({*model.special_ids, model.mask_id}), device=batch.ids.device)
    rows = torch.isin(batch.ids.gather(1, batch.sites), special).any(1).nonzero().flatten().tolist()
    return dict.fromkeys(rows, "a token that the model does not know is outside the support of this score: use pll")


def _too_long(batch: Batch, name: str, limit: int | None) -> Scored:
    advice = "shorten it, or ask for windows" if SCORES[name].windows else "shorten it; this score has no windows"
    reason = f"the text has {batch.ids.shape[1]} tokens and the model takes {limit}: {advice}"
    nan = torch.full((len(batch),), torch.nan, dtype=torch.float64)
    extra = {suffix: nan.clone() for suffix in SCORES[name].extra}
    return Scored(nan, None, extra, dict.fromkeys(range(len(batch)), reason))


def _load(family: str) -> Family:
    module, attribute = family.split(":")
    loaded: Family = getattr(import_module(module), attribute)
    return loaded


def text_seed(seed: int, ids: Int[Tensor, " T"], sites: Int[Tensor, " k"]) -> int:
    """A seed of the text's own, so that its sampled numbers do not depend on what is scored beside it."""
    from unmask.runs.fingerprint import content_hash

    return int(content_hash(f"{seed} {ids.tolist()} {sites.tolist()}"), 16) % (2**63 - 1)
