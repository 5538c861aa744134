"""Many texts at once: equal texts once, texts of one shape side by side, results back in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress
from unmask.scoring.batch import Scored, score_batch
from unmask.scoring.settings import ScoreSettings
from unmask.scoring.tokens import Encoded, batch_of

TEXTS = "texts"
"""What progress counts."""


@dataclass(frozen=True)
class TextScores:
    """The numbers of one text, in nats; None where there is none, which `reason` explains.

    values    by column: the scores, and their further columns such as any_order_se
    by_site   each site's share of the scores that are sums over sites
    """

    values: dict[str, float | None]
    by_site: dict[str, tuple[float, ...]]
    reason: str | None = None


def score_texts(
    model: ConditionalModel,
    texts: Sequence[Encoded],
    settings: ScoreSettings,
    progress: Progress | None = None,
) -> list[TextScores]:
    """The scores of each text; equal texts get the very same numbers. `progress`: texts done, and long work within."""
    places: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
    for place, text in enumerate(texts):
        places.setdefault((text.ids, text.sites), []).append(place)
    shapes: dict[tuple[int, int], list[int]] = {}
    for equal in places.values():
        shapes.setdefault((len(texts[equal[0]].ids), len(texts[equal[0]].sites)), []).append(equal[0])
    found: dict[int, TextScores] = {}
    done = 0
    for _, members in sorted(shapes.items()):
        scored = score_batch(model, batch_of([texts[place] for place in members]), settings, progress)
        for place, scores in zip(members, _rows(scored, len(members)), strict=True):
            equal = places[texts[place].ids, texts[place].sites]
            found.update(dict.fromkeys(equal, scores))
            done += len(equal)
        if progress:
            progress(done, len(texts), TEXTS)
    return [found[place] for place in range(len(texts))]


def passes_of(text: Encoded, settings: ScoreSettings) -> int:
    """About how many passes a text takes; what belongs to its length alone, as log_prob's normaliser, is left out."""
    k, total = len(text.sites), 0
    exact = k <= settings.exact_tokens
    of_orders = 2**k - 1 if exact else k * settings.orders
    for name in settings.scores:
        if name in ("any_order", "order_bounds"):
            total = total if total >= of_orders else total + of_orders
        else:
            total += 2 * settings.candidates * k if name == "pair" else k
    return total


def _rows(scored: dict[str, Scored], n: int) -> list[TextScores]:
    columns: dict[str, list[float | None]] = {}
    shares: dict[str, list[list[float]]] = {}
    for name, score in scored.items():
        columns[name] = _numbers(score.values.tolist())
        columns.update({f"{name}_{suffix}": _numbers(column.tolist()) for suffix, column in score.extra.items()})
        if score.by_site is not None:
            shares[name] = score.by_site.tolist()
    rows = []
    for row in range(n):
        reasons = dict.fromkeys(score.reasons[row] for score in scored.values() if row in score.reasons)
        values = {name: column[row] for name, column in columns.items()}
        by_site = {name: tuple(share[row]) for name, share in shares.items() if values[name] is not None}
        rows.append(TextScores(values, by_site, "; ".join(reasons) or None))
    return rows


def _numbers(values: list[float]) -> list[float | None]:
    return [None if isnan(value) else value for value in values]
