"""The model's interactions of pairs of residues against measured ones, and contacts of a structure against both.

`interactions` fits J_st to the measured values, behind a monotone curve, and to each score of the model, which has none; the
penalty is the same. Two comparisons, both by Spearman's correlation with 95 % bootstrap intervals over pairs of sites:

    signed     J_st(a, b) of pairs of letters, neither of them the parent's, in LEAST variants or more
    strength   the root mean square of J_st over the variants, one number per pair of sites

`reliability` is the strength of two halves of the variants against each other: no score can be expected to agree with the
measured interactions much better than these do with themselves. Contacts: the area under the curve with which the strength ranks
pairs in contact above others. Residues are in contact if their C-beta atoms (C-alpha of glycine) are closer than 8 angstroms in a
PDB file, whose chain is aligned to the sequence, with free ends, and has the same residue at nine of ten places or more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from unmask.errors import InputError
from unmask.runs.files import user_path
from unmask.runs.lines import numbered_lines
from unmask.variants.interactions import Design, by_order, choose_penalty, curve, strength
from unmask.variants.statistics import Target, agreement, as_they_are, resampled, with_interval

if TYPE_CHECKING:
    import pandas

    from unmask.figures import Figure

LEAST = 5
RESAMPLES = 1000
MEASURED = "measured"
FEWEST_PAIRS = 3
NEAR = 8.0
LEAST_IDENTITY = 0.9
MATCH, MISMATCH, GAP = 2, -2, -3
LETTERS = dict(
    zip(
        "ALA CYS ASP GLU PHE GLY HIS ILE LYS LEU MET ASN PRO GLN ARG SER THR VAL TRP TYR MSE".split(),
        "ACDEFGHIKLMNPQRSTVWYM",
        strict=True,
    )
)
Numbers = dict[str, Any]


@dataclass(frozen=True)
class Epistasis:
    """Interactions of pairs of residues, measured and of every score.

    sites         the residues that vary, such as S31
    additive      share of the measured variance that an additive fit explains; `monotone`: one behind a curve
    pairs         share of what is left that interactions of pairs explain, in variants that were not fitted
    penalty       of the interactions
    reliability   Spearman's correlation of the measured strengths of two halves of the variants
    rows          one per score: signed and strength with their intervals, and how many letters and pairs they compare
    contacts      one for the measured strengths and one per score: area under the curve, interval, contacts and pairs
    table         one row per pair of sites: its strength, measured and by score, its distance in the structure
    letters       one row per pair of letters: J, measured and by score
    orders        of a complete landscape of two letters per site, the share of variance by order of interaction: of the measured
                  values, of the fitted curve, of what it leaves, and of every score
    """

    sites: tuple[str, ...]
    additive: float
    monotone: float
    pairs: float
    penalty: float
    reliability: float
    rows: list[Numbers]
    contacts: list[Numbers]
    table: list[Numbers] = field(repr=False)
    letters: list[Numbers] = field(repr=False)
    orders: Mapping[str, list[float]] = field(repr=False)

    def to_frame(self) -> pandas.DataFrame:
        """One row per pair of sites."""
        import pandas

        return pandas.DataFrame(self.table)

    def to_dict(self) -> Numbers:
        """`interactions` in the JSON of `unmask mutants --measured --epistasis --json`."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items() if name != "letters"
        }

    def figure(self) -> Figure:
        """Strengths of pairs of sites: measured in the first panel, the scores that agree best in the others."""
        from unmask.variants.plots import epistasis_figure

        return epistasis_figure(self)

    @property
    def sentence(self) -> str:
        """Whether the model's interactions are those measured."""
        said = (
            f"Interactions: an additive fit explains {self.additive:.0%} of the measured variance, {self.monotone:.0%} behind a "
            f"monotone curve; pairs explain {max(0.0, self.pairs):.0%} of what is left"
        )
        best = max(self.rows, key=lambda row: row["strength"], default=None)
        if best is None:
            return f"{said}; no score of the model has interactions."
        several = len(self.rows) > 1
        agree = f"Of {len(self.rows)} scores, {best['score']} agrees best" if several else f"{best['score']} is compared"
        alone = ", of that score alone, not corrected for the choice" if several else ""
        return (
            f"{said}. {agree} with the measured strengths (rho {best['strength']:.2f} over {best['pairs']} pairs, 95 % interval "
            f"{best['strength_low']:.2f} to {best['strength_high']:.2f}{alone}; two halves of the measured variants: "
            f"{self.reliability:.2f})."
        )


def interactions(
    cells: Int[np.ndarray, "n k"],
    wild: Int[np.ndarray, " k"],
    values: Float[np.ndarray, " n"],
    scores: Mapping[str, Float[np.ndarray, " n"]],
    sites: Sequence[str],
    tokens: Sequence[str],
    apart: Float[np.ndarray, "k k"] | None = None,
    seed: int = 0,
    monotone: bool = True,
) -> Epistasis:
    """The interactions of measured values and of scores, compared; `apart`: distances of the sites in a structure."""
    refuse_few(cells.shape[1])
    straight = curve(cells, values, monotone=False)
    bent = curve(cells, values) if monotone else straight
    left = values - bent.fitted
    penalty, explained = choose_penalty(cells, left, bent.slope, seed)
    design = Design(cells)
    counts = design.counts()
    found = {MEASURED: design.tables(design.solve(left, bent.slope, penalty))}
    for name, column in scores.items():
        plain = curve(cells, column, monotone=False)
        if plain.explained < 1 - 1e-9:
            found[name] = design.tables(design.solve(column - plain.fitted, np.ones(len(column)), penalty))
    strengths = {name: np.array([strength(t, c) for t, c in zip(tables, counts, strict=True)]) for name, tables in found.items()}
    half = np.random.default_rng(seed).integers(0, 2, len(cells)) > 0
    halves = [design.tables(design.solve(left, bent.slope, penalty, part)) for part in (half, ~half)]
    twice = [np.array([strength(t, c) for t, c in zip(tables, counts, strict=True)]) for tables in halves]
    with np.errstate(all="ignore"):
        agreed, _ = agreement([twice[0]], _numbers(twice[1]), 1, as_they_are(len(twice[0])))
    letters, of_pair = _letters(design, counts, found, wild, sites, tokens)
    by_letter = {name: np.array([row[name] for row in letters]) for name in found}
    rows = [
        {
            "score": name,
            **_compared(strengths[name], strengths[MEASURED], None, "strength", seed),
            **_compared(by_letter[name], by_letter[MEASURED], of_pair, "signed", seed),
            "letters": len(letters),
            "pairs": len(design.pairs),
        }
        for name in found
        if name != MEASURED
    ]
    near = np.full(len(design.pairs), np.nan) if apart is None else np.array([apart[s, t] for s, t in design.pairs])
    table = [
        {
            "first": sites[s],
            "second": sites[t],
            **{name: float(values[n]) for name, values in strengths.items()},
            "distance": float(near[n]),
        }
        for n, (s, t) in enumerate(design.pairs)
    ]
    shares = by_order(cells, wild, [values, bent.fitted, left, *scores.values()])
    named = ["measured values", "fitted curve", "what it leaves", *scores]
    return Epistasis(
        sites=tuple(sites),
        additive=straight.explained,
        monotone=bent.explained,
        pairs=explained,
        penalty=penalty,
        reliability=float(agreed[0, 0]),
        rows=sorted(rows, key=lambda row: -row["strength"]),
        contacts=[] if apart is None else _contacts(strengths, near, seed),
        table=table,
        letters=letters,
        orders={} if shares is None else dict(zip(named, shares.tolist(), strict=True)),
    )


def refuse_few(sites: int) -> None:
    """Pairs of two residues are one, which cannot be compared."""
    if sites < FEWEST_PAIRS:
        raise InputError(f"epistasis was asked for, and {sites} residues vary: give variants of {FEWEST_PAIRS} residues or more")


def _letters(
    design: Design,
    counts: Sequence[np.ndarray],
    found: Mapping[str, Sequence[np.ndarray]],
    wild: np.ndarray,
    sites: Sequence[str],
    tokens: Sequence[str],
) -> tuple[list[Numbers], Int[np.ndarray, " m"]]:
    """J of pairs of letters that are not the parent's, and the number of the pair of sites of each."""
    rows, of_pair = [], []
    for n, (s, t) in enumerate(design.pairs):
        for i, a in enumerate(design.letters[s]):
            for j, b in enumerate(design.letters[t]):
                if a != wild[s] and b != wild[t] and counts[n][i, j] >= LEAST:
                    numbers = {name: float(tables[n][i, j]) for name, tables in found.items()}
                    changes = f"{sites[s]}{tokens[a]}", f"{sites[t]}{tokens[b]}"
                    rows.append({"first": changes[0], "second": changes[1], "variants": int(counts[n][i, j]), **numbers})
                    of_pair.append(n)
    return rows, np.array(of_pair, dtype=int)


def _compared(mine: np.ndarray, measured: np.ndarray, of_pair: np.ndarray | None, name: str, seed: int) -> Numbers:
    """Spearman's correlation and its interval over pairs of sites; NaN if there are too few, or nothing varies."""
    values = (np.nan,) * 3
    pairs = np.arange(len(mine)) if of_pair is None else of_pair
    known, unit = np.unique(pairs, return_inverse=True)
    if len(known) >= FEWEST_PAIRS and np.ptp(mine) > 0 and np.ptp(measured) > 0:
        drawn = (some[:, unit] for some in resampled(len(known), seed, RESAMPLES))
        with np.errstate(all="ignore"):
            values = with_interval(mine, _numbers(measured), drawn)
    return dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))


def _numbers(values: np.ndarray) -> Target:
    """For Spearman's correlation, also of two distinct values."""
    return Target(values, np.ones(len(values), dtype=bool), False)


def _contacts(strengths: Mapping[str, np.ndarray], near: np.ndarray, seed: int) -> list[Numbers]:
    """How well each strength ranks pairs in contact above the others."""
    known = ~np.isnan(near)
    touching = near[known] < NEAR
    rows = []
    for name, values in strengths.items():
        area = low = high = np.nan
        if touching.any() and not touching.all():
            target = Target(touching.astype(float), touching, True)
            with np.errstate(all="ignore"):
                area, low, high = with_interval(values[known], target, resampled(len(touching), seed, RESAMPLES))
        top = np.argsort(-values[known], kind="stable")[: int(touching.sum())]
        rows.append(
            {
                "score": name,
                "area": area,
                "low": low,
                "high": high,
                "contacts": int(touching.sum()),
                "among_top": int(touching[top].sum()),
                "pairs": int(known.sum()),
            }
        )
    return rows


def read_chain(given: str | Path, chain: str | None) -> tuple[str, Float[np.ndarray, "r 3"]]:
    """The residues of a chain, and where each is; without a name, of the only chain."""
    path = user_path(given, "pdb")
    atoms: dict[str, dict[str, tuple[str, dict[str, list[float]]]]] = {}
    for number, line in numbered_lines(path):
        if line.startswith("ENDMDL"):
            break
        if line[:6] not in ("ATOM  ", "HETATM") or line[12:16].strip() not in ("CA", "CB") or line[17:20] not in LETTERS:
            continue
        try:
            where = [float(line[i : i + 8]) for i in (30, 38, 46)]
        except ValueError:
            raise InputError(f"pdb {str(path)!r} line {number} has no coordinates in columns 31 to 54: give a PDB file") from None
        residue = atoms.setdefault(line[21], {}).setdefault(line[22:27], (LETTERS[line[17:20]], {}))
        residue[1].setdefault(line[12:16].strip(), where)
    if not atoms:
        raise InputError(f"pdb {str(path)!r} has no ATOM lines of residues: give a file in the PDB format, not mmCIF")
    chains = ", ".join(sorted(atoms))
    if chain is None and len(atoms) > 1:
        raise InputError(f"pdb {str(path)!r} has the chains {chains}: choose one with --chain")
    name = next(iter(atoms)) if chain is None else chain
    if name not in atoms:
        raise InputError(f"pdb {str(path)!r} has no chain {name!r}: choose one of {chains}")
    found = list(atoms[name].values())
    where_all = [placed.get("CB", placed.get("CA", [np.nan] * 3)) for _, placed in found]
    return "".join(letter for letter, _ in found), np.array(where_all)


def distances(pdb: str | Path, chain: str | None, sequence: Sequence[str], places: Sequence[int]) -> Float[np.ndarray, "k k"]:
    """Distances in angstroms of the residues at `places`, counted from 1; NaN of those that the structure lacks."""
    residues, where = read_chain(pdb, chain)
    at = aligned("".join(sequence), residues)
    same = sum(residues[j] == sequence[i] for i, j in at.items())
    if len(at) < min(len(sequence), len(residues)) / 2 or same < LEAST_IDENTITY * len(at):
        raise InputError(
            f"pdb {str(pdb)!r} does not match the sequence ({same} of {len(at)} aligned residues are the same; it has "
            f"{len(sequence)}): name the chain of this sequence"
        )
    placed = np.array([where[at[place - 1]] if place - 1 in at else [np.nan] * 3 for place in places])
    apart: np.ndarray = np.linalg.norm(placed[:, None] - placed[None, :], axis=2)
    return apart


def aligned(first: str, second: str) -> dict[int, int]:
    """The best alignment of two sequences, gaps at the ends free: places of the first, and those of the second beside them."""
    score, came = ([[0] * (len(second) + 1) for _ in range(len(first) + 1)] for _ in range(2))
    for i, a in enumerate(first, 1):
        for j, b in enumerate(second, 1):
            ways = (score[i - 1][j - 1] + (MATCH if a == b else MISMATCH), score[i - 1][j] + GAP, score[i][j - 1] + GAP)
            score[i][j] = max(ways)
            came[i][j] = ways.index(score[i][j])
    last_row = max(range(len(second) + 1), key=lambda j: score[-1][j])
    last_column = max(range(len(first) + 1), key=lambda i: score[i][-1])
    i, j = (len(first), last_row) if score[-1][last_row] >= score[last_column][-1] else (last_column, len(second))
    found = {}
    while i and j:
        way = came[i][j]
        if way == 0:
            found[i - 1] = j - 1
        i, j = i - (way != 2), j - (way != 1)
    return found
