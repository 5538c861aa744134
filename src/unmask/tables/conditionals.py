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

from unmask.common.errors import InputError
from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress

CPU_LOGITS = 2**26
GPU_LOGITS = 2**32
"""Bytes of logits that one call of the model may return; a call holds a few times as much at its
peak.
"""
FLOAT32 = 4  # bytes


def logit_rows(model: ConditionalModel, predicted: int, on_gpu: int = GPU_LOGITS) -> int:
    """How many rows one call may have, at least one.

    predicted  positions of each row that have logits
    on_gpu     bytes of all logits on a GPU
    """
    budget = on_gpu if model.device.type == "cuda" else CPU_LOGITS
    bytes_per_row = FLOAT32 * model.vocab_size * max(1, predicted)
    return max(1, budget // bytes_per_row)


class Conditionals:
    """A model read at masked positions; `passes` counts the rows passed.

    support    the token ids that q runs over [default: the model's whole vocabulary, its special
               tokens included]
    progress   called after every call of the model with the passes so far and those `planned`
    """

    def __init__(
        self,
        model: ConditionalModel,
        support: Int[Tensor, " s"] | None = None,
        progress: Progress | None = None,
        planned: int = 0,
    ) -> None:
        self.model = model
        self.passes: int = 0
        self.planned = planned
        self.progress = progress
        if support is None:
            self._outside = torch.empty(0, dtype=torch.long, device=model.device)
        else:
            self._outside = outside(model, support)

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
        passed_row = torch.arange(len(rows), device=rows.device)  # the row that each row's pass is
        if not distinct:
            length = rows.shape[1]
            both = torch.cat([rows, positions], 1)
            both, passed_row = torch.unique(both, dim=0, return_inverse=True)
            rows = both[:, :length]
            positions = both[:, length:]
        log_q = torch.empty(targets.shape, dtype=torch.float64, device=rows.device)
        column = torch.arange(positions.shape[1], device=rows.device)
        at_once = logit_rows(self.model, len(column))
        for start in range(0, len(rows), at_once):
            stop = min(start + at_once, len(rows))
            logits = self._logits(rows[start:stop], positions[start:stop])
            log_p = logits.log_softmax(2)
            log_total = logits.amax(2) - log_p.amax(2)  # logsumexp, without another sum
            lost = lost_nats(logits, self._outside, log_total)
            asking = ((passed_row >= start) & (passed_row < stop)).nonzero().flatten()
            row = passed_row[asking, None] - start
            of_targets = log_p[row, column, targets[asking]].double()
            log_q[asking] = of_targets + lost[row, column].double()
        return log_q

    def distributions(
        self, rows: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]
    ) -> Float[Tensor, "n p V"]:
        """log q(. | rows) at `positions`, whole, in one call; -inf outside the support."""
        logits = self._logits(rows, positions)
        if len(self._outside):
            logits = logits.index_fill(2, self._outside, -torch.inf)
        return logits.log_softmax(2)

    def _logits(self, rows: Tensor, positions: Tensor) -> Tensor:
        """One call of the model: its logits, in float32 or finer."""
        logits = self.model.logits_at(rows, positions)
        self.passes += len(rows)
        if self.progress:
            self.progress(min(self.passes, self.planned), self.planned, "passes")
        return logits.to(torch.promote_types(logits.dtype, torch.float32))


def regular_tokens(model: ConditionalModel) -> Int[Tensor, " s"]:
    """Ids of the tokens that a text can have: all except the special ones."""
    regular = torch.ones(model.vocab_size, dtype=torch.bool)
    special = [i for i in model.special_ids if i < model.vocab_size]  # others have no logits
    regular[special] = False
    return regular.nonzero().flatten().to(model.device)


def outside(model: ConditionalModel, support: Int[Tensor, " s"]) -> Int[Tensor, " r"]:
    """Ids of the model's output columns that are not in the support."""
    excluded = torch.ones(model.vocab_size, dtype=torch.bool, device=model.device)
    excluded[support.to(model.device)] = False
    return excluded.nonzero().flatten()


def token_sets(
    what: str,
    sets: Sequence[Sequence[int]],
    sites: int,
    check: Callable[[int, int], object],
) -> list[Int[Tensor, " n"]]:
    """A user's sets of tokens, one per blank, as tensors; raises if a set is empty or names a
    token twice.

    what    a token of a set is called in messages
    check   check(b, i) raises if blank b, counted from 1, cannot have token i
    """
    if len(sets) != sites:
        raise InputError(f"{len(sets)} {what} sets for {sites} blanks: give one set per blank")
    of_blanks = []
    for blank, tokens in enumerate(sets, 1):
        name = f"the {what}s of blank {blank}"
        for token in tokens:
            check(blank, token)
        if not tokens or len(set(tokens)) < len(tokens):
            raise InputError(f"{name} are empty or name a token twice: name each token once")
        of_blanks.append(torch.tensor(tokens))
    return of_blanks


def lost_nats(
    logits: Float[Tensor, "*n V"], outside: Int[Tensor, " r"], log_total: Float[Tensor, "*n"]
) -> Float[Tensor, "*n"]:
    """-log of the share of the model's probability that the support holds.

    This is -log(1 - s), where s is the share of the columns `outside`, which are few as a rule.
    Where s is above a half, 1 - s would lose digits, and the support is summed instead.

    log_total   logsumexp of all logits
    """
    log_share = logits[..., outside].logsumexp(-1) - log_total
    nats = -torch.log1p(-log_share.exp())
    heavy = log_share > -log(2)
    if bool(heavy.any()):
        inside = logits[heavy].index_fill(-1, outside, -torch.inf)
        nats[heavy] = log_total[heavy] - inside.logsumexp(-1)
    return nats
