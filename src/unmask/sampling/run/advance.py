"""How a run advances: groups of chains or decodings, sweep by sweep, with burn-in, thinning, checkpoints, and resumption.

The samples are a function of the settings, the model's weights and the kind of device alone: not of how many chains run
side by side, nor of where the run was interrupted (see `randomness` and `passes`). So workers of a Ray cluster can advance the
groups, a few sweeps at a time: an answer has the samples of these sweeps and where the chains are then, so that a dead worker
loses a few sweeps, and this process keeps what comes as that of a run without Ray.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from unmask.checks import memory as budget_of
from unmask.errors import InputError, UnmaskError
from unmask.models.masked_lm import MaskedLM
from unmask.runs.engine import Workers, each
from unmask.runs.files import user_path, write_table
from unmask.runs.folder import refuse_foreign
from unmask.runs.progress import Progress
from unmask.sampling.engine.passes import device_bytes
from unmask.sampling.run.chains import DecoderRun, GroupRun, MarkovRun, group_run, groups, passes_of
from unmask.sampling.run.diagnostics import measure
from unmask.sampling.run.result import (
    COUNTS,
    KIND,
    Mark,
    SampleFolder,
    SampleRun,
    Snapshot,
    SweepRows,
    Write,
    as_frame,
    assemble,
    on_host,
    sample_columns,
    table_of,
    writing_aside,
)
from unmask.sampling.settings import SampleSettings
from unmask.sampling.target import Energy

SECONDS_BETWEEN_CHECKPOINTS = 20.0
STREAM = "philox4x32-10"
"""The definition of the random numbers; a run of another one is not continued."""
PLAN = "plan"
"""The first item on Ray: how many chains fit there."""
PIECES = 20
"""Answers of a worker about a group, at most."""


def memory_budget(memory: int | float | str | None, model: MaskedLM) -> int | None:
    """Bytes, where the user gave a budget; a share is one of the whole memory."""
    return None if memory is None else budget_of("memory", memory, device_bytes(model.device)[1])


def draw_samples(
    settings: SampleSettings,
    model: MaskedLM,
    out: str | os.PathLike[str] | None = None,
    *,
    name: str = "in memory",
    chains_at_once: int | None = None,
    memory: int | float | str | None = None,
    energy: Energy | None = None,
    progress: Progress | None = None,
    seconds_between_checkpoints: float = SECONDS_BETWEEN_CHECKPOINTS,
    shared: SharedChains | None = None,
) -> SampleRun:
    """Draw samples; with a folder `out`, keep them there and go on where an earlier run of the same settings stopped.

    name             of the model, for the record: another name of the same weights continues the run
    chains_at_once   at most this many run side by side; by default as many as the memory holds
    energy           that of the settings, with terms of the user
    shared           the workers that advance the chains, instead of this process
    """
    stored = None if out is None else refuse_foreign(user_path(out, "out"), KIND)
    with nullcontext() if shared is None else closing(shared):
        at_once: Any = (stored or {}).get("chains_at_once") or (shared.chains_at_once() if shared else chains_at_once)
        together, plan = groups(settings, model, at_once, energy, memory_budget(memory, model))
        sizes, done = [len(group.chains) for group in together], [0] * len(together)
        ways = passes_of(settings, model, together, plan)
        runs = [group_run(settings, *one) for one in zip(together, ways, strict=True)]  # checked before anything is written

        def report(number: int, sweeps: int) -> None:
            done[number] = sweeps
            if progress:
                progress(sum(done), len(done) * settings.sweeps, "sweeps")

        def advance(folder: SampleFolder | None = None, write: Write | None = None) -> list[Keeper]:
            keepers = []
            report(0, 0)
            runs.reverse()
            for number in range(len(sizes)):
                run = runs.pop()  # so that the memory of a group that is done can be used again
                saved = folder.checkpoint(number, run) if folder else None
                keeper = Keeper(number, settings.sweeps, write, seconds_between_checkpoints, saved)
                keepers.append(keeper)
                if shared is not None:
                    continue
                if saved is None:
                    run.begin()
                elif folder:
                    folder.restore(number, run, saved)
                advance_group(run, keeper, partial(report, number))
            if shared is not None:
                shared.advance(sizes, keepers, report)
            return keepers

        if out is None:
            keepers = advance()
            rows = as_frame(table_of([row for keeper in keepers for row in keeper.rows], model))
            return assemble(settings, rows, [keeper.snapshot for keeper in keepers], model.text, memory=str(plan))
        about = {
            "user_terms": energy.names if energy else [],
            "model": name,
            "dtype": str(model.dtype).removeprefix("torch."),
            "device": model.device.type if shared is None else shared.workers.device,
            "stream": STREAM,
            "chains_at_once": sizes,
        }
        with SampleFolder(out, settings, model.fingerprint, about) as folder:
            with writing_aside(folder, model) as write:
                keepers = advance(folder, write)
            rows = as_frame(folder.rows(sample_columns()))
            run = assemble(settings, rows, [keeper.snapshot for keeper in keepers], model.text, folder.path, str(plan))
            for file, frame in (("starts", run.starts), ("rates", run.rates), ("samples", run.samples)):
                write_table(folder.path / f"{file}.parquet", frame)
        return run


def advance_group(run: GroupRun, keeper: Keeper, report: Callable[[int], None]) -> None:
    """All sweeps of one group that has begun; an interrupt leaves a checkpoint of the last whole sweep."""
    try:
        while run.done < run.settings.sweeps:
            run.sweep()
            keeper.add([run.sample()] if run.settings.keeps(run.done) else [], run.mark())
            report(run.done)
    except KeyboardInterrupt:
        keeper.flush()
        raise


class Keeper:
    """A group's samples and latest mark on their way to the folder: every so many seconds, and at the end.

    Without a folder, all samples stay here.
    """

    def __init__(self, number: int, sweeps: int, write: Write | None, seconds: float, mark: Mark | None = None) -> None:
        self.number, self.sweeps, self.write, self.seconds = number, sweeps, write, seconds
        self.rows: list[SweepRows] = []
        self.mark: Mark = mark or {}
        self._last = time.monotonic()

    @property
    def done(self) -> int:
        """Sweeps of the mark."""
        return int(self.mark["done"]) if self.mark else 0

    @property
    def snapshot(self) -> dict[str, np.ndarray]:
        """The mark in this process's memory."""
        return on_host(self.mark)

    def add(self, rows: Sequence[SweepRows], mark: Mark) -> None:
        """Samples of further sweeps, and the mark after them."""
        self.rows += rows
        self.mark = mark
        if time.monotonic() - self._last > self.seconds or self.done == self.sweeps:
            self.flush()

    def flush(self) -> None:
        """Write what is there."""
        if self.write and self.mark:
            self.write(self.number, [row for row in self.rows if row.sweep <= self.done], self.mark)
            self.rows, self._last = [], time.monotonic()


@dataclass(frozen=True)
class Share:
    """A group, of groups with these `sizes`, to be advanced to sweep `upto` from where `saved` has it (None: its start)."""

    sizes: Sequence[int]
    group: int
    upto: int
    saved: Snapshot | None


class Advanced(NamedTuple):
    """The samples of a group on the way, and where its chains are now."""

    rows: list[SweepRows]
    snapshot: Snapshot


class ChainWorker:
    """Advances groups in a process of a Ray cluster; it keeps the last one's chains, which usually go on there."""

    def __init__(
        self, load: Callable[[], MaskedLM], settings: SampleSettings, memory: int | float | str | None, energy: Energy | None
    ) -> None:
        self.settings, self.model, self.energy = settings, load(), energy
        self.budget = memory_budget(memory, self.model)
        self.live: tuple[int, GroupRun] | None = None

    def __call__(self, share: Share | str) -> Advanced | int:
        """Advance a group; PLAN asks how many chains the memory here holds."""
        if isinstance(share, str):
            return max(len(group.chains) for group in groups(self.settings, self.model, None, self.energy, self.budget)[0])
        done = 0 if share.saved is None else int(share.saved["done"])
        if self.live is None or self.live[0] != share.group or self.live[1].done != done:
            together, plan = groups(self.settings, self.model, share.sizes, self.energy, self.budget)
            ways = passes_of(self.settings, self.model, together, plan)
            run = group_run(self.settings, together[share.group], ways[share.group])
            run.begin() if share.saved is None else run.restore(share.saved)
            self.live = share.group, run
        run, rows = self.live[1], []
        while run.done < share.upto:
            run.sweep()
            rows += [run.sample().on_host()] if self.settings.keeps(run.done) else []
        return Advanced(rows, on_host(run.mark()))


class SharedChains:
    """The chains of a run on Ray; `load` returns the model in a worker's process."""

    def __init__(
        self,
        settings: SampleSettings,
        workers: Workers,
        load: Callable[[], MaskedLM],
        memory: int | float | str | None = None,
        energy: Energy | None = None,
    ) -> None:
        self.settings, self.workers = settings, workers
        self.shares: list[Share] | None = None
        setup = partial(ChainWorker, load, settings, memory, energy)
        self.results = each(ChainWorker.__call__, self._items(), workers, setup, self._rest)

    def close(self) -> None:
        """End the workers."""
        self.results.close()

    def chains_at_once(self) -> int:
        """Chains of a group: every worker has one, whose memory holds it."""
        _, fitting = next(self.results)
        return int(min(fitting, -(-self.settings.chains // self.workers.count)))

    def advance(self, sizes: Sequence[int], keepers: Sequence[Keeper], report: Callable[[int, int], None]) -> None:
        """All sweeps of all groups, each from the mark of its keeper, if it has one. `report`: a group, and its sweeps done."""
        pending = [keeper for keeper in keepers if keeper.done < self.settings.sweeps]
        self.shares = [Share(sizes, one.number, self._upto(one.done), one.snapshot if one.mark else None) for one in pending]
        try:
            for index, answer in self.results:
                if isinstance(answer, Advanced):
                    keeper = pending[index - 1]
                    keeper.add(answer.rows, answer.snapshot)
                    report(keeper.number, keeper.done)
        except (KeyboardInterrupt, UnmaskError):
            for keeper in keepers:
                keeper.flush()
            raise

    def _items(self) -> Iterator[Share | str | None]:
        yield PLAN
        while self.shares is None:
            yield None
        yield from self.shares

    def _rest(self, share: Share | str, answer: Advanced | int) -> Share | None:
        if isinstance(share, str) or isinstance(answer, int) or share.upto >= self.settings.sweeps:
            return None
        return replace(share, saved=answer.snapshot, upto=self._upto(share.upto))

    def _upto(self, done: int) -> int:
        return min(self.settings.sweeps, done + -(-self.settings.sweeps // PIECES))


@dataclass(frozen=True)
class Begun:
    """Where the chains start: their tokens, which positions are free, and their energies."""

    tokens: list[list[str]]
    free: list[int]
    texts: list[str]
    energies: list[float]


@dataclass(frozen=True)
class Move:
    """One step of one chain: positions redrawn, which of them were offered another token, and which took it.

    confidence   of a decoder: the model's probability of each token when it was chosen
    rejected     of a decoder that verifies drafts: position and token of those that it did not accept
    """

    positions: list[int]
    tokens: list[str]
    proposed: list[bool]
    changed: list[bool]
    accepted: bool
    confidence: list[float] | None = None
    rejected: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Stepped:
    """One step of every chain."""

    sweep: int
    moves: list[Move]


@dataclass(frozen=True)
class Swept:
    """After a sweep: the chains' texts and energies, shares of steps accepted and novel so far, R-hat of the energy.

    acceptance, novelty and r_hat are None where they are not known: for a decoder, for one chain, after few sweeps.
    """

    sweep: int
    texts: list[str]
    energies: list[float]
    acceptance: float | None
    novelty: float | None
    r_hat: float | None
    passes: int


Event: TypeAlias = Begun | Stepped | Swept


def watch(settings: SampleSettings, model: MaskedLM) -> Iterator[Event]:
    """Run the chains of one target side by side, and yield every step, for `unmask serve`; no folder is written.

    The samples are those of `unmask.sample`, token for token. The model is asked for logits only: its `logits` may be shared with
    other requests, and the chains are the same.
    """
    together, plan = groups(settings, model, chains_at_once=settings.chains, only="logits")
    if len(together) != 1:
        raise InputError("chains of several lengths cannot be watched side by side: give one template or one length")
    run = group_run(settings, together[0], *passes_of(settings, model, together, plan))
    run.begin()
    draws: list[list[float]] = []
    free = together[0].target.free_positions.tolist()
    energies = run.energies().tolist() if isinstance(run, MarkovRun) else []  # blank starts have none
    yield Begun([model.decode(ids) for ids in run.starts], free, [model.text(ids) for ids in run.starts], energies)
    while run.done < settings.sweeps:
        yield from _steps(run, model, free)
        draws.append(run.energies().tolist())
        yield _swept(run, model, draws)


def _steps(run: GroupRun, model: MaskedLM, free: list[int]) -> Iterator[Stepped]:
    if isinstance(run, DecoderRun):
        yield from _decoded(run, model, free)
        return
    assert isinstance(run, MarkovRun)
    for info in run.steps():
        did = zip(run.texts().tolist(), *(part.tolist() for part in info[:4]), strict=True)
        moves = []
        for ids, sites, accepted, proposed, changed in did:
            positions = [free[site] for site in sites]
            moves.append(Move(positions, model.decode([ids[p] for p in positions]), proposed, changed, accepted))
        yield Stepped(run.done + 1, moves)


def _decoded(run: DecoderRun, model: MaskedLM, free: list[int]) -> Iterator[Stepped]:
    """The steps of one decoding that change a text, from blanks on."""
    before, number = (run.texts() if run.done else run.starts).tolist(), run.done + 1
    for state in run.steps():
        now, sure = state.ids.tolist(), state.confidence.tolist()
        drafts = getattr(state, "drafts", None)
        moves = []
        for n, (old, ids) in enumerate(zip(before, now, strict=True)):
            sites = [site for site, p in enumerate(free) if ids[p] != old[p]]
            every, drafted = [True] * len(sites), [] if drafts is None else drafts[n].tolist()
            rejected = [(p, model.decode([x])[0]) for p, x in zip(free, drafted, strict=False) if x >= 0 and ids[p] != x]
            tokens = model.decode([ids[free[site]] for site in sites])
            chosen = [free[site] for site in sites]
            moves.append(Move(chosen, tokens, every, every, True, [sure[n][site] for site in sites], rejected))
        before = now
        if any(move.positions or move.rejected for move in moves):
            yield Stepped(number, moves)


def _swept(run: GroupRun, model: MaskedLM, draws: list[list[float]]) -> Swept:
    counts = dict(zip(COUNTS, run.counts.sum(1).tolist(), strict=True))
    passes = int(run.spent.sum())
    r_hat = None
    if run.settings.kernel.mixes and len(draws[0]) > 1:
        measured = measure("energy", len(run.counts[0]), np.array(draws).T, passes).r_hat
        r_hat = measured if np.isfinite(measured) else None
    steps = counts["steps"]
    return Swept(
        run.done,
        [model.text(ids) for ids in run.texts()],
        draws[-1],
        counts["accepted"] / steps if steps else None,
        counts["changed"] / steps if steps else None,
        r_hat,
        passes,
    )
