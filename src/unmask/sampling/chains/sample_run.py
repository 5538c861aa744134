"""The result of `unmask.sample`, and how it is put together from samples and snapshots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.common.errors import InputError
from unmask.common.results import Result
from unmask.sampling.chains.snapshot import COUNTS, Snapshot
from unmask.sampling.settings import SampleSettings

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from unmask.sampling.chains.diagnosis import Diagnosis

TEXTS_SHOWN = 10  # Last texts in a notebook


@dataclass(frozen=True, repr=False, eq=False)
class SampleRun(Result):
    """The result of `unmask.sample`.

    settings     what decided the samples: kernel, energy, temperature, seed, ...
    samples      one row per kept text: chain, sweep, text, energy, passes, length, ids
    starts       one row per chain: the text it started from (`ids`, and `text` where known)
    rates        one row per length and position: steps, accepted, proposed, changed
    folder       where the run is kept, if it is

    >>> run = unmask.sample("A [MASK] sat on the [MASK].", chains=2, sweeps=3, seed=0)
    >>> run.settings.kernel.name, len(run.starts)
    ('mh', 2)
    """

    settings: SampleSettings
    samples: pandas.DataFrame
    starts: pandas.DataFrame
    rates: pandas.DataFrame
    folder: Path | None = None

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """How far to trust the samples; measured when first asked for, and written nowhere."""
        from unmask.sampling.chains.diagnosis import measure_run

        return measure_run(self)

    @property
    def last(self) -> pandas.DataFrame:
        """The last sample of each chain."""
        return self.samples.drop_duplicates("chain", keep="last")

    def to_frame(self) -> pandas.DataFrame:
        """The samples."""
        return self.samples

    def to_dict(self) -> dict[str, Any]:
        """The object that `unmask sample --json` prints: the settings, the last sample of each
        chain, and the diagnosis.
        """
        last = self.last[["chain", "sweep", "text", "energy", "passes"]]
        return {
            "settings": self.settings.to_dict(),
            "samples": last.to_dict("records"),
            "diagnosis": self.diagnosis.to_dict(),
        }

    @property
    def headline(self) -> str:
        """Kernel, energy, and how many samples and chains there are."""
        chains = self.samples["chain"].nunique()
        return (
            f"{self.settings.kernel.label}, {self.settings.energy.name} energy,"
            f" {len(self.samples):,} samples of {chains:,} chains"
        )

    def __repr__(self) -> str:
        return f"SampleRun({self.headline})"

    def _repr_html_(self) -> str:
        items = [f"<li>{escape(sentence)}</li>" for sentence in self.diagnosis.verdict]
        last = self.last[["chain", "text", "energy"]].tail(TEXTS_SHOWN)
        texts = last.to_html(index=False, float_format="{:.2f}".format, escape=True)
        return f"<p>{escape(self.headline)}</p><ul>{''.join(items)}</ul>{texts}"


def assemble(
    settings: SampleSettings,
    table: pyarrow.Table,
    snapshots: Sequence[Snapshot],
    text: Callable[[Sequence[int]], str] | None = None,
    folder: Path | None = None,
) -> SampleRun:
    """A run from its samples and the latest snapshot of each group.

    text     spells token ids, where the model is at hand
    folder   where the run is kept, if it is
    """
    expected = 0
    for snapshot in snapshots:
        kept_of_each_chain = settings.kept_after(int(snapshot["done"]))
        expected += len(snapshot["chains"]) * kept_of_each_chain
    missing = expected - table.num_rows
    if missing > 0:
        raise InputError(
            f"{missing:,} of the {expected:,} samples are gone from {str(folder)!r}:"
            " delete its checkpoints and give the command of the run again; they are drawn again,"
            " and are the same"
        )
    without_law = table.drop_columns(["log_prob"])  # texts of chains have none
    samples = without_law.to_pandas().sort_values(["chain", "sweep"], kind="stable")
    return SampleRun(
        settings=settings,
        samples=samples.reset_index(drop=True),
        starts=_starts_of(snapshots, text),
        rates=_rates_of(snapshots),
        folder=folder,
    )


def _starts_of(
    snapshots: Sequence[Snapshot], text: Callable[[Sequence[int]], str] | None
) -> pandas.DataFrame:
    """The text that each chain started from, in the order of the chains."""
    import pandas

    rows = []
    for snapshot in snapshots:
        starts = zip(snapshot["chains"].tolist(), snapshot["starts"].tolist(), strict=True)
        for chain, ids in starts:
            row = {"chain": chain, "ids": ids}
            if text is not None:
                row["text"] = text(ids)
            rows.append(row)
    return pandas.DataFrame(rows).sort_values("chain").reset_index(drop=True)


def _rates_of(snapshots: Sequence[Snapshot]) -> pandas.DataFrame:
    """COUNTS and scoring passes at each position, summed over the groups of one length."""
    import pandas

    rows = []
    for snapshot in snapshots:
        positions = snapshot["positions"].tolist()
        for site, position in enumerate(positions):
            row = {"length": len(positions), "position": position}
            for number, name in enumerate(COUNTS):
                row[name] = int(snapshot["counts"][number, site])
            # Scoring passes belong to no site: all are counted at the first, for the sum.
            row["scoring_passes"] = int(snapshot["scoring_passes"]) if site == 0 else 0
            rows.append(row)
    return pandas.DataFrame(rows).groupby(["length", "position"], as_index=False).sum()
