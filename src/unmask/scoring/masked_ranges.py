"""Scores whose every term masks one range of positions, which does not depend on what the model says.

    pll, energy_norm   log q(x_t | rest), t masked alone          energy_raw   f_t(x_t), the logit instead
    pll_word           t and the later pieces of its word masked
    left_to_right      t and everything after it masked           right_to_left   t and everything before it

Pseudo-likelihoods and energies have q over the whole vocabulary, as they are published; the fixed orders, which are
probabilities, over the regular tokens (`unmask.tables.revealing`).

One term is one pass: mask a range, read one position. Terms that several scores share (the last piece of a word for pll and
pll_word, the last token for pll and left_to_right) are passed once.

Windows, for texts of more tokens than the model takes: the term of t is computed in the stretch of tokens that the model takes
(its start and end tokens kept around it) with t in the middle, moved inwards at the ends of the text. left_to_right and
right_to_left stay probabilities, of a chain rule with a bounded memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress
from unmask.scoring.batch import GPU_LOGITS, Scored, TextBatch
from unmask.scoring.registry import MaskedRange
from unmask.tables.revealing import logit_rows, lost_nats, outside, regular_tokens


def score_ranges(
    model: ConditionalModel, batch: TextBatch, scores: Sequence[MaskedRange], progress: Progress | None = None
) -> dict[str, Scored]:
    """The scores of every text; one pass per distinct term."""
    n, k = batch.sites.shape
    text = torch.arange(n, device=batch.ids.device).unsqueeze(1).expand(n, k)
    ranges = [torch.stack([text, *masked_range(batch, score.masks), batch.sites], -1) for score in scores]
    wanted = torch.stack(ranges).flatten(0, 2)
    if len(scores) > 1:
        terms, term_of = wanted.unique(dim=0, return_inverse=True)
    else:  # one score's terms differ; to sort them would wait for a GPU
        terms, term_of = wanted, torch.arange(len(wanted), device=wanted.device)
    over_regular = any("special" in score.extra for score in scores)
    special = outside(model, regular_tokens(model)) if over_regular else None
    log_q, logit, lost = _read(model, batch, terms, special)
    scored = {}
    for part, score in zip(term_of.reshape(len(scores), n, k), scores, strict=True):
        by_site = score.better * (logit if score.reads == "logit" else log_q)[part]
        if "special" in score.extra:
            by_site = by_site + lost[part]
            scored[score.name] = Scored(by_site.sum(1), by_site, {"special": lost[part].sum(1)})
        else:
            scored[score.name] = Scored(by_site.sum(1), by_site)
    return scored


def masked_range(batch: TextBatch, masks: str) -> tuple[Int[Tensor, "n k"], Int[Tensor, "n k"]]:
    """For each site the first position that is masked with it, and the first after those."""
    sites, length = batch.sites, batch.ids.shape[1]
    if masks == "after":
        return sites, torch.full_like(sites, length)
    if masks == "before":
        return torch.zeros_like(sites), sites + 1
    return sites, batch.word_end if masks == "word" else sites + 1


def _read(
    model: ConditionalModel, batch: TextBatch, terms: Int[Tensor, "m 4"], special: Int[Tensor, " s"] | None
) -> Float[Tensor, "3 m"]:
    """log q and logit of the token at `position` of `text`, the regular positions from `first` to before `after` masked.

    q is over the whole vocabulary; the third row has the nats that the tokens `special` take of it.
    """
    log_q, logit, lost = numbers = torch.zeros((3, len(terms)), dtype=torch.float64, device=terms.device)
    at_once = logit_rows(model, 1, GPU_LOGITS)
    for start in range(0, len(terms), at_once):
        text, first, after, position = terms[start : start + at_once].unbind(1)
        places = _places(model, batch, text, position)
        hidden = batch.regular[text.unsqueeze(1), places] & (places >= first.unsqueeze(1)) & (places < after.unsqueeze(1))
        rows = batch.ids[text.unsqueeze(1), places].masked_fill(hidden, model.mask_id)
        column = (places == position.unsqueeze(1)).int().argmax(1, keepdim=True)
        logits = model.logits(rows, column)[:, 0]
        chosen = logits.gather(1, batch.ids[text, position].unsqueeze(1)).squeeze(1)
        logit[start : start + at_once] = chosen.double()
        total = logits.logsumexp(1)
        log_q[start : start + at_once] = (chosen - total).double()
        if special is not None:
            lost[start : start + at_once] = lost_nats(logits, special, total).double()
    return numbers


def _places(
    model: ConditionalModel, batch: TextBatch, text: Int[Tensor, " m"], position: Int[Tensor, " m"]
) -> Int[Tensor, "m L"]:
    """The positions of its text that each row holds: all, or the start and end tokens and a window around `position`."""
    length, limit = batch.ids.shape[1], model.max_length
    whole = torch.arange(length, device=text.device).expand(len(text), -1)
    if limit is None or length <= limit:
        return whole
    first, after = _stretch(batch)
    width = limit - first - (length - after)
    start = (position - width // 2).clamp(min=first, max=after - width)
    inside = start.unsqueeze(1) + torch.arange(width, device=text.device)
    return torch.cat([whole[:, :first], inside, whole[:, after:]], 1)


def _stretch(batch: TextBatch) -> tuple[int, int]:
    """Where the tokens of the texts begin and end; the start and end tokens of one model are the same for all texts."""
    columns = batch.regular.any(0).nonzero().flatten()
    return int(columns[0]), int(columns[-1]) + 1
