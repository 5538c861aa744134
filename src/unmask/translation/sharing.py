"""Sources on Ray: workers translate some at a time, and get the texts that this process would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from unmask.errors import UnmaskError
from unmask.models.workers import Workers
from unmask.runs.engines import OnRay
from unmask.runs.progress import Progress
from unmask.translation.beam_search import rows_at_once
from unmask.translation.settings import TranslateSettings
from unmask.translation.translators import Found, Source, Translation

SOURCES = {"cpu": 32, "cuda": 1024}
"""Sources of an item, by device: those of a worker that dies are translated again by another."""
SHARES = 4
"""Items of each worker, at least."""


def translated_on_ray(
    workers: Workers, settings: TranslateSettings, sources: Sequence[Source], progress: Progress | None = None
) -> Found:
    """One translation per source; the seconds are those of all workers together."""
    engine: OnRay[list[Source], Found] = workers.pool(_itself, most=len(sources))
    items = shares(settings, workers.device, sources, engine.size)
    translations: dict[int, Translation] = {}
    moves: Counter[str] = Counter()
    seconds = 0.0
    for answer in engine([sources[place] for place in item] for item in items):
        if answer.result is None:
            raise UnmaskError(f"a Ray worker failed ({answer.failure}): give the command again, or use --engine local")
        translations.update(zip(items[answer.place], answer.result.translations, strict=True))
        moves.update(answer.result.moves)
        seconds += answer.result.seconds
        if progress:
            progress(len(translations), len(sources), "translated")
    return Found([translations[place] for place in range(len(sources))], dict(moves), seconds)


def _itself(translator: Callable[[list[Source]], Found]) -> Callable[[list[Source]], Found]:
    return translator


def shares(settings: TranslateSettings, device: str, sources: Sequence[Source], workers: int) -> list[list[int]]:
    """The places of each item's sources, which have similar lengths.

    A beam search ends when all sources that are searched together have ended: an item is those that one process would search
    together, so that passes are the same, too.
    """
    order = sorted(range(len(sources)), key=lambda place: len(sources[place]))
    if settings.autoregressive:
        size = rows_at_once(device, settings.width)
    else:
        size = min(SOURCES[device], -(-len(order) // (SHARES * workers)))
    return [order[first : first + size] for first in range(0, len(order), size)]
