"""Arnold-Gokhale (Torroba Hennigen & Kim 2023, eqs. 4 and 5), and the near-compatible family
that it is one corner of: the joints whose conditionals are nearest to the model's.

    minimise over mu
    J(mu) = (1 - lambda) sum_t sum_{x_{-t}} w_t(x_{-t}) KL( q_t(. | x_{-t}) || mu(. | x_{-t}) )
            + lambda k KL( c || mu )

Here k is the number of blanks, mu_{-t} is mu with blank t summed out, and c = sum_t c_t q_t is the
chain (`unmask.joints.constructions.closed_forms`). With the weights w_t held fixed J is convex in
log mu. Its stationary point has mass one:

    mu = ( sum_t W_t q_t ) / ( sum_t I_t ),
    W_t = (1 - lambda) w_t + lambda k c_t,
    I_t = (1 - lambda) w_t / mu_{-t} + lambda.

The family takes w_t = mu_{-t}^alpha: contexts count equally (alpha = 0), as often as they occur
(alpha = 1), or between. lambda, the option `restart`, draws mu to the chain, which knows what the
model expects with all blanks masked. Eq. 4 and 5 of the paper have lambda = 0.

    arnold_gokhale  alpha = 0               closest conditionals when every context counts the same,
                                            however absurd
    balanced        alpha = 1/2             contexts count by the square root of their probability
    pseudo_gibbs    alpha = 1               contexts count by their probability; the stationary law
                                            of random-scan pseudo-Gibbs
    restarted       alpha = 3/4, lambda = 1/10   near the best predictions of text, and faithful to
                                            both kinds of context
    chain           lambda = 1              whatever alpha
    family          any other; alpha = 1 with lambda > 0 is the law of pseudo-Gibbs that starts
                    again from the chain with probability lambda

The fixed point of these equations is found in `unmask.joints.family_solution`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Annotated, NamedTuple

from annotated_types import Interval

from unmask.common.border.marks import Only
from unmask.common.checks import real
from unmask.common.errors import InputError
from unmask.common.methods.method import method
from unmask.joints.constructions.construction import Construction, Style

if TYPE_CHECKING:
    from unmask.joints.joint import Joint
    from unmask.tables.unary import Tables

TOLERANCE = 1e-4
"""Total variation between the marginals found and those of the fixed point, as it is estimated."""
MAX_STEPS = 1_000_000
Share = Annotated[float, Interval(ge=0, le=1)]


class Member(NamedTuple):
    """A member of the near-compatible family: its two parameters, each from 0 to 1; restart is
    lambda.
    """

    alpha: float
    restart: float = 0.0


@method
class NearCompatible(Construction):
    """What all members of the family share: how far the equations are solved.

    Parameters:
        steps: Stop after this number of plain steps of eq. 5 from the uniform distribution, as
            published (50 in the paper) [default: solve until the tolerance is met].
        tolerance: How far the marginals may be from those of the fixed point, in total variation,
            as it is estimated: no event at one blank (of k blanks, at k - 1) has a probability
            that is off by more.
    """

    _: KW_ONLY
    steps: Annotated[int, Interval(ge=1, le=MAX_STEPS)] | None = None
    tolerance: Annotated[Share, Only(without=("steps",))] = TOLERANCE

    @property
    @abstractmethod
    def member(self) -> Member:
        """alpha and lambda."""

    @property
    def is_solved_together(self) -> bool:
        """Whether it is solved beside other members, which then share reads of the tables."""
        return self.steps is None and self.tolerance == TOLERANCE

    def derive(self, tables: Tables) -> Joint:
        """The joint at the fixed point, or after `steps` plain steps."""
        from unmask.joints.family_solution import after_steps, members_of

        if self.steps is not None:
            return after_steps(tables, self.name, self.member, self.steps)
        (of_block,) = members_of([tables], {self.name: self.member}, self.tolerance)
        (joint,) = of_block
        return joint


@method
class ArnoldGokhale(NearCompatible):
    """The joint whose conditionals are closest to the model's if every context counts the same.

    mu = ( sum_t q_t ) / ( sum_t 1 / mu_{-t} )        (alpha = 0, lambda = 0)

    >>> tables = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint.tables
    >>> unmask.derive(tables, unmask.ArnoldGokhale(steps=50)).report["steps"]
    50
    """

    name = "arnold_gokhale"
    label = "Arnold-Gokhale"
    place = 5
    style = Style("#0072B2", "D", "-")
    heading = "arn.\ngokh."
    member = Member(alpha=0.0)


@method
class Balanced(NearCompatible):
    """The joint whose conditionals are closest to the model's if contexts count by the root of
    their probability.

        mu = ( sum_t mu_{-t}^(1/2) q_t ) / ( sum_t mu_{-t}^(-1/2) )        (alpha = 1/2, lambda = 0)

    >>> tables = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint.tables
    >>> unmask.derive(tables, unmask.Balanced()).report["alpha"]
    0.5
    """

    name = "balanced"
    label = "balanced"
    place = 6
    style = Style("#009E73", "P", "-")
    heading = "bal-\nanced"
    member = Member(alpha=0.5)


@method
class PseudoGibbs(NearCompatible):
    """The joint that redrawing one blank after the other from the model's conditionals ends in.

    mu = 1/k sum_t mu_{-t} q_t        (alpha = 1, lambda = 0; the blank is drawn at random)

    >>> tables = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint.tables
    >>> unmask.derive(tables, unmask.PseudoGibbs()).report["alpha"]
    1.0
    """

    name = "pseudo_gibbs"
    label = "pseudo-Gibbs"
    place = 7
    style = Style("#56B4E9", "X", "-")
    heading = "ps.\ngibbs"
    member = Member(alpha=1.0)


@method
class Restarted(NearCompatible):
    """Like pseudo-Gibbs, drawn a tenth of the way to the chain rule; it predicts text best, and
    is the default.

        W_t = 9/10 mu_{-t}^(3/4) + k/10 c_t,   I_t = 9/10 mu_{-t}^(-1/4) + 1/10
        mu = ( sum_t W_t q_t ) / ( sum_t I_t )        (alpha = 3/4, lambda = 1/10)

    >>> tables = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint.tables
    >>> unmask.derive(tables, unmask.Restarted()).report["restart"]
    0.1
    """

    name = "restarted"
    label = "restarted"
    place = 8
    style = Style("#882255", "p", "-")
    heading = "re-\nstart"
    member = Member(alpha=0.75, restart=0.1)


class _OfNumbers:
    """An attribute that the class has in one form, and an object in another, with its numbers."""

    def __init__(self, of_class: str, of_object: Callable[[Family], str]) -> None:
        self.of_class = of_class
        self.of_object = of_object

    def __get__(self, family: Family | None, cls: type) -> str:
        if family is None:
            return self.of_class
        return self.of_object(family)


def _name_of(family: Family) -> str:
    return f"family:{family.alpha:.10g},{family.restart:.10g}"


def _label_of(family: Family) -> str:
    return f"α {family.alpha:g}, λ {family.restart:g}"


@method
class Family(NearCompatible):
    """Any member of the near-compatible family, by its two numbers.

        W_t = (1 - lambda) mu_{-t}^alpha + lambda k c_t,   I_t = (1 - lambda) mu_{-t}^(alpha - 1) +
        lambda,   mu = ( sum_t W_t q_t ) / ( sum_t I_t )

    family:0.5,0.25 spells the member with alpha 0.5 and lambda 0.25.

    Parameters:
        alpha: How much the probability of a context counts, from 0 (not at all) to 1.
        restart: lambda, how far the joint is drawn to the chain rule, from 0 to 1.

    >>> tables = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint.tables
    >>> unmask.derive(tables, unmask.Family(alpha=0.5, restart=0.25)).name
    'family:0.5,0.25'
    """

    name = _OfNumbers("family", _name_of)  # type: ignore[assignment]
    label = _OfNumbers("family", _label_of)  # type: ignore[assignment]
    place = 10
    style = Style("#8C564B", "h", "-.")
    among_all = False  # "all" has four of its members
    alpha: Share = 0.5
    restart: Share = 0.0

    @property
    def member(self) -> Member:
        """alpha and lambda."""
        return Member(self.alpha, self.restart)

    @classmethod
    def spelled(cls, text: str) -> Family | None:
        """The member of family:ALPHA,LAMBDA; LAMBDA is 0 if left out."""
        word, colon, numbers = text.partition(":")
        if word != "family" or not colon:
            return None
        try:
            member = Member(*map(float, numbers.split(",")))
        except (TypeError, ValueError):  # no numbers, or more than two
            raise InputError(
                f"{text!r} is not understood: give one or two numbers, such as family:0.5,0.25"
            ) from None
        return cls(
            alpha=real("alpha", member.alpha, 0, 1), restart=real("lambda", member.restart, 0, 1)
        )


def solved_together(constructions: Sequence[Construction]) -> dict[str, Member]:
    """The members of the family among constructions, by name, that share reads of the tables."""
    members = {}
    for construction in constructions:
        if isinstance(construction, NearCompatible) and construction.is_solved_together:
            members[construction.name] = construction.member
    return members
