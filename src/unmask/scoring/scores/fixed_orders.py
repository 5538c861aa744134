"""Chain rules in a fixed order, which are probabilities.

    left_to_right   sum over t of log q(x_t | x_1 .. x_{t-1})
    right_to_left   sum over t of log q(x_t | x_{t+1} .. x_T)

q over the regular tokens. Every token that is not given is a blank, so q knows how long the text
is. With right=N, left_to_right has N blanks after each token, whatever the length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from annotated_types import Interval

from unmask.common.errors import InputError
from unmask.common.lazy import torch
from unmask.common.methods.method import method
from unmask.scoring.scores.masked_range import MaskedRange, Read
from unmask.scoring.scores.score import Computation, Scored

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from unmask.models.conditional_model import ConditionalModel
    from unmask.runs.progress import Progress
    from unmask.scoring.text_batch import TextBatch


class FixedOrder(MaskedRange):
    """A chain rule whose order is the same for all texts."""

    probability = True
    why = "the chain rule in a fixed order"

    def term(self, read: Read) -> Float[Tensor, " m"]:
        """log q(x_t | the tokens before it in the order), q over the regular tokens."""
        return read.log_q + read.lost


@method
class LeftToRight(FixedOrder):
    """chain rule from the first token to the last: sum over t of log q(x_t | x_1 .. x_{t-1}, a
    blank for each later token), q over the regular tokens; so it knows how long the text is,
    unless right is given

    Parameters:
        right: Of left_to_right: blanks after each token, the same for texts of all lengths
            [default: one for each later token].

    >>> scores = unmask.score(["The cats sit here."], unmask.LeftToRight(right=1))
    >>> scores.rows[0]["left_to_right"] < 0
    True
    """

    right: Annotated[int, Interval(ge=0, le=10_000)] | None = None

    name = "left_to_right"
    place = 50

    @classmethod
    def spelled(cls, text: str) -> None:
        """Tells who asks for surprisals where they are."""
        if text == "surprisal":
            raise InputError(
                "surprisal is not a name of a score",
                argument="score",
                use=f"use {cls.name}, whose rows of words and tokens have surprisals",
            )

    def masked(self, batch: TextBatch) -> tuple[Int[Tensor, "n k"], Int[Tensor, "n k"]]:
        """t and everything after it."""
        length = batch.ids.shape[1]
        return batch.sites, torch.full_like(batch.sites, length)

    @property
    def computation(self) -> Computation:
        """That of masked ranges; with `right` the rows have another length, and passes of their
        own.
        """
        if self.right is None:
            return super().computation
        return self.compute_alone

    def compute(
        self, model: ConditionalModel, batch: TextBatch, progress: Progress | None = None
    ) -> Scored:
        """The score of every text."""
        if self.right is None:
            return super().compute(model, batch, progress)
        by_site = _with_blanks_after(self.right, model, batch)
        return Scored(by_site.sum(1), by_site)


def _with_blanks_after(
    right: int, model: ConditionalModel, batch: TextBatch
) -> Float[Tensor, "n k"]:
    """log q(x_t | x_1 .. x_{t-1}, `right` blanks after x_t) at every site.

    Where the model does not take the whole prefix, its first tokens are left out.
    """
    from unmask.scoring.text_batch import GPU_LOGITS
    from unmask.tables.conditionals import logit_rows, lost_nats, outside, regular_tokens

    special = outside(model, regular_tokens(model))
    first, after = batch.stretch()
    length = batch.ids.shape[1]
    longest_prefix = length
    if model.max_length is not None:
        around = first + (length - after)  # start and end tokens
        longest_prefix = model.max_length - around - 1 - right
    if longest_prefix < 1:
        raise InputError(
            f"{right} leaves no room for the text in the {model.max_length} tokens of the model",
            argument="right",
            use="give fewer",
        )
    by_site = torch.zeros(batch.sites.shape, dtype=torch.float64, device=batch.ids.device)
    at_once = logit_rows(model, 1, GPU_LOGITS)
    for position in batch.sites.unique().tolist():
        is_scored = (batch.sites == position).any(1)
        begin = max(first, position - longest_prefix)
        for rows in is_scored.nonzero()[:, 0].split(at_once):
            ids = batch.ids[rows]
            blanks = ids.new_full((len(rows), 1 + right), model.mask_id)
            before = torch.cat([ids[:, :first], ids[:, begin:position]], 1)
            column = torch.full_like(rows, before.shape[1])[:, None]
            logits = model.logits_at(torch.cat([before, blanks, ids[:, after:]], 1), column)[:, 0]
            log_total = logits.logsumexp(1)
            token = logits.gather(1, ids[:, position : position + 1])[:, 0]
            lost = lost_nats(logits, special, log_total).double()
            site = (batch.sites[rows] == position).nonzero()[:, 1]
            by_site[rows, site] = (token - log_total).double() + lost
    return by_site


@method
class RightToLeft(FixedOrder):
    """chain rule from the last token to the first: sum over t of log q(x_t | x_{t+1} .. x_T), q
    over the regular tokens
    """

    name = "right_to_left"
    place = 60

    def masked(self, batch: TextBatch) -> tuple[Int[Tensor, "n k"], Int[Tensor, "n k"]]:
        """t and everything before it."""
        return torch.zeros_like(batch.sites), batch.sites + 1
