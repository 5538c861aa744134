"""What a run leaves: its samples, where they started, what happened at each position; in memory, or read from its folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unmask.errors import InputError
from unmask.runs.files import user_path
from unmask.sampling.run.group_run import COUNTS, Snapshot
from unmask.sampling.run.run_folder import stored_samples, stored_settings, stored_snapshots, stored_starts
from unmask.sampling.settings import SampleSettings

if TYPE_CHECKING:
    import pandas

    from unmask.sampling.run.diagnostics import Diagnosis

SHOWN = 10


@dataclass(frozen=True, repr=False, eq=False)
class SampleRun:
    """What `unmask.sample` returns.

    samples      one row per kept text: chain, sweep, text, energy, log_prob, passes, length, ids
    starts       one row per chain: the text it started from (`ids`, and `text` where known), and `independent`: the ids of a
                 text whose tokens were drawn independently of each other
    rates        one row per length and position: steps, accepted, proposed, changed
    swaps        of parallel tempering: shares accepted between the neighbouring temperatures of the ladder
    remembered   passes that were answered from memory; those that `samples` and `rates` count include them. A run that was
                 stopped begins with an empty memory again, so this number, unlike all others, depends on where it was stopped
    folder       where the run is kept, if it is
    memory       what was kept of the conditionals while it ran

    >>> run = unmask.sample("A [MASK] sat on the [MASK].", chains=2, sweeps=3, seed=0)
    >>> run.settings.kernel, len(run.starts)
    ('mh', 2)
    """

    settings: SampleSettings
    samples: pandas.DataFrame
    starts: pandas.DataFrame
    rates: pandas.DataFrame
    swaps: tuple[float, ...] = ()
    remembered: int = 0
    folder: Path | None = None
    memory: str = ""

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """How far to trust the samples; measured when first asked for, and written nowhere."""
        from unmask.sampling.run.diagnostics import measure_run

        return measure_run(self)

    @property
    def last(self) -> pandas.DataFrame:
        """The last sample of each chain; of a decoder, whose samples are independent, all of them."""
        return self.samples if self.settings.entry.decodes else self.samples.drop_duplicates("chain", keep="last")

    def to_frame(self) -> pandas.DataFrame:
        """The samples."""
        return self.samples

    def to_dict(self) -> dict[str, Any]:
        """What `unmask sample --json` prints: the settings, the last sample of each chain, and the diagnosis."""
        columns = ["chain", "sweep", "text", "energy", "log_prob", "passes"]
        rows = self.last[columns].astype(object).where(self.last[columns].notna(), None)
        return {
            "settings": self.settings.to_dict(),
            "samples": rows.to_dict("records"),
            "diagnosis": self.diagnosis.to_dict(),
        }

    def __repr__(self) -> str:
        chains, entry = self.samples["chain"].nunique(), self.settings.entry
        return f"SampleRun({entry.label}, {self.settings.energy} energy, {len(self.samples):,} samples of {chains:,} chains)"

    def _repr_html_(self) -> str:
        said = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.diagnosis.verdict)
        texts = self.last[["chain", "text", "energy"]].tail(SHOWN).to_html(index=False, float_format="{:.2f}".format, escape=True)
        return f"<p>{escape(repr(self)[10:-1])}</p><ul>{said}</ul>{texts}"


def assemble(
    settings: SampleSettings,
    samples: pandas.DataFrame,
    snapshots: Sequence[Snapshot],
    text: Callable[[Sequence[int]], str] | None = None,
    folder: Path | None = None,
    memory: str = "",
) -> SampleRun:
    """A run from its samples and the snapshots of its groups; `text` spells token ids, where the model is at hand."""
    import pandas

    starts, rates = [], []
    for saved in snapshots:
        for chain, ids, apart in zip(
            saved["chains"].tolist(), saved["starts"].tolist(), saved["independent"].tolist(), strict=True
        ):
            starts.append({"chain": chain, "ids": ids, "independent": apart, **({"text": text(ids)} if text else {})})
        for site, position in enumerate(saved["positions"].tolist()):
            counted = {name: int(saved["counts"][row, site]) for row, name in enumerate(COUNTS)}
            apart = {"scoring_passes": 0 if site else int(saved["scoring_passes"])}
            rates.append({"length": len(saved["positions"]), "position": position, **counted, **apart})
    swaps: tuple[float, ...] = ()
    if "ladder" in settings.entry.options and snapshots:
        tried, accepted = np.sum([saved["swaps"] for saved in snapshots], axis=0)
        swaps = tuple((accepted / tried.clip(min=1)).tolist())
    return SampleRun(
        settings,
        samples,
        pandas.DataFrame(starts).sort_values("chain").reset_index(drop=True),
        pandas.DataFrame(rates).groupby(["length", "position"], as_index=False).sum(),
        swaps,
        sum(int(saved["remembered"]) for saved in snapshots),
        folder,
        memory,
    )


def load_run(path: str | os.PathLike[str]) -> SampleRun:
    """What a run has left in its folder so far; it need not be finished."""
    folder = user_path(path, "run")
    settings = stored_settings(folder)
    samples, snapshots = stored_samples(folder), stored_snapshots(folder)
    if samples.empty or not snapshots:
        raise InputError(f"folder {str(folder)!r} holds no sample yet: let the run go on past its burn-in")
    _refuse_missing_samples(folder, settings, samples, snapshots)
    run = assemble(settings, samples, snapshots, None, folder)
    return replace(run, starts=stored_starts(folder, run.starts))


def _refuse_missing_samples(
    folder: Path, settings: SampleSettings, samples: pandas.DataFrame, snapshots: Sequence[Snapshot]
) -> None:
    """A run knows how many samples of each chain there must be; a part that is newer than its checkpoint may hold more."""
    there = samples.groupby("chain").size()
    doubled = int(samples.duplicated(["chain", "sweep"]).sum())
    if doubled:
        raise InputError(f"{doubled:,} samples in {str(folder / 'parts')!r} are there twice: take the copied part away")
    for saved in snapshots:
        wanted = settings.kept_after(int(saved["done"]))
        for chain in saved["chains"].tolist():
            if int(there.get(chain, 0)) < wanted:
                raise InputError(
                    f"chain {chain} has {int(there.get(chain, 0)):,} of its {wanted:,} samples in {str(folder / 'parts')!r}: "
                    "a part is gone; give the command of the run again, which says how to draw it again"
                )
