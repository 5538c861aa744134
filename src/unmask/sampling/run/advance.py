"""How a run advances: groups of chains or decodings, sweep by sweep, with burn-in, thinning, checkpoints, and resumption.

The samples are a function of the settings, the model's weights and the kind of device alone: not of how many chains run
side by side, nor of where the run was interrupted (see `randomness` and `passes`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from unmask.checks import memory as budget_of
from unmask.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.runs.files import write_table
from unmask.runs.progress import Progress
from unmask.sampling.energy import UserTerm
from unmask.sampling.engine.memory import device_bytes
from unmask.sampling.run.chains import DecoderRun, GroupRun, MarkovRun, group_run, groups, passes_of
from unmask.sampling.run.diagnostics import measure
from unmask.sampling.run.result import (
    COUNTS,
    Mark,
    SampleFolder,
    SampleRun,
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

if TYPE_CHECKING:
    from unmask.sampling.run.sharing import SharedChains

SECONDS_BETWEEN_CHECKPOINTS = 20.0
STREAM = "philox4x32-10"
"""The definition of the random numbers; a run of another one is not continued."""


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
    user_terms: Sequence[UserTerm] = (),
    progress: Progress | None = None,
    seconds_between_checkpoints: float = SECONDS_BETWEEN_CHECKPOINTS,
    shared: SharedChains | None = None,
) -> SampleRun:
    """Draw samples; with a folder `out`, keep them there and go on where an earlier run of the same settings stopped.

    name             of the model, for the record: another name of the same weights continues the run
    chains_at_once   at most this many run side by side; by default as many as the memory holds
    shared           the workers that advance the chains, instead of this process
    """
    with nullcontext() if shared is None else closing(shared):
        planned = None if shared is None else shared.plan()
        at_once, only = (chains_at_once, None) if planned is None else (planned.sizes, planned.keeps)
        together, plan = groups(settings, model, at_once, user_terms, memory_budget(memory, model), only)
        sizes, done = [len(group.chains) for group in together], [0] * len(together)
        ways = passes_of(settings, model, together, plan)
        runs = [group_run(settings, *one) for one in zip(together, ways, strict=True)]  # checked before anything is written

        def report(number: int, sweeps: int) -> None:
            done[number] = sweeps
            if progress:
                progress(sum(done), len(done) * settings.sweeps, "sweeps")

        def advance(folder: SampleFolder | None = None, write: Write | None = None) -> list[Keeper]:
            keepers = []
            runs.reverse()
            for number in range(len(sizes)):
                run = runs.pop()  # so that the memory of a group that is done can be used again
                saved = folder.checkpoint(number, run) if folder else None
                keeper = Keeper(number, settings.sweeps, write, seconds_between_checkpoints, saved)
                keepers.append(keeper)
                if shared is None:
                    if saved is None:
                        run.begin()
                    elif folder:
                        folder.restore(number, run, saved)
                    advance_group(run, keeper, partial(report, number))
                elif saved is not None:
                    report(number, keeper.done)
            if shared is not None and planned is not None:
                shared.advance(planned, keepers, report)
            return keepers

        if out is None:
            keepers = advance()
            rows = as_frame(table_of([row for keeper in keepers for row in keeper.rows], model))
            return assemble(settings, rows, [keeper.snapshot for keeper in keepers], model.text, memory=str(plan))
        about = {
            "user_terms": [getattr(term, "__qualname__", repr(term)) for term in user_terms],
            "model": name,
            "dtype": str(model.dtype).removeprefix("torch."),
            "device": model.device.type if shared is None else shared.workers.device,
            "stream": STREAM,
            "keeps": plan.keeps,
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
class Begun:
    """Where the chains start: their tokens, which positions are free, and their energies."""

    tokens: list[list[str]]
    free: list[int]
    texts: list[str]
    energies: list[float]


@dataclass(frozen=True)
class Move:
    """One step of one chain: positions redrawn, which of them were offered another token, and which took it.

    Replicas that swap exchange whole texts: positions that hold another token because of that count as changed, too.

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
    before = run.texts().tolist()
    for info in run.steps():
        chosen = run.kernel.sampled(run.state)
        now = run.texts().tolist()
        did = [part[chosen].tolist() for part in (info.sites, info.proposed, info.changed, info.accepted)]
        moves = []
        for old, ids, sites, proposed, changed, accepted in zip(before, now, *did, strict=True):
            positions = [free[site] for site in sites]
            swapped = [p for p in free if ids[p] != old[p] and p not in positions]
            also = [True] * len(swapped)
            tokens = model.decode([ids[p] for p in positions + swapped])
            moves.append(Move(positions + swapped, tokens, proposed + also, changed + also, accepted))
        before = now
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
