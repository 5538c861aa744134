"""The kept texts of chains: those of one sweep of a group, all of a run as columns of arrays, and
as the table that a file has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from unmask.models.masked_lm import MaskedLM

if TYPE_CHECKING:
    import pandas
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


@dataclass(frozen=True, eq=False)
class Samples:
    """The n kept texts of a run, ordered by chain and then by sweep. Each column is an array of
    shape (n,).

    chain     the number of the chain, from 0
    sweep     the number of the sweep, from 1
    text      as it is spelled
    energy    of the text
    passes    forward passes of the chain so far
    length    free tokens of the text
    ids       token ids of the text, an array for each; special tokens included
    """

    chain: NDArray[np.int32]
    sweep: NDArray[np.int32]
    text: NDArray[np.object_]
    energy: NDArray[np.float64]
    passes: NDArray[np.int64]
    length: NDArray[np.int32]
    ids: NDArray[np.object_]

    def __len__(self) -> int:
        return len(self.chain)

    def of(self, which: NDArray[Any]) -> Samples:
        """Some of the samples.

        which   their places, or for each sample whether it is one of them
        """
        return Samples(**{name: column[which] for name, column in self.columns().items()})

    def last_of_each_chain(self) -> Samples:
        """The last sample of each chain."""
        next_chain = np.append(self.chain[1:], -1)
        return self.of(self.chain != next_chain)

    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def rows(self) -> list[dict[str, Any]]:
        """A dict for each sample."""
        lists = {name: column.tolist() for name, column in self.columns().items()}
        lists["ids"] = [ids.tolist() for ids in self.ids]
        return [
            dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)
        ]

    def to_frame(self) -> pandas.DataFrame:
        """A data frame with a row for each sample."""
        from unmask.common.lazy import pandas

        return pandas.DataFrame(self.columns())


def samples_of_sweeps(sweeps: Sequence[SweepRows], model: MaskedLM) -> Samples:
    """The samples of several sweeps of several groups."""
    return joined([_samples_of_sweep(rows, model) for rows in sweeps])


def joined(parts: Sequence[Samples]) -> Samples:
    """The samples of all parts, ordered by chain and then by sweep."""
    whole = {}
    for one in fields(Samples):
        columns = [getattr(part, one.name) for part in parts]
        whole[one.name] = np.concatenate(columns)
    order = np.lexsort((whole["sweep"], whole["chain"]))
    return Samples(**whole).of(order)


def samples_of_table(table: pyarrow.Table) -> Samples:
    """The samples that a table of `sample_columns` has."""
    columns: dict[str, NDArray[Any]] = {}
    for one in fields(Samples):
        column = table[one.name]
        if one.name == "ids":
            columns[one.name] = _as_objects([np.array(ids, np.int32) for ids in column.to_pylist()])
        else:
            columns[one.name] = column.to_numpy()
    return joined([Samples(**columns)])


def _samples_of_sweep(rows: SweepRows, model: MaskedLM) -> Samples:
    """The samples of one sweep of a group."""
    n = len(rows.chains)
    on_host = rows.on_host()
    ids = on_host.ids.numpy().astype(np.int32)
    energies = np.full(n, np.nan)
    if on_host.energies is not None:
        energies = on_host.energies.double().numpy()
    return Samples(
        chain=np.array(rows.chains, dtype=np.int32),
        sweep=np.full(n, rows.sweep, dtype=np.int32),
        text=spelled(ids, model),
        energy=energies,
        passes=on_host.passes.numpy().astype(np.int64),
        length=np.full(n, rows.length, dtype=np.int32),
        ids=_as_objects(list(ids)),
    )


def _as_objects(arrays: Sequence[NDArray[np.int32]]) -> NDArray[np.object_]:
    """An array of arrays. NumPy itself would make a matrix of arrays of one length."""
    column = np.empty(len(arrays), dtype=object)
    for place, array in enumerate(arrays):
        column[place] = array
    return column


def sample_columns() -> pyarrow.Schema:
    """The columns of samples.parquet."""
    from unmask.common.lazy import pyarrow as pa

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
    from unmask.common.lazy import pyarrow as pa

    tables = [sample_columns().empty_table()]  # the columns are there without any sweep, too
    for rows in sweeps:
        tables.append(_table_of_sweep(rows, model))
    return pa.concat_tables(tables)


def _table_of_sweep(rows: SweepRows, model: MaskedLM) -> pyarrow.Table:
    from unmask.common.lazy import pyarrow as pa

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
