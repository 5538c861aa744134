"""Samples on their way to Parquet: a few tensors per kept sweep, which stay on the device until they are written.

They are written by a thread while the chains go on: it waits for the device, spells the texts, each different one once, and
writes the part, then the checkpoint that follows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from unmask.models.masked_lm import MaskedLM
from unmask.sampling.run.group_run import GroupRun, Mark, on_host
from unmask.sampling.run.run_folder import SampleFolder, sample_columns

if TYPE_CHECKING:
    import pyarrow


class SweepRows(NamedTuple):
    """The samples of one sweep of a group."""

    sweep: int
    chains: list[int]
    length: int
    ids: Int[Tensor, "n T"]
    energies: Float[Tensor, " n"]
    log_probs: Float[Tensor, " n"] | None
    passes: Int[Tensor, " n"]

    @classmethod
    def of(cls, run: GroupRun) -> SweepRows:
        """The chains' samples now."""
        log_probs = run.log_probs()
        return cls(
            run.done,
            run.group.chains,
            run.group.target.sites,
            run.texts().int(),
            run.energies(),
            None if log_probs is None else log_probs.clone(),
            run.spent.clone(),
        )


def table_of(rows: Sequence[SweepRows], model: MaskedLM) -> pyarrow.Table:
    """The samples as samples.parquet has them."""
    import pyarrow as pa

    tables = []
    for part in rows:
        ids, n = part.ids.cpu().numpy(), len(part.chains)
        different, which = np.unique(ids, axis=0, return_inverse=True)
        texts = np.array([model.text(row) for row in different.tolist()], dtype=object)[which.reshape(-1)]
        columns = [
            np.array(part.chains, dtype=np.int32),
            np.full(n, part.sweep, dtype=np.int32),
            texts,
            part.energies.cpu().numpy(),
            pa.nulls(n, pa.float64()) if part.log_probs is None else part.log_probs.cpu().numpy(),
            part.passes.cpu().numpy(),
            np.full(n, part.length, dtype=np.int32),
            pa.ListArray.from_arrays(np.arange(0, ids.size + 1, ids.shape[1], dtype=np.int32), ids.reshape(-1)),
        ]
        tables.append(pa.Table.from_arrays([pa.array(column) for column in columns], schema=sample_columns()))
    return pa.concat_tables([sample_columns().empty_table(), *tables])


class Writer:
    """Writes the samples of a run's groups to its folder, in the order given, while the caller goes on."""

    def __init__(self, folder: SampleFolder, model: MaskedLM) -> None:
        self.folder, self.model = folder, model
        self._thread = ThreadPoolExecutor(1)
        self._last: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.wait()
        finally:
            self._thread.shutdown()

    def keep(self, group: int, rows: Sequence[SweepRows], mark: Mark) -> None:
        """Write samples, then the checkpoint that follows them; waits for what was given before."""
        self.wait()
        self._last = self._thread.submit(self._write, group, list(rows), mark)

    def wait(self) -> None:
        """Until everything is written; what went wrong there is raised here."""
        if self._last is not None:
            last, self._last = self._last, None
            last.result()

    def _write(self, group: int, rows: Sequence[SweepRows], mark: Mark) -> None:
        self.folder.keep(group, table_of(rows, self.model), on_host(mark))
