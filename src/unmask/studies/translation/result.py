"""Translations, and their figures against references.

Figures are BLEU and chrF as sacrebleu computes them, and what references do not show:

    stutter     share of neighbouring tokens that are equal
    stuttering  share of translations with such a pair
    accepted    share of a kernel's steps whose proposal was accepted; a proposal of the token that
                is there already always is
    novel       share of a kernel's steps that changed the text
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from unmask.common.errors import InputError
from unmask.common.files import as_json
from unmask.common.results import Result
from unmask.sampling.chains.convergence import stutter_rate, stutters
from unmask.studies.translation.recipe import TranslateSettings


class OneTranslation(NamedTuple):
    """The translation of one source.

    tokens    without the end token
    energy    of a masked model; None of a causal one
    log_prob  of a masked model, token by token in a random order; of a causal one, in the order of
              the text, the end token included
    passes    that it took
    """

    tokens: tuple[int, ...]
    energy: float | None
    log_prob: float
    passes: int


@dataclass(frozen=True)
class Figures(Result):
    """Of a set of translations; None where a figure does not apply.

    stutter     share of neighbouring tokens that are equal
    stuttering  share of translations with such neighbours
    energy, log_prob, passes   means over the translations that have a text
    accepted, novel            shares of a kernel's steps
    seconds     per translation
    """

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
    rows      text, energy, log_prob, passes, stutter (equal neighbouring tokens), tokens,
              length (of the text, in tokens). An empty source has an empty text; its energy and
              log_prob are null, its other numbers 0. For log_prob see `OneTranslation`
    seconds   in all; on Ray, those of all workers together
    moves     of a kernel: steps, and how many were accepted, proposed another token, and
              changed the text
    figures   against the references

    >>> # the folder that `unmask.train(parallel=[english, german], out="numbers")` left
    >>> translations = unmask.translate(["two three", "five"], model="numbers")
    >>> translations.to_frame().columns.tolist()
    ['text', 'energy', 'log_prob', 'passes', 'stutter', 'tokens', 'length']
    """

    KEYS: ClassVar[tuple[str, ...]] = (
        "settings",
        "translations=rows",
        "seconds",
        "moves",
        "figures",
    )
    ROWS: ClassVar[str] = "translations"
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

    @property
    def headline(self) -> str:
        """The number of translations, and their figures."""
        return f"{self!r} {self.figures or ''}".strip()

    def __repr__(self) -> str:
        return f"Translations({self.settings.kernel.name}, {len(self.rows):,} texts)"


def figures(
    rows: Sequence[Mapping[str, Any]],
    references: Sequence[str],
    seconds: float,
    moves: Mapping[str, int],
) -> Figures:
    """Figures of translations against one reference each.

    rows      of `Translations`
    seconds   that all translations took
    moves     of a kernel, as in `Translations`; empty without one
    """
    try:
        from sacrebleu.metrics import BLEU, CHRF
    except ImportError:
        raise InputError(
            "needs sacrebleu, which is not installed",
            argument="reference",
            use="pip install 'unmask[translate]'",
        ) from None
    bleu = BLEU()
    chrf = CHRF()
    texts = [row["text"] for row in rows]
    with_text = [row for row in rows if row["text"]]
    tokens = [row["tokens"] for row in with_text]
    stutter = stutter_rate(tokens) if tokens else 0.0
    texts_that_stutter = sum(stutters(of_text) > 0 for of_text in tokens)
    accepted = None
    novel = None
    steps = moves.get("steps", 0)
    if steps:
        accepted = moves["accepted"] / steps
        novel = moves["changed"] / steps
    bleu_score = bleu.corpus_score(texts, [list(references)]).score
    chrf_score = chrf.corpus_score(texts, [list(references)]).score
    return Figures(
        bleu=bleu_score,
        bleu_signature=str(bleu.get_signature()),  # there is one once a score was computed
        chrf=chrf_score,
        chrf_signature=str(chrf.get_signature()),
        stutter=stutter,
        stuttering=texts_that_stutter / max(1, len(tokens)),
        energy=_mean([row["energy"] for row in with_text]),
        log_prob=_mean([row["log_prob"] for row in with_text]),
        accepted=accepted,
        novel=novel,
        passes=_mean([row["passes"] for row in with_text]) or 0.0,
        seconds=seconds / max(1, len(rows)),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean of the values that there are; None of none."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
