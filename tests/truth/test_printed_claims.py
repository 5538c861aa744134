"""No printed claim of `unmask fill` is false: generated cases, the text as printed, and an
enumeration in double precision.
"""

import json
import re
from collections import Counter
from contextlib import contextmanager
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import unmask
from support.drawn_models import FEW, MANY, Law, drawn
from support.printed_claims import (
    Enumerated,
    Printed,
    answered,
    as_printed,
    false_beyond,
    false_claims,
    read_back,
)
from unmask.common.errors import InputError
from unmask.common.plain import in_json
from unmask.models.text.constraints import Constraints
from unmask.tables import exploration

BLANKS = {"[MASK]": 1, "[WORD:1-2]": 2, "[GAP:1-2]": 2, "[GAP:2]": 2}
ANSWERS = {
    "[MASK]": ["a", "b", "ab", ".", "aba"],
    "[WORD:1-2]": ["a", "b", "ab", "aba", "bba"],
    "[GAP:1-2]": ["a", "b a", "aba", "."],
    "[GAP:2]": ["aba", "b a", "a ."],
}
CONSTRAINTS = {"allow", "forbid", "alphabet"}
WORDS = ["a", "b", "ab", "aba", "bba", "."]


@st.composite
def laws(draw):
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    return Law(
        seed=draw(st.integers(0, 10**6)),
        scale=draw(st.sampled_from([0.0, 0.3, 1.0, 2.0, 4.0, 8.0, 16.0, 60.0, 400.0])),
        step=draw(st.sampled_from([0.0, 0.0, 1.0, 3.0])),
        twins=draw(st.booleans()),
        apart=draw(st.sampled_from([0.0, 1e-6, 1e-4])),
        ruled_out=draw(st.sampled_from([0.0, 0.0, 0.3])),
        noise=draw(st.sampled_from([0.0, 3e-5])) if dtype == torch.float32 else 0.0,
        dtype=dtype,
    )


@st.composite
def questions(draw):
    """(pieces, law, text, options, limits of the lists)."""
    pieces = draw(st.sampled_from([FEW, FEW, MANY]))
    room = 4 if pieces is FEW else 3
    text, sites = [], 0
    while not text or (sites < room and draw(st.integers(0, 3))):
        blank = draw(
            st.sampled_from([b for b, most in BLANKS.items() if sites + most <= room] or [""])
        )
        if not blank:
            break
        sites += BLANKS[blank]
        text += [draw(st.sampled_from(["", "a", "b a"])), blank]
    kinds = text[1::2]
    blanks = len(kinds)
    text = " ".join(part for part in [*text, draw(st.sampled_from(["", "b", "."]))] if part)
    options = {
        "top": draw(st.integers(1, 12)),
        "max_passes": draw(
            st.one_of(st.integers(1, 60), st.integers(1, 300), st.just(2000 if sites < 4 else 300))
        ),
    }
    if not draw(st.integers(0, 3)):
        options["mass"] = draw(st.sampled_from([0.1, 0.5, 0.9, 0.999, 1.0]))
    if not draw(st.integers(0, 3)):
        options["allow"] = {
            draw(st.integers(1, blanks)): draw(
                st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=2)
            )
        }
    if not draw(st.integers(0, 4)):
        options["forbid"] = [draw(st.sampled_from(WORDS))]
    if not draw(st.integers(0, 5)):
        options["alphabet"] = ["a", "b", "ab", "##a", "."]
    options["answers"] = [
        " / ".join(draw(st.sampled_from(ANSWERS[kind])) for kind in kinds)
        for _ in range(draw(st.integers(0, 3)))
    ]
    return pieces, draw(laws()), text, options, draw(st.booleans())


@contextmanager
def short_lists(short=True):
    """Only a few tokens become states of their own, so that the bound has to cover the others."""
    limits = (
        {"LEAST_LISTED": 2, "LEAST_FLOW": 0.05, "MOST_LISTED": 4} if short else {"LEAST_LISTED": 8}
    )
    with mock.patch.multiple(exploration, **limits):
        yield


def check(question, seen: Counter) -> None:
    pieces, law, text, options, short = question
    model = drawn(pieces, law)
    with short_lists(short):
        while True:
            try:
                answer = answered(text, model, **options)
                break
            except InputError as error:
                seen["refused"] += 1
                if options["answers"]:
                    options = options | {"answers": options["answers"][1:]}
                elif CONSTRAINTS & set(options):
                    options = {
                        name: value for name, value in options.items() if name not in CONSTRAINTS
                    }
                else:
                    assert str(error).startswith("no filling ")
                    return
    named = {name: options[name] for name in ("allow", "forbid") if name in options}
    truth = Enumerated(answer.question, **named)
    printed = read_back(as_printed(answer.filling))
    assert false_claims(printed, answer, truth) == []
    data = json.loads(json.dumps(in_json(answer.filling.to_dict()), allow_nan=False))
    exact = Printed(
        **(
            vars(printed)
            | {
                "mass": data["search"]["mass"],
                "bound": data["search"]["bound"],
                "certain": data["search"]["certain"],
            }
        )
    )
    exact.ranks = [None if a["rank"] is None else tuple(a["rank"]) for a in data.get("answers", [])]
    assert false_claims(exact, answer, truth) == []
    assert answer.filling.summary() in answer.filling._repr_html_().replace("&#x27;", "'")
    seen["checked"] += 1
    seen["certain"] += printed.certain == len(printed.nats)
    seen["uncertain"] += printed.certain < len(printed.nats)
    seen["ranks"] += sum(rank is not None for rank in printed.ranks)
    seen["exact ranks"] += sum(rank is not None and rank[0] == rank[1] for rank in printed.ranks)
    seen["words"] += "[WORD" in text
    seen["gaps"] += "[GAP" in text
    seen["left out"] += printed.bound > 0


def sweep(examples: int) -> Counter:
    seen: Counter = Counter()

    @settings(
        max_examples=examples,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(questions())
    def every(question):
        check(question, seen)

    every()
    return seen


def enough(seen: Counter, cases: int) -> None:
    """So many cases were checked, and claims of every kind were there to be false."""
    assert seen["checked"] >= cases, seen
    shares = {
        "certain": 0.1,
        "uncertain": 0.1,
        "ranks": 0.3,
        "words": 0.1,
        "gaps": 0.1,
        "left out": 0.2,
    }
    for name, share in shares.items():
        assert seen[name] >= share * cases, (name, seen)


@pytest.mark.parametrize(
    ("ahead", "limits"),
    [
        ([1.0, -1.0], (2, 2)),  # one above and one below: only rank 2 is true
        ([0.0, -1.0], (1, 2)),  # a tie: both places have to be in the claim
        ([7e-10, -1.0], (2, 1)),  # nearer than the enumeration is exact: either place may be true
    ],
)
def test_the_ranks_that_a_true_claim_can_name(ahead, limits):
    log_p = {0: -2.0} | {n: -2.0 + nats for n, nats in enumerate(ahead, 1)}
    truth = SimpleNamespace(log_p=log_p, allowed=set(log_p))
    assert false_beyond(0, truth) == limits


def test_two_hundred_cases_without_a_false_claim():
    enough(sweep(300), 200)


@pytest.mark.slow
def test_two_thousand_cases_without_a_false_claim():
    seen = sweep(2500)
    enough(seen, 2000)
    assert seen["exact ranks"] >= 10


ALLOWED = {"allow": {1: ["a", "b"]}, "answers": ["ab / ab"], "max_passes": 300}


def test_an_answer_outside_the_constraints_is_refused_and_was_listed():
    model = drawn(FEW, Law(seed=3, scale=1.0))
    with pytest.raises(
        InputError,
        match=r"the answer 'ab / ab' has 'ab' at blank 1, which allow does not name: leave it out",
    ):
        answered("[MASK] . [MASK]", model, **ALLOWED)
    with mock.patch.object(Constraints, "broken", return_value=None):
        answer = answered("[MASK] . [MASK]", model, top=40, **ALLOWED)
    truth = Enumerated(answer.question, allow=ALLOWED["allow"])
    assert any(
        "breaks a constraint" in fault
        for fault in false_claims(read_back(as_printed(answer.filling)), answer, truth)
    )


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"forbid": ["b"]}, "has 'b' at blank 2, which forbid leaves out"),
        ({"allow": {2: ["a"]}}, "has 'b' at blank 2, which allow does not name"),
        ({"alphabet": ["a", "ab"]}, "has 'b', which is not in the alphabet"),
    ],
)
def test_answers_that_a_constraint_leaves_out(options, why):
    with pytest.raises(InputError, match=why):
        answered("[MASK] . [MASK]", drawn(FEW, Law()), answers=["a / b"], **options)


def test_what_stood_in_the_blanks_is_not_listed_where_a_constraint_leaves_it_out():
    model = drawn(FEW, Law(seed=1))
    shown = answered(
        "b a b", model, positions=[1], max_passes=50, top=20, allow={1: ["a"]}
    ).filling.completions
    assert shown
    assert not any(completion.is_gold for completion in shown)
    assert any(
        completion.is_gold
        for completion in answered("b a b", model, positions=[1], max_passes=50).filling.completions
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_candidates_never_hold_more_than_everything(dtype):
    for seed in range(6):
        model = drawn(MANY, Law(seed=seed, scale=5.0, dtype=dtype))
        for candidates in ([list(model.regular_ids)] * 2, 4):
            filling = unmask.fill("a [MASK] [MASK] b", model=model, candidates=candidates)
            cloze, sets = filling.cloze, [c.tolist() for c in filling.joint.tables.candidates]
            q = (
                model.exact_logits(np.array([cloze.ids]), np.array([cloze.block]))
                .double()
                .softmax(-1)[0]
            )
            held = float(q[0, sets[0]].sum() * q[1, sets[1]].sum())
            assert filling.candidates_mass <= 1
            assert filling.candidates_mass == pytest.approx(held, rel=1e-12)
            printed = float(re.search(r"tokens hold (\S+) %", as_printed(filling))[1])
            assert printed <= 100 * held * (1 + 1e-12)
            assert printed == pytest.approx(100 * held, abs=0.11)
