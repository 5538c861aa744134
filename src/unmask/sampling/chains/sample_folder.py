"""The folder of a sampling run: how samples and checkpoints are written, and read again.

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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from unmask.common.checks import shown
from unmask.common.errors import InputError
from unmask.common.files import atomic_path, read_table, reading, user_path, writing
from unmask.models.masked_lm import MaskedLM
from unmask.runs.folder import RunFolder, read_parts, read_rows, read_settings, refuse_foreign
from unmask.sampling.chains.assembling import assemble
from unmask.sampling.chains.chain_samples import ChainSamples
from unmask.sampling.chains.samples import (
    Samples,
    SweepRows,
    sample_columns,
    samples_of_table,
    table_of,
)
from unmask.sampling.chains.snapshot import (
    OF_ALL_RUNS,
    DeviceSnapshot,
    OtherTerms,
    Snapshot,
    on_host,
)
from unmask.sampling.settings import GenerateSettings, SampleSettings

if TYPE_CHECKING:
    from unmask.sampling.chains.group_run import GroupRun

KIND = "sample"  # The command, as settings.json names it
START_ELSEWHERE = "start the run again in another folder"
DELETE_CHECKPOINT = (
    "delete it and give the command of the run again; the group's samples are drawn again, and are"
    " the same"
)
WRITE_STARTS_AGAIN = "give the command of the run again, which writes it again"


class SampleFolder(RunFolder):
    """A run folder with a checkpoint for each group of chains; a run may be continued with more
    sweeps.

    fingerprint   of the model's weights
    about         entries of settings.json besides the settings
    """

    KIND: ClassVar[str] = KIND
    SIZES: ClassVar[str] = "chains_at_once"
    """The entry of settings.json that has the size of each group."""
    MAY_GROW: ClassVar[tuple[str, ...]] = ("sweeps",)
    REMEDY = "delete it and its group's file in checkpoints, and give the same command again"

    def __init__(
        self,
        path: str | os.PathLike[str],
        settings: SampleSettings | GenerateSettings,
        fingerprint: str,
        about: Mapping[str, Any],
    ) -> None:
        stored = {**settings.to_dict(), **about, "weights": fingerprint}
        super().__init__(path, self.KIND, stored)

    def checkpoint(self, group: int, run: GroupRun, restore: bool) -> Snapshot | None:
        """The latest snapshot of a group; None before its first.

        Parts beyond it are dropped: their sweeps are drawn again.

        run       the run of the group, which the snapshot must fit
        restore   put the chains of `run` where the snapshot has them
        """
        path = _checkpoint_path(self.path, group)
        snapshot = None
        done = 0
        if path.exists():
            snapshot = read_checkpoint(path)
            self._check_or_restore(run, snapshot, restore, path)
            done = int(snapshot["done"])
        for part in read_parts(self.path, _series(group)):
            _, _, last_sweep = part.stem.rpartition("-")  # of "group-0002-00000150"
            if int(last_sweep) > done:
                with writing(part):
                    part.unlink(missing_ok=True)
        return snapshot

    def _check_or_restore(
        self, run: GroupRun, snapshot: Snapshot, restore: bool, path: Path
    ) -> None:
        """Refuse a snapshot that does not fit the run, and with `restore` put the chains where it
        has them. The checkpoint at `path` is at fault, unless the user gave other terms of the
        energy.
        """
        try:
            run.check(snapshot)
            if restore:
                run.restore(snapshot)
        except OtherTerms as error:  # its text goes on after "a run whose"
            raise InputError(
                f"{str(self.path)!r} holds a run whose {error}, or another folder"
            ) from None
        except (InputError, KeyError, TypeError, ValueError) as error:
            why = str(error).splitlines()[0]
            raise InputError(
                f"checkpoint {str(path)!r} is damaged ({why}): {DELETE_CHECKPOINT}"
            ) from None

    def samples_of_group(self, group: int) -> Samples:
        """The samples of a group that are written."""
        return samples_of_table(read_rows(read_parts(self.path, _series(group)), sample_columns()))

    def keep(
        self, model: MaskedLM, group: int, sweeps: Sequence[SweepRows], snapshot: DeviceSnapshot
    ) -> None:
        """Write samples of a group, then the snapshot that follows them; waits for the device."""
        arrays = on_host(snapshot)
        if sweeps:
            name = f"{_series(group)}-{int(arrays['done']):08d}"
            self.store(table_of(sweeps, model), sample_columns(), name)
        path = _checkpoint_path(self.path, group)
        with atomic_path(path) as temporary, temporary.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **arrays)


class GenerateFolder(SampleFolder):
    """The folder of `unmask generate`: each group is one decoding, so nothing of it grows."""

    KIND: ClassVar[str] = "generate"
    SIZES: ClassVar[str] = "texts_at_once"
    MAY_GROW: ClassVar[tuple[str, ...]] = ()


def load_run(path: Any) -> ChainSamples:
    """A run as its folder has it so far; it need not be finished."""
    folder = user_path(path, "run")  # raises for what is no path
    settings = stored_settings(folder)
    checkpoints = sorted((folder / "checkpoints").glob("group-*.npz"))
    snapshots = [read_checkpoint(checkpoint) for checkpoint in checkpoints]
    # Parts are read after the checkpoints: a run that is under way writes each part before the
    # checkpoint that counts on it.
    table = read_rows(read_parts(folder), sample_columns())
    if not table.num_rows or not snapshots:
        raise InputError(
            f"folder {str(folder)!r} holds no sample yet: let the run go on past its burn-in"
        )
    run = assemble(settings, samples_of_table(table), snapshots, folder=folder)
    starts = folder / "starts.parquet"
    if not starts.is_file():  # the run is under way; the texts of its starts are not known
        return run
    table_of_starts = read_table(starts, remedy=WRITE_STARTS_AGAIN)
    return replace(run, starts=table_of_starts.to_pylist())


def stored_settings(folder: Path) -> SampleSettings:
    """The settings of the run in a folder."""
    stored = read_settings(folder, KIND)
    try:
        settings = SampleSettings.from_dict(stored)
    except KeyError as missing:
        raise _not_of_a_run(folder, f"lacks {missing}") from None
    except (InputError, TypeError, ValueError) as error:
        raise _not_of_a_run(folder, str(error)) from None
    if settings.kernel.decodes:
        raise _not_of_a_run(folder, f"{settings.kernel.name} is a decoder, and moves no chain")
    return settings


def stored_sizes(folder: Path, folder_class: type[SampleFolder] = SampleFolder) -> list[int] | None:
    """The number of chains, or texts, of each group of the run in a folder; None if no run states
    it, and one may begin there.
    """
    stored = refuse_foreign(folder, folder_class.KIND)
    if stored is None or stored.get(folder_class.SIZES) is None:
        return None
    sizes = stored[folder_class.SIZES]
    is_list = isinstance(sizes, list)
    if not is_list or not all(type(size) is int and size >= 1 for size in sizes):
        why = f"{folder_class.SIZES} {shown(sizes)} is not a list of whole numbers from 1"
        raise _not_of_a_run(folder, why, folder_class.KIND)
    return sizes


def _not_of_a_run(folder: Path, why: str, kind: str = KIND) -> InputError:
    file = folder / "settings.json"
    return InputError(
        f"{str(file)!r} is not of an `unmask {kind}` run, or damaged ({why}): {START_ELSEWHERE}"
    )


def read_checkpoint(path: Path) -> Snapshot:
    """The snapshot that a checkpoint holds; its arrays fit each other."""
    with reading(path, DELETE_CHECKPOINT), np.load(path, allow_pickle=False) as archive:
        snapshot = {name: archive[name] for name in OF_ALL_RUNS}  # raises if one is missing
        snapshot |= {name: archive[name] for name in archive.files if name not in snapshot}
    # Flattened: damaged arrays may have no dimension, and then no length.
    chains = len(snapshot["chains"].flatten())
    sites = len(snapshot["positions"].flatten())
    has_starts = snapshot["starts"].shape[:1] == (chains,)
    has_counts = snapshot["counts"].shape[1:] == (sites,)
    done_is_a_number = snapshot["done"].shape == ()
    if not (has_starts and has_counts and done_is_a_number):
        raise InputError(
            f"checkpoint {str(path)!r} is damaged (its arrays do not fit each other):"
            f" {DELETE_CHECKPOINT}"
        )
    return snapshot


def _checkpoint_path(folder: Path, group: int) -> Path:
    return folder / "checkpoints" / f"{_series(group)}.npz"


def _series(group: int) -> str:
    """The name of a group's checkpoint, and of the series of its parts."""
    return f"group-{group:04d}"
