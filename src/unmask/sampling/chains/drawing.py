"""Drawing samples: all groups of a run, in this process or on workers, in memory or in a folder.

With a folder, the same call goes on where an earlier run of the same settings stopped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from unmask.common.files import user_path, write_table
from unmask.models.masked_lm import MaskedLM
from unmask.runs.folder import on_a_thread
from unmask.runs.progress import Enough, Progress
from unmask.sampling.chains.assembling import assemble
from unmask.sampling.chains.chain_samples import ChainSamples
from unmask.sampling.chains.group_run import GroupRun
from unmask.sampling.chains.groups import group_runs
from unmask.sampling.chains.keeper import Keeper, Write
from unmask.sampling.chains.sample_folder import SampleFolder, stored_sizes
from unmask.sampling.chains.samples import (
    Samples,
    SweepRows,
    joined,
    sample_columns,
    samples_of_sweeps,
    samples_of_table,
)
from unmask.sampling.chains.sharing import SharedChains
from unmask.sampling.chains.watching import Watcher
from unmask.sampling.energies.with_terms import Energy
from unmask.sampling.settings import SampleSettings

SECONDS_BETWEEN_CHECKPOINTS = 20.0
FIRST_LOOK = 4  # sweeps of all groups together
STREAM = "philox4x32-10"
"""The definition of the random numbers; a run of another one is not continued."""


def draw_samples(
    settings: SampleSettings,
    model: MaskedLM,
    out: str | os.PathLike[str] | None = None,
    *,
    name: str = "in memory",
    chains_at_once: int | None = None,
    energy: Energy | None = None,
    progress: Progress | None = None,
    so_far: Callable[[ChainSamples], None] | None = None,
    watcher: Watcher | None = None,
    seconds_between_checkpoints: float = SECONDS_BETWEEN_CHECKPOINTS,
    shared: SharedChains | None = None,
) -> ChainSamples:
    """Draw samples; with a folder `out`, keep them there and go on where an earlier run of the
    same settings stopped.

    name             of the model, for the record: another name of the same weights continues
                     the run
    chains_at_once   at most this many run side by side; by default as many as the memory holds
    energy           that of the settings, with terms of the user
    so_far           called with the samples so far, after FIRST_LOOK sweeps, and then each time
                     after twice as many
    watcher          sees each step, in this process
    seconds_between_checkpoints   at least, with a folder
    shared           the workers that advance the chains, instead of this process

    If the user has had enough, the samples so far come back. `Enough` is raised instead if there
    are none yet, or if there is a folder, which keeps them.
    """
    groups: Sequence[int] | int | None = chains_at_once
    if out is not None:
        # The checkpoints of a run are of the groups that it began with.
        groups = stored_sizes(user_path(out, "out")) or chains_at_once
    runs = group_runs(
        settings,
        model,
        groups,
        energy=energy,
        workers=None if shared is None else shared.workers,
    )
    look = None if so_far is None else Look(settings, model, so_far)
    whole_run = WholeRun(
        settings,
        runs,
        seconds_between_checkpoints,
        progress,
        look=look,
        watcher=watcher,
        gives_part=out is None,
    )
    if out is None:
        keepers = whole_run.advance(shared)
        samples = [rows for keeper in keepers for rows in keeper.samples]
        snapshots = [keeper.last_snapshot() for keeper in keepers]
        drawn = samples_of_sweeps(samples, model)
        return assemble(settings, drawn, snapshots, model.words.text)
    about = {
        "user_terms": [] if energy is None else energy.names,
        "model": name,
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": model.device.type if shared is None else shared.workers.device,
        "stream": STREAM,
        "chains_at_once": whole_run.sizes,
    }
    with SampleFolder(out, settings, model.fingerprint, about) as folder:
        with on_a_thread() as call:  # parts are written while the chains go on
            write = partial(call, folder.keep, model)  # the thread calls folder.keep(model, ...)
            keepers = whole_run.advance(shared, folder, write)
        run = assemble(
            settings,
            samples=samples_of_table(folder.rows(sample_columns())),
            snapshots=[keeper.last_snapshot() for keeper in keepers],
            text=model.words.text,
            folder=folder.path,
        )
        write_table(folder.path / "starts.parquet", run.starts)
        write_table(folder.path / "rates.parquet", run.rates)
        write_table(folder.path / "samples.parquet", run.samples.to_frame())
    return run


class Look:
    """Gives what there is of a run to a function, from time to time.

    give       the function
    earlier    samples that an earlier run of the same folder has left
    gathered   those of this run
    """

    def __init__(
        self, settings: SampleSettings, model: MaskedLM, give: Callable[[ChainSamples], None]
    ) -> None:
        self.settings = settings
        self.model = model
        self.give = give
        self.keepers: list[Keeper] = []
        self.earlier: list[Samples] = []
        self.gathered: list[SweepRows] = []
        self.next_at = FIRST_LOOK

    def follow(self, keeper: Keeper, earlier: Samples | None) -> None:
        """Gather the samples of a group; `earlier` ones are there already."""
        keeper.gathered = self.gathered  # the keepers of all groups add to this one list
        self.keepers.append(keeper)
        if earlier is not None:
            self.earlier.append(earlier)

    def after(self, done: int, total: int) -> None:
        """Look at the run after `done` sweeps of all groups together, if it is time; the end of
        the run is no time for it.
        """
        if done < self.next_at or done >= total:
            return
        parts = [part for part in self.earlier if len(part)]
        if self.gathered:
            parts.append(samples_of_sweeps(self.gathered, self.model))
        if not parts:  # all sweeps so far are left out
            return
        self.next_at = 2 * done
        snapshots = [keeper.last_snapshot() for keeper in self.keepers if keeper.done]
        drawn = assemble(self.settings, joined(parts), snapshots, self.model.words.text)
        self.give(drawn)


class WholeRun:
    """All groups of a run; `advance` takes them to the end.

    runs          the groups that have not begun to advance; empty at the end
    seconds       between checkpoints
    sizes         the number of chains of each group
    sweeps_done   sweeps done of each group
    look          looks at the run so far, if the user asks for it
    watcher       sees each step, if there is one
    gives_part    if the user has had enough, what there is comes back
    """

    def __init__(
        self,
        settings: SampleSettings,
        runs: list[GroupRun],
        seconds: float,
        progress: Progress | None,
        look: Look | None = None,
        watcher: Watcher | None = None,
        gives_part: bool = False,
    ) -> None:
        self.settings = settings
        self.runs = runs
        self.seconds = seconds
        self.progress = progress
        self.look = look
        self.watcher = watcher
        self.gives_part = gives_part
        self.sizes = [len(run.group.chains) for run in runs]
        self.sweeps_done = [0] * len(runs)

    def advance(
        self,
        shared: SharedChains | None,
        folder: SampleFolder | None = None,
        write: Write | None = None,
    ) -> list[Keeper]:
        """What is kept of each group at the end; if the run ends early, of those that have samples.

        shared   the workers that advance the groups, instead of this process
        folder   has the checkpoints of an earlier run
        write    writes samples and checkpoints there
        """

        def keeper_of(number: int, run: GroupRun, restore: bool) -> Keeper:
            snapshot = None if folder is None else folder.checkpoint(number, run, restore)
            keeper = Keeper(
                group=number,
                sweeps=self.settings.sweeps,
                write=write,
                seconds=self.seconds,
                snapshot=snapshot,
            )
            if self.look is not None:
                earlier = None
                if folder is not None and snapshot is not None:
                    earlier = folder.samples_of_group(number)
                self.look.follow(keeper, earlier)
            return keeper

        self._report(group=0, done=0)  # how many sweeps there are, before the first is done
        if shared is None:
            return self._advance_here(keeper_of)
        # Workers restore the chains; here the checkpoints are only checked.
        keepers = [keeper_of(number, run, restore=False) for number, run in self._each_run()]
        for keeper in keepers:
            self._report_stored(keeper)
        shared.advance(self.sizes, keepers, self._report)
        return keepers

    def _each_run(self) -> Iterator[tuple[int, GroupRun]]:
        """The number of each group and its run."""
        for number in range(len(self.sizes)):
            # `runs` drops it, so that the memory of a group that is done can be used again.
            yield number, self.runs.pop(0)

    def _advance_here(self, keeper_of: Callable[..., Keeper]) -> list[Keeper]:
        """Advance the groups in this process, one after the other."""
        keepers = []
        try:
            for number, run in self._each_run():
                keeper = keeper_of(number, run, restore=True)
                keepers.append(keeper)
                if keeper.snapshot is None:
                    run.begin()
                if self.watcher is not None:
                    self.watcher.begun(run)
                self._report_stored(keeper)
                self._advance_group(run, keeper)
        except Enough:
            sampled = [keeper for keeper in keepers if keeper.samples]
            if not (self.gives_part and sampled):
                raise
            return sampled
        return keepers

    def _advance_group(self, run: GroupRun, keeper: Keeper) -> None:
        try:
            while run.done < self.settings.sweeps:
                run.sweep(self.watcher)
                samples = [run.sample()] if self.settings.keeps(run.done) else []
                keeper.add(samples, run.snapshot())
                if self.watcher is not None:
                    self.watcher.swept(run, samples)
                self._report(keeper.group, run.done)
        except (KeyboardInterrupt, Enough):  # leaves a checkpoint of the last whole sweep
            keeper.flush()
            raise

    def _report_stored(self, keeper: Keeper) -> None:
        """Report the sweeps that an earlier run did of a group. If it did all of them, nothing
        else reports the group.
        """
        if keeper.done:
            self._report(keeper.group, keeper.done)

    def _report(self, group: int, done: int) -> None:
        """Report the sweeps of all groups, after `done` sweeps of one."""
        self.sweeps_done[group] = done
        if self.progress is not None:
            total = len(self.sweeps_done) * self.settings.sweeps
            self.progress(sum(self.sweeps_done), total, "sweeps")
        if self.look is not None:
            self.look.after(sum(self.sweeps_done), len(self.sweeps_done) * self.settings.sweeps)
