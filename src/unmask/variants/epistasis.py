"""The model's interactions of pairs of residues against measured ones, and contacts of a structure against both.

`interactions` fits J_st to the measured values, behind a monotone curve, and to each score of the model, which has none; the
penalty is the same. Two comparisons, both by Spearman's correlation with 95 % bootstrap intervals over pairs of sites:

    signed     J_st(a, b) of pairs of letters, neither of them the parent's, in LEAST variants or more
    strength   the root mean square of J_st over the variants, one number per pair of sites

`reliability` is the strength of two halves of the variants against each other: no score can be expected to agree with the
measured interactions much better than these do with themselves. Contacts: the area under the curve with which the strength ranks
pairs in contact above others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from unmask.errors import InputError
from unmask.variants.contacts import NEAR
from unmask.variants.interactions import Design, by_order, choose_penalty, curve, strength
from unmask.variants.statistics import Target, agreement, as_they_are, interval, resampled

if TYPE_CHECKING:
    import pandas

    from unmask.figures import Figure

LEAST = 5
RESAMPLES = 1000
MEASURED = "measured"
FEWEST_PAIRS = 3
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
        """Strengths of pairs of sites: measured below the diagonal of each panel, a score above it."""
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
        reliability=_spearman(twice[0], twice[1]),
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
    values = [np.nan] * 3
    pairs = np.arange(len(mine)) if of_pair is None else of_pair
    known, unit = np.unique(pairs, return_inverse=True)
    if len(known) >= FEWEST_PAIRS and np.ptp(mine) > 0 and np.ptp(measured) > 0:
        target = Target(measured, np.ones(len(measured), dtype=bool), False)
        drawn: Iterator[np.ndarray] = (some[:, unit] for some in resampled(len(known), seed, RESAMPLES))
        with np.errstate(all="ignore"):
            low, high = interval(agreement([mine], target, 1, drawn)[0])
        values = [_spearman(mine, measured), float(low[0]), float(high[0])]
    return dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))


def _spearman(one: np.ndarray, other: np.ndarray) -> float:
    target = Target(other, np.ones(len(other), dtype=bool), False)
    with np.errstate(all="ignore"):
        return float(agreement([one], target, 1, as_they_are(len(one)))[0][0, 0])


def _contacts(strengths: Mapping[str, np.ndarray], near: np.ndarray, seed: int) -> list[Numbers]:
    """How well each strength ranks pairs in contact above the others."""
    known = ~np.isnan(near)
    touching = near[known] < NEAR
    rows = []
    for name, values in strengths.items():
        area = low = high = np.nan
        if touching.any() and not touching.all():
            target = Target(touching.astype(float), touching, True)
            area = float(agreement([values[known]], target, 1, as_they_are(int(known.sum())))[0][0, 0])
            with np.errstate(all="ignore"):
                ends = interval(agreement([values[known]], target, 1, resampled(int(known.sum()), seed, RESAMPLES))[0])
            low, high = float(ends[0, 0]), float(ends[1, 0])
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
