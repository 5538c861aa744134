"""The name that was meant."""

import inspect

import pytest

from support.command_runner import refused
from unmask.common.border import names
from unmask.common.border.names import FAMILIAR, Meant, meant_by, nearest, read_meant
from unmask.common.border.options import options
from unmask.common.errors import InputError
from unmask.verbs import VERBS, verb

FUTURE: set[str] = set()
"""What FAMILIAR leads to and no verb has yet."""


def own_names(name):
    """All arguments of a verb, with those of its methods and groups."""
    function = verb(name)
    return {*inspect.signature(function).parameters} | {one.name for one in options(function)}


def test_a_familiar_name_comes_before_a_similar_one():
    assert meant_by("fill", "top_k", ["top", "to_k"]) == Meant(argument="top")
    assert meant_by("fill", "top_k", ["to_k"]) == Meant(argument="to_k")
    assert nearest("tpo", ["top", "kind"]) == "top"
    assert nearest("zzz", ["top", "kind"]) is None
    assert meant_by("fill", "zzz", ["top", "kind"]) is None


def test_one_name_of_others_may_be_several_of_ours(monkeypatch):
    monkeypatch.setitem(FAMILIAR, "corpus", ("texts", "data"))
    assert meant_by("score", "corpus", ["data", "model"]) == Meant(argument="data")
    assert meant_by("score", "corpus", ["data", "texts"]) == Meant(argument="texts")


def test_an_entry_has_five_forms():
    assert read_meant("top") == Meant(argument="top")
    assert read_meant("candidates=all") == Meant(argument="candidates", value="all")
    assert read_meant("generate.n_texts") == Meant(verb="generate", argument="n_texts")
    assert read_meant("assay.") == Meant(verb="assay")
    assert read_meant("write it there") == Meant(advice="write it there")


@pytest.mark.parametrize("name", FAMILIAR)
def test_every_name_leads_to_what_exists(name):
    of_verb, _, _ = name.rpartition(".")
    assert not of_verb or of_verb in VERBS
    for entry in FAMILIAR[name]:
        meant = read_meant(entry)
        if meant.verb:
            assert meant.verb in VERBS
            assert meant.argument in ("", *own_names(meant.verb))
        elif meant.argument and entry not in FUTURE:
            assert any(meant.argument in own_names(one) for one in VERBS)


def test_nothing_is_left_to_come():
    """An entry of FUTURE that exists by now is to be taken out."""
    everywhere = set().union(*(own_names(name) for name in VERBS))
    assert not FUTURE & everywhere


def from_python(name, **options):
    with pytest.raises(InputError) as caught:
        verb(name)(**options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "argument", "value", "python", "typed"),
    [
        (
            "generate",
            "num_return_sequences",
            3,
            "did you mean n_texts?",
            "did you mean --n-texts?",
        ),
        (
            "fill",
            "num_return_sequences",
            3,
            "use n_texts of unmask.generate",
            "use --n-texts of unmask generate",
        ),
        ("mutants", "measured", "a.csv", "use unmask.assay", "use unmask assay"),
        ("fill", "joint", "chain", "did you mean construction?", "did you mean --construction?"),
        ("frontier", "sentences", 3, "did you mean limit?", "did you mean --limit?"),
        (
            "evaluate",
            "paper",
            True,
            "did you mean constructions='paper'?",
            "did you mean --constructions paper?",
        ),
        ("train", "vocab_size", 80, "shape=unmask.Shape(vocab=...)", "did you mean --vocab?"),
    ],
)
def test_a_message_says_what_was_meant(name, argument, value, python, typed):
    message = from_python(name, **{argument: value})
    assert message.startswith(f"{argument} is not an argument of {name}: ")
    assert python in message
    words = [] if value is True else [str(value)]
    flag = f"--{argument.replace('_', '-')}"
    assert typed in refused([name, flag, *words])


def test_an_argument_of_another_verb_leads_to_that_verb(monkeypatch):
    """It comes before the nearest argument, which the control shows."""
    assert from_python("fill", text="A [MASK].", tops=3) == (
        "tops is not an argument of fill: did you mean top?"
    )
    assert "did you mean --top?" in refused(["fill", "A [MASK].", "--tops", "3"])
    monkeypatch.setitem(names.FAMILIAR, "fill.tops", ("compare.",))
    assert from_python("fill", text="A [MASK].", tops=3) == (
        "tops is not an argument of fill: use unmask.compare"
    )
    message = refused(["fill", "A [MASK].", "--tops", "3"])
    assert "--tops is not an option: use unmask compare" in message


def test_advice_is_given_as_it_stands(monkeypatch):
    monkeypatch.setitem(names.FAMILIAR, "wordy", ("write it in the text",))
    assert from_python("fill", text="A [MASK].", wordy=3).endswith(": write it in the text")
    assert refused(["fill", "A [MASK].", "--wordy", "3"]).endswith(": write it in the text")
