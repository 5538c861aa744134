from __future__ import annotations

import pytest
import torch

from unmask.models.batching import passes
from unmask.models.masked_lm import MaskedLM


def setting() -> tuple[bool, bool]:
    return torch.backends.cuda.cudnn_sdp_enabled(), torch.is_grad_enabled()


@pytest.fixture(params=[True, False])
def before(request):
    found = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(request.param)
    yield request.param, True
    torch.backends.cuda.enable_cudnn_sdp(found)


def test_what_is_set_for_passes_is_as_it_was_afterwards(before):
    with passes():
        assert setting() == (False, False)
        with passes():
            assert setting() == (False, False)
        assert setting() == (False, False)
    assert setting() == before


def test_also_after_an_error_and_around_each_call_of_a_function(before):
    @passes()
    def fails():
        assert setting() == (False, False)
        raise KeyError

    for _ in range(2):
        with pytest.raises(KeyError):
            fails()
        assert setting() == before


def test_a_model_that_is_loaded_and_run_leaves_them(before, tiny_folder):
    model = MaskedLM.load(tiny_folder)
    model.logits(torch.tensor([[model.mask_id] * 3]), torch.tensor([[1]]))
    for _ in model.substitutions([model.mask_id] * 3, [0], torch.tensor([[0], [1]]), 1):
        assert setting() == before
    assert setting() == before
