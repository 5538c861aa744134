"""The result of `unmask.translate`: one row per source line, how long it took, and figures against references.

Figures are BLEU and chrF as sacrebleu computes them, and what references do not show:

stutter     share of neighbouring tokens that are equal; and of translations with such a pair
accepted    share of a kernel's steps whose proposal was accepted (the same token again always is)
novel       share of a kernel's steps that changed the text
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from unmask.arguments import checked
from unmask.errors import InputError
from unmask.runs.files import as_json, write_atomically
from unmask.runs.outputs import output_file
from unmask.sampling.run.text_statistics import stutter_rate, stutters
from unmask.translation.settings import TranslateSettings

if TYPE_CHECKING:
    import pandas

SHOWN = 10
BEGINNING = (b'{"text": ',)
"""How files of translations begin."""


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


@dataclass(frozen=True, repr=False)
class Translations:
    """Translations in the order of their sources.

    settings  what decided the translations
    rows      text, energy, log_prob, passes, stutter (equal neighbouring tokens), tokens, length (of the text, in tokens);
              an empty source has an empty text, and null for its numbers. Of a causal model log_prob is its own
    seconds   in all; on Ray, those of all workers together
    moves     of a kernel: steps, and how many were accepted, proposed another token, and changed the text
    figures   against the references
    """

    settings: TranslateSettings
    rows: list[dict[str, Any]]
    seconds: float
    moves: dict[str, int]
    figures: Figures | None = None

    @property
    def texts(self) -> list[str]:
        """The translations."""
        return [row["text"] for row in self.rows]

    def to_frame(self) -> pandas.DataFrame:
        """The rows."""
        import pandas

        return pandas.DataFrame(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {
            "settings": self.settings.to_dict(),
            "translations": self.rows,
            "seconds": self.seconds,
            "moves": self.moves,
            "figures": self.figures.to_dict() if self.figures else None,
        }

    def lines(self) -> str:
        """JSON lines, one per source."""
        return "".join(as_json(row, indent=None) + "\n" for row in self.rows)

    @checked
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON lines."""
        write_atomically(output_file("path", path, (), BEGINNING), self.lines())

    def _repr_html_(self) -> str:
        shown = escape(str(self.figures)).replace("\n", "<br>") if self.figures else ""
        texts = "".join(f"<li>{escape(text)}</li>" for text in self.texts[:SHOWN])
        return f"<p>{escape(repr(self))}<br>{shown}</p><ul>{texts}</ul>"

    def __repr__(self) -> str:
        return f"Translations({self.settings.method}, {len(self.rows):,} texts)"


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
