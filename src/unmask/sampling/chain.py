"""Runs kernels: groups of chains, burn-in, thinning, checkpoints, and resumption.

The samples are a function of the settings and the model's weights alone: not of how many chains run side by side, nor of
where the run was interrupted (see `randomness` and `passes`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unmask.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.sampling.choose_kernel import proposal_of
from unmask.sampling.decoder_run import DecoderRun
from unmask.sampling.energy import UserTerm
from unmask.sampling.markov_run import COUNTS, GroupRun, MarkovRun, Snapshot
from unmask.sampling.run_folder import RunFolder, frame_of, read_checkpoint, read_parts, read_settings, read_starts
from unmask.sampling.settings import SampleSettings
from unmask.sampling.starts import groups

if TYPE_CHECKING:
    import pandas

SECONDS_BETWEEN_CHECKPOINTS = 20.0
Report = Callable[[int, int], None]
"""Called with (sweeps done, sweeps in all), over all groups."""


@dataclass(frozen=True)
class SampleRun:
    """What a run leaves: samples (chain, sweep, text, energy, ...), starts, rates per position, and swaps of tempering.

    `swaps` are the shares accepted between the neighbouring temperatures of the ladder.
    """

    settings: SampleSettings
    samples: pandas.DataFrame
    starts: pandas.DataFrame
    rates: pandas.DataFrame
    swaps: tuple[float, ...] = ()


def sample(
    settings: SampleSettings,
    model: MaskedLM | str | Path | None = None,
    out: Path | str | None = None,
    together: int | None = None,
    user_terms: Sequence[UserTerm] = (),
    report: Report | None = None,
    device: str = "auto",
    dtype: str = "auto",
) -> SampleRun:
    """Draw samples; with a folder `out`, keep them there and go on where an earlier run of the same settings stopped.

    together     chains that run side by side; changes memory and speed, not the samples
    user_terms   added to the energy (see `unmask.sampling.energy`)
    """
    lm = model if isinstance(model, MaskedLM) else MaskedLM.load(model, device=device, dtype=dtype)
    proposal = proposal_of(settings)
    kind: type[MarkovRun] | type[DecoderRun] = DecoderRun if settings.decodes else MarkovRun
    runs = [kind(settings, group, proposal) for group in groups(settings, lm, together, tuple(user_terms))]
    if out is None:
        rows = [row for number in range(len(runs)) for row in _advance(runs, number, None, lm, report)]
        return assemble(settings, rows, [run.snapshot() for run in runs], lm)
    named = {
        **settings.to_dict(),
        "user_terms": [getattr(term, "__qualname__", repr(term)) for term in user_terms],
        "model": str(model) if model is not None and not isinstance(model, MaskedLM) else None,
        "weights": lm.fingerprint,
        "dtype": str(lm.dtype),
        "side_by_side": [len(run.group.chains) for run in runs],
    }
    with RunFolder(out, named) as folder:
        for number in range(len(runs)):
            _advance(runs, number, folder, lm, report)
        result = assemble(settings, folder.samples(), [run.snapshot() for run in runs], lm)
        folder.write_frame("starts.parquet", result.starts)
        folder.write_frame("rates.parquet", result.rates)
        folder.write_frame("samples.parquet", result.samples)
    return result


def load_run(path: Path | str) -> SampleRun:
    """What a run has left in its folder so far; it need not be finished."""
    folder = Path(path).expanduser()
    stored = read_settings(folder)
    names = {field.name for field in fields(SampleSettings)}
    if missing := names - stored.keys():
        raise InputError(f"{str(folder / 'settings.json')!r} lacks {sorted(missing)[0]!r}: it is not of an `unmask sample` run")
    settings = SampleSettings(**{name: _tuples(value) for name, value in stored.items() if name in names})
    snapshots = [read_checkpoint(file) for file in sorted((folder / "checkpoints").glob("*.npz"))]
    samples = read_parts(folder)
    if samples.empty:
        raise InputError(f"folder {str(folder)!r} holds no sample yet: let the run go on past its burn-in")
    run = assemble(settings, samples, snapshots, None)
    return replace(run, starts=read_starts(folder, run.starts))


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


def _advance(
    runs: Sequence[GroupRun], number: int, folder: RunFolder | None, model: MaskedLM, report: Report | None
) -> list[dict[str, Any]]:
    """All sweeps of one group. With a folder, rows go there; an interrupt leaves a checkpoint of the last whole sweep."""
    run = runs[number]
    settings, saved = run.settings, folder.checkpoint(number) if folder else None
    if saved is None:
        run.begin()
    else:
        run.restore(saved)
    rows: list[dict[str, Any]] = []
    snapshot, last = None, time.monotonic()
    try:
        while run.done < settings.sweeps:
            run.sweep()
            fresh = _rows(run, model) if settings.keeps(run.done) else []
            rows, snapshot = [*rows, *fresh], run.snapshot()
            if report:
                report(number * settings.sweeps + run.done, len(runs) * settings.sweeps)
            if folder and (time.monotonic() - last > SECONDS_BETWEEN_CHECKPOINTS or run.done == settings.sweeps):
                folder.store(number, rows, snapshot)
                rows, last = [], time.monotonic()
    except KeyboardInterrupt:
        if folder and snapshot is not None:
            folder.store(number, rows, snapshot)
        raise
    return rows


def _rows(run: GroupRun, model: MaskedLM) -> list[dict[str, Any]]:
    """The chains' samples now."""
    columns = (run.group.chains, run.texts().tolist(), run.energies().tolist(), run.log_probs(), run.spent.tolist())
    return [
        {
            "chain": chain,
            "sweep": run.done,
            "text": model.text(ids),
            "energy": energy,
            "log_prob": log_prob,
            "passes": passes,
            "length": run.group.target.sites,
            "ids": ids,
        }
        for chain, ids, energy, log_prob, passes in zip(*columns, strict=True)
    ]


def assemble(
    settings: SampleSettings,
    samples: pandas.DataFrame | list[dict[str, Any]],
    snapshots: Sequence[Snapshot],
    model: MaskedLM | None,
) -> SampleRun:
    """Frames of a run from its rows and the snapshots of its groups."""
    import pandas

    frame = samples if isinstance(samples, pandas.DataFrame) else frame_of(samples)
    frame = frame.sort_values(["chain", "sweep"], kind="stable").reset_index(drop=True)
    starts, rates = [], []
    for saved in snapshots:
        for chain, ids in zip(saved["chains"].tolist(), saved["starts"].tolist(), strict=True):
            starts.append({"chain": chain, "ids": ids, **({"text": model.text(ids)} if model else {})})
        for site, position in enumerate(saved["positions"].tolist()):
            counted = {name: int(saved["counts"][row, site]) for row, name in enumerate(COUNTS)}
            apart = {"scoring_passes": 0 if site else int(saved["scoring_passes"])}
            rates.append({"length": len(saved["positions"]), "position": position, **counted, **apart})
    summed = pandas.DataFrame(rates).groupby(["length", "position"], as_index=False).sum()
    swaps: tuple[float, ...] = ()
    if settings.kernel == "tempering" and snapshots:
        tried, accepted = np.sum([saved["swaps"] for saved in snapshots], axis=0)
        swaps = tuple((accepted / tried.clip(min=1)).tolist())
    return SampleRun(settings, frame, pandas.DataFrame(starts).sort_values("chain").reset_index(drop=True), summed, swaps)
