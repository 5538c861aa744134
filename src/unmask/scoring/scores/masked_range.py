"""Scores whose every term masks one range of positions, which does not depend on what the model
says:

    score(x) = sum over sites t of  f_t(x),
               f_t read in one pass at position t, with positions first_t .. after_t - 1 masked

A score of this kind says which range it masks for t (`masked`) and what it reads there (`term`).
One term is one pass. Terms that several scores share (the last piece of a word for pll and
pll_word, the last token for pll and left_to_right) are passed once.

Windows, for texts of more tokens than the model takes: the term of t is computed in the stretch
of tokens that the model takes (its start and end tokens kept around it) with t in the middle,
moved inwards at the ends of the text. left_to_right and right_to_left stay probabilities, of a
chain rule with a bounded memory.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from unmask.common.lazy import torch
from unmask.scoring.scores.score import Computation, Score, Scored

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from unmask.models.conditional_model import ConditionalModel
    from unmask.runs.progress import Progress
    from unmask.scoring.text_batch import TextBatch


class Read(NamedTuple):
    """What a pass says about token x_t, for each of m terms, in float64.

    log_q   log q(x_t | what is not masked), q over the model's whole vocabulary
    logit   f_t(x_t)
    lost    nats that special tokens take of q: log_q + lost has q over the regular tokens. 0 if no
            score of the computation is a probability
    """

    log_q: Float[Tensor, " m"]
    logit: Float[Tensor, " m"]
    lost: Float[Tensor, " m"]


class MaskedRange(Score):
    """A sum of terms, each with one range of positions masked."""

    by_token = True
    windows = True

    @abstractmethod
    def masked(self, batch: TextBatch) -> tuple[Int[Tensor, "n k"], Int[Tensor, "n k"]]:
        """For each site the first position that is masked with it, and the first after those."""

    def term(self, read: Read) -> Float[Tensor, " m"]:
        """The share of a token in the score."""
        return read.log_q

    def compute(
        self, model: ConditionalModel, batch: TextBatch, progress: Progress | None = None
    ) -> Scored:
        """The score of every text."""
        return masked_range_scores([self], model, batch, progress)[self.name]

    @property
    def computation(self) -> Computation:
        """That of all scores of this kind."""
        return masked_range_scores


def masked_range_scores(
    scores: Sequence[MaskedRange],
    model: ConditionalModel,
    batch: TextBatch,
    progress: Progress | None = None,
) -> dict[str, Scored]:
    """The scores of every text; one pass per distinct term."""
    from unmask.tables.conditionals import outside, regular_tokens

    n, k = batch.sites.shape
    text = torch.arange(n, device=batch.ids.device).unsqueeze(1).expand(n, k)
    ranges = []
    for score in scores:
        first, after = score.masked(batch)
        ranges.append(torch.stack([text, first, after, batch.sites], -1))
    wanted = torch.stack(ranges).flatten(0, 2)
    if len(scores) > 1:
        terms, term_of = wanted.unique(dim=0, return_inverse=True)
    else:  # one score's terms differ; to sort them would wait for a GPU
        terms = wanted
        term_of = torch.arange(len(wanted), device=wanted.device)
    special = None
    if any(score.probability for score in scores):
        special = outside(model, regular_tokens(model))
    read = _read(model, batch, terms, special)
    scored = {}
    for of_score, score in zip(term_of.reshape(len(scores), n, k), scores, strict=True):
        by_site = score.term(read)[of_score]
        scored[score.name] = Scored(by_site.sum(1), by_site)
    return scored


def _read(
    model: ConditionalModel,
    batch: TextBatch,
    terms: Int[Tensor, "m 4"],
    special: Int[Tensor, " s"] | None,
) -> Read:
    """What the model says about each term (text, first, after, position).

    special   the columns of the model's output that hold no regular token; None: `lost` is 0
    """
    from unmask.scoring.text_batch import GPU_LOGITS
    from unmask.tables.conditionals import logit_rows, lost_nats

    numbers = torch.zeros((3, len(terms)), dtype=torch.float64, device=terms.device)
    log_q, logit, lost = numbers
    at_once = logit_rows(model, 1, GPU_LOGITS)
    for start in range(0, len(terms), at_once):
        these = slice(start, start + at_once)
        text, first, after, position = terms[these].unbind(1)
        places = _places(model, batch, text, position)
        is_masked = (
            batch.regular[text.unsqueeze(1), places]
            & (places >= first.unsqueeze(1))
            & (places < after.unsqueeze(1))
        )
        rows = batch.ids[text.unsqueeze(1), places].masked_fill(is_masked, model.mask_id)
        column = (places == position.unsqueeze(1)).int().argmax(1, keepdim=True)
        logits = model.logits_at(rows, column)[:, 0]
        token = batch.ids[text, position].unsqueeze(1)
        logit_of_token = logits.gather(1, token).squeeze(1)
        log_total = logits.logsumexp(1)
        logit[these] = logit_of_token.double()
        log_q[these] = (logit_of_token - log_total).double()
        if special is not None:
            lost[these] = lost_nats(logits, special, log_total).double()
    return Read(log_q=log_q, logit=logit, lost=lost)


def _places(
    model: ConditionalModel, batch: TextBatch, text: Int[Tensor, " m"], position: Int[Tensor, " m"]
) -> Int[Tensor, "m L"]:
    """The positions of its text that each row holds: all, or the start and end tokens and a
    window around `position`.
    """
    length = batch.ids.shape[1]
    limit = model.max_length
    all_places = torch.arange(length, device=text.device).expand(len(text), -1)
    if limit is None or length <= limit:
        return all_places
    first, after = batch.stretch()
    width = limit - first - (length - after)
    start = (position - width // 2).clamp(min=first, max=after - width)
    inside = start.unsqueeze(1) + torch.arange(width, device=text.device)
    return torch.cat([all_places[:, :first], inside, all_places[:, after:]], 1)
