"""A rule that multiplies."""

from typing import Annotated

from annotated_types import Interval

from support.made_up_rules import Rule
from unmask.common.errors import InputError
from unmask.common.methods.method import method


@method
class Times(Rule):
    """x -> f x

    Parameters:
        factor: f.
    """

    name = "times"
    label = "product"
    place = 1
    factor: Annotated[float, Interval(ge=0, le=10)] = 2.0

    @classmethod
    def spelled(cls, text):
        head, colon, number = text.partition(":")
        if head != cls.name or not colon:
            return None
        try:
            return cls(factor=float(number))
        except ValueError:
            problem = f"{text} is not understood"
            raise InputError(problem, argument="rule", use="give times:NUMBER") from None

    def of(self, number):
        return self.factor * number
