"""Texts with blanks, as `fill` and `compare` share them: candidates, tables, fillings, and the
answer of `fill`.

Every text is read, and every bad request raises, before the model runs. The passes of many
texts run together, a group of texts at a time. The answers come out one by one, in order, so
that a long file need not fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, prod
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

import torch
from torch import Tensor

from unmask.common.cloze import Cloze, ids_of_filling
from unmask.common.counting import Places
from unmask.common.errors import InputError
from unmask.common.formats import percent_at_least, percent_at_most
from unmask.common.results import Result
from unmask.joints.joint import Joint, most_probable, not_converged
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.alphabet import Alphabet, letter_ids
from unmask.runs.progress import Progress
from unmask.tables.candidates import CandidatePlan, find_candidates, plan_candidates
from unmask.tables.conditionals import regular_tokens
from unmask.tables.unary import Tables, tables_of

if TYPE_CHECKING:
    import pandas

Answer = TypeVar("Answer")

TOGETHER = 64
TOGETHER_CELLS = 2**26
"""The most texts of a group, and the most cells of their tables."""
FEW = 0.5
"""Candidates that hold less than this share of the product joint are reported as few."""
WHY_FEWER = {
    "passes": "give more passes",
    "memory": "memory is used up",
    "mass": "they hold the mass asked for",
}
"""Why a search lists fewer fillings than `top`, by why it stopped."""


class Grid(NamedTuple):
    """Arguments of `fill` and `compare` that say which tokens of a text are blanks, and which
    tokens are considered there.
    """

    positions: Places | None = None
    targets: Sequence[str] | None = None
    candidates: int | Sequence[Sequence[int]] | None = None
    exact: bool = False
    alphabet: Alphabet = None
    force: bool = False


class BlankedText(NamedTuple):
    """A text, its blanks, and how the candidates of each are found."""

    text: str
    cloze: Cloze
    plan: CandidatePlan

    @classmethod
    def read(cls, model: MaskedLM, text: str, cloze: Cloze, grid: Grid) -> BlankedText:
        """A text with its blanks `cloze` and their candidates; raises if there are too many."""
        letters = letter_ids(model, grid.alphabet)
        return cls(
            text,
            cloze,
            plan_candidates(model, cloze, grid.candidates, grid.exact, grid.force, letters),
        )


def allowed_tokens(model: MaskedLM, alphabet: Alphabet) -> Tensor:
    """Ids of the tokens allowed in a blank: the alphabet's, or all regular ones."""
    letters = letter_ids(model, alphabet)
    return regular_tokens(model) if letters is None else torch.tensor(letters, device=model.device)


def with_tables(
    model: MaskedLM, texts: Sequence[BlankedText], progress: Progress | None, all_texts: bool = True
) -> Iterator[tuple[BlankedText, Tables]]:
    """The tables of every text, in order, a group of texts at a time.

    all_texts   whether these are all texts of the call: `progress` counts passes if they are,
                in one group; otherwise texts
    """
    groups, done = list(_groups(texts)), 0
    for group in groups:
        report = progress if all_texts and len(groups) == 1 else None
        candidates = find_candidates(model, [text.plan for text in group], report)
        supports = [[text.plan.allowed] * len(text.cloze.block) for text in group]
        tables = tables_of(
            model, [text.cloze for text in group], candidates, progress=report, supports=supports
        )
        if progress and report:
            progress(0, 0, "deriving the joint")
        yield from zip(group, tables, strict=True)
        done += len(group)
        if progress and not report:
            progress(done, len(texts), "texts")


def _groups(texts: Sequence[BlankedText]) -> Iterator[list[BlankedText]]:
    group: list[BlankedText] = []
    cells = 0
    for text in texts:
        size = len(text.plan.sizes) * prod(text.plan.sizes)
        if group and (len(group) == TOGETHER or cells + size > TOGETHER_CELLS):
            yield group
            group, cells = [], 0
        group.append(text)
        cells += size
    if group:
        yield group


def sizes(shape: Sequence[int]) -> str:
    """The sizes of a table, for example 256 x 256."""
    return " x ".join(f"{size:,}" for size in shape)


def mass_in_words(tables: Tables) -> str:
    """How much of the product joint, or of the model's own distribution of one blank, the
    candidates hold, in words.
    """
    mass, all_allowed = exp(tables.log_mass), not any(tables.log_masked_inside)
    share = (
        f"tokens hold {percent_at_least(mass)} of"
        f" {'its mass' if tables.sites == 1 else 'the product joint'}"
    )
    few = ", less than half: probabilities are conditional on them" + (
        "" if all_allowed else "; give more candidates"
    )
    return share + (few if mass < FEW else "")


@dataclass(frozen=True)
class Completion(Result):
    """One filling of the blanks; its log-probabilities are given that every blank lies in its
    candidate set.

    tokens, ids        one for each blank, and the same as numbers
    text, spans        the whole text, filled, and where the tokens are in it: start and end, in
                       characters
    log_prob           log-probability under the joint, in nats
    product_log_prob   the same under the product of independent blanks
    is_gold            whether these are the tokens that stood in the blanks, or the targets
    parts              of a search: what each blank is filled with, as text
    standard_error     of a search: of log_prob, in nats; 0 where no order is left out

    >>> unmask.fill("She drank a cup of [MASK].").completions[0].tokens
    ('tea',)
    """

    KEYS: ClassVar[tuple[str, ...]] = (
        "tokens",
        "text",
        "gold=is_gold",
        "log_prob",
        "product_log_prob",
        "parts",
        "standard_error",
    )
    OPTIONAL: ClassVar[tuple[str, ...]] = ("parts", "standard_error")

    tokens: tuple[str, ...]
    text: str
    log_prob: float
    product_log_prob: float
    spans: tuple[tuple[int, int], ...]
    is_gold: bool = False
    ids: tuple[int, ...] = ()
    parts: tuple[str, ...] = ()
    standard_error: float | None = None


@dataclass(frozen=True)
class ScoredAnswer(Result):
    """A given answer's probability among all fillings of the text.

    rank     the lowest and the highest place that it can have among all fillings that the
             constraints allow; None where orders are sampled
    odds     its probability over that of the most probable answer given
    """

    answer: str
    tokens: tuple[str, ...]
    text: str
    log_prob: float
    standard_error: float
    rank: tuple[int, int] | None
    odds: float = 1.0


@dataclass(frozen=True, repr=False)
class Filling(Result):
    """The most probable completions of a text under an explicit joint of its blanks.

    text, model   the text with its blanks; the model
    construction  the name of the rule that makes the joint
    top           how many completions there are at most, without the gold one
    cloze         over candidates: the text as token ids, and where its blanks are
    table         over candidates: the joint of the blanks, and the joint of independent blanks
                  over the same tables

    By a search over the whole vocabulary there is no table. Rounding is allowed for in mass,
    bound, certain and ranks (`unmask.tables.rounding`):

    best          the best fillings found, best first
    answers       the fillings named in `answers`, with rank and odds beside log_prob
    mass          all fillings found, of which the completions are the best, have this much
                  probability at least
    bound         no filling that was not found has more
    certain       how many completions are certain to be the best, in this order
    passes        forward passes of the search
    stopped       why the search ended; see `unmask.joints.filling_search.found.ChainSearch`
    exact         no order was left out; if some were, mass is an estimate, and so are the
                  completions' probabilities
    alphabet      only some of the regular tokens could fill a blank

    >>> filling = unmask.fill("The [MASK] [MASK] at the casino.", candidates=32)
    >>> filling.joint.shape, len(filling.completions)
    ((32, 32), 10)
    >>> filling = unmask.fill("A [MASK] of [MASK] and [MASK].", top=1)
    >>> filling.completions[0].parts, filling.certain
    (('group', 'men', 'women'), 1)
    """

    KEYS: ClassVar[tuple[str, ...]] = (
        "text",
        "construction",
        "candidates_mass",
        "warning",
        "mass",
        "bound",
        "certain",
        "passes",
        "stopped",
        "completions",
        "answers",
    )
    OPTIONAL = tuple(key for key in KEYS if key not in ("text", "construction", "completions"))

    text: str
    model: MaskedLM
    construction: str
    top: int
    cloze: Cloze | None = None
    table: tuple[Joint, Joint] | None = None
    best: Sequence[Completion] = ()
    answers: Sequence[ScoredAnswer] = ()
    mass: float | None = None
    bound: float | None = None
    certain: int | None = None
    passes: int | None = None
    stopped: str | None = None
    exact: bool = True
    alphabet: bool = False

    @property
    def joint(self) -> Joint:
        """The joint over the candidates of the blanks."""
        return self._table[0]

    @property
    def product(self) -> Joint:
        """The joint that takes the blanks as independent, over the same tables."""
        return self._table[1]

    @property
    def _table(self) -> tuple[Joint, Joint]:
        if self.table is None:
            raise InputError(
                "a search over the whole vocabulary has no table of the joint: give candidates to"
                " fill"
            )
        return self.table

    @property
    def candidates_mass(self) -> float | None:
        """The share of the product joint that lies in the candidate sets; the joint is given
        that the blanks do.
        """
        return None if self.table is None else exp(self.joint.tables.log_mass)

    @cached_property
    def completions(self) -> list[Completion]:
        """The `top` most probable fillings, best first; after them the gold one, where it is
        known and not among them.
        """
        if self.table is None or self.cloze is None:
            return list(self.best)
        rows = with_gold(most_probable(self.joint, self.top)[0], self.cloze)
        log_probs, independent = (
            self.joint.log_prob(rows).tolist(),
            self.product.log_prob(rows).tolist(),
        )
        return [
            complete(self.model, self.cloze, row, log_prob, product)
            for row, log_prob, product in zip(rows.tolist(), log_probs, independent, strict=True)
        ]

    @property
    def warning(self) -> str | None:
        """A sentence if the joint's construction did not converge."""
        return None if self.table is None else not_converged([self.joint]) or None

    def to_frame(self) -> pandas.DataFrame:
        """One row per completion: text, one column per blank, log_prob, of a search
        standard_error, product_log_prob, gold.
        """
        import pandas

        rows = [
            {
                "text": filling.text,
                **{f"blank_{b}": part for b, part in enumerate(filling.parts or filling.tokens, 1)},
            }
            | {"log_prob": filling.log_prob, "standard_error": filling.standard_error}
            | {"product_log_prob": filling.product_log_prob, "gold": filling.is_gold}
            for filling in self.completions
        ]
        return pandas.DataFrame(rows).drop(columns=[] if self.table is None else ["standard_error"])

    def __repr__(self) -> str:
        best = self.completions[0]
        return (
            f"Filling({best.text!r}, {exp(best.log_prob):.1%} under {self.construction},"
            f" {len(self.completions)} completions)"
        )

    @property
    def headline(self) -> str:
        """The text and the summary."""
        return f"{self.text}: {self.summary}"

    @property
    def summary(self) -> str:  # type: ignore[override]
        """One line: the joint, how much its candidates hold or what a search found, and what is
        certain.
        """
        if self.table is not None:
            sites = self.joint.sites
            kind = (
                "distribution of 1 blank"
                if sites == 1
                else f"{self.construction} joint of {sites} blanks"
            )
            return f"{kind}; {sizes(self.joint.shape)} {mass_in_words(self.joint.tables)}"
        assert self.mass is not None
        assert self.bound is not None
        assert self.certain is not None
        shown = len(self.completions)
        if not self.exact:
            sure = "orders are sampled: every probability has an error"
        elif self.certain >= shown:
            sure = "the order shown is certain"
        else:
            sure = (
                f"the first {self.certain} of {shown} are certain"
                if self.certain
                else "no place is certain"
            )
        support = "the alphabet" if self.alphabet else "the whole vocabulary"
        others = (
            f"no other has more than {percent_at_most(self.bound)}"
            if self.bound
            else "there is no other"
        )
        fewer = ""
        if self.bound and shown < self.top and self.stopped in WHY_FEWER:
            fewer = (
                f"; {shown:,} were found of the {self.top:,} asked for: {WHY_FEWER[self.stopped]}"
            )
        return (
            f"chain rule over all orders and {support}; fillings found hold"
            f" {'at least' if self.exact else 'about'} {percent_at_least(self.mass)} of all mass;"
            f" {others}; {sure} ({self.passes:,}"
            f" passes{'; stopped' if self.stopped == 'asked' else ''}){fewer}"
        )


def complete(
    model: MaskedLM, cloze: Cloze, values: Sequence[int], log_prob: float, product_log_prob: float
) -> Completion:
    """The text with `values` in its blanks, and where they are in it."""
    ids = ids_of_filling(cloze, values)
    text = model.words.text(ids)
    spans = []
    for position in cloze.block:
        start = len(model.words.text(ids[:position]))
        stop = len(model.words.text(ids[: position + 1]))
        start += len(text[start:stop]) - len(text[start:stop].lstrip())
        spans.append((start, stop))
    tokens = tuple(model.words.token(value) for value in values)
    return Completion(
        tokens,
        text,
        log_prob,
        product_log_prob,
        tuple(spans),
        tuple(values) == cloze.gold,
        tuple(values),
    )


def with_gold(rows: Tensor, cloze: Cloze) -> Tensor:
    """Token ids of fillings, one per row, and after them the tokens that stood in the blanks
    where they are not among them.
    """
    gold = torch.tensor(
        [] if cloze.gold is None else [cloze.gold], dtype=rows.dtype, device=rows.device
    )
    known = len(gold) and bool((rows == gold).all(1).any())
    return rows if known or not len(gold) else torch.cat([rows, gold])
