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

from unmask.checks import memory as budget_of
from unmask.models.masked_lm import MaskedLM
from unmask.runs.files import write_table
from unmask.runs.progress import Progress
from unmask.sampling.energy import UserTerm
from unmask.sampling.engine.memory import LogitMemory
from unmask.sampling.engine.memory_plan import MemoryPlan, free_memory
from unmask.sampling.engine.passes import Passes, rows_for
from unmask.sampling.kernels.proposal import Proposal
from unmask.sampling.run.decoder_run import DecoderRun
from unmask.sampling.run.group_run import GroupRun, Mark, Snapshot, on_host, snapshot_shapes
from unmask.sampling.run.groups import Group, groups
from unmask.sampling.run.markov_run import MarkovRun, sweep_plan
from unmask.sampling.run.result import SampleRun, assemble
from unmask.sampling.run.run_folder import SampleFolder, as_frame
from unmask.sampling.run.sample_rows import SweepRows, Writer, table_of
from unmask.sampling.settings import SampleSettings

SECONDS_BETWEEN_CHECKPOINTS = 20.0
STREAM = "philox4x32-10"
"""The definition of the random numbers; a run of another one is not continued."""


def draw(
    settings: SampleSettings,
    model: MaskedLM,
    out: str | os.PathLike[str] | None = None,
    *,
    name: str = "in memory",
    chains_at_once: int | None = None,
    memory: float | str | None = None,
    user_terms: Sequence[UserTerm] = (),
    progress: Progress | None = None,
    seconds_between_checkpoints: float = SECONDS_BETWEEN_CHECKPOINTS,
) -> SampleRun:
    """Draw samples; with a folder `out`, keep them there and go on where an earlier run of the same settings stopped.

    name   of the model, for the record: another name of the same weights continues the run
    """
    budget = None if memory is None else budget_of("memory", memory, free_memory(model.device))
    found, plan = groups(settings, model, chains_at_once, user_terms, budget)
    work = Work(settings, model, found, plan, progress, seconds_between_checkpoints)
    if out is None:
        parts = [work.advance(number, None, None) for number in range(len(found))]
        rows = as_frame(table_of([row for part, _ in parts for row in part], model))
        return assemble(settings, rows, [on_host(mark) for _, mark in parts], model.text, memory=str(plan))
    about = {
        "user_terms": [getattr(term, "__qualname__", repr(term)) for term in user_terms],
        "model": name,
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": model.device.type,
        "stream": STREAM,
        "keeps": plan.keeps,
        "chains_at_once": [len(group.chains) for group in found],
    }
    with SampleFolder(out, settings, model.fingerprint, about) as folder:
        with Writer(folder, model) as writer:
            marks = [work.advance(number, folder, writer)[1] for number in range(len(found))]
        snapshots = [on_host(mark) for mark in marks]
        run = assemble(settings, folder.samples(), snapshots, model.text, folder.path, str(plan))
        for file, frame in (("starts", run.starts), ("rates", run.rates), ("samples", run.samples)):
            write_table(folder.path / f"{file}.parquet", frame)
    return run


class Work:
    """The groups of a run with the kernel of each; all of them are made, and so checked, before anything is written."""

    def __init__(
        self,
        settings: SampleSettings,
        model: MaskedLM,
        found: list[Group],
        plan: MemoryPlan,
        progress: Progress | None,
        seconds: float,
    ) -> None:
        self.settings, self.model, self.groups = settings, model, found
        self.progress, self.seconds = progress, seconds
        self.proposal = Proposal(settings.proposal_temperature, settings.top_k, settings.nucleus)
        remembers = model.device.type == "cpu" and plan.keeps == "logits"  # a GPU runs a row sooner than it is looked up
        memory = LogitMemory(model, most_bytes=plan.budget // 4) if remembers else None
        rows = [rows_for(model, len(group.alike), settings.entry.decodes) for group in found]
        by_rows = {number: Passes(model, number, memory, plan.keeps) for number in rows}
        self.passes = [by_rows[number] for number in rows]
        self.kernels = [self._kernel(group, passes) for group, passes in zip(found, self.passes, strict=True)]

    def _kernel(self, group: Group, passes: Passes) -> Any:
        if not self.settings.entry.decodes:
            sweep_plan(self.settings, group.target.sites)
        return self.settings.entry.build(target=group.target, passes=passes, proposal=self.proposal, **vars(self.settings))

    def start(self, number: int, saved: Snapshot | None) -> GroupRun:
        """A group at its start, or where it was."""
        group, passes, kernel = self.groups[number], self.passes[number], self.kernels[number]
        if self.settings.entry.decodes:
            return DecoderRun(self.settings, group, passes, kernel, saved)
        return MarkovRun(self.settings, group, passes, kernel, self.proposal, saved)

    def advance(self, number: int, folder: SampleFolder | None, writer: Writer | None) -> tuple[list[SweepRows], Mark]:
        """All sweeps of one group. With a folder, rows go there; an interrupt leaves a checkpoint of the last whole sweep."""
        settings = self.settings
        replicas = 1 if settings.entry.decodes else self.kernels[number].replicas
        saved = folder.checkpoint(number, snapshot_shapes(settings, self.groups[number], replicas)) if folder else None
        with folder.restoring(number) if folder and saved is not None else nullcontext():
            run = self.start(number, saved)
        rows: list[SweepRows] = []
        mark: Mark | None = saved
        last = time.monotonic()
        try:
            while run.done < settings.sweeps:
                run.sweep()
                rows += [SweepRows.of(run)] if settings.keeps(run.done) else []
                mark = run.mark()
                if self.progress:
                    self.progress(number * settings.sweeps + run.done, len(self.groups) * settings.sweeps, "sweeps")
                if writer and (time.monotonic() - last > self.seconds or run.done == settings.sweeps):
                    writer.keep(number, rows, mark)
                    rows, last = [], time.monotonic()
        except KeyboardInterrupt:
            if writer and mark is not None:
                writer.keep(number, [row for row in rows if row.sweep <= int(mark["done"])], mark)
            raise
        assert mark is not None
        return rows, mark
