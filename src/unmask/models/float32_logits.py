"""Logits in float32 from networks in half precision: a logit near 20 has steps of 1/8 in
bfloat16.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from unmask.models.encoder.linear_maps import HALF_TYPES

TENSOR_CORE_ROWS = 64
"""A GPU's fast products need an output layer whose number of rows is a multiple of this one."""
TYPES_THAT_READ_THE_WEIGHT = ("mobilebert",)
"""Types whose head multiplies by the output layer's weight itself and never calls the layer. They
keep their layer, since that product needs the weight in its own number format.
"""


class Float32Output(nn.Linear):
    """The output layer of a half-precision network, with logits in float32.

    weight   on a CPU in float32; on a GPU in half precision, whose products accumulate in float32
    bias     in float32
    """

    @classmethod
    def of(cls, linear: nn.Linear) -> Float32Output:
        """A layer with the weights of `linear`.

        On a GPU rows of zeros fill the weight up to a multiple of TENSOR_CORE_ROWS: BERT's
        28,996 tokens, for example, are none. `forward` cuts the logits of these rows off.
        """
        output = cls(
            linear.in_features, linear.out_features, bias=linear.bias is not None, device="meta"
        )
        weight = linear.weight.detach()
        if weight.device.type == "cuda":
            rows_of_zeros = -len(weight) % TENSOR_CORE_ROWS
            weight = functional.pad(weight, (0, 0, 0, rows_of_zeros))
        else:
            weight = weight.float()
        output.weight = nn.Parameter(weight, requires_grad=False)
        if linear.bias is not None:
            output.bias = nn.Parameter(linear.bias.detach().float(), requires_grad=False)
        return output

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits in float32."""
        if hidden.device.type != "cuda":
            return functional.linear(hidden.float(), self.weight, self.bias)
        # `functional.linear` would round its result to half precision.
        rows = hidden.flatten(0, -2)
        product = torch.mm(rows, self.weight.t(), out_dtype=torch.float32)
        product = product[:, : self.out_features]
        logits = product.unflatten(0, hidden.shape[:-1])
        bias: Tensor | None = self.bias  # torch's types know of no layer without one
        if bias is None:
            return logits
        return logits.add_(bias)


def widen_output(network: Any) -> None:
    """Replace the output layer of a half-precision network by a `Float32Output`.

    Any other network stays as it is, and so does one whose output layer is not plainly linear.
    """
    if network.config.model_type in TYPES_THAT_READ_THE_WEIGHT:
        return
    output = network.get_output_embeddings()
    if isinstance(output, nn.Linear) and output.weight.dtype in HALF_TYPES:
        network.set_output_embeddings(Float32Output.of(output))


def widened(logits: Tensor) -> Tensor:
    """The logits in float32 or wider."""
    if logits.dtype in HALF_TYPES:
        return logits.float()
    return logits
