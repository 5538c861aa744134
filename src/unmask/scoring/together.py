"""Texts that are scored together: equal ones once, those of one length side by side, so that no padding is computed.

A GPU works on its own once it has been told what to do. So the passes of many texts are asked for first (`begin`), and their
numbers are read later: in between, the process can write the texts before and tokenise the texts after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress
from unmask.scoring.batch import Scored, ScoreSettings, score_batch
from unmask.scoring.registry import SCORES
from unmask.scoring.texts import Encoded, batch_of

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


def score_texts(
    model: ConditionalModel,
    texts: Sequence[Encoded],
    settings: ScoreSettings,
    progress: Progress | None = None,
    shares: bool = False,
) -> TextScores:
    """The scores of each text; equal texts get the same numbers. `progress`: texts done, and long work within."""
    return begin(model, texts, settings, progress, shares)()


def begin(
    model: ConditionalModel,
    texts: Sequence[Encoded],
    settings: ScoreSettings,
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
    by_word = any(SCORES[name].by_word for name in settings.scores)
    groups: list[tuple[list[int], dict[str, Scored]]] = []
    done = 0
    for _, members in sorted(shapes.items()):
        batch = batch_of([texts[first[index]] for index in members], by_word)
        groups.append((members, score_batch(model, batch, settings, progress)))
        done += int(count[members].sum())
        if progress:
            progress(done, len(texts), TEXTS)
    values = {name: _on_host(torch.cat(parts)) for name, parts in _columns(groups, model.device).items()}
    by_site = [
        {name: _on_host(score.by_site) for name, score in scored.items() if shares and score.by_site is not None}
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


def _on_host(numbers: Tensor) -> Tensor:
    """A copy that is complete when `_passed` says so."""
    return numbers.to("cpu", non_blocking=True)


def _passed(device: torch.device) -> Callable[[], object]:
    """A function that waits until all that has been asked of the device is done."""
    if device.type != "cuda":
        return lambda: None
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(device))
    return event.synchronize
