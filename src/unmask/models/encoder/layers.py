"""One layer of an encoder: its modules, and every computation with them.

    norm after   a = N(h + W_o attention(h)),       h' = N'(a + F(a))
    norm before  s = r + W_o attention(h),  a = N(s),       r' = s + F(a),  h' = N'(r')

with F(a) = W_2 act(W_1 a), or gated, W_2 (act(G a) * U a). A network with norms before is
written here with each norm at the end of the half that makes its argument, so N' is the next
layer's, or the network's last. Both kinds are then one computation on a `Stream` (r, h): what
is added to, and what is read. With norms after, both are the same.

A layer runs at every token, at some of them, at one of each text, or at new tokens that attend
to a cache of keys and values, by torch's plain operations (the reference) or by fused ones. On
a CPU the plain `linear` writes the bias, then the product, then reads all of it again for the
activation, which costs as much as the product itself. torch carries oneDNN's fused products for
its compiler; they are called here directly, on the module's own weights. On a GPU, Triton
programs do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from unmask.models.batching import triton_wanted

FUSED_TYPES = (torch.float32, torch.bfloat16)
HALF_TYPES = (torch.float16, torch.bfloat16)
MANY = 2**14  # Rows from which a program of ours is faster on a GPU than two operations
KINDS = (16, 32, 64)
SHORT = KINDS[-1]
"""Texts of at most SHORT tokens have their own attention on a GPU; KINDS: the lengths that it
is compiled for.
"""
HEAD_WIDTHS = {
    torch.float32: (16, 32, 64),
    **dict.fromkeys(HALF_TYPES, (16, 32, 64, 128)),
}  # Of a head, for which it works


class Rows(NamedTuple):
    """Some of a linear map's rows."""

    weight: Tensor
    bias: Tensor | None


def rows_of(modules: Sequence[nn.Linear], number: int, of: int = 3) -> Rows:
    """Map `number` of `of`, which are modules of their own or equal parts of one."""
    if len(modules) == of:
        return Rows(modules[number].weight, modules[number].bias)
    size = modules[0].out_features // of
    part, bias = slice(number * size, (number + 1) * size), modules[0].bias
    return Rows(modules[0].weight[part], None if bias is None else bias[part])


def activated(
    module: nn.Linear,
    activation: Callable[[Tensor], Tensor],
    x: Tensor,
    gates: bool = False,
    fused: bool = True,
) -> Tensor:
    """activation(W x); or with gates activation(G x) * (U x), the two maps halves of one."""
    name = _fused_name(activation) if fused else None
    if name is not None and _by_program(module, x):
        return programs().linear_activated(module, name, x, gates)
    if name is None or not _fusible(module.weight, x):
        first, *second = module(x).chunk(2 if gates else 1, -1)
        return activation(first) * second[0] if gates else activation(first)
    opened, up = (rows_of((module,), 0, 2), rows_of((module,), 1, 2)) if gates else (module, None)
    product: Tensor = torch.ops.mkldnn._linear_pointwise(
        x, opened.weight, opened.bias, name, [], "none"
    )
    return (
        product
        if up is None
        else torch.ops.mkldnn._linear_pointwise.binary(x, product, up.weight, up.bias, "mul")
    )


def linear_plus(
    module: nn.Linear | Rows, x: Tensor, residual: Tensor | None = None, fused: bool = True
) -> Tensor:
    """module(x) + residual."""
    if fused and residual is None and x.dtype == torch.float32 and _by_program(module, x):
        return programs().linear_activated(module, "none", x)
    if not fused or not _fusible(module.weight, x):
        product = functional.linear(x, module.weight, module.bias)
        return product if residual is None else product.add_(residual)
    if residual is None:
        total: Tensor = torch.ops.mkldnn._linear_pointwise(
            x, module.weight, module.bias, "none", [], "none"
        )
    else:
        total = torch.ops.mkldnn._linear_pointwise.binary(
            x, residual, module.weight, module.bias, "add"
        )
    return total


def _fused_name(activation: Callable[[Tensor], Tensor]) -> str | None:
    plain = getattr(activation, "act", activation)
    if isinstance(activation, nn.ReLU):
        return "relu"
    if type(activation).__name__ in ("SiLU", "SiLUActivation"):
        return "swish"
    if plain is functional.gelu or (
        isinstance(activation, nn.GELU) and activation.approximate == "none"
    ):
        return "gelu"
    return None


def on_gpu(x: Tensor) -> bool:
    """Whether the programs of `triton_programs` work on this tensor."""
    return triton_wanted(x) and (
        x.dtype in HALF_TYPES or (x.dtype == torch.float32 and programs().read_float32(x.device))
    )


def _by_program(module: nn.Linear | Rows, x: Tensor) -> bool:
    """Whether a linear map of so many rows is faster by a program of ours."""
    return x.numel() >= MANY * x.shape[-1] and on_gpu(x) and programs().serves(module, x)


def programs() -> Any:
    """`triton_programs`, imported when a GPU needs it."""
    from unmask.models.encoder import triton_programs

    return triton_programs


def _fusible(weight: Tensor, x: Tensor) -> bool:
    return (
        x.device.type == "cpu"
        and x.dtype in FUSED_TYPES
        and x.dtype == weight.dtype
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and (x.dtype != torch.bfloat16 or torch.ops.mkldnn._is_mkldnn_bf16_supported())
    )


class Stream(NamedTuple):
    """The sum that a layer adds to, and what it reads; one tensor in a network that has its
    norms after.
    """

    total: Tensor
    normed: Tensor


class Turn(NamedTuple):
    """Rotary positions: cosine and sine of the angles by which each token's queries and keys
    are turned.
    """

    cos: Float[Tensor, "*t e"]
    sin: Float[Tensor, "*t e"]


@dataclass(frozen=True)
class Rotary:
    """Angles: position times the frequencies that `module` keeps under `name`.

    `narrow`: the network rounds float64 queries and keys to float32 before it turns them;
    `early`: it scales queries before that.
    """

    module: Any
    name: str
    narrow: bool = False
    early: bool = False

    def turn(self, positions: Int[Tensor, " t"], dtype: torch.dtype) -> Turn:
        """The turn of each position."""
        frequencies = getattr(self.module, self.name).to(positions.device, torch.float32)
        scaling = getattr(self.module, self.name.replace("inv_freq", "attention_scaling"), 1.0)
        angles = (positions[:, None].float() * frequencies).repeat(1, 2)
        return Turn((angles.cos() * scaling).to(dtype), (angles.sin() * scaling).to(dtype))


@dataclass(frozen=True)
class Layer:
    """One layer's modules, and how they are put together.

    projections  queries, keys, values; or one module for all three
    inner        W_1; or, if `gates`, G and U in one
    window       the largest distance that attention spans, if any
    """

    projections: tuple[nn.Linear, ...]
    attention_out: nn.Linear
    attention_norm: nn.Module
    inner: nn.Linear
    activation: Callable[[Tensor], Tensor]
    outer: nn.Linear
    norm: nn.Module
    heads: int
    gates: bool = False
    before: bool = False
    rotary: Rotary | None = None
    window: int | None = None
    fused: bool = True

    def __call__(
        self, stream: Stream, seen: Bool[Tensor, "n T"] | None = None, turn: Turn | None = None
    ) -> Stream:
        """The stream after this layer at every token; each attends to the tokens that are
        `seen`.
        """
        return self.after_attention(stream, self.attend(*self.project(stream.normed), seen, turn))

    def project(self, normed: Float[Tensor, "n t d"]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, not turned."""
        parts = [linear_plus(part, normed, fused=self.fused) for part in self.projections]
        query, key, value = parts if len(parts) == 3 else parts[0].chunk(3, -1)
        return query, key, value

    def attend(
        self,
        queries: Float[Tensor, "n t d"],
        keys: Float[Tensor, "n T k"],
        values: Float[Tensor, "n T k"],
        seen: Bool[Tensor, "n T"] | None = None,
        turn: Turn | None = None,
    ) -> Float[Tensor, "n t d"]:
        """softmax(Q K^T / sqrt(e)) V per head, over the keys that are `seen` and within the
        window.
        """
        length, window = (
            keys.shape[1],
            self.window if self.window is not None and self.window < keys.shape[1] - 1 else None,
        )
        width, scale = queries.shape[2] // self.heads, None
        by_program = (
            self.fused and seen is None and on_gpu(queries) and width in HEAD_WIDTHS[queries.dtype]
        )
        if by_program and length <= SHORT:
            return programs().short_attention(queries, keys, values, self.heads, turn, window)
        if turn is not None:
            if self._early(queries):
                queries, scale = queries * width**-0.5, 1.0
            queries, keys = self._turned(queries, turn), self._turned(keys, turn)
        if by_program and window is not None and queries.dtype in HALF_TYPES:
            return programs().long_attention(queries, keys, values, self.heads, window)
        query, key, value = (
            x.unflatten(-1, (-1, width)).transpose(1, 2) for x in (queries, keys, values)
        )
        mask = None if seen is None else seen[:, None, None, :]
        if window is not None:
            places = torch.arange(length, device=keys.device)
            near = (places[:, None] - places).abs() <= window
            mask = near if mask is None else mask & near
        return (
            functional.scaled_dot_product_attention(query, key, value, mask, scale=scale)
            .transpose(1, 2)
            .flatten(2)
        )

    def at(
        self,
        stream: Stream,
        positions: Int[Tensor, "n p"],
        seen: Bool[Tensor, "n T"] | None = None,
        turn: Turn | None = None,
    ) -> Float[Tensor, "n p d"]:
        """Hidden states after this layer at some positions of each row; the feed-forward runs
        there only.
        """
        mixed = self.attend(*self.project(stream.normed), seen, turn)
        at = (torch.arange(len(positions), device=positions.device)[:, None], positions)
        return self.after_attention(self._there(stream, at), mixed[at]).normed

    def at_one(
        self,
        stream: Stream,
        places: Int[Tensor, " n"],
        seen: Bool[Tensor, "n T"] | None = None,
        turn: Turn | None = None,
    ) -> Float[Tensor, "n d"]:
        """Hidden state after this layer at one token of each row; forms no values, and no keys
        if there are no rotary positions.

        With q = W_q h at that token, per head,

            q . (W_k h_j + b_k) = (W_k^T q) . h_j + constant,
                    sum_j w_j (W_v h_j + b_v) = W_v (sum_j w_j h_j) + b_v.

        The constant drops out of the softmax and the weights w sum to 1, so 2 T d^2
        multiplications become 2 d^2 + 2 T d heads.
        """
        here = self._there(stream, (torch.arange(len(places), device=places.device), places))
        scores = self._scores(stream.normed, here.normed, places, turn)
        if self.window is not None and self.window < scores.shape[-1] - 1:
            near = (
                torch.arange(scores.shape[-1], device=places.device) - places[:, None]
            ).abs() <= self.window
            seen = near if seen is None else seen & near
        weights = (
            scores if seen is None else scores.masked_fill(~seen.unsqueeze(1), -torch.inf)
        ).softmax(-1)
        mixed = torch.bmm(weights, stream.normed).transpose(0, 1)
        weight, bias = rows_of(self.projections, 2)
        out = torch.bmm(mixed, self._per_head(weight).transpose(1, 2)).transpose(0, 1).flatten(1)
        if bias is not None:
            out = out + self._per_head(bias).flatten()
        return self.after_attention(here, out).normed

    def after_attention(self, stream: Stream, mixed: Float[Tensor, "*n d"]) -> Stream:
        """The rest of the layer, on any number of tokens: output projection, feed-forward, and
        their norms.
        """
        attended = self._added(self.attention_norm, self.attention_out, mixed, stream.total)
        inner = activated(self.inner, self.activation, attended.normed, self.gates, self.fused)
        return self._added(self.norm, self.outer, inner, attended.total)

    def launches(self) -> list[Callable[[], object]]:
        """One of each operation for which a GPU may have to compile a program."""
        weight = self.attention_out.weight
        texts = [
            torch.zeros((1, length, len(weight)), dtype=weight.dtype, device=weight.device)
            for length in KINDS
        ]
        many = Stream(texts[0][:, 0].expand(MANY, -1), texts[0][:, 0].expand(MANY, -1))
        turns = [
            (
                None
                if self.rotary is None
                else self.rotary.turn(torch.arange(len(x[0]), device=x.device), x.dtype)
            )
            for x in texts
        ]
        return [
            *(
                partial(self, Stream(x, x), None, turn)
                for x, turn in zip(texts, turns, strict=True)
            ),
            partial(
                self.after_attention,
                many,
                many.normed.new_zeros(MANY, self.attention_out.in_features),
            ),
        ]

    def _scores(
        self,
        states: Float[Tensor, "n T d"],
        here: Float[Tensor, "n d"],
        places: Int[Tensor, " n"],
        turn: Turn | None,
    ) -> Float[Tensor, "n h T"]:
        """Scaled dot products of one token's queries with the keys of all tokens, per head."""
        query = functional.linear(here, *rows_of(self.projections, 0))
        width = query.shape[-1] // self.heads
        scale = width**-0.5
        if turn is None:
            absorbed = torch.bmm(
                query.unflatten(-1, (self.heads, -1)).transpose(0, 1) * scale,
                self._per_head(rows_of(self.projections, 1)[0]),
            )
            return torch.bmm(absorbed.transpose(0, 1), states.transpose(1, 2))
        key = linear_plus(rows_of(self.projections, 1), states, fused=self.fused)
        if self._early(query):
            query, scale = query * scale, 1.0
        own = Turn(turn.cos[places], turn.sin[places])
        query, key = self._turned(query.unsqueeze(0), own).squeeze(0), self._turned(key, turn)
        query, key = (
            query.unflatten(-1, (self.heads, 1, width)),
            key.unflatten(-1, (-1, width)).transpose(1, 2),
        )
        return torch.matmul(query * scale, key.transpose(2, 3)).squeeze(2)

    def _early(self, queries: Tensor) -> bool:
        return self.rotary is not None and self.rotary.early and queries.dtype == torch.float64

    def _turned(self, x: Float[Tensor, "n t d"], turn: Turn) -> Float[Tensor, "n t d"]:
        """Each head (x_1, x_2) of each token turned: (x_1 cos - x_2 sin, x_2 cos + x_1 sin)."""
        if self.fused and on_gpu(x):
            return programs().turned(x, turn)
        cos, sin = turn.cos.unsqueeze(-2), turn.sin.unsqueeze(-2)
        half, dtype = cos.shape[-1] // 2, x.dtype
        x = x.float() if (self.rotary and self.rotary.narrow) or dtype != torch.float64 else x
        heads = x.to(torch.promote_types(x.dtype, cos.dtype)).unflatten(-1, (-1, 2 * half))
        out = heads * cos
        out[..., :half].addcmul_(heads[..., half:], sin[..., :half], value=-1)
        out[..., half:].addcmul_(heads[..., :half], sin[..., half:])
        return out.flatten(-2).to(dtype)

    def _per_head(self, weight: Float[Tensor, "k ..."]) -> Float[Tensor, "h e ..."]:
        """The rows of each head's keys or values."""
        return weight.unflatten(0, (self.heads, -1))

    def _there(self, stream: Stream, at: tuple[Tensor, Tensor]) -> Stream:
        total = stream.total[at]
        return Stream(total, stream.normed[at] if self.before else total)

    def _added(self, norm: nn.Module, linear: nn.Linear, x: Tensor, residual: Tensor) -> Stream:
        """residual + linear(x), and norm of it."""
        if self.fused and on_gpu(x):
            return Stream(*programs().add_norm(norm, linear_plus(linear, x), residual, self.before))
        total = linear_plus(linear, x, residual, self.fused)
        normed = norm(total)
        return Stream(total if self.before else normed, normed)
