"""A run's samples, in memory and in its folder.

Beyond what every run leaves (see `unmask.runs.folder`), a sampling run leaves

    starts.parquet            the texts that the chains started from
    parts/group-G-S.parquet   samples of group G up to sweep S, written as the run goes
    checkpoints/group-G.npz   where group G is; written after the part that leads up to it
    samples.parquet           all samples, when the run is done
    rates.parquet             per position: steps, accepted, proposed, changed
    diagnostics.json, figures/chains.png

A part that is newer than its group's checkpoint is dropped when the run goes on: the same
sweeps are drawn again, and come out the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from unmask.common.errors import InputError
from unmask.common.files import atomic_path, read_table, reading, user_path, writing
from unmask.common.results import Result
from unmask.models.masked_lm import MaskedLM
from unmask.runs.folder import RunFolder, read_parts, read_rows, read_settings
from unmask.sampling.settings import SampleSettings

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from unmask.sampling.chains.advance import GroupRun
    from unmask.sampling.chains.diagnostics import Diagnosis

KIND = "sample"
SHOWN = 10
COUNTS = ("steps", "accepted", "proposed", "changed")
"""For each site: redrawn in a step; such steps accepted; proposed another token; holding
another token after the step.
"""
OF_ALL_RUNS = ("done", "chains", "positions", "starts", "spent", "counts", "scoring_passes")
"""Arrays of every checkpoint; those of a kernel's state come besides."""
AGAIN = "start the run again in another folder"
REMEDY = (
    "delete it and give the command of the run again; the group's samples are drawn again, and are"
    " the same"
)


class OtherTerms(InputError):
    """The user's terms are not those of the run."""


Snapshot = dict[str, NDArray[Any]]
Mark = Mapping[str, Tensor | NDArray[Any]]
"""A snapshot whose arrays are still on the device."""


@dataclass(frozen=True, repr=False, eq=False)
class SampleRun(Result):
    """The result of `unmask.sample`.

    settings     what decided the samples: kernel, energy, temperature, seed, ...
    samples      one row per kept text: chain, sweep, text, energy, log_prob, passes, length, ids
    starts       one row per chain: the text it started from (`ids`, and `text` where known)
    rates        one row per length and position: steps, accepted, proposed, changed
    folder       where the run is kept, if it is

    >>> run = unmask.sample("A [MASK] sat on the [MASK].", chains=2, sweeps=3, seed=0)
    >>> run.settings.kernel.name, len(run.starts)
    ('mh', 2)
    """

    settings: SampleSettings
    samples: pandas.DataFrame
    starts: pandas.DataFrame
    rates: pandas.DataFrame
    folder: Path | None = None

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """How far to trust the samples; measured when first asked for, and written nowhere."""
        from unmask.sampling.chains.diagnostics import measure_run

        return measure_run(self)

    @property
    def last(self) -> pandas.DataFrame:
        """The last sample of each chain; of a decoder, whose samples are independent, all of
        them.
        """
        return (
            self.samples
            if self.settings.kernel.decodes
            else self.samples.drop_duplicates("chain", keep="last")
        )

    def to_frame(self) -> pandas.DataFrame:
        """The samples."""
        return self.samples

    def to_dict(self) -> dict[str, Any]:
        """The object that `unmask sample --json` prints: the settings, the last sample of each
        chain, and the diagnosis.
        """
        last = self.last[["chain", "sweep", "text", "energy", "log_prob", "passes"]]
        samples = last.astype(object).where(last.notna(), None).to_dict("records")
        return {
            "settings": self.settings.to_dict(),
            "samples": samples,
            "diagnosis": self.diagnosis.to_dict(),
        }

    def __repr__(self) -> str:
        chains, label = self.samples["chain"].nunique(), self.settings.kernel.label
        return (
            f"SampleRun({label}, {self.settings.energy} energy, {len(self.samples):,} samples of"
            f" {chains:,} chains)"
        )

    def _repr_html_(self) -> str:
        sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.diagnosis.verdict)
        texts = (
            self.last[["chain", "text", "energy"]]
            .tail(SHOWN)
            .to_html(index=False, float_format="{:.2f}".format, escape=True)
        )
        return f"<p>{escape(repr(self)[10:-1])}</p><ul>{sentences}</ul>{texts}"


def assemble(
    settings: SampleSettings,
    table: pyarrow.Table,
    snapshots: Sequence[Snapshot],
    text: Callable[[Sequence[int]], str] | None = None,
    folder: Path | None = None,
) -> SampleRun:
    """A run from its samples and the snapshots of its groups; `text` spells token ids, where
    the model is at hand.
    """
    import pandas

    wanted = sum(
        len(saved["chains"]) * settings.kept_after(int(saved["done"])) for saved in snapshots
    )
    if table.num_rows < wanted:
        raise InputError(
            f"{wanted - table.num_rows:,} of the {wanted:,} samples are gone from {str(folder)!r}:"
            " delete its checkpoints and give the command of the run again; they are drawn again,"
            " and are the same"
        )
    samples = (
        table.to_pandas().sort_values(["chain", "sweep"], kind="stable").reset_index(drop=True)
    )
    starts, rates = [], []
    for saved in snapshots:
        for chain, ids in zip(saved["chains"].tolist(), saved["starts"].tolist(), strict=True):
            starts.append({"chain": chain, "ids": ids, **({"text": text(ids)} if text else {})})
        for site, position in enumerate(saved["positions"].tolist()):
            counted = {name: int(saved["counts"][row, site]) for row, name in enumerate(COUNTS)}
            counted["scoring_passes"] = 0 if site else int(saved["scoring_passes"])
            rates.append({"length": len(saved["positions"]), "position": position, **counted})
    first = pandas.DataFrame(starts).sort_values("chain").reset_index(drop=True)
    by_position = pandas.DataFrame(rates).groupby(["length", "position"], as_index=False).sum()
    return SampleRun(settings, samples, first, by_position, folder)


def load_run(path: Any) -> SampleRun:
    """A run as its folder has it so far; it need not be finished."""
    folder = user_path(path, "run")
    settings = stored_settings(folder)
    snapshots = [
        read_checkpoint(path) for path in sorted((folder / "checkpoints").glob("group-*.npz"))
    ]
    table = read_rows(
        read_parts(folder), sample_columns()
    )  # after the checkpoints: each follows its part
    if not table.num_rows or not snapshots:
        raise InputError(
            f"folder {str(folder)!r} holds no sample yet: let the run go on past its burn-in"
        )
    run = assemble(settings, table, snapshots, None, folder)
    file = folder / "starts.parquet"
    if not file.is_file():  # the run is under way
        return run
    return replace(
        run,
        starts=read_table(
            file, remedy="give the command of the run again, which writes it again"
        ).to_pandas(),
    )


def _checkpoint(folder: Path, group: int) -> Path:
    return folder / "checkpoints" / f"{_series(group)}.npz"


def sample_columns() -> pyarrow.Schema:
    """The columns of samples.parquet."""
    import pyarrow as pa

    kinds = {
        "chain": pa.int32(),
        "sweep": pa.int32(),
        "text": pa.string(),
        "energy": pa.float64(),
        "log_prob": pa.float64(),
    }
    return pa.schema(
        {**kinds, "passes": pa.int64(), "length": pa.int32(), "ids": pa.list_(pa.int32())}
    )


class SweepRows(NamedTuple):
    """The samples of one sweep of a group; its tensors stay on the device until they are
    written.
    """

    sweep: int
    chains: list[int]
    length: int
    ids: Int[Tensor, "n T"]
    energies: Float[Tensor, " n"]
    log_probs: Float[Tensor, " n"] | None
    passes: Int[Tensor, " n"]

    def on_host(self) -> SweepRows:
        """The samples in this process's memory."""
        return SweepRows._make(
            value.cpu() if isinstance(value, Tensor) else value for value in self
        )


def table_of(rows: Sequence[SweepRows], model: MaskedLM) -> pyarrow.Table:
    """The samples as samples.parquet has them."""
    import pyarrow as pa

    tables = []
    for part in rows:
        ids, n = part.ids.cpu().numpy(), len(part.chains)
        different, which = np.unique(ids, axis=0, return_inverse=True)
        texts = np.array([model.text(row) for row in different.tolist()], dtype=object)[
            which.reshape(-1)
        ]
        log_probs = (
            pa.nulls(n, pa.float64()) if part.log_probs is None else part.log_probs.cpu().numpy()
        )
        rows = pa.ListArray.from_arrays(
            np.arange(0, ids.size + 1, ids.shape[1], dtype=np.int32), ids.reshape(-1)
        )
        sweep, length = (np.full(n, number, dtype=np.int32) for number in (part.sweep, part.length))
        numbers = (part.energies.cpu().numpy(), log_probs, part.passes.cpu().numpy())
        columns = [np.array(part.chains, dtype=np.int32), sweep, texts, *numbers, length, rows]
        tables.append(
            pa.Table.from_arrays([pa.array(column) for column in columns], schema=sample_columns())
        )
    return pa.concat_tables([sample_columns().empty_table(), *tables])


def on_host(mark: Mark) -> Snapshot:
    """The snapshot of a mark; waits for the device."""
    return {
        name: value.cpu().numpy() if isinstance(value, Tensor) else value
        for name, value in mark.items()
    }


class SampleFolder(RunFolder):
    """A run folder with a checkpoint for each group of chains; a run may be continued with more
    sweeps.
    """

    MAY_GROW = ("sweeps",)
    REMEDY = "delete it and its group's file in checkpoints, and give the same command again"

    def __init__(
        self,
        path: str | os.PathLike[str],
        settings: SampleSettings,
        model: str,
        about: Mapping[str, Any],
    ) -> None:
        super().__init__(path, KIND, {**settings.to_dict(), **about, "weights": model})

    def checkpoint(self, group: int, run: GroupRun, goes_on: bool) -> Snapshot | None:
        """The latest snapshot of a group; None before its first. Parts beyond it are dropped:
        their sweeps are drawn again.

        goes_on   put the chains of `run` there
        """
        path = _checkpoint(self.path, group)
        saved = read_checkpoint(path) if path.exists() else None
        if saved is not None:
            self._check(run, saved, goes_on, path)
        done = 0 if saved is None else int(saved["done"])
        for part in read_parts(self.path, _series(group)):
            if int(part.stem.rpartition("-")[2]) > done:
                with writing(part):
                    part.unlink(missing_ok=True)
        return saved

    def _check(self, run: GroupRun, saved: Snapshot, goes_on: bool, path: Path) -> None:
        """Arrays that do not fit the run are the fault of the checkpoint."""
        try:
            run.check(saved)
            if goes_on:
                run.restore(saved)
        except OtherTerms as error:
            raise InputError(
                f"{str(self.path)!r} holds a run whose {error}, or another folder"
            ) from None
        except (InputError, KeyError, TypeError, ValueError) as error:
            why = str(error).splitlines()[0]
            raise InputError(f"checkpoint {str(path)!r} is damaged ({why}): {REMEDY}") from None

    def keep(self, model: MaskedLM, group: int, rows: Sequence[SweepRows], mark: Mark) -> None:
        """Keep samples of a group, then the state that follows them; waits for the device."""
        snapshot = on_host(mark)
        if rows:
            self.store(
                table_of(rows, model),
                sample_columns(),
                f"{_series(group)}-{int(snapshot['done']):08d}",
            )
        with (
            atomic_path(_checkpoint(self.path, group)) as temporary,
            temporary.open("wb") as stream,
        ):
            np.savez(stream, allow_pickle=False, **snapshot)


def stored_settings(folder: Path) -> SampleSettings:
    """The settings of the run in a folder."""
    stored = read_settings(folder, KIND)
    try:
        return SampleSettings.from_dict(stored)
    except KeyError as missing:
        why = f"lacks {missing}"
    except (InputError, TypeError, ValueError) as error:
        why = str(error)
    raise InputError(
        f"{str(folder / 'settings.json')!r} is not of an `unmask sample` run, or damaged ({why}):"
        f" {AGAIN}"
    )


def read_checkpoint(path: Path) -> Snapshot:
    """One group's checkpoint."""
    with reading(path, REMEDY), np.load(path, allow_pickle=False) as archive:
        saved = {name: archive[name] for name in dict.fromkeys([*OF_ALL_RUNS, *archive.files])}
    chains, sites = len(saved["chains"].flatten()), len(saved["positions"].flatten())
    if (
        saved["starts"].shape[:1] != (chains,)
        or saved["counts"].shape[1:] != (sites,)
        or saved["done"].shape
    ):
        raise InputError(
            f"checkpoint {str(path)!r} is damaged (its arrays do not fit each other): {REMEDY}"
        )
    return saved


def _series(group: int) -> str:
    return f"group-{group:04d}"
