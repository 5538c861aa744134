"""Laws that methods must keep, for tests of one's own methods.

    from unmask.testing import check_score

    check_score(Mine())

Each function raises `BrokenLaw`, an AssertionError, with a sentence that says what is broken. All
methods of unmask are tested by them.
"""

from __future__ import annotations

from unmask.common.methods.laws import BrokenLaw as BrokenLaw
from unmask.scoring.scores.laws import check_score as check_score

__all__ = ["BrokenLaw", "check_score"]
