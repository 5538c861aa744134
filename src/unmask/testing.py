"""The laws that methods keep, as functions: for those who write one.

    check_masking   a masking scheme draws masks by the law that it states

Each raises AssertionError with a sentence that says what is broken.

>>> unmask.testing.check_masking(unmask.FixedRate(rate=0.3))
"""

from unmask.studies.training.masking.scheme import check_masking as check_masking

__all__ = ["check_masking"]
