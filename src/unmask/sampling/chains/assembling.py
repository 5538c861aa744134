"""A run of chains, put together from its samples and the snapshots of its groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from unmask.common.errors import InputError
from unmask.sampling.chains.chain_samples import ChainSamples, Row
from unmask.sampling.chains.samples import Samples
from unmask.sampling.chains.snapshot import COUNTS, Snapshot
from unmask.sampling.settings import SampleSettings


def assemble(
    settings: SampleSettings,
    samples: Samples,
    snapshots: Sequence[Snapshot],
    text: Callable[[Sequence[int]], str] | None = None,
    folder: Path | None = None,
) -> ChainSamples:
    """A run from its samples and the latest snapshot of each group.

    text     spells token ids, where the model is at hand
    folder   where the run is kept, if it is
    """
    expected = 0
    for snapshot in snapshots:
        kept_of_each_chain = settings.kept_after(int(snapshot["done"]))
        expected += len(snapshot["chains"]) * kept_of_each_chain
    missing = expected - len(samples)
    if missing > 0:
        raise InputError(
            f"{missing:,} of the {expected:,} samples are gone from {str(folder)!r}:"
            " delete its checkpoints and give the command of the run again; they are drawn again,"
            " and are the same"
        )
    return ChainSamples(
        settings=settings,
        samples=samples,
        starts=_starts_of(snapshots, text),
        rates=_rates_of(snapshots),
        folder=folder,
    )


def _starts_of(
    snapshots: Sequence[Snapshot], text: Callable[[Sequence[int]], str] | None
) -> list[Row]:
    """The text that each chain started from, in the order of the chains."""
    rows = []
    for snapshot in snapshots:
        starts = zip(snapshot["chains"].tolist(), snapshot["starts"].tolist(), strict=True)
        for chain, ids in starts:
            row = {"chain": chain, "ids": ids}
            if text is not None:
                row["text"] = text(ids)
            rows.append(row)
    return sorted(rows, key=lambda row: row["chain"])


def _rates_of(snapshots: Sequence[Snapshot]) -> list[Row]:
    """COUNTS and scoring passes at each position, summed over the groups of one length."""
    rows: dict[tuple[int, int], Row] = {}
    for snapshot in snapshots:
        positions = snapshot["positions"].tolist()
        length = len(positions)
        for site, position in enumerate(positions):
            none = {"length": length, "position": position, **dict.fromkeys(COUNTS, 0)}
            row = rows.setdefault((length, position), {**none, "scoring_passes": 0})
            for number, name in enumerate(COUNTS):
                row[name] += int(snapshot["counts"][number, site])
            if site == 0:  # they belong to no site: all are counted at the first, for the sum
                row["scoring_passes"] += int(snapshot["scoring_passes"])
    return [row for _, row in sorted(rows.items())]
