"""`fill` by the chain rule over all orders: many blanks, whole words and gaps, over the whole vocabulary.

A text with [WORD] or [GAP:2-5] is read with every number of tokens that its blanks may have (`unmask.models.readings`). With
n readings and weights w, the probability of a filling x of reading r is w_r p_r(x), where p_r is the chain rule averaged over
orders in the text with that many masks, over all regular tokens:

    uniform   w_r = 1/n
    fit       w_r proportional to what the model makes of the blanks' neighbours (`unmask.tables.length_fit`)

A word's probability is the sum over all its spellings in the tokens allowed, where the text has one [WORD]; with several, and
while searching, words are spelled as the tokenizer does. What is no whole word keeps its share of the probability: the sum
over words is below 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import exp, fsum, log

import torch

from unmask.answers.constraints import Constraints, FilledBlanks
from unmask.answers.filling import Completion, complete
from unmask.answers.given_answers import GivenAnswer, ScoredAnswer, rank_bounds, read_answer, with_odds
from unmask.checks import one_of, real, whole
from unmask.errors import InputError
from unmask.joints.chain_search import ChainSearch, Found, log_mean_over_orders, search_fillings
from unmask.models.masked_lm import MaskedLM
from unmask.models.readings import Blank, Reading, read_blanks, reading_with, readings_of
from unmask.runs.progress import Progress
from unmask.tables.candidates import regular_tokens
from unmask.tables.exploration import State, Variant
from unmask.tables.length_fit import length_weights
from unmask.tables.revealing import Conditionals

LENGTHS = ("uniform", "fit")
PASSES = 1000
"""What a default answer may cost: a few seconds of the bundled model on a CPU."""
MOST_PASSES = 10**7


@dataclass(frozen=True)
class ChainCompletion(Completion):
    """A filling with its probability over the whole vocabulary.

    parts           what each blank is filled with, as text
    standard_error  of log_prob, in nats; 0 where it is exact
    lengths         log-probability by the number of tokens of the blanks; several where a word has several spellings
    """

    parts: tuple[str, ...] = ()
    standard_error: float = 0.0
    lengths: Mapping[tuple[int, ...], float] | None = None

    def to_dict(self) -> dict[str, object]:
        extra: dict[str, object] = {"parts": list(self.parts), "standard_error": self.standard_error}
        if self.lengths is not None:
            extra["lengths"] = [{"tokens": list(n), "log_prob": value} for n, value in self.lengths.items()]
        return super().to_dict() | extra


@dataclass(frozen=True)
class ReadingSeen:
    """A number of tokens per blank: its weight, and the probability of the fillings found that have it."""

    lengths: tuple[int, ...]
    weight: float
    mass: float


@dataclass(frozen=True)
class ChainFilling:
    """The best fillings of a text under the chain rule averaged over all orders, and how far they are certain.

    mass      the probability of all fillings found, of which the completions are the best
    bound     no filling that was not found has more; of words, in the tokenizer's own spelling
    certain   how many of the completions are certain to be the best, in this order
    stopped   why the search ended; see `unmask.joints.chain_search.ChainSearch`
    """

    text: str
    model: MaskedLM
    completions: list[ChainCompletion]
    answers: list[ScoredAnswer]
    readings: list[ReadingSeen]
    mass: float
    bound: float
    certain: int
    passes: int
    stopped: str
    joint: str = "chain"

    def to_dict(self) -> dict[str, object]:
        """What `unmask fill --json` prints."""
        found: dict[str, object] = {
            "text": self.text,
            "joint": self.joint,
            "mass": self.mass,
            "bound": self.bound,
            "certain": self.certain,
            "passes": self.passes,
            "stopped": self.stopped,
            "completions": [completion.to_dict() for completion in self.completions],
        }
        if len(self.readings) > 1:
            found["lengths"] = [vars(reading) | {"lengths": list(reading.lengths)} for reading in self.readings]
        if self.answers:
            found["answers"] = [answer.to_dict() for answer in self.answers]
        return found

    def __repr__(self) -> str:
        best = self.completions[0]
        return f"ChainFilling({best.text!r}, {exp(best.log_prob):.1%}, {len(self.completions)} completions)"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{exp(c.log_prob):.2%}</td><td>{escape(c.text)}</td></tr>" for c in self.completions)
        return f"<p>{escape(self.text)}<br>{escape(self.summary)}</p><table>{rows}</table>"

    @property
    def summary(self) -> str:
        """One line: what was found, and what is certain."""
        estimated = any(c.standard_error for c in self.completions)
        sure = "sampled orders: every probability has an error" if estimated else f"the first {self.certain} are certain"
        return (
            f"chain rule over all orders, whole vocabulary; found {self.mass:.1%} of all mass in {self.passes:,} passes, "
            f"no other filling above {self.bound:.2%}; {sure}"
        )


def fill_chain(
    text: str,
    model: MaskedLM,
    top: int = 10,
    positions: Sequence[int] | None = None,
    pieces: int = 3,
    lengths: str = "uniform",
    answers: Sequence[str] = (),
    constraints: Constraints | None = None,
    alphabet: Sequence[int] | None = None,
    passes: int = PASSES,
    mass: float | None = None,
    progress: Progress | None = None,
) -> ChainFilling:
    """The best fillings of a text's blanks; see `unmask.answers.filling.fill` for the options."""
    one_of("lengths", lengths, LENGTHS)
    top, passes = whole("top", top, 1, 10**6), whole("passes", passes, 1, MOST_PASSES)
    if mass is not None:
        mass = real("mass", mass, 0, 1, above=True)
    if isinstance(answers, str):
        raise InputError(f"answers {answers!r} is one string: give a list of answers")
    blanks, readings = _read(model, text, positions, pieces)
    support = regular_tokens(model) if alphabet is None else torch.tensor(list(alphabet))
    conditionals = Conditionals(model, support)
    clozes = [reading.cloze for reading in readings]
    weights = length_weights(conditionals, clozes) if lengths == "fit" else [1 / len(readings)] * len(readings)
    given = [read_answer(model, blanks, answer) for answer in answers]
    filled = FilledBlanks(model, blanks, readings, constraints or Constraints())
    number = {reading.lengths: n for n, reading in enumerate(readings)}
    inside = [(number[answer.lengths], *answer.tokens) for answer in given if answer.lengths in number]
    found = search_fillings(
        conditionals,
        [Variant(r.cloze, weight, filled.allowed(r)) for r, weight in zip(readings, weights, strict=True)],
        top=top,
        passes=passes,
        mass=mass,
        wanted=inside,
        accept=filled.accept,
        also=filled.other_spellings,
        progress=progress,
    )
    if not found.fillings:
        raise InputError(
            f"no filling within the constraints was found in {found.passes:,} passes: loosen them, or give more passes"
        )
    spelled = _Spelled(filled, found)
    shown = [group for group in spelled.groups if filled.accept(group[0].variant, group[0].tokens)][:top]
    completions = [spelled.completion(group) for group in shown]
    scored = []
    for answer in given:
        if answer.lengths in number:
            scored.append(spelled.answer(answer, (number[answer.lengths], *answer.tokens)))
        else:
            scored.append(_wider(conditionals, model, text, answer, sum(weights) / len(weights)))
    return ChainFilling(
        text,
        model,
        completions,
        with_odds(scored) if scored else [],
        [
            ReadingSeen(r.lengths, w, fsum(exp(f.log_prob) for f in found.fillings if f.variant == n))
            for n, (r, w) in enumerate(zip(readings, weights, strict=True))
        ],
        found.mass,
        found.bound,
        sum(found.is_certain(group[0]) for group in shown),
        conditionals.passes,
        found.stopped,
    )


def _read(model: MaskedLM, text: str, positions: Sequence[int] | None, pieces: int) -> tuple[list[Blank], list[Reading]]:
    if positions is None:
        blanks = read_blanks(model.words, text, pieces)
        return blanks, readings_of(model.words, text, blanks, model.max_length)
    cloze = model.cloze(text, positions)
    first = min(cloze.block) <= 1
    blanks = [Blank("token", 1, 1, first and p == min(cloze.block), True) for p in cloze.block]
    return blanks, [Reading(cloze, (1,) * len(cloze.block))]


class _Spelled:
    """What was found, with the spellings of one word together.

    `groups`: the highest sum first; in each, the tokenizer's own spelling first where it was found.
    """

    def __init__(self, filled: FilledBlanks, found: ChainSearch) -> None:
        self.filled, self.found = filled, found
        by_key: dict[tuple[object, ...], list[Found]] = {}
        for f in found.fillings:
            by_key.setdefault(self._key((f.variant, *f.tokens)), []).append(f)
        for group in by_key.values():
            if len(group) > 1:
                group.sort(key=lambda f: not filled.accept(f.variant, f.tokens))
        self.by_key = by_key
        self.groups = sorted(by_key.values(), key=lambda group: -_log_sum(group))

    def completion(self, group: Sequence[Found]) -> ChainCompletion:
        first, filled = group[0], self.filled
        reading = filled.readings[first.variant]
        plain = complete(filled.model, reading.cloze, first.tokens, _log_sum(group), first.product_log_prob)
        parts = tuple(filled.spelled(b, ids) for b, ids in enumerate(reading.parts(first.tokens)))
        by_length: dict[tuple[int, ...], list[Found]] = {}
        for f in group:
            by_length.setdefault(filled.readings[f.variant].lengths, []).append(f)
        lengths = {n: _log_sum(same) for n, same in sorted(by_length.items())} if len(filled.readings) > 1 else None
        return ChainCompletion(**vars(plain), parts=parts, standard_error=first.standard_error, lengths=lengths)

    def answer(self, answer: GivenAnswer, state: State) -> ScoredAnswer:
        """An answer that is a filling of the text as written."""
        mine = self.by_key[self._key(state)]
        log_prob, cloze = _log_sum(mine), self.filled.readings[state[0]].cloze
        others = [_log_sum(group) for group in self.groups if group is not mine]
        rank = rank_bounds(log_prob, others, self.found.bound, self.found.exact)
        shown = complete(self.filled.model, cloze, answer.tokens, log_prob, log_prob)
        return ScoredAnswer(answer.answer, shown.tokens, shown.text, log_prob, mine[0].standard_error, rank)

    def _key(self, state: State) -> tuple[object, ...]:
        """What the spellings of one filling have in common."""
        parts = self.filled.readings[state[0]].parts(state[1:])
        kinds = [blank.kind for blank in self.filled.blanks]
        return tuple(self.filled.spelled(b, ids) if kinds[b] == "word" else ids for b, ids in enumerate(parts))


def _wider(conditionals: Conditionals, model: MaskedLM, text: str, answer: GivenAnswer, weight: float) -> ScoredAnswer:
    """An answer with more tokens than the blanks: with as many masks as it has tokens."""
    cloze = reading_with(model.words, text, answer.lengths).cloze
    if len(cloze.block) != len(answer.tokens):
        raise InputError(f"the answer {answer.answer!r} is {len(answer.tokens)} tokens: with positions give one token per blank")
    ids, sites = torch.tensor([cloze.filled(answer.tokens)]), torch.tensor([cloze.block])
    log_prob, error = log_mean_over_orders(conditionals, ids, sites)
    total = log_prob + log(weight)
    shown = complete(model, cloze, answer.tokens, total, total)
    return ScoredAnswer(answer.answer, shown.tokens, shown.text, total, error, None)


def _log_sum(group: Sequence[Found]) -> float:
    largest = max(f.log_prob for f in group)
    return largest if largest == float("-inf") else largest + log(fsum(exp(f.log_prob - largest) for f in group))
