"""`fill`: from a text with blanks to its most probable completions under an explicit joint of the blanks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from math import exp
from pathlib import Path

from unmask.cloze import Cloze
from unmask.errors import InputError
from unmask.joints import DEFAULT, Joint, derive
from unmask.joints.registry import named
from unmask.models.given import as_model
from unmask.models.masked_lm import MaskedLM
from unmask.runs.progress import Progress
from unmask.tables.candidates import choose_candidates
from unmask.tables.unary import unary_tables


@dataclass(frozen=True)
class Completion:
    """One filling of the blanks: its tokens, the whole text, and its log-probability under the joint and the product.

    Both are given that every blank lies in its candidate set. `spans` are the places of the tokens in `text`.
    """

    tokens: tuple[str, ...]
    text: str
    log_prob: float
    product_log_prob: float
    spans: tuple[tuple[int, int], ...]

    def to_dict(self) -> dict[str, object]:
        return {
            "tokens": list(self.tokens),
            "text": self.text,
            "log_prob": self.log_prob,
            "product_log_prob": self.product_log_prob,
        }


@dataclass(frozen=True)
class Filling:
    """A joint over the blanks of a text, and its `top` completions."""

    text: str
    joint: Joint
    product: Joint
    model: MaskedLM
    cloze: Cloze
    top: int

    @property
    def candidates_mass(self) -> float:
        """The share of the product joint that lies in the candidate sets; the joint is given that the blanks do."""
        return exp(self.joint.tables.log_mass)

    @cached_property
    def completions(self) -> list[Completion]:
        """The `top` most probable fillings, best first."""
        ids, log_probs = self.joint.topk(self.top)
        independent = self.product.log_prob(ids)
        return [
            complete(self.model, self.cloze, row, log_prob, product)
            for row, log_prob, product in zip(ids.tolist(), log_probs.tolist(), independent.tolist(), strict=True)
        ]

    def to_dict(self) -> dict[str, object]:
        """What `unmask fill --json` prints."""
        return {
            "text": self.text,
            "joint": self.joint.name,
            "candidates_mass": self.candidates_mass,
            "completions": [completion.to_dict() for completion in self.completions],
        }

    def __repr__(self) -> str:
        best = self.completions[0]
        return f"Filling({best.text!r}, {exp(best.log_prob):.1%} under {self.joint.name}, {self.top} completions)"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{exp(c.log_prob):.2%}</td><td>{exp(c.product_log_prob):.2%}</td><td>{_marked(c)}</td></tr>"
            for c in self.completions
        )
        return (
            f"<p>{escape(self.text)}<br>{escape(self.joint.name)} joint over "
            f"{' &times; '.join(map(str, self.joint.shape))} fillings; the candidates hold "
            f"{self.candidates_mass:.1%} of the product joint</p><table><tr><th>{escape(self.joint.name)}</th>"
            f"<th>product</th><th>completion</th></tr>{rows}</table>"
        )


def fill(
    text: str,
    model: MaskedLM | str | Path | None = None,
    joint: str = DEFAULT,
    candidates: int | Sequence[Sequence[int]] | None = None,
    exact: bool = False,
    top: int = 10,
    positions: Sequence[int] | None = None,
    device: str = "auto",
    dtype: str = "auto",
    force: bool = False,
    progress: Progress | None = None,
) -> Filling:
    """The joint of the blanks of `text`, and its most probable completions.

    text        a text with [MASK] at each blank, or a whole text with the token `positions` to blank out
    model       a MaskedLM, a folder, a name on the hub, or None for the bundled English model
    joint       the name of a construction, see `unmask.joints.registry`; with one blank all are the model's own conditional
    candidates  how many tokens of each blank to consider, or the token ids themselves; see `unmask.tables.candidates`
    exact       consider every regular token at every blank; special tokens are outside the support of a filled text
    force       go on where the number of passes or cells is beyond the limits
    progress    called with (passes done, passes in all)
    """
    construction = named(joint, "joint").name
    if top < 1:
        raise InputError(f"{top} completions were asked for: give 1 or more")
    lm = as_model(model, device, dtype)
    cloze = lm.cloze(text, positions)
    tables = unary_tables(lm, cloze, choose_candidates(lm, cloze, candidates, exact, force), progress=progress)
    return Filling(text, derive(tables, construction), derive(tables, "product"), lm, cloze, top)


def complete(model: MaskedLM, cloze: Cloze, values: Sequence[int], log_prob: float, product_log_prob: float) -> Completion:
    """The text with `values` in its blanks, and where in it they stand."""
    ids = cloze.filled(values)
    text = model.text(ids)
    spans = []
    for position in cloze.block:
        start, stop = len(model.text(ids[:position])), len(model.text(ids[: position + 1]))
        start += len(text[start:stop]) - len(text[start:stop].lstrip())
        spans.append((start, stop))
    tokens = tuple(model.token(value) for value in values)
    return Completion(tokens, text, log_prob, product_log_prob, tuple(spans))


def _marked(completion: Completion) -> str:
    out, end = "", 0
    for start, stop in sorted(completion.spans):
        out += f"{escape(completion.text[end:start])}<b>{escape(completion.text[start:stop])}</b>"
        end = stop
    return out + escape(completion.text[end:])
