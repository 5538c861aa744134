"""The scores of texts of many lengths: equal texts are scored once, and those of one length side
by side.

A GPU computes asynchronously. So `begin` launches the passes of many texts, and their numbers are
read later. In between, the process can write the rows of the texts before and tokenise the texts
after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress
from unmask.scoring.encoding import Encoded
from unmask.scoring.scored_batch import score_batch
from unmask.scoring.scores.score import Score, Scored
from unmask.scoring.text_batch import batch_of

TEXTS = "texts"
PASSES = "passes"
"""The units of progress."""
Shape = tuple[int, int]
"""Numbers of tokens and of sites."""


@dataclass(frozen=True)
class TextScores:
    """The numbers of n texts, in nats.

    values    by column: the scores, and their further columns; NaN if a text has no number
    shares    of the scores that are sums over sites, each text's share by site; empty where
              nobody asked for them
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
    """Asks for the passes of all texts, and returns a function that waits for their numbers.

    `progress` gets how many passes are done, by the scores' costs, of those of all these texts.
    """
    distinct = Distinct(texts)
    passes_of_shape = {
        shape: len(members) * sum(score.cost(shape[1]) for score in scores)
        for shape, members in distinct.of_shape.items()
    }
    all_passes = sum(passes_of_shape.values())
    by_word = any(score.by_word for score in scores)
    numbers = Numbers(shares)
    done = 0
    for shape, members in sorted(distinct.of_shape.items()):
        batch = batch_of([texts[distinct.first[text]] for text in members], by_word)
        report = None
        if progress is not None:
            report = _part_of(progress, done, passes_of_shape[shape], all_passes)
        scored = score_batch(model, batch, scores, windows, report)
        numbers.add(members, scored)
        done += passes_of_shape[shape]
        if progress is not None:
            progress(done, all_passes, PASSES)
    # Copies come after all passes were asked for: one that waits for a GPU would hold back the
    # next batch.
    numbers.to_cpu(model.device)
    wait = _waiting(model.device)

    def read() -> TextScores:
        wait()
        return numbers.of_texts(distinct.number_of)

    return read


class Distinct:
    """The distinct ones of some texts, numbered from 0.

    number_of   for each text the number of the distinct text that it is
    first       for each distinct text the place of the first text that is it
    of_shape    the numbers of the distinct texts with so many tokens and sites
    """

    def __init__(self, texts: Sequence[Encoded]) -> None:
        numbers: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        number_of = [numbers.setdefault((text.ids, text.sites), len(numbers)) for text in texts]
        self.number_of: NDArray[np.int64] = np.array(number_of, dtype=np.int64)
        _, first = np.unique(self.number_of, return_index=True)
        self.first: NDArray[np.int64] = first
        self.of_shape: dict[Shape, list[int]] = {}
        for number, (ids, sites) in enumerate(numbers):
            self.of_shape.setdefault((len(ids), len(sites)), []).append(number)


class Numbers:
    """The numbers of distinct texts, batch by batch, on the model's device and then on the CPU.

    shares   whether each site's share is kept
    """

    def __init__(self, shares: bool) -> None:
        self.shares = shares
        self.columns: dict[str, list[Tensor]] = {}
        self.values: dict[str, Tensor] = {}
        self.by_site: list[tuple[str, list[int], Tensor]] = []
        """A score's name, the numbers of a batch's texts, and their shares."""
        self.in_order: list[int] = []
        """The numbers of the texts in the order of the batches."""
        self.reasons: dict[int, list[str]] = {}
        """Why a text lacks scores, each reason once."""

    def add(self, members: Sequence[int], scored: dict[str, Scored]) -> None:
        """Add the scores of a batch, whose texts have the numbers `members`."""
        for name, score in scored.items():
            self.columns.setdefault(name, []).append(score.values)
            for suffix, more in score.extra.items():
                self.columns.setdefault(f"{name}_{suffix}", []).append(more)
            if self.shares and score.by_site is not None:
                self.by_site.append((name, list(members), score.by_site))
            for row, reason in score.reasons.items():
                reasons = self.reasons.setdefault(members[row], [])
                if reason not in reasons:
                    reasons.append(reason)
        self.in_order += members

    def to_cpu(self, device: torch.device) -> None:
        """Ask for copies of all numbers; a GPU makes them later."""
        for name, parts in self.columns.items():
            doubles = [part.to(device, torch.float64) for part in parts]
            self.values[name] = torch.cat(doubles).to("cpu", non_blocking=True)
        self.by_site = [
            (name, members, numbers.to("cpu", non_blocking=True))
            for name, members, numbers in self.by_site
        ]

    def of_texts(self, number_of: np.ndarray) -> TextScores:
        """The numbers of all texts, each of which is the distinct one of its number."""
        count = len(self.in_order)
        place = np.empty(count, dtype=np.int64)
        place[self.in_order] = np.arange(count)
        shares: dict[str, list[list[float]]] = {name: [[]] * count for name, _, _ in self.by_site}
        for name, members, numbers in self.by_site:
            for text, of_text in zip(members, numbers.tolist(), strict=True):
                shares[name][text] = of_text
        return TextScores(
            values={name: column.numpy()[place[number_of]] for name, column in self.values.items()},
            shares={
                name: [of_text[number] for number in number_of] for name, of_text in shares.items()
            },
            reasons={
                at: "; ".join(self.reasons[number])
                for at, number in enumerate(number_of.tolist())
                if number in self.reasons
            },
        )


def _part_of(progress: Progress, before: int, own: int, passes: int) -> Progress:
    """Reports the progress of one of several batches: `own` of all `passes`, after the `before`
    of those before it.
    """

    def report(done: int, total: int, what: str = PASSES) -> None:
        share = done / total if total else 0.0
        progress(before + int(own * min(share, 1.0)), passes, PASSES)

    return report


def _waiting(device: torch.device) -> Callable[[], object]:
    """A function that waits until the device has done everything that was asked of it before
    now.
    """
    if device.type != "cuda":
        return lambda: None
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(device))
    return event.synchronize
