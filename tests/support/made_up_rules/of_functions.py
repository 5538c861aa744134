"""A rule that is a plain function."""

from collections.abc import Callable
from typing import Any

from support.made_up_rules import Rule
from unmask.common.methods.method import method


@method
class OfFunction(Rule):
    """x -> function(x)"""

    name = ""
    function: Callable[[Any], Any]

    def of(self, number):
        return self.function(number)
