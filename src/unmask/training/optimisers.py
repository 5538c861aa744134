"""Optimisers of a run, and its learning rate.

The rate rises linearly over the warm-up steps and falls by a cosine to zero at the last step. `adamw` is the fused AdamW
of torch, weight decay on matrices only. `muon` keeps AdamW for embeddings, norms and biases, and moves each weight matrix
of the layers along its orthogonalised momentum (Jordan 2024): with M = U S V', the step is U V' scaled by 0.2 sqrt(longer
side), which gives it the root mean square of an AdamW step, so both kinds share one rate. U V' comes from five
Newton-Schulz steps on all matrices of one shape together.

Sharded, each of several processes holds the states of some parameters, steps those and sends them to the others (ZeRO 1).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import cos, pi
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from unmask.options.training import OptimiserName

_NEWTON_SCHULZ = ((3.4445, -4.7750, 2.0315),) * 5
MOMENTUM = 0.95
"""Of Muon."""


def rate_at(step: int, steps: int, warmup: int, peak: float) -> float:
    """The learning rate of a step, counted from 0."""
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * 0.5 * (1 + cos(pi * (step - warmup) / max(1, steps - warmup)))


def orthogonalise(matrices: Float[Tensor, "n rows columns"]) -> Float[Tensor, "n rows columns"]:
    """U V' of each (n, rows, columns) matrix's singular value decomposition, to within the scheme's +-30 % per value."""
    x = matrices.bfloat16() if matrices.is_cuda else matrices
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for a, b, c in _NEWTON_SCHULZ:
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.mT if tall else x).to(matrices.dtype)


class Muon(Optimizer):
    """Orthogonalised momentum for weight matrices; matrices of one shape are stepped together."""

    def __init__(self, params: Iterable[nn.Parameter], lr: float, weight_decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "momentum": MOMENTUM, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step; needs gradients on all parameters."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for p in group["params"]:
                shapes[p.shape].append(p)
            for (rows, columns), params in shapes.items():
                grads = [p.grad for p in params if p.grad is not None]
                buffers = [self.state[p].setdefault("momentum", torch.zeros_like(p)) for p in params]
                torch._foreach_lerp_(buffers, grads, 1 - group["momentum"])
                ahead = torch._foreach_lerp(grads, buffers, group["momentum"])
                update = orthogonalise(torch.stack(ahead)) * (0.2 * max(rows, columns) ** 0.5)
                torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(params, list(update.unbind()), alpha=-group["lr"])


def make_optimisers(
    model: nn.Module, name: OptimiserName, lr: float, weight_decay: float, betas: tuple[float, float], sharded: bool = False
) -> list[Optimizer]:
    """The optimisers of a BertForMaskedLM; tied weights are stepped once. Sharded ones need a process group."""
    named = list(model.named_parameters())
    moved = [] if name == "adamw" else [p for n, p in named if p.dim() == 2 and "embeddings" not in n]
    by_muon = {id(p) for p in moved}
    decayed = [p for _, p in named if p.dim() == 2 and id(p) not in by_muon]
    rest = [p for _, p in named if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]
    kinds: list[tuple[Any, Any, dict[str, Any]]] = [(AdamW, groups, {"betas": betas, "fused": True})]
    if moved:
        kinds.insert(0, (Muon, moved, {"weight_decay": weight_decay}))
    if not sharded:
        return [kind(given, lr=lr, **more) for kind, given, more in kinds]
    from torch.distributed.optim import ZeroRedundancyOptimizer

    return [ZeroRedundancyOptimizer(given, kind, lr=lr, **more) for kind, given, more in kinds]


def whole_states(optimisers: Iterable[Optimizer], here: bool) -> list[dict[str, Any]]:
    """The states of all parameters, as one process has them; sharded ones are gathered in the first process, which is `here`."""
    for optimiser in optimisers:
        if hasattr(optimiser, "consolidate_state_dict"):
            optimiser.consolidate_state_dict()
    return [optimiser.state_dict() for optimiser in optimisers] if here else []
