"""Chains on Ray: workers advance shares of the groups, this process keeps what comes as that of a run without Ray.

A group's chains are cut into shares, which go on side by side, a few sweeps at a time. A share's item says up to which sweep, and
where its chains are; the answer has their samples and where they are then. So a worker that dies loses a few seconds: another one
goes on from the last answer. When all shares of a group have reached a sweep, their states are joined to the group's, and parts
and checkpoints are those of a local run. Chains have random numbers of their own, so that the samples do not depend on shares.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from unmask.errors import UnmaskError
from unmask.models.masked_lm import MaskedLM
from unmask.runs.engine import Workers, each
from unmask.sampling.energy import UserTerm
from unmask.sampling.engine.passes import Passes
from unmask.sampling.run.advance import Keeper, memory_budget
from unmask.sampling.run.chains import Group, GroupRun, group_run, groups, passes_of
from unmask.sampling.run.result import Snapshot, SweepRows, on_host
from unmask.sampling.settings import Keeps, SampleSettings

PLAN = "plan"
"""The first item."""
SECONDS = 2.0
"""About how long a worker computes before it answers; one sweep at least."""
GROWTH = 8
"""How much longer than the piece before it a piece may be, in sweeps."""
ADDED = ("counts", "scoring_passes", "remembered", "swaps")
"""Arrays of a snapshot that are sums over the chains."""
COMMON = ("done", "positions", "steps")
"""Those that all chains of a group share; the others have rows for each chain."""


class Planned(NamedTuple):
    """How the chains are run: what is kept of conditionals, and the number of chains in each group."""

    keeps: Keeps
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Share:
    """Chains `first` ... `end` - 1 of a group, to be advanced to sweep `upto` from where `saved` has them (None: their start)."""

    planned: Planned
    group: int
    first: int
    end: int
    upto: int
    saved: Snapshot | None


class Advanced(NamedTuple):
    """The samples of a share on the way, where its chains are now, and the seconds of a sweep."""

    rows: list[SweepRows]
    snapshot: Snapshot
    seconds: float


class ChainWorker:
    """What a worker does; it keeps the last share's chains, which usually go on there."""

    def __init__(
        self,
        load: Callable[[], MaskedLM],
        settings: SampleSettings,
        memory: int | float | str | None,
        user_terms: Sequence[UserTerm],
    ) -> None:
        self.settings, self.model, self.user_terms = settings, load(), user_terms
        self.budget = memory_budget(memory, self.model)
        self._built: tuple[list[Group], list[Passes]] | None = None
        self._live: tuple[int, int, GroupRun] | None = None

    def __call__(self, share: Share | str) -> Planned | Advanced:
        """Advance a share; PLAN asks how the memory here holds the chains."""
        if isinstance(share, str):
            together, plan = groups(self.settings, self.model, None, self.user_terms, self.budget)
            return Planned(plan.keeps, tuple(len(group.chains) for group in together))
        run, rows = self._run(share), []
        began, before = time.monotonic(), run.done
        while run.done < share.upto:
            run.sweep()
            rows += [run.sample().on_host()] if self.settings.keeps(run.done) else []
        snapshot = on_host(run.mark())
        return Advanced(rows, snapshot, (time.monotonic() - began) / max(1, run.done - before))

    def _run(self, share: Share) -> GroupRun:
        """The share's chains, where they are."""
        done = 0 if share.saved is None else int(share.saved["done"])
        if self._live is not None and self._live[:2] == (share.group, share.first) and self._live[2].done == done:
            return self._live[2]
        self._live = None
        if self._built is None:
            planned = share.planned
            found, plan = groups(self.settings, self.model, planned.sizes, self.user_terms, self.budget, planned.keeps)
            self._built = found, passes_of(self.settings, self.model, found, plan)
        found, ways = self._built
        run = group_run(self.settings, found[share.group].part(share.first, share.end), ways[share.group])
        run.begin() if share.saved is None else run.restore(share.saved)
        self._live = share.group, share.first, run
        return run


class SharedChains:
    """The chains of a run on Ray."""

    def __init__(
        self,
        settings: SampleSettings,
        workers: Workers,
        load: Callable[[], MaskedLM],
        memory: int | float | str | None = None,
        user_terms: Sequence[UserTerm] = (),
    ) -> None:
        """`load` returns the model in a worker's process."""
        self.settings, self.workers = settings, workers
        self.shares: list[Share] | None = None
        setup = partial(ChainWorker, load, settings, memory, user_terms)
        self.results = each(ChainWorker.__call__, self._items(), workers, setup, self._rest)
        self._ends: dict[int, list[int]] = {}

    def close(self) -> None:
        """End the workers."""
        self.results.close()

    def _items(self) -> Iterator[Share | str | None]:
        yield PLAN
        while self.shares is None:
            yield None
        yield from self.shares

    def plan(self) -> Planned:
        """As a worker has it, whose memory it is."""
        _, planned = next(self.results)
        assert isinstance(planned, Planned)
        return planned

    def advance(self, planned: Planned, keepers: Sequence[Keeper], report: Callable[[int, int], None]) -> None:
        """All sweeps of all groups; each from the mark of its keeper, if it has one. `report`: a group, and its sweeps done."""
        shares = self.shares = self._shares(planned, keepers)
        of_group: dict[int, list[Share]] = {}
        for share in shares:
            of_group.setdefault(share.group, []).append(share)
        came: dict[tuple[int, int], dict[int, Advanced]] = {}
        try:
            for index, advanced in self.results:
                share, done = shares[index - 1], int(advanced.snapshot["done"])
                at_end = came.setdefault((share.group, done), {})
                at_end[share.first] = advanced
                if len(at_end) == len(of_group[share.group]):
                    parts = [at_end[one.first] for one in of_group[share.group]]
                    rows = sorted((row for part in parts for row in part.rows), key=lambda row: row.sweep)
                    keepers[share.group].add(rows, joined([part.snapshot for part in parts]))
                    del came[share.group, done]
                    report(share.group, done)
        except (KeyboardInterrupt, UnmaskError):
            for keeper in keepers:
                keeper.flush()
            raise

    def _shares(self, planned: Planned, keepers: Sequence[Keeper]) -> list[Share]:
        """What is left to do; as many shares as there are workers, or one for each group if those are more."""
        found = []
        pending = [keeper for keeper in keepers if keeper.done < self.settings.sweeps]
        for keeper in pending:
            n = planned.sizes[keeper.number]
            cuts = min(n, -(-self.workers.count // len(pending)))
            bounds = [n * cut // cuts for cut in range(cuts + 1)]
            self._ends[keeper.number] = [keeper.done, keeper.done + 1]
            saved = keeper.snapshot if keeper.mark else None
            for first, end in zip(bounds, bounds[1:], strict=False):
                some = None if saved is None else part_of(saved, first, end)
                found.append(Share(planned, keeper.number, first, end, keeper.done + 1, some))
        return found

    def _rest(self, share: Share | str, advanced: Planned | Advanced) -> Share | None:
        if isinstance(share, str) or isinstance(advanced, Planned) or share.upto >= self.settings.sweeps:
            return None
        return replace(share, saved=advanced.snapshot, upto=self._next_end(share, advanced.seconds))

    def _next_end(self, share: Share, seconds: float) -> int:
        """The sweep at which the share answers next: the first of its group's shares that asks decides it for all."""
        ends = self._ends[share.group]
        place = ends.index(share.upto)
        if place + 1 == len(ends):
            longest = GROWTH * (ends[-1] - ends[-2])
            ends.append(min(self.settings.sweeps, share.upto + max(1, min(longest, int(SECONDS / max(seconds, 1e-9))))))
        return ends[place + 1]


def part_of(saved: Snapshot, first: int, end: int) -> Snapshot:
    """The snapshot of chains `first` ... `end` - 1 of a group; sums stay with the first part."""

    def cut(name: str) -> np.ndarray:
        array = saved[name]
        if name in COMMON:
            return array
        if name in ADDED:
            return array if first == 0 else np.zeros_like(array)
        rows = len(array) // len(saved["chains"])
        return array[first * rows : end * rows]

    return {name: cut(name) for name in saved}


def joined(parts: Sequence[Snapshot]) -> Snapshot:
    """The snapshot of a group whose parts, in their order, are all at the same sweep."""

    def put_together(name: str) -> np.ndarray:
        arrays = [part[name] for part in parts]
        if name in COMMON:
            return arrays[0]
        return np.asarray(sum(arrays)) if name in ADDED else np.concatenate(arrays)

    return {name: put_together(name) for name in parts[0]}
