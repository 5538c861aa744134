"""Arnold-Gokhale (Torroba Hennigen & Kim 2023, eqs. 4 and 5), and the near-compatible family
that it is one corner of.

The joint whose conditionals are nearest to the model's: minimise over mu

    J(mu) = (1 - lambda) sum_t sum_{x_{-t}} w_t(x_{-t}) KL( q_t(. | x_{-t}) || mu(. | x_{-t}) )  +
            lambda k KL( c || mu )

for k sites, where c is the mean chain (`unmask.joints.closed_forms`): eq. 4 has lambda = 0.
With the weights held fixed J is convex in log mu, and with c = sum_t c_t q_t and mu_{-t} = mu
with site t summed out its stationary point is

    mu = ( sum_t W_t q_t ) / ( sum_t I_t ),   W_t = (1 - lambda) w_t + lambda k c_t,
            I_t = (1 - lambda) w_t / mu_{-t} + lambda,

which is eq. 5 for lambda = 0 and has mass one. The family takes w_t = mu_{-t}^alpha: contexts
count equally (alpha = 0), as often as they occur (alpha = 1), or between. lambda draws mu to
the chain, which knows what the model expects with all blanks masked:

    arnold_gokhale  alpha = 0     closest conditionals when every context counts the same,
                                  however absurd
    balanced        alpha = 1/2   contexts count by the square root of their probability
    pseudo_gibbs    alpha = 1     contexts count by their probability; the stationary law of
                                  random-scan pseudo-Gibbs
    restarted       alpha = 3/4, lambda = 1/10
                                  near the best predictions of text, and faithful to
                                  both kinds of context
    chain           lambda = 1    whatever alpha
    alpha = 1       lambda > 0    the law of pseudo-Gibbs that starts again from the chain
                                  with probability lambda

Eq. 5 read as an iteration is `plain_step`, which the tests compare with; `steps=n` is n of
these from the uniform distribution, as published (n = 50 in the paper). Without `steps` the
same fixed point is found by `unmask.joints.solver` in far fewer reads of the tables: until the
marginals are estimated to lie within `tolerance` of it in total variation, so that no event at
one blank (or, of k blanks, at k - 1) has a probability that is off by more.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, product
from math import exp, isfinite

import torch
from torch import Tensor

from unmask.common.errors import UnmaskWarning
from unmask.joints.constructions.arnold_gokhale import TOLERANCE, Member
from unmask.joints.enclosure import Balance, dense
from unmask.joints.fixed_point import IN_A_ROW, FixedPoint
from unmask.joints.fixed_point_check import FixedPointCheck, check_fixed_points
from unmask.joints.joint import Joint, not_converged, refuse_impossible_contexts
from unmask.joints.members import Marginals, Members, flat, start, unflat
from unmask.joints.reading import JointReading, read_rules
from unmask.joints.rules import Linear, PairForm
from unmask.joints.solver import solve, solve_carefully
from unmask.joints.sweeps import imbalance
from unmask.joints.tiles import Index, at, contexts, sum_at, tiles
from unmask.tables.unary import Tables

MAX_READS = 500


@dataclass(frozen=True, eq=False)
class FamilyRule:
    """The unnormalised log cells of eq. 5 with restarts, given the marginals of a member.

    log_weight log W_t, and log_inverse = log I_t, with the marginals over e^c (see
            `unmask.joints.members`)
    """

    log_q: tuple[Tensor, ...]
    c: float
    log_weight: list[Tensor]
    log_inverse: list[Tensor]

    @staticmethod
    def at(tables: Tables, log_mu: Marginals, member: Member) -> FamilyRule:
        """The rule of one member at its marginals."""
        return FamilyRule.of_rows(Members.of([tables], [member]), [log_mu])[0]

    @staticmethod
    def of_rows(members: Members, marginals: Sequence[Marginals]) -> list[FamilyRule]:
        """The rules of several members, one per row, at their marginals; all computed together."""
        dtype = members.blocks[0].log_q[0].dtype
        sites, c = members.sites_at(
            torch.stack([flat(tuple(m.double() for m in log_mu)) for log_mu in marginals]), dtype
        )
        logs = [
            [getattr(site, name).to(dtype) for site in sites]
            for name in ("log_weight", "log_inverse")
        ]
        return [
            FamilyRule(
                members.blocks[owner].log_q,
                centre,
                *(
                    [w[i].reshape(m.shape) for w, m in zip(of_sites, log_mu, strict=True)]
                    for of_sites in logs
                ),
            )
            for i, (owner, centre, log_mu) in enumerate(
                zip(members.owner, c.flatten().tolist(), marginals, strict=True)
            )
        ]

    @cached_property
    def weight(self) -> list[Tensor]:
        return [m.exp() for m in self.log_weight]

    @cached_property
    def inverse(self) -> list[Tensor]:
        return [m.exp() for m in self.log_inverse]

    def __call__(self, index: Index) -> Tensor:
        """The cells at `index`."""
        over = [
            at(q, index) + at(w, index) for q, w in zip(self.log_q, self.log_weight, strict=True)
        ]
        highest = over[0]
        for term in over[1:]:
            highest = torch.maximum(highest, term)
        highest.clamp_(min=torch.finfo(highest.dtype).min)
        above = (over[0] - highest).exp_()
        for term in over[1:]:
            above += term.sub_(highest).exp_()
        return above.div_(sum_at(self.inverse, index)).log_().add_(highest).add_(self.c)

    def probabilities(self, index: Index, q: Sequence[Tensor]) -> Tensor:
        """The exponentials of the cells at `index`, over e^c, from those of the tables."""
        weight = [at(w, index) for w in self.weight]
        above = q[0] * weight[0]
        for of_site, w in zip(q[1:], weight[1:], strict=True):
            above.addcmul_(of_site, w)
        return above.div_(sum_at(self.inverse, index))

    def pair_form(self, tables: Tables) -> PairForm:
        """The rule in the form that one GPU program sums."""
        (v, u), (below_v, below_u) = self.log_weight, self.log_inverse
        first, second = Linear(1, 0, e=v.flatten() + self.c), Linear(0, 1, f=u.flatten() + self.c)
        return PairForm(first, second, (below_u.flatten(), below_v.flatten()))


def plain_step(tables: Tables, log_mu: Marginals, member: Member) -> Marginals:
    """One step of eq. 5: the marginals of the rule at `log_mu`, normalised. One read of the
    tables.
    """
    rule = FamilyRule.at(tables, log_mu, member)
    sums = [contexts(tables, t) for t in range(tables.sites)]
    for index in tiles(tables.log_q[0]):
        cells = rule.probabilities(index, [at(q, index).exp() for q in tables.log_q])
        for t, total in enumerate(sums):
            at(total, index).add_(cells.sum(t, keepdim=True))
    return tuple(total.log() - sums[0].sum().log() for total in sums)


def after_steps(
    tables: Tables, name: str, member: Member, steps: int, initial: Marginals | None = None
) -> Joint:
    """The rule of a member after this number of plain steps of eq. 5, the last one in its cells.

    initial   log marginals to start from [default: those of the uniform distribution]
    """
    refuse_impossible_contexts(tables, name)
    log_mu = start(tables, uniform=True) if initial is None else initial
    change = float("nan")  # of the marginals in the last step but one; with one step there is none
    for _ in range(steps - 1):
        new = plain_step(tables, log_mu, member)
        change = max(_total_variation(n, o) for n, o in zip(new, log_mu, strict=True))
        log_mu = new
    (rule,), (reading,) = _read(Members.of([tables], [member]), [log_mu])
    report = {
        **member._asdict(),
        "steps": steps,
        "reads": steps,
        "change": change,
        "converged": False,
    }
    return _joint(name, tables, report, rule, reading)


def _total_variation(log_p: Tensor, log_q: Tensor) -> float:
    return 0.5 * float((log_p.exp() - log_q.exp()).abs().sum())


def members_of(
    blocks: Sequence[Tables],
    members: Mapping[str, Member],
    tolerance: float = TOLERANCE,
    max_reads: int = MAX_READS,
    initial: Marginals | None = None,
) -> list[list[Joint]]:
    """The joints of several members, by name, over several blocks of one shape: a list for each
    block, in the order of `members`.

    All iterate side by side and share reads of the tables. `converged` in a report: the
    estimated error is below the tolerance, and the marginals pass the check
    (`unmask.joints.fixed_point_check`). Members that fail it are solved again, by
    `solve_carefully`.
    """
    for tables in blocks:
        refuse_impossible_contexts(tables, next(iter(members)))
    rows = Members.of(blocks, list(members.values()))
    answers = _checked(rows, solve(rows, tolerance, max_reads, initial))
    if doubtful := [row for row, answer in enumerate(answers) if answer.check.grows]:
        again = rows.select(doubtful)
        for row, other in zip(
            doubtful, _checked(again, solve_carefully(again, tolerance, max_reads)), strict=True
        ):
            first = answers[row]
            best, worse = (
                (first, other) if first.check.growth <= other.check.growth else (other, first)
            )  # NaN loses
            spent = (worse.solution.steps, worse.solution.reads + READS_AT_THE_END)
            answers[row] = replace(best, before=spent)
    if blocks[0].sites > 2:
        asked = product(blocks, members.values())
        answers = [
            _ascertained(tables, member, answer, tolerance, max_reads)
            for (tables, member), answer in zip(asked, answers, strict=True)
        ]
    joints = [
        _joint(
            name,
            tables,
            {**member._asdict(), **answer.report(tables, member, tolerance)},
            answer.rule,
            answer.reading,
        )
        for (tables, (name, member)), answer in zip(
            product(blocks, members.items()), answers, strict=True
        )
    ]
    if message := not_converged(joints):
        warnings.warn(message, UnmaskWarning, stacklevel=2)
    each = iter(joints)
    return [list(islice(each, len(members))) for _ in blocks]


@dataclass(frozen=True)
class _Answer:
    """A solution, its rule, one read of the tables with it, and its check.

    before   steps and reads of another try
    near     False where a block of three blanks or more is not known to be within the tolerance
             of the fixed point
    """

    solution: FixedPoint
    rule: FamilyRule
    reading: JointReading
    check: FixedPointCheck
    before: tuple[int, float] = (0, 0.0)
    near: bool = True

    def report(self, tables: Tables, member: Member, tolerance: float) -> dict[str, object]:
        end, (steps, reads) = self.solution, self.before
        converged = (
            self.near and end.converged and self.check.within(tolerance, self.rule.log_q[0].dtype)
        )
        return {
            "steps": steps + end.steps,
            "reads": reads + end.reads + READS_AT_THE_END,
            "change": end.change,
            "error": end.error,
            "moved": self.check.moved,
            "growth": self.check.growth,
            "converged": converged,
            **(
                {}
                if converged
                else {"bound": distance_bound(tables, member, unflat(end.log_p, tables.shape))}
            ),
        }


READS_AT_THE_END = (
    2  # One for normaliser and objective, which is a plain step too; one sweep for the check
)
ROUNDING = {torch.float32: 1e-5, torch.float64: 1e-10}
"""Of sums over a table: those of its own conditionals, and of the probabilities that it leads
to.
"""
EXACT_AT_LEAST = 1e-9  # A smaller tolerance is asked of the iteration alone
LOOSE = 1e-12  # Rounding of the same sums over more cells
CLOSER = 1e-2  # Share of the tolerance that another solution is asked for, where no ends are found
EXACT, MARGIN = 1e-13, 4e-13
"""Of sums of positive terms in float64: their rounding, and the lack of balance that ends are
sought with.
"""
DOUBLINGS, FARTHEST = 6, 1.0
"""How often the distance of ends is doubled, and the nats beyond which they bound nothing of
use.
"""
TRIES, GROWS_BY = 50, 1.25
"""Reads for a bound, and the factor by which the margin that it is sought with grows from one
to the next.
"""


def distance_bound(tables: Tables, member: Member, log_mu: Marginals) -> float | None:
    """The most by which the probability of any event differs between the rule at `log_mu` and
    at the fixed point; None: unknown.

    Let f be the step of eq. 5 before it is normalised. Every cell rises with every marginal,
    and f(t m) <= t f(m) for t >= 1, with equality without restarts. So if l < f(l) and f(U) < U
    in every context, every fixed point m with positive marginals has l <= m <= U: were t = max
    m/U > 1, the context that attains it would have m = f(m) <= t f(U) < t U = m; the same for
    l. Without restarts the fixed point is a ray: one context has m = 1 in all three, and is
    left out of the two conditions. Cells rise, so of two joints with marginals in [l, U], with
    the sums Z(l) and Z(U) of all cells at the two ends, the total variation is at most 1 - Z(l)
    / Z(U).

    f(U) < U says that less flows in than out. The two ends are sought from the marginals: a
    context that fails moves away by what it lacks and a margin; where that leads nowhere, of
    three blanks or more, all move as the derivatives say (`unmask.joints.enclosure`), which
    find ends where next to nothing moves, but only near the fixed point. What is checked is a
    property of the ends, whatever path led to them.
    """
    rows, z = Members.of([tables], [member, member], lowered=True), flat(log_mu)
    bound = _bound_by_trial(rows, z, ROUNDING[tables.log_q[0].dtype])
    if bound is None and tables.sites > 2 and dense(rows):
        bound = _bound_by_derivatives(rows, z)
    return bound


def _bound_by_trial(rows: Members, z: Tensor, rounding: float) -> float | None:
    """The bound with ends sought by moving what fails."""
    away, margin = z.new_zeros(2, len(z)), 0.0
    for _ in range(TRIES):
        lack, bound = _ends(rows, z, away, rounding)
        if bool((lack <= 0).all()):
            return bound
        margin = GROWS_BY * margin or max(rounding, float(lack.amax()) / TRIES)
        away = away + (lack + margin).clamp_min(0)
    return None


def _bound_by_derivatives(rows: Members, z: Tensor) -> float | None:
    """The bound of a block of few contexts, with ends in the direction that the derivatives of
    the balance lead to.
    """
    away = Balance(rows.select([0])).away(z, MARGIN)
    for _ in range(DOUBLINGS):
        if not bool(away.isfinite().all()) or float(away.amax()) > FARTHEST:
            return None
        lack, bound = _ends(rows, z, away.expand(2, -1), EXACT)
        if bool((lack <= 0).all()):
            return bound
        away = 2 * away
    return None


def _ends(rows: Members, z: Tensor, away: Tensor, rounding: float) -> tuple[Tensor, float | None]:
    """What the ends z + away and z - away lack in every context that counts, and the bound if
    they lack nothing.
    """
    sign = torch.tensor([[1.0], [-1.0]], dtype=z.dtype, device=z.device)
    excess, log_z = imbalance(rows, z + sign * away)
    lack = (sign * excess + rounding).masked_fill(excess[0] == -torch.inf, -torch.inf)  # ruled out
    if rows.dead is not None:
        lack = lack.masked_fill(rows.dead, -torch.inf)
    if not float(rows.restart[0]):
        lack[:, z.argmax()] = -torch.inf
    if not all(map(isfinite, log_z)):
        return lack, None
    # Z(l) is at most Z(U): only rounding makes the ratio larger than 1, or ends too far away for it
    ratio = exp(min(log_z[1] - log_z[0], 1.0))
    bound = 1 - ratio + rounding
    return lack, bound if 0 <= bound < 1 else None


def _ascertained(
    tables: Tables, member: Member, answer: _Answer, tolerance: float, max_reads: int
) -> _Answer:
    """The answer of one member of a block of three blanks or more if it is near the fixed
    point, or another one that is.

    The error that an iteration estimates is that of the directions that it has met
    (`unmask.joints.enclosure`).
    """
    within = max(tolerance, EXACT_AT_LEAST)
    both = Members.of([tables], [member, member], lowered=True)
    row = both.select([0])
    converged = answer.solution.converged and answer.check.within(tolerance, tables.log_q[0].dtype)
    if not converged and member.alpha and row.dead is not None:
        # Where alpha is 0, contexts without mass count as much as others, and must come to
        # their own conditionals.
        spent = (
            answer.before[0] + answer.solution.steps,
            answer.before[1] + answer.solution.reads + READS_AT_THE_END,
        )
        (again,) = _checked(row, solve(row, tolerance, max_reads))
        converged = again.solution.converged and again.check.within(
            tolerance, tables.log_q[0].dtype
        )
        answer = replace(again, before=spent) if converged else answer
    if not converged:
        return answer
    if not dense(row):
        return _ascertained_by_trial(both, answer, tolerance, within, max_reads)
    bound = _bound_by_derivatives(both, answer.solution.log_p)
    if bound is not None and bound <= within:
        return answer
    exact = Balance(row).newton(answer.solution.log_p)
    bound = _bound_by_derivatives(both, exact)
    if bound is None or bound > within:
        return replace(answer, near=False)
    solution = replace(answer.solution, log_p=exact, error=bound, steps_below=IN_A_ROW)
    (other,) = _checked(row, [solution])
    if _apart(answer, other) + bound <= within:
        return answer
    return replace(other, before=answer.before)


def _ascertained_by_trial(
    both: Members, answer: _Answer, tolerance: float, within: float, max_reads: int
) -> _Answer:
    """The same for a block of too many contexts for derivatives.

    Trial finds no ends where next to nothing moves in a step, though the answer be right. Then
    another solution, asked to be closer, must lie within the tolerance of the answer: no proof,
    but more than the estimate of one iteration.
    """
    bound = _bound_by_trial(both, answer.solution.log_p, LOOSE)
    if bound is not None and bound <= within:
        return answer
    initial = unflat(answer.solution.log_p, both.blocks[0].shape)
    row = both.select([0])
    (closer,) = _checked(row, solve(row, CLOSER * tolerance, max_reads, initial))
    marginals = zip(answer.reading.log_marginals, closer.reading.log_marginals, strict=True)
    apart = max(0.5 * float((mine.exp() - other.exp()).abs().sum()) for mine, other in marginals)
    return replace(answer, near=apart <= within)


def _apart(answer: _Answer, other: _Answer) -> float:
    """The total variation between the joints of two answers over one block."""
    every = tuple(slice(0, n) for n in answer.rule.log_q[0].shape)
    mu, nu = ((one.rule(every).double() - one.reading.log_z).exp() for one in (answer, other))
    return 0.5 * float((mu - nu).abs().sum())


def _checked(rows: Members, solutions: Sequence[FixedPoint]) -> list[_Answer]:
    """Rules, readings and checks of all rows; the members of a block share one read of its
    tables.
    """
    marginals = [unflat(solution.log_p, rows.blocks[0].shape) for solution in solutions]
    rules, readings = _read(rows, marginals)
    checks = check_fixed_points(rows, marginals, readings)
    return [_Answer(*parts) for parts in zip(solutions, rules, readings, checks, strict=True)]


def _read(
    rows: Members, marginals: Sequence[Marginals]
) -> tuple[list[FamilyRule], list[JointReading]]:
    """The rule of each row and its reading."""
    rules = FamilyRule.of_rows(rows, marginals)
    by_block = read_rules(
        [(rows.blocks[block], rules[places]) for block, places in rows.by_block()]
    )
    return rules, [reading for of_block in by_block for reading in of_block]


def _joint(
    name: str, tables: Tables, report: Mapping[str, object], rule: FamilyRule, reading: JointReading
) -> Joint:
    at_the_answer = {
        "log_z": reading.log_z,
        "objective": reading.objective,
        "objective_mean": reading.average_kl,
    }
    return Joint(name, tables, rule, {**report, **at_the_answer}, reading.log_z)
