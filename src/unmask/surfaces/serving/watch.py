"""The steps of a sampling run as events, for `unmask serve`: chains of one target side by side,
in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from unmask.common.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.sampling.chains.convergence import measure
from unmask.sampling.chains.group_run import DecoderRun, GroupRun, MarkovRun
from unmask.sampling.chains.groups import group_runs
from unmask.sampling.chains.snapshot import COUNTS
from unmask.sampling.settings import SampleSettings

Move = dict[str, Any]
"""One chain's part of a `stepped` event; see `watch`."""


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
    free = run.group.target.free_positions.tolist()
    is_chain = isinstance(run, MarkovRun)
    yield (
        "begun",
        {
            "tokens": [model.decode(ids) for ids in run.starts],
            "free": free,
            "texts": [model.text(ids) for ids in run.starts],
            "energies": run.energies().tolist() if is_chain else [],
        },
    )
    energies_of_sweeps: list[list[float]] = []
    while run.done < settings.sweeps:
        sweep = run.done + 1
        if isinstance(run, DecoderRun):
            steps = _decoder_steps(run, model, free)
        else:
            steps = _kernel_steps(run, model, free)
        for moves in steps:
            yield "stepped", {"sweep": sweep, "moves": moves}
        energies_of_sweeps.append(run.energies().tolist())
        yield "swept", _swept(run, model, energies_of_sweeps)


def _kernel_steps(run: GroupRun, model: MaskedLM, free: list[int]) -> Iterator[list[Move]]:
    """The moves of all chains in each step of a sweep."""
    for info in run.steps():
        rows = zip(
            run.texts().tolist(),
            info.sites.tolist(),
            info.proposed.tolist(),
            info.changed.tolist(),
            info.accepted.tolist(),
            strict=True,
        )
        moves = []
        for ids, sites, proposed, changed, accepted in rows:
            move = _move(
                model,
                ids,
                positions=[free[site] for site in sites],
                proposed=proposed,
                changed=changed,
                accepted=accepted,
            )
            moves.append(move)
        yield moves


def _decoder_steps(run: DecoderRun, model: MaskedLM, free: list[int]) -> Iterator[list[Move]]:
    """The moves of all texts in each step of a decoding that changes a text, from blanks on."""
    texts_before = (run.texts() if run.done else run.starts).tolist()
    for state in run.steps():
        texts = state.ids.tolist()
        confidence = state.confidence.tolist()
        drafted = getattr(state, "drafts", None)  # of a decoder that verifies, after its first step
        drafts = [[] for _ in texts] if drafted is None else drafted.tolist()
        rows = zip(texts_before, texts, confidence, drafts, strict=True)
        moves = [_decoder_move(model, free, *row) for row in rows]
        texts_before = texts
        if any(move["positions"] or move["rejected"] for move in moves):
            yield moves


def _decoder_move(
    model: MaskedLM,
    free: list[int],
    before: list[int],
    ids: list[int],
    confidence: list[float],
    drafts: list[int],
) -> Move:
    """One text's part of a decoder's step.

    before, ids   the text before and after the step
    confidence    at each site
    drafts        a token for each site, negative where none was drafted; empty of a decoder that
                  drafts nothing
    """
    sites = [site for site, position in enumerate(free) if ids[position] != before[position]]
    rejected = []
    for site, draft in enumerate(drafts):
        position = free[site]
        if draft >= 0 and ids[position] != draft:
            (token,) = model.decode([draft])
            rejected.append((position, token))
    all_sites = [True] * len(sites)
    return _move(
        model,
        ids,
        positions=[free[site] for site in sites],
        proposed=all_sites,
        changed=all_sites,
        accepted=True,
        confidence=[confidence[site] for site in sites],
        rejected=rejected,
    )


def _move(
    model: MaskedLM,
    ids: list[int],
    *,
    positions: list[int],
    proposed: list[bool],
    changed: list[bool],
    accepted: bool,
    confidence: list[float] | None = None,
    rejected: Sequence[tuple[int, str]] = (),
) -> Move:
    """One chain's part of a `stepped` event; `ids` is its text now."""
    return {
        "positions": positions,
        "tokens": model.decode([ids[position] for position in positions]),
        "proposed": proposed,
        "changed": changed,
        "accepted": accepted,
        "confidence": confidence,
        "rejected": list(rejected),
    }


def _swept(run: GroupRun, model: MaskedLM, energies_of_sweeps: list[list[float]]) -> dict[str, Any]:
    """The event after a sweep."""
    counts = dict(zip(COUNTS, run.counts.sum(1).tolist(), strict=True))
    passes = int(run.spent.sum())
    energies = energies_of_sweeps[-1]
    r_hat = None
    if isinstance(run, MarkovRun) and len(energies) > 1:
        draws = np.array(energies_of_sweeps).T  # (chains, draws)
        length = run.group.target.sites
        measured = measure("energy", length, draws, passes).r_hat
        if np.isfinite(measured):
            r_hat = measured
    steps = counts["steps"]
    return {
        "sweep": run.done,
        "texts": [model.text(ids) for ids in run.texts()],
        "energies": energies,
        "acceptance": counts["accepted"] / steps if steps else None,
        "novelty": counts["changed"] / steps if steps else None,
        "r_hat": r_hat,
        "passes": passes,
    }
