"""Texts that are scored together: equal ones once, those of one length side by side, so that no padding is computed.

Sites are the positions that are scored: all tokens of a text, or those of a target between given words. Positions that are
neither sites nor start or end tokens are context.

A GPU works on its own once it has been told what to do. So the passes of many texts are asked for first (`begin`), and their
numbers are read later: in between, the process can write the texts before and tokenise the texts after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.models.conditional_model import ConditionalModel
from unmask.runs.fingerprint import content_hash
from unmask.runs.progress import Enough, Progress
from unmask.scoring.registry import SCORES, Score, sharing
from unmask.scoring.texts import Encoded

GPU_LOGITS = 2**31
"""Bytes of logits of one call on a GPU; rows are made call by call, so memory does not grow with the text or their number."""


@dataclass(frozen=True)
class TextBatch:
    """n texts of T tokens, k of which are scored.

    ids        token ids, start and end tokens included
    sites      positions that are scored, in rising order
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
    ) -> TextBatch:
        """By default every position is regular, every regular one a site, and every token its own word."""
        if regular is None:
            regular = torch.ones_like(ids, dtype=torch.bool)
        if sites is None:
            sites = regular.nonzero()[:, 1].reshape(len(ids), -1)
        return cls(ids, sites, regular, sites + 1 if word_end is None else word_end)

    def to(self, device: torch.device) -> TextBatch:
        """The same on another device; a GPU is not waited for."""
        parts = [self.ids, self.sites, self.regular, self.word_end]
        if device.type == "cuda":
            parts = [part if part.is_cuda else part.pin_memory() for part in parts]
        return TextBatch(*(part.to(device, non_blocking=True) for part in parts))

    def part(self, rows: slice | list[int]) -> TextBatch:
        """Some of the texts."""
        return TextBatch(self.ids[rows], self.sites[rows], self.regular[rows], self.word_end[rows])

    def parts(self, at_once: int) -> list[TextBatch]:
        """The texts in parts of at most this many."""
        return [self.part(slice(start, start + at_once)) for start in range(0, len(self), at_once)]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Scored:
    """One score of n texts, in nats.

    values    the scores; NaN for texts without one
    by_site   each site's share, if the score is a sum over sites
    extra     further columns, by suffix
    reasons   why a text has no value, by its row
    """

    values: Float[Tensor, " n"]
    by_site: Float[Tensor, "n k"] | None = None
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    reasons: Mapping[int, str] = field(default_factory=dict)


ScoreFunction = Callable[[ConditionalModel, TextBatch, Sequence[Any], Progress | None], dict[str, Scored]]
"""Computes scores of equal options for a batch, from shared passes; reports progress of work that is long within a batch."""


def score_batch(
    model: ConditionalModel,
    batch: TextBatch,
    scores: Sequence[Score],
    windows: bool = False,
    progress: Progress | None = None,
) -> dict[str, Scored]:
    """All scores by name, each group of `sharing` computed once; twice if texts have tokens that only some of its scores accept.

    With `windows`, scores that have windows score texts longer than the model. Scores that are left when the model raises
    `Enough` are missing, with that as the reason.
    """
    impossible = outside_support(model, batch)
    batch = batch.to(model.device)
    scored: dict[str, Scored] = {}
    limit = model.max_length
    too_long = limit is not None and batch.ids.shape[1] > limit
    try:
        for group in sharing(scores):
            fits = [score for score in group if not too_long or (score.windows and windows)]
            scored.update({score.name: _too_long(batch, score, limit) for score in group if score not in fits})
            some = [score for score in fits if impossible and not score.unknown]
            every = [score for score in fits if score not in some]
            module, name = group[0].function.split(":")
            compute: ScoreFunction = getattr(import_module(module), name)
            if every:
                scored.update(compute(model, batch, every, progress))
            if some:
                possible = [row for row in range(len(batch)) if row not in impossible]
                part = compute(model, batch.part(possible), some, progress) if possible else {}
                scored.update({score.name: _among(batch, possible, part.get(score.name), score, impossible) for score in some})
    except Enough:
        reasons = dict.fromkeys(range(len(batch)), "the work was stopped before this score: ask again")
        scored |= {score.name: _among(batch, [], None, score, reasons) for score in scores if score.name not in scored}
    return {score.name: scored[score.name] for score in scores}


def outside_support(model: ConditionalModel, batch: TextBatch) -> dict[int, str]:
    """Texts with a special token among their sites, for example an unknown one: a law over regular tokens has none of them."""
    special = torch.tensor(sorted({*model.special_ids, model.mask_id}), device=batch.ids.device)
    rows = torch.isin(batch.ids.gather(1, batch.sites), special).any(1).nonzero().flatten().tolist()
    instead = next(name for name, score in SCORES.items() if score.unknown)
    return dict.fromkeys(rows, f"a token that the model does not know is outside the support of this score: use {instead}")


def _among(batch: TextBatch, rows: list[int], part: Scored | None, score: Score, reasons: Mapping[int, str]) -> Scored:
    """The score of `rows` among all texts of the batch; the others have none, for these reasons."""

    def spread(values: Tensor) -> Tensor:
        whole = torch.full((len(batch), *values.shape[1:]), torch.nan, dtype=torch.float64, device=values.device)
        whole[rows] = values.double()
        return whole

    if part is None:
        none = torch.full((len(batch),), torch.nan, dtype=torch.float64)
        return Scored(none, None, {suffix: none.clone() for suffix in (*score.extra, *score.flags)}, reasons)
    by_site = None if part.by_site is None else spread(part.by_site)
    return Scored(spread(part.values), by_site, {suffix: spread(values) for suffix, values in part.extra.items()}, reasons)


def _too_long(batch: TextBatch, score: Score, limit: int | None) -> Scored:
    advice = "shorten it, or ask for windows" if score.windows else "shorten it; this score has no windows"
    reason = f"the text has {batch.ids.shape[1]} tokens and the model takes {limit}: {advice}"
    return _among(batch, [], None, score, dict.fromkeys(range(len(batch)), reason))


def text_seed(seed: int, ids: Int[Tensor, " T"], sites: Int[Tensor, " k"]) -> int:
    """A seed that depends on the text alone, so that its sampled numbers do not depend on what is scored beside it."""
    return int(content_hash(f"{seed} {ids.tolist()} {sites.tolist()}"), 16) % (2**63 - 1)


TEXTS = "texts"
"""The unit of progress."""


@dataclass(frozen=True)
class TextScores:
    """The numbers of n texts, in nats.

    values    by column: the scores, and their further columns; NaN where there is none
    shares    of the scores that are sums over sites, each text's share by site; empty where nobody asked for them
    reasons   why a text lacks a number, by its place
    """

    values: dict[str, Float[np.ndarray, " n"]]
    shares: dict[str, list[list[float]]]
    reasons: dict[int, str]


def begin(
    model: ConditionalModel,
    texts: Sequence[Encoded],
    scores: Sequence[Score],
    windows: bool = False,
    progress: Progress | None = None,
    shares: bool = False,
) -> Callable[[], TextScores]:
    """Asks for the passes of all texts, and returns a function that waits for their numbers."""
    known: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    same = np.array([known.setdefault((text.ids, text.sites), len(known)) for text in texts], dtype=np.int64)
    _, first = np.unique(same, return_index=True)
    shapes: dict[tuple[int, int], list[int]] = {}
    for index, (ids, sites) in enumerate(known):
        shapes.setdefault((len(ids), len(sites)), []).append(index)
    count = np.bincount(same)
    by_word = any(score.by_word for score in scores)
    groups: list[tuple[list[int], dict[str, Scored]]] = []
    done = 0
    for _, members in sorted(shapes.items()):
        batch = batch_of([texts[first[index]] for index in members], by_word)
        groups.append((members, score_batch(model, batch, scores, windows, progress)))
        done += int(count[members].sum())
        if progress:
            progress(done, len(texts), TEXTS)
    values = {name: torch.cat(parts).to("cpu", non_blocking=True) for name, parts in _columns(groups, model.device).items()}
    by_site = [
        {
            name: score.by_site.to("cpu", non_blocking=True)
            for name, score in scored.items()
            if shares and score.by_site is not None
        }
        for _, scored in groups
    ]
    passed = _passed(model.device)

    def read() -> TextScores:
        passed()
        place = np.empty(len(known), dtype=np.int64)
        place[[index for members, _ in groups for index in members]] = np.arange(len(known))
        lists: dict[str, list[list[float]]] = {name: [[]] * len(known) for part in by_site for name in part}
        reasons: dict[int, str] = {}
        for (members, scored), part in zip(groups, by_site, strict=True):
            for row in sorted({row for score in scored.values() for row in score.reasons}):
                why = dict.fromkeys(score.reasons[row] for score in scored.values() if row in score.reasons)
                reasons[members[row]] = "; ".join(why)
            for name, share in part.items():
                for index, one in zip(members, share.tolist(), strict=True):
                    lists[name][index] = one
        return TextScores(
            {name: column.numpy()[place[same]] for name, column in values.items()},
            {name: [of_text[index] for index in same] for name, of_text in lists.items()},
            {at: reasons[index] for at, index in enumerate(same) if index in reasons} if reasons else {},
        )

    return read


def _columns(groups: Sequence[tuple[list[int], dict[str, Scored]]], device: torch.device) -> dict[str, list[Tensor]]:
    """The numbers of all groups, by column."""
    columns: dict[str, list[Tensor]] = {}
    for _, scored in groups:
        for name, score in scored.items():
            for column, numbers in {name: score.values, **{f"{name}_{end}": more for end, more in score.extra.items()}}.items():
                columns.setdefault(column, []).append(numbers.to(device, torch.float64))
    return columns


def _passed(device: torch.device) -> Callable[[], object]:
    """A function that waits until all that has been asked of the device is done."""
    if device.type != "cuda":
        return lambda: None
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(device))
    return event.synchronize


def batch_of(texts: Sequence[Encoded], words: bool = True) -> TextBatch:
    """Texts with equally many tokens and sites, side by side. Without `words` every token is its own."""
    places, inside = np.arange(len(texts[0].ids)), np.array([text.tokens.inside for text in texts])
    ids, sites = (
        torch.from_numpy(np.fromiter(chain.from_iterable(part), dtype=np.int64).reshape(len(texts), -1))
        for part in ([text.ids for text in texts], [text.sites for text in texts])
    )
    return TextBatch.of(
        ids,
        sites,
        torch.from_numpy((places >= inside[:, :1]) & (places < inside[:, 1:])),
        _word_ends(texts).gather(1, sites) if words else None,
    )


def _word_ends(texts: Sequence[Encoded]) -> Int[Tensor, "n T"]:
    """For each position the first after its word."""
    words = np.array([text.tokens.words for text in texts], dtype=np.float64)  # NaN for start and end tokens
    ends = np.tile(np.arange(1, words.shape[1] + 1), (len(texts), 1))
    for t in range(words.shape[1] - 2, -1, -1):
        ends[:, t] = np.where(words[:, t] == words[:, t + 1], ends[:, t + 1], ends[:, t])
    return torch.from_numpy(ends)
