"""Sums in one order, and torch's settings as they were afterwards."""

import pytest
import torch
from torch.utils import deterministic

from unmask.studies.training.fixed_order import compile_options, one_order

CPU = torch.device("cpu")


def in_force():
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        deterministic.fill_uninitialized_memory,
        torch.get_float32_matmul_precision(),
        torch.backends.cuda.cudnn_sdp_enabled(),
    )


def test_what_was_set_before_is_set_afterwards_also_after_an_error():
    before = in_force()
    with pytest.raises(ZeroDivisionError), one_order(torch.device("cuda")):
        assert in_force() == (True, False, False, "high", False)
        raise ZeroDivisionError
    assert in_force() == before
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with one_order(CPU):
            assert in_force()[:3] == (True, False, False)
        assert in_force()[:2] == (True, True)
    finally:
        torch.use_deterministic_algorithms(False)


def test_compiled_code_is_not_chosen_by_a_stopwatch():
    options = compile_options()
    assert options
    assert set(options) <= set(torch._inductor.list_options())
