"""The joints of the near-compatible family: the fixed point of

    mu = ( sum_t W_t q_t ) / ( sum_t I_t )        (`unmask.joints.constructions.arnold_gokhale`)

`after_steps` is eq. 5 read as an iteration, n plain steps from the uniform distribution, as
published (n = 50 in the paper). `members_of` finds the fixed point itself, in far fewer reads of
the tables, by `unmask.joints.solver`:

1. All members over all blocks iterate side by side, until their marginals are estimated to lie
   within the tolerance of the fixed point in total variation.
2. The marginals are checked by two maps that have the fixed point
   (`unmask.joints.fixed_point_check`). Members that fail are solved again, by `solve_carefully`.
3. Of three blanks or more, the answer is kept only if it is near the fixed point by another
   measure, too (`unmask.joints.distance_bound`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unmask.common.warn import warn
from unmask.joints.constructions.arnold_gokhale import TOLERANCE, Member
from unmask.joints.distance_bound import bound_by_derivatives, bound_by_trial, distance_bound
from unmask.joints.enclosure import Balance, dense
from unmask.joints.family_rule import FamilyRule, plain_step
from unmask.joints.fixed_point import IN_A_ROW, FixedPoint
from unmask.joints.fixed_point_check import FixedPointCheck, check_fixed_points
from unmask.joints.joint import Joint, not_converged, refuse_impossible_contexts
from unmask.joints.members import Marginals, Members, start, unflat
from unmask.joints.reading import JointReading, read_rules
from unmask.joints.solver import solve, solve_carefully
from unmask.tables.unary import Tables

MAX_READS = 500  # of the tables, by one iteration
READS_AT_THE_END = 2
"""One for normaliser and objective, which is a plain step too; one sweep for the check."""
EXACT_AT_LEAST = 1e-9
"""A smaller tolerance is asked of the iteration alone."""
LOOSE = 1e-12
"""Rounding of sums of positive terms in float64, over the cells of large blocks."""
CLOSER = 1e-2
"""Share of the tolerance that another solution is asked for, where no ends are found."""


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


def members_of(
    blocks: Sequence[Tables],
    members: Mapping[str, Member],
    tolerance: float = TOLERANCE,
    max_reads: int = MAX_READS,
    initial: Marginals | None = None,
) -> list[list[Joint]]:
    """The joints of several members, by name, over several blocks of one shape: a list for each
    block, in the order of `members`.

    All iterate side by side and share reads of the tables. A report has alpha, restart, steps,
    reads, change, error, moved, growth, converged, objective and log_z. `converged`: the estimated
    error is below the tolerance, and the marginals pass the check.

    initial   log marginals to start from [default: those of the product joint]
    """
    for tables in blocks:
        refuse_impossible_contexts(tables, next(iter(members)))
    rows = Members.of(blocks, list(members.values()))
    answers = _checked(rows, solve(rows, tolerance, max_reads, initial))
    _solve_doubtful_again(rows, answers, tolerance, max_reads)
    joints_of_blocks = []
    answers_in_order = iter(answers)  # one for each member of each block
    for tables in blocks:
        joints = []
        for name, member in members.items():
            answer = next(answers_in_order)
            if tables.sites > 2:
                answer = _ascertained(tables, member, answer, tolerance, max_reads)
            report = {**member._asdict(), **answer.report(tables, member, tolerance)}
            joints.append(_joint(name, tables, report, answer.rule, answer.reading))
        joints_of_blocks.append(joints)
    message = not_converged(joint for joints in joints_of_blocks for joint in joints)
    if message:
        warn(message)
    return joints_of_blocks


def _solve_doubtful_again(
    rows: Members, answers: list[_Answer], tolerance: float, max_reads: int
) -> None:
    """Put the better of two answers in the place of each whose marginals grow in the check."""
    doubtful = [row for row, answer in enumerate(answers) if answer.check.grows]
    if not doubtful:
        return
    again = rows.select(doubtful)
    others = _checked(again, solve_carefully(again, tolerance, max_reads))
    for row, other in zip(doubtful, others, strict=True):
        first = answers[row]
        if first.check.growth <= other.check.growth:
            best, worse = first, other
        else:  # also where the growth of `first` is NaN
            best, worse = other, first
        spent = (worse.solution.steps, worse.solution.reads + READS_AT_THE_END)
        answers[row] = replace(best, before=spent)


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

    def converged(self, tolerance: float, dtype: torch.dtype) -> bool:
        """Whether the iteration and the check of its end say so."""
        return self.solution.converged and self.check.within(tolerance, dtype)

    @property
    def spent(self) -> tuple[int, float]:
        """Steps and reads of this try and the one before."""
        steps, reads = self.before
        return steps + self.solution.steps, reads + self.solution.reads + READS_AT_THE_END

    def report(self, tables: Tables, member: Member, tolerance: float) -> dict[str, object]:
        """What the joint's report says of it; `bound` only of what did not converge."""
        steps, reads = self.spent
        converged = self.near and self.converged(tolerance, self.rule.log_q[0].dtype)
        report: dict[str, object] = {
            "steps": steps,
            "reads": reads,
            "change": self.solution.change,
            "error": self.solution.error,
            "moved": self.check.moved,
            "growth": self.check.growth,
            "converged": converged,
        }
        if not converged:
            log_mu = unflat(self.solution.log_p, tables.shape)
            report["bound"] = distance_bound(tables, member, log_mu)
        return report


def _ascertained(
    tables: Tables, member: Member, answer: _Answer, tolerance: float, max_reads: int
) -> _Answer:
    """The answer of one member of a block of three blanks or more if it is near the fixed
    point, or another one that is.

    The error that an iteration estimates is that of the directions that it has met
    (`unmask.joints.enclosure`), so that another measure is needed.
    """
    within = max(tolerance, EXACT_AT_LEAST)
    dtype = tables.log_q[0].dtype
    both = Members.of([tables], [member, member], lowered=True)  # a row for each end
    row = both.select([0])
    converged = answer.converged(tolerance, dtype)
    if not converged and member.alpha and row.dead is not None:
        # Where alpha is 0, contexts without mass count as much as others, and must come to
        # their own conditionals. Else the iteration may do better without them.
        (again,) = _checked(row, solve(row, tolerance, max_reads))
        converged = again.converged(tolerance, dtype)
        if converged:
            answer = replace(again, before=answer.spent)
    if not converged:
        return answer
    if not dense(row):
        return _ascertained_by_trial(both, answer, tolerance, within, max_reads)
    bound = bound_by_derivatives(both, answer.solution.log_p)
    if bound is not None and bound <= within:
        return answer
    exact = Balance(row).newton(answer.solution.log_p)
    bound = bound_by_derivatives(both, exact)
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
    bound = bound_by_trial(both, answer.solution.log_p, LOOSE)
    if bound is not None and bound <= within:
        return answer
    initial = unflat(answer.solution.log_p, both.blocks[0].shape)
    row = both.select([0])
    (closer,) = _checked(row, solve(row, CLOSER * tolerance, max_reads, initial))
    marginals = zip(answer.reading.log_marginals, closer.reading.log_marginals, strict=True)
    apart = max(_total_variation(mine, other) for mine, other in marginals)
    return replace(answer, near=apart <= within)


def _apart(answer: _Answer, other: _Answer) -> float:
    """The total variation between the joints of two answers over one block."""
    every = tuple(slice(0, n) for n in answer.rule.log_q[0].shape)
    log_mu = answer.rule(every).double() - answer.reading.log_z
    log_nu = other.rule(every).double() - other.reading.log_z
    return _total_variation(log_mu, log_nu)


def _total_variation(log_p: Tensor, log_q: Tensor) -> float:
    return 0.5 * float((log_p.exp() - log_q.exp()).abs().sum())


def _checked(rows: Members, solutions: Sequence[FixedPoint]) -> list[_Answer]:
    """Rules, readings and checks of all rows; the members of a block share one read of its
    tables.
    """
    marginals = [unflat(solution.log_p, rows.blocks[0].shape) for solution in solutions]
    rules, readings = _read(rows, marginals)
    checks = check_fixed_points(rows, marginals, readings)
    answers = []
    for solution, rule, reading, check in zip(solutions, rules, readings, checks, strict=True):
        answers.append(_Answer(solution=solution, rule=rule, reading=reading, check=check))
    return answers


def _read(
    rows: Members, marginals: Sequence[Marginals]
) -> tuple[list[FamilyRule], list[JointReading]]:
    """The rule of each row and its reading."""
    rules = FamilyRule.of_rows(rows, marginals)
    rules_of_blocks = []
    for block, places in rows.by_block():
        rules_of_blocks.append((rows.blocks[block], rules[places]))
    readings = []
    for of_block in read_rules(rules_of_blocks):
        readings += of_block
    return rules, readings


def _joint(
    name: str, tables: Tables, report: Mapping[str, object], rule: FamilyRule, reading: JointReading
) -> Joint:
    at_the_answer = {
        "log_z": reading.log_z,
        "objective": reading.objective,
        "objective_mean": reading.average_kl,
    }
    return Joint(
        name=name,
        tables=tables,
        rule=rule,
        report={**report, **at_the_answer},
        known_log_z=reading.log_z,
    )
