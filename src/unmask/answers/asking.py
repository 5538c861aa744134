"""From texts to the tables of their blanks: the part that `fill` and `compare` share, for one text or for many.

Every text is read and every request refused before the model runs. Many texts go in groups whose passes run together; the
answers come out one by one, in order, so that a long file need not fit into memory.

A wrong tokenizer gives numbers without complaint, so the first text that a model is asked about is looked at: three passes, once
per model. Each of LOOKED_ROWS rows masks every LOOKED_ROWS-th token that the text shows, and the mean of -log q(token | rest) is
compared with log V, that of a uniform distribution over the V regular tokens. A model that is read right lies far below, even on
a text of another language; with another model's tokenizer it lies several nats above. A mean above log V by more than ERRORS
standard errors is reported. `unmask check --data` finds less clear cases.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf, log, prod
from os import PathLike
from statistics import fmean, stdev
from typing import NamedTuple, TypeVar
from weakref import WeakSet

import torch
from torch import Tensor

from unmask.cloze import Cloze
from unmask.errors import InputError, UnmaskWarning
from unmask.formats import percent_at_least
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.blanks import alphabet_ids, alphabet_tokens
from unmask.runs.progress import Progress
from unmask.tables.candidates import CandidatePlan, find_candidates, plan_candidates
from unmask.tables.revealing import regular_tokens
from unmask.tables.unary import Tables, tables_of

Answer = TypeVar("Answer")
Alphabet = str | PathLike[str] | Sequence[str] | None

TOGETHER = 64
TOGETHER_CELLS = 2**26
"""How many texts, and cells of their tables, are worked on at once."""
FEW = 0.5
"""Candidates that hold less than this share of the product joint are reported as few."""
LOOKED_ROWS = 3
LEAST_LOOKED, MOST_LOOKED = 6, 48
"""Tokens of a text that are looked at; a text with fewer than LEAST_LOOKED is skipped."""
ERRORS = 2.0
_seen: WeakSet[MaskedLM] = WeakSet()


class Grid(NamedTuple):
    """Which tokens of a text are blanks, and which tokens are considered there: arguments of `fill` and `compare`."""

    positions: Sequence[int] | None = None
    targets: Sequence[str] | None = None
    candidates: int | Sequence[Sequence[int]] | None = None
    exact: bool = False
    alphabet: Alphabet = None
    force: bool = False


class Asked(NamedTuple):
    """A text, its blanks, and the candidates of each."""

    text: str
    cloze: Cloze
    plan: CandidatePlan


def asked(model: MaskedLM, text: str, grid: Grid, cloze: Cloze | None = None) -> Asked:
    """The blanks of a text (`cloze`, where they were read already) and the candidates of each; refuses what cannot be done."""
    letters = letter_ids(model, grid.alphabet)
    cloze = model.cloze(text, grid.positions, grid.targets) if cloze is None else cloze
    return Asked(text, cloze, plan_candidates(model, cloze, grid.candidates, grid.exact, grid.force, letters))


def for_each(texts: Sequence[str], ask: Callable[[str], Answer]) -> list[Answer]:
    """`ask` of every text; a refusal says which text it is about, if there are several."""
    found = []
    if not texts:
        raise InputError("no text was given: give one, or a list of texts")
    for number, text in enumerate(texts, 1):
        try:
            found.append(ask(text))
        except InputError as error:
            raise (InputError(f"text {number} of {len(texts)}: {error}") if len(texts) > 1 else error) from None
    return found


def letter_ids(model: MaskedLM, alphabet: Alphabet) -> list[int] | None:
    """Ids of the tokens that an alphabet names; None without one."""
    return None if alphabet is None else alphabet_ids(model.words, alphabet_tokens(alphabet))


def allowed_tokens(model: MaskedLM, alphabet: Alphabet) -> Tensor:
    """Ids of the tokens allowed in a blank: the alphabet's, or all regular ones."""
    letters = letter_ids(model, alphabet)
    return regular_tokens(model) if letters is None else torch.tensor(letters, device=model.device)


def answered(model: MaskedLM, questions: Sequence[Asked], progress: Progress | None) -> Iterator[tuple[Asked, Tables]]:
    """The tables of every text, in order, a group of texts at a time."""
    groups = list(_groups(questions))
    done = 0
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
            progress(done, len(questions), "texts")


def mass_in_words(mass: float, sites: int) -> str:
    """How much of the product joint, or of the model's own distribution of one blank, the candidates hold, in words."""
    held = f"tokens hold {percent_at_least(mass)} of {'its mass' if sites == 1 else 'the product joint'}"
    return held + (", less than half: given that the blanks lie among them; raise --candidates" if mass < FEW else "")


def _groups(questions: Sequence[Asked]) -> Iterator[list[Asked]]:
    group: list[Asked] = []
    cells = 0
    for question in questions:
        more = len(question.plan.sizes) * prod(question.plan.sizes)
        if group and (len(group) == TOGETHER or cells + more > TOGETHER_CELLS):
            yield group
            group, cells = [], 0
        group.append(question)
        cells += more
    if group:
        yield group


def look_at_first(model: MaskedLM, texts: Iterable[Sequence[int]]) -> None:
    """Warn, once per model, if it predicts what the first text shows worse than a uniform distribution; `texts`: token ids."""
    if model in _seen:
        return
    special = set(model.special_ids)
    for ids in texts:
        shown = [place for place, i in enumerate(ids) if i not in special]
        if len(shown) >= LEAST_LOOKED:
            break
    else:
        return
    _seen.add(model)
    nats, error = mean_and_error(_surprise(model, ids, shown[:: -(-len(shown) // MOST_LOOKED)]))
    worse = worse_than_uniform("the tokens that the text shows", nats, error, log(len(model.regular_ids)))
    if worse:
        warnings.warn(
            f"model {model.name!r}: {worse}; unmask check --data with your own texts shows more",
            UnmaskWarning,
            stacklevel=4,
        )


@torch.no_grad()
def _surprise(model: MaskedLM, ids: Sequence[int], shown: Sequence[int]) -> list[float]:
    """-log q of the tokens at these places, every LOOKED_ROWS-th of them masked in one row; the last one or two are left out."""
    places = torch.tensor(shown[: len(shown) // LOOKED_ROWS * LOOKED_ROWS]).view(-1, LOOKED_ROWS).T.contiguous()
    rows = torch.tensor([list(ids)] * LOOKED_ROWS)
    log_q = model.logits(rows.scatter(1, places, model.mask_id), places).double().log_softmax(-1).cpu()
    return (-log_q.gather(2, rows.gather(1, places).unsqueeze(2))).flatten().tolist()


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean of some numbers and its standard error: infinite for one number, 0 for an infinite mean."""
    if inf in values:
        return inf, 0.0
    return fmean(values), stdev(values) / len(values) ** 0.5 if len(values) > 1 else inf


def worse_than_uniform(what: str, nats: float, error: float, uniform: float) -> str | None:
    """The sentence about a model that predicts tokens worse than a uniform distribution by more than ERRORS errors; else None."""
    if nats - ERRORS * error <= uniform:
        return None
    return (
        f"it predicts {what} worse than a uniform distribution ({nats:.1f} nats, uniform {uniform:.1f}): the tokenizer may be "
        "another model's, config.json may state another network, or the texts are not of its kind"
    )
