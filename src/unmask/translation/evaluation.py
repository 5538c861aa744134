"""Translations against references: BLEU and chrF as sacrebleu computes them, and what references do not tell.

stutter     share of neighbouring tokens that are equal; and of translations with such a pair
accepted    share of a kernel's steps whose proposal was accepted (the same token again always is)
novel       share of a kernel's steps that changed the text
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from unmask.errors import InputError
from unmask.sampling.run.text_statistics import stutter_rate, stutters


@dataclass(frozen=True)
class Figures:
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

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

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


def figures(rows: Sequence[Mapping[str, Any]], references: Sequence[str], seconds: float, moves: Mapping[str, int]) -> Figures:
    """Figures of translations (the rows of `Translations`) against one reference each."""
    if len(rows) != len(references):
        raise InputError(f"{len(rows):,} sources and {len(references):,} references: give one reference per source, line by line")
    bleu, chrf = _metrics()
    texts, told = [row["text"] for row in rows], [row for row in rows if row["text"]]
    scores = [metric.corpus_score(texts, [list(references)]).score for metric in (bleu, chrf)]
    tokens = [row["tokens"] for row in told]
    steps = moves.get("steps", 0)
    return Figures(
        bleu=scores[0],
        bleu_signature=str(bleu.get_signature()),
        chrf=scores[1],
        chrf_signature=str(chrf.get_signature()),
        stutter=stutter_rate(tokens) if tokens else 0.0,
        stuttering=sum(stutters(t) > 0 for t in tokens) / max(1, len(tokens)),
        energy=_mean([row["energy"] for row in told]),
        log_prob=_mean([row["log_prob"] for row in told]),
        accepted=moves["accepted"] / steps if steps else None,
        novel=moves["changed"] / steps if steps else None,
        passes=_mean([row["passes"] for row in told]) or 0.0,
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
