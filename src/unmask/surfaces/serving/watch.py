"""The steps of a sampling run as events, for `unmask serve`: chains of one target side by side,
in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from unmask.common.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.sampling.chains.functionals import measure
from unmask.sampling.chains.group_run import DecoderRun, GroupRun, MarkovRun
from unmask.sampling.chains.groups import group_runs
from unmask.sampling.chains.snapshot import COUNTS
from unmask.sampling.settings import SampleSettings


def watch(settings: SampleSettings, model: MaskedLM) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run the chains of one target side by side, and yield every step as an event, for `unmask
    serve`; no folder is written.

    begun     tokens and texts at the start, the positions that are `free`, and energies (none
              of a decoder's blanks)
    stepped   a step in `sweep`; of each chain in `moves`: positions redrawn, their tokens now,
              which of them were proposed another token and which changed, and whether it was
              accepted; of a decoder also the model's probability of each token (`confidence`),
              and position and token of the drafts that it `rejected`
    swept     after a sweep: texts, energies, passes, shares of steps accepted and novel so far,
              R-hat of the energy; None where one is not known

    The samples are those of `unmask.sample`, token for token. The model is asked for logits
    only: its `logits` may be shared with other requests, and the chains are the same.
    """
    runs = group_runs(settings, model, settings.chains, form="logits")
    if len(runs) != 1:
        raise InputError(
            "chains of several lengths cannot be watched side by side: give one template or one"
            " length"
        )
    run = runs[0]
    run.begin()
    draws: list[list[float]] = []
    free = run.group.target.free_positions.tolist()
    energies = run.energies().tolist() if isinstance(run, MarkovRun) else []
    tokens, texts = (
        [model.decode(ids) for ids in run.starts],
        [model.text(ids) for ids in run.starts],
    )
    yield "begun", {"tokens": tokens, "free": free, "texts": texts, "energies": energies}
    while run.done < settings.sweeps:
        number = run.done + 1
        for moves in (
            _decoded(run, model, free) if isinstance(run, DecoderRun) else _moved(run, model, free)
        ):
            yield "stepped", {"sweep": number, "moves": moves}
        draws.append(run.energies().tolist())
        yield "swept", _swept(run, model, draws)


def _moved(run: GroupRun, model: MaskedLM, free: list[int]) -> Iterator[list[dict[str, Any]]]:
    """The moves of all chains, step by step."""
    for info in run.steps():
        rows = zip(run.texts().tolist(), *(part.tolist() for part in info[:4]), strict=True)
        yield [
            _move(model, ids, [free[site] for site in sites], proposed, changed, accepted)
            for ids, sites, accepted, proposed, changed in rows
        ]


def _decoded(run: DecoderRun, model: MaskedLM, free: list[int]) -> Iterator[list[dict[str, Any]]]:
    """The steps of one decoding that change a text, from blanks on."""
    before = (run.texts() if run.done else run.starts).tolist()
    for state in run.steps():
        texts, confidence = state.ids.tolist(), state.confidence.tolist()
        drafts = getattr(state, "drafts", None)
        moves = []
        for n, (old, ids) in enumerate(zip(before, texts, strict=True)):
            sites = [site for site, p in enumerate(free) if ids[p] != old[p]]
            drafted = [] if drafts is None else drafts[n].tolist()
            rejected = [
                (p, model.decode([x])[0])
                for p, x in zip(free, drafted, strict=False)
                if x >= 0 and ids[p] != x
            ]
            positions, all_true = [free[site] for site in sites], [True] * len(sites)
            sure = [confidence[n][site] for site in sites]
            moves.append(_move(model, ids, positions, all_true, all_true, True, sure, rejected))
        before = texts
        if any(move["positions"] or move["rejected"] for move in moves):
            yield moves


def _move(
    model: MaskedLM,
    ids: list[int],
    positions: list[int],
    proposed: list[bool],
    changed: list[bool],
    accepted: bool,
    confidence: list[float] | None = None,
    rejected: Sequence[tuple[int, str]] = (),
) -> dict[str, Any]:
    """One chain's part of a `stepped` event."""
    tokens = model.decode([ids[position] for position in positions])
    outcome = {"proposed": proposed, "changed": changed, "accepted": accepted}
    return {
        "positions": positions,
        "tokens": tokens,
        **outcome,
        "confidence": confidence,
        "rejected": list(rejected),
    }


def _swept(run: GroupRun, model: MaskedLM, draws: list[list[float]]) -> dict[str, Any]:
    counts, passes, r_hat = (
        dict(zip(COUNTS, run.counts.sum(1).tolist(), strict=True)),
        int(run.spent.sum()),
        None,
    )
    if isinstance(run, MarkovRun) and len(draws[0]) > 1:
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
