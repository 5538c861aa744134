"""Log-probabilities of given tokens at hidden positions of partly revealed texts: log q(x_i | x_S), the rest masked.

One pass of the model over a text in which the sites outside S are masked gives q(. | x_S) at every hidden site, so its
cost is shared by all texts that reveal the same tokens. Only the numbers asked for are kept, not the V logits per position.
The support of q is the model's whole vocabulary, its special tokens included, unless another one is given:
q is then renormalised over it (`unmask.tables.support`).

`length_weights` weighs readings of one text with different numbers of masks. With N the visible tokens right beside a blank, the
fit of a reading is

    prod_{j in N} q(x_j | every other visible token, the blanks masked),

and its weight is its share of the sum over the readings. A text without such neighbours, or with impossible ones in every
reading, gives equal weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.cloze import Cloze
from unmask.errors import InputError
from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress
from unmask.tables.support import lost_nats, outside

CPU_LOGITS = 2**26
GPU_LOGITS = 2**32
"""Bytes of logits that one call of the model may return; a call holds a few times as much at its peak."""


def logit_rows(model: ConditionalModel, predicted: int, on_gpu: int = GPU_LOGITS) -> int:
    """How many rows one call may have, with logits at `predicted` positions each; `on_gpu`: bytes of these on a GPU."""
    budget = on_gpu if model.device.type == "cuda" else CPU_LOGITS
    return max(1, budget // (4 * model.vocab_size * max(1, predicted)))


class Conditionals:
    """A model read at masked positions; `support` are the token ids that q runs over, `passes` counts the rows passed.

    `progress` is told of every call, with the number of passes `planned`.
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
        self._outside = torch.empty(0, dtype=torch.long, device=model.device) if support is None else outside(model, support)

    def log_q(
        self, rows: Int[Tensor, "n T"], positions: Int[Tensor, "n p"], targets: Int[Tensor, "n p"], distinct: bool = False
    ) -> Float[Tensor, "n p"]:
        """log q(targets | rows) at `positions`, in float64.

        Equal rows with equal positions are passed once; `distinct`: all rows differ, so skip the search.
        """
        return self.log_q_and_lost(rows, positions, targets, distinct)[0]

    def log_q_and_lost(
        self, rows: Int[Tensor, "n T"], positions: Int[Tensor, "n p"], targets: Int[Tensor, "n p"], distinct: bool = False
    ) -> tuple[Float[Tensor, "n p"], Float[Tensor, "n p"]]:
        """The same, and how many nats the tokens outside the support take: over the whole vocabulary log q is lower by these."""
        if distinct:
            return self._gathered(rows, positions, torch.arange(len(rows), device=rows.device), targets)
        keys, row_of = torch.unique(torch.cat([rows, positions], 1), dim=0, return_inverse=True)
        length = rows.shape[1]
        return self._gathered(keys[:, :length], keys[:, length:], row_of, targets)

    def _gathered(self, rows: Tensor, positions: Tensor, row_of: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Passes over `rows` in calls of bounded size; entry j reads row row_of[j] at targets[j]."""
        answer, nats = torch.empty((2, *targets.shape), dtype=torch.float64, device=rows.device)
        at_once = logit_rows(self.model, positions.shape[1])
        column = torch.arange(positions.shape[1], device=rows.device)
        for start in range(0, len(rows), at_once):
            logits = self._logits(rows[start : start + at_once], positions[start : start + at_once])
            log_p = logits.log_softmax(2)
            lost = lost_nats(logits, self._outside, logits.amax(2) - log_p.amax(2))
            mine = ((row_of >= start) & (row_of < start + len(log_p))).nonzero().flatten()
            row = row_of[mine, None] - start
            nats[mine] = lost[row, column].double()
            answer[mine] = log_p[row, column, targets[mine]].double() + nats[mine]
        return answer, nats

    def distributions(self, rows: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]) -> Float[Tensor, "n p V"]:
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


def check_texts(model: ConditionalModel, texts: Int[Tensor, "n T"], sites: Int[Tensor, "n k"]) -> None:
    """Refuse texts with a mask at a site, sites outside the text, and sites named twice."""
    length = texts.shape[1]
    if bool(((sites < 0) | (sites >= length)).any()):
        raise InputError(f"sites {sites.unique().tolist()} do not all lie in a text of {length} tokens, numbered from 0")
    in_order = sites.sort(1).values
    if bool((in_order[:, 1:] == in_order[:, :-1]).any()):
        raise InputError("a text's sites name a position twice: name each position once")
    if bool((texts.gather(1, sites) == model.mask_id).any()):
        raise InputError("a text has the mask token at a site: give the token that fills it")


def length_weights(conditionals: Conditionals, clozes: Sequence[Cloze]) -> list[float]:
    """The weight of each reading of a text; two passes per blank and reading."""
    model = conditionals.model
    special = {*model.special_ids, model.mask_id}
    fits = []
    for cloze in clozes:
        beside = {p + step for p in cloze.block for step in (-1, 1)} & set(range(len(cloze.ids)))
        places = torch.tensor(sorted(p for p in beside if cloze.ids[p] not in special), device=model.device)
        text = torch.tensor([cloze.ids], device=model.device).repeat(len(places), 1)
        rows = text.scatter(1, places[:, None], model.mask_id)
        fits.append(conditionals.log_q(rows, places[:, None], text.gather(1, places[:, None])).sum() if len(places) else 0.0)
    log_fits = torch.tensor(fits, dtype=torch.float64)
    if float(log_fits.amax()) == -torch.inf:
        log_fits.zero_()
    weights: list[float] = log_fits.softmax(0).tolist()
    return weights
