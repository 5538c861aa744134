"""The verdict on a run, in sentences: what is sampled, whether chains mixed, what moved."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING

from unmask.sampling.chains.convergence import ENOUGH, FEWEST_DRAWS, MIXED, NEARLY, Functional
from unmask.sampling.settings import SampleSettings

if TYPE_CHECKING:
    from unmask.sampling.chains.diagnosis import Diagnosis

MUCH_STUTTER = 0.05  # Share of equal neighbours, beyond twice that of the starts
MANY_AT_START = 0.05  # Share of samples that were taken before their chain had left its start
IN_WORDS = {
    "energy": "energy",
    "unchanged": "number of unchanged tokens",
    "stutter": "number of equal neighbours",
}
"""How sentences name the functionals."""


def verdict(diagnosis: Diagnosis, settings: SampleSettings) -> list[str]:
    """One sentence for each thing that a reader should know, the most important first."""
    kernel = settings.kernel
    options = vars(kernel)  # a sentence names those that its kernel has
    sentence = kernel.verdict.format_map({**options, "energy": settings.energy.name})
    return [sentence, *_mixing(diagnosis), *_moves(diagnosis), *_stutter(diagnosis)]


def _mixing(diagnosis: Diagnosis) -> list[str]:
    if diagnosis.chains < 2 or diagnosis.draws < FEWEST_DRAWS:
        return [
            f"{diagnosis.chains} chains of {diagnosis.draws} draws are too few to know whether they"
            " mix: run 2 or more chains, with 4 or more draws each."
        ]
    varying = [f for f in diagnosis.functionals if not isnan(f.r_hat)]
    if not varying:
        return [
            "No functional varies, so nothing can be said about mixing: the chains do not move."
        ]
    worst = max(varying, key=lambda f: f.r_hat)
    r_hat = f"R-hat of the {IN_WORDS[worst.name]} is {worst.r_hat:.3f}"
    if worst.r_hat > NEARLY:
        return [
            f"The chains have NOT mixed: {r_hat}, which should be below {MIXED}. Averages over"
            " these samples still depend on the starts, and an effective sample size has no"
            f" meaning where R-hat is above {NEARLY}: run longer, or use blocks."
        ]
    if worst.r_hat > MIXED:
        sentence = (
            f"The chains have nearly mixed: {r_hat}, which should be below {MIXED}. Run longer"
            " before trusting averages."
        )
    else:
        sentence = f"No sign that the chains have not mixed: {r_hat} or less."
    return [sentence, *_few_independent_draws(diagnosis, varying)]


def _few_independent_draws(diagnosis: Diagnosis, varying: Sequence[Functional]) -> list[str]:
    """A sentence if the smallest ESS is too small for a stable mean."""
    sized = [f for f in varying if not isnan(f.ess_bulk)]
    if not sized:
        return []
    smallest = min(sized, key=lambda f: f.ess_bulk)
    if smallest.ess_bulk >= ENOUGH:
        return []
    return [
        f"{diagnosis.chains * diagnosis.draws:,} draws are worth {smallest.ess_bulk:.0f}"
        f" independent ones for the {IN_WORDS[smallest.name]}; {ENOUGH} are wanted for a stable"
        " mean."
    ]


def _moves(diagnosis: Diagnosis) -> list[str]:
    sentences = []
    most_are_accepted = diagnosis.acceptance > 0.5
    few_of_them_change = diagnosis.novelty < 0.5 * diagnosis.acceptance
    if most_are_accepted and few_of_them_change:
        sentences.append(
            f"{diagnosis.acceptance:.0%} of steps were accepted, but only {diagnosis.novelty:.0%}"
            " of redrawn tokens changed: most accepted proposals redraw the current token."
        )
    if diagnosis.at_start > MANY_AT_START:
        sentences.append(
            f"{diagnosis.at_start:.0%} of the samples were taken before their chain had left the"
            " text it started from: run longer, or burn in."
        )
    return sentences


def _stutter(diagnosis: Diagnosis) -> list[str]:
    # With 20 amino acids neighbours are equal now and then; with 8,000 words they hardly ever
    # are. The starts say what is usual.
    usual = 0.0 if isnan(diagnosis.start_stutter) else diagnosis.start_stutter
    stutters_much = diagnosis.stutter > MUCH_STUTTER + 2 * usual  # false for NaN: no neighbours
    if not stutters_much:
        return []
    of_starts = f", {usual:.1%} in the starts" if usual else ""
    return [
        f"{diagnosis.stutter:.1%} of neighbouring tokens are equal{of_starts}: the texts stutter."
    ]
