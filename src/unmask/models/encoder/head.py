"""The language-model head at chosen positions only, for every architecture.

A masked language model is head(encoder(ids)), and the head works on each position by itself, so
head(encoder(ids))[positions] = head(encoder(ids)[positions]). A forward hook on the encoder gathers the rows of its last
hidden state at the positions asked for before the architecture's own head code sees them: with V = 30,000 and 16 tokens a
row, that saves fifteen sixteenths of the logits. `of_hidden` puts given hidden states in the encoder's place altogether.
Our own network offers its encoder and its head separately, so it needs no hook.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from unmask.errors import ModelError
from unmask.models.batching import is_out_of_memory
from unmask.models.encoder.bert import BertMaskedLM
from unmask.models.encoder.fused_linear import HALF_TYPES
from unmask.models.model_types import FreshPass, language_input
from unmask.models.source import first_line

logger = logging.getLogger(__name__)
TENSOR_CORE_ROWS = 64
BIAS_COLUMNS = 8
"""Columns beside a weight that hold its bias: three in use, and as many as keep lines aligned."""
MANY = 2048
"""Rows from which a bias within the product is faster than one that is added."""
WEIGHT_READERS = ("mobilebert",)
"""Types whose head multiplies by the output layer's weight itself, which keeps its number format."""


def head_of(network: nn.Module, name: str, lang: str | None) -> OwnHead | PositionedHead:
    """The head of a network, at chosen positions; `name` and `lang` as in `MaskedLM`."""
    language = language_input(network.config, name, lang)
    return OwnHead(network) if isinstance(network, BertMaskedLM) else PositionedHead(network, name, language)


class OwnHead:
    """The head of our own network. Logits come out in float32 or wider."""

    position_by_position = True

    def __init__(self, network: BertMaskedLM) -> None:
        self.network = network
        self.encoder = network.bert

    def __call__(self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]) -> Float[Tensor, "n p V"]:
        """Logits at `positions`; one forward pass."""
        return self.of_hidden(rows_at(self.network.bert(ids), positions))

    def of_hidden(self, hidden: Float[Tensor, "n p d"]) -> Float[Tensor, "n p V"]:
        """The head alone, on last hidden states that the caller has computed."""
        return widened(self.network.head(hidden))

    def logits_width(self, mask_id: int) -> int:
        """The number of logits per position."""
        return self.network.get_output_embeddings().out_features


class PositionedHead:
    """Calls a Hugging Face masked language model so that its head runs on the asked positions alone.

    Logits come out in float32 or wider. The lock makes calls from several threads take turns.
    """

    def __init__(self, network: nn.Module, name: str, language: Callable[[Tensor], dict[str, Tensor]]) -> None:
        """`name`: what messages call the model; `language`: see `language_input`."""
        self.network, self.name, self._language = network, name, language
        self.encoder: Any = network.base_model
        if self.encoder is network:
            raise ModelError(f"{type(network).__name__} has no encoder below its head: use a BERT-like checkpoint")
        self._lock, self._fresh = threading.Lock(), FreshPass(network)
        self.position_by_position = True

    def __call__(self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]) -> Float[Tensor, "n p V"]:
        """Logits at `positions`; one forward pass."""
        return self._at(ids, positions) if self.position_by_position else rows_at(self.everywhere(ids), positions)

    def _at(self, ids: Tensor, positions: Tensor) -> Tensor:
        with self._lock:
            hook = self.encoder.register_forward_hook(lambda _encoder, _inputs, output: _gathered(output, positions))
            try:
                return self._pass(ids)
            finally:
                hook.remove()

    def everywhere(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, "n T V"]:
        """Logits at all positions: the network as it is. Perceiver has some for positions after the text, which are cut off."""
        with self._lock:
            return self._pass(ids)[:, : ids.shape[1]]

    def _pass(self, ids: Int[Tensor, "n T"]) -> Tensor:
        """The network's logits, as if these texts were its first."""
        try:
            with self._fresh(ids.shape[1]):
                return widened(self.network(input_ids=ids, **self._language(ids)).logits)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            dtype = next(self.network.parameters()).dtype
            advice = "load it with dtype float32" if dtype in HALF_TYPES else "correct its config.json, or use another model"
            raise ModelError(
                f"{self.name} cannot pass a text of {ids.shape[1]} tokens in {str(dtype)[6:]}: transformers' "
                f"{type(self.network).__name__} fails ({first_line(error)}); {advice}"
            ) from error

    @torch.no_grad()
    def logits_width(self, mask_id: int) -> int:
        """The number of logits per position, from a first pass that also checks that the head works position by position.

        Where it does not, all positions go through it from then on.
        """
        ids = torch.tensor([[mask_id, 0, mask_id]], device=next(self.network.parameters()).device)
        wanted = torch.tensor([[2, 0]], device=ids.device)
        whole, kept = self.everywhere(ids), self._at(ids, wanted)
        expected = rows_at(whole, wanted)
        self.position_by_position = kept.shape == expected.shape and torch.allclose(kept, expected, atol=1e-3, rtol=1e-2)
        if not self.position_by_position:
            logger.warning("the head of %s mixes positions: it runs on all of them", type(self.network).__name__)
        return whole.shape[-1]

    def of_hidden(self, hidden: Float[Tensor, "n p d"]) -> Float[Tensor, "n p V"]:
        """The head alone, on last hidden states that the caller has computed."""
        from transformers.modeling_outputs import BaseModelOutput

        ids = torch.zeros((1, 1), dtype=torch.long, device=hidden.device)
        with self._lock:
            own = vars(self.encoder).get("forward")
            self.encoder.forward = lambda *_, **__: BaseModelOutput(hidden)  # type: ignore[arg-type]
            try:
                return widened(self.network(input_ids=ids).logits)
            finally:
                del self.encoder.forward
                if own is not None:
                    self.encoder.forward = own


class Float32Output(nn.Linear):
    """A half-precision network's output layer with float32 results: a logit near 20 has steps of 1/8 in bfloat16."""

    with_bias: Tensor | None

    @classmethod
    def of(cls, linear: nn.Linear) -> Float32Output:
        """The same weights: half precision on a GPU, whose products accumulate in float32 anyway; float32 on a CPU.

        On a GPU rows of zeros fill them up to a multiple of TENSOR_CORE_ROWS, their logits cut off again: the fast products
        need aligned rows, and BERT's 28,996 tokens make none.
        """
        wide = cls(linear.in_features, linear.out_features, bias=linear.bias is not None, device="meta")
        weight = linear.weight.detach()
        if weight.device.type == "cuda":
            weight = functional.pad(weight, (0, 0, 0, -len(weight) % TENSOR_CORE_ROWS))
        wide.weight = nn.Parameter(weight if weight.device.type == "cuda" else weight.float(), requires_grad=False)
        if linear.bias is not None:
            wide.bias = nn.Parameter(linear.bias.detach().float(), requires_grad=False)
        on_gpu = weight.device.type == "cuda" and wide.bias is not None
        wide.register_buffer("with_bias", extended(weight, wide.bias) if on_gpu else None, persistent=False)
        return wide

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits in float32."""
        if hidden.device.type != "cuda":
            return functional.linear(hidden.float(), self.weight, self.bias)
        rows = hidden.flatten(0, -2)
        if self.with_bias is not None and len(rows) >= MANY:
            rows = functional.pad(rows, (0, BIAS_COLUMNS), value=1.0)
            return self._product(rows, self.with_bias).unflatten(0, hidden.shape[:-1])
        logits = self._product(rows, self.weight).unflatten(0, hidden.shape[:-1])
        return logits if self.bias is None else logits.add_(self.bias)

    def _product(self, rows: Tensor, weight: Tensor) -> Tensor:
        return torch.mm(rows, weight.t(), out_dtype=torch.float32)[:, : self.out_features]


def extended(weight: Float[Tensor, "m d"], bias: Float[Tensor, " n"]) -> Float[Tensor, "m e"] | None:
    """[W, b1, b2, b3, 0 ..] with b = b1 + b2 + b3 in the weight's half precision, so that [x, 1, 1 ..] times it is W x + b; None
    if the numbers of the bias do not fit.

    Added to logits, a bias is a pass over all of them, as long as the product.
    """
    left, parts = bias.float(), []
    for _ in range(3):
        parts.append(left.to(weight.dtype))
        left = left - parts[-1].float()
    if not bool((left.abs() <= 1e-7 * (1 + bias.abs())).all()):
        return None
    columns = functional.pad(torch.stack(parts, 1), (0, BIAS_COLUMNS - len(parts), 0, len(weight) - len(bias)))
    return torch.cat([weight, columns], 1)


def widen_output(network: Any) -> None:
    """Give a half-precision network an output layer whose results are float32, if it has a plain linear one."""
    output = network.get_output_embeddings()
    if network.config.model_type in WEIGHT_READERS:
        return
    if isinstance(output, nn.Linear) and output.weight.dtype in HALF_TYPES:
        network.set_output_embeddings(Float32Output.of(output))


def _gathered(output: Any, positions: Tensor) -> Any:
    """An encoder's output with the last hidden state at `positions` in place of the whole."""
    kept = rows_at(output[0], positions)
    if isinstance(output, tuple):
        return (kept, *output[1:])
    output["last_hidden_state"] = kept
    return output


def rows_at(values: Float[Tensor, "n T m"], positions: Int[Tensor, "n p"]) -> Float[Tensor, "n p m"]:
    """The values at `positions` of each text."""
    return torch.gather(values, 1, positions.unsqueeze(-1).expand(-1, -1, values.shape[-1]))


def widened(logits: Tensor) -> Tensor:
    """In float32 or wider."""
    return logits.float() if logits.dtype in HALF_TYPES else logits
