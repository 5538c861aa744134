"""`fill`: from a text with blanks to its most probable completions, under a joint over
candidates or by a search.

The search is by the chain rule over all orders: many blanks, whole words and gaps, over the
whole vocabulary. A text with [WORD] or [GAP:2-5] is read with every number of tokens that its
blanks may have (`unmask.models.text.blanks`). With n readings, the probability of a filling x
of reading r is p_r(x) / n, where p_r is the chain rule averaged over orders in the text with
that many masks, over all regular tokens.

Words are spelled as the tokenizer spells them. Token sequences that are not whole words, or
other spellings of one, keep their share of the probability: the sum over words is below 1.

An answer that a user names is read in tokens: one part per blank, split as the tokenizer does,
never cut.

    one blank                 the answer as a whole, slashes included
    k blanks                  k words with spaces between them, or k parts with " / " or "/"
                              between them
    k blanks side by side     also words without a slash that make k tokens together

The number of parts decides: "and/or tea" has two parts as words, and two parts at its slash, so
it raises for two blanks. With spaces around it a slash always separates: "and/or / tea". In
Python an answer may be a list of its parts.

Constraints are allowed and forbidden words (`Constraints`). They only leave fillings out: those
that remain keep their probability over the whole vocabulary. A named answer that they leave out
is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import exp, floor, prod

import torch
from jaxtyping import Bool
from torch import Tensor

from unmask.common.cloze import Cloze
from unmask.common.errors import InputError, argument_name
from unmask.common.texts import for_each
from unmask.joints.chain_search import search_fillings
from unmask.joints.constructions.construction import Construction
from unmask.joints.deriving import derived
from unmask.joints.filling_search.found import ChainSearch, ScoredFilling
from unmask.joints.registry import DEFAULT, INDEPENDENT, SEARCHED, named
from unmask.models.first_look import look_at_first
from unmask.models.load import Model, as_model
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.blanks import (
    Blank,
    TextReading,
    cloze_of,
    has_several_lengths,
    read_blanks,
    readings_of,
)
from unmask.models.text.word_marks import WordMarks
from unmask.runs.progress import Enough, Progress
from unmask.tables.conditionals import Conditionals
from unmask.tables.exploration import Variant
from unmask.tables.rounding import Rounding
from unmask.verbs.answers.blanked_text import (
    BlankedText,
    Completion,
    Filling,
    Grid,
    ScoredAnswer,
    allowed_tokens,
    complete,
    with_tables,
)
from unmask.verbs.answers.search import Search

MANY = 3
"""Fillings of this many blanks or more are searched, unless candidates or another construction
are asked for.
"""
PASSES = 1000
"""Passes of a default answer: a few seconds of the bundled model on a CPU."""


def fillings(
    texts: Sequence[str],
    model: Model,
    construction: Construction | None,
    grid: Grid,
    search: Search,
    top: int,
    progress: Progress | None,
) -> Iterator[Filling]:
    """The answers of `fill`, one by one; everything is checked before the first."""
    name = None
    if construction is not None:
        name = construction.name
    lm = as_model(model)

    def read(text: str) -> BlankedText | SearchedText:
        cloze = None
        if not has_several_lengths(text):
            cloze = cloze_of(
                lm.words,
                text,
                positions=grid.positions,
                targets=grid.targets,
                max_length=lm.max_length,
            )
        if is_searched(cloze, name, grid, search):
            return SearchedText.read(lm, text, cloze, grid, search, top)
        assert cloze is not None
        return BlankedText.read(lm, text, cloze, grid)

    everything = for_each(texts, read)
    look_at_first(lm, (text.cloze.ids for text in everything))
    alone = len(everything) == 1
    of_one_kind = len({isinstance(text, SearchedText) for text in everything}) == 1
    before = 0

    def of_all(done: int, total: int, what: str = "") -> None:
        """Count the texts of a group among all texts."""
        if progress:
            progress(before + done, len(everything), what)

    for searched, group in groupby(everything, lambda text: isinstance(text, SearchedText)):
        members = list(group)
        if searched:
            for number, one in enumerate(members, 1):
                assert isinstance(one, SearchedText)
                yield one.answer(progress if alone else None)
                if not alone:
                    of_all(number, len(members), "texts")
        else:
            rule = construction or named(DEFAULT)
            read_texts = [text for text in members if isinstance(text, BlankedText)]
            report: Progress | None = of_all
            if of_one_kind or progress is None:
                report = progress
            for text, tables in with_tables(lm, read_texts, report, of_one_kind):
                joints = derived(tables, rule), derived(tables, named(INDEPENDENT))
                yield Filling(text.text, lm, rule.name, top, text.cloze, joints)
        before += len(members)


def is_searched(cloze: Cloze | None, construction: str | None, grid: Grid, search: Search) -> bool:
    """Whether a text with these blanks (None: with [WORD] or [GAP]) is answered by searching
    its fillings.

    Raises if it would need both a search and a grid of candidates.
    """
    asks_for_search = {
        "answers": bool(search.answers),
        "allow": bool(search.allow),
        "forbid": bool(search.forbid),
        "passes": search.passes is not None,
        "mass": search.mass is not None,
    }
    asks_for_table = {
        "exact": grid.exact,
        "candidates": grid.candidates is not None,
        "construction": construction not in (None, SEARCHED),
    }
    searching = [argument_name(name) for name, is_given in asks_for_search.items() if is_given]
    if cloze is None:
        searching.insert(0, "[WORD] or [GAP]")
    tabling = [name for name, is_given in asks_for_table.items() if is_given]
    if searching and tabling:
        raise InputError(
            f"is not used with {searching[0]}, whose fillings are searched over the whole"
            f" vocabulary by {SEARCHED}",
            argument=tabling[0],
            use="leave one of the two out",
        )
    many = cloze is not None and len(cloze.block) >= MANY
    return bool(searching) or (not tabling and many)


@dataclass(frozen=True)
class SearchedText:
    """A text that was read, before its fillings are searched.

    readings   those with a token that passes the constraints at every site
    weight     of each reading: 1 over the number of all, those without a filling included
    """

    model: MaskedLM
    text: str
    search: Search
    top: int
    readings: list[TextReading]
    weight: float
    answers: list[ReadAnswer]
    constraints: Constraints
    support: Tensor

    @classmethod
    def read(
        cls, model: MaskedLM, text: str, cloze: Cloze | None, grid: Grid, search: Search, top: int
    ) -> SearchedText:
        """Read a text with the blanks `cloze` (None: with [WORD] or [GAP]); every bad request
        raises here, before any pass.
        """
        blanks, readings = _readings(model, text, cloze, grid, search.pieces)
        support = allowed_tokens(model, grid.alphabet)
        answers = [read_answer(model, blanks, readings, answer) for answer in search.answers or ()]
        gold, alphabet = readings[0].cloze.gold or (), set(support.tolist())
        fillings = [
            *((f"answer {answer.answer!r}", answer.parts) for answer in answers),
            ("target", tuple((i,) for i in gold)),
        ]
        for name, parts in fillings:
            for i in [i for part in parts for i in part if i not in alphabet]:
                token = model.words.token(i)
                raise InputError(
                    f"the {name} has {token!r}, which is not in the alphabet: add it, or choose"
                    " another"
                )
        constraints = Constraints(model, blanks, search)
        unfillable = [constraints.unfillable(reading, support) for reading in readings]
        for name, parts in fillings if grid.targets is not None else fillings[:-1]:
            if why := constraints.broken(parts):
                raise InputError(f"the {name} {why}: leave it out, or loosen the constraints")
        possible = [
            reading for reading, where in zip(readings, unfillable, strict=True) if not where
        ]
        if not possible:
            raise _no_filling(unfillable, len(support) < len(model.regular_ids))
        return cls(
            model=model,
            text=text,
            search=search,
            top=top,
            readings=possible,
            weight=1 / len(readings),
            answers=answers,
            constraints=constraints,
            support=support,
        )

    @property
    def cloze(self) -> Cloze:
        """The text with the fewest masks that can be filled."""
        return self.readings[0].cloze

    def answer(self, progress: Progress | None = None) -> Filling:
        """Search its fillings."""
        search, readings, constraints = self.search, self.readings, self.constraints
        conditionals = Conditionals(self.model, self.support)
        number = {reading.lengths: n for n, reading in enumerate(readings)}
        answers = [(answer, (number[answer.lengths], *answer.tokens)) for answer in self.answers]
        gold = self.cloze.gold
        gold = None if gold and constraints.broken([(i,) for i in gold]) else gold
        variants = [
            Variant(reading.cloze, self.weight, constraints.allowed(reading))
            for reading in readings
        ]

        def accept(variant: int, tokens: tuple[int, ...]) -> bool:
            return constraints.accept(readings[variant], tokens)

        result = search_fillings(
            conditionals,
            variants,
            top=self.top,
            passes=search.passes or PASSES,
            mass=search.mass,
            wanted=[*(state for _, state in answers), *([(0, *gold)] if gold else [])],
            accept=accept,
            rounding=Rounding.of(self.model.dtype),
            progress=progress,
        )
        shown = [
            filling
            for filling in result.fillings
            if filling.log_prob > float("-inf") or filling.tokens == gold
        ]
        if not shown and result.stopped == "asked":
            raise Enough
        if not shown:
            raise _nothing_found(search, result.passes)
        best = shown[: self.top]
        gold_after = [filling for filling in shown[self.top :] if gold and filling.tokens == gold]
        size = sum(_size(variant, len(self.support)) for variant in variants)
        by_state = {(filling.variant, *filling.tokens): filling for filling in result.fillings}
        scored = [
            self._scored(answer, by_state[state], result, size)
            for answer, state in answers
            if state in by_state
        ]
        scored.sort(key=lambda answer: -answer.log_prob)
        most = scored[0].log_prob if scored else 0.0
        return Filling(
            text=self.text,
            model=self.model,
            construction=SEARCHED,
            top=self.top,
            best=[self._completion(filling) for filling in [*best, *gold_after]],
            answers=[
                replace(a, odds=1.0 if a.log_prob == most else exp(a.log_prob - most))
                for a in scored
            ],
            mass=result.mass,
            bound=result.bound,
            certain=min(result.certain_among(shown), len(best)),
            passes=conditionals.passes,
            stopped=result.stopped,
            exact=result.exact,
            alphabet=len(self.support) < len(self.model.regular_ids),
        )

    def _completion(self, filling: ScoredFilling) -> Completion:
        reading = self.readings[filling.variant]
        plain = complete(
            self.model, reading.cloze, filling.tokens, filling.log_prob, filling.product_log_prob
        )
        parts = tuple(
            self.constraints.spelled(b, ids) for b, ids in enumerate(reading.parts(filling.tokens))
        )
        return replace(plain, parts=parts, standard_error=filling.standard_error)

    def _scored(
        self, answer: ReadAnswer, filling: ScoredFilling, result: ChainSearch, size: int
    ) -> ScoredAnswer:
        """An answer with its probability, and with its rank among all `size` fillings if no
        order was left out.
        """
        log_prob, cloze = filling.log_prob, self.readings[filling.variant].cloze
        shown = complete(self.model, cloze, answer.tokens, log_prob, log_prob)
        rank = rank_bounds(filling, result, size) if result.exact else None
        return ScoredAnswer(
            answer.answer, shown.tokens, shown.text, log_prob, filling.standard_error, rank
        )


def _nothing_found(search: Search, passes: int) -> InputError:
    """The error of a search without a filling; it names only the constraints that were given."""
    given = [name for name in ("allow", "forbid") if getattr(search, name) is not None]
    more = f"give more {argument_name('passes')}"
    if not given:
        return InputError(f"no filling was found in {passes:,} passes", use=more)
    names = " and ".join(argument_name(name) for name in given)
    return InputError(
        f"no filling within the constraints was found in {passes:,} passes",
        use=f"loosen {names}, or {more}",
    )


def _readings(
    model: MaskedLM, text: str, cloze: Cloze | None, grid: Grid, pieces: int
) -> tuple[list[Blank], list[TextReading]]:
    """The blanks of a text and its readings: one if it has [MASK] only, positions, or targets,
    which widen a blank.
    """
    chosen = grid.positions is not None or grid.targets is not None
    if chosen and cloze is None:
        given = "positions" if grid.positions is not None else "targets"
        raise InputError(
            "go with [MASK] only",
            argument=given,
            use=f"name what may stand in [WORD] or [GAP] as {argument_name('answers')}",
        )
    if chosen and cloze is not None:
        first = len(model.words.around()[0])
        blanks = [Blank("token", 1, 1, p == first, p != first) for p in cloze.block]
    else:
        blanks = read_blanks(model.words, text, pieces)
    if cloze is None:
        return blanks, readings_of(model.words, text, blanks, model.max_length)
    return blanks, [TextReading(cloze, (1,) * len(cloze.block))]


def _no_filling(unfillable: Sequence[set[int]], of_alphabet: bool) -> InputError:
    """The error for a text of which no reading can be filled.

    unfillable    of each reading, the blanks with a site at which no token passes
    of_alphabet   whether the tokens are those of an alphabet
    """
    in_every_reading = set.intersection(*unfillable)
    if not in_every_reading:  # the readings that could be filled are too long for the model
        return InputError(
            "no filling within the constraints is as short as the model takes: loosen them, or"
            " shorten the text"
        )
    tokens = "alphabet" if of_alphabet else "model"
    blank = min(in_every_reading) + 1
    return InputError(
        f"no token of the {tokens} passes the constraints at blank {blank}: loosen them"
    )


def _size(variant: Variant, support: int) -> int:
    """An upper bound of the number of fillings of a variant."""
    masks = variant.allowed or (None,) * variant.sites
    return prod(support if mask is None else min(support, int(mask.sum())) for mask in masks)


@dataclass(frozen=True)
class ReadAnswer:
    """An answer as the user wrote it, and the tokens of each blank."""

    answer: str
    parts: tuple[tuple[int, ...], ...]

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(len(part) for part in self.parts)

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(i for part in self.parts for i in part)


def read_answer(
    model: MaskedLM,
    blanks: Sequence[Blank],
    readings: Sequence[TextReading],
    answer: str | Sequence[str],
) -> ReadAnswer:
    """The tokens of an answer, blank by blank."""
    shown = answer if isinstance(answer, str) else " / ".join(answer)
    if not "".join(answer).strip():
        raise InputError(f"the answer {answer!r} is empty: give what fills the blanks")
    parts = _parts(model, blanks, readings, answer)
    for b, (blank, ids) in enumerate(zip(blanks, parts, strict=True)):
        if not blank.least <= len(ids) <= blank.most:
            what = {
                "token": "use [WORD] or [GAP]",
                "word": f"give more {argument_name('pieces')}",
                "gap": "widen the gap",
            }[blank.kind]
            tokens = model.words.tokens(ids)
            raise InputError(
                f"the answer {shown!r} has {len(ids)} tokens {tokens} at blank {b + 1}, "
                f"which takes {blank.least} to {blank.most}: {what}"
            )
    in_tokens = ReadAnswer(shown, tuple(tuple(ids) for ids in parts))
    if in_tokens.lengths not in {reading.lengths for reading in readings}:
        raise InputError(
            f"with the answer {shown!r} the text is longer than the model takes: shorten the text"
        )
    return in_tokens


def _parts(
    model: MaskedLM,
    blanks: Sequence[Blank],
    readings: Sequence[TextReading],
    answer: str | Sequence[str],
) -> list[list[int]]:
    """The tokens of each part of an answer, one part per blank."""

    def encoded(word: str, blank: Blank) -> list[int]:
        return model.words.encode_word(word, blank.at_start, blank.after_space)

    written = written_parts(answer, len(blanks))
    if written is not None:
        for blank, part in zip(blanks, written, strict=True):
            if blank.kind == "word" and len(part.split()) > 1:
                raise InputError(
                    f"{part!r} of the answer {answer!r} is {len(part.split())} words, and [WORD]"
                    " takes one: put commas between answers, or use [GAP:2-5]"
                )
        return [encoded(part, blank) for blank, part in zip(blanks, written, strict=True)]
    if isinstance(answer, str) and "/" not in answer and _side_by_side(blanks, readings):
        words = answer.split()
        together = [
            i
            for n, word in enumerate(words)
            for i in encoded(word, blanks[min(n, len(blanks) - 1)])
        ]
        if len(together) == len(blanks):
            return [[i] for i in together]
    at_slashes = answer.split("/") if isinstance(answer, str) else answer
    if not all(part.strip() for part in at_slashes):
        raise InputError(f"the answer {answer!r} has an empty part: give what fills each blank")
    parts = max(
        len(way) for way in (_ways_to_part(answer) if isinstance(answer, str) else [answer])
    )
    has = (
        f"the answer {answer!r} has {parts} part{'s' * (parts != 1)} for {len(blanks)}"
        f" blank{'s' * (len(blanks) != 1)}"
    )
    raise InputError(f"{has}: give one word per blank, or parts with ' / ' between them")


def written_parts(answer: str | Sequence[str], blanks: int) -> list[str] | None:
    """The parts of an answer, one per blank, as they are written; None if their number is not
    that of the blanks.

    Raises if the answer has this many parts in two ways.
    """
    if not isinstance(answer, str):
        parts = [part.strip() for part in answer]
        return parts if len(parts) == blanks and all(parts) else None
    if blanks == 1:
        return [answer]
    ways = [parts for parts in _ways_to_part(answer) if len(parts) == blanks and all(parts)]
    if not ways:
        return None
    if any(way != ways[0] for way in ways):
        at_slashes, at_spaces = (" / ".join(way) for way in ways)
        raise InputError(
            f"the answer {answer!r} has {blanks} parts at its slashes and {blanks} at its spaces: "
            f"write {at_slashes!r} or {at_spaces!r}"
        )
    return ways[0]


def _ways_to_part(answer: str) -> list[list[str]]:
    """The ways to read an answer as parts: at every slash; at slashes between spaces, or, if
    there are none, at spaces.
    """
    at_slashes = [part.strip() for part in answer.split("/")]
    at_spaced_slashes = re.split(r"\s+/\s+", answer.strip())
    if len(at_spaced_slashes) > 1:
        return [at_slashes, at_spaced_slashes]
    return [at_slashes, answer.split()]


def _side_by_side(blanks: Sequence[Blank], readings: Sequence[TextReading]) -> bool:
    """Whether all blanks are single tokens, and nothing stands between them."""
    if any(blank.kind != "token" for blank in blanks):
        return False
    block = readings[0].cloze.block
    return list(block) == list(range(block[0], block[0] + len(block)))


def rank_bounds(filling: ScoredFilling, result: ChainSearch, fillings: int) -> tuple[int, int]:
    """The lowest and the highest place of a filling that the search found, among all `fillings`.

    The fillings that it did not find share a mass of 1 - mass, and each has at most `bound`.
    Those of them that rank above this one have at least its probability p each, so there are at
    most (1 - mass) / p of them.
    """
    low, high = result.low(filling), min(result.high(filling), 0.0)
    others = [other for other in result.fillings if other is not filling]
    first = 1 + sum(result.low(other) > high for other in others)
    last = 1 + sum(min(result.high(other), 0.0) > low for other in others)
    if exp(low) == 0:
        return first, fillings
    if result.bound > exp(low):
        last += floor(min((1 - result.mass) / exp(low), fillings))
    return first, min(last, fillings)


class Constraints:
    """Constraints on the blanks of a text: what their tokens spell, which tokens they may take,
    which fillings pass.
    """

    def __init__(
        self,
        model: MaskedLM,
        blanks: Sequence[Blank],
        search: Search,
    ) -> None:
        self.model: MaskedLM = model
        self.blanks: Sequence[Blank] = blanks
        if not all(word.strip() for word in search.forbid or ()):
            raise InputError(
                f"{list(search.forbid or ())} has an empty word",
                argument="forbid",
                use="name the words, or leave it out",
            )
        self.forbidden: set[str] = {word.strip().casefold() for word in search.forbid or ()}
        for number in search.allow or ():
            if not 1 <= number <= len(blanks):
                raise InputError(
                    f"names blank {number}, and the text has {len(blanks)}",
                    argument="allow",
                    use="number them from 1",
                )
        self.allowed_ids: dict[int, set[tuple[int, ...]]] = {
            b - 1: self._allowed_ids(b - 1, words) for b, words in (search.allow or {}).items()
        }

    @cached_property
    def marks(self) -> WordMarks:
        """Raises where the tokenizer does not mark words."""
        return WordMarks(self.model.words, self.model.vocab_size)

    def spelled(self, blank: int, ids: Sequence[int]) -> str:
        """The text that the tokens of a blank spell; "" if those of a [WORD] are not a word."""
        if self.blanks[blank].kind == "word":
            return self.marks.spelled(ids)
        if len(ids) == 1:
            return self.model.words.token(ids[0]).strip()
        return self.model.words.text(ids)

    def allowed(self, reading: TextReading) -> tuple[Bool[Tensor, " V"] | None, ...] | None:
        """For each site of a reading the tokens that its blank may take there; None for all."""
        masks = [
            self._mask(b, length, piece)
            for b, length in enumerate(reading.lengths)
            for piece in range(length)
        ]
        return None if all(mask is None for mask in masks) else tuple(masks)

    def unfillable(self, reading: TextReading, support: Tensor) -> set[int]:
        """The blanks of a reading, counted from 0, with a site at which no token of the support
        passes.
        """
        masks = self.allowed(reading)
        if masks is None:
            return set()
        blank_of_site = [b for b, length in enumerate(reading.lengths) for _ in range(length)]
        on_cpu = support.cpu()  # as the masks are
        return {
            b
            for b, mask in zip(blank_of_site, masks, strict=True)
            if mask is not None and not bool(mask[on_cpu].any())
        }

    def accept(self, reading: TextReading, tokens: Sequence[int]) -> bool:
        """Checks that need the whole filling, not single tokens."""
        parts = reading.parts(tokens)
        return all(
            self.blanks[b].kind == "token" or not self._broken_at(b, ids)
            for b, ids in enumerate(parts)
        )

    def broken(self, parts: Sequence[tuple[int, ...]]) -> str | None:
        """The constraint that a filling with these tokens at its blanks breaks, in words; None
        if it breaks none.
        """
        for b, ids in enumerate(parts):
            if why := self._broken_at(b, ids):
                spelled = self.spelled(b, ids) or " ".join(self.model.words.tokens(ids))
                return f"has {spelled!r} at blank {b + 1}, which {why}"
        return None

    def _broken_at(self, b: int, ids: tuple[int, ...]) -> str:
        """The constraint that the tokens of a blank break, in words; empty if they break none."""
        blank = self.blanks[b]
        if b in self.allowed_ids and ids not in self.allowed_ids[b]:
            return "allow does not name"
        if self.spelled(b, ids).casefold() in self.forbidden:
            return "forbid leaves out"
        if blank.kind == "word" and not self.marks.is_canonical(
            ids, blank.at_start, blank.after_space
        ):
            return "is not a whole word of this tokenizer"
        return ""

    def _mask(self, b: int, length: int, piece: int) -> Bool[Tensor, " V"] | None:
        blank = self.blanks[b]
        mask: Tensor | None = None
        if blank.kind == "word":
            mask = (
                self.marks.continuing
                if piece
                else self.marks.beginning(blank.at_start, blank.after_space)
            )
        if b in self.allowed_ids:
            named = torch.zeros(self.model.vocab_size, dtype=torch.bool)
            named[[ids[piece] for ids in self.allowed_ids[b] if len(ids) == length]] = True
            mask = named if mask is None else mask & named
        if length == 1 and self.forbidden:
            passing = torch.zeros(self.model.vocab_size, dtype=torch.bool)
            passing[
                [
                    i
                    for i in self.model.regular_ids
                    if self.spelled(b, [i]).casefold() not in self.forbidden
                ]
            ] = True
            mask = passing if mask is None else mask & passing
            if blank.most == 1 and not bool(mask.any()):
                raise InputError(
                    f"no token of the model passes the constraints at blank {b + 1}: loosen them"
                )
        return mask

    def _allowed_ids(self, b: int, words: Sequence[str]) -> set[tuple[int, ...]]:
        blank = self.blanks[b]
        if not words:
            raise InputError(
                f"names no word at blank {b + 1}", argument="allow", use="name one or more"
            )
        spelled = {
            tuple(self.model.words.encode_word(word, blank.at_start, blank.after_space))
            for word in words
        }
        for ids in sorted(ids for ids in spelled if not blank.least <= len(ids) <= blank.most):
            tokens = self.model.words.tokens(ids)
            raise InputError(
                f"at blank {b + 1}: {tokens} is {len(ids)} tokens, and the blank takes"
                f" {blank.least} to {blank.most}",
                argument="allow",
                use=f"use [WORD] or [GAP], or more {argument_name('pieces')}",
            )
        return spelled
