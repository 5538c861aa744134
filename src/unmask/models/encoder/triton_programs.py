"""An encoder layer's operations on a GPU, as Triton programs.

Attention           softmax(Q K^T / sqrt(d)) V (`short_attention`, `long_attention`)
Rotary positions    (`turned`; `short_attention` turns by itself)
Norm of a sum       N(x + r) (`add_norm`)
Linear map          act(x W^T + b), or act(x G^T + c) * (x U^T + b) (`linear_activated`)

The activation is within the product: a separate one reads and writes the widest states of an
encoder again. cuBLAS has only the GELU with tanh within its products. Here, with z = |x|,

    GELU(x) = x Phi(x) = max(x, 0) - z Phi(-z),       Phi(-z) = 2^P(z),

P of degree 6, closest to log2 Phi(-z) in the GELU that it makes: within 1e-7, a thousandth of
what half precision rounds off. From z = 6 on GELU is max(x, 0) to 1e-8.

Products in float32 run on tensor cores, too, which read only the first 11 bits of a factor. Of
x = x1 + x2 and w = w1 + w2, where x1 and w1 have 11 bits,

    x w = x1 w1 + x1 w2 + x2 w1        up to 2^-22 of it.

Tensor cores do not round where they add, they cut off. So only DEEP terms are added there, and
such sums by plain additions. The result is about as near to the exact one as that of a plain
product, in about half the time or less. Weights that were stored in half precision have w2 = 0,
and its product is left out.

Sizes in capitals are known when a program is compiled. Axes of tensors that a program reads
through addresses are given as strides, in numbers.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary
from triton.tools.tensor_descriptor import TensorDescriptor

from unmask.models.encoder.layers import SHORT, Turn
from unmask.models.encoder.linear_maps import Rows

PROGRAM = {"TALL": 128, "WIDE": 256, "DEEP": 64, "TOGETHER": 8, "num_warps": 8, "num_stages": 3}
"""A tile has TALL x WIDE numbers, as many as registers hold, computed with DEEP terms of each at
a time. TOGETHER lines of tiles go column by column, so that they find both factors near.
"""
IN_PARTS = {**PROGRAM, "WIDE": 128, "DEEP": 32}  # The same in float32
LEADING = tl.constexpr(-(1 << 13))
"""The bits of a float32 that are its sign, its exponent and the first bits of its fraction."""
TILE = 64  # Queries of a program of attention in long texts, and keys that it takes at a time
LEAST_TOKENS = 16  # Of a program of short attention; a shorter text is padded to it
ONE_WARP = 32  # Tokens of the longest text whose short attention one warp computes
LOG2_E = 1.4426950408889634
DIVISOR = 8  # Widths must be multiples of it, for lines to be loaded by their address
AMPERE = 8  # The compute capability from which on tensor cores read float32
HOPPER = 9
"""The compute capability whose registers and memory the tiles are made for; elsewhere an
activation is an operation by itself.
"""
INTERPRETED = 3  # Programs of a product at once, where there is no GPU


def short_attention(
    queries: Float[Tensor, "n T d"],
    keys: Float[Tensor, "n T k"],
    values: Float[Tensor, "n T k"],
    heads: int,
    turn: Turn | None = None,
    window: int | None = None,
) -> Float[Tensor, "n T d"]:
    """Attention of every text over itself, queries and keys turned by `turn`; the three may be
    slices of one tensor.

    There is one program per text and head, with everything in registers: kernels made for long
    texts work on tiles of 64 or 128 tokens, most of which is padding for a sentence of 16.
    """
    if keys.stride() != values.stride():  # the program reads both by the same strides
        keys = keys.contiguous()
        values = values.contiguous()
    queries = _with_adjacent_features(queries)
    keys = _with_adjacent_features(keys)
    values = _with_adjacent_features(values)
    n, length, width = queries.shape
    out = torch.empty((n, length, width), dtype=queries.dtype, device=queries.device)
    head_width = width // heads
    cos, sin = (queries, queries) if turn is None else turn  # without a turn they are not read
    if window is None:
        window = SHORT  # no two tokens are further apart
    in_parts = queries.dtype == torch.float32
    precision = "tf32x3" if in_parts else "ieee"
    warps = 1 if length <= ONE_WARP else 4
    _attend[(n, heads)](
        queries=queries,
        keys=keys,
        values=values,
        out=out,
        cos=cos,
        sin=sin,
        text_stride=queries.stride(0),
        token_stride=queries.stride(1),
        key_text_stride=keys.stride(0),
        key_token_stride=keys.stride(1),
        out_text_stride=out.stride(0),
        out_token_stride=out.stride(1),
        length=length,
        window=window,
        scale=head_width**-0.5,
        TOKENS=max(LEAST_TOKENS, triton.next_power_of_2(length)),
        WIDTH=head_width,
        TURNED=turn is not None,
        PRECISION=precision,
        num_warps=warps,
    )
    return out


def _with_adjacent_features(x: Float[Tensor, "n T d"]) -> Float[Tensor, "n T d"]:
    """The same numbers, those of a token next to each other, as programs read them."""
    return x if x.stride(-1) == 1 else x.contiguous()


@triton.jit(do_not_specialize=["length", "window"])
def _attend(
    queries,
    keys,
    values,
    out,
    cos,
    sin,
    text_stride,
    token_stride,
    key_text_stride,
    key_token_stride,
    out_text_stride,
    out_token_stride,
    length,
    window,
    scale,
    TOKENS: tl.constexpr,
    WIDTH: tl.constexpr,
    TURNED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    # tiles of (TOKENS, WIDTH) numbers: one head of all tokens of a text, the last tokens padding
    text = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    token = tl.arange(0, TOKENS)
    feature = tl.arange(0, WIDTH)
    inside = token < length
    start = queries + text * text_stride + token[:, None] * token_stride + head * WIDTH
    key_start = text * key_text_stride + token[:, None] * key_token_stride + head * WIDTH
    q = tl.load(start + feature[None, :], inside[:, None], 0.0)
    k = tl.load(keys + key_start + feature[None, :], inside[:, None], 0.0)
    v = tl.load(values + key_start + feature[None, :], inside[:, None], 0.0)
    if TURNED:  # (x_1 cos - x_2 sin, x_2 cos + x_1 sin): `other` is the other half of the head
        other = (feature[None, :] + WIDTH // 2) % WIDTH
        angle = token[:, None] * WIDTH + feature[None, :]
        c = tl.load(cos + angle, inside[:, None], 0.0).to(tl.float32)
        s = tl.load(sin + angle, inside[:, None], 0.0).to(tl.float32)
        s = tl.where(feature[None, :] < WIDTH // 2, -s, s)
        q_other = tl.load(start + other, inside[:, None], 0.0)
        k_other = tl.load(keys + key_start + other, inside[:, None], 0.0)
        q = (q.to(tl.float32) * c + q_other.to(tl.float32) * s).to(v.dtype)
        k = (k.to(tl.float32) * c + k_other.to(tl.float32) * s).to(v.dtype)
    seen = inside[None, :] & (tl.abs(token[:, None] - token[None, :]) <= window)
    # (TOKENS, TOKENS): of queries and keys; in float32 each factor is read in two parts
    score = tl.dot(q, tl.trans(k), input_precision=PRECISION)
    score = tl.where(seen, score * scale, float("-inf"))
    weight = tl.exp(score - tl.max(score, 1)[:, None])
    weight = weight / tl.sum(weight, 1)[:, None]
    mixed = tl.dot(weight.to(v.dtype), v, input_precision=PRECISION)
    place = (
        text * out_text_stride + token[:, None] * out_token_stride + head * WIDTH + feature[None, :]
    )
    tl.store(out + place, mixed.to(v.dtype), inside[:, None])


def long_attention(
    queries: Float[Tensor, "n T d"],
    keys: Float[Tensor, "n T k"],
    values: Float[Tensor, "n T k"],
    heads: int,
    window: int | None = None,
) -> Float[Tensor, "n T d"]:
    """Attention of every text over the tokens within the window.

    There is one program per head and TILE queries of a text. It goes over the tiles of keys that
    any of its queries sees, and keeps softmax's sums of those before.
    """
    queries = _with_adjacent_features(queries)
    keys = _with_adjacent_features(keys)
    values = _with_adjacent_features(values)
    n, length, width = queries.shape
    out = torch.empty((n, length, width), dtype=queries.dtype, device=queries.device)
    head_width = width // heads
    tiles = triton.cdiv(length, TILE)
    if window is None:
        window = length
    _attend_long[(n * tiles, heads)](
        queries=queries,
        keys=keys,
        values=values,
        out=out,
        text_stride=queries.stride(0),
        token_stride=queries.stride(1),
        key_text_stride=keys.stride(0),
        key_token_stride=keys.stride(1),
        value_text_stride=values.stride(0),
        value_token_stride=values.stride(1),
        length=length,
        window=window,
        scale=head_width**-0.5 * LOG2_E,  # the program takes powers of 2
        TILE=TILE,
        WIDTH=head_width,
        num_warps=4,
        num_stages=2,
    )
    return out


@triton.jit(do_not_specialize=["length", "window"])
def _attend_long(
    queries,
    keys,
    values,
    out,
    text_stride,
    token_stride,
    key_text_stride,
    key_token_stride,
    value_text_stride,
    value_token_stride,
    length,
    window,
    scale,
    TILE: tl.constexpr,
    WIDTH: tl.constexpr,
):
    tiles = (length + TILE - 1) // TILE
    text = (tl.program_id(0) // tiles).to(tl.int64)
    start = tl.program_id(0) % tiles * TILE
    head = tl.program_id(1)
    i = start + tl.arange(0, TILE)  # places of the queries
    feature = tl.arange(0, WIDTH)
    of_query = (
        queries + text * text_stride + i[:, None] * token_stride + head * WIDTH + feature[None, :]
    )
    q = tl.load(of_query, i[:, None] < length, 0.0)
    of_key = keys + text * key_text_stride + head * WIDTH + feature[None, :]
    of_value = values + text * value_text_stride + head * WIDTH + feature[None, :]
    highest = tl.full((TILE,), float("-inf"), tl.float32)  # of the scores so far
    total = tl.zeros((TILE,), tl.float32)  # of 2^(score - highest)
    mixed = tl.zeros((TILE, WIDTH), tl.float32)  # of 2^(score - highest) times the value
    for begin in range(
        tl.maximum(start - window, 0) // TILE * TILE,
        tl.minimum(start + TILE + window, length),
        TILE,
    ):
        j = begin + tl.arange(0, TILE)  # places of the keys
        inside = j < length
        k = tl.load(of_key + j[:, None] * key_token_stride, inside[:, None], 0.0)
        v = tl.load(of_value + j[:, None] * value_token_stride, inside[:, None], 0.0)
        score = tl.dot(q, tl.trans(k))
        seen = inside[None, :] & (tl.abs(i[:, None] - j[None, :]) <= window)
        score = tl.where(seen, score * scale, float("-inf"))
        higher = tl.maximum(highest, tl.max(score, 1))
        level = tl.where(higher == float("-inf"), 0.0, higher)  # a query that saw no key yet
        left = tl.exp2(highest - level)
        weight = tl.exp2(score - level[:, None])
        total = total * left + tl.sum(weight, 1)
        mixed = mixed * left[:, None] + tl.dot(weight.to(v.dtype), v)
        highest = higher
    mixed /= tl.where(total == 0.0, 1.0, total)[:, None]
    place = (
        (text * length + i[:, None]) * tl.num_programs(1) * WIDTH + head * WIDTH + feature[None, :]
    )
    tl.store(out + place, mixed.to(out.dtype.element_ty), i[:, None] < length)


def turned(x: Float[Tensor, "n t d"], turn: Turn) -> Float[Tensor, "n t d"]:
    """Each head (x_1, x_2) of each token turned: (x_1 cos - x_2 sin, x_2 cos + x_1 sin).

    There is one program per token.
    """
    n, tokens, width = x.shape
    texts_follow_each_other = x.stride(0) == tokens * x.stride(1)
    if x.stride(2) != 1 or not texts_follow_each_other:  # one stride leads to any token
        x = x.contiguous()
    out = torch.empty((n, tokens, width), dtype=x.dtype, device=x.device)
    _turn[(n * tokens,)](
        x=x,
        cos=turn.cos,
        sin=turn.sin,
        out=out,
        stride=x.stride(1),
        tokens=tokens,
        width=width,
        HEAD=turn.cos.shape[-1],
        WIDTH=triton.next_power_of_2(width),
        num_warps=2,
    )
    return out


@triton.jit(do_not_specialize=["tokens"])
def _turn(x, cos, sin, out, stride, tokens, width, HEAD: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    feature = tl.arange(0, WIDTH)
    inside = feature < width
    within = feature % HEAD  # place in the head
    other = feature - within + (within + HEAD // 2) % HEAD  # the same place in its other half
    angle = row % tokens * HEAD + within
    c = tl.load(cos + angle).to(tl.float32)
    s = tl.load(sin + angle).to(tl.float32)
    s = tl.where(within < HEAD // 2, -s, s)
    here = tl.load(x + row * stride + feature, inside, 0.0).to(tl.float32)
    there = tl.load(x + row * stride + other, inside, 0.0).to(tl.float32)
    tl.store(out + row * width + feature, (here * c + there * s).to(out.dtype.element_ty), inside)


def add_norm(
    norm: nn.LayerNorm,
    x: Float[Tensor, "... d"],
    residual: Float[Tensor, "... d"],
    before: bool = False,
) -> tuple[Float[Tensor, "... d"], Float[Tensor, "... d"]]:
    """The stream after x + residual, whose moments are in float32: the sum itself (`before`) or
    its norm, and its norm.

    There is one program per token, which takes one pass over memory.
    """
    width = x.shape[-1]
    x = x.contiguous()
    residual = residual.contiguous()
    out = torch.empty_like(x)
    total = torch.empty_like(x) if before else out
    has_bias = norm.bias is not None
    bias = norm.bias if has_bias else norm.weight  # without a bias it is not read
    _add_norm[(x.numel() // width,)](
        x=x,
        residual=residual,
        weight=norm.weight,
        bias=bias,
        sums=total,
        out=out,
        width=width,
        eps=norm.eps,
        WIDTH=triton.next_power_of_2(width),
        BEFORE=before,
        BIASED=has_bias,
        num_warps=2,
    )
    return total, out


@triton.jit
def _add_norm(
    x,
    residual,
    weight,
    bias,
    sums,
    out,
    width,
    eps,
    WIDTH: tl.constexpr,
    BEFORE: tl.constexpr,
    BIASED: tl.constexpr,
):
    start = tl.program_id(0).to(tl.int64) * width
    feature = tl.arange(0, WIDTH)
    inside = feature < width
    total = tl.load(x + start + feature, inside, 0.0).to(tl.float32)
    total += tl.load(residual + start + feature, inside, 0.0).to(tl.float32)
    if BEFORE:
        tl.store(sums + start + feature, total.to(out.dtype.element_ty), inside)
    centred = tl.where(inside, total - tl.sum(total, 0) / width, 0.0)
    normed = centred * tl.rsqrt(tl.sum(centred * centred, 0) / width + eps)
    normed *= tl.load(weight + feature, inside, 0.0).to(tl.float32)
    if BIASED:
        normed += tl.load(bias + feature, inside, 0.0).to(tl.float32)
    tl.store(out + start + feature, normed.to(out.dtype.element_ty), inside)


def linear_activated(
    module: nn.Linear | Rows, activation: str, x: Float[Tensor, "... d"], gates: bool = False
) -> Float[Tensor, "... width"]:
    """activation(module(x)), or activation of its first half times the second; accumulated and
    activated in float32.

    activation   gelu, swish or relu; none: the product itself
    """
    outputs, terms = module.weight.shape
    halves = 2 if gates else 1
    width = outputs // halves
    rows = x.reshape(-1, terms).contiguous()
    out = torch.empty((len(rows), width), dtype=x.dtype, device=x.device)

    in_parts = x.dtype == torch.float32
    weight = module.weight.detach()
    rest = weight  # not read unless in parts
    exact = True
    if in_parts:
        weight, rest = parts(weight)
        exact = is_exact(module.weight)
        if exact:
            # weights that were changed where torch does not count it must not lose their second
            # parts
            weight = weight.masked_fill(rest.any(), torch.nan)

    program = dict(IN_PARTS) if in_parts else dict(PROGRAM)
    program["WIDE"] //= halves  # of each half
    tall = program["TALL"]
    wide = program["WIDE"]
    deep = program["DEEP"]

    def tiles_of(matrix: Tensor) -> TensorDescriptor:
        """Of both halves at once."""
        return TensorDescriptor.from_tensor(matrix.unflatten(0, (halves, -1)), [halves, wide, deep])

    down = triton.cdiv(len(rows), tall)
    across = triton.cdiv(width, wide)
    has_bias = module.bias is not None
    bias = module.bias if has_bias else module.weight  # without a bias it is not read
    _product[(min(_processors(x.device), down * across),)](
        x=TensorDescriptor.from_tensor(rows, [tall, deep]),
        weight=tiles_of(weight),
        rest=tiles_of(rest),
        bias=bias,
        out=TensorDescriptor.from_tensor(out, [tall, wide]),
        terms=terms,
        width=width,
        down=down,
        across=across,
        ACTIVATION=activation,
        BIASED=has_bias,
        HALVES=halves,
        IN_PARTS=in_parts,
        EXACT=exact,
        **program,
    )
    return out.unflatten(0, x.shape[:-1])


def parts(x: Float[Tensor, "*n"]) -> tuple[Float[Tensor, "*n"], Float[Tensor, "*n"]]:
    """x1, the first 11 bits of every number, and x - x1."""
    first = (x.view(torch.int32) & LEADING.value).view(torch.float32)
    return first, x - first


_EXACT = WeakTensorKeyDictionary()
"""(version, whether 11 bits hold every weight) of each parameter that was looked at."""


def is_exact(weight: Tensor) -> bool:
    """Whether 11 bits hold every weight; a parameter is looked at when it is first met, and
    when it has changed.
    """
    if not isinstance(weight, nn.Parameter):
        return False
    version = 0 if weight.is_inference() else weight._version  # inference tensors count none
    known_version, exact = _EXACT.get(weight, (None, False))
    if known_version != version:
        _, second_parts = parts(weight.detach())
        exact = not bool(second_parts.any())
        _EXACT[weight] = (version, exact)
    return bool(exact)


def read_float32(device: torch.device) -> bool:
    """Whether the GPU's tensor cores read float32."""
    if device.type != "cuda":  # interpreted
        return True
    return torch.version.hip is None and _compute_capability(device) >= AMPERE


def serves(module: nn.Linear | Rows, x: Tensor) -> bool:
    """Whether the GPU is one that this is made for, and the module has the widths for it."""
    if x.device.type != "cuda" or torch.version.hip is not None:
        return False
    if _compute_capability(x.device) != HOPPER:
        return False
    outputs, terms = module.weight.shape
    return terms % DIVISOR == 0 and outputs % (2 * DIVISOR) == 0


def _compute_capability(device: torch.device) -> int:
    """Its first number."""
    return torch.cuda.get_device_capability(device)[0]


def _processors(device: torch.device) -> int:
    """How many programs of a product run at once."""
    if device.type != "cuda":
        return INTERPRETED
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def _activation(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == "gelu":
        z = tl.minimum(tl.abs(x), 6.0)
        # P(z) by Horner's rule
        log = -0.000769219343 + z * 3.30927758e-05
        log = -0.0534121023 + z * (0.00808071532 + z * log)
        log = -1.1512017 + z * (-0.458770975 + z * log)
        x = tl.maximum(x, 0.0) - z * tl.exp2(-0.999993061 + z * log)
    elif ACTIVATION == "swish":
        x = x / (1.0 + tl.exp(-x))
    elif ACTIVATION == "relu":
        x = tl.maximum(x, 0.0)
    return x


@triton.jit(do_not_specialize=["down"])
def _product(
    x,
    weight,
    rest,
    bias,
    out,
    terms,
    width,
    down,
    across,
    TALL: tl.constexpr,
    WIDE: tl.constexpr,
    DEEP: tl.constexpr,
    TOGETHER: tl.constexpr,
    ACTIVATION: tl.constexpr,
    BIASED: tl.constexpr,
    HALVES: tl.constexpr,
    IN_PARTS: tl.constexpr,
    EXACT: tl.constexpr,
):
    # a processor of the GPU computes one tile of (TALL, WIDE) results after the other, and loads
    # its next factors while a tile is activated (`flatten`)
    for tile in tl.range(tl.program_id(0), down * across, tl.num_programs(0), flatten=True):
        group = tile // (TOGETHER * across) * TOGETHER  # first line of tiles of the group
        tall = tl.minimum(down - group, TOGETHER)  # lines of tiles of the group
        row = (group + tile % (TOGETHER * across) % tall) * TALL
        column = tile % (TOGETHER * across) // tall * WIDE
        total = tl.zeros((TALL, HALVES * WIDE), tl.float32)
        for term in range(0, terms, DEEP):
            a = x.load([row, term])  # (TALL, DEEP)
            b = weight.load([0, column, term]).reshape(HALVES * WIDE, DEEP).T
            if IN_PARTS:  # x2 w1 + x1 w2 + x1 w1
                first = (a.to(tl.int32, bitcast=True) & LEADING).to(tl.float32, bitcast=True)
                part = tl.dot(a - first, b, input_precision="tf32")
                if not EXACT:
                    b_rest = rest.load([0, column, term]).reshape(HALVES * WIDE, DEEP).T
                    part = tl.dot(first, b_rest, part, input_precision="tf32")
                total += tl.dot(first, b, part, input_precision="tf32")
            else:
                total = tl.dot(a, b, total)
        if BIASED:
            feature = tl.arange(0, HALVES * WIDE)
            place = column + feature % WIDE
            of_bias = tl.load(bias + feature // WIDE * width + place, place < width, 0.0)
            total += of_bias.to(tl.float32)[None, :]
        if HALVES == 2:  # G x + c and U x + b
            total, other = tl.split(total.reshape(TALL, 2, WIDE).permute(0, 2, 1))
        total = _activation(total, ACTIVATION)
        if HALVES == 2:
            total *= other
        out.store([row, column], total.to(out.dtype))
