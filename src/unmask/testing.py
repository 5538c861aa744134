"""The laws that methods keep, as functions: for those who write one.

    check_construction   a construction gives distributions, whatever the order of the tokens
    check_kernel         the enumerated steps of a Markov kernel leave its law invariant
    check_decoder        a decoder fills all blanks, and draws by the law that it states
    check_energy         an energy is a sum of its terms, and chains leave exp(-E) invariant
    check_masking        a masking scheme draws masks by the law that it states
    check_score          a score is the probability, the sum or the direction that it says it is

Each raises AssertionError with a sentence that says what is broken.

>>> unmask.testing.check_construction(unmask.HCB())
>>> unmask.testing.check_energy(unmask.RawEnergy())
>>> unmask.testing.check_masking(unmask.FixedRate(rate=0.3))
>>> unmask.testing.check_score(unmask.AnyOrder(orders=8))
"""

from unmask.joints.constructions.laws import check_construction as check_construction
from unmask.sampling.decoder_check import check_decoder as check_decoder
from unmask.sampling.energy_check import check_energy as check_energy
from unmask.sampling.kernel_check import check_kernel as check_kernel
from unmask.scoring.scores.laws import check_score as check_score
from unmask.studies.training.masking.scheme import check_masking as check_masking

__all__ = [
    "check_construction",
    "check_decoder",
    "check_energy",
    "check_kernel",
    "check_masking",
    "check_score",
]
