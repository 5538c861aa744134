"""Samples as rows: those of one sweep of a group, and as the table that samples.parquet has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from unmask.models.masked_lm import MaskedLM

if TYPE_CHECKING:
    import pyarrow


class SweepRows(NamedTuple):
    """The samples of one sweep of a group of n chains. Its tensors stay on the device until they
    are written.

    sweep       the number of the sweep, from 1
    chains      the numbers of the n chains in the whole run
    length      free tokens of each text
    ids         token ids
    energies    energies of the texts; None of decoders, whose law has none
    log_probs   log-probabilities, of decoders that have a law
    passes      passes of each chain so far
    """

    sweep: int
    chains: list[int]
    length: int
    ids: Int[Tensor, "n T"]
    energies: Float[Tensor, " n"] | None
    log_probs: Float[Tensor, " n"] | None
    passes: Int[Tensor, " n"]

    def on_host(self) -> SweepRows:
        """The samples in this process's memory."""
        return self._replace(
            ids=self.ids.cpu(),
            energies=None if self.energies is None else self.energies.cpu(),
            log_probs=None if self.log_probs is None else self.log_probs.cpu(),
            passes=self.passes.cpu(),
        )


def sample_columns() -> pyarrow.Schema:
    """The columns of samples.parquet."""
    import pyarrow as pa

    return pa.schema(
        {
            "chain": pa.int32(),
            "sweep": pa.int32(),
            "text": pa.string(),
            "energy": pa.float64(),
            "log_prob": pa.float64(),
            "passes": pa.int64(),
            "length": pa.int32(),
            "ids": pa.list_(pa.int32()),
        }
    )


def table_of(sweeps: Sequence[SweepRows], model: MaskedLM) -> pyarrow.Table:
    """The samples of several sweeps as samples.parquet has them."""
    import pyarrow as pa

    tables = [sample_columns().empty_table()]  # the columns are there without any sweep, too
    for rows in sweeps:
        tables.append(_table_of_sweep(rows, model))
    return pa.concat_tables(tables)


def _table_of_sweep(rows: SweepRows, model: MaskedLM) -> pyarrow.Table:
    import pyarrow as pa

    n = len(rows.chains)
    ids = rows.ids.cpu().numpy()
    tokens_per_text = ids.shape[1]
    ends = np.arange(0, ids.size + 1, tokens_per_text, dtype=np.int32)
    energies = pa.nulls(n, pa.float64())
    if rows.energies is not None:
        energies = rows.energies.cpu().numpy()
    log_probs = pa.nulls(n, pa.float64())
    if rows.log_probs is not None:
        log_probs = rows.log_probs.cpu().numpy()
    values = {
        "chain": np.array(rows.chains, dtype=np.int32),
        "sweep": np.full(n, rows.sweep, dtype=np.int32),
        "text": spelled(ids, model),
        "energy": energies,
        "log_prob": log_probs,
        "passes": rows.passes.cpu().numpy(),
        "length": np.full(n, rows.length, dtype=np.int32),
        "ids": pa.ListArray.from_arrays(ends, ids.reshape(-1)),
    }
    columns = sample_columns()
    arrays = [pa.array(values[name]) for name in columns.names]
    return pa.Table.from_arrays(arrays, schema=columns)


def spelled(ids: Int[np.ndarray, "n T"], model: MaskedLM) -> np.ndarray:
    """The text of each row of token ids; a text that several chains hold is spelled once."""
    different, which = np.unique(ids, axis=0, return_inverse=True)
    texts = [model.words.text(row) for row in different.tolist()]
    # NumPy 2.0.0 gives `which` a second axis.
    return np.array(texts, dtype=object)[which.reshape(-1)]
