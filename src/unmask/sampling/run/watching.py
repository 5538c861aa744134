"""A run step by step, as it happens, for `unmask serve`. The samples are those of `unmask.sample`, token for token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from unmask.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.sampling.run.chains import GroupRun, MarkovRun, group_run, groups, passes_of
from unmask.sampling.run.diagnostics import measure
from unmask.sampling.run.result import COUNTS
from unmask.sampling.settings import SampleSettings


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
    """

    positions: list[int]
    tokens: list[str]
    proposed: list[bool]
    changed: list[bool]
    accepted: bool


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
    """Run the chains of one target side by side, and yield every step; no folder is written.

    The model is asked for logits only: its `logits` may be shared with other requests, and the chains are the same.
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
    if not isinstance(run, MarkovRun):
        run.sweep()
        every, texts = [True] * len(free), run.texts().tolist()
        yield Stepped(run.done, [Move(free, model.decode([ids[p] for p in free]), every, every, True) for ids in texts])
        return
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
