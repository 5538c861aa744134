"""Any function from token ids to logits as a network, and the two settings of diffusion language models.

    function(ids (n, T)) -> logits (n, T, V), or an object whose `logits` are that

mask_id   the id that stands for a hidden token, where the tokenizer does not say which
shift     logits at position t - 1 predict the token at t, as in networks that began as causal models (Dream); those at 0 predict
          the token at 0 too, so a text should begin with a start token

A causal function is refused: logits that change with the tokens before a position and never with those after it give the
conditionals of no blank in a text.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from unmask import checks
from unmask.errors import ModelError
from unmask.models.batching import RowCost, passes
from unmask.models.encoder.head import rows_at, widened
from unmask.models.source import first_line

PROBES, PROBE_TOKENS = 4, 5
ADVICE = "give a network in which every position sees all others"


class FunctionNetwork(nn.Module):
    """A function in the place of a network of transformers; a function that is a module keeps its parameters."""

    def __init__(self, function: Callable[..., Any], tokenizer: Any, device: torch.device | None) -> None:
        super().__init__()
        self.function = function
        first = next(function.parameters(), None) if isinstance(function, nn.Module) else None
        self.place = device or (torch.device("cpu") if first is None else first.device)
        beyond = tokenizer.mask_token_id + 1
        given = self(torch.tensor([[0, tokenizer.mask_token_id, 0]], device=self.place))
        self.outputs = given.shape[-1]
        if first is None:
            self.register_parameter("stand_in", nn.Parameter(given.new_zeros(1), requires_grad=False))
        known = getattr(function, "config", None)
        self.config = SimpleNamespace(
            model_type="function",
            hidden_size=getattr(known, "hidden_size", None) or 1024,
            max_position_embeddings=getattr(known, "max_position_embeddings", None),
        )
        self.table = SimpleNamespace(weight=torch.empty((max(self.outputs, beyond), 1), device="meta"))

    @property
    def base_model(self) -> nn.Module:
        """All of it."""
        return self

    @passes()
    def forward(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, "n T V"]:
        """The function's logits in float32 or wider; raises where they are not logits of these ids."""
        called = getattr(self.function, "__name__", type(self.function).__name__)
        try:
            given = self.function(ids)
        except Exception as error:
            if isinstance(error, MemoryError | torch.OutOfMemoryError):
                raise
            raise ModelError(
                f"function {called!r} failed on ids of shape {tuple(ids.shape)} on {ids.device} ({first_line(error)}): "
                "give a function from token ids to logits, and device= where its weights are"
            ) from None
        logits = getattr(given, "logits", given)
        if not isinstance(logits, Tensor) or logits.shape[:-1] != ids.shape or not logits.is_floating_point():
            found = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else checks.shown(logits)
            raise ModelError(
                f"function {called!r} gave {found} for ids of shape {tuple(ids.shape)}: return logits of shape (n, T, V)"
            )
        return widened(logits)

    def get_input_embeddings(self) -> Any:
        """A table with as many rows as ids are known."""
        return self.table

    @torch.no_grad()
    def probed(self, mask_id: int) -> Float[Tensor, "n T V"]:
        """Logits of a few fixed texts, by which a function without parameters is known."""
        ids = probe_texts(self.outputs)
        ids[:, 1::2] = mask_id
        return self(ids.to(self.place))


class FunctionHead:
    """Logits of a function at chosen positions: it computes all of them."""

    position_by_position = False

    def __init__(self, network: FunctionNetwork) -> None:
        self.encoder = self.network = network

    def __call__(self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]) -> Float[Tensor, "n p V"]:
        """Logits at `positions`; one call."""
        return rows_at(self.network(ids), positions)

    def logits_width(self, mask_id: int) -> int:
        """The number of logits per position."""
        return self.network.outputs


class ShiftedHead:
    """A head whose logits at position t - 1 predict the token at t; otherwise the head itself."""

    def __init__(self, head: Any) -> None:
        self.head = head

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["head"], name)

    def __call__(self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]) -> Float[Tensor, "n p V"]:
        """Logits that predict the tokens at `positions`."""
        logits: Tensor = self.head(ids, (positions - 1).clamp(min=0))
        return logits


class WholeRowCost(RowCost):
    """The cost of a row whose logits are computed everywhere."""

    def bytes(self, tokens: int, predicted: int) -> int:
        """As if all tokens were predicted."""
        return super().bytes(tokens, tokens)


def probe_texts(tokens: int) -> Int[Tensor, "n T"]:
    """A few texts of random ids."""
    return torch.randint(tokens, (PROBES, PROBE_TOKENS), generator=torch.Generator().manual_seed(0))


@passes()
def refuse_causal(logits: Callable[[Tensor], Tensor], mask_id: int, tokens: int, device: torch.device, name: str) -> None:
    """Raise if the logits at the middle of a text change with the tokens before it and not with those after it."""
    ids, middle = probe_texts(tokens), PROBE_TOKENS // 2
    ids[:, middle] = mask_id
    left, right = ids.clone(), ids.clone()
    left[:, :middle], right[:, middle + 1 :] = ids.roll(1, 0)[:, :middle], ids.roll(1, 0)[:, middle + 1 :]
    at = logits(torch.cat([ids, left, right]).to(device))[:, middle].view(3, PROBES, -1)
    moved = [(at[0] - at[i]).abs().nan_to_num(0.0).max() for i in (1, 2)]
    if moved[0] > 0 and moved[1] == 0:
        raise ModelError(f"{name} is causal (no token changes the logits before it): {ADVICE}")
