"""Conditionals of partly revealed texts: log q(x_i | x_S) of tokens at hidden positions, the
sites outside S masked.

One pass of the model over a text in which the sites outside S are masked gives q(. | x_S) at
every hidden site, so texts that reveal the same tokens share it. Log-probabilities of the given
tokens are returned, not the V logits per position.

A model gives some of its probability to special tokens ([CLS], [PAD], [MASK], [UNK], ...) and
to columns that no token uses. None can be in a filled text. Every law of this project that sums
to 1 therefore has

    q(v | context) = exp f(v) / sum of exp f(w) over w in the support,

at each step of it: over the regular tokens, or over an alphabet where one is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.common import checks
from unmask.common.errors import InputError
from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress

# Bytes of logits that one call of the model may return; a call holds a few times as much at its
# peak.
CPU_LOGITS = 2**26
GPU_LOGITS = 2**32


def logit_rows(model: ConditionalModel, predicted: int, on_gpu: int = GPU_LOGITS) -> int:
    """How many rows one call may have, with logits at `predicted` positions each; `on_gpu`:
    bytes of these on a GPU.
    """
    budget = on_gpu if model.device.type == "cuda" else CPU_LOGITS
    return max(1, budget // (4 * model.vocab_size * max(1, predicted)))


class Conditionals:
    """A model read at masked positions; `passes` counts the rows passed.

    `support`: the token ids that q runs over; by default the model's whole vocabulary, its
    special tokens included. `progress` is called after every call of the model, with the number
    of passes `planned`.
    """

    def __init__(
        self,
        model: ConditionalModel,
        support: Int[Tensor, " s"] | None = None,
        progress: Progress | None = None,
        planned: int = 0,
    ) -> None:
        self.model = model
        self.passes, self.planned, self.progress = 0, planned, progress
        self._outside = (
            torch.empty(0, dtype=torch.long, device=model.device)
            if support is None
            else outside(model, support)
        )

    def log_q(
        self,
        rows: Int[Tensor, "n T"],
        positions: Int[Tensor, "n p"],
        targets: Int[Tensor, "n p"],
        distinct: bool = False,
    ) -> Float[Tensor, "n p"]:
        """log q(targets | rows) at `positions`, in float64. Equal rows with equal positions are
        passed once.

        `distinct`: all rows differ, so skip the search for equal ones.
        """
        row_of = torch.arange(len(rows), device=rows.device)
        if not distinct:
            both, row_of = torch.unique(torch.cat([rows, positions], 1), dim=0, return_inverse=True)
            rows, positions = both[:, : rows.shape[1]], both[:, rows.shape[1] :]
        log_q = torch.empty(targets.shape, dtype=torch.float64, device=rows.device)
        column = torch.arange(positions.shape[1], device=rows.device)
        at_once = logit_rows(self.model, len(column))
        for start in range(0, len(rows), at_once):
            logits = self._logits(rows[start : start + at_once], positions[start : start + at_once])
            log_p = logits.log_softmax(2)
            lost = lost_nats(logits, self._outside, logits.amax(2) - log_p.amax(2))
            mine = ((row_of >= start) & (row_of < start + len(log_p))).nonzero().flatten()
            row = row_of[mine, None] - start
            log_q[mine] = log_p[row, column, targets[mine]].double() + lost[row, column].double()
        return log_q

    def distributions(
        self, rows: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]
    ) -> Float[Tensor, "n p V"]:
        """log q(. | rows) at `positions`, whole, in one call; -inf outside the support."""
        logits = self._logits(rows, positions)
        inside = logits.index_fill(2, self._outside, -torch.inf) if len(self._outside) else logits
        return inside.log_softmax(2)

    def _logits(self, rows: Tensor, positions: Tensor) -> Tensor:
        logits = self.model.logits(rows, positions)
        self.passes += len(rows)
        if self.progress:
            self.progress(min(self.passes, self.planned), self.planned, "passes")
        return logits.to(torch.promote_types(logits.dtype, torch.float32))


def regular_tokens(model: ConditionalModel) -> Int[Tensor, " s"]:
    """Ids of the tokens that a text can have: all except the special ones."""
    regular = torch.ones(model.vocab_size, dtype=torch.bool)
    regular[[i for i in model.special_ids if i < model.vocab_size]] = False
    return regular.nonzero().flatten().to(model.device)


def outside(model: ConditionalModel, support: Int[Tensor, " s"]) -> Int[Tensor, " r"]:
    """Ids of the model's output columns that are not in the support."""
    excluded = torch.ones(model.vocab_size, dtype=torch.bool, device=model.device)
    excluded[support.to(model.device)] = False
    return excluded.nonzero().flatten()


def token_sets(
    what: str,
    sets: Sequence[Tensor | Sequence[int]],
    sites: int,
    check: Callable[[int, int], object],
) -> list[Int[Tensor, " n"]]:
    """A user's sets of tokens, one per blank, as tensors; raises if a set is empty or names a
    token twice.

    `check(b, i)` raises if blank b, counted from 1, cannot have token i.
    """
    if len(sets) != sites:
        raise InputError(f"{len(sets)} {what} sets for {sites} blanks: give one set per blank")
    checked = []
    for blank, tokens in enumerate(sets, 1):
        name = f"the {what}s of blank {blank}"
        ids = checks.wholes(name, tokens)
        for token in ids:
            check(blank, token)
        if not ids or len(set(ids)) < len(ids):
            raise InputError(f"{name} are empty or name a token twice: name each token once")
        checked.append(torch.tensor(ids))
    return checked


def lost_nats(
    logits: Float[Tensor, "*n V"], outside: Int[Tensor, " r"], log_total: Float[Tensor, "*n"]
) -> Float[Tensor, "*n"]:
    """-log of the share of the model's probability that the support holds; `log_total`:
    logsumexp of all logits.

    -log(1 - s), s the share of the columns `outside`, which are few as a rule. Where s is above
    a half, 1 - s would lose digits, and the support is summed instead.
    """
    log_share = logits[..., outside].logsumexp(-1) - log_total
    nats = -torch.log1p(-log_share.exp())
    heavy = log_share > -log(2)
    if bool(heavy.any()):
        nats[heavy] = log_total[heavy] - logits[heavy].index_fill(
            -1, outside, -torch.inf
        ).logsumexp(-1)
    return nats
