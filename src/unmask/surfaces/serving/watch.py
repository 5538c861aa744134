"""The steps of chains, and of decodings, as events for `unmask serve`: those of one target side
by side, in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from unmask.common.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.runs.progress import Enough
from unmask.sampling.chains.assembling import assemble
from unmask.sampling.chains.drawing import FIRST_LOOK
from unmask.sampling.chains.generating import draws_of
from unmask.sampling.chains.group_run import DecoderRun, GroupRun
from unmask.sampling.chains.groups import group_runs
from unmask.sampling.chains.samples import SweepRows, samples_of_sweeps
from unmask.sampling.chains.snapshot import COUNTS, DeviceSnapshot, on_host
from unmask.sampling.settings import GenerateSettings, SampleSettings
from unmask.verbs.generate import generation_of
from unmask.verbs.sample import SampleRun

Event = tuple[str, Any]
Move = dict[str, Any]
"""One chain's part of a `stepped` event; see `watch_chains`."""


def watch_chains(settings: SampleSettings, model: MaskedLM) -> Iterator[Event]:
    """Run the chains of one target side by side, and yield every step as an event.

    begun     tokens and texts at the start, the positions that are `free`, energies, and how many
              sweeps there will be
    stepped   a step in `sweep`; of each chain in `moves`: positions redrawn, their tokens now,
              which of them were proposed another token and which changed, and whether it was
              accepted
    swept     after a sweep: texts, energies, passes, and the shares of steps accepted and novel
              so far
    partial   the `SampleRun` of the sweeps so far, as often as `unmask.sample` gives it
    answer    the `SampleRun` of all sweeps, or of those before the model raised `Enough`

    The samples are those of `unmask.sample`, token for token. The model is asked for logits
    only: its `logits` may be shared with other requests, and the chains are the same.
    """
    run = _only_run(settings, model)
    run.begin()
    energies = run.energies().tolist()
    run.scoring_passes = 0  # those of the starts are the page's alone
    yield "begun", {**_start(run, model), "energies": energies, "sweeps": settings.sweeps}
    sweeps: list[SweepRows] = []
    snapshot = run.snapshot()
    next_diagnosis = FIRST_LOOK
    try:
        while run.done < settings.sweeps:
            sweep = run.done + 1
            for moves in _kernel_steps(run, model):
                yield "stepped", {"sweep": sweep, "moves": moves}
            rows = run.sample()
            sweeps.append(rows)
            snapshot = run.snapshot()
            yield "swept", _swept(run, rows, model)
            if run.done == next_diagnosis < settings.sweeps:
                yield "partial", _sample_run(settings, sweeps, snapshot, model)
                next_diagnosis *= 2
    except Enough:
        if not sweeps:
            raise
    yield "answer", _sample_run(settings, sweeps, snapshot, model)


def watch_texts(settings: GenerateSettings, model: MaskedLM) -> Iterator[Event]:
    """Decode texts over one template side by side, and yield every step as an event.

    begun     tokens and texts at the start, and the positions that are `free`
    stepped   of each text in `moves`: positions filled, their tokens, the model's probability of
              each (`confidence`), and position and token of the drafts that it `rejected`
    answer    the `Generation`, whose texts are those of `unmask.generate`
    """
    run = _only_run(settings.run, model)
    run.begin()
    assert isinstance(run, DecoderRun)
    yield "begun", _start(run, model)
    for moves in _decoder_steps(run, model):
        yield "stepped", {"sweep": 1, "moves": moves}
    draws = [draw for _, draw in draws_of(run.sample(), model)]
    yield "answer", generation_of(settings, draws)


def _only_run(settings: SampleSettings, model: MaskedLM) -> GroupRun:
    """The run of all chains, which have one length."""
    runs = group_runs(settings, model, settings.chains, form="logits")
    if len(runs) != 1:
        raise InputError(
            "chains of several lengths cannot be watched side by side: give one template or one"
            " length"
        )
    return runs[0]


def _start(run: GroupRun, model: MaskedLM) -> dict[str, Any]:
    return {
        "tokens": [model.decode(ids) for ids in run.starts],
        "free": run.group.target.free_positions.tolist(),
        "texts": [model.text(ids) for ids in run.starts],
    }


def _sample_run(
    settings: SampleSettings, sweeps: list[SweepRows], snapshot: DeviceSnapshot, model: MaskedLM
) -> SampleRun:
    """The result of the sweeps so far."""
    samples = samples_of_sweeps(sweeps, model)
    drawn = assemble(settings, samples, [on_host(snapshot)], model.words.text)
    return SampleRun(**vars(drawn))


def _free(run: GroupRun) -> list[int]:
    positions: list[int] = run.group.target.free_positions.tolist()
    return positions


def _kernel_steps(run: GroupRun, model: MaskedLM) -> Iterator[list[Move]]:
    """The moves of all chains in each step of a sweep."""
    free = _free(run)
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


def _decoder_steps(run: DecoderRun, model: MaskedLM) -> Iterator[list[Move]]:
    """The moves of all texts in each step of a decoding that changes a text, from blanks on."""
    free = _free(run)
    texts_before = run.starts.tolist()
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


def _swept(run: GroupRun, rows: SweepRows, model: MaskedLM) -> dict[str, Any]:
    """The event after a sweep."""
    counts = dict(zip(COUNTS, run.counts.sum(1).tolist(), strict=True))
    steps = counts["steps"]
    assert rows.energies is not None  # those of chains are kept
    return {
        "sweep": run.done,
        "texts": [model.text(ids) for ids in run.texts()],
        "energies": rows.energies.tolist(),
        "acceptance": counts["accepted"] / steps if steps else None,
        "novelty": counts["changed"] / steps if steps else None,
        "passes": int(run.spent.sum()),
    }
