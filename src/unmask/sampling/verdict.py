"""What the diagnostics mean, in plain sentences."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from unmask.sampling.settings import SampleSettings

if TYPE_CHECKING:
    from unmask.sampling.diagnostics import Diagnostics

MIXED = 1.01
NEARLY = 1.05
FEW_SWAPS = 0.1
ENOUGH = 400
"""R-hat below 1.01 and a bulk ESS above 400 are what Vehtari et al. (2021) ask before means are believed."""


def verdict(found: Diagnostics, settings: SampleSettings, measured: bool = True) -> list[str]:
    """One sentence for each thing that a reader should know, the most important first."""
    said = [_what_it_samples(settings)]
    if not settings.decodes:
        if settings.kernel == "annealing":
            said.append(f"The lowest energy of a sample is {found.lowest_energy:.2f}: {found.lowest_text}")
        else:
            said += (
                _mixing(found)
                if measured
                else ["R-hat and ESS were not computed: pip install arviz-stats, then unmask diagnose."]
            )
        if found.swaps and min(found.swaps) < FEW_SWAPS:
            rung = found.swaps.index(min(found.swaps))
            said.append(
                f"Only {found.swaps[rung]:.0%} of swaps between temperatures {settings.ladder[rung]:g} and "
                f"{settings.ladder[rung + 1]:g} were accepted: put temperatures closer together."
            )
        if settings.top_k is not None or settings.nucleus is not None:
            said.append("Proposals were cut to likely tokens: texts with any other token are out of reach (reducible chain).")
        if not isnan(found.novelty) and found.acceptance > 0.5 and found.novelty < 0.5 * found.acceptance:
            said.append(
                f"{found.acceptance:.0%} of steps were accepted, but only {found.novelty:.0%} of redrawn tokens changed: most "
                "accepted proposals redraw the token that is there."
            )
        if found.in_starts > 0.05:
            said.append(f"{found.in_starts:.0%} of the samples are texts that some chain started from: run longer, or burn in.")
    if found.self_bleu > 0.7 and found.chains > 1:
        said.append(f"The chains' last texts repeat each other (self-BLEU {found.self_bleu:.2f}).")
    if not isnan(found.stutter) and found.stutter > 0.05:
        said.append(f"{found.stutter:.1%} of neighbouring tokens are equal: the texts stutter.")
    return said


def _what_it_samples(settings: SampleSettings) -> str:
    if settings.kernel == "ancestral":
        return "Independent draws with exact log-probabilities, given each text's order; no chain, so nothing has to mix."
    if settings.decodes:
        return "Decoded texts, independent of each other; they are samples of no named distribution."
    if settings.kernel == "annealing":
        return "Annealing is optimisation: its texts have low energy, and are samples of no distribution."
    if settings.kernel == "gibbs":
        return (
            "Pseudo-Gibbs accepts everything: its law is not exp(-E) of either energy and depends on the order of updates. "
            "R-hat tells whether the chains agree with each other, not whether they agree with a target."
        )
    temperature = settings.ladder[0] if settings.kernel == "tempering" else settings.temperature
    return (
        f"The chain leaves exp(-E / T) invariant: E the {settings.energy} energy and what was added to it, T = {temperature:g}."
    )


def _mixing(found: Diagnostics) -> list[str]:
    if found.chains < 2 or found.draws < 4:
        return [
            f"{found.chains} chains of {found.draws} draws are too few to tell whether they mix: run 2 or more, of 4 or more."
        ]
    known = [f for f in found.functionals if not isnan(f.r_hat)]
    if not known:
        return ["No functional varies, so nothing can be said about mixing: the chains do not move."]
    worst = max(known, key=lambda f: f.r_hat)
    fewest = min(known, key=lambda f: f.ess_bulk)
    named = f"R-hat of the {_name(worst.name)} is {worst.r_hat:.3f}"
    if worst.r_hat > NEARLY:
        said = [
            f"The chains have NOT mixed: {named}, which should be below {MIXED}. Averages over these samples still depend on the "
            "starts, and effective sample sizes mean little yet: run longer, or use tempering or blocks."
        ]
    elif worst.r_hat > MIXED:
        said = [f"The chains have nearly mixed: {named}, which should be below {MIXED}. Run longer before trusting averages."]
    else:
        said = [f"No sign that the chains have not mixed: {named} or less."]
    if worst.r_hat <= NEARLY and fewest.ess_bulk < ENOUGH:
        said.append(
            f"{found.chains * found.draws:,} draws are worth {fewest.ess_bulk:.0f} independent ones for the "
            f"{_name(fewest.name)}; {ENOUGH} are wanted for a stable mean."
        )
    return said


def _name(functional: str) -> str:
    return {"energy": "energy", "unchanged": "number of unchanged tokens", "stutter": "number of equal neighbours"}[functional]
