"""Every construction on tables with zeros, subnormal cells and -inf: a right answer, or one
that says it has not converged.

What is right is written out here in float64, cell by cell, without the solver: eq. 5 as an
iteration, its residual, eq. 4.
"""

from dataclasses import replace
from itertools import permutations, product
from math import factorial, inf

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support import joint_cases
from support.constructions import NAMES
from support.joint_cases import tables_from
from unmask.common.errors import InputError, UnmaskWarning
from unmask.joints.constructions.arnold_gokhale import Member
from unmask.joints.deriving import derive
from unmask.joints.family_solution import members_of
from unmask.joints.joint import not_converged
from unmask.joints.registry import named

pytestmark = pytest.mark.filterwarnings("ignore::unmask.common.errors.UnmaskWarning")
EXPLICIT = [name for name in NAMES if name not in joint_cases.ITERATED]
ITERATED = [*joint_cases.ITERATED, "family:0,0.1", "family:0.2,0.5"]
PLAIN_STEPS = 100
WITHIN = {torch.float64: 5e-4, torch.float32: 2e-3}
"""Total variation of the residual, and the share of the objective, beyond which an answer is
wrong; `tolerance` is 1e-4.
"""


@st.composite
def hard(draw):
    """Two or three blanks, peaked or flat, with cells and masked marginals at zero, or so low
    that they are subnormal.
    """
    k = draw(st.sampled_from([2, 2, 3]))
    shape = tuple(draw(st.integers(2, 8 if k == 2 else 3)) for _ in range(k))
    dtype = draw(st.sampled_from([torch.float64, torch.float32]))
    low = draw(
        st.sampled_from(
            [-inf, -720.0, -745.0, -1e4]
            if dtype == torch.float64
            else [-inf, -90.0, -103.0, -200.0]
        )
    )
    scale = draw(st.sampled_from([0.3, 1.5, 8.0, 60.0]))
    of_cells, of_masked = (draw(st.sampled_from([0.0, 0.1, 0.4])) for _ in range(2))
    return shape, dtype, low, scale, of_cells, of_masked, draw(st.integers(0, 9999))


def made(shape, dtype, low, scale, of_cells, of_masked, seed):
    generator = torch.Generator().manual_seed(seed)

    def logs(sizes, axis, share):
        normal = scale * torch.randn(sizes, generator=generator, dtype=torch.float64)
        logits = normal.masked_fill(
            torch.rand(sizes, generator=generator, dtype=torch.float64) < share, low
        )
        logits = torch.where((logits == -inf).all(axis, keepdim=True), normal, logits)
        return logits.log_softmax(axis).to(dtype)

    k = len(shape)
    tables = tables_from(
        [logs(shape, t, of_cells) for t in range(k)], [logs((n,), 0, of_masked) for n in shape]
    )
    if k == 2:
        return tables
    between = {
        ((s,), t): logs([n if r in (s, t) else 1 for r, n in enumerate(shape)], t, of_cells)
        for s, t in permutations(range(k), 2)
    }
    return replace(tables, log_between=between)


def chain_parts(tables):
    """c_t of every site: the chain rule before t, averaged over all orders, of which those that
    end with t count.
    """
    k = tables.sites
    c = [
        torch.zeros([1 if s == t else n for s, n in enumerate(tables.shape)], dtype=torch.float64)
        for t in range(k)
    ]
    for first, *between, last in permutations(range(k)):
        weight = (
            tables.log_masked[first]
            .double()
            .exp()
            .reshape([-1 if s == first else 1 for s in range(k)])
        )
        for t in between:
            weight = weight * tables.log_between[(first,), t].double().exp()
        c[last] = c[last] + weight / factorial(k)
    return c


def eq_5(q, c, mu, member):
    """(sum_t W_t q_t) / (sum_t I_t) at the marginals of mu; a context without mass adds no
    cells where alpha < 1.
    """
    alpha, restart = member
    above, below = 0.0, 0.0
    for t, (q_t, c_t) in enumerate(zip(q, c, strict=True)):
        m = mu.sum(t, keepdim=True)
        above = above + ((1 - restart) * m**alpha + restart * len(q) * c_t) * q_t
        below = below + (1 - restart) * m ** (alpha - 1) + restart
    return above / below


def plain(tables, member):
    """Eq. 5, as published, from the uniform distribution."""
    q, c = [t.double().exp() for t in tables.log_q], chain_parts(tables)
    mu = torch.ones(tables.shape, dtype=torch.float64) / tables.log_q[0].numel()
    for _ in range(PLAIN_STEPS):
        mu = eq_5(q, c, mu, member)
        mu = mu / mu.sum()
    return mu


def eq_4(tables, log_mu):
    """The divergences of every context summed, from log-probabilities, so that no cell
    underflows.
    """
    total = 0.0
    for t, log_q in enumerate(q.double() for q in tables.log_q):
        log_c = log_mu - log_mu.logsumexp(t, keepdim=True)
        total += float(
            torch.where(log_q == -inf, 0.0, log_q.exp() * (log_q - log_c))
            .nan_to_num(nan=inf, posinf=inf)
            .sum()
        )
    return total


def wrong(joint, member):
    """What is wrong with an answer that says it has converged, if anything is."""
    tables, log_mu = joint.tables, joint.dense().double()
    mu, within = log_mu.exp(), WITHIN[dtype_of(tables)]
    if log_mu.isnan().any() or abs(float(mu.sum()) - 1) > within:
        return f"sums to {float(mu.sum())}"
    q = [t.double().exp() for t in tables.log_q]
    residual = 0.5 * float(
        (eq_5(q, chain_parts(tables), mu, member).nan_to_num(nan=0.0) - mu).abs().sum()
    )
    if residual > within:
        return f"moves by {residual}"
    if member == (0.0, 0.0):
        objective, published = eq_4(tables, log_mu), eq_4(tables, plain(tables, member).log())
        if objective > published + within * max(1.0, published):
            return f"objective {objective} where eq. 5 finds {published}"
    return None


SIDE_BY_SIDE = 5
"""Tables of one kind, solved together, which is far cheaper than one by one."""


@settings(max_examples=3, deadline=None)
@given(hard())
@example(((4, 4), torch.float64, -inf, 8.0, 0.1, 0.4, 5))
def test_iterated_constructions_are_right_or_say_that_they_have_not_converged(case):
    *kind, seed = case
    blocks = [made(*kind, seed + i) for i in range(SIDE_BY_SIDE)]
    for joints in members_of(blocks, {name: named(name).member for name in ITERATED}, max_reads=30):
        for joint in joints:
            assert not joint.dense().isnan().any(), joint
            assert (
                not joint.report["converged"] or wrong(joint, named(joint.name).member) is None
            ), joint


def test_most_hard_tables_converge():
    """A solver that always said it has not would pass the test above."""
    members = {name: named(name).member for name in joint_cases.ITERATED}
    cases = [
        made((5, 4), torch.float64, low, 1.5, 0.1, 0.4, seed)
        for seed in range(3)
        for low in (-inf, -745.0)
    ]
    converged = [
        joint.report["converged"]
        for joints in members_of(cases, members, max_reads=40)
        for joint in joints
    ]
    assert sum(converged) >= 0.9 * len(converged)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_token_that_is_ruled_out_in_every_context_is_no_hindrance(dtype):
    logits = torch.randn((2, 12, 9), generator=torch.Generator().manual_seed(1), dtype=dtype)
    logits[0, 7], logits[1, :, 4] = -inf, -inf
    tables = tables_from([f.log_softmax(t) for t, f in enumerate(logits)])
    (joints,) = members_of([tables], {name: named(name).member for name in ITERATED})
    for joint in joints:
        assert joint.report["converged"]
        assert joint.report["steps"] < 40
        assert wrong(joint, named(joint.name).member) is None
        assert joint.report["restart"] or float(joint.marginals()[0][7]) < 1e-30


def test_an_answer_that_has_not_converged_comes_with_a_warning():
    tables = made((3, 3, 3), torch.float64, -inf, 8.0, 0.1, 0.1, 1)
    with pytest.warns(
        UnmaskWarning,
        match=r"^arnold_gokhale did not converge, and the probabilities are approximate \(",
    ):
        (joint,) = members_of([tables], {"arnold_gokhale": Member(0.0)}, max_reads=2)[0]
    assert not joint.report["converged"]
    assert not_converged([joint])
    assert not not_converged([derive(tables, "chain")])


def dtype_of(tables):
    return tables.log_q[0].dtype


def explicit(name, tables):
    """The unnormalised cells of a construction without iteration, one by one."""
    q, k = [t.double() for t in tables.log_q], tables.sites
    masked = [m.double() for m in tables.log_masked]
    cells = torch.empty(tables.shape, dtype=torch.float64)
    pivot = [int(m.argmax()) for m in tables.log_masked]
    chained = sum(c * table.exp() for c, table in zip(chain_parts(tables), q, strict=True))
    for cell in product(*map(range, tables.shape)):
        if name == "product":
            cells[cell] = sum(float(m[x]) for m, x in zip(masked, cell, strict=True))
        elif name == "chain":
            cells[cell] = chained[cell].log()
        elif name == "hcb":
            cells[cell] = 0.0
            for t in range(k):
                here = (*pivot[:t], *cell[t:])
                cells[cell] += float(q[t][here]) - float(
                    q[t][(*here[:t], pivot[t], *here[t + 1 :])]
                )
        else:
            cells[cell] = sum(float(t[cell]) for t in q)
    return cells


@settings(max_examples=12, deadline=None)
@given(hard())
@pytest.mark.parametrize("name", EXPLICIT)
def test_explicit_constructions_are_their_definition_or_an_error(name, case):
    tables = made(*case)
    expected = explicit(name, tables)
    expected = expected - expected.flatten().logsumexp(0)
    if expected.isnan().any():
        with pytest.raises(
            InputError, match=f"{name} has no joint over these tables: the model rules out"
        ):
            derive(tables, name).dense()
        return
    log_joint = derive(tables, name).dense().double().expand(tables.shape)
    torch.testing.assert_close(
        log_joint.exp(),
        expected.exp(),
        rtol=0,
        atol=1e-9 if dtype_of(tables) == torch.float64 else 1e-4,
    )
