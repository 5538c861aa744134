"""Heads of networks: logits at chosen positions.

A masked language model is head(base(ids)), and most heads work on each position by itself:

    head(base(ids))[positions] = head(base(ids)[positions])

The right side saves most of the logits: with one blank in 16 tokens, fifteen sixteenths.

OwnHead           our own network, which has its base and its head apart
TransformersHead  a network of transformers: a hook on the base leaves only the wanted positions
                  to the architecture's own head code
FunctionHead      a function, which gives logits at all positions
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from unmask.common.errors import ModelError
from unmask.common.files import first_line
from unmask.models.batching import is_out_of_memory
from unmask.models.encoder.bert import BertEncoder, BertMaskedLM
from unmask.models.encoder.linear_maps import HALF_TYPES
from unmask.models.float32_logits import widened
from unmask.models.fresh_pass import FreshPass
from unmask.models.function_network import FunctionNetwork

logger: logging.Logger = logging.getLogger(__name__)
LARGEST_ERROR = 1e-3
LARGEST_RELATIVE_ERROR = 1e-2
"""A head mixes positions if its logits at wanted positions alone differ by more than
LARGEST_ERROR + LARGEST_RELATIVE_ERROR |l| from its logits l there among all positions. Heads that
do not mix them differ by at most 2.4e-7 (small models of all types, on a CPU).
"""


class Head(ABC):
    """Logits of a network, in float32 or wider.

    base_model            the network below the head
    vocab_size            V, the number of logits per position
    position_by_position  whether the head works on each position by itself
    """

    base_model: nn.Module
    vocab_size: int
    position_by_position: bool

    @abstractmethod
    def __call__(
        self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]
    ) -> Float[Tensor, "n p V"]:
        """Logits at `positions`; one forward pass."""

    def of_hidden(self, hidden: Float[Tensor, "n p d"]) -> Float[Tensor, "n p V"]:
        """The head alone, on last hidden states that the caller has computed."""
        raise NotImplementedError(f"{type(self).__name__} takes no hidden states")


def head_of(network: nn.Module, name: str, mask_id: int) -> Head:
    """The head of a network.

    name      what messages call the model
    mask_id   a token that the network knows
    """
    if isinstance(network, BertMaskedLM):
        return OwnHead(network)
    if isinstance(network, FunctionNetwork):
        return FunctionHead(network)
    return TransformersHead(network, name, mask_id)


class OwnHead(Head):
    """The head of our own network."""

    position_by_position = True

    def __init__(self, network: BertMaskedLM) -> None:
        self.network = network
        self.base_model: BertEncoder = network.base_model
        self.vocab_size: int = network.outputs

    def __call__(
        self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]
    ) -> Float[Tensor, "n p V"]:
        """Logits at `positions`; one forward pass."""
        return self.of_hidden(rows_at(self.base_model(ids), positions))

    def of_hidden(self, hidden: Float[Tensor, "n p d"]) -> Float[Tensor, "n p V"]:
        """The head alone, on last hidden states that the caller has computed."""
        return widened(self.network.head(hidden))


class FunctionHead(Head):
    """Logits of a function, which computes them at all positions."""

    position_by_position = False  # a function has no head apart

    def __init__(self, network: FunctionNetwork) -> None:
        self.network = network
        self.base_model: nn.Module = network.base_model
        self.vocab_size: int = network.outputs

    def __call__(
        self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]
    ) -> Float[Tensor, "n p V"]:
        """Logits at `positions`; one call of the function."""
        return rows_at(self.network(ids), positions)


class TransformersHead(Head):
    """The head of a network of transformers.

    While a pass runs, the network has a hook or another base model. A lock makes the passes of
    several threads take turns.
    """

    def __init__(self, network: nn.Module, name: str, mask_id: int) -> None:
        """Passes one text in both ways to find out whether the head works position by position."""
        self.network = network
        self.name = name
        self.base_model: Any = network.base_model
        if self.base_model is network:
            raise ModelError(
                f"{type(network).__name__} has no encoder below its head: use a BERT-like"
                " checkpoint"
            )
        self._lock = threading.Lock()
        self._fresh = FreshPass(network)

        device = next(network.parameters()).device
        ids = torch.tensor([[mask_id, 0, mask_id]], device=device)
        positions = torch.tensor([[2, 0]], device=device)
        with torch.no_grad():
            at_all = self._everywhere(ids)
            gathered = self._gathered(ids, positions)
        self.vocab_size: int = at_all.shape[-1]
        self.position_by_position: bool = _are_close(gathered, rows_at(at_all, positions))
        if not self.position_by_position:
            logger.warning(
                "the head of %s mixes positions: it runs on all of them", type(network).__name__
            )

    def __call__(
        self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]
    ) -> Float[Tensor, "n p V"]:
        """Logits at `positions`; one forward pass."""
        if self.position_by_position:
            return self._gathered(ids, positions)
        return rows_at(self._everywhere(ids), positions)

    def of_hidden(self, hidden: Float[Tensor, "n p d"]) -> Float[Tensor, "n p V"]:
        """The head alone, on last hidden states that the caller has computed.

        For this one call the base model's `forward` returns them, whatever the ids are.
        """
        from transformers.modeling_outputs import BaseModelOutput

        any_ids = torch.zeros((1, 1), dtype=torch.long, device=hidden.device)
        with self._lock:
            # Usually `forward` is the class's method, and the object has none of its own. If other
            # code has set one on the object, it is put back.
            own_forward = vars(self.base_model).get("forward")
            self.base_model.forward = lambda *_, **__: BaseModelOutput(hidden)  # type: ignore[arg-type]
            try:
                return widened(self.network(input_ids=any_ids).logits)
            finally:
                del self.base_model.forward
                if own_forward is not None:
                    self.base_model.forward = own_forward

    def _gathered(self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]) -> Tensor:
        """Logits by a head that sees the hidden states at `positions` only.

        If the head works position by position, these are the logits at `positions`, of shape
        (n, p, V).
        """

        def keep_positions(_base_model: Any, _inputs: Any, output: Any) -> Any:
            states = rows_at(output[0], positions)
            if isinstance(output, tuple):
                return (states, *output[1:])
            output["last_hidden_state"] = states
            return output

        with self._lock:
            hook = self.base_model.register_forward_hook(keep_positions)
            try:
                return self._pass(ids)
            finally:
                hook.remove()

    def _everywhere(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, "n T V"]:
        """Logits at all positions: the network as it is."""
        with self._lock:
            logits = self._pass(ids)
        return logits[:, : ids.shape[1]]  # Perceiver has more after the text

    def _pass(self, ids: Int[Tensor, "n T"]) -> Tensor:
        """The network's logits. They do not depend on earlier passes, also for types that keep a
        state (`FreshPass`). The caller holds the lock.
        """
        try:
            with self._fresh(ids.shape[1]):
                return widened(self.network(input_ids=ids).logits)
        except Exception as error:
            if is_out_of_memory(error):
                raise  # `RowBatches` halves the batch
            raise self._failed(ids, error) from error

    def _failed(self, ids: Int[Tensor, "n T"], error: Exception) -> ModelError:
        """The error for a pass that raised `error`, with what the user can do."""
        dtype = next(self.network.parameters()).dtype
        dtype_name = str(dtype).removeprefix("torch.")
        if dtype in HALF_TYPES:
            advice = "load it with dtype float32"
        else:
            advice = "correct its config.json, or use another model"
        return ModelError(
            f"{self.name} cannot pass a text of {ids.shape[1]} tokens in {dtype_name}:"
            f" transformers' {type(self.network).__name__} fails ({first_line(error)}); {advice}"
        )


def _are_close(logits: Tensor, expected: Tensor) -> bool:
    if logits.shape != expected.shape:
        return False
    return torch.allclose(logits, expected, atol=LARGEST_ERROR, rtol=LARGEST_RELATIVE_ERROR)


def rows_at(
    values: Float[Tensor, "n T m"], positions: Int[Tensor, "n p"]
) -> Float[Tensor, "n p m"]:
    """The values at `positions` of each text."""
    index = positions.unsqueeze(-1).expand(-1, -1, values.shape[-1])
    return torch.gather(values, 1, index)
