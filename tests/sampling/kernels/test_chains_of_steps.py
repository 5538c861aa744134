"""The vectorised chains that users run: their law, their caches, and their independence of the
batch.
"""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from support.enumeration import all_texts, energies, target_law, transition_matrix
from support.sampling_cases import (
    NaiveMetropolis,
    fixed_sweep,
    of,
    settings_of,
    site_matrices,
    small_target,
    stationary,
    total_variation,
)
from unmask.common.errors import ModelError
from unmask.models.tabular import TabularMLM
from unmask.sampling.chains.groups import group_runs
from unmask.sampling.energies.with_terms import Energy
from unmask.sampling.engine.passes import Passes, rows_for
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.kernels.block import Block
from unmask.sampling.kernels.gibbs import Gibbs
from unmask.sampling.kernels.mh import MH
from unmask.sampling.kernels.sequential_block import SequentialBlock
from unmask.sampling.kernels.sweep import SweepPlan
from unmask.sampling.target import Target, blank_template


def run(kernel, ids, sweeps, seed=0, chains=None, plan=None, each=None):
    streams = ChainStreams(seed, range(len(ids)) if chains is None else chains)
    plan = plan or SweepPlan(kernel.target.sites)
    state, _ = kernel.init(ids)
    for sweep in range(sweeps):
        sites = plan.draw(streams.at(sweep, 0), state.rows)
        for step in range(plan.steps):
            state, info = kernel.step(state, streams.at(sweep, step + 1), sites[step])
            if each:
                each(state, info)
    return state


KERNELS = [
    (MH, {}, [1]),
    (Gibbs, {}, [2]),
    (Block, {}, [0, 1]),
    (SequentialBlock, {}, [2, 1]),
]


@pytest.mark.parametrize(("kernel_class", "options", "sites"), KERNELS)
def test_drawn_steps_follow_the_enumerated_matrix(kernel_class, options, sites):
    target = small_target(seed=14)
    kernel = of(kernel_class, target, **options)
    matrix = transition_matrix(kernel, torch.tensor(sites))
    texts, start, n = all_texts(target), 7, 4000
    state, _ = kernel.init(texts[[start]].expand(n, -1))
    kernel.step(state, ChainStreams(5, range(n)).at(0, 0), torch.tensor(sites).expand(n, -1))
    counts = torch.bincount(state.ids @ torch.tensor([9, 3, 1]), minlength=27)
    expected = n * matrix[start]
    assert int(counts[expected == 0].sum()) == 0
    common = expected >= 5
    seen = torch.cat([counts[common], counts[~common].sum().unsqueeze(0)])
    weights = torch.cat([expected[common], expected[~common].sum().unsqueeze(0) + 1e-9])
    assert chisquare(seen.numpy(), (weights * n / weights.sum()).numpy()).pvalue > 1e-3


@pytest.mark.parametrize("kind", ["raw", "norm"])
def test_cached_chain_equals_the_uncached_one_token_for_token(kind):
    target = small_target(vocab=4, length=4, seed=2, kind=kind)
    kernel, naive = of(MH, target), NaiveMetropolis(target)
    ids = all_texts(target)[::16].clone()
    streams, state = ChainStreams(3, range(len(ids))), kernel.init(ids)[0]
    for step in range(80):
        sites = torch.full((len(ids), 1), step % 4)
        kernel.step(state, streams.at(0, step), sites)
        ids = naive.step(ids, streams.at(0, step), sites)
        assert torch.equal(state.ids, ids), f"step {step}"
    assert not torch.equal(ids, all_texts(target)[::16])
    assert torch.allclose(state.energy, energies(target.model, state.ids, kind), atol=1e-12)


def test_cached_chain_equals_the_uncached_one_on_a_transformer(tiny):
    target = Target(tiny, blank_template(tiny, 5))
    kernel, naive = of(MH, target), NaiveMetropolis(target)
    ids = torch.tensor([[2, 5, 6, 7, 8, 9, 3], [2, 16, 5, 5, 10, 11, 3]])
    streams, state = ChainStreams(0, range(2)), kernel.init(ids)[0]
    for step in range(60):
        sites = torch.full((2, 1), step % 5)
        kernel.step(state, streams.at(0, step), sites)
        ids = naive.step(ids, streams.at(0, step), sites)
        assert torch.equal(state.ids, ids), f"step {step}"


@pytest.mark.parametrize(
    ("kernel_class", "options", "block"),
    [
        (MH, {}, 1),
        (Gibbs, {}, 1),
        (Block, {}, 2),
        (SequentialBlock, {}, 3),
    ],
)
def test_kept_tables_and_energies_equal_fresh_ones(tiny, kernel_class, options, block):
    target = Target(tiny, blank_template(tiny, 6), Energy("raw"))
    kernel = of(kernel_class, target, **options)
    ids = torch.randint(5, 17, (4, 8), generator=torch.Generator().manual_seed(0))
    ids[:, 0], ids[:, -1] = 2, 3
    state = run(kernel, ids, 5, plan=SweepPlan(6, block_size=block))
    assert not torch.equal(state.ids, ids)
    fresh, _ = of(MH, target).init(state.ids)
    known = state.fresh
    assert torch.allclose(state.terms[known], fresh.terms[known], atol=1e-5)
    assert torch.allclose(state.outputs[known], fresh.outputs[known], atol=1e-4)
    assert kernel_class is Gibbs or bool(known.all())


def test_chains_do_not_depend_on_their_batch(english):
    template = blank_template(english, 6)
    target = Target(english, template)
    words = torch.randint(
        1000, english.vocab_size, (2, 6), generator=torch.Generator().manual_seed(0)
    )
    ids = torch.cat(
        [torch.tensor(template[:1]).expand(2, 1), words, torch.tensor(template[-1:]).expand(2, 1)],
        1,
    )
    kernel = of(MH, target)
    together = run(kernel, ids, 2)
    alone = [run(kernel, ids[c : c + 1], 2, chains=[c]) for c in range(2)]
    assert torch.equal(together.ids, torch.cat([state.ids for state in alone]))
    assert torch.equal(together.energy, torch.cat([state.energy for state in alone]))
    assert not torch.equal(together.ids, ids)


def test_rows_have_the_same_bits_in_any_company(english):
    passes = Passes(english)
    ids = torch.randint(
        1000, english.vocab_size, (37, 9), generator=torch.Generator().manual_seed(1)
    )
    positions = torch.randint(0, 9, (37, 1), generator=torch.Generator().manual_seed(2))
    together = passes.logits(ids, positions)
    assert passes.count == 37
    assert torch.equal(passes.logits(ids[11:12], positions[11:12])[0], together[11])
    backwards = passes.logits(ids.flip(0), positions.flip(0)).flip(0)
    assert torch.equal(backwards, together)


def test_calls_are_never_cut_in_two(english):
    """A call of more rows than the model takes at once would have two shapes, and a row's bits
    would depend on its place.
    """
    passes, most = Passes(english), english.rows_at_once(120, 1)
    assert 1 < most < passes.rows, "the text is long enough for the test to mean anything"
    ids = torch.randint(
        1000, english.vocab_size, (passes.rows, 120), generator=torch.Generator().manual_seed(1)
    )
    positions = torch.arange(1, passes.rows + 1).unsqueeze(1)
    together, backwards = (
        passes.logits(ids, positions),
        passes.logits(ids.flip(0), positions.flip(0)).flip(0),
    )
    assert torch.equal(together, backwards)


def test_total_variation_falls_as_one_over_root_n_for_mh_and_stays_up_for_pseudo_gibbs():
    target = small_target(vocab=2, length=3, seed=2)
    law = target_law(target)
    gibbs_law = stationary(fixed_sweep(site_matrices(of(Gibbs, target))))
    assert total_variation(law, gibbs_law) > 0.05
    sizes = [32, 256, 2048]
    plan = SweepPlan(3, "fixed")

    def distances(kernel):
        ids = all_texts(target)[
            torch.randint(8, (max(sizes),), generator=torch.Generator().manual_seed(0))
        ]
        state = run(kernel, ids, 12, seed=2, plan=plan)
        place = state.ids @ torch.tensor([4, 2, 1])
        parts = [place[: size * (max(sizes) // size)].reshape(-1, size) for size in sizes]
        frequencies = [
            [torch.bincount(p, minlength=8).double() / len(p) for p in part] for part in parts
        ]
        return [float(np.mean([total_variation(f, law) for f in group])) for group in frequencies]

    right, wrong = distances(of(MH, target)), distances(of(Gibbs, target))
    slope = np.polyfit(np.log(sizes), np.log(right), 1)[0]
    assert -0.65 < slope < -0.35, right
    assert right[-1] < 0.04
    assert abs(wrong[-1] - total_variation(law, gibbs_law)) < 0.03
    assert wrong[-1] > 2 * right[-1]


@pytest.mark.parametrize(
    ("scan", "block"), [("random", 1), ("permutation", 1), ("fixed", 2), ("permutation", 3)]
)
def test_sweeps_cover_the_sites(scan, block):
    plan = SweepPlan(7, scan, block)
    sites = plan.draw(ChainStreams(0, range(5)).at(0, 0), torch.arange(5))
    assert sites.shape == (plan.steps, 5, block)
    assert plan.steps * block >= 7
    assert int(sites.min()) >= 0
    assert int(sites.max()) <= 6
    for step in sites:
        for row in step:
            assert len(set(row.tolist())) == block
    if scan in ("fixed", "permutation") and (block == 1 or scan == "fixed"):
        assert all(set(sites[:, c].flatten().tolist()) == set(range(7)) for c in range(5))


def test_rows_of_a_call_follow_the_chains_of_the_target_and_the_tokens_of_the_text(tiny):
    assert [rows_for(tiny, chains) for chains in (1, 7, 8, 31, 32, 500)] == [4, 4, 8, 8, 16, 16]
    assert [Passes(tiny, 4).rows_of_a_call(tokens, 1) for tokens in (8, 48, 49, 96, 97, 400)] == [
        4,
        4,
        2,
        2,
        1,
        1,
    ]


def test_chains_of_many_lengths_are_no_reason_for_large_calls(tiny):
    """Chains of other lengths do not fill the calls of these."""
    settings = settings_of(chains=8, length=(2, 3, 4, 5), sweeps=1)
    assert [run.passes.rows for run in group_runs(settings, tiny)] == [4] * 4


def test_logits_that_are_no_numbers_are_refused():
    model = TabularMLM.random(3, 3, 0)
    model.table[1, 0] = torch.nan
    kernel = of(MH, small_target(model=model))
    with pytest.raises(ModelError, match="not numbers"):
        kernel.init(torch.zeros((1, 3), dtype=torch.long))
