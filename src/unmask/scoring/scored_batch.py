"""All scores of one batch of texts: each computation once, and a reason for every score that a
text cannot have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Enough, Progress
from unmask.scoring.registry import sharing, with_names
from unmask.scoring.scores.score import Score, Scored
from unmask.scoring.text_batch import TextBatch

STOPPED = "the work was stopped before this score: ask again"


def score_batch(
    model: ConditionalModel,
    batch: TextBatch,
    scores: Sequence[Score],
    windows: bool = False,
    progress: Progress | None = None,
) -> dict[str, Scored]:
    """All scores by name, each group of `sharing` computed once; twice if texts have tokens
    that only some of its scores accept.

    With `windows`, scores that have windows score texts longer than the model. If the model
    raises `Enough`, the scores that are not computed yet are NaN, with that as the reason.
    """
    impossible = outside_support(model, batch)
    batch = batch.to(model.device)
    scored: dict[str, Scored] = {}
    try:
        for group in sharing(scores):
            fitting = []
            for score in group:
                reason = _too_long(model, batch, score, windows)
                if reason is None:
                    fitting.append(score)
                else:
                    scored[score.name] = _none_of(batch, score, reason)
            scored |= _of_group(model, batch, fitting, impossible, progress)
    except Enough:
        for score in scores:
            if score.name not in scored:
                scored[score.name] = _none_of(batch, score, STOPPED)
    return {score.name: scored[score.name] for score in scores}


def _of_group(
    model: ConditionalModel,
    batch: TextBatch,
    group: Sequence[Score],
    impossible: Mapping[int, str],
    progress: Progress | None,
) -> dict[str, Scored]:
    """Scores with one computation: of all texts, or of those that are not `impossible`."""
    scored: dict[str, Scored] = {}
    of_all_rows = [score for score in group if not impossible or score.unknown]
    of_some_rows = [score for score in group if score not in of_all_rows]
    if of_all_rows:
        compute = of_all_rows[0].computation
        scored |= compute(of_all_rows, model, batch, progress)
    if of_some_rows:
        rows = [row for row in range(len(batch)) if row not in impossible]
        of_rows: dict[str, Scored] = {}
        if rows:
            compute = of_some_rows[0].computation
            of_rows = compute(of_some_rows, model, batch.part(rows), progress)
        for score in of_some_rows:
            part = of_rows.get(score.name)  # None if no text has the score
            scored[score.name] = _among(
                batch, rows=rows, part=part, score=score, reasons=impossible
            )
    return scored


def _too_long(model: ConditionalModel, batch: TextBatch, score: Score, windows: bool) -> str | None:
    """Why texts of this length have no such score; None if they have."""
    length = batch.ids.shape[1]
    limit = model.max_length
    if limit is None or length <= limit:
        return None
    if score.windows and windows:
        return None
    advice = "shorten it; this score has no windows"
    if score.windows:
        advice = "shorten it, or ask for windows"
    return f"the text has {length} tokens and the model takes {limit}: {advice}"


def outside_support(model: ConditionalModel, batch: TextBatch) -> dict[int, str]:
    """Texts with a special token among their sites, for example an unknown one: a law over
    regular tokens has none of them.
    """
    special = torch.tensor(sorted({*model.special_ids, model.mask_id}), device=batch.ids.device)
    tokens = batch.ids.gather(1, batch.sites)
    rows = torch.isin(tokens, special).any(1).nonzero().flatten().tolist()
    instead = next(name for name, score in with_names().items() if score.unknown)
    reason = (
        f"a token that the model does not know is outside the support of this score: use {instead}"
    )
    return dict.fromkeys(rows, reason)


def _none_of(batch: TextBatch, score: Score, reason: str) -> Scored:
    """A score that no text of the batch has, for one reason."""
    reasons = dict.fromkeys(range(len(batch)), reason)
    return _among(batch, rows=[], part=None, score=score, reasons=reasons)


def _among(
    batch: TextBatch, rows: list[int], part: Scored | None, score: Score, reasons: Mapping[int, str]
) -> Scored:
    """The score of `rows` among all texts of the batch; the others have none, for these reasons."""

    def spread(values: Tensor) -> Tensor:
        whole = torch.full(
            (len(batch), *values.shape[1:]), torch.nan, dtype=torch.float64, device=values.device
        )
        whole[rows] = values.double()
        return whole

    if part is None:
        none = torch.full((len(batch),), torch.nan, dtype=torch.float64)
        return Scored(
            values=none, extra={suffix: none.clone() for suffix in score.extra}, reasons=reasons
        )
    by_site = None
    if part.by_site is not None:
        by_site = spread(part.by_site)
    return Scored(
        values=spread(part.values),
        by_site=by_site,
        extra={suffix: spread(values) for suffix, values in part.extra.items()},
        reasons=reasons,
    )
