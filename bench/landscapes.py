"""Two measured landscapes of antibodies against every score of their variants.

    python bench/landscapes.py DATA --model AntiBERTy_md_smooth --out build/landscapes [--device cuda] [--variants 300]

DATA has cr9114.json, cr9114_h3.csv.gz, trastuzumab.json and trastuzumab_cdrh3.csv.gz: the parents, the positions that vary
(counted from 1), and the measured values. CR9114's genotypes are digits, 1 for the mature residue; here they become residues.

Leaves in --out, for each landscape, the list that `unmask mutants --measured` reads (NAME.csv), the result (NAME.json), its
figure (NAME.png) and every variant's scores (NAME-scores.csv.gz); prints the command that does the same, and the tables. Scores
are kept in NAME-effects.npz, which a second call reads: delete it if --model, --scores, --orders or --variants change. CR9114 is
scored from the germline and from the mature sequence, and compared once more among the binders, above the assay's floor.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas

import unmask
from unmask.options.answers import MutantsOptions
from unmask.runs.files import as_json
from unmask.variants.against import Question, Source, effects_of
from unmask.variants.epistasis import interactions
from unmask.variants.measured import Measured, compared
from unmask.variants.parent import residue_ids

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
SCORES = "singles,product,pll,left_to_right,any_order,epistasis,pairs:balanced,pairs:mrf,pairs:hcb,pairs:chain"
FLOOR = 6.0
"""Of CR9114's assay: -log10 of the dissociation constant."""
FEWEST = 20
"""Variants of a subset that is worth a table."""
REGIONS = {"H1": "29-31", "H2": "52-59", "framework 3": "71-95", "H3": "106"}


@dataclass(frozen=True)
class Landscape:
    """A parent, the residues that vary, and a table with the column of the variants and that of the values."""

    name: str
    sequence: str
    positions: list[int]
    rows: pandas.DataFrame
    column: str
    regions: dict[str, str] | None = None
    above: float | None = None


def landscapes(data: Path, most: int | None) -> Iterator[Landscape]:
    """The parents and the lists; `most` variants of each, drawn at random."""

    def some(rows: pandas.DataFrame) -> pandas.DataFrame:
        return rows if most is None or most >= len(rows) else rows.sample(most, random_state=0)

    about = json.loads((data / "trastuzumab.json").read_text())
    rows = pandas.read_csv(data / "trastuzumab_cdrh3.csv.gz")
    yield Landscape("trastuzumab", about["parent"], about["positions"], some(rows), "binds")
    about = json.loads((data / "cr9114.json").read_text())
    read = pandas.read_csv(data / "cr9114_h3.csv.gz", dtype={"genotype": str})
    letters = list(zip(about["germline_residues"], about["mature_residues"], strict=True))
    spelled = ["".join(pair[int(d)] for pair, d in zip(letters, genotype, strict=True)) for genotype in read["genotype"]]
    rows = some(pandas.DataFrame({"residues": spelled, "h3_mean": read["h3_mean"]}))
    for parent in ("germline", "mature"):
        yield Landscape(f"cr9114-{parent}", about[parent], about["positions"], rows, "h3_mean", REGIONS, FLOOR)


def measure(
    landscape: Landscape, model: unmask.MaskedLM, out: Path, scores: str, orders: int, scores_only: bool, pairs: str | None
) -> Iterator[tuple[str, Measured]]:
    """The result over all variants, and over those above the floor."""
    path = out / f"{landscape.name}.csv"
    landscape.rows.to_csv(path, index=False)
    positions = ",".join(map(str, landscape.positions))
    regions = "".join(f" --regions '{name}={places}'" for name, places in (landscape.regions or {}).items())
    print(
        f"\nunmask mutants {landscape.sequence} --measured {path} --column {landscape.column} --positions {positions}{regions} "
        f"--alphabet {RESIDUES} --scores {scores} --orders {orders} --model MODEL --force\n"
    )
    given: dict[str, Any] = {"measured": path, "column": landscape.column, "positions": positions, "regions": landscape.regions}
    options = MutantsOptions.given(given, scores=scores, orders=orders, force=True)
    asked = Question(model, landscape.sequence, residue_ids(model, RESIDUES), options)
    begun = time.perf_counter()
    kept_at = out / f"{landscape.name}-effects.npz"
    if kept_at.exists():
        effects = dict(np.load(kept_at))
    else:
        effects = effects_of(Source(asked.parent, None, "sequence"), asked.variants, options, None)
        np.savez_compressed(kept_at, **effects)
        print(f"scores {time.perf_counter() - begun:.1f} s", flush=True)
    if scores_only:
        return
    kept = {"": np.ones(len(asked.variants.values), dtype=bool)}
    if landscape.above is not None:
        kept["-binders"] = asked.variants.values > landscape.above
    kept = {suffix: chosen for suffix, chosen in kept.items() if chosen.sum() >= FEWEST}
    for suffix, chosen in kept.items():
        variants = replace(asked.variants, cells=asked.variants.cells[chosen], values=asked.variants.values[chosen])
        inside = {name: values[chosen] for name, values in effects.items()}
        common = (asked.regions, options.joint, options.better, options.top, options.seed)
        found = compared(landscape.sequence, variants.names(asked.parent), variants, inside, None, *common)
        if pairs is not None and not suffix:
            sites = [f"{asked.parent.residues[place - 1]}{place}" for place in variants.places]
            some = {name: effects[name] for name in pairs.split(",")}
            between = interactions(variants.cells, variants.wild, variants.values, some, sites, asked.parent.tokens)
            found = replace(found, interactions=between)
        yield f"{landscape.name}{suffix}", found


def main() -> None:
    """Prepare, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--variants", type=int, help="at most this many of each landscape, drawn at random")
    parser.add_argument("--scores", default=SCORES)
    parser.add_argument("--orders", type=int, default=8)
    parser.add_argument("--scores-only", action="store_true", help="leave the statistics to a second call, which needs no GPU")
    parser.add_argument("--epistasis", help="scores whose interactions of pairs are compared with the measured ones, too")
    parser.add_argument("--only", help="landscapes whose names begin with this")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    model = unmask.MaskedLM.load(given.model, device=given.device, dtype=given.dtype)
    for landscape in landscapes(given.data, given.variants):
        if given.only and not landscape.name.startswith(given.only):
            continue
        for name, found in measure(landscape, model, given.out, given.scores, given.orders, given.scores_only, given.epistasis):
            (given.out / f"{name}.json").write_text(as_json(found.to_dict()) + "\n")
            found.to_frame().to_csv(given.out / f"{name}-scores.csv.gz", index=False)
            found.figure().savefig(given.out / f"{name}.png", dpi=150)
            columns = [c for c in ("score", "value", "low", "high", "within", "enrichment", "best_in") if c in found.rows[0]]
            print(f"{name}: {len(found):,} variants, {found.statistic}")
            print(found.table()[columns].round(3).to_string(index=False))
            for fit in found.fits:
                print(f"additive fit to {fit['measured']}: {fit['value']:.3f} [{fit['low']:.3f}, {fit['high']:.3f}]")
            print(pandas.DataFrame(found.groups).round(3).to_string(index=False))
            print("\n".join([*found.notes, found.sentence]), flush=True)
            if found.interactions is not None:
                found.interactions.figure().savefig(given.out / f"{name}-pairs.png", dpi=150)
                print(pandas.DataFrame(found.interactions.rows).round(3).to_string(index=False))
                print(found.interactions.sentence, flush=True)


if __name__ == "__main__":
    main()
