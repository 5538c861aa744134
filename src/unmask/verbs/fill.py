"""`fill`: the most probable fillings of a text's blanks, by an explicit joint of the blanks.

The probability of a filling depends on this, and on nothing else:

1. The text, its blanks, and the alphabet if one is given.
2. Over a table of candidates: the construction, and the candidates. The joint is conditional on
   the blanks lying among them. Their default number follows the model, the length of the text and
   the device. Answers and the tokens that stood in the blanks do not become candidates.
3. By a search over the whole vocabulary: the chain rule averaged over all orders. From nine blanks
   on a sample of orders is summed, which follows the blanks and `max_passes`.

Without `construction`, `candidates` and `search` the text decides: [WORD], [GAP] and three blanks
or more are searched, one or two blanks have a table.

Then `given` conditions the joint on words in some blanks. Last come the filters `answers`, `allow`,
`forbid` and `top`: the fillings that they leave keep their probabilities.

`unmask.verbs.fill_request` reads the texts, `filling_from_table` and `filling_by_search` answer
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import exp
from typing import TYPE_CHECKING, Annotated, ClassVar, cast

from annotated_types import Interval

from unmask.common.border.calls import checked, settings
from unmask.common.border.marks import Only, Written
from unmask.common.errors import InputError
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
from unmask.runs.progress import Progress
from unmask.verbs import Alphabet, Candidates, Force, Positions, Texts, Top, one_or_many

if TYPE_CHECKING:
    import pandas

    from unmask.common.cloze import Cloze
    from unmask.joints.joint import Joint
    from unmask.models.masked_lm import MaskedLM
    from unmask.verbs.fill_request import FillRequest, ReadText, TabledText

LEGEND_OF_GOLD = "* what stood in the blanks"
PARTIAL_CANDIDATES = 48  # Of each blank, in the answer that `partial` gets
USUAL_PASSES = 1000  # The most of a search: a few seconds of the bundled model on a CPU
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
    parts              of a search: what each blank is filled with, as text; empty over a table
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
    """The result of a search over the whole vocabulary.

    `mass` and `certain` hold whatever was rounded in the passes (`unmask.tables.rounding`).

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
    request       over candidates: the arguments of the call, without the text

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
    request: FillRequest | None = None

    @property
    def joint(self) -> Joint:
        """The joint over the candidates of the blanks, without the condition `given`."""
        return self._joint_and_product[0]

    @property
    def product(self) -> Joint:
        """The joint that takes the blanks as independent, over the same tables."""
        return self._joint_and_product[1]

    @property
    def _joint_and_product(self) -> tuple[Joint, Joint]:
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

        law = f"{self.construction} joint of {self.joint.sites} blanks"
        if self.joint.sites == 1:
            law = "distribution of 1 blank"
        if self.given:
            words = [f"{word!r} at blank {number}" for number, word in self.given.items()]
            law += f", given {' and '.join(words)}"
        tables = self.joint.tables
        return f"{law}; {sizes_in_words(tables.shape)} {mass_in_words(tables)}"

    def _about_search(self, search: FoundBySearch) -> str:
        shown = len(self.completions)
        support = "the alphabet" if self.alphabet else "the whole vocabulary"
        at_least = "at least" if search.exact else "about"
        mass = percent_at_least(search.mass)
        parts = [
            f"chain rule over all orders and {support}",
            f"fillings found hold {at_least} {mass} of all mass",
            _others_in_words(search),
            f"{_certainty_in_words(search, shown)} ({_effort_in_words(search)})",
        ]
        has_others = search.bound > 0
        if has_others and shown < self.top and search.stopped in WHY_FEWER:
            why = WHY_FEWER[search.stopped]
            parts.append(f"{shown:,} were found of the {self.top:,} asked for: {why}")
        return "; ".join(parts)

    def tables(self) -> list[Table]:
        """The completions, and the answers that were given."""
        from unmask.verbs.blanked_texts import GOLD_MARK

        shows_product = self.table is not None and self.joint.sites > 1
        shows_error = self.search is not None and not self.search.exact
        columns = [
            Column("probability", percent, stored=exp),
            Column("nats", in_form(".2f")),
        ]
        if shows_product:
            columns.append(Column("product", percent, stored=exp))
        if shows_error:
            columns.append(Column("error", in_form(".2f")))
        columns.append(Column("completion", text=True))
        rows: list[list[object]] = []
        for one in self.completions:
            row: list[object] = [one.log_prob, one.log_prob]
            if shows_product:
                row.append(one.product_log_prob)
            if shows_error:
                row.append(one.standard_error)
            mark = GOLD_MARK if one.is_gold else ""
            row.append(Filled(one.text, one.spans, mark))
            rows.append(row)
        shows_gold = any(one.is_gold for one in self.completions)
        notes = [LEGEND_OF_GOLD] if shows_gold else []
        tables = [Table(columns, rows, notes=notes)]
        if self.answers:
            tables.append(self._table_of_answers())
        return tables

    def _table_of_answers(self) -> Table:
        columns = [
            Column("probability", percent, stored=exp),
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
            parts = one.parts or one.tokens  # over a table each blank has one token
            for number, part in enumerate(parts, 1):
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


def _others_in_words(search: FoundBySearch) -> str:
    """How probable the fillings are that the search did not find."""
    if search.bound > 0:
        return f"no other has more than {percent_at_most(search.bound)}"
    return "there is no other"


def _certainty_in_words(search: FoundBySearch, shown: int) -> str:
    """How many of the completions shown are certain to be the best."""
    if not search.exact:
        return "orders are sampled: every probability has an error"
    if search.certain >= shown:
        return "the order shown is certain"
    if search.certain > 0:
        return f"the first {search.certain} of {shown} are certain"
    return "no place is certain"


def _effort_in_words(search: FoundBySearch) -> str:
    """The passes of a search, and whether its user stopped it."""
    passes = f"{search.passes:,} passes"
    return f"{passes}; stopped" if search.stopped == "asked" else passes


def _rank_in_words(rank: tuple[int, int]) -> str:
    """The place of an answer: 4, or 4 to 7."""
    lowest, highest = rank
    if lowest == highest:
        return count_at_most(lowest)
    return f"{count_at_most(lowest)} to {count_at_most(highest)}"


def _odds_in_words(odds: float) -> str:
    """The odds of an answer against the most probable one: 1 : 230, or 0."""
    return f"1 : {1 / odds:.3g}" if odds else "0"


def with_odds(answers: Sequence[ScoredAnswer]) -> list[ScoredAnswer]:
    """The answers with their odds, the most probable first; those without a probability last."""
    known = [(answer.log_prob, answer) for answer in answers if answer.log_prob is not None]
    unknown = [answer for answer in answers if answer.log_prob is None]
    known.sort(key=lambda pair: pair[0], reverse=True)  # those of one probability keep their order
    answered: list[ScoredAnswer] = []
    for log_prob, answer in known:
        highest, _ = known[0]
        odds = 1.0
        if log_prob != highest:  # if both are -inf, their difference is NaN
            odds = exp(log_prob - highest)
        answered.append(replace(answer, odds=odds))
    return answered + unknown


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
    from unmask.verbs.fill_request import FillRequest

    lm = as_model(model)
    max_passes = USUAL_PASSES
    mass = None
    if search is not None:
        mass = search.mass
        if search.max_passes is not None:
            max_passes = search.max_passes
    request = FillRequest(
        model=lm,
        construction=cast("Construction | None", construction),  # which `checked` has made of it
        candidates=candidates,
        has_search=search is not None,
        max_passes=max_passes,
        mass=mass,
        letters=letter_ids(lm, alphabet),
        positions=positions,
        words=NamedWords(allow=allow or {}, forbid=forbid or (), given=given or {}),
        answers=answers or (),
        top=top,
        force=force,
    )
    texts = for_each(text, request.read)
    request.refuse_without_effect(texts)
    look_at_first(lm, (one.cloze.ids for one in texts))
    yield from _answered(request, texts, progress, partial)


# ---- from texts to answers ----


def _answered(
    request: FillRequest,
    texts: Sequence[ReadText],
    progress: Progress | None,
    partial: Callable[[Filling], None] | None,
) -> Iterator[Filling]:
    """The answers to the texts, in order. Neighbours that have tables share their passes.

    Progress counts passes where all texts have tables, or the only one is searched; otherwise it
    counts texts.
    """
    from unmask.verbs.blanked_texts import with_tables
    from unmask.verbs.fill_request import SearchedText, TabledText
    from unmask.verbs.filling_by_search import filling_by_search
    from unmask.verbs.filling_from_table import filling_from_table

    earlier = 0  # texts before these neighbours

    def count(done: int, total: int, what: str = "") -> None:
        """Report how many of all texts are done, given how many of these neighbours are."""
        if progress:
            progress(earlier + done, len(texts), what)

    all_have_tables = all(isinstance(one, TabledText) for one in texts)
    for _, same_kind in groupby(texts, type):
        neighbours = list(same_kind)
        # All neighbours are searched, or all have tables: one of these lists is empty.
        searched = [one for one in neighbours if isinstance(one, SearchedText)]
        tabled = [one for one in neighbours if isinstance(one, TabledText)]
        for number, text in enumerate(searched, 1):
            if len(texts) == 1:
                yield filling_by_search(request, text, progress)
            else:
                yield filling_by_search(request, text, None)
                count(number, len(searched), "texts")
        if partial is not None:
            _give_partial_answers(request, tabled, partial)
        report: Progress | None = count
        if all_have_tables:
            report = progress
        blanked = [text.blanked for text in tabled]
        all_tables = with_tables(request.model, blanked, report, all_texts=all_have_tables)
        for text_with_table, (_, tables) in zip(tabled, all_tables, strict=True):
            yield filling_from_table(request, text_with_table, tables)
        earlier += len(neighbours)


def _give_partial_answers(
    request: FillRequest, texts: Sequence[TabledText], partial: Callable[[Filling], None]
) -> None:
    """Call `partial` with the answer over PARTIAL_CANDIDATES candidates, of each text whose table
    is larger; of none if the user gave the candidates, unless as "all".
    """
    from unmask.verbs.blanked_texts import with_tables
    from unmask.verbs.filling_from_table import filling_from_table

    gave_candidates = request.candidates is not None and request.candidates != "all"
    if gave_candidates:
        return
    for text in texts:
        is_single = len(text.cloze.block) == 1
        if is_single or text.blanked.plan.size <= PARTIAL_CANDIDATES:
            continue
        blanked = request.with_candidates(text, PARTIAL_CANDIDATES)
        ((_, tables),) = with_tables(request.model, [blanked], None)
        partial(filling_from_table(request, text, tables))
