"""`fill`: from a text with blanks to its most probable completions under an explicit joint of the blanks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import exp
from typing import TYPE_CHECKING

from unmask.answers.blanked_text import (
    BlankedText,
    Completion,
    Grid,
    complete,
    completions_frame,
    for_each,
    mass_in_words,
    with_gold,
    with_tables,
)
from unmask.answers.chain_filling import ChainFilling, SearchedText, searches
from unmask.answers.checking import look_at_first
from unmask.answers.search import Search
from unmask.cloze import Cloze
from unmask.joints.deriving import derive
from unmask.joints.joint import Joint, not_converged
from unmask.joints.registry import DEFAULT, INDEPENDENT, named
from unmask.models.load import Model, as_model
from unmask.models.masked_lm import MaskedLM
from unmask.results import Result
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, repr=False)
class Filling(Result):
    """The joint over the blanks of a text, the product of independent blanks beside it, and the `top` completions.

    text      as it was given
    joint     the joint over the candidates of the blanks
    product   the joint that takes the blanks as independent, over the same tables
    model     the model that was asked
    cloze     the text as token ids, and where its blanks are
    top       how many completions it has

    >>> found = unmask.fill("The [MASK] [MASK] at the casino.", candidates=32)
    >>> found.joint.shape, len(found.completions)
    ((32, 32), 10)
    """

    KEYS = ("text", "joint", "candidates_mass", "warning", "completions")
    OPTIONAL = ("warning",)

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

    @property
    def warning(self) -> str | None:
        """A sentence if the joint's construction did not converge."""
        return not_converged([self.joint]) or None

    def to_frame(self) -> pandas.DataFrame:
        """One row per completion: text, tokens (one column per blank), log_prob, product_log_prob, gold."""
        return completions_frame(self.completions, "tokens", "log_prob", "product_log_prob")

    def __repr__(self) -> str:
        best = self.completions[0]
        return f"Filling({best.text!r}, {exp(best.log_prob):.1%} under {self.joint.name}, {self.top} completions)"

    @property
    def headline(self) -> str:
        """The text, and what the candidates hold."""
        shape = " x ".join(map(str, self.joint.shape))
        return f"{self.text}: {self.joint.name} joint; {shape} {mass_in_words(self.candidates_mass, self.joint.sites)}"


def fillings(
    texts: Sequence[str],
    model: Model,
    joint: str | None,
    grid: Grid,
    search: Search,
    top: int,
    progress: Progress | None,
) -> Iterator[Filling | ChainFilling]:
    """The answers of `fill`, one by one; everything is checked before the first."""
    construction = None if joint is None else named(joint, "joint").name
    lm = as_model(model)

    def read(text: str) -> BlankedText | SearchedText:
        searched, cloze = searches(lm, text, construction, grid, search)
        return SearchedText.read(lm, text, grid, search, top, cloze) if searched else BlankedText.read(lm, text, grid, cloze)

    everything = for_each(texts, read)
    look_at_first(lm, (one.cloze.ids for one in everything))
    for searched, some in groupby(everything, lambda one: isinstance(one, SearchedText)):
        if searched:
            yield from (one.answer(progress) for one in some if isinstance(one, SearchedText))
        else:
            for one, tables in with_tables(lm, [one for one in some if isinstance(one, BlankedText)], progress):
                rule = derive(tables, construction or DEFAULT)
                yield Filling(one.text, rule, derive(tables, INDEPENDENT), lm, one.cloze, top)
