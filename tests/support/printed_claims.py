"""What `unmask fill` prints, read back, and held against the enumeration of everything that a
small model can write.
"""

import io
import re
from dataclasses import dataclass, field
from math import exp, inf, log
from types import SimpleNamespace
from unittest import mock

from rich.console import Console

import unmask
from support.drawn_models import every_filling
from unmask.joints.filling_search import text_search
from unmask.surfaces.cli.show import print_result
from unmask.verbs import filling_by_search as by_search

NUMBER = r"([0-9][0-9,.]*(?:e[+-]?[0-9]+)?)"
SUMMARY = re.compile(
    r"chain rule over all orders and (the whole vocabulary|the alphabet); fillings found hold at"
    rf" least {NUMBER} % of all mass; "
    rf"(?:no other has more than {NUMBER} %|there is no other); "
    r"(the order shown is certain|the first (\d+) of (\d+) are certain|no place is certain)"
    r" \([0-9,]+ passes\)"
    rf"(?:; {NUMBER} were found of the {NUMBER} asked for: [a-z ]+)?"
)
TIE = 1e-9
"""Two probabilities of the enumeration whose logarithms are this close may be equal."""
SURE_TIE = 2e-13
"""Two whose logarithms are this close are equal, as far as any computation can tell."""


@dataclass
class Printed:
    """The claims of a text answer, as numbers."""

    mass: float
    bound: float
    certain: int
    probabilities: list[tuple[float, float]]
    nats: list[float]
    ranks: list[tuple[int, int] | None] = field(default_factory=list)
    odds: list[float] = field(default_factory=list)


def as_printed(filling) -> str:
    """What the command prints, on a terminal that is wide enough for every line."""
    screen = Console(file=io.StringIO(), width=2000, highlight=False, markup=False, emoji=False)
    print_result(screen, filling)
    return screen.file.getvalue()


def read_back(text: str) -> Printed:
    """The claims in what was printed; fails where a line is not understood."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    (summary,) = [line for line in lines if line.startswith("chain rule")]
    told = SUMMARY.fullmatch(summary)
    assert told, summary
    starts = [n for n, line in enumerate(lines) if line.startswith("probability")]
    sections = [
        lines[start + 2 : stop]
        for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True)
    ]
    rows = [line for line in sections[0] if not line.startswith("*")]
    shown = [re.match(rf"{NUMBER} %\s+(-?[0-9.]+|-inf)\s", line) for line in rows]
    assert all(shown), rows
    sure = len(rows) if told[4].startswith("the order") else int(told[5] or 0)
    printed = Printed(
        _number(told[2]) / 100,
        _number(told[3] or "0") / 100,
        sure,
        [(_number(row[1]) / 100, _unit(row[1]) / 100) for row in shown],
        [float(row[2]) for row in shown],
    )
    assert told[6] is None or int(told[6]) == len(rows)
    if told[7] is not None:
        assert _number(told[7]) == len(rows) < _number(told[8])
    for line in sections[1] if len(sections) > 1 else []:
        row = re.match(
            rf"{NUMBER} %\s+\S+\s+(?:(-)|{NUMBER}(?: to {NUMBER})?)\s+(?:1 : (\S+)|0)\s", line
        )
        if line.startswith("*"):
            continue
        assert row, line
        printed.ranks.append(
            None if row[2] else (int(_number(row[3])), int(_number(row[4] or row[3])))
        )
        printed.odds.append(float(row[5] or "inf"))
    return printed


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _unit(text: str) -> float:
    """The value of one in the last digit."""
    digits, _, power = text.partition("e")
    return 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))


class Enumerated:
    """All fillings of a text, which of them the options allow, and their probabilities."""

    def __init__(self, question, allow=None, forbid=()) -> None:
        model = self.model = question.model
        self.question, self.allow, self.forbid = question, allow or {}, forbid
        readings = question.readings
        support = question.support.tolist()
        self.log_p = {
            (n, *tokens): value + log(question.weight)
            for n, reading in enumerate(readings)
            for tokens, value in every_filling(model, reading.cloze, support).items()
        }
        self.kinds = [blank.kind for blank in question.constraints.blanks]
        self.allowed = {state for state in self.log_p if self._passes(state)}

    def parts(self, state):
        return self.question.readings[state[0]].parts(state[1:])

    def spelled(self, ids):
        """The word that pieces spell by the rule of word pieces, or None."""
        return _remembered(self.model, "spelled", ids, self._spelled)

    def _spelled(self, ids):
        tokens = self.model.decode(ids)
        if (
            tokens[0].startswith("##")
            or not all(token.startswith("##") for token in tokens[1:])
            or "." in tokens
        ):
            return None
        return "".join(token.removeprefix("##") for token in tokens)

    def _passes(self, state) -> bool:
        parts = self.parts(state)
        for b, (kind, ids) in enumerate(zip(self.kinds, parts, strict=True), 1):
            text = (
                self.spelled(ids)
                if kind == "word"
                else _remembered(self.model, "text", ids, self._text)
            )
            if text is None or (kind == "word" and self._encoded(text) != ids):
                return False
            if b in self.allow and ids not in [self._encoded(word) for word in self.allow[b]]:
                return False
            if text in self.forbid:
                return False
        return True

    def _text(self, ids):
        return self.model.token(ids[0]) if len(ids) == 1 else self.model.text(ids)

    def _encoded(self, text):
        split = self.model.tokenizer
        return _remembered(
            self.model,
            "ids",
            text,
            lambda word: tuple(split(word, add_special_tokens=False)["input_ids"]),
        )


def _remembered(model, what, key, compute):
    known = model.__dict__.setdefault("_remembered", {})
    if (what, key) not in known:
        known[what, key] = compute(key)
    return known[what, key]


@dataclass
class Answered:
    """An answer, its text, and what the search behind it had found."""

    filling: object
    found: object
    question: object


def answered(text, model, **options) -> Answered:
    """`unmask.fill` by a search, and what the search read and found; options that are not those
    of the search go to `fill`.
    """
    seen = {}
    of_search = {
        name: options.pop(name) for name in list(options) if name in unmask.Search.__annotations__
    }
    searched, answer_by_search = text_search.search_fillings, by_search.filling_by_search

    def search(*args, **more):
        seen["found"] = searched(*args, **more)
        return seen["found"]

    def answer(request, one, progress):
        seen["question"] = SimpleNamespace(**vars(one.search), answers=one.answers)
        return answer_by_search(request, one, progress)

    with (
        mock.patch.object(text_search, "search_fillings", search),
        mock.patch.object(by_search, "filling_by_search", answer),
    ):
        filling = unmask.fill(text, model=model, search=unmask.Search(**of_search), **options)
    return Answered(filling, seen["found"], seen["question"])


def false_claims(printed: Printed, answer: Answered, truth: Enumerated) -> list[str]:
    """Every claim that the enumeration contradicts, in words."""
    wrong, filling = [], answer.filling
    states_found = {(f.variant, *f.tokens) for f in answer.found.fillings}
    mass = sum(exp(truth.log_p[state]) for state in states_found)
    if printed.mass > min(mass * (1 + TIE), 1):
        wrong.append(f"fillings found hold {mass}, not {printed.mass}")
    if printed.mass < 0.99 * mass - 0.001:
        wrong.append(f"fillings found hold {mass}, of which {printed.mass} says too little")
    for state in truth.allowed - states_found:
        if exp(truth.log_p[state]) > printed.bound:
            wrong.append(
                f"{state} has {exp(truth.log_p[state])}, and was not found: more than"
                f" {printed.bound}"
            )
    states = [state_of(completion, answer) for completion in filling.completions]
    if len(set(states)) < len(states):
        wrong.append("a filling is listed twice")
    wrong += [
        f"{state} is listed, and breaks a constraint"
        for state in states
        if state not in truth.allowed
    ]
    others = sorted(
        (truth.log_p[state] for state in truth.allowed - set(states[: printed.certain])),
        reverse=True,
    )
    certain = [truth.log_p[state] for state in states[: printed.certain]]
    for here, after in zip(certain, [*certain[1:], *others[:1]], strict=False):
        if after > here + TIE or (after == here == -inf):
            wrong.append(f"certain, and below another by {after - here}")
    for state, (p, unit), nats in zip(states, printed.probabilities, printed.nats, strict=True):
        true = exp(truth.log_p[state])
        if abs(p - true) > 0.51 * unit + 1e-3 * true or (
            true > 1e-300 and abs(nats - log(true)) > 0.0051 + 1e-3
        ):
            wrong.append(f"{state} has {true}, not {p} ({nats} nats)")
    listed = {answer.answer: answer for answer in filling.answers}
    for scored, rank, odds in zip(filling.answers, printed.ranks, printed.odds, strict=True):
        wrong += _false_answer(scored, rank, odds, answer, truth)
    if len(listed) != len({g.answer for g in answer.question.answers}):
        wrong.append("an answer is missing")
    return wrong


def _false_answer(scored, rank, odds, answer, truth) -> list[str]:
    if rank is None:
        return []
    (wanted,) = {g for g in answer.question.answers if g.answer == scored.answer}
    numbers = {reading.lengths: n for n, reading in enumerate(answer.question.readings)}
    state = (numbers[wanted.lengths], *wanted.tokens)
    wrong = [] if state in truth.allowed else [f"answer {state} is ranked, and breaks a constraint"]
    mine = exp(truth.log_p[state])
    first, last = false_beyond(state, truth)
    if mine > 1e-300 and (rank[0] > first or rank[1] < last):
        wrong.append(f"answer {state} has a rank from {first} to {last}, not {rank}")
    best = max(exp(other.log_prob) for other in answer.filling.answers)
    if mine > 1e-300 and abs(odds - best / mine) > 0.006 * best / mine:
        wrong.append(f"answer {state} has odds {best / mine}, not {odds}")
    return wrong


def false_beyond(state, truth) -> tuple[int, int]:
    """The highest first place and the lowest last place that a true claim about the rank of this
    filling can name.

    Ties can be printed in either order, so a claim has to hold both. Of a filling that is nearer
    than the enumeration is exact, but no tie for certain, either order may be the true one.
    """
    ahead = [truth.log_p[other] - truth.log_p[state] for other in truth.allowed if other != state]
    surely_above = sum(nats > TIE for nats in ahead)
    tied = sum(abs(nats) <= SURE_TIE for nats in ahead)
    near = sum(SURE_TIE < abs(nats) <= TIE for nats in ahead)
    return 1 + surely_above + near, 1 + surely_above + tied


def state_of(completion, answer):
    """The filling of a completion, as (reading, tokens)."""
    ids = tuple(answer.question.model.tokenizer.convert_tokens_to_ids(list(completion.tokens)))
    fitting = [
        n
        for n, reading in enumerate(answer.question.readings)
        if _filled(reading, ids, completion.text, answer)
    ]
    constraints, readings = answer.question.constraints, answer.question.readings
    (number,) = [
        n
        for n in fitting
        if tuple(map(constraints.spelled, range(9), readings[n].parts(ids))) == completion.parts
    ]
    return (number, *ids)


def _filled(reading, ids, text, answer) -> bool:
    return (
        len(reading.cloze.block) == len(ids)
        and answer.question.model.text(reading.cloze.filled(ids)) == text
    )
