"""Groups of chains shared out among workers: processes, or actors of a Ray cluster.

A worker advances a group by a share of its sweeps, and answers with the samples of these sweeps
and a snapshot of the chains. So a worker that dies loses a share, and this process keeps what
comes as that of a run without workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from unmask.common.errors import UnmaskError
from unmask.models.masked_lm import MaskedLM
from unmask.runs.engine import Workers, each
from unmask.sampling.chains.group_run import GroupRun
from unmask.sampling.chains.groups import group_runs
from unmask.sampling.chains.keeper import Keeper
from unmask.sampling.chains.samples import SweepRows
from unmask.sampling.chains.snapshot import Snapshot, on_host
from unmask.sampling.energies.with_terms import Energy
from unmask.sampling.settings import SampleSettings

MOST_SHARES = 20  # Of a group: answers of workers about it


@dataclass(frozen=True)
class Share:
    """A group to be advanced by a worker.

    sizes      the number of chains of every group of the run
    group      the number of the group
    upto       the sweep to advance to
    snapshot   where the group is; None: at its start
    """

    sizes: Sequence[int]
    group: int
    upto: int
    snapshot: Snapshot | None


class ChainWorker:
    """Advances groups, in a worker's process.

    It keeps the chains of the last group in memory, which usually go on there.
    """

    def __init__(
        self, load: Callable[[], MaskedLM], settings: SampleSettings, energy: Energy | None
    ) -> None:
        self.settings = settings
        self.model: MaskedLM = load()
        self.energy = energy
        self.latest: tuple[int, GroupRun] | None = None

    def __call__(self, share: Share) -> tuple[list[SweepRows], Snapshot]:
        """Advance a group: its samples on the way, and where its chains are then."""
        run = self._run_of(share)
        samples = []
        while run.done < share.upto:
            run.sweep()
            if self.settings.keeps(run.done):
                samples.append(run.sample().on_host())
        return samples, on_host(run.snapshot())

    def _run_of(self, share: Share) -> GroupRun:
        """The run of a share's group, where the share has it."""
        done = 0 if share.snapshot is None else int(share.snapshot["done"])
        if self.latest is not None:
            group, run = self.latest
            if group == share.group and run.done == done:
                return run
        runs = group_runs(self.settings, self.model, share.sizes, self.energy)
        run = runs[share.group]
        if share.snapshot is None:
            run.begin()
        else:
            run.restore(share.snapshot)
        self.latest = (share.group, run)
        return run


@dataclass(frozen=True)
class SharedChains:
    """The chains of a run on workers; `load` returns the model in a worker's process."""

    settings: SampleSettings
    workers: Workers
    load: Callable[[], MaskedLM]
    energy: Energy | None = None

    def advance(
        self, sizes: Sequence[int], keepers: Sequence[Keeper], report: Callable[[int, int], None]
    ) -> None:
        """Advance all groups to the end, each from the snapshot of its keeper, if it has one.

        sizes     the number of chains of each group
        report    called with a group and its sweeps done
        """
        pending = [keeper for keeper in keepers if keeper.done < self.settings.sweeps]
        shares = [self._first_share(keeper, sizes) for keeper in pending]
        setup = partial(ChainWorker, self.load, self.settings, self.energy)
        answers = each(
            ChainWorker.__call__, shares, self.workers, setup=setup, rest=self._next_share
        )
        try:
            with closing(answers):
                for index, (samples, snapshot) in answers:
                    keeper = pending[index]
                    keeper.add(samples, snapshot)
                    report(keeper.group, keeper.done)
        except (KeyboardInterrupt, UnmaskError):
            for keeper in keepers:
                keeper.flush()
            raise

    def _first_share(self, keeper: Keeper, sizes: Sequence[int]) -> Share:
        return Share(
            sizes=sizes,
            group=keeper.group,
            upto=self._end_of_share(keeper.done),
            snapshot=None if keeper.snapshot is None else on_host(keeper.snapshot),
        )

    def _next_share(self, share: Share, answer: tuple[list[SweepRows], Snapshot]) -> Share | None:
        """The share that follows on the same worker; None at the end of the group."""
        if share.upto >= self.settings.sweeps:
            return None
        _, snapshot = answer
        return replace(share, snapshot=snapshot, upto=self._end_of_share(share.upto))

    def _end_of_share(self, done: int) -> int:
        """The sweep that a share ends with which begins after `done` sweeps."""
        sweeps_per_share = -(-self.settings.sweeps // MOST_SHARES)
        return min(self.settings.sweeps, done + sweeps_per_share)
