"""The model as every request sees it: the same object, whose passes go through the one worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.models.masked_lm import MaskedLM
from unmask.serving.worker import CURRENT, PassWorker

SMALL_SLICE = 32
"""Rows of a slice of a large job on a processor: what a small request may have to wait for."""


class SharedLM(MaskedLM):
    """A `MaskedLM` that many threads may use at once; `model` is the one underneath."""

    def __init__(self, model: MaskedLM) -> None:
        self.__dict__.update(model.__dict__)
        self.model = model
        self.worker = PassWorker(model)

    def logits(self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]) -> Float[Tensor, "n p V"]:
        """As `MaskedLM.logits`: a call of a job that stays apart as it is, others in slices that others may share."""
        self._refuse_too_long(ids.shape[1])
        job = CURRENT.get()
        if job is not None and job.apart:
            found: Tensor = self.worker.call(len(ids), lambda: self.model.logits(ids, positions))
            return found
        most = self.rows_at_once(ids.shape[1], positions.shape[1])
        parts = [
            self.worker.rows(ids[start : start + most], positions[start : start + most]) for start in range(0, len(ids), most)
        ]
        if not parts:
            return self.model.logits(ids, positions)
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def offers_states(self, ids: Int[Tensor, "n T"]) -> bool:
        """As `MaskedLM.offers_states`, whose two passes are a call of its own."""
        return bool(self.worker.call(2, lambda: self.model.offers_states(ids)))

    def substitutions(
        self, ids: Sequence[int], vary: Sequence[int], values: Int[Tensor, "n v"], predict: int
    ) -> Iterator[tuple[slice, Float[Tensor, "b V"]]]:
        """As `MaskedLM.substitutions`: many rows in slices of their own, few as rows that others may share."""
        if len(values) * 2 <= self.rows_at_once(len(ids), 1):
            rows = torch.tensor(list(ids), device=self.device).repeat(len(values), 1)
            rows[:, list(vary)] = values.to(self.device)
            if len(rows):
                yield slice(0, len(rows)), self.logits(rows, torch.full((len(rows), 1), predict, device=self.device))[:, 0]
            return
        start, job = 0, CURRENT.get()
        while start < len(values):
            small = job is not None and job.large and self.device.type == "cpu"
            part = values[start : start + (SMALL_SLICE if small else self.cost.rows(len(ids)))]
            logits = self.worker.call(len(part), partial(self._substituted, ids, vary, part, predict))
            yield slice(start, start + len(part)), logits
            start += len(part)

    unchecked_substitutions = substitutions

    def _substituted(self, ids: Sequence[int], vary: Sequence[int], values: Tensor, predict: int) -> Tensor:
        return torch.cat([logits for _, logits in self.model.substitutions(ids, vary, values, predict)])
