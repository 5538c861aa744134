"""Ends of an interval around a computed log-probability."""

from math import inf

import pytest
import torch

from unmask.tables.rounding import ERROR_OF_PASS, Rounding

FORMATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", FORMATS)
def test_every_factor_adds_the_error_of_a_pass_and_the_number_its_own(dtype):
    rounding = Rounding.of(dtype)
    kept = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32)
    error = 3 * ERROR_OF_PASS[dtype] + kept.eps * 40
    assert rounding.low(-40.0, 3) == pytest.approx(-40 - error, rel=1e-15)
    assert rounding.high(-40.0, 3) == pytest.approx(-40 + error, rel=1e-15)


def test_coarser_formats_have_larger_errors():
    errors = [Rounding.of(dtype).factor for dtype in FORMATS]
    assert errors == sorted(errors)


def test_a_probability_is_at_most_1_and_0_stays_0():
    rounding = Rounding.of(torch.float32)
    assert rounding.high(-1e-9, 2) == 0
    assert rounding.low(0.0, 2) < 0
    assert rounding.low(-inf, 2) == rounding.high(-inf, 2) == -inf
