"""Logits of rows that were computed before, in bounded memory: the least recently used go first.

A row is a text with one position masked; its key is the bytes of its ids and of the position. Chains over a small space (two
residues of a protein, say) come back to the same texts all the time, and a chain that stands still is offered the same
texts again. Rows that occur twice in one question are computed once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.models.conditional_model import ConditionalModel

MEMORY_BYTES = 2**28
MOST_ROWS = 2**18
"""So many keys take about 50 MB."""


class LogitMemory:
    """The last `rows` rows that were asked for, by default as many as `most_bytes` hold."""

    def __init__(self, model: ConditionalModel, rows: int | None = None, most_bytes: int = MEMORY_BYTES) -> None:
        dtype = torch.promote_types(model.dtype, torch.float32)
        fitting = most_bytes // (model.vocab_size * torch.empty((), dtype=dtype).element_size())
        self.rows = max(1, min(MOST_ROWS, fitting)) if rows is None else rows
        self._kept = torch.empty((self.rows, model.vocab_size), dtype=dtype, device=model.device)
        self._slots: OrderedDict[bytes, int] = OrderedDict()

    def logits(
        self, ids: Int[Tensor, "m T"], positions: Int[Tensor, "m 1"], run: Callable[[Tensor, Tensor], Tensor]
    ) -> tuple[Float[Tensor, "m 1 V"], int]:
        """Logits of each row, and how many rows were `run` because they were not known."""
        keys = _keys(ids, positions)
        hits = [place for place, key in enumerate(keys) if key in self._slots]
        new = {key: place for place, key in enumerate(keys) if key not in self._slots}
        out = torch.empty((len(keys), 1, self._kept.shape[1]), dtype=self._kept.dtype, device=self._kept.device)
        if hits:
            out[hits, 0] = self._kept[[self._slots[keys[place]] for place in hits]]
            for place in hits:
                self._slots.move_to_end(keys[place])
        if new:
            computed = run(ids[list(new.values())], positions[list(new.values())])
            number = {key: row for row, key in enumerate(new)}
            places = [place for place, key in enumerate(keys) if key in number]
            out[places] = computed[[number[keys[place]] for place in places]]
            self._keep(list(new), computed[:, 0])
        return out, len(new)

    def _keep(self, keys: list[bytes], logits: Float[Tensor, "k V"]) -> None:
        keys, logits = keys[-self.rows :], logits[-self.rows :]
        slots = []
        for key in keys:
            slot = len(self._slots) if len(self._slots) < self.rows else self._slots.popitem(last=False)[1]
            self._slots[key] = slot
            slots.append(slot)
        self._kept[slots] = logits


def _keys(ids: Int[Tensor, "m T"], positions: Int[Tensor, "m 1"]) -> list[bytes]:
    table = torch.cat([ids, positions], 1).int().cpu().numpy()
    width = table.shape[1] * table.itemsize
    whole = table.tobytes()
    return [whole[start : start + width] for start in range(0, len(whole), width)]
