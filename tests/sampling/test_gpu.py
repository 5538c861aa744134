"""The same claims on a GPU: the enumerated matrices of the running code, and chains that do not
depend on their company.
"""

import pandas
import pytest
import torch
from scipy.stats import chisquare

from support.enumeration import all_texts, energies, target_law, transition_matrix
from support.sampling_cases import gap_to_invariance, of, settings_of, small_target
from unmask.models.masked_lm import MaskedLM
from unmask.models.tabular import TabularMLM
from unmask.sampling.chains.drawing import draw_samples
from unmask.sampling.decoders.ancestral import Ancestral
from unmask.sampling.decoders.confidence import Confidence
from unmask.sampling.decoders.decoder import decode
from unmask.sampling.decoders.entropy_bound import EntropyBound
from unmask.sampling.decoders.lowest_entropy import LowestEntropy
from unmask.sampling.decoders.mask_predict import MaskPredict
from unmask.sampling.decoders.random_sets import RandomSets
from unmask.sampling.energies.with_terms import Energy
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams, counter_words, plain_uniform
from unmask.sampling.engine.token_draw import TokenDraw, plain_draw
from unmask.sampling.engine.triton_programs import uniform_on_gpu
from unmask.sampling.kernels.block import Block
from unmask.sampling.kernels.gibbs import Gibbs
from unmask.sampling.kernels.mh import MH
from unmask.sampling.kernels.sequential_block import SequentialBlock
from unmask.sampling.methods import METHODS
from unmask.sampling.target import Target, blank_template

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", params=["float32", "float16"])
def tiny_on_gpu(request, tiny_folder):
    return MaskedLM.load(tiny_folder, device="cuda", dtype=request.param)


def target_on_gpu(kind="norm"):
    model = TabularMLM(TabularMLM.random(2, 3, 7).table.cuda())
    return Target(model, [model.mask_id] * 3, Energy(kind))


@pytest.mark.parametrize("kind", ["raw", "norm"])
@pytest.mark.parametrize(
    ("kernel", "options", "sites"),
    [
        (MH, {}, [1]),
        (Block, {}, [0, 2]),
        (SequentialBlock, {}, [2, 0]),
    ],
)
def test_kernels_keep_the_target(kernel, options, sites, kind):
    target = target_on_gpu(kind)
    matrix = transition_matrix(of(kernel, target, **options), torch.tensor(sites))
    assert gap_to_invariance(target_law(target).cpu(), matrix) < 1e-12


def test_pseudo_gibbs_does_not():
    target = target_on_gpu()
    assert (
        gap_to_invariance(
            target_law(target).cpu(), transition_matrix(of(Gibbs, target), torch.tensor([1]))
        )
        > 1e-3
    )


def test_uniform_numbers_are_those_of_the_plain_definition():
    chains = torch.tensor([0, 1, 17, 999_999], device="cuda")
    places = torch.arange(70, device="cuda").unsqueeze(0)
    for at in ((0, 0, 0, 0), (2**63 - 1, 10**9, 99_999, 5000), (12345, 1, 16, 1)):
        plain = plain_uniform(counter_words(*at), chains.cpu(), places.cpu())
        assert torch.equal(uniform_on_gpu(counter_words(*at), chains, places).cpu(), plain)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_drawn_tokens_are_those_of_the_plain_twin(dtype, temperature):
    from unmask.sampling.engine.triton_programs import draw_on_gpu

    generator = torch.Generator().manual_seed(0)
    m, vocabulary = 300, 5003
    logits = 3 * torch.randn((m, vocabulary), generator=generator, dtype=dtype)
    support = torch.rand((4, vocabulary), generator=generator) > 0.3
    sites, current = (torch.randint(n, (m,), generator=generator) for n in (4, vocabulary))
    u = torch.rand(m, generator=generator, dtype=torch.float64)
    plain = plain_draw(TokenDraw(logits, support, sites, current, temperature, u))
    on_gpu = [value.cuda() for value in (logits, support, sites, current)]
    fused = draw_on_gpu(TokenDraw(*on_gpu, temperature, u.cuda()))
    assert int((fused.tokens.cpu() != plain.tokens).sum()) <= (0 if dtype == torch.float64 else 1)
    same = fused.tokens.cpu() == plain.tokens
    for one, other in zip(fused[1:], plain[1:], strict=True):
        assert torch.allclose(
            one.cpu()[same], other[same], atol=1e-12 if dtype == torch.float64 else 1e-5
        )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_kept_states_give_the_energies_of_the_forward_pass(tiny_folder, dtype):
    model = MaskedLM.load(tiny_folder, device="cuda", dtype=dtype)
    target = Target(model, blank_template(model, 6))
    kernel = MH().on(target, Passes(model))
    ids = torch.randint(5, 17, (40, 8), generator=torch.Generator().manual_seed(0))
    ids[:, 0], ids[:, -1] = 2, 3
    state, _ = kernel.init(ids)
    assert state.outputs.shape[2] != model.vocab_size, "hidden states are outputs"
    streams = ChainStreams(0, range(40), "cuda")
    for step in range(12):
        kernel.step(state, streams.at(1, step), torch.full((40, 1), step % 6, device="cuda"))
    assert not torch.equal(state.ids.cpu(), ids)
    fresh = energies(model, state.ids)
    assert torch.allclose(state.energy, fresh, atol=1e-4 if dtype == "float32" else 0.2)


def test_drawn_steps_follow_the_enumerated_matrix():
    model = TabularMLM(small_target(seed=14).model.table.cuda())
    target = Target(model, [model.mask_id] * 3)
    kernel, n = of(MH, target), 20000
    matrix = transition_matrix(kernel, torch.tensor([1]))
    state, _ = kernel.init(all_texts(target)[[7]].expand(n, -1))
    kernel.step(
        state,
        ChainStreams(5, range(n), "cuda").at(0, 0),
        torch.ones((n, 1), dtype=torch.long, device="cuda"),
    )
    counts = torch.bincount(state.ids.cpu() @ torch.tensor([9, 3, 1]), minlength=27)
    reached = matrix[7] > 0
    assert int(counts[~reached].sum()) == 0
    expected = (matrix[7][reached] * n).numpy()
    assert chisquare(counts[reached].numpy(), expected * n / expected.sum()).pvalue > 1e-3
    assert chisquare(counts[reached].numpy(), expected[::-1] * n / expected.sum()).pvalue < 1e-6, (
        "and not another one"
    )


def test_chains_do_not_depend_on_how_many_run_at_once(tiny_on_gpu):
    settings = settings_of(chains=100, sweeps=3, length=(6,))
    together = draw_samples(settings, tiny_on_gpu, chains_at_once=1024)
    for at_once in (1, 7):
        pandas.testing.assert_frame_equal(
            together.samples.to_frame(),
            draw_samples(settings, tiny_on_gpu, chains_at_once=at_once).samples.to_frame(),
        )


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        *((name, {}) for name in METHODS if name != "mh"),
        ("mh", {"proposal_temperature": 0.8}),
        ("mask-predict", {"temperature": 0.0}),
    ],
)
def test_runs_of_every_kernel_do_not_depend_on_it_either(tiny_folder, kernel, options):
    model = MaskedLM.load(tiny_folder, device="cuda", dtype="float16")
    settings = settings_of(kernel=kernel, chains=10, sweeps=2, length=(5,), passes=3, **options)
    pandas.testing.assert_frame_equal(
        draw_samples(settings, model).samples.to_frame(),
        draw_samples(settings, model, chains_at_once=7).samples.to_frame(),
    )


@pytest.mark.parametrize(
    ("kernel", "options", "sites"),
    [
        (MH, {}, 1),
        (Gibbs, {}, 1),
        (Block, {}, 2),
        (SequentialBlock, {}, 2),
    ],
)
def test_chains_in_float64_are_those_of_the_processor(kernel, options, sites):
    ends, table, n = [], TabularMLM.random(3, 4, 5).table, 64
    for device in ("cpu", "cuda"):
        model = TabularMLM(table.to(device))
        target = Target(model, [model.mask_id] * 4)
        made = of(kernel, target, **options)
        streams = ChainStreams(3, range(n), device)
        state, _ = made.init(
            streams.at(0, 0).integers(torch.arange(4 * n, device=device) // 4, 3).reshape(n, 4)
        )
        for step in range(6):
            rng = streams.at(1, step)
            made.step(state, rng, rng.permutation(state.rows, 4)[:, :sites])
        ends.append(state.ids.cpu())
    assert torch.equal(*ends)
    assert len(ends[0].unique(dim=0)) > 1


@pytest.mark.parametrize(
    "decoder", [Ancestral, MaskPredict, Confidence, EntropyBound, LowestEntropy, RandomSets]
)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_decoded_texts_in_float64_are_those_of_the_processor(decoder, temperature):
    ends, table, n = [], TabularMLM.random(3, 4, 5).table, 64
    options = {} if decoder is Ancestral else {"passes": 3, "temperature": temperature}
    for device in ("cpu", "cuda"):
        model = TabularMLM(table.to(device))
        made = of(decoder, Target(model, [model.mask_id] * 4), **options)
        ends.append(decode(made, n, ChainStreams(3, range(n), device).at(1, 0))[0].ids.cpu())
    assert torch.equal(*ends)
    assert temperature == 0 or len(ends[0].unique(dim=0)) > 1


@pytest.mark.parametrize("kernel", ["mh", "gibbs", "ancestral", "mask-predict"])
def test_a_stopped_run_goes_on(tiny_on_gpu, tmp_path, stop_at, kernel):
    settings = settings_of(kernel=kernel, chains=4, sweeps=6, length=(5,))
    with pytest.raises(KeyboardInterrupt):
        draw_samples(settings, tiny_on_gpu, tmp_path, progress=stop_at(3))
    pandas.testing.assert_frame_equal(
        draw_samples(settings, tiny_on_gpu, tmp_path).samples.to_frame(),
        draw_samples(settings, tiny_on_gpu).samples.to_frame(),
    )


def test_the_same_chains_whatever_is_kept(tiny_on_gpu):
    target = Target(tiny_on_gpu, blank_template(tiny_on_gpu, 6))
    ids = torch.randint(5, 17, (40, 8), generator=torch.Generator().manual_seed(0))
    ids[:, 0], ids[:, -1] = 2, 3
    ends = []
    for form in ("states", "logits"):
        kernel = MH().on(target, Passes(tiny_on_gpu, form=form))
        state, streams = kernel.init(ids)[0], ChainStreams(0, range(40), "cuda")
        for step in range(18):
            kernel.step(state, streams.at(1, step), torch.full((40, 1), step % 6, device="cuda"))
        ends.append(state.ids)
    assert torch.equal(*ends)
    assert not torch.equal(ends[0].cpu(), ids)
