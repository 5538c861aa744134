"""Texts with blanks: their candidates, their tables and their fillings, which `fill` and `compare` share.

Every text is read and every request refused before the model runs. Many texts go in groups whose passes run together; the
answers come out one by one, in order, so that a long file need not fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from os import PathLike
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

import torch
from torch import Tensor

from unmask.cloze import Cloze
from unmask.errors import InputError
from unmask.formats import percent_at_least
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.blanks import alphabet_ids, alphabet_tokens
from unmask.results import Result
from unmask.runs.progress import Progress
from unmask.tables.candidates import CandidatePlan, find_candidates, plan_candidates
from unmask.tables.revealing import regular_tokens
from unmask.tables.unary import Tables, tables_of

if TYPE_CHECKING:
    import pandas

Answer = TypeVar("Answer")
Alphabet = str | PathLike[str] | Sequence[str] | None

TOGETHER = 64
TOGETHER_CELLS = 2**26
"""How many texts, and cells of their tables, are worked on at once."""
FEW = 0.5
"""Candidates that hold less than this share of the product joint are reported as few."""


class Grid(NamedTuple):
    """Which tokens of a text are blanks, and which tokens are considered there: arguments of `fill` and `compare`."""

    positions: Sequence[int] | None = None
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
    def read(cls, model: MaskedLM, text: str, grid: Grid, cloze: Cloze | None = None) -> BlankedText:
        """The blanks of a text (`cloze`, where they were read already) and their candidates; refuses what cannot be done."""
        letters = letter_ids(model, grid.alphabet)
        cloze = model.cloze(text, grid.positions, grid.targets) if cloze is None else cloze
        return cls(text, cloze, plan_candidates(model, cloze, grid.candidates, grid.exact, grid.force, letters))


def for_each(texts: Sequence[str], read: Callable[[str], Answer]) -> list[Answer]:
    """`read` of every text; a refusal says which text it is about, if there are several."""
    if not texts:
        raise InputError("no text was given: give one, or a list of texts")
    answers = []
    for number, text in enumerate(texts, 1):
        try:
            answers.append(read(text))
        except InputError as error:
            raise (InputError(f"text {number} of {len(texts)}: {error}") if len(texts) > 1 else error) from None
    return answers


def letter_ids(model: MaskedLM, alphabet: Alphabet) -> list[int] | None:
    """Ids of the tokens that an alphabet names; None without one."""
    return None if alphabet is None else alphabet_ids(model.words, alphabet_tokens(alphabet))


def allowed_tokens(model: MaskedLM, alphabet: Alphabet) -> Tensor:
    """Ids of the tokens allowed in a blank: the alphabet's, or all regular ones."""
    letters = letter_ids(model, alphabet)
    return regular_tokens(model) if letters is None else torch.tensor(letters, device=model.device)


def with_tables(model: MaskedLM, texts: Sequence[BlankedText], progress: Progress | None) -> Iterator[tuple[BlankedText, Tables]]:
    """The tables of every text, in order, a group of texts at a time."""
    groups, done = list(_groups(texts)), 0
    for group in groups:
        report = progress if len(groups) == 1 else None
        candidates = find_candidates(model, [one.plan for one in group], report)
        supports = [[one.plan.allowed] * len(one.cloze.block) for one in group]
        tables = tables_of(model, [one.cloze for one in group], candidates, progress=report, supports=supports)
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
        more = len(text.plan.sizes) * prod(text.plan.sizes)
        if group and (len(group) == TOGETHER or cells + more > TOGETHER_CELLS):
            yield group
            group, cells = [], 0
        group.append(text)
        cells += more
    if group:
        yield group


def mass_in_words(mass: float, sites: int) -> str:
    """How much of the product joint, or of the model's own distribution of one blank, the candidates hold, in words."""
    held = f"tokens hold {percent_at_least(mass)} of {'its mass' if sites == 1 else 'the product joint'}"
    return held + (", less than half: given that the blanks lie among them; raise --candidates" if mass < FEW else "")


@dataclass(frozen=True)
class Completion(Result):
    """One filling of the blanks: its tokens, the whole text, and its log-probability under the joint and the product.

    Both are given that every blank lies in its candidate set.

    tokens             one for each blank
    text               the whole text, filled
    log_prob           log-probability under the joint, in nats
    product_log_prob   the same under the product of independent blanks
    spans              where the tokens are in `text`: start and end, in characters
    is_gold            whether these are the tokens that stood in the blanks, or the targets
    ids                the tokens as numbers

    >>> unmask.fill("She drank a cup of [MASK].").completions[0].tokens
    ('tea',)
    """

    KEYS: ClassVar[tuple[str, ...]] = ("tokens", "text", "gold=is_gold", "log_prob", "product_log_prob")

    tokens: tuple[str, ...]
    text: str
    log_prob: float
    product_log_prob: float
    spans: tuple[tuple[int, int], ...]
    is_gold: bool = False
    ids: tuple[int, ...] = ()


def complete(model: MaskedLM, cloze: Cloze, values: Sequence[int], log_prob: float, product_log_prob: float) -> Completion:
    """The text with `values` in its blanks, and where they are in it."""
    ids = cloze.filled(values)
    text = model.text(ids)
    spans = []
    for position in cloze.block:
        start, stop = len(model.text(ids[:position])), len(model.text(ids[: position + 1]))
        start += len(text[start:stop]) - len(text[start:stop].lstrip())
        spans.append((start, stop))
    tokens = tuple(model.token(value) for value in values)
    return Completion(tokens, text, log_prob, product_log_prob, tuple(spans), tuple(values) == cloze.gold, tuple(values))


def completions_frame(completions: Sequence[Completion], filled: str, *numbers: str) -> pandas.DataFrame:
    """One row per completion: its text, a column per blank with what fills it (the attribute `filled`), its numbers, gold."""
    import pandas

    rows = [
        {"text": one.text}
        | {f"blank_{t + 1}": part for t, part in enumerate(getattr(one, filled))}
        | {name: getattr(one, name) for name in numbers}
        | {"gold": one.is_gold}
        for one in completions
    ]
    return pandas.DataFrame(rows)


def with_gold(rows: Tensor, cloze: Cloze) -> Tensor:
    """Token ids of fillings, one per row, and after them the tokens that stood in the blanks where they are not among them."""
    gold = torch.tensor([] if cloze.gold is None else [cloze.gold], dtype=rows.dtype, device=rows.device)
    known = len(gold) and bool((rows == gold).all(1).any())
    return rows if known or not len(gold) else torch.cat([rows, gold])
