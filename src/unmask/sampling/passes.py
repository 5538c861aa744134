"""Forward passes in calls of one shape, so that a row's numbers do not depend on what else is computed beside it.

Matrix libraries choose their inner loops by the shape of the call, and with them the order of summation: the same row
can differ in its last bits between a call of 1 row and one of 64. Calls of a fixed number of rows, the last one filled up
with copies, give each row the same bits whatever the batch, which makes chains reproducible token for token.

That is also why logits can be remembered: a row that was computed before, in any company, has the bits that it would have
again. A chain that comes back to a text, or is offered the same text twice, then costs no pass (see `memory`).
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.models.conditional_model import ConditionalModel
from unmask.sampling.memory import LogitMemory

CPU_ROWS = 16
GPU_ROWS = 256
CHAINS_THAT_FILL = {4: 1, 8: 8, 16: 32}
"""On a CPU, rows of a call and from how many chains on they are worth it: fewer leave most of a larger call to copies."""


def rows_for(model: ConditionalModel, chains: int) -> int:
    """The rows of every call of a run of so many chains, whichever of them run side by side."""
    if model.device.type == "cuda":
        return GPU_ROWS
    return max(rows for rows, fewest in CHAINS_THAT_FILL.items() if chains >= fewest)


class Passes:
    """Runs the model on rows and counts them; one pass is one row.

    count        rows that were asked for
    remembered   those of them that the memory had
    """

    def __init__(self, model: ConditionalModel, rows: int | None = None, memory: LogitMemory | None = None) -> None:
        self.model = model
        self.rows = rows or (GPU_ROWS if model.device.type == "cuda" else CPU_ROWS)
        self.memory = memory
        self.count = self.remembered = 0

    def logits(self, ids: Int[Tensor, "m T"], positions: Int[Tensor, "m p"]) -> Float[Tensor, "m p V"]:
        """Logits at `positions` of each row, on the model's device."""
        self.count += len(ids)
        if self.memory is None or positions.shape[1] != 1:
            return self._run(ids, positions)
        logits, ran = self.memory.logits(ids, positions, self._run)
        self.remembered += len(ids) - ran
        return logits

    def _run(self, ids: Int[Tensor, "m T"], positions: Int[Tensor, "m p"]) -> Float[Tensor, "m p V"]:
        parts = []
        rows = self.rows_of_a_call(ids.shape[1], positions.shape[1])
        for start in range(0, len(ids), rows):
            part, where = ids[start : start + rows], positions[start : start + rows]
            filler = rows - len(part)
            if filler:
                part = torch.cat([part, part[-1:].expand(filler, -1)])
                where = torch.cat([where, where[-1:].expand(filler, -1)])
            logits = self.model.logits(part.to(self.model.device), where.to(self.model.device))
            parts.append(logits[: rows - filler])
        return torch.cat(parts)

    def rows_of_a_call(self, tokens: int, predicted: int) -> int:
        """A power of two, no more than the model takes at once: a call that it would cut in two has two shapes, and several
        threads share out other numbers of rows unevenly, so that a row's bits depend on its place.
        """
        most = getattr(self.model, "rows_at_once", None)
        rows = self.rows if most is None else min(self.rows, int(most(tokens, predicted)))
        return 1 << (rows.bit_length() - 1)
