"""The scope of one order of summation: what is in force inside, and nothing of it afterwards."""

from __future__ import annotations

import pytest
import torch
from torch.utils import deterministic

from unmask.training.arithmetic import compile_options, one_order

CPU = torch.device("cpu")


def settings() -> tuple[object, ...]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        deterministic.fill_uninitialized_memory,
        torch.get_float32_matmul_precision(),
        torch.backends.cuda.cudnn_sdp_enabled(),
    )


def test_what_was_set_before_is_set_afterwards_also_after_an_error() -> None:
    before = settings()
    with pytest.raises(ZeroDivisionError), one_order(torch.device("cuda")):
        assert settings() == (True, False, False, "high", False)
        raise ZeroDivisionError
    assert settings() == before
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with one_order(CPU):
            assert settings()[:3] == (True, False, False)
        assert settings()[:2] == (True, True)
    finally:
        torch.use_deterministic_algorithms(False)


def test_what_has_no_fixed_order_is_refused_inside() -> None:
    values, index = torch.zeros(4), torch.zeros(2, dtype=torch.long)
    with one_order(CPU), pytest.raises(RuntimeError, match="deterministic"):
        values.put_(index, torch.ones(2))
    assert values.put_(index, torch.ones(2)).sum() == 1


def test_compiled_code_is_not_chosen_by_a_stopwatch() -> None:
    assert set(compile_options()) <= set(torch._inductor.list_options())
