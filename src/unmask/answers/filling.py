"""`fill`: from a text with blanks to its most probable completions under an explicit joint of the blanks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from math import exp
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from unmask import checks
from unmask.answers.asking import Alphabet, Candidates, Model, answered, asked, one_or_many, told_mass
from unmask.cloze import Cloze
from unmask.joints import DEFAULT, Joint, derive
from unmask.joints.registry import named
from unmask.models.given import as_model
from unmask.models.masked_lm import MaskedLM
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    import pandas

MOST_SHOWN = 1_000_000


@dataclass(frozen=True)
class Completion:
    """One filling of the blanks: its tokens, the whole text, and its log-probability under the joint and the product.

    Both are given that every blank lies in its candidate set. `spans` are the places of the tokens in `text`, and `is_gold`
    says that these are the tokens that stood in the blanks.
    """

    tokens: tuple[str, ...]
    text: str
    log_prob: float
    product_log_prob: float
    spans: tuple[tuple[int, int], ...]
    is_gold: bool = False

    def to_dict(self) -> dict[str, object]:
        """One entry of `completions` in JSON."""
        return {
            "tokens": list(self.tokens),
            "text": self.text,
            "gold": self.is_gold,
            "log_prob": self.log_prob,
            "product_log_prob": self.product_log_prob,
        }


@dataclass(frozen=True)
class Filling:
    """The joint over the blanks of a text, the product of independent blanks beside it, and the `top` completions."""

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
        """The `top` most probable fillings, best first; after them the gold one, where it is known and not among them."""
        rows = with_gold(self.joint.topk(self.top)[0], self.cloze)
        log_probs, independent = self.joint.log_prob(rows).tolist(), self.product.log_prob(rows).tolist()
        return [
            complete(self.model, self.cloze, row, log_prob, product)
            for row, log_prob, product in zip(rows.tolist(), log_probs, independent, strict=True)
        ]

    def to_dict(self) -> dict[str, object]:
        """What `unmask fill --json` prints."""
        return {
            "text": self.text,
            "joint": self.joint.name,
            "candidates_mass": self.candidates_mass,
            "completions": [completion.to_dict() for completion in self.completions],
        }

    def to_frame(self) -> pandas.DataFrame:
        """One row per completion: text, tokens (one column per blank), log_prob, product_log_prob, gold."""
        import pandas

        rows = [
            {
                "text": c.text,
                **{f"blank_{t + 1}": token for t, token in enumerate(c.tokens)},
                "log_prob": c.log_prob,
                "product_log_prob": c.product_log_prob,
                "gold": c.is_gold,
            }
            for c in self.completions
        ]
        return pandas.DataFrame(rows)

    def __repr__(self) -> str:
        best = self.completions[0]
        return f"Filling({best.text!r}, {exp(best.log_prob):.1%} under {self.joint.name}, {self.top} completions)"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{exp(c.log_prob):.2%}</td><td>{exp(c.product_log_prob):.2%}</td><td>{_marked(c)}</td></tr>"
            for c in self.completions
        )
        held = told_mass(self.candidates_mass, self.joint.sites)
        return (
            f"<p>{escape(self.text)}<br>{escape(self.joint.name)} joint; "
            f"{' &times; '.join(map(str, self.joint.shape))} {escape(held)}</p><table><tr><th>{escape(self.joint.name)}</th>"
            f"<th>product</th><th>completion</th></tr>{rows}</table>"
        )


@one_or_many
def fill(
    text: Sequence[str],
    model: Model = None,
    joint: str = DEFAULT,
    candidates: Candidates = None,
    exact: bool = False,
    top: int = 10,
    positions: Sequence[int] | None = None,
    targets: Sequence[str] | None = None,
    alphabet: Alphabet = None,
    device: str = "auto",
    dtype: str = "auto",
    rename: Mapping[str, str] | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Iterator[Filling]:
    """The joint of the blanks of a text, and its most probable completions.

    text        a text with [MASK] at each blank, or a whole text with the token `positions` to blank out; or a list of
                texts, whose passes run together, for a list of answers (`fill.each` gives them one by one)
    model       a MaskedLM, a folder, a name on the hub, or None for the bundled English model
    joint       the construction, one of `unmask.CONSTRUCTIONS`; with one blank all of them are the model's own conditional
    candidates  how many tokens of each blank to consider, or the token ids themselves; see `unmask.tables.candidates`
    exact       consider every regular token at every blank; special tokens are outside the support of a filled text
    top         how many completions to show
    targets     words that belong in the blanks: they are among the candidates, and their completion is shown too
    alphabet    the only tokens that may stand in a blank: letters, words with commas between them, a file, or a list
    rename      names of tensors in the model's file, and the names that the model knows them by
    force       go on where the number of passes or cells is beyond the limits
    progress    called with (passes done, passes in all, what is counted)
    """
    construction = named(joint, "joint").name
    checks.whole("top", top, 1, MOST_SHOWN)
    lm = as_model(model, device, dtype, rename)
    questions = asked(lm, text, positions, targets, candidates, exact, force, alphabet)
    for question, tables in answered(lm, questions, progress):
        yield Filling(question.text, derive(tables, construction), derive(tables, "product"), lm, question.cloze, top)


def with_gold(rows: Tensor, cloze: Cloze) -> Tensor:
    """Token ids of fillings, one per row, and after them the tokens that stood in the blanks where they are not among them."""
    gold = torch.tensor([] if cloze.gold is None else [cloze.gold], dtype=rows.dtype, device=rows.device)
    known = len(gold) and bool((rows == gold).all(1).any())
    return rows if known or not len(gold) else torch.cat([rows, gold])


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
    return Completion(tokens, text, log_prob, product_log_prob, tuple(spans), tuple(values) == cloze.gold)


def _marked(completion: Completion) -> str:
    out, end = "", 0
    for start, stop in sorted(completion.spans):
        out += f"{escape(completion.text[end:start])}<b>{escape(completion.text[start:stop])}</b>"
        end = stop
    return out + escape(completion.text[end:])
