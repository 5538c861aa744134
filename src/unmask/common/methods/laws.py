"""Laws that methods must keep, and the error of one that breaks them.

Each kind of method has a function `check_KIND` beside its base class; `unmask.testing` gathers them.
"""

from __future__ import annotations


class BrokenLaw(AssertionError):
    """A method that breaks a law of its kind; the message says which, in a sentence."""
