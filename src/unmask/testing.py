"""The laws that methods keep, as functions: for those who write one.

    check_masking   a masking scheme draws masks by the law that it states
    check_score     a score is the probability, the sum or the direction that it says it is

Each raises AssertionError with a sentence that says what is broken.

>>> unmask.testing.check_masking(unmask.FixedRate(rate=0.3))
>>> unmask.testing.check_score(unmask.AnyOrder(orders=8))
"""

from unmask.scoring.scores.laws import check_score as check_score
from unmask.studies.training.masking.scheme import check_masking as check_masking

__all__ = ["check_masking", "check_score"]
