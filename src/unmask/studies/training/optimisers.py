"""The optimisers of a run and their learning rate.

The rate rises linearly over the warm-up steps and falls by a cosine to zero at the last step.

`adamw` is the fused AdamW of torch, weight decay on matrices only. `muon` keeps AdamW for
embeddings, norms and biases, and moves each weight matrix of the layers along its orthogonalised
momentum (`torch.optim.Muon`, Jordan 2024). With M = U S V' the momentum, the step is

    0.2 sqrt(longer side) U V',

which has the root mean square of an AdamW step, so both kinds share one rate. U V' comes from five
Newton-Schulz steps on all matrices of one shape together.
"""

from __future__ import annotations

from collections import defaultdict
from math import cos, pi
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import AdamW, Muon, Optimizer

BETAS = (0.9, 0.98)
"""Of AdamW."""
WEIGHT_DECAY = 0.01
"""Of all matrices."""
NEWTON_SCHULZ_STEPS = 5
ROOT_MEAN_SQUARE = 0.2
"""Of a step at rate 1, as AdamW's roughly have."""


def rate_at(step: int, steps: int, warmup: int, peak: float) -> float:
    """The learning rate of a step, counted from 0."""
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * 0.5 * (1 + cos(pi * (step - warmup) / max(1, steps - warmup)))


def orthogonalise(matrices: Float[Tensor, "n rows columns"]) -> Float[Tensor, "n rows columns"]:
    """U V' of each matrix's singular value decomposition U S V'.

    Its singular values are within 30 % of 1: the coefficients of the scheme are Jordan's, which
    reach that range in few steps and do not converge further.
    """
    x = matrices.bfloat16() if matrices.is_cuda else matrices
    tall = x.shape[-2] > x.shape[-1]
    if tall:  # the products below are smaller with the longer side last
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    if tall:
        x = x.mT
    return x.to(matrices.dtype)


class StackedMuon(Muon):
    """`torch.optim.Muon` for matrices that all have gradients; those of one shape are stepped
    together.

    Torch steps them one by one: on an H200 a step of training then takes 2.0 times as long (5
    layers of width 320), or 1.7 (BERT-base).
    """

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step."""
        for group in self.param_groups:
            of_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                of_shape[parameter.shape].append(parameter)
            for parameters in of_shape.values():
                self._step_together(parameters, group)

    def _step_together(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        """Step matrices of one shape, with the rate, decay and momentum of their group."""
        rate = group["lr"]
        momentum = group["momentum"]
        gradients = [p.grad for p in parameters if p.grad is not None]
        buffers = [
            self.state[p].setdefault("momentum_buffer", torch.zeros_like(p)) for p in parameters
        ]
        torch._foreach_lerp_(buffers, gradients, 1 - momentum)
        ahead = torch._foreach_lerp(gradients, buffers, momentum)  # Nesterov's
        scale = ROOT_MEAN_SQUARE * max(parameters[0].shape) ** 0.5
        update = orthogonalise(torch.stack(ahead)) * scale
        torch._foreach_mul_(parameters, 1 - rate * group["weight_decay"])
        torch._foreach_add_(parameters, list(update.unbind()), alpha=-rate)


def make_optimisers(model: nn.Module, name: str, lr: float) -> list[Optimizer]:
    """The optimisers of a BertForMaskedLM, `muon` or `adamw`; tied weights are stepped once."""
    by_muon: list[nn.Parameter] = []
    decayed: list[nn.Parameter] = []
    not_decayed: list[nn.Parameter] = []
    for parameter_name, parameter in model.named_parameters():
        if parameter.dim() < 2:
            not_decayed.append(parameter)
        elif name == "muon" and "embeddings" not in parameter_name:
            by_muon.append(parameter)
        else:
            decayed.append(parameter)
    groups = [
        {"params": decayed, "weight_decay": WEIGHT_DECAY},
        {"params": not_decayed, "weight_decay": 0.0},
    ]
    adamw = AdamW(groups, lr=lr, betas=BETAS, fused=True)
    if not by_muon:
        return [adamw]
    return [StackedMuon(by_muon, lr=lr, weight_decay=WEIGHT_DECAY), adamw]
