"""`unmask.translate`: a file of sources in, a translation of each out, with its figures against references.

Figures are BLEU and chrF as sacrebleu computes them, and what references do not show:

stutter     share of neighbouring tokens that are equal; and of translations with such a pair
accepted    share of a kernel's steps whose proposal was accepted (the same token again always is)
novel       share of a kernel's steps that changed the text
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unmask.errors import InputError, UnmaskWarning
from unmask.models.text.text_tokenizer import refuse_hopeless
from unmask.models.text.vocabulary import UNKNOWN, Spelling
from unmask.results import Result
from unmask.runs.files import as_json, user_path, write_atomically
from unmask.runs.lines import STANDARD_INPUT, source_name, text_lines
from unmask.runs.outputs import output_file
from unmask.sampling.run.diagnostics import stutter_rate, stutters
from unmask.translation.pairs import PairLayout
from unmask.translation.recipe import TranslateSettings
from unmask.translation.translators import Translation

KIND = "translate"
BEGINNING = (b'{"text": ',)
"""How files of translations begin."""
Texts = str | os.PathLike[str] | Sequence[str]


@dataclass(frozen=True)
class Figures(Result):
    """Of a set of translations; None where a figure does not apply."""

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str
    stutter: float
    stuttering: float
    energy: float | None
    log_prob: float | None
    accepted: float | None
    novel: float | None
    passes: float
    seconds: float

    def __str__(self) -> str:
        lines = [
            f"BLEU {self.bleu:.2f}  {self.bleu_signature}",
            f"chrF {self.chrf:.2f}  {self.chrf_signature}",
            f"stutter {self.stutter:.2%} of neighbours, in {self.stuttering:.1%} of translations",
            f"{self.passes:.1f} passes and {self.seconds:.4f} seconds per sentence",
        ]
        if self.accepted is not None and self.novel is not None:
            lines.append(f"{self.accepted:.1%} of steps accepted, {self.novel:.1%} novel")
        return "\n".join(lines)


@dataclass(frozen=True, repr=False)
class Translations(Result):
    """Translations in the order of their sources.

    settings  what decided the translations
    rows      text, energy, log_prob, passes, stutter (equal neighbouring tokens), tokens, length (of the text, in tokens);
              an empty source has an empty text, and null for its numbers. Of a causal model log_prob is its own
    seconds   in all; on Ray, those of all workers together
    moves     of a kernel: steps, and how many were accepted, proposed another token, and changed the text
    figures   against the references
    """

    KEYS = ("settings", "translations=rows", "seconds", "moves", "figures")
    ROWS = "translations"
    settings: TranslateSettings
    rows: list[dict[str, Any]]
    seconds: float
    moves: dict[str, int]
    figures: Figures | None = None

    @property
    def texts(self) -> list[str]:
        """The translations."""
        return [row["text"] for row in self.rows]

    def lines(self) -> str:
        """JSON lines, one per source."""
        return "".join(as_json(row, indent=None) + "\n" for row in self.rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON lines."""
        write_atomically(output_file("path", path, (), BEGINNING), self.lines())

    @property
    def headline(self) -> str:
        """What was done, and its figures."""
        return f"{self!r} {self.figures or ''}".strip()

    def __repr__(self) -> str:
        return f"Translations({self.settings.kernel.name}, {len(self.rows):,} texts)"


def figures(rows: Sequence[Mapping[str, Any]], references: Sequence[str], seconds: float, moves: Mapping[str, int]) -> Figures:
    """Figures of translations (the rows of `Translations`) against one reference each."""
    bleu, chrf = _metrics()
    texts, known = [row["text"] for row in rows], [row for row in rows if row["text"]]
    scores = [metric.corpus_score(texts, [list(references)]).score for metric in (bleu, chrf)]
    tokens = [row["tokens"] for row in known]
    steps = moves.get("steps", 0)
    return Figures(
        bleu=scores[0],
        bleu_signature=str(bleu.get_signature()),
        chrf=scores[1],
        chrf_signature=str(chrf.get_signature()),
        stutter=stutter_rate(tokens) if tokens else 0.0,
        stuttering=sum(stutters(t) > 0 for t in tokens) / max(1, len(tokens)),
        energy=_mean([row["energy"] for row in known]),
        log_prob=_mean([row["log_prob"] for row in known]),
        accepted=moves["accepted"] / steps if steps else None,
        novel=moves["changed"] / steps if steps else None,
        passes=_mean([row["passes"] for row in known]) or 0.0,
        seconds=seconds / max(1, len(rows)),
    )


def _metrics() -> tuple[Any, Any]:
    try:
        from sacrebleu.metrics import BLEU, CHRF
    except ImportError:
        raise InputError("references need sacrebleu, which is not installed: pip install 'unmask[translate]'") from None
    return BLEU(), CHRF()


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


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


def encoded(spelling: Spelling, layout: PairLayout, sources: Sequence[str]) -> list[tuple[int, ...]]:
    """The sources' tokens; one that has no room in the model is refused with its line."""
    for line, source in enumerate(sources, 1):
        refuse_hopeless(source, layout.longest_source, f"line {line}")
    tokens = spelling.encode(sources)
    unknown = [line for line, ids in enumerate(tokens, 1) if spelling.unknown in ids]
    if unknown:
        warnings.warn(
            f"{len(unknown):,} of {len(tokens):,} sources have words that the model cannot spell and reads as {UNKNOWN}, "
            f"the first in line {unknown[0]}",
            UnmaskWarning,
            stacklevel=4,
        )
    for line, ids in enumerate(tokens, 1):
        if len(ids) > layout.longest_source:
            raise InputError(
                f"line {line} has {len(ids)} tokens and the model takes sources of {layout.longest_source}: shorten it, "
                "or train a model with a larger --max-length"
            )
    return [tuple(ids) for ids in tokens]


def as_rows(spelling: Spelling, ids: Sequence[tuple[int, ...]], made: Iterable[Translation]) -> list[dict[str, Any]]:
    """A row per source: `made` has one for each that is not empty."""
    waiting, rows = iter(made), []
    for source in ids:
        tokens, energy, log_prob, passes = next(waiting) if source else ((), None, None, 0)
        numbers = {"energy": energy, "log_prob": log_prob, "passes": passes, "stutter": stutters(tokens)}
        text = spelling.text(tokens) if source else ""
        rows.append({"text": text, **numbers, "tokens": list(tokens), "length": len(tokens)})
    return rows
