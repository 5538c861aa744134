"""Exponentials and sums of logarithms in as few operations as a GPU has for them; float32."""

from __future__ import annotations

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
LOWEST = tl.constexpr(-3e38)
SMALLEST = tl.constexpr(1e-37)
"""The lowest number, which differs from -inf, and the smallest that does not count as zero."""


@triton.jit
def exp(x):
    """e^x as 2^(x log2 e), one operation beside the product; below 1e-38 it is zero."""
    return tl.exp2(x * LOG2_E)


@triton.jit
def weighed(log_q, r):
    """q r, which is 0 where q = 0, also for an r of -inf, and -inf for that r elsewhere, however small q is."""
    return tl.where(log_q == float("-inf"), 0.0, tl.maximum(exp(log_q), SMALLEST) * r)


@triton.jit
def reciprocal(x):
    """1 / x of a positive x, to 3e-7 of itself."""
    root = tl.rsqrt(x)
    return root * root


@triton.jit
def log_add(p, q):
    """log(e^p + e^q) = max + log(1 + t), t = e^-|p - q|; log(1 + t) / t is a polynomial here, within 1.4e-7 for t from 0 to 1.

    Of two zeros it is -inf.
    """
    t = exp(-tl.abs(tl.maximum(p, LOWEST) - q))
    s = 0.036084711 + t * -0.0064526298
    s = 0.16764854 + t * (-0.095323034 + t * s)
    s = 0.3317984 + t * (-0.2407312 + t * s)
    s = 0.9999964 + t * (-0.49987406 + t * s)
    return tl.maximum(p, q) + t * s
