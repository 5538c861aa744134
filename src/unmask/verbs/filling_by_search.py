"""A `Filling` by a search of a text's fillings over the whole vocabulary."""

from __future__ import annotations

from math import inf

from unmask.common.errors import InputError, argument_name
from unmask.joints.filling_search.found import ScoredFilling
from unmask.joints.filling_search.ranks import rank_bounds
from unmask.joints.filling_search.text_search import FoundInText, TextSearch
from unmask.joints.registry import SEARCHED
from unmask.models.text.answers import ReadAnswer
from unmask.models.text.constraints import NamedWords
from unmask.models.text.filled_text import FilledText, filled_text
from unmask.runs.progress import Enough, Progress
from unmask.tables.exploration import State
from unmask.verbs.fill import Completion, Filling, FoundBySearch, ScoredAnswer, with_odds
from unmask.verbs.fill_request import FillRequest, SearchedText


def filling_by_search(
    request: FillRequest, text: SearchedText, progress: Progress | None
) -> Filling:
    """The answer to a text, by a search of its fillings."""
    search = text.search
    states_of_answers = [search.state(answer.parts) for answer in text.answers]
    wanted = list(states_of_answers)
    state_of_gold: State | None = None
    if text.gold is not None:
        state_of_gold = search.state([(token,) for token in text.gold])
        wanted.append(state_of_gold)
    found = search.run(
        top=request.top,
        passes=request.max_passes,
        mass=request.mass,
        wanted=wanted,
        progress=progress,
    )
    result = found.search
    by_state = {(filling.variant, *filling.tokens): filling for filling in result.fillings}
    gold = None
    if state_of_gold is not None:
        gold = by_state.get(state_of_gold)
    # A filling without probability is listed only if it stood in the blanks.
    possible = [
        filling for filling in result.fillings if filling.log_prob > -inf or filling is gold
    ]
    if not possible and result.stopped == "asked":
        raise Enough  # as the model did: there is nothing yet to show
    if not possible:
        raise _nothing_found(request.words, result.passes)
    best = possible[: request.top]
    listed = list(best)
    if gold is not None and gold not in best:
        listed.append(gold)
    answers: list[ScoredAnswer] = []
    for answer, state in zip(text.answers, states_of_answers, strict=True):
        if state in by_state:  # not if the model gave up before
            answers.append(_scored(search, found, answer, by_state[state]))
    return Filling(
        text=text.text,
        model=request.model,
        construction=SEARCHED,
        top=request.top,
        completions=[_completion(search, filling, is_gold=filling is gold) for filling in listed],
        answers=with_odds(answers),
        alphabet=len(search.support) < len(request.model.regular_ids),
        search=FoundBySearch(
            mass=result.mass,
            bound=result.bound,
            certain=min(result.certain_among(possible), len(best)),
            passes=found.passes,
            stopped=result.stopped,
            exact=result.exact,
        ),
    )


def _completion(search: TextSearch, filling: ScoredFilling, is_gold: bool) -> Completion:
    filled = _filled(search, filling)
    ids_of_blanks = search.parts(filling)
    parts = [search.constraints.spelled(blank, ids) for blank, ids in enumerate(ids_of_blanks)]
    return Completion(
        tokens=filled.tokens,
        text=filled.text,
        log_prob=filling.log_prob,
        product_log_prob=filling.product_log_prob,
        spans=filled.spans,
        is_gold=is_gold,
        ids=filling.tokens,
        parts=tuple(parts),
        standard_error=filling.standard_error,
    )


def _scored(
    search: TextSearch, found: FoundInText, answer: ReadAnswer, filling: ScoredFilling
) -> ScoredAnswer:
    """An answer with its probability, and with its rank if no order was left out."""
    filled = _filled(search, filling)
    rank = None
    if found.search.exact:
        rank = rank_bounds(filling, found.search, found.most_fillings)
    return ScoredAnswer(
        answer=answer.answer,
        tokens=filled.tokens,
        text=filled.text,
        log_prob=filling.log_prob,
        standard_error=filling.standard_error,
        rank=rank,
    )


def _filled(search: TextSearch, filling: ScoredFilling) -> FilledText:
    reading = search.readings[filling.variant]
    return filled_text(search.model.words, reading.cloze, filling.tokens)


def _nothing_found(words: NamedWords, passes: int) -> InputError:
    """The error of a search without a filling; it names only the constraints that were given."""
    more = f"give more {argument_name('max_passes')}"
    given: list[str] = []
    if words.allow:
        given.append(argument_name("allow"))
    if words.forbid:
        given.append(argument_name("forbid"))
    if not given:
        return InputError(f"no filling was found in {passes:,} passes", use=more)
    return InputError(
        f"no filling within the constraints was found in {passes:,} passes",
        use=f"loosen {' and '.join(given)}, or {more}",
    )
