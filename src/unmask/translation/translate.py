"""`unmask.translate`: a file of sources in, a translation of each out.

Imports no torch before it is called, so that the command line can show its options at once.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.arguments import checked
from unmask.errors import InputError, UnmaskWarning
from unmask.options.option import documented
from unmask.options.translation import TranslateOptions
from unmask.runs.files import user_path
from unmask.runs.lines import STANDARD_INPUT, source_name, text_lines
from unmask.runs.outputs import output_file
from unmask.runs.progress import Progress
from unmask.sampling.run.text_statistics import stutters
from unmask.translation.result import BEGINNING, Translations, figures
from unmask.translation.settings import TranslateSettings

if TYPE_CHECKING:
    from unmask.models.text.word_pieces import Spelling
    from unmask.translation.drafts import Draft, Drafting, PairModel
    from unmask.translation.pairs import PairLayout

Texts = str | os.PathLike[str] | Sequence[str]


@documented(TranslateOptions)
@checked
def translate(
    texts: Texts,
    *,
    model: str | os.PathLike[str] | PairModel,
    decoder: str | None = None,
    kernel: str | None = None,
    steps: int | None = None,
    start: str | None = None,
    start_steps: int | None = None,
    lengths: int | None = None,
    choose: str | None = None,
    per_token: bool = True,
    orders: int | None = None,
    beam: int | None = None,
    penalty: float | None = None,
    energy: str | None = None,
    seed: int = 0,
    temperature: float | None = None,
    proposal_temperature: float | None = None,
    block_size: int | None = None,
    hot: float | None = None,
    cold: float | None = None,
    schedule: str | None = None,
    decoding_temperature: float | None = None,
    gamma: float | None = None,
    tau: float | None = None,
    order: str | None = None,
    restart: float | None = None,
    reference: Texts | None = None,
    out: str | os.PathLike[str] | None = None,
    device: str = "auto",
    dtype: str = "auto",
    progress: Progress | None = None,
) -> Translations:
    """Translate the lines of a file, or a list of texts; arguments are the options of `unmask translate`.

    An empty source has an empty translation.
    """
    usual = "beam" if decoder is None and kernel is None and _is_causal(model) else decoder
    settings = TranslateOptions.given(locals() | {"decoder": usual}).part(TranslateSettings)
    file = None if out is None else output_file("out", out, (texts, reference, model), BEGINNING)
    sources = read_lines(texts, "texts")
    references = None if reference is None else read_lines(reference, "reference")
    if references is not None and len(references) != len(sources):
        raise InputError(
            f"{len(sources):,} sources and {len(references):,} references: give one reference per source, line by line"
        )
    by = _by_a_causal_model if settings.autoregressive else _by_a_masked_model
    rows, moves, seconds = by(sources, settings, model, device, dtype, progress)
    measured = None if references is None else figures(rows, references, seconds, moves)
    made = Translations(settings, rows, seconds, moves, measured)
    if file is not None:
        made.save(file)
    return made


def read_lines(texts: Texts, name: str) -> list[str]:
    """Every line of a file that has a text, empty ones too; or the texts themselves."""
    if not isinstance(texts, str | os.PathLike):
        listed = list(texts) if isinstance(texts, Iterable) else [texts]
        for number, text in enumerate(listed, 1):
            if not isinstance(text, str):
                raise InputError(f"{name}: text {number} is {text!r}: give a file, or a list of strings")
        return [" ".join(text.split()) for text in listed]
    path = user_path(texts, name)
    if path != STANDARD_INPUT and not os.path.isfile(path):
        raise InputError(f"{name} {str(path)!r} is not a file: give one with a text per line")
    lines = [" ".join(line.split()) for _, line in text_lines(path)]
    if not any(lines):
        raise InputError(f"{name} {source_name(path)!r} has no text: give one text per line")
    return lines


def _is_causal(model: Any) -> bool:
    """Whether it is the folder of a causal model."""
    from unmask.translation.pairs import is_causal_pair_model

    return isinstance(model, str | os.PathLike) and is_causal_pair_model(user_path(model, "model"))


def _encoded(spelling: Spelling, layout: PairLayout, sources: Sequence[str]) -> list[tuple[int, ...]]:
    """The sources' tokens; one that has no room in the model is refused with its line."""
    from unmask.models.text.text_tokenizer import refuse_hopeless
    from unmask.models.text.word_pieces import UNKNOWN

    for line, source in enumerate(sources, 1):
        refuse_hopeless(source, layout.longest_source, f"line {line}")
    found = spelling.encode(sources)
    unknown = [line for line, ids in enumerate(found, 1) if spelling.unknown in ids]
    if unknown:
        warnings.warn(
            f"{len(unknown):,} of {len(found):,} sources have words that the model cannot spell and reads as {UNKNOWN}, "
            f"the first in line {unknown[0]}",
            UnmaskWarning,
            stacklevel=4,
        )
    for line, ids in enumerate(found, 1):
        if len(ids) > layout.longest_source:
            raise InputError(
                f"line {line} has {len(ids)} tokens and the model takes sources of {layout.longest_source}: shorten it, "
                "or train a model with a larger --max-length"
            )
    return [tuple(ids) for ids in found]


Row = tuple[Sequence[int], float | None, float | None, int]
"""Tokens of a translation, its energy, its log-probability, and its passes."""
Found = tuple[list[dict[str, Any]], dict[str, int], float]
"""Rows, what a kernel did, and the seconds that translating took."""


def _rows(spelling: Spelling, ids: Sequence[tuple[int, ...]], found: Iterable[Row]) -> list[dict[str, Any]]:
    """A row per source: `found` has one for each that is not empty."""
    waiting, rows = iter(found), []
    for source in ids:
        tokens, energy, log_prob, passes = next(waiting) if source else ((), None, None, 0)
        numbers = {"energy": energy, "log_prob": log_prob, "passes": passes, "stutter": stutters(tokens)}
        text = spelling.text(tokens) if source else ""
        rows.append({"text": text, **numbers, "tokens": list(tokens), "length": len(tokens)})
    return rows


def _by_a_causal_model(
    sources: Sequence[str], settings: TranslateSettings, model: Any, device: str, dtype: str, progress: Progress | None
) -> Found:
    from unmask.models.loading import resolve_device, resolve_dtype
    from unmask.models.text.word_pieces import Spelling
    from unmask.translation.beam_search import beam_search, load_causal_pairs

    if not isinstance(model, str | os.PathLike):
        raise InputError(f"{settings.method} takes the folder of a causal model, not a masked one: give its path")
    on, kind = resolve_device(device), resolve_dtype(dtype)
    folder = user_path(model, "model")
    spelling = Spelling.read(folder)
    causal = load_causal_pairs(folder, spelling.core, on, kind)
    ids = _encoded(spelling, causal.layout, sources)
    width, began = settings.beam if settings.method == "beam" else 1, time.monotonic()
    found = beam_search(causal, [source for source in ids if source], width, settings.penalty, progress=progress)
    seconds = time.monotonic() - began
    return _rows(spelling, ids, [(one.tokens, None, one.log_prob, one.passes) for one in found]), {}, seconds


def _by_a_masked_model(
    sources: Sequence[str], settings: TranslateSettings, model: Any, device: str, dtype: str, progress: Progress | None
) -> Found:
    from unmask.translation.drafts import Drafting, PairModel

    pair = model if isinstance(model, PairModel) else PairModel.load(Path(user_path(model, "model")), device, dtype)
    if settings.lengths > pair.layout.longest_target:
        raise InputError(
            f"lengths {settings.lengths} is more than the {pair.layout.longest_target} that the model takes: give fewer"
        )
    corrector = settings.corrector
    if corrector is not None and not pair.corrects:
        warnings.warn(
            f"{corrector} asks the model to correct tokens that it sees, and {pair.model.name!r} was trained on blanks only: "
            "train one with --refinement, or take another decoder",
            UnmaskWarning,
            stacklevel=3,
        )
    ids = _encoded(pair.spelling, pair.layout, sources)
    drafting = Drafting(pair, settings.seed, progress)
    began = time.monotonic()
    drafts = _translated(drafting, [source for source in ids if source], settings)
    if pair.model.device.type == "cuda":
        import torch

        torch.cuda.synchronize()
    seconds = time.monotonic() - began
    energies = drafting.scores(drafts, "raw" if settings.energy == "raw" else "norm")
    log_probs = drafting.scores(drafts, "any-order", settings.orders)
    both = zip(drafts, energies, log_probs, strict=True)
    found = [(draft.tokens, energy, log_prob, draft.passes) for draft, energy, log_prob in both]
    return _rows(pair.spelling, ids, found), drafting.moves if settings.moves else {}, seconds


def _translated(drafting: Drafting, sources: Sequence[tuple[int, ...]], settings: TranslateSettings) -> list[Draft]:
    """One draft per source: decoded at its likeliest lengths, the best chosen, and moved by the kernel if there is one."""
    from unmask.translation.drafts import Draft, stream_number

    drafts = [
        Draft(stream_number(source, length), source, length, log_length)
        for source, likely in zip(sources, drafting.pair.likely_lengths(sources, settings.lengths), strict=True)
        for length, log_length in likely
    ]
    starting = settings.starting
    drafts = drafting.at_random(drafts) if starting is None else drafting.run(drafts, starting)
    drafts = _best(drafting, drafts, settings)
    return drafting.run(drafts, settings.sampling) if settings.moves else drafts


def _best(drafting: Drafting, drafts: Sequence[Draft], settings: TranslateSettings) -> list[Draft]:
    """Of each source's drafts the one with the best score; passes of all of them, and of the scores, are its own.

    A score is that of the text and its length together: E(y | s, n) - log p(n | s), or -log p(y | s, n) - log p(n | s).
    """
    k = settings.lengths
    if k == 1:
        return list(drafts)
    scores = drafting.scores(drafts, settings.choose, settings.orders)  # type: ignore[arg-type]
    sign, cost = (-1, settings.orders) if settings.choose == "any-order" else (1, 1)
    energies = [sign * score - draft.log_length for score, draft in zip(scores, drafts, strict=True)]
    out = []
    for first in range(0, len(drafts), k):
        some = range(first, first + k)
        best = min(some, key=lambda i: energies[i] / (drafts[i].length if settings.per_token else 1))
        spent = sum(drafts[i].passes + cost * drafts[i].length for i in some)
        out.append(replace(drafts[best], passes=spent))
    return out
