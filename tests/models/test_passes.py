"""The settings of the process that passes change are restored."""

from __future__ import annotations

import pytest
import torch

from unmask.models.batching import passes
from unmask.models.masked_lm import MaskedLM


def setting() -> tuple[bool, bool]:
    return torch.backends.cuda.cudnn_sdp_enabled(), torch.is_grad_enabled()


@pytest.mark.parametrize("enabled", [True, False])
def test_what_is_set_for_passes_is_as_it_was_afterwards(enabled, tiny_folder):
    @passes()
    def fails():
        with passes():
            assert setting() == (False, False)
        assert setting() == (False, False)
        raise KeyError

    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(enabled)
    try:
        for _ in range(2):
            with pytest.raises(KeyError):
                fails()
            assert setting() == (enabled, True)
        model = MaskedLM.load(tiny_folder)
        for _ in model.substitutions([model.mask_id] * 3, [0], torch.tensor([[0], [1]]), 1):
            assert setting() == (enabled, True)
        assert setting() == (enabled, True)
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)
