"""Every kernel that claims a target keeps it, by the transition matrix of its own step on
enumerable models.
"""

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from support.enumeration import all_texts, target_law, transition_matrix
from support.sampling_cases import (
    fixed_sweep,
    gap_to_invariance,
    imbalance,
    of,
    permuted_sweep,
    random_scan,
    site_matrices,
    small_target,
)
from unmask.models.tabular import TabularMLM
from unmask.sampling.energies.with_terms import Energy
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.kernels.block import Block
from unmask.sampling.kernels.mh import MH
from unmask.sampling.kernels.sequential_block import SequentialBlock
from unmask.sampling.target import Target

EXACT = 1e-12
seeds = st.integers(0, 10**6)


@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(
    seeds,
    st.sampled_from(["raw", "norm"]),
    st.sampled_from([1.0, 0.6, 1.7]),
    st.sampled_from([1.0, 1.4]),
)
def test_single_site_scans_keep_the_target(seed, kind, temperature, proposal_temperature):
    target = small_target(seed=seed, kind=kind)
    law = target_law(target, temperature)
    kernel = of(
        MH,
        target,
        energy_temperature=temperature,
        proposal_temperature=proposal_temperature,
    )
    matrices = site_matrices(kernel)
    for matrix in (random_scan(matrices), fixed_sweep(matrices), permuted_sweep(matrices)):
        assert float((matrix.sum(1) - 1).abs().max()) < 1e-14
        assert gap_to_invariance(law, matrix) < EXACT
    assert imbalance(law, random_scan(matrices)) < 1e-15
    assert imbalance(law, fixed_sweep(matrices)) > 1e-6, (
        "a fixed sweep is invariant without detailed balance"
    )


@pytest.mark.parametrize("kind", ["raw", "norm"])
@pytest.mark.parametrize("kernel_class", [Block, SequentialBlock])
@pytest.mark.parametrize("sites", [[0, 1], [2, 0]])
def test_blocks_keep_the_target(kernel_class, sites, kind):
    target = small_target(seed=11, kind=kind)
    law = target_law(target)
    matrix = transition_matrix(of(kernel_class, target), torch.tensor(sites))
    assert gap_to_invariance(law, matrix) < EXACT
    assert imbalance(law, matrix) < 1e-15


def test_sequential_blocks_of_three_keep_the_target():
    target = small_target(vocab=2, length=4, seed=5)
    matrix = transition_matrix(of(SequentialBlock, target), torch.tensor([3, 0, 2]))
    assert gap_to_invariance(target_law(target), matrix) < EXACT


def test_matrix_of_the_code_equals_the_formula():
    """min(1, exp(E(x) - E(y)) q(x_i) / q(y_i)) q(y_i), written out with loops over the tables."""
    model = TabularMLM.random(3, 3, 21)
    target = small_target(model=model, kind="norm")
    log_q = model.table.log_softmax(-1)
    texts = [tuple(t) for t in all_texts(target).tolist()]

    def conditional(x, i):
        return log_q[(i, *x[:i], 3, *x[i + 1 :])]

    energy = {x: -sum(float(conditional(x, t)[x[t]]) for t in range(3)) for x in texts}
    for i in range(3):
        expected = torch.zeros(27, 27, dtype=torch.float64)
        for a, x in enumerate(texts):
            for token in range(3):
                y = (*x[:i], token, *x[i + 1 :])
                q = conditional(x, i)
                log_accept = min(0.0, energy[x] - energy[y] + float(q[x[i]] - q[token]))
                flow = float(torch.exp(q[token] + log_accept))
                expected[a, texts.index(y)] += flow
                expected[a, a] += float(q[token].exp()) - flow
        got = transition_matrix(of(MH, target), torch.tensor([i]))
        assert float((got - expected).abs().max()) < 1e-13


def test_constraints_and_user_terms_are_part_of_the_target():
    model = TabularMLM.random(3, 3, 6)
    energy = Energy("norm", (lambda ids: 0.7 * (ids[:, 0] == ids[:, 2]).double(),))
    target = Target(model, [3, 1, 3], energy, allowed={0: [0, 2]})
    law = target_law(target, 1.3)
    texts = all_texts(target)
    assert len(texts) == 6
    assert set(texts[:, 0].tolist()) == {0, 2}
    assert set(texts[:, 1].tolist()) == {1}
    free = small_target(model=model)
    everything = {
        tuple(t): e
        for t, e in zip(all_texts(free).tolist(), (-target_law(free).log()).tolist(), strict=True)
    }
    weights = torch.tensor(
        [-(everything[tuple(t)] + 0.7 * (t[0] == t[2])) / 1.3 for t in texts.tolist()],
        dtype=torch.float64,
    )
    assert torch.allclose(law, weights.softmax(0), atol=1e-14), (
        "the free model given the constraints"
    )
    matrix = fixed_sweep(site_matrices(of(MH, target, energy_temperature=1.3)))
    assert gap_to_invariance(law, matrix) < EXACT
    assert (
        gap_to_invariance(
            law,
            transition_matrix(
                of(SequentialBlock, target, energy_temperature=1.3), torch.tensor([0, 1])
            ),
        )
        < EXACT
    )


def test_special_tokens_are_outside_proposal_and_target():
    model = TabularMLM.random(4, 2, 9)
    model.special_ids = (0, 2)
    target = small_target(model=model)
    texts = all_texts(target)
    assert set(texts.flatten().tolist()) == {1, 3}
    matrix = random_scan(site_matrices(of(MH, target)))
    assert gap_to_invariance(target_law(target), matrix) < EXACT


def test_passes_of_a_step_are_counted_as_the_cost_model_says():
    target = small_target(seed=7, kind="raw")
    passes = Passes(target.model)
    kernel = MH().on(target, passes)
    state, spent = kernel.init(all_texts(target))
    assert spent.tolist() == [3] * 27
    assert passes.count == 81
    state, info = kernel.step(
        state, ChainStreams(0, range(27)).at(0, 0), torch.zeros((27, 1), dtype=torch.long)
    )
    assert info.passes.tolist() == [2 * int(p) for p in info.proposed[:, 0]]
    assert passes.count == 81 + int(info.passes.sum())
