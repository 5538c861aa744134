"""Blocks by dependence keep the target, because they do not look at the text; a choice that looks at it does not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations, permutations

import numpy as np
import pytest
import torch
from sampling_cases import CachedPairJoint, gap_to_invariance, imbalance, of, small_target

from unmask.answers.dependence import pair_matrix
from unmask.cloze import Cloze
from unmask.errors import InputError
from unmask.lab.dynamics import parallel_step
from unmask.lab.mask_law import uniform_masks, weighted_masks
from unmask.lab.model import table_model
from unmask.lab.spectrum import stationary_law, total_variation
from unmask.models.tabular import TabularMLM
from unmask.sampling.dependence_blocks import DependenceBlocks, template_dependence
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.enumeration import all_texts, target_law, transition_matrix
from unmask.sampling.kernels.block import ProductBlock
from unmask.sampling.kernels.proposal import Proposal
from unmask.sampling.kernels.sequential_block import SequentialBlock
from unmask.sampling.run.advance import draw
from unmask.sampling.run.groups import groups
from unmask.sampling.run.markov_run import MarkovRun
from unmask.sampling.run.result import load_run
from unmask.sampling.settings import SampleSettings

EXACT = 1e-12


def plan_for(target, shape, scan="permutation", block=2):
    return DependenceBlocks(target.sites, scan, block, shape, template_dependence(target, 8, "pseudo_gibbs").information)


def partition(plan, order):
    return plan.partition(torch.tensor([order]))[:, 0].tolist()


def block_around(plan, site):
    return plan.around(torch.tensor([site]), torch.arange(plan.sites).unsqueeze(0) != site)[0].tolist()


def step_matrices(kernel):
    """The matrix of every ordered block, computed when first asked for."""
    known = {}

    def matrix(block):
        key = tuple(block)
        if key not in known:
            known[key] = transition_matrix(kernel, torch.tensor(key))
        return known[key]

    return matrix


@cache
def small_chain(kernel_class, kind="norm"):
    """Four binary sites, and the matrices of their blocks: computed once for all tests."""
    target = small_target(vocab=2, length=4, seed=4, kind=kind)
    return target, step_matrices(of(kernel_class, target, **({"candidates": 2} if kernel_class is CachedPairJoint else {})))


def in_any_order(matrix, block):
    orders = list(permutations(block))
    return sum(matrix(order) for order in orders) / len(orders)


def sweep_matrix(plan, matrix):
    """The sweep averaged over the random order of the sites and the random order within each block."""
    orders = list(permutations(range(plan.sites)))
    total = 0
    for order in orders:
        product = torch.eye(len(matrix((0, 1))), dtype=torch.float64)
        for block in partition(plan, order):
            product = product @ in_any_order(matrix, block)
        total = total + product
    return total / len(orders)


def random_step(plan, matrix):
    blocks = [block_around(plan, site) for site in range(plan.sites)]
    return sum(in_any_order(matrix, block) for block in blocks) / len(blocks)


@pytest.mark.parametrize(
    ("kernel_class", "shape", "kind"),
    [
        (ProductBlock, "independent", "norm"),
        (ProductBlock, "dependent", "raw"),
        (SequentialBlock, "dependent", "norm"),
        (CachedPairJoint, "dependent", "norm"),
    ],
)
def test_sweeps_and_steps_by_dependence_keep_the_target(kernel_class, shape, kind):
    target, matrix = small_chain(kernel_class, kind)
    law, plan = target_law(target), plan_for(target, shape)
    assert gap_to_invariance(law, sweep_matrix(plan, matrix)) < EXACT
    assert gap_to_invariance(law, random_step(plan, matrix)) < EXACT
    assert imbalance(law, random_step(plan, matrix)) < 1e-15


def test_a_choice_by_the_current_text_without_its_probability_in_the_ratio_does_not():
    """The pair that depends most (least) on each other given the rest of the text *as it is now*, redrawn by right kernels."""
    target, _ = small_chain(SequentialBlock)
    law, texts = target_law(target), all_texts(target)
    clozes = [Cloze((2,) * 4, (0, 1, 2, 3), tuple(text)) for text in texts.tolist()]
    measured = [pair_matrix(target.model, cloze, 2, "text").information for cloze in clozes]
    for kernel_class, choose in ((SequentialBlock, max), (ProductBlock, min)):
        _, matrix = small_chain(kernel_class)
        blocks = [choose(combinations(range(4), 2), key=lambda pair, m=m: float(m[pair])) for m in measured]
        redrawn = {block: in_any_order(matrix, block) for block in set(blocks)}
        assert len(redrawn) > 1
        assert gap_to_invariance(law, torch.stack([redrawn[block][row] for row, block in enumerate(blocks)])) > 1e-3
        for right in redrawn.values():
            assert gap_to_invariance(law, right) < EXACT, "each kernel by itself is right"


def paired_joint(strong, weak):
    """Four binary sites, 0-2 and 1-3 joined strongly, the others weakly."""
    spins = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    log_p = torch.zeros([2] * 4, dtype=torch.float64)
    for a, b in combinations(range(4), 2):
        shape_a, shape_b = ([-1 if t == s else 1 for t in range(4)] for s in (a, b))
        log_p = log_p + (strong if (a, b) in ((0, 2), (1, 3)) else weak) * spins.reshape(shape_a) * spins.reshape(shape_b)
    return log_p.flatten().softmax(0).reshape([2] * 4)


def test_strong_pairs_are_joined_for_joint_proposals_and_kept_apart_for_product_ones():
    target = small_target(model=TabularMLM.from_joint(paired_joint(1.0, 0.1)))
    together, apart = plan_for(target, "dependent"), plan_for(target, "independent")
    for order in permutations(range(4)):
        assert {frozenset(b) for b in partition(together, order)} == {frozenset({0, 2}), frozenset({1, 3})}
        assert not {frozenset(b) for b in partition(apart, order)} & {frozenset({0, 2}), frozenset({1, 3})}


def second_eigenvalue(law, matrix):
    root = law.sqrt()
    symmetric = root.unsqueeze(1) * matrix / root
    return float(torch.linalg.eigvalsh((symmetric + symmetric.T) / 2)[-2])


@pytest.mark.parametrize("kernel_class", [SequentialBlock, ProductBlock])
def test_what_the_choice_does_to_mixing(kernel_class):
    """The gap of one random step, exactly: dependent pairs mix best, with either proposal, and independent ones worst:
    what holds the chain up is then never redrawn together."""
    target = small_target(model=TabularMLM.from_joint(paired_joint(0.8, 0.02)))
    law = target_law(target)
    matrix = step_matrices(of(kernel_class, target))
    scattered = sum(in_any_order(matrix, b) for b in combinations(range(4), 2)) / 6
    window = sum(in_any_order(matrix, (s, s + 1)) for s in range(3)) / 3
    dependent, independent = (random_step(plan_for(target, shape), matrix) for shape in ("dependent", "independent"))
    gap = [1 - second_eigenvalue(law, m) for m in (dependent, scattered, window, independent)]
    assert gap[0] > 2 * gap[1] > 4 * gap[2] > 4 * gap[3]
    assert gap[0] > (0.3 if kernel_class is SequentialBlock else 0.2), "joint proposals more so"


def test_steps_that_nobody_corrects_should_be_of_independent_pairs():
    """The parallel step, always accepted: how far its law is from p by which pairs it draws at once."""
    p = paired_joint(0.8, 0.02)
    target = small_target(model=TabularMLM.from_joint(p))
    model = table_model(p.numpy())
    distance = {}
    for shape in ("independent", "dependent"):
        pairs = {tuple(sorted(block_around(plan_for(target, shape), site))): 1.0 for site in range(4)}
        step = parallel_step(model, weighted_masks(model.space, pairs))
        distance[shape] = total_variation(stationary_law(step), model.p)
    scattered = total_variation(stationary_law(parallel_step(model, uniform_masks(model.space, 2))), model.p)
    assert distance["independent"] < 0.01 < 0.1 < scattered < 0.2 < distance["dependent"]


def test_the_measure_is_that_of_the_template_and_within_the_allowed_tokens():
    model = TabularMLM.random(4, 3, 2)
    target = small_target(model=model, allowed={0: [1, 3]})
    found = template_dependence(target, 3, "pseudo_gibbs")
    sets = [torch.tensor([1, 3])]
    for site in (1, 2):
        logits = model.logits(torch.tensor([[4, 4, 4]]), torch.tensor([[site]]))[0, 0]
        sets.append(logits.topk(3).indices.sort().values)
    expected = pair_matrix(model, Cloze((4, 4, 4), (0, 1, 2)), sets)
    assert torch.equal(found.information, expected.information) and found.passes == expected.passes + 1


@pytest.mark.parametrize("scan", ["permutation", "random", "fixed"])
@pytest.mark.parametrize(("sites", "block"), [(6, 2), (7, 2), (7, 3), (3, 3)])
def test_blocks_are_distinct_sites_and_sweeps_leave_none_out(scan, sites, block):
    generator = torch.Generator().manual_seed(1)
    half = torch.rand((sites, sites), generator=generator)
    plan = DependenceBlocks(sites, scan, block, "dependent", half + half.T)
    drawn = plan.draw(ChainStreams(0, range(50)).at(1, 0), torch.arange(50))
    assert drawn.shape == (plan.steps, 50, block)
    for chain in range(50):
        blocks = drawn[:, chain].tolist()
        assert all(len(set(b)) == block for b in blocks)
        if scan != "random":
            assert {s for b in blocks for s in b} == set(range(sites))
    if scan != "fixed":
        assert len({tuple(drawn[0, chain].tolist()) for chain in range(50)}) > 1


def test_drawn_sweeps_are_partitions_of_the_plan():
    target = small_target(vocab=2, length=4, seed=3)
    plan = plan_for(target, "dependent")
    possible = {frozenset(map(frozenset, partition(plan, order))) for order in permutations(range(4))}
    drawn = plan.draw(ChainStreams(3, range(200)).at(1, 0), torch.arange(200))
    assert {frozenset(map(frozenset, drawn[:, c].tolist())) for c in range(200)} == possible


def partition_by_a_loop(preference, size, order):
    """One order by itself, as the definition reads."""
    sites = range(len(order))
    left, blocks = set(sites), []
    for site in order:
        if site not in left:
            continue
        block = [site]
        left.discard(site)
        while len(block) < size:
            choice = sorted(left) or [s for s in sites if s not in block]
            block.append(max(choice, key=lambda s, b=block: (float(preference[b, s].mean()), -s)))
            left.discard(block[-1])
        blocks.append(block)
    return blocks


@pytest.mark.parametrize(("sites", "size"), [(6, 2), (7, 3), (5, 4)])
@pytest.mark.parametrize("shape", ["dependent", "independent"])
def test_partitions_of_many_orders_are_those_of_each(sites, size, shape):
    generator = torch.Generator().manual_seed(sites)
    half = torch.randint(4, (sites, sites), generator=generator).double()
    plan = DependenceBlocks(sites, "permutation", size, shape, half + half.T)
    orders = torch.stack([torch.randperm(sites, generator=generator) for _ in range(60)])
    found = plan.partition(orders).transpose(0, 1).tolist()
    assert found == [partition_by_a_loop(plan.preference, size, order) for order in orders.tolist()]
    assert found != [partition_by_a_loop(-plan.preference, size, order) for order in orders.tolist()], "and not the others"


@pytest.mark.parametrize("kernel", ["block", "sequential-block", "pair-joint"])
def test_a_run_counts_the_passes_of_the_measure_and_goes_on_after_a_stop(tiny, tmp_path, stop_at, kernel):
    settings = SampleSettings(
        kernel=kernel, block_shape="dependent", template="the [MASK] [MASK] on [MASK] [MASK]", chains=3, sweeps=4, candidates=3
    )
    whole = draw(settings, tiny)
    with pytest.raises(KeyboardInterrupt):
        draw(settings, tiny, tmp_path / "run", progress=stop_at(2))
    resumed = draw(settings, tiny, tmp_path / "run")
    for other in (resumed, load_run(tmp_path / "run"), draw(settings, tiny, chains_at_once=2)):
        assert np.array_equal(np.stack(other.samples["ids"]), np.stack(whole.samples["ids"]))
        assert other.samples.sort_values(["chain", "sweep"])["passes"].tolist() == whole.samples["passes"].tolist()
    measured, plain = (spent_at_the_start(replace(settings, block_shape=shape), tiny) for shape in ("dependent", "window"))
    assert measured - plain == 1 + 6 * (1 + 3 + 3), "six pairs of three tokens each, and the pass that chose the tokens"


def spent_at_the_start(settings, model):
    group, passes, proposal = groups(settings, model)[0][0], Passes(model), Proposal()
    kernel = settings.entry.build(target=group.target, passes=passes, proposal=proposal, **vars(settings))
    return int(MarkovRun(settings, group, passes, kernel, proposal).spent.sum())


def test_what_is_refused(tiny):
    with pytest.raises(InputError, match="block_shape was given, which kernel mh does not use"):
        SampleSettings.given(block_shape="dependent")
    with pytest.raises(InputError, match="blocks of 1 by dependence, which is between two positions"):
        SampleSettings(kernel="block", block_size=1, block_shape="independent")
    with pytest.raises(InputError, match="blocks of 5 in a text of 4"):
        draw(SampleSettings(kernel="block", block_size=5, block_shape="independent", length=(4,), chains=1, sweeps=1), tiny)
