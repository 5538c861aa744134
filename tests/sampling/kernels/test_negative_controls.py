"""What must fail, fails: each wrong kernel is caught by the same measurement that the right
ones pass.
"""

import pytest
import torch

from support.enumeration import all_texts, target_law, transition_matrix
from support.sampling_cases import (
    ChangedOnlyBlock,
    Flipped,
    SubsetEnergy,
    fixed_sweep,
    gap_to_invariance,
    imbalance,
    of,
    permuted_sweep,
    random_scan,
    site_matrices,
    small_target,
    stationary,
    strictly_positive_joint,
    total_variation,
)
from unmask.models.tabular import TabularMLM
from unmask.sampling.kernels.block import Block
from unmask.sampling.kernels.gibbs import Gibbs
from unmask.sampling.kernels.mh import MH

CLEARLY_WRONG = 1e-3


@pytest.mark.parametrize("kind", ["raw", "norm"])
def test_pseudo_gibbs_has_neither_target_and_depends_on_the_order(kind):
    target = small_target(seed=0, kind=kind)
    law = target_law(target)
    matrices = site_matrices(of(Gibbs, target))
    assert gap_to_invariance(law, random_scan(matrices)) > CLEARLY_WRONG
    laws = [
        stationary(m)
        for m in (fixed_sweep(matrices), fixed_sweep(matrices, [2, 1, 0]), permuted_sweep(matrices))
    ]
    assert min(total_variation(law, other) for other in laws) > 0.05
    assert total_variation(laws[0], laws[1]) > 0.01


def test_compatible_conditionals_make_pseudo_gibbs_right_and_leave_the_norm_energy_elsewhere():
    joint = strictly_positive_joint(3, 3, 1)
    target = small_target(model=TabularMLM.from_joint(joint))
    texts = all_texts(target)
    truth = joint[tuple(texts.T)]
    matrices = site_matrices(of(Gibbs, target))
    for matrix in (random_scan(matrices), fixed_sweep(matrices), permuted_sweep(matrices)):
        assert gap_to_invariance(truth, matrix) < 1e-14
    assert total_variation(truth, target_law(target)) > 0.01, (
        "the norm energy's law is not the joint"
    )


@pytest.mark.parametrize("wrong", [Flipped, SubsetEnergy])
@pytest.mark.parametrize("kind", ["raw", "norm"])
def test_wrong_acceptance_is_caught(wrong, kind):
    target = small_target(vocab=2, length=4, seed=0, kind=kind)
    law = target_law(target)
    assert gap_to_invariance(law, random_scan(site_matrices(of(wrong, target)))) > CLEARLY_WRONG
    assert gap_to_invariance(law, random_scan(site_matrices(of(MH, target)))) < 1e-12


def test_reverse_density_over_the_changed_positions_only_is_caught():
    target = small_target(vocab=2, length=3, seed=11)
    law = target_law(target)
    sites = torch.tensor([0, 1])
    wrong = transition_matrix(of(ChangedOnlyBlock, target), sites)
    right = transition_matrix(of(Block, target), sites)
    assert gap_to_invariance(law, wrong) > CLEARLY_WRONG
    assert imbalance(law, wrong) > CLEARLY_WRONG
    assert gap_to_invariance(law, right) < 1e-12


def test_a_block_that_is_chosen_by_the_current_text_is_caught():
    """Every step is right by itself; which one is taken depends on the text, and its
    probability is not in the ratio.
    """
    target = small_target(vocab=2, length=3, seed=11)
    law, texts = target_law(target), all_texts(target)
    steps = [transition_matrix(of(Block, target), torch.tensor(pair)) for pair in ([0, 1], [1, 2])]
    assert max(gap_to_invariance(law, step) for step in steps) < 1e-12
    by_text = torch.stack([steps[int(text.sum()) % 2][row] for row, text in enumerate(texts)])
    assert gap_to_invariance(law, by_text) > CLEARLY_WRONG


def test_retrying_until_accepted_is_caught():
    target = small_target(seed=0)
    law = target_law(target)
    kernel = of(MH, target)
    retried = []
    for i, matrix in enumerate(site_matrices(kernel)):
        state, _ = kernel.init(all_texts(target))
        stay = state.outputs[:, i].log_softmax(-1).exp()[torch.arange(27), state.ids[:, i]]
        accepted = matrix.clone()
        accepted[torch.arange(27), torch.arange(27)] = stay
        retried.append(accepted / accepted.sum(1, keepdim=True))
    assert gap_to_invariance(law, random_scan(retried)) > CLEARLY_WRONG
