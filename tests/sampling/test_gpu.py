"""The same claims on a GPU: the enumerated matrices of the running code, and chains that do not depend on their company."""

import pandas
import pytest
import torch
from sampling_cases import gap_to_invariance, of

from unmask.models.masked_lm import MaskedLM
from unmask.models.tabular import TabularMLM
from unmask.sampling.draw import draw
from unmask.sampling.energy import Energy
from unmask.sampling.enumeration import target_law, transition_matrix
from unmask.sampling.kernels.block import ProductBlock
from unmask.sampling.kernels.gibbs import PseudoGibbs
from unmask.sampling.kernels.metropolis import MetropolisHastings
from unmask.sampling.kernels.pair_joint import PairJoint
from unmask.sampling.kernels.sequential_block import SequentialBlock
from unmask.sampling.registry import KERNELS
from unmask.sampling.settings import SampleSettings
from unmask.sampling.target import Target

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture(scope="module")
def tiny_on_gpu(tiny_folder):
    return MaskedLM.load(tiny_folder, device="cuda")


def target_on_gpu(kind="norm"):
    model = TabularMLM(TabularMLM.random(2, 3, 7).table.cuda())
    return Target(model, [model.mask_id] * 3, Energy(kind))


@pytest.mark.parametrize("kind", ["raw", "norm"])
@pytest.mark.parametrize(
    ("kernel", "options", "sites"),
    [
        (MetropolisHastings, {}, [1]),
        (MetropolisHastings, {"delayed": (0,)}, [1]),
        (ProductBlock, {}, [0, 2]),
        (SequentialBlock, {}, [2, 0]),
        (PairJoint, {"candidates": 2}, [0, 1]),
    ],
)
def test_kernels_keep_the_target(kernel, options, sites, kind):
    target = target_on_gpu(kind)
    matrix = transition_matrix(of(kernel, target, **options), torch.tensor(sites))
    assert gap_to_invariance(target_law(target).cpu(), matrix) < 1e-12


def test_pseudo_gibbs_does_not():
    target = target_on_gpu()
    assert gap_to_invariance(target_law(target).cpu(), transition_matrix(of(PseudoGibbs, target), torch.tensor([1]))) > 1e-3


@pytest.mark.parametrize("kernel", KERNELS)
def test_runs_do_not_depend_on_how_many_chains_run_at_once(tiny_on_gpu, kernel):
    settings = SampleSettings(kernel=kernel, chains=5, sweeps=3, length=(4, 6), candidates=3, decoding_steps=3)
    together, alone = draw(settings, tiny_on_gpu), draw(settings, tiny_on_gpu, chains_at_once=1)
    pandas.testing.assert_frame_equal(together.samples, alone.samples)


def test_a_stopped_run_goes_on(tiny_on_gpu, tmp_path, stop_at):
    settings = SampleSettings(chains=4, sweeps=6, length=(5,))
    with pytest.raises(KeyboardInterrupt):
        draw(settings, tiny_on_gpu, tmp_path, progress=stop_at(3))
    pandas.testing.assert_frame_equal(draw(settings, tiny_on_gpu, tmp_path).samples, draw(settings, tiny_on_gpu).samples)
