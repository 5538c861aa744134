"""`unmask.translate`: a file of sources in, a translation of each out.

Imports no torch before it is called, so that the command line can show its options at once.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
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
    from unmask.translation.drafts import PairModel
    from unmask.translation.pairs import PairLayout
    from unmask.translation.translators import Translation

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
    engine: str = "local",
    workers: int | None = None,
    progress: Progress | None = None,
) -> Translations:
    """Translate the lines of a file, or a list of texts; arguments are the options of `unmask translate`.

    An empty source has an empty translation.

    Arguments: help(unmask.translate)
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
    from unmask.models.workers import refuse_loaded
    from unmask.translation.sharing import SharedSources
    from unmask.translation.translators import load_translator

    if on_ray := engine == "ray":
        refuse_loaded(model)
    translator = load_translator(settings, model, "cpu" if on_ray else device, dtype)
    ids = _encoded(translator.spelling, translator.layout, sources)
    work = SharedSources(settings, model, device, dtype, workers) if on_ray else translator
    translations, moves, seconds = work([source for source in ids if source], progress)
    rows = _rows(translator.spelling, ids, translations)
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


def _rows(spelling: Spelling, ids: Sequence[tuple[int, ...]], found: Iterable[Translation]) -> list[dict[str, Any]]:
    """A row per source: `found` has one for each that is not empty."""
    waiting, rows = iter(found), []
    for source in ids:
        tokens, energy, log_prob, passes = next(waiting) if source else ((), None, None, 0)
        numbers = {"energy": energy, "log_prob": log_prob, "passes": passes, "stutter": stutters(tokens)}
        text = spelling.text(tokens) if source else ""
        rows.append({"text": text, **numbers, "tokens": list(tokens), "length": len(tokens)})
    return rows
