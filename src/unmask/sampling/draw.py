"""Draws the samples of a run: groups of chains, burn-in, thinning, checkpoints, and resumption.

The samples are a function of the settings, the model's weights and the kind of device alone: not of how many chains run
side by side, nor of where the run was interrupted (see `randomness` and `passes`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from unmask.models.masked_lm import MaskedLM
from unmask.runs.files import write_table
from unmask.runs.progress import Progress
from unmask.sampling.decoder_run import DecoderRun
from unmask.sampling.energy import UserTerm
from unmask.sampling.group_run import GroupRun, Snapshot, snapshot_shapes
from unmask.sampling.groups import Group, groups
from unmask.sampling.markov_run import MarkovRun, sweep_plan
from unmask.sampling.memory import LogitMemory
from unmask.sampling.passes import Passes, rows_for
from unmask.sampling.proposal import Proposal
from unmask.sampling.run import SampleRun, assemble
from unmask.sampling.run_folder import SampleFolder, frame_of
from unmask.sampling.settings import SampleSettings

SECONDS_BETWEEN_CHECKPOINTS = 20.0


def draw(
    settings: SampleSettings,
    model: MaskedLM,
    out: str | os.PathLike[str] | None = None,
    *,
    name: str = "in memory",
    chains_at_once: int | None = None,
    user_terms: Sequence[UserTerm] = (),
    progress: Progress | None = None,
    seconds_between_checkpoints: float = SECONDS_BETWEEN_CHECKPOINTS,
) -> SampleRun:
    """Draw samples; with a folder `out`, keep them there and go on where an earlier run of the same settings stopped.

    name   of the model, for the record: another name of the same weights continues the run
    """
    work = _Work(settings, model, groups(settings, model, chains_at_once, user_terms), progress, seconds_between_checkpoints)
    if out is None:
        parts = [work.advance(number, None) for number in range(len(work.groups))]
        rows = frame_of([row for part, _ in parts for row in part])
        return assemble(settings, rows, [snapshot for _, snapshot in parts], model.text)
    about = {
        "user_terms": [getattr(term, "__qualname__", repr(term)) for term in user_terms],
        "model": name,
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": model.device.type,
        "chains_at_once": [len(group.chains) for group in work.groups],
    }
    with SampleFolder(out, settings, model.fingerprint, about) as folder:
        snapshots = [work.advance(number, folder)[1] for number in range(len(work.groups))]
        run = assemble(settings, folder.samples(), snapshots, model.text, folder.path)
        for file, frame in (("starts", run.starts), ("rates", run.rates), ("samples", run.samples)):
            write_table(folder.path / f"{file}.parquet", frame)
    return run


class _Work:
    """The groups of a run with the kernel of each; all of them are made, and so checked, before anything is written."""

    def __init__(
        self, settings: SampleSettings, model: MaskedLM, found: list[Group], progress: Progress | None, seconds: float
    ) -> None:
        self.settings, self.model, self.groups = settings, model, found
        self.progress, self.seconds = progress, seconds
        self.proposal = Proposal(settings.proposal_temperature, settings.top_k, settings.nucleus)
        memory = LogitMemory(model) if model.device.type == "cpu" else None  # a GPU runs a row sooner than it is looked up
        self.passes = Passes(model, rows_for(model, settings.chains), memory)
        self.kernels = [self._kernel(group) for group in found]

    def _kernel(self, group: Group) -> Any:
        if not self.settings.entry.decodes:
            sweep_plan(self.settings, group.target.sites)
        return self.settings.entry.build(
            target=group.target,
            passes=self.passes,
            proposal=self.proposal,
            **vars(self.settings),
        )

    def start(self, number: int, saved: Snapshot | None) -> GroupRun:
        """A group at its start, or where it was."""
        group, kernel = self.groups[number], self.kernels[number]
        if self.settings.entry.decodes:
            return DecoderRun(self.settings, group, self.passes, kernel, saved)
        return MarkovRun(self.settings, group, self.passes, kernel, self.proposal, saved)

    def advance(self, number: int, folder: SampleFolder | None) -> tuple[list[dict[str, Any]], Snapshot]:
        """All sweeps of one group. With a folder, rows go there; an interrupt leaves a checkpoint of the last whole sweep."""
        settings = self.settings
        replicas = 1 if settings.entry.decodes else self.kernels[number].replicas
        saved = folder.checkpoint(number, snapshot_shapes(settings, self.groups[number], replicas)) if folder else None
        with folder.restoring(number) if folder and saved is not None else nullcontext():
            run = self.start(number, saved)
        rows: list[dict[str, Any]] = []
        snapshot, last = saved, time.monotonic()
        try:
            while run.done < settings.sweeps:
                run.sweep()
                rows += sample_rows(run, self.model) if settings.keeps(run.done) else []
                snapshot = run.snapshot()
                if self.progress:
                    self.progress(number * settings.sweeps + run.done, len(self.groups) * settings.sweeps, "sweeps")
                if folder and (time.monotonic() - last > self.seconds or run.done == settings.sweeps):
                    folder.keep(number, rows, snapshot)
                    rows, last = [], time.monotonic()
        except KeyboardInterrupt:
            if folder and snapshot is not None:
                folder.keep(number, [row for row in rows if row["sweep"] <= int(snapshot["done"])], snapshot)
            raise
        assert snapshot is not None
        return rows, snapshot


def sample_rows(run: GroupRun, model: MaskedLM) -> list[dict[str, Any]]:
    """The chains' samples now."""
    columns = (run.group.chains, run.texts().tolist(), run.energies().tolist(), run.log_probs(), run.spent.tolist())
    return [
        {
            "chain": chain,
            "sweep": run.done,
            "text": model.text(ids),
            "energy": energy,
            "log_prob": log_prob,
            "passes": passes,
            "length": run.group.target.sites,
            "ids": ids,
        }
        for chain, ids, energy, log_prob, passes in zip(*columns, strict=True)
    ]
