"""How the chains of a run moved and mixed, and what texts they hold, in numbers. Imports no NumPy:
the help of commands reads this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import Any

FEWEST_DRAWS = 4  # Draws per chain that ArviZ needs at least
MIXED = 1.01  # R-hat, and
ENOUGH = 400  # bulk ESS that Vehtari et al. (2021) ask for before means are believed
NEARLY = 1.05  # R-hat above which an ESS means nothing
NAN = float("nan")


@dataclass(frozen=True)
class Functional:
    """One scalar function of the text, over the chains of one length; R-hat and ESS are NaN
    where they mean nothing.
    """

    name: str
    length: int
    mean: float
    sd: float
    r_hat: float
    ess_bulk: float
    ess_tail: float
    ess_per_1000_passes: float


@dataclass(frozen=True)
class ChainStatistics:
    """How the chains of a run moved and mixed, and what texts they hold.

    kernel       what moved the chains
    energy       which energy they sampled
    chains       how many there are
    draws        kept texts of the chain that has fewest
    passes       forward passes of the chains
    scoring_passes  further passes that scored and compared the samples
    passes_per_step  passes that one step of a chain took
    acceptance   share of the steps that were accepted
    novelty      share of the steps that changed a token
    functionals  energy, unchanged tokens and equal neighbours, by length: mean, R-hat,
                 effective sample sizes
    stutter      share of neighbouring tokens that are equal
    start_stutter  the same of the starts
    unique       share of the samples' texts that are different
    at_start     share of samples that were taken before their chain had left its start
    lowest_energy  of all samples
    lowest_text  the text that has it
    """

    kernel: str
    energy: str
    chains: int
    draws: int
    passes: int
    scoring_passes: int
    passes_per_step: float
    acceptance: float
    novelty: float
    functionals: list[Functional]
    stutter: float
    start_stutter: float
    unique: float
    at_start: float
    lowest_energy: float
    lowest_text: str

    def row(self) -> dict[str, Any]:
        """The numbers by which runs are compared, NaN where they are not known."""
        r_hats = [f.r_hat for f in self.functionals if not isnan(f.r_hat)]
        sized = [f for f in self.functionals if not isnan(f.ess_bulk)]
        varying = [f for f in self.functionals if f.sd > 0]
        ess_bulk = NAN
        ess_per_1000_passes = NAN
        each_that_varies_has_ess = len(sized) == len(varying)
        if sized and each_that_varies_has_ess:  # else the smallest may be one that is unknown
            smallest = min(sized, key=lambda f: f.ess_bulk)
            ess_bulk = smallest.ess_bulk
            ess_per_1000_passes = smallest.ess_per_1000_passes
        return {
            "kernel": self.kernel,
            "energy": self.energy,
            "chains": self.chains,
            "draws": self.draws,
            "passes": self.passes,
            "acceptance": self.acceptance,
            "novelty": self.novelty,
            "r_hat": max(r_hats, default=NAN),
            "ess_bulk": ess_bulk,
            "ess_per_1000_passes": ess_per_1000_passes,
            "stutter": self.stutter,
            "unique": self.unique,
            "lowest_energy": self.lowest_energy,
        }
