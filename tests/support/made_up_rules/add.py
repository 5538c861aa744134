"""A rule that adds."""

from support.made_up_rules import Rule
from unmask.common.methods.method import method


@method
class Add(Rule):
    """x -> x + a

    Parameters:
        amount: a.
    """

    name = "add"
    label = "sum"
    place = 2
    amount: float = 1.0

    def of(self, number):
        return number + self.amount
