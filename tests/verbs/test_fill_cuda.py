"""The lattice, the search and whole words on a GPU against a CPU; skipped where there is none."""

import pytest
import torch

import unmask
from unmask.common.border.options import arguments
from unmask.tables.conditionals import Conditionals, regular_tokens
from unmask.tables.lattice import along_orders, lattice, random_orders

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def on_gpu() -> unmask.MaskedLM:
    return unmask.MaskedLM.load(device="cuda")


def test_all_orders_of_a_sentence(english, on_gpu):
    ids = torch.tensor([english.words.encode("A dog runs in the park.")])
    sites = torch.arange(1, 7)[None]
    orders = random_orders(1, 20, 6, torch.Generator().manual_seed(0))
    of_cpu, of_gpu = (Conditionals(model, regular_tokens(model)) for model in (english, on_gpu))
    expected, revealed = lattice(of_cpu, ids, sites), lattice(of_gpu, ids, sites)
    assert of_gpu.passes == 63
    assert revealed.log_mean.item() == pytest.approx(expected.log_mean.item(), abs=1e-3)
    sampled = along_orders(of_gpu, ids, sites, orders)[0].cpu()
    torch.testing.assert_close(
        sampled, along_orders(of_cpu, ids, sites, orders)[0], rtol=0, atol=1e-3
    )
    shuffled = ids[:, [0, 2, 1, *range(3, ids.shape[1])]]
    assert abs(lattice(of_gpu, shuffled, sites).log_mean.item() - expected.log_mean.item()) > 0.1


@pytest.mark.parametrize(
    "text", ["A [MASK] of [MASK] and [MASK].", "She plays the [WORD] in a band.", "A [GAP:9]."]
)
def test_fillings(english, on_gpu, text):
    options = {"top": 5, "max_passes": 300, "forbid": ["song"]}
    expected, filling = (
        unmask.fill(text, **arguments(unmask.fill, {"model": model, **options}))
        for model in (english, on_gpu)
    )
    assert [c.text for c in filling.completions[:2]] == [c.text for c in expected.completions[:2]]
    for mine, theirs in zip(filling.completions[:2], expected.completions[:2], strict=True):
        assert mine.log_prob == pytest.approx(theirs.log_prob, abs=1e-3)
