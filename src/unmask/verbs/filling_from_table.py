"""A `Filling` over a table: the joint of all candidates, then its condition, then the filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from unmask.common.cloze import Cloze
from unmask.joints.deriving import derived
from unmask.joints.joint import Joint
from unmask.joints.kept_fillings import KeptFillings, log_mass_of
from unmask.joints.registry import DEFAULT, INDEPENDENT, named
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.answers import ReadAnswer
from unmask.models.text.filled_text import FilledText, filled_text
from unmask.tables.unary import Tables
from unmask.verbs.blanked_texts import kept_candidates
from unmask.verbs.fill import Completion, Filling, ScoredAnswer, with_odds
from unmask.verbs.fill_request import FillRequest, TabledText


def filling_from_table(request: FillRequest, text: TabledText, tables: Tables) -> Filling:
    """The answer to a text, from the tables of its blanks."""
    rule = request.construction or named(DEFAULT)
    joint = derived(tables, rule)
    product = derived(tables, named(INDEPENDENT))
    return _filling_of_joint(request, text, joint, product, construction=rule.name)


def filling_given(filling: Filling, words: Mapping[int, str]) -> Filling:
    """The answer to the same request with these words given, by blank, and no others.

    It is the answer of `fill`, without a pass of the model: the joint is the same.
    """
    joint, product = filling.joint, filling.product
    if filling.request is None:
        raise TypeError("this filling was not made by `fill`: it has no request")
    named_words = replace(filling.request.words, given=dict(words))
    request = replace(filling.request, words=named_words)
    text = request.read(filling.text)
    if not isinstance(text, TabledText):
        raise TypeError("the filling has a table, and its text has none")
    return _filling_of_joint(request, text, joint, product, construction=filling.construction)


def _filling_of_joint(
    request: FillRequest, text: TabledText, joint: Joint, product: Joint, construction: str
) -> Filling:
    """The answer under a joint and that of independent blanks, both over the same tables."""
    filling = Filling(
        text=text.text,
        model=request.model,
        construction=construction,
        top=request.top,
        completions=(),
        given=dict(request.words.given) or None,
        alphabet=request.letters is not None,
        table=(joint, product),
        cloze=text.cloze,
        request=request,
    )
    given = text.constraints.given_ids
    log_given = log_mass_of(joint, given)
    log_product_given = log_mass_of(product, given)
    # None where a given word is not a candidate; the candidates of joint and product are the same.
    if log_given is None or log_product_given is None or log_given == -inf:
        return replace(filling, notes=[_why_not_given(request, joint)])
    allowed = text.constraints.allowed(text.reading)
    fillings = _TableFillings(
        model=request.model,
        cloze=text.cloze,
        kept=KeptFillings(joint, kept_candidates(allowed, joint.tables.candidates)),
        product=product,
        log_given=log_given,
        log_product_given=log_product_given,
    )
    completions = fillings.completions(request.top, text.gold)
    answers = with_odds([fillings.scored(answer) for answer in text.answers])
    notes: list[str] = []
    if len(fillings.kept) == 0:
        notes.append(f"no filling that is allowed is among the candidates: {_remedy(request)}")
    missing = [repr(scored.answer) for scored in answers if scored.log_prob is None]
    if missing:
        be = "is" if len(missing) == 1 else "are"
        notes.append(f"{', '.join(missing)} {be} not among the candidates: {_remedy(request)}")
    shows_gold = any(completion.is_gold for completion in completions)
    if text.gold is not None and not shows_gold:
        notes.append(f"what stood in the blanks is not among the candidates: {_remedy(request)}")
    return replace(filling, completions=completions, answers=answers, notes=notes)


def _remedy(request: FillRequest) -> str:
    """How what is not among the candidates can be included."""
    if request.construction is not None or request.words.given:  # a search takes neither
        return "give more candidates"
    return "give more candidates, or search the whole vocabulary (max_passes)"


def _why_not_given(request: FillRequest, joint: Joint) -> str:
    """Why no probability is conditional on the given words."""
    tables = joint.tables
    for number, word in request.words.given.items():
        blank = number - 1
        candidates = tables.candidates[blank].tolist()
        spelled = {tables.spelled(blank, token).strip() for token in candidates}
        if word.strip() not in spelled:
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
        ids, log_probs_of_ids = self.kept.most_probable(top)
        rows = [tuple(row) for row in ids.tolist()]
        log_probs = log_probs_of_ids.tolist()
        if gold is not None and gold not in rows:
            log_prob_of_gold = self.kept.log_prob(gold)
            if log_prob_of_gold is not None:
                rows.append(gold)
                log_probs.append(log_prob_of_gold)
        if not rows:
            return []
        product_log_probs = self.product.log_prob(rows).tolist()
        completions: list[Completion] = []
        for row, log_prob, product_log_prob in zip(rows, log_probs, product_log_probs, strict=True):
            filled = self._filled(row)
            completion = Completion(
                tokens=filled.tokens,
                text=filled.text,
                log_prob=log_prob - self.log_given,
                product_log_prob=product_log_prob - self.log_product_given,
                spans=filled.spans,
                is_gold=row == gold,
                ids=row,
            )
            completions.append(completion)
        return completions

    def scored(self, answer: ReadAnswer) -> ScoredAnswer:
        """An answer with its probability and its place in the table."""
        filled = self._filled(answer.tokens)
        scored = ScoredAnswer(
            answer=answer.answer,
            tokens=filled.tokens,
            text=filled.text,
            log_prob=None,
            standard_error=0.0,
            rank=None,
        )
        place = self.kept.place_of(answer.tokens)
        if place is None:
            return scored
        log_prob = place.log_prob - self.log_given
        return replace(scored, log_prob=log_prob, rank=(place.first, place.last))

    def _filled(self, tokens: Sequence[int]) -> FilledText:
        return filled_text(self.model.words, self.cloze, tokens)
