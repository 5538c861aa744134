"""What a sampling run leaves in its folder, beyond what every run leaves (see `unmask.runs.folder`).

    starts.parquet            the texts that the chains started from
    parts/group-G-S.parquet   samples of group G up to sweep S, written as the run goes
    checkpoints/group-G.npz   where group G is; written after the part that leads up to it
    samples.parquet           all samples, when the run is done
    rates.parquet             per position: steps, accepted, proposed, changed
    diagnostics.json, figures/chains.png

A part that is newer than its group's checkpoint is dropped when the run goes on: the same sweeps are drawn again, and come
out the same. A checkpoint says how many samples its parts must hold, so that a part that was deleted is noticed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.errors import InputError
from unmask.runs.files import ELSEWHERE, read_arrays, read_table, write_arrays
from unmask.runs.folder import RunFolder, read_parts, read_rows, read_settings
from unmask.sampling.run.group_run import Snapshot, check_snapshot
from unmask.sampling.settings import SampleSettings

if TYPE_CHECKING:
    import pandas
    import pyarrow

KIND = "sample"
AGAIN = "start the run again in another --out folder"
REMEDY = "delete it and give the command of the run again; the group's samples are drawn again, and are the same"


def sample_columns() -> pyarrow.Schema:
    """The columns of samples.parquet."""
    import pyarrow as pa

    return pa.schema(
        [
            ("chain", pa.int32()),
            ("sweep", pa.int32()),
            ("text", pa.string()),
            ("energy", pa.float64()),
            ("log_prob", pa.float64()),
            ("passes", pa.int64()),
            ("length", pa.int32()),
            ("ids", pa.list_(pa.int32())),
        ]
    )


class SampleFolder(RunFolder):
    """A run folder with a checkpoint for each group of chains; more sweeps than before are welcome, but for annealing."""

    def __init__(self, path: str | os.PathLike[str], settings: SampleSettings, model: str, about: Mapping[str, Any]) -> None:
        super().__init__(
            path,
            KIND,
            {**settings.to_dict(), **about, "weights": model},
            model=model,
            same_content={"model": "weights"},
            may_grow=("sweeps",) if settings.entry.mixes or settings.entry.decodes else (),
            remedy="delete it and its group's file in checkpoints, and give the same command again",
        )
        self.of = settings

    def checkpoint(self, group: int, shapes: Mapping[str, tuple[int, ...]]) -> Snapshot | None:
        """Where a group is; None before its first checkpoint. Parts beyond it are dropped, and what is damaged is refused."""
        path = self._checkpoint(group)
        saved = read_checkpoint(path) if path.exists() else None
        if saved is not None:
            with self.restoring(group):
                check_snapshot(saved, shapes, self.of)
        done = 0 if saved is None else int(saved["done"])
        for part in self.parts(_series(group)):
            if int(part.name.rpartition("-")[2]) > done:
                self.drop(part)
        if saved is not None:
            wanted = len(saved["chains"]) * self.of.kept_after(done)
            there = self.rows(sample_columns(), _series(group)).num_rows
            if there != wanted or self.gaps(_series(group)):
                raise InputError(
                    f"{wanted - there:,} of the {wanted:,} samples of group {group} are gone from {str(self.own / 'parts')!r}: "
                    f"delete {str(path)!r} and give the same command again; the group's samples are drawn again, and are the same"
                )
        return saved

    @contextmanager
    def restoring(self, group: int) -> Iterator[None]:
        """What is refused in here is the fault of the group's checkpoint."""
        try:
            yield
        except InputError as error:
            raise InputError(f"checkpoint {str(self._checkpoint(group))!r} is damaged ({error}): {REMEDY}") from None

    def keep(self, group: int, rows: pyarrow.Table, snapshot: Snapshot) -> None:
        """Keep samples, then the state that follows them."""
        if rows.num_rows:
            self.store(rows, sample_columns(), f"{_series(group)}-{int(snapshot['done']):08d}")
        write_arrays(self._checkpoint(group), ELSEWHERE, **snapshot)

    def samples(self) -> pandas.DataFrame:
        """All samples so far."""
        return as_frame(self.rows(sample_columns()))

    def _checkpoint(self, group: int) -> Path:
        return self.own / "checkpoints" / f"{_series(group)}.npz"


def as_frame(table: pyarrow.Table) -> pandas.DataFrame:
    """By chain and sweep."""
    frame: pandas.DataFrame = table.to_pandas()
    return frame.sort_values(["chain", "sweep"], kind="stable").reset_index(drop=True)


def stored_settings(folder: Path) -> SampleSettings:
    """The settings of the run in a folder."""
    stored = read_settings(folder, KIND)
    try:
        return SampleSettings.from_dict(stored)
    except KeyError as missing:
        why = f"lacks {missing}"
    except (InputError, TypeError, ValueError) as error:
        why = str(error)
    raise InputError(f"{str(folder / 'settings.json')!r} is not of an `unmask sample` run, or damaged ({why}): {AGAIN}")


def stored_samples(folder: Path) -> pandas.DataFrame:
    """The samples of a run that may still be under way."""
    run = read_settings(folder, KIND).get("run")
    return as_frame(read_rows(read_parts(folder, run), sample_columns()))


def stored_snapshots(folder: Path) -> list[Snapshot]:
    """The checkpoints of a run."""
    return [read_checkpoint(path) for path in sorted((folder / "checkpoints").glob("group-*.npz"))]


def stored_starts(folder: Path, known: pandas.DataFrame) -> pandas.DataFrame:
    """The starts as starts.parquet has them, texts included; what is `known` of them while the run is under way."""
    file = folder / "starts.parquet"
    if not file.is_file():
        return known
    frame: pandas.DataFrame = read_table(file, remedy="give the command of the run again, which writes it anew").to_pandas()
    return frame


def read_checkpoint(path: Path) -> Snapshot:
    """One group's checkpoint."""
    names = ("done", "chains", "positions", "starts", "independent", "spent", "counts", "scoring_passes", "remembered")
    saved = read_arrays(path, names, REMEDY)
    chains, sites = len(saved["chains"].flatten()), len(saved["positions"].flatten())
    if saved["starts"].shape[:1] != (chains,) or saved["counts"].shape[1:] != (sites,) or saved["done"].shape:
        raise InputError(f"checkpoint {str(path)!r} is damaged (its arrays do not fit each other): {REMEDY}")
    return saved


def _series(group: int) -> str:
    return f"group-{group:04d}"
