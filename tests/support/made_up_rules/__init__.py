"""A kind of method for tests of the mechanism: rules from a number to a number."""

from abc import ABC, abstractmethod

from unmask.common.methods.method import Method
from unmask.common.methods.registry import Registry


def as_rule(function):
    """The rule that a plain function is."""
    from support.made_up_rules.of_functions import OfFunction

    return OfFunction(function)


RULES = Registry("rule", folders=("support.made_up_rules",), function=as_rule)


class Rule(Method, ABC, registry=RULES):
    """A rule of numbers."""

    @abstractmethod
    def of(self, number: float) -> float:
        """The number that it makes of a number."""
