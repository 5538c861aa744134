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
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from unmask.errors import InputError, UnmaskError
from unmask.models.masked_lm import MaskedLM
from unmask.runs.engine import Workers, each
from unmask.runs.files import user_path, write_table
from unmask.runs.folder import refuse_foreign
from unmask.runs.progress import Progress
from unmask.sampling.run.chains import DecoderRun, GroupRun, MarkovRun, group_runs
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
PIECES = 20
"""Answers of a worker about a group, at most."""
NO_DRAFTS: dict[str, Any] = {"confidence": None, "rejected": []}


def draw_samples(
    settings: SampleSettings,
    model: MaskedLM,
    out: str | os.PathLike[str] | None = None,
    *,
    name: str = "in memory",
    chains_at_once: int | None = None,
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
    at_once: Any = (stored or {}).get("chains_at_once") or chains_at_once
    runs = group_runs(settings, model, at_once, energy, workers=shared.workers if shared else None)
    sizes, done = [len(run.group.chains) for run in runs], [0] * len(runs)

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
            keepers.append(Keeper(number, settings.sweeps, write, seconds_between_checkpoints, saved))
            if shared is not None:
                continue
            if saved is None:
                run.begin()
            elif folder:
                folder.restore(number, run, saved)
            advance_group(run, keepers[-1], partial(report, number))
        if shared is not None:
            shared.advance(sizes, keepers, report)
        return keepers

    if out is None:
        keepers = advance()
        rows = as_frame(table_of([row for keeper in keepers for row in keeper.rows], model))
        return assemble(settings, rows, [keeper.snapshot for keeper in keepers], model.text)
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
        run = assemble(settings, rows, [keeper.snapshot for keeper in keepers], model.text, folder.path)
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

    def __init__(self, load: Callable[[], MaskedLM], settings: SampleSettings, energy: Energy | None) -> None:
        self.settings, self.model, self.energy = settings, load(), energy
        self.live: tuple[int, GroupRun] | None = None

    def __call__(self, share: Share) -> Advanced:
        """Advance a group."""
        done = 0 if share.saved is None else int(share.saved["done"])
        if self.live is None or self.live[0] != share.group or self.live[1].done != done:
            run = group_runs(self.settings, self.model, share.sizes, self.energy)[share.group]
            run.begin() if share.saved is None else run.restore(share.saved)
            self.live = share.group, run
        run, rows = self.live[1], []
        while run.done < share.upto:
            run.sweep()
            rows += [run.sample().on_host()] if self.settings.keeps(run.done) else []
        return Advanced(rows, on_host(run.mark()))


@dataclass(frozen=True)
class SharedChains:
    """The chains of a run on workers; `load` returns the model in a worker's process."""

    settings: SampleSettings
    workers: Workers
    load: Callable[[], MaskedLM]
    energy: Energy | None = None

    def advance(self, sizes: Sequence[int], keepers: Sequence[Keeper], report: Callable[[int, int], None]) -> None:
        """All sweeps of all groups, each from the mark of its keeper, if it has one. `report`: a group, and its sweeps done."""
        pending = [keeper for keeper in keepers if keeper.done < self.settings.sweeps]
        shares = [Share(sizes, one.number, self._upto(one.done), one.snapshot if one.mark else None) for one in pending]
        setup = partial(ChainWorker, self.load, self.settings, self.energy)
        try:
            with closing(each(ChainWorker.__call__, shares, self.workers, setup, self._rest)) as results:
                for index, (rows, snapshot) in results:
                    pending[index].add(rows, snapshot)
                    report(pending[index].number, pending[index].done)
        except (KeyboardInterrupt, UnmaskError):
            for keeper in keepers:
                keeper.flush()
            raise

    def _rest(self, share: Share, answer: Advanced) -> Share | None:
        done = share.upto >= self.settings.sweeps
        return None if done else replace(share, saved=answer.snapshot, upto=self._upto(share.upto))

    def _upto(self, done: int) -> int:
        return min(self.settings.sweeps, done + -(-self.settings.sweeps // PIECES))


def watch(settings: SampleSettings, model: MaskedLM) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run the chains of one target side by side, and yield every step as an event, for `unmask serve`; no folder is written.

    begun     tokens and texts at the start, the positions that are `free`, and energies (none of a decoder's blanks)
    stepped   a step in `sweep`; of each chain in `moves`: positions redrawn, their tokens now, which of them were proposed
              another token and which changed, and whether it was accepted; of a decoder also the model's probability of each
              token (`confidence`), and position and token of the drafts that it `rejected`
    swept     after a sweep: texts, energies, passes, shares of steps accepted and novel so far, R-hat of the energy; None where
              one is not known

    The samples are those of `unmask.sample`, token for token. The model is asked for logits only: its `logits` may be shared with
    other requests, and the chains are the same.
    """
    runs = group_runs(settings, model, settings.chains, keeps="logits")
    if len(runs) != 1:
        raise InputError("chains of several lengths cannot be watched side by side: give one template or one length")
    run = runs[0]
    run.begin()
    draws: list[list[float]] = []
    free = run.group.target.free_positions.tolist()
    energies = run.energies().tolist() if isinstance(run, MarkovRun) else []
    tokens, texts = [model.decode(ids) for ids in run.starts], [model.text(ids) for ids in run.starts]
    yield "begun", {"tokens": tokens, "free": free, "texts": texts, "energies": energies}
    while run.done < settings.sweeps:
        number = run.done + 1
        for moves in _decoded(run, model, free) if isinstance(run, DecoderRun) else _moved(run, model, free):
            yield "stepped", {"sweep": number, "moves": moves}
        draws.append(run.energies().tolist())
        yield "swept", _swept(run, model, draws)


def _moved(run: GroupRun, model: MaskedLM, free: list[int]) -> Iterator[list[dict[str, Any]]]:
    for info in run.steps():
        moves = []
        for ids, sites, *outcome in zip(run.texts().tolist(), *(part.tolist() for part in info[:4]), strict=True):
            accepted, proposed, changed = outcome
            positions = [free[site] for site in sites]
            move = {"positions": positions, "tokens": model.decode([ids[position] for position in positions])}
            moves.append({**move, "proposed": proposed, "changed": changed, "accepted": accepted, **NO_DRAFTS})
        yield moves


def _decoded(run: DecoderRun, model: MaskedLM, free: list[int]) -> Iterator[list[dict[str, Any]]]:
    """The steps of one decoding that change a text, from blanks on."""
    before = (run.texts() if run.done else run.starts).tolist()
    for state in run.steps():
        texts, confidence = state.ids.tolist(), state.confidence.tolist()
        drafts = getattr(state, "drafts", None)
        moves = []
        for n, (old, ids) in enumerate(zip(before, texts, strict=True)):
            sites = [site for site, p in enumerate(free) if ids[p] != old[p]]
            every, drafted = [True] * len(sites), [] if drafts is None else drafts[n].tolist()
            rejected = [(p, model.decode([x])[0]) for p, x in zip(free, drafted, strict=False) if x >= 0 and ids[p] != x]
            positions = [free[site] for site in sites]
            move = {"positions": positions, "tokens": model.decode([ids[position] for position in positions])}
            sure = {"confidence": [confidence[n][site] for site in sites], "rejected": rejected}
            moves.append({**move, "proposed": every, "changed": every, "accepted": True, **sure})
        before = texts
        if any(move["positions"] or move["rejected"] for move in moves):
            yield moves


def _swept(run: GroupRun, model: MaskedLM, draws: list[list[float]]) -> dict[str, Any]:
    counts, passes, r_hat = dict(zip(COUNTS, run.counts.sum(1).tolist(), strict=True)), int(run.spent.sum()), None
    if run.settings.kernel.mixes and len(draws[0]) > 1:
        measured = measure("energy", len(run.counts[0]), np.array(draws).T, passes).r_hat
        r_hat = measured if np.isfinite(measured) else None
    steps = counts["steps"]
    return {
        "sweep": run.done,
        "texts": [model.text(ids) for ids in run.texts()],
        "energies": draws[-1],
        "acceptance": counts["accepted"] / steps if steps else None,
        "novelty": counts["changed"] / steps if steps else None,
        "r_hat": r_hat,
        "passes": passes,
    }
