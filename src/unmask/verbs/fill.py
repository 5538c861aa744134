"""`fill`: the most probable fillings of a text's blanks, by an explicit joint of the blanks.

What decides the law, and nothing else does:

1. The text, its blanks, and the alphabet if one is given.
2. Over a table of candidates: the construction, and the candidates. The joint is conditional on
   the blanks lying among them. Their default number follows the model, the length of the text and
   the device. Neither answers nor the tokens that stood in the blanks join them.
3. By a search over the whole vocabulary: the chain rule averaged over all orders. From nine blanks
   on a sample of orders is summed, which follows the blanks and `max_passes`.

Without `construction`, `candidates` and `search` the text decides: [WORD], [GAP] and three blanks
or more are searched, one or two blanks have a table.

Then `given` conditions the joint on words in some blanks. Last come the filters `answers`, `allow`,
`forbid` and `top`: the fillings that they leave keep their probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import exp, inf
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple, cast

from annotated_types import Interval

from unmask.common.border.calls import checked, settings
from unmask.common.border.marks import Only, Written
from unmask.common.errors import InputError, argument_name
from unmask.common.formats import (
    count_at_most,
    in_form,
    percent,
    percent_at_least,
    percent_at_most,
)
from unmask.common.result_tables import Column, Filled, Table
from unmask.common.results import Result
from unmask.joints.constructions.construction import Construction, Rule
from unmask.models.load import Model
from unmask.runs.progress import Enough, Progress
from unmask.verbs import Alphabet, Candidates, Force, Positions, Texts, Top, one_or_many

if TYPE_CHECKING:
    import pandas

    from unmask.common.cloze import Cloze
    from unmask.common.counting import Places
    from unmask.joints.filling_search.found import ScoredFilling
    from unmask.joints.filling_search.text_search import FoundInText, TextSearch
    from unmask.joints.joint import Joint
    from unmask.joints.kept_fillings import KeptFillings
    from unmask.models.masked_lm import MaskedLM
    from unmask.models.text.answers import ReadAnswer
    from unmask.models.text.blanks import TextReading
    from unmask.models.text.constraints import Constraints, NamedWords
    from unmask.models.text.filled_text import FilledText
    from unmask.tables import candidates as candidate_sets
    from unmask.tables.unary import Tables
    from unmask.verbs.blanked_texts import BlankedText

ABOUT_GOLD = "* what stood in the blanks"
MANY = 3  # Texts with so many blanks are searched, if no option asks for a table
FIRST_LOOK = 48  # Candidates of each blank in the first look at a text
PASSES = 1000  # Of a search: a few seconds of the bundled model on a CPU
WHY_FEWER = {
    "passes": "give more passes",
    "memory": "memory is used up",
    "mass": "they hold the mass asked for",
}
"""Why a search lists fewer fillings than `top`, by why it stopped."""

MostPasses = Annotated[int, Interval(ge=1, le=10**7)]
Share = Annotated[float, Interval(gt=0, le=1)]


@settings
class Search:
    """A search over the whole vocabulary, in place of a table of candidates.

    Parameters:
        max_passes: The most passes of the search [default: 1,000].
        mass: Search until this much probability is found, such as 0.5.

    >>> filling = unmask.fill("The [MASK] [MASK] here.", search=unmask.Search(mass=0.1), top=1)
    >>> filling.construction, filling.search.stopped
    ('chain', 'mass')
    """

    max_passes: MostPasses | None = None
    mass: Share | None = None


# ---- the result ----


@dataclass(frozen=True)
class Completion(Result):
    """One filling of the blanks.

    tokens, ids        one for each blank, and the same as numbers
    text, spans        the whole text, filled, and where the tokens are in it: start and end, in
                       characters
    log_prob           log-probability under the joint, in nats; over a table given that every
                       blank lies among its candidates
    product_log_prob   the same under the product of independent blanks
    is_gold            whether these are the tokens that stood in the blanks
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
    """A given answer, and its probability among all fillings.

    log_prob, odds   None if a token of it is not among the candidates; the odds are its
                     probability over that of the most probable answer
    rank             the lowest and the highest place that it can have among all fillings that
                     the filters leave, over a table those of the table; None where orders are
                     sampled, or it is not among the candidates
    """

    answer: str
    tokens: tuple[str, ...]
    text: str
    log_prob: float | None
    standard_error: float
    rank: tuple[int, int] | None
    odds: float | None = None


@dataclass(frozen=True)
class FoundBySearch(Result):
    """What a search over the whole vocabulary found. Rounding is allowed for
    (`unmask.tables.rounding`).

    mass      all fillings found, of which the completions are the best, have this much
              probability at least
    bound     no filling that was not found has more
    certain   how many completions are certain to be the best, in this order
    passes    forward passes
    stopped   why it ended; see `unmask.joints.filling_search.found.ChainSearch`
    exact     no order was left out; if some were, mass is an estimate, and so are the
              completions' probabilities

    >>> filling = unmask.fill("A [WORD] sat.")
    >>> filling.search.passes > 0 and filling.search.mass > filling.search.bound
    True
    """

    mass: float
    bound: float
    certain: int
    passes: int
    stopped: str
    exact: bool


@dataclass(frozen=True, repr=False)
class Filling(Result):
    """The most probable completions of a text under an explicit joint of its blanks.

    text, model   the text with its blanks; the model
    construction  the name of the rule that makes the joint
    top           how many completions there are at most, without the gold one
    completions   the most probable fillings, best first; after them the gold one, where it is
                  known and not among them
    answers       the fillings named in `answers`, the most probable first
    given         the words that the probabilities are conditional on, by blank
    notes         sentences about what is not among the candidates
    alphabet      only some of the regular tokens could fill a blank
    table         over candidates: the joint of the blanks, and that of independent blanks over
                  the same tables; None by a search
    search        what a search found; None over candidates
    cloze         over candidates: the text as token ids, and where its blanks are

    >>> filling = unmask.fill("The [MASK] [MASK] at the casino.", candidates=32)
    >>> filling.joint.shape, len(filling.completions), filling.search
    ((32, 32), 10, None)
    >>> filling = unmask.fill("A [MASK] of [MASK] and [MASK].", top=1)
    >>> filling.completions[0].parts, filling.search.certain
    (('group', 'men', 'women'), 1)
    """

    KEYS: ClassVar[tuple[str, ...]] = (
        "text",
        "construction",
        "given",
        "candidates_mass",
        "warning",
        "search",
        "completions",
        "answers",
        "notes",
    )
    OPTIONAL: ClassVar[tuple[str, ...]] = (
        "given",
        "candidates_mass",
        "warning",
        "search",
        "answers",
        "notes",
    )

    text: str
    model: MaskedLM
    construction: str
    top: int
    completions: Sequence[Completion]
    answers: Sequence[ScoredAnswer] = ()
    given: Mapping[int, str] | None = None
    notes: Sequence[str] = ()
    alphabet: bool = False
    table: tuple[Joint, Joint] | None = None
    search: FoundBySearch | None = None
    cloze: Cloze | None = None

    @property
    def joint(self) -> Joint:
        """The joint over the candidates of the blanks, without the condition `given`."""
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
        if self.table is None:
            return None
        return exp(self.joint.tables.log_mass)

    @property
    def warning(self) -> str | None:
        """A sentence if the joint's construction did not converge."""
        from unmask.joints.joint import not_converged

        if self.table is None:
            return None
        return not_converged([self.joint]) or None

    @property
    def heading(self) -> str:
        """The text with its blanks."""
        return self.text

    def about(self) -> list[str]:
        """The joint, how much its candidates hold or what a search found, and what is certain."""
        if self.search is not None:
            return [self._about_search(self.search)]
        return [self._about_table()]

    def _about_table(self) -> str:
        from unmask.verbs.blanked_texts import mass_in_words, sizes_in_words

        kind = f"{self.construction} joint of {self.joint.sites} blanks"
        if self.joint.sites == 1:
            kind = "distribution of 1 blank"
        if self.given:
            words = [f"{word!r} at blank {number}" for number, word in self.given.items()]
            kind += f", given {' and '.join(words)}"
        tables = self.joint.tables
        return f"{kind}; {sizes_in_words(tables.shape)} {mass_in_words(tables)}"

    def _about_search(self, search: FoundBySearch) -> str:
        shown = len(self.completions)
        support = "the alphabet" if self.alphabet else "the whole vocabulary"
        held = "at least" if search.exact else "about"
        if search.bound > 0:
            others = f"no other has more than {percent_at_most(search.bound)}"
        else:
            others = "there is no other"
        if not search.exact:
            sure = "orders are sampled: every probability has an error"
        elif search.certain >= shown:
            sure = "the order shown is certain"
        elif search.certain > 0:
            sure = f"the first {search.certain} of {shown} are certain"
        else:
            sure = "no place is certain"
        effort = f"{search.passes:,} passes"
        if search.stopped == "asked":
            effort += "; stopped"
        sentence = (
            f"chain rule over all orders and {support}; fillings found hold {held}"
            f" {percent_at_least(search.mass)} of all mass; {others}; {sure} ({effort})"
        )
        lists_fewer = search.bound > 0 and shown < self.top
        if lists_fewer and search.stopped in WHY_FEWER:
            why = WHY_FEWER[search.stopped]
            sentence += f"; {shown:,} were found of the {self.top:,} asked for: {why}"
        return sentence

    def tables(self) -> list[Table]:
        """The completions, and the answers that were given."""
        from unmask.verbs.blanked_texts import GOLD_MARK

        columns = [Column("probability", percent), Column("nats", in_form(".2f"))]
        has_product = self.table is not None and self.joint.sites > 1
        has_error = self.search is not None and not self.search.exact
        if has_product:
            columns.append(Column("product", percent))
        elif has_error:
            columns.append(Column("error", in_form(".2f")))
        columns.append(Column("completion", text=True))
        rows: list[list[object]] = []
        for one in self.completions:
            row: list[object] = [one.log_prob, one.log_prob]
            if has_product:
                row.append(one.product_log_prob)
            elif has_error:
                row.append(one.standard_error)
            mark = GOLD_MARK if one.is_gold else ""
            rows.append([*row, Filled(one.text, one.spans, mark)])
        has_gold = any(one.is_gold for one in self.completions)
        notes = [ABOUT_GOLD] if has_gold else []
        tables = [Table(columns, rows, notes=notes)]
        if self.answers:
            tables.append(self._table_of_answers())
        return tables

    def _table_of_answers(self) -> Table:
        columns = [
            Column("probability", percent),
            Column("nats", in_form(".2f")),
            Column("rank", _rank_in_words),
            Column("odds", _odds_in_words),
            Column("answer", text=True),
        ]
        rows = [
            [answer.log_prob, answer.log_prob, answer.rank, answer.odds, answer.answer]
            for answer in self.answers
        ]
        return Table(columns, rows)

    def verdict(self) -> list[str]:
        """What is not among the candidates, and whether the joint is approximate."""
        sentences = list(self.notes)
        if self.warning is not None:
            sentences.append(self.warning)
        return sentences

    def to_frame(self) -> pandas.DataFrame:
        """One row per completion: text, one column per blank, log_prob, of a search
        standard_error, product_log_prob, gold.
        """
        from unmask.common.lazy import pandas

        rows = []
        for one in self.completions:
            row: dict[str, object] = {"text": one.text}
            for number, part in enumerate(one.parts or one.tokens, 1):
                row[f"blank_{number}"] = part
            row["log_prob"] = one.log_prob
            if self.search is not None:
                row["standard_error"] = one.standard_error
            row["product_log_prob"] = one.product_log_prob
            row["gold"] = one.is_gold
            rows.append(row)
        return pandas.DataFrame(rows)

    def __repr__(self) -> str:
        if not self.completions:
            return f"Filling({self.text!r}, no completion under {self.construction})"
        best = self.completions[0]
        return (
            f"Filling({best.text!r}, {exp(best.log_prob):.1%} under {self.construction},"
            f" {len(self.completions)} completions)"
        )


def _rank_in_words(rank: tuple[int, int]) -> str:
    """The place of an answer: 4, or 4 to 7."""
    places = sorted(set(rank))
    return " to ".join(map(count_at_most, places))


def _odds_in_words(odds: float) -> str:
    """The odds of an answer against the most probable one: 1 : 230, or 0."""
    return f"1 : {1 / odds:.3g}" if odds else "0"


# ---- the call ----


@one_or_many
@checked
def fill(
    text: Texts,
    model: Model = None,
    *,
    construction: Rule | None = None,
    candidates: Candidates = None,
    search: Annotated[
        Search | None, Only(without=("construction", "candidates", "given", "force"))
    ] = None,
    alphabet: Alphabet = None,
    positions: Positions = None,
    given: Annotated[Mapping[int, str] | None, Written("BLANK=WORD")] = None,
    answers: Sequence[str | Sequence[str]] | None = None,
    allow: Annotated[Mapping[int, Sequence[str]] | None, Written("BLANK=WORDS")] = None,
    forbid: Sequence[str] | None = None,
    top: Top = 10,
    force: Force = False,
    progress: Progress | None = None,
    partial: Callable[[Filling], None] | None = None,
) -> Iterator[Filling]:
    """Fill the blanks of a text by their joint probability, beside what independent blanks
    would give.

    One text gives one answer; a list of texts, or a file of them (in Python a Path), whose
    passes run together, gives a list. Special tokens are outside the support of a filled text.

    With one or two blanks the joint is a table over candidates. Three blanks or more, [WORD] and
    [GAP:2-5] are searched over the whole vocabulary, and the answer says how much of the mass was
    seen and what is certain. A construction or candidates ask for a table, options of the search
    for a search.

    Parameters:
        text: Text with [MASK] at each blank, [WORD] for a whole word, [WORD:1-5] for one of up to
            five tokens, or [GAP:2-5] for any two to five tokens.
        construction: How the joint of a table is derived: the name of a construction (see
            `unmask.CONSTRUCTIONS`), family:ALPHA,LAMBDA, or a rule of your own, my_rules.py:Mine;
            in Python also an object such as unmask.HCB(pivot=...), or a function from tables to
            a joint [default: restarted].
        search: Search over the whole vocabulary.
        given: A word that stands in a blank, such as 1=guitar: probabilities are those of the
            other blanks, given this word. Needs a table.
        answers: Fillings to score beside the best, each with its rank and odds; several blanks
            have a word each, or parts with " / " between them.
        allow: The only words of a blank that are listed, such as 2=red,green.
        forbid: Words that are listed in no blank, whatever their case.
        partial: Called with a first look at each text whose table is larger, unless a number of
            candidates is given: the answer over 48 candidates of each blank.

    Returns:
        A `Filling`; of a list of texts, or of a file, a list of them.

    >>> filling = unmask.fill("She drank a cup of [MASK].", top=2)
    >>> [completion.text for completion in filling.completions]
    ['She drank a cup of tea.', 'She drank a cup of coffee.']
    """
    from unmask.common.texts import for_each
    from unmask.models.first_look import look_at_first
    from unmask.models.load import as_model
    from unmask.models.text.alphabet import letter_ids
    from unmask.models.text.constraints import NamedWords

    lm = as_model(model)
    question = _Question(
        model=lm,
        construction=cast("Construction | None", construction),
        candidates=candidates,
        search=search,
        letters=letter_ids(lm, alphabet),
        positions=positions,
        words=NamedWords(allow=allow or {}, forbid=forbid or (), given=given or {}),
        answers=answers or (),
        top=top,
        force=force,
    )
    texts = for_each(text, question.read)
    question.refuse_without_effect(texts)
    look_at_first(lm, (one.cloze.ids for one in texts))
    yield from _answered(question, texts, progress, partial)


@dataclass(frozen=True)
class _ReadText:
    """A text that was read, before any pass of the model.

    readings   with every number of tokens that its blanks may have
    gold       the tokens that stood in the blanks, where they are known and pass the constraints
    blanked    over a table: how its candidates are found; None if it is searched
    searched   the search of its fillings; None over a table
    """

    text: str
    readings: list[TextReading]
    constraints: Constraints
    answers: list[ReadAnswer]
    gold: tuple[int, ...] | None
    blanked: BlankedText | None = None
    searched: TextSearch | None = None

    @property
    def cloze(self) -> Cloze:
        """The text with the fewest masks that can be filled."""
        if self.searched is not None:
            return self.searched.readings[0].cloze
        return self.readings[0].cloze


class _Question(NamedTuple):
    """The arguments of `fill`, which all texts share; letters are ids of the alphabet's tokens."""

    model: MaskedLM
    construction: Construction | None
    candidates: candidate_sets.Candidates
    search: Search | None
    letters: Sequence[int] | None
    positions: Places | None
    words: NamedWords
    answers: Sequence[str | Sequence[str]]
    top: int
    force: bool

    @property
    def max_passes(self) -> int:
        """The most passes of a search."""
        if self.search is None or self.search.max_passes is None:
            return PASSES
        return self.search.max_passes

    @property
    def mass(self) -> float | None:
        """The probability that a search is to find; None if it has no such aim."""
        if self.search is None:
            return None
        return self.search.mass

    def read(self, text: str) -> _ReadText:
        """Read a text; every bad request raises here, before any pass."""
        import torch

        from unmask.joints.filling_search.text_search import TextSearch
        from unmask.models.text.answers import read_answer
        from unmask.models.text.blanks import blanks_and_readings, has_several_lengths
        from unmask.models.text.constraints import Constraints
        from unmask.tables.conditionals import regular_tokens
        from unmask.verbs.blanked_texts import refuse_all_of_alphabet

        model = self.model
        blanks, readings = blanks_and_readings(
            model.words, text, positions=self.positions, max_length=model.max_length
        )
        is_searched = self._is_searched(has_several_lengths(text), len(blanks))
        support = regular_tokens(model)
        if self.letters is not None:
            support = torch.tensor(self.letters, device=model.device)
        constraints = Constraints(model, blanks, self.words)
        answers = [read_answer(model.words, blanks, readings, answer) for answer in self.answers]
        for answer in answers:
            constraints.refuse_impossible(answer, support)
        gold = readings[0].cloze.gold
        if gold is not None and not constraints.allows_tokens(gold, support):
            gold = None
        read = _ReadText(
            text=text, readings=readings, constraints=constraints, answers=answers, gold=gold
        )
        if is_searched:
            searched = TextSearch.of(model, readings, constraints, support)
            self._refuse_mass_of_sampled_orders(searched)
            return replace(read, searched=searched)
        constraints.fillable(readings, support)
        if self.construction is not None or len(blanks) < MANY:  # without `all` a table, too
            refuse_all_of_alphabet(self.candidates, self.letters, len(blanks))
        return replace(read, blanked=self.read_blanked(text, readings[0]))

    def read_blanked(self, text: str, reading: TextReading) -> BlankedText:
        """How the candidates of a text are found. Gold tokens are none for their own sake."""
        from unmask.common.cloze import cloze_of_ids
        from unmask.verbs.blanked_texts import BlankedText

        cloze = cloze_of_ids(reading.cloze.ids, reading.cloze.block)
        return BlankedText.of(
            self.model, text, cloze, self.candidates, letters=self.letters, force=self.force
        )

    def _is_searched(self, has_lengths: bool, blanks: int) -> bool:
        """Whether the fillings of a text are searched, or its joint is a table; raises if it
        would need both.

        has_lengths   it has [WORD] or [GAP]
        blanks        how many it has
        """
        from unmask.joints.registry import SEARCHED

        given_for_table = {
            "construction": self.construction is not None,
            "candidates": self.candidates is not None,
            "given": bool(self.words.given),
        }
        if has_lengths:
            for name, is_given in given_for_table.items():
                if is_given:
                    raise InputError(
                        "is not used with [WORD] or [GAP], whose fillings are searched over the"
                        f" whole vocabulary by {SEARCHED}",
                        argument=name,
                        use="leave one of the two out",
                    )
            return True
        if self.search is not None:
            return True
        if self.construction is not None or self.candidates is not None:
            return False
        if blanks < MANY:
            return False
        if self.words.given:
            raise InputError(
                f"needs a table, and {blanks} blanks are searched",
                argument="given",
                use=f"give {argument_name('candidates')} or {argument_name('construction')}, too",
            )
        return True

    def _refuse_mass_of_sampled_orders(self, searched: TextSearch) -> None:
        """Raise if the search is to find a mass, and can only estimate it."""
        from unmask.joints.chain_search import samples_orders

        if self.mass is not None and samples_orders(searched.most_sites, self.max_passes):
            raise InputError(
                f"cannot be found: {searched.most_sites} tokens in blanks have so many orders that"
                " they are sampled",
                argument="mass",
                use="leave it out, or give more passes",
            )

    def refuse_without_effect(self, texts: Sequence[_ReadText]) -> None:
        """Raise for an option of tables that would do nothing in any of the texts: a single blank
        has the model's own conditional, whatever the construction.
        """
        given = {
            "construction": self.construction is not None,
            "candidates": self.candidates == "all",
            "force": self.force,
        }
        tabled = [one for one in texts if one.blanked is not None]
        if any(len(one.cloze.block) > 1 for one in tabled):
            return
        if tabled:
            why = "does nothing with a single blank, which has the model's own conditional"
        else:
            why = "is about tables, and these fillings are searched"
        for name, is_given in given.items():
            if is_given:
                raise InputError(why, argument=name, use="leave it out")


# ---- from texts to answers ----


def _answered(
    question: _Question,
    texts: Sequence[_ReadText],
    progress: Progress | None,
    partial: Callable[[Filling], None] | None,
) -> Iterator[Filling]:
    """The answers to the texts, in order. Neighbours that have tables share their passes."""
    from unmask.verbs.blanked_texts import with_tables

    before = 0

    def of_all(done: int, total: int, what: str = "") -> None:
        """Count the texts of a group among all texts."""
        if progress:
            progress(before + done, len(texts), what)

    def is_searched(one: _ReadText) -> bool:
        return one.searched is not None

    of_one_kind = len({is_searched(one) for one in texts}) == 1
    for searched, group in groupby(texts, is_searched):
        members = list(group)
        if searched and len(texts) == 1:
            yield _searched(question, members[0], progress)
        elif searched:
            for number, one in enumerate(members, 1):
                yield _searched(question, one, None)
                of_all(number, len(members), "texts")
        else:
            report: Progress | None = of_all
            if of_one_kind or progress is None:
                report = progress
            if partial is not None:
                _give_first_looks(question, members, partial)
            blanked = [one.blanked for one in members if one.blanked is not None]
            all_tables = with_tables(question.model, blanked, report, of_one_kind)
            for one, (_, tables) in zip(members, all_tables, strict=True):
                yield _from_table(question, one, tables)
        before += len(members)


def _give_first_looks(
    question: _Question, texts: Sequence[_ReadText], partial: Callable[[Filling], None]
) -> None:
    """Call `partial` with the answer over a few candidates, of each text whose user gave no number
    of them (or asked for all) and whose table is larger.
    """
    from unmask.verbs.blanked_texts import with_tables

    if question.candidates not in (None, "all"):
        return
    quick = question._replace(candidates=FIRST_LOOK)
    for one in texts:
        if one.blanked is None or len(one.cloze.block) == 1 or one.blanked.plan.size <= FIRST_LOOK:
            continue
        looked_at = quick.read_blanked(one.text, one.readings[0])
        ((_, tables),) = with_tables(question.model, [looked_at], None)
        partial(_from_table(question, one, tables))


def _from_table(question: _Question, one: _ReadText, tables: Tables) -> Filling:
    """The answer over a table: the joint of all candidates, then its condition, then filters."""
    from unmask.joints.deriving import derived
    from unmask.joints.kept_fillings import KeptFillings, log_mass_of
    from unmask.joints.registry import DEFAULT, INDEPENDENT, named
    from unmask.verbs.blanked_texts import kept_candidates

    rule = question.construction or named(DEFAULT)
    joint = derived(tables, rule)
    product = derived(tables, named(INDEPENDENT))
    condition = one.constraints.given_ids
    log_given = log_mass_of(joint, condition)
    log_product_given = log_mass_of(product, condition)
    cloze = one.readings[0].cloze
    answer = Filling(
        text=one.text,
        model=question.model,
        construction=rule.name,
        top=question.top,
        completions=(),
        given=dict(question.words.given) or None,
        alphabet=question.letters is not None,
        table=(joint, product),
        cloze=cloze,
    )
    if log_given is None or log_given == -inf:
        return replace(answer, notes=[_about_given(question, joint)])
    masks = one.constraints.allowed(one.readings[0])
    listed = _TableFillings(
        model=question.model,
        cloze=cloze,
        kept=KeptFillings(joint, kept_candidates(masks, tables.candidates)),
        product=product,
        log_given=log_given,
        log_product_given=log_product_given or 0.0,  # None only where log_given is
    )
    completions = listed.completions(question.top, one.gold)
    answers = _with_odds([listed.scored(one_answer) for one_answer in one.answers])
    notes: list[str] = []
    if len(listed.kept) == 0:
        notes.append(f"no filling that is allowed is among the candidates: {_more(question)}")
    missing = [repr(scored.answer) for scored in answers if scored.log_prob is None]
    if missing:
        be = "is" if len(missing) == 1 else "are"
        notes.append(f"{', '.join(missing)} {be} not among the candidates: {_more(question)}")
    if one.gold is not None and not any(completion.is_gold for completion in completions):
        notes.append(f"what stood in the blanks is not among the candidates: {_more(question)}")
    return replace(answer, completions=completions, answers=answers, notes=notes)


def _more(question: _Question) -> str:
    """How what is not among the candidates can be included."""
    if question.construction is not None or question.words.given:
        return "give more candidates"
    return "give more candidates, or search the whole vocabulary (max_passes)"


def _about_given(question: _Question, joint: Joint) -> str:
    """Why no probability is conditional on the given words."""
    for number, word in question.words.given.items():
        spelled = {
            joint.tables.spelled(number - 1, token)
            for token in joint.tables.candidates[number - 1].tolist()
        }
        if word.strip() not in {token.strip() for token in spelled}:
            return f"{word!r} is not among the candidates of blank {number}: give more candidates"
    return f"the given words have probability 0 in {joint.name}: give others"


@dataclass(frozen=True)
class _TableFillings:
    """Fillings of a table, and their probabilities given a condition.

    kept                 the fillings that pass the filters and the condition
    product              the joint of independent blanks
    log_given            log of the joint's probability of the condition
    log_product_given    the same of the product
    """

    model: MaskedLM
    cloze: Cloze
    kept: KeptFillings
    product: Joint
    log_given: float
    log_product_given: float

    def completions(self, top: int, gold: tuple[int, ...] | None) -> list[Completion]:
        """The `top` most probable fillings, and the gold one after them if it is kept."""
        ids, log_probs = self.kept.most_probable(top)
        rows = [tuple(row) for row in ids.tolist()]
        of_rows = log_probs.tolist()
        if gold is not None and gold not in rows:
            of_gold = self.kept.log_prob(gold)
            if of_gold is not None:
                rows.append(gold)
                of_rows.append(of_gold)
        if not rows:
            return []
        of_product = self.product.log_prob(rows).tolist()
        completions: list[Completion] = []
        for row, log_prob, product_log_prob in zip(rows, of_rows, of_product, strict=True):
            filled = self._filled(row)
            completions.append(
                Completion(
                    tokens=filled.tokens,
                    text=filled.text,
                    log_prob=log_prob - self.log_given,
                    product_log_prob=product_log_prob - self.log_product_given,
                    spans=filled.spans,
                    is_gold=row == gold,
                    ids=row,
                )
            )
        return completions

    def scored(self, answer: ReadAnswer) -> ScoredAnswer:
        """An answer with its probability and its place in the table."""
        filled = self._filled(answer.tokens)
        place = self.kept.place_of(answer.tokens)
        log_prob = None
        rank = None
        if place is not None:
            log_prob = place.log_prob - self.log_given
            rank = (place.first, place.last)
        return ScoredAnswer(
            answer=answer.answer,
            tokens=filled.tokens,
            text=filled.text,
            log_prob=log_prob,
            standard_error=0.0,
            rank=rank,
        )

    def _filled(self, tokens: Sequence[int]) -> FilledText:
        from unmask.models.text.filled_text import filled_text

        return filled_text(self.model.words, self.cloze, tokens)


def _searched(question: _Question, one: _ReadText, progress: Progress | None) -> Filling:
    """The answer by a search of the text's fillings."""
    from unmask.joints.registry import SEARCHED

    search = one.searched
    assert search is not None  # the caller's choice
    model = question.model
    states = [search.state(answer.parts) for answer in one.answers]
    states_of_gold = []  # one, or none
    if one.gold is not None:
        states_of_gold.append(search.state([(token,) for token in one.gold]))
    found = search.run(
        top=question.top,
        passes=question.max_passes,
        mass=question.mass,
        wanted=[*states, *states_of_gold],
        progress=progress,
    )
    result = found.search
    by_state = {(filling.variant, *filling.tokens): filling for filling in result.fillings}
    of_gold = None
    for state in states_of_gold:
        of_gold = by_state.get(state)
    shown = [
        filling for filling in result.fillings if filling.log_prob > -inf or filling is of_gold
    ]
    if not shown and result.stopped == "asked":
        raise Enough
    if not shown:
        raise _nothing_found(question.words, result.passes)
    best = shown[: question.top]
    listed = list(best)
    if of_gold is not None and of_gold not in best:
        listed.append(of_gold)
    scored: list[ScoredAnswer] = []
    for answer, state in zip(one.answers, states, strict=True):
        if state in by_state:  # not if the model gave up before
            scored.append(_scored_by_search(search, found, answer, by_state[state]))
    return Filling(
        text=one.text,
        model=model,
        construction=SEARCHED,
        top=question.top,
        completions=[
            _completion_by_search(search, filling, is_gold=filling is of_gold) for filling in listed
        ],
        answers=_with_odds(scored),
        alphabet=len(search.support) < len(model.regular_ids),
        search=FoundBySearch(
            mass=result.mass,
            bound=result.bound,
            certain=min(result.certain_among(shown), len(best)),
            passes=found.passes,
            stopped=result.stopped,
            exact=result.exact,
        ),
    )


def _completion_by_search(search: TextSearch, filling: ScoredFilling, is_gold: bool) -> Completion:
    from unmask.models.text.filled_text import filled_text

    reading = search.readings[filling.variant]
    filled = filled_text(search.model.words, reading.cloze, filling.tokens)
    parts = enumerate(search.parts(filling))
    return Completion(
        tokens=filled.tokens,
        text=filled.text,
        log_prob=filling.log_prob,
        product_log_prob=filling.product_log_prob,
        spans=filled.spans,
        is_gold=is_gold,
        ids=filling.tokens,
        parts=tuple(search.constraints.spelled(b, ids) for b, ids in parts),
        standard_error=filling.standard_error,
    )


def _scored_by_search(
    search: TextSearch, found: FoundInText, answer: ReadAnswer, filling: ScoredFilling
) -> ScoredAnswer:
    """An answer with its probability, and with its rank if no order was left out."""
    from unmask.joints.filling_search.ranks import rank_bounds
    from unmask.models.text.filled_text import filled_text

    reading = search.readings[filling.variant]
    filled = filled_text(search.model.words, reading.cloze, filling.tokens)
    rank = None
    if found.search.exact:
        rank = rank_bounds(filling, found.search, found.fillings)
    return ScoredAnswer(
        answer=answer.answer,
        tokens=filled.tokens,
        text=filled.text,
        log_prob=filling.log_prob,
        standard_error=filling.standard_error,
        rank=rank,
    )


def _with_odds(answers: Sequence[ScoredAnswer]) -> list[ScoredAnswer]:
    """The answers, the most probable first, with their odds against it; those without a
    probability last.
    """
    known = [(answer, answer.log_prob) for answer in answers if answer.log_prob is not None]
    known.sort(key=lambda pair: -pair[1])
    with_odds: list[ScoredAnswer] = []
    for answer, log_prob in known:
        highest = known[0][1]
        odds = 1.0 if log_prob == highest else exp(log_prob - highest)  # also if both are -inf
        with_odds.append(replace(answer, odds=odds))
    return with_odds + [answer for answer in answers if answer.log_prob is None]


def _nothing_found(words: NamedWords, passes: int) -> InputError:
    """The error of a search without a filling; it names only the constraints that were given."""
    more = f"give more {argument_name('max_passes')}"
    given = [name for name in ("allow", "forbid") if getattr(words, name)]
    if not given:
        return InputError(f"no filling was found in {passes:,} passes", use=more)
    names = " and ".join(argument_name(name) for name in given)
    return InputError(
        f"no filling within the constraints was found in {passes:,} passes",
        use=f"loosen {names}, or {more}",
    )
