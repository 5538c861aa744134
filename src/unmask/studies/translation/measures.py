"""Translations measured against references, and by what references do not show.

BLEU and chrF are as sacrebleu computes them.

    stutter     share of neighbouring tokens that are equal
    stuttering  share of translations with such a pair
    accepted    share of a kernel's steps whose proposal was accepted; a proposal of the token that
                is there already always is
    novel       share of a kernel's steps that changed the text
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unmask.common.errors import InputError
from unmask.sampling.chains.convergence import stutter_rate, stutters


@dataclass(frozen=True)
class Measures:
    """Of a set of translations; None where a measure does not apply.

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


def measured(
    rows: Sequence[Mapping[str, Any]],
    references: Sequence[str],
    seconds: float,
    moves: Mapping[str, int],
) -> Measures:
    """The measures of translations against one reference each.

    rows      a dict per translation: text, energy, log_prob, passes, tokens
    seconds   that all translations took
    moves     what a kernel did: steps, accepted, changed; empty without one
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
    return Measures(
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
