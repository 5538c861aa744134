"""Any function from token ids (n, T) to logits (n, T, V), in the place of a network of
transformers.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from unmask.common import checks
from unmask.common.errors import ModelError
from unmask.common.files import first_line
from unmask.models.batching import passes
from unmask.models.float32_logits import widened
from unmask.models.probes import probe_texts

ASSUMED_WIDTH = 1024
"""Numbers per hidden state of a function that does not state them; they bound the memory of a
batch.
"""


class FunctionNetwork(nn.Module):
    """A function of ids as a network.

    function   returns logits, or an object that has them as `logits`; if it is a module, its
               parameters are those of this network
    device     where it takes its ids
    outputs    V, the number of logits per position
    config     the settings of a configuration of transformers that `unmask` reads
    """

    def __init__(
        self, function: Callable[..., Any], tokenizer: Any, device: torch.device | None
    ) -> None:
        """Passes one text, so that a function that is none of ids to logits is refused here.

        device   None: where the function's parameters are, or the CPU
        """
        super().__init__()
        self.function = function
        first_parameter = None
        if isinstance(function, nn.Module):
            first_parameter = next(function.parameters(), None)
        if device is not None:
            self.device: torch.device = device
        elif first_parameter is not None:
            self.device = first_parameter.device
        else:
            self.device = torch.device("cpu")
        mask_id = tokenizer.mask_token_id
        logits = self(torch.tensor([[0, mask_id, 0]], device=self.device))
        if bool(logits.isnan().any()):
            raise ModelError(
                "the function gave NaN logits: return finite logits, or -inf for tokens that"
                " cannot be"
            )
        self.outputs: int = logits.shape[-1]
        if first_parameter is None:  # models take their device and dtype from a parameter
            stand_in = nn.Parameter(logits.new_zeros(1), requires_grad=False)
            self.register_parameter("stand_in", stand_in)
        stated = getattr(function, "config", None)
        self.config: SimpleNamespace = SimpleNamespace(
            model_type="function",
            hidden_size=getattr(stated, "hidden_size", None) or ASSUMED_WIDTH,
            max_position_embeddings=getattr(stated, "max_position_embeddings", None),
        )
        known_ids = max(self.outputs, mask_id + 1)
        without_numbers = torch.empty((known_ids, 1), device="meta")
        self.input_embeddings: SimpleNamespace = SimpleNamespace(weight=without_numbers)

    @property
    def base_model(self) -> nn.Module:
        """The module itself: a function has no part below its head."""
        return self

    @passes()
    def forward(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, "n T V"]:
        """The function's logits in float32 or wider.

        Raises ModelError if it fails, or returns anything else than logits of these ids.
        """
        name = getattr(self.function, "__name__", type(self.function).__name__)
        called = f"function {name!r}"
        try:
            output = self.function(ids)
        except (MemoryError, torch.OutOfMemoryError):
            raise  # the batch is halved
        except Exception as error:
            raise ModelError(
                f"{called} failed on ids of shape {tuple(ids.shape)} on {ids.device}"
                f" ({first_line(error)}): give a function from token ids to logits, and device="
                " where its weights are"
            ) from None
        logits = getattr(output, "logits", output)
        if not isinstance(logits, Tensor):
            raise _wrong_shape(called, checks.shown(logits), ids)
        if logits.shape[:-1] != ids.shape:
            raise _wrong_shape(called, f"shape {tuple(logits.shape)}", ids)
        if logits.layout != torch.strided or logits.is_meta:
            raise ModelError(
                f"{called} gave a tensor that is sparse or has no data: return a dense tensor of"
                " logits"
            )
        if not logits.is_floating_point():
            raise ModelError(
                f"{called} gave logits in {str(logits.dtype)[6:]}: return floating-point numbers"
            )
        return widened(logits)

    def get_input_embeddings(self) -> Any:
        """A table of embeddings with a row for each known id, and no numbers in it."""
        return self.input_embeddings

    @torch.no_grad()
    def probed(self, mask_id: int) -> Float[Tensor, "n T V"]:
        """Logits of a few fixed texts, by which a function without parameters is identified."""
        ids = probe_texts(self.outputs)
        ids[:, 1::2] = mask_id
        return self(ids.to(self.device))


def _wrong_shape(called: str, given: str, ids: Tensor) -> ModelError:
    return ModelError(
        f"{called} gave {given} for ids of shape {tuple(ids.shape)}: return logits of shape"
        " (n, T, V)"
    )
