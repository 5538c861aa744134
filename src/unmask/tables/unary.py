"""The unary conditionals of a block, as k log-probability tables over the values of the block.

For a block of k positions and candidate sets C_1..C_k of tokens, table t holds log q_t(x_t | x_{S\\t}, rest) for all
x in C_1 x ... x C_k, normalised along axis t *within* C_t. For a pair these are A and B of the paper. The only step
that runs the model: |C|^(k-1) passes a table, one with the whole block masked, and for k > 2 those of the chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import torch
from torch import Tensor

from unmask.cloze import Cloze
from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress


@dataclass(frozen=True)
class Tables:
    """What every construction is a rule over. Shapes: n_t = |C_t|; a tensor "without axis t" has size 1 there.

    candidates      k vectors of token ids: the values of each axis
    log_q           k tensors (n_1..n_k): log q_t, normalised along axis t within the candidates
    log_inside      k tensors without axis t: log of the mass that q_t puts on the candidates (0 for a whole vocabulary)
    log_total       k tensors without axis t: logsumexp of the logits over the candidates, so logits = log_q + log_total
    log_masked      k vectors: log m_t, the whole block masked, normalised within the candidates
    log_masked_inside  k numbers: log of the mass that m_t puts on the candidates
    log_forward     log q(x_t | x_{<t}; x_{>t} masked) for t = 2..k-1, shape (n_1..n_t, 1..1); the mass outside is not
                    renormalised away. Empty for a pair
    log_backward    the same from the last position down: log q(x_t | x_{>t}; x_{<t} masked), for t = k-1..2
    """

    candidates: tuple[Tensor, ...]
    log_q: tuple[Tensor, ...]
    log_inside: tuple[Tensor, ...]
    log_total: tuple[Tensor, ...]
    log_masked: tuple[Tensor, ...]
    log_masked_inside: tuple[float, ...]
    log_forward: tuple[Tensor, ...] = ()
    log_backward: tuple[Tensor, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(c) for c in self.candidates)

    @cached_property
    def sites(self) -> int:
        return len(self.candidates)

    @property
    def log_mass(self) -> float:
        """Log of the mass that the product joint puts on the candidate sets."""
        return sum(self.log_masked_inside)


def unary_tables(
    model: ConditionalModel,
    cloze: Cloze,
    candidates: Sequence[Tensor] | None = None,
    dtype: torch.dtype | None = None,
    progress: Progress | None = None,
) -> Tables:
    """The tables of `cloze`'s block over `candidates` (k vectors of token ids), by default the whole vocabulary."""
    k = len(cloze.block)
    masked_logits = model.logits(
        torch.tensor([cloze.ids], device=model.device), torch.tensor([cloze.block], device=model.device)
    )[0]
    if candidates is None:
        candidates = [torch.arange(model.vocab_size)] * k
    axes = tuple(c.to(model.device) for c in candidates)
    log_m = masked_logits.to(dtype or torch.promote_types(masked_logits.dtype, torch.float32)).log_softmax(-1)
    inside = [log_m[t][axes[t]] for t in range(k)]
    passes = _Passes(pass_count([len(c) for c in axes]), progress)
    passes.add(1)
    filled = [_conditional(model, cloze, axes, t, [s for s in range(k) if s != t], log_m.dtype, passes) for t in range(k)]
    between = range(1, k - 1)
    forward = [_conditional(model, cloze, axes, t, list(range(t)), log_m.dtype, passes) for t in between]
    backward = [_conditional(model, cloze, axes, t, list(range(t + 1, k)), log_m.dtype, passes) for t in reversed(between)]
    return Tables(
        candidates=axes,
        log_q=tuple(f[0] for f in filled),
        log_inside=tuple(f[1] for f in filled),
        log_total=tuple(f[2] for f in filled),
        log_masked=tuple(m.log_softmax(-1) for m in inside),
        log_masked_inside=tuple(float(m.logsumexp(-1)) for m in inside),
        log_forward=tuple(q + mass for q, mass, _ in forward),
        log_backward=tuple(q + mass for q, mass, _ in backward),
    )


class _Passes:
    """Counts passes done and reports them."""

    def __init__(self, total: int, report: Progress | None) -> None:
        self.done, self.total, self.report = 0, total, report

    def add(self, n: int) -> None:
        self.done += n
        if self.report:
            self.report(self.done, self.total, "passes of the model")


def pass_count(sizes: list[int]) -> int:
    """Passes of the model that the tables of candidate sets of these sizes take."""
    k = len(sizes)
    unary = sum(prod(sizes[:t] + sizes[t + 1 :]) for t in range(k))
    chains = sum(prod(sizes[:t]) + prod(sizes[t + 1 :]) for t in range(1, k - 1))
    return 1 + unary + chains


def _conditional(
    model: ConditionalModel,
    cloze: Cloze,
    axes: tuple[Tensor, ...],
    t: int,
    given: list[int],
    dtype: torch.dtype,
    passes: _Passes,
) -> tuple[Tensor, Tensor, Tensor]:
    """log q(x_t | x_given; the block's other positions masked), its log mass inside C_t, and its logits' total.

    All three have k axes; an axis that is neither t nor in `given` has size 1, the last two have size 1 at t too.
    """
    values = torch.cartesian_prod(*[axes[s] for s in given]).reshape(-1, len(given)) if given else axes[t].new_empty((1, 0))
    whole = torch.equal(axes[t], torch.arange(model.vocab_size, device=axes[t].device))
    before = prod(len(axes[s]) for s in given if s < t)
    log_q = torch.empty((before, len(axes[t]), len(values) // before), dtype=dtype, device=axes[t].device)
    total = torch.empty(len(values), dtype=dtype, device=axes[t].device)
    mass = torch.zeros_like(total)
    for rows, logits in model.substitutions(cloze.ids, [cloze.block[s] for s in given], values, cloze.block[t]):
        log_p = torch.log_softmax(logits, -1, dtype=dtype)
        total[rows] = logits.amax(-1).to(dtype) - log_p.amax(-1)
        if not whole:
            log_p = log_p[:, axes[t]]
            mass[rows] = log_p.logsumexp(-1)
            total[rows] += mass[rows]
            log_p -= mass[rows, None]
        _write(log_q, rows, log_p)
        passes.add(len(logits))
    shape = [len(axes[s]) if s in given else 1 for s in range(len(axes))]
    cells = log_q.reshape([*shape[:t], len(axes[t]), *shape[t + 1 :]])
    return cells, mass.reshape(shape), total.reshape(shape)


def _write(table: Tensor, rows: slice, values: Tensor) -> None:
    """Row r of `values` to table[r // after, :, r % after], for a table of shape (before, n, after) in memory order."""
    after = table.shape[2]
    if after == 1:
        table[rows, :, 0] = values
        return
    taken = 0
    while taken < len(values):
        outer, inner = divmod(rows.start + taken, after)
        part = values[taken : taken + after - inner]
        table[outer, :, inner : inner + len(part)] = part.T.contiguous()
        taken += len(part)
