"""The diagnosis in plain sentences.

Nothing here assumes a language. Repetition is held against a yardstick of the model's own: texts whose tokens are drawn
independently of each other from the model's conditionals with all sites masked. With 20 amino acids, neighbours are equal
now and then; with 8,000 words, they hardly ever are. Chains that have not left their start are known by their moves, since over a
small space a chain rightly comes back to its start again and again.
"""

from __future__ import annotations

from math import isnan, sqrt
from typing import TYPE_CHECKING

from unmask.sampling.settings import SampleSettings

if TYPE_CHECKING:
    from unmask.sampling.run.diagnostics import Diagnosis

MIXED = 1.01
NEARLY = 1.05
FEW_SWAPS = 0.1
ENOUGH = 400
"""R-hat below 1.01 and a bulk ESS above 400 are what Vehtari et al. (2021) ask before means are believed."""
MUCH_BLEU, LITTLE_BLEU = 0.7, 0.1
MUCH_STUTTER = 0.05
MANY_AT_START = 0.05
UNMEASURED = "R-hat and ESS were not computed: pip install arviz-stats, then unmask diagnose."
SENTENCES = {"energy": "energy", "unchanged": "number of unchanged tokens", "stutter": "number of equal neighbours"}


def verdict(found: Diagnosis, settings: SampleSettings, measured: bool = True) -> list[str]:
    """One sentence for each thing that a reader should know, the most important first; `measured`: R-hat and ESS were."""
    entry = settings.entry
    said = [entry.verdict.format(energy=settings.energy, temperature=settings.sampled_temperature)]
    if entry.mixes:
        said += _mixing(found) if measured else [UNMEASURED]
    elif not entry.decodes:
        said.append(f"The lowest energy of a sample is {found.lowest_energy:.2f}: {found.lowest_text}")
    if not entry.decodes:
        said += _moves(found, settings)
    return [*said, *_repetition(found)]


def _moves(found: Diagnosis, settings: SampleSettings) -> list[str]:
    said = []
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
            "accepted proposals redraw the current token."
        )
    if found.at_start > MANY_AT_START:
        said.append(
            f"{found.at_start:.0%} of the samples were taken before their chain had left the text it started from: run longer, "
            "or burn in."
        )
    return said


def _repetition(found: Diagnosis) -> list[str]:
    said = []
    chance = found.independent_self_bleu
    enough = MUCH_BLEU if isnan(chance) else max(MUCH_BLEU, (1 + chance) / 2, chance + LITTLE_BLEU)
    if found.chains > 1 and found.self_bleu > enough:
        said.append(f"The chains' last texts repeat each other (self-BLEU {found.self_bleu:.2f}{_beside(chance, '.2f')}).")
    chance = found.independent_stutter
    noise = 0.0 if isnan(chance) else chance + 2 * sqrt(chance * (1 - chance) / max(1, found.independent_neighbours))
    if found.stutter > MUCH_STUTTER + noise:
        said.append(f"{found.stutter:.1%} of neighbouring tokens are equal{_beside(chance, '.1%')}: the texts stutter.")
    return said


def _beside(chance: float, shown: str) -> str:
    return "" if isnan(chance) else f", {chance:{shown}} if tokens were independent of each other"


def _mixing(found: Diagnosis) -> list[str]:
    if found.chains < 2 or found.draws < 4:
        return [
            f"{found.chains} chains of {found.draws} draws are too few to know whether they mix: run 2 or more, of 4 or more."
        ]
    known = [f for f in found.functionals if not isnan(f.r_hat)]
    if not known:
        return ["No functional varies, so nothing can be said about mixing: the chains do not move."]
    worst = max(known, key=lambda f: f.r_hat)
    fewest = min(known, key=lambda f: f.ess_bulk)
    named = f"R-hat of the {SENTENCES[worst.name]} is {worst.r_hat:.3f}"
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
            f"{SENTENCES[fewest.name]}; {ENOUGH} are wanted for a stable mean."
        )
    return said
