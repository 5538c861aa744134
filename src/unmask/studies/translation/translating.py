"""From sources to translations: read, encoded, shared out, translated and collected; here or on
Ray.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any

import torch

from unmask.common.errors import InputError, argument_name
from unmask.common.files import user_path
from unmask.common.warn import warn
from unmask.models.pair_layout import PairLayout
from unmask.models.text.text_tokenizer import refuse_hopeless
from unmask.models.text.word_pieces import UNKNOWN
from unmask.runs.engine import Workers, each
from unmask.runs.folder import RunFolder
from unmask.runs.lines import text_lines
from unmask.runs.progress import Progress
from unmask.runs.unpacking import source_name
from unmask.sampling.chains.convergence import stutters
from unmask.sampling.chains.snapshot import COUNTS
from unmask.sampling.decoders.decoder import Decoder
from unmask.studies.translation.causal_pairs import CausalPairs, beam_search
from unmask.studies.translation.drafts import Drafting, best_drafts
from unmask.studies.translation.masked_pairs import PairModel
from unmask.studies.translation.one_translation import OneTranslation
from unmask.studies.translation.recipe import Beam, TranslateSettings, Translator, loader_on
from unmask.studies.translation.spelling import Spelling

if TYPE_CHECKING:
    import pyarrow

KIND = "translate"  # Of the folder of a run
SOURCES_PER_ITEM = {"cpu": 32, "cuda": 1024}
"""Sources of an item for workers, at most, by device. An item is translated by one call; if its
worker dies, another one translates all of it again.
"""
ITEMS_PER_WORKER = 4  # At least, if there are enough sources
LARGER_ALONE = 4
"""Without workers, an item has this many times SOURCES_PER_ITEM. The run's folder keeps an item
when it is done.
"""
BEAM_ROWS = {"cuda": 4096, "cpu": 256}
"""Beginnings of translations that beam search reads side by side, by device."""
Source = tuple[int, ...]  # The tokens of a source, at least one
Row = dict[str, Any]
"""The fields of a `OneTranslation`, the seconds, and the COUNTS of what a kernel did. In a run's
folder also `source`, the number of its source.
"""


def read_lines(texts: str | os.PathLike[str] | Sequence[str], name: str) -> list[str]:
    """The lines of a file, empty ones too, or the texts themselves. A file without any text is
    refused.
    """
    if not isinstance(texts, str | os.PathLike):
        return [" ".join(text.split()) for text in texts]
    path = user_path(texts, name)
    lines = [" ".join(line.split()) for _, line in text_lines(path)]
    if not any(lines):
        raise InputError(
            f"{source_name(path)!r} has no text", argument=name, use="give one text per line"
        )
    return lines


def encoded(spelling: Spelling, layout: PairLayout, sources: Sequence[str]) -> list[Source]:
    """The sources' tokens; one that has no room in the model is refused with its line.

    A warning counts the sources that have words which the model cannot spell.
    """
    for line, source in enumerate(sources, 1):
        # By the number of its characters, before all are tokenised
        refuse_hopeless(source, layout.longest_source, f"line {line}")
    tokens = spelling.encode(sources)
    unknown = [line for line, ids in enumerate(tokens, 1) if spelling.unknown in ids]
    if unknown:
        warn(
            f"{len(unknown):,} of {len(tokens):,} sources have words that the model cannot spell"
            f" and reads as {UNKNOWN}, the first in line {unknown[0]}"
        )
    for line, ids in enumerate(tokens, 1):
        if len(ids) > layout.longest_source:
            larger = argument_name("max_length")
            raise InputError(
                f"line {line} has {len(ids)} tokens and the model takes sources of"
                f" {layout.longest_source}: shorten it, or train a model with a larger {larger}"
            )
    return [tuple(ids) for ids in tokens]


def warn_of_misfit(model: PairModel | CausalPairs, settings: TranslateSettings) -> None:
    """Warn of a decoder that asks for what the model was not trained on."""
    if not isinstance(model, PairModel):
        return
    decoder = settings.decoder
    if isinstance(decoder, Decoder) and decoder.corrects and not model.corrects:
        warn(
            f"{decoder.name} asks the model to correct tokens that it sees, and"
            f" {model.model.name!r} was trained on blanks only: train one with"
            f" {argument_name('refinement')}, or take another decoder"
        )


def translations(
    model: Translator,
    loaded: PairModel | CausalPairs,
    settings: TranslateSettings,
    sources: Sequence[Source],
    workers: Workers | None = None,
    folder: RunFolder | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """A row per source, some sources at a time, here or by workers; those that the folder holds
    are not translated again.

    model     as the user gave it; workers load it
    loaded    the same model, loaded; translates here if there are no workers
    sources   none is empty
    """
    columns = _columns()
    rows: dict[int, Row] = {}  # by the number of the source
    if folder:
        rows = {row["source"]: row for row in folder.rows(columns).to_pylist()}
    pending = [number for number in range(len(sources)) if number not in rows]
    if workers:
        device = workers.device
        count = workers.count
        setup = loader_on(model, device)
    else:
        device = loaded.device.type
        count = 0
        setup = partial(_itself, loaded)
    pending_sources = [sources[number] for number in pending]
    items = []  # of each the numbers of its sources
    for places in shares(settings, device, pending_sources, count):
        items.append([pending[place] for place in places])
    sources_of_items = ([sources[number] for number in item] for item in items)
    results = each(partial(translated, settings=settings), sources_of_items, workers, setup)
    for index, rows_of_item in results:
        new = []
        for number, row in zip(items[index], rows_of_item, strict=True):
            new.append({"source": number, **row})
        if folder:
            folder.store(new, columns)
        rows |= {row["source"]: row for row in new}
        if progress:
            progress(len(rows), len(sources), "translations")
    return [rows[number] for number in range(len(sources))]


def _itself(loaded: PairModel | CausalPairs) -> PairModel | CausalPairs:
    """The model that is loaded already, where a worker would load it."""
    return loaded


def _columns() -> pyarrow.Schema:
    """The columns of the rows in a run's folder."""
    from unmask.common.lazy import pyarrow

    types = {}
    for name in ("source", "passes", *COUNTS):
        types[name] = pyarrow.int64()
    for name in ("energy", "log_prob", "seconds"):
        types[name] = pyarrow.float64()
    types["tokens"] = pyarrow.list_(pyarrow.int32())
    return pyarrow.schema(types)


def shares(
    settings: TranslateSettings, device: str, sources: Sequence[Source], workers: int
) -> list[list[int]]:
    """The places of each item's sources, which have similar lengths. Without workers (0), items of
    a masked model are larger.

    A beam search goes on until all sources of an item have ended, so the passes of a source depend
    on the others of its item. Its items are the same with and without workers, and so are passes.
    """
    by_length = sorted(range(len(sources)), key=lambda place: len(sources[place]))
    if isinstance(settings.decoder, Beam):
        size = max(1, BEAM_ROWS[device] // settings.decoder.beam)
    elif workers:
        even_share = ceil(len(by_length) / (ITEMS_PER_WORKER * workers))
        size = max(1, min(SOURCES_PER_ITEM[device], even_share))
    else:
        size = LARGER_ALONE * SOURCES_PER_ITEM[device]
    return [by_length[first : first + size] for first in range(0, len(by_length), size)]


def translated(
    model: PairModel | CausalPairs, sources: Sequence[Source], settings: TranslateSettings
) -> list[Row]:
    """A row per source, all together. The first row has the seconds, and what a kernel did; the
    others have 0 for these.
    """
    began = time.monotonic()
    if isinstance(model, CausalPairs):
        assert isinstance(settings.decoder, Beam)  # `settle` refuses all others
        made = beam_search(model, sources, settings.decoder.beam)
        of_all = {"seconds": time.monotonic() - began, **dict.fromkeys(COUNTS, 0)}
    else:
        drafting = Drafting(model, settings.seed)
        drafts = best_drafts(drafting, settings, sources)
        if model.device.type == "cuda":
            torch.cuda.synchronize()
        seconds = time.monotonic() - began  # without the energies and log-probabilities below
        energies = drafting.energies(drafts, settings.energy)
        log_probs = drafting.log_probs(drafts)
        of_all = {"seconds": seconds, **drafting.moves}
        made = []
        for draft, energy, log_prob in zip(drafts, energies, log_probs, strict=True):
            translation = OneTranslation(
                tokens=draft.tokens, energy=energy, log_prob=log_prob, passes=draft.passes
            )
            made.append(translation)
    rows = []
    for place, translation in enumerate(made):
        shared = of_all if place == 0 else dict.fromkeys(of_all, 0)
        rows.append({**translation._asdict(), **shared})
    return rows


def in_order(
    spelling: Spelling, ids: Sequence[Source], made: Sequence[Row]
) -> list[dict[str, Any]]:
    """What a user sees of each translation: text, energy, log_prob, passes, stutter, tokens,
    length.

    ids    the sources' tokens; an empty source has an empty translation
    made   a row for each source that is not empty
    """
    made_in_order = iter(made)
    rows = []
    for source in ids:
        if source:
            row = next(made_in_order)
            tokens = list(row["tokens"])
            text = spelling.text(tokens)
        else:
            row = {"energy": None, "log_prob": None, "passes": 0}
            tokens = []
            text = ""
        rows.append(
            {
                "text": text,
                "energy": row["energy"],
                "log_prob": row["log_prob"],
                "passes": row["passes"],
                "stutter": stutters(tokens),
                "tokens": tokens,
                "length": len(tokens),
            }
        )
    return rows


def moves_of(settings: TranslateSettings, made: Sequence[Row]) -> dict[str, int]:
    """What the kernel did, all translations together; empty without one."""
    if settings.kernel is None:
        return {}
    return {name: sum(row[name] for row in made) for name in COUNTS}
