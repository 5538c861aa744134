"""The name that was meant."""

import pytest

import unmask
from support.command_runner import refused
from unmask.common.border import names
from unmask.common.border.names import nearest


def test_a_familiar_name_comes_before_a_similar_one():
    assert nearest("top_k", ["top", "to_k"]) == "top"
    assert nearest("top_k", ["to_k"]) == "to_k"
    assert nearest("tpo", ["top", "kind"]) == "top"
    assert nearest("zzz", ["top", "kind"]) is None


def test_the_rule_was_called_joint():
    assert nearest("joint", ["construction", "constructions"]) == "construction"
    assert nearest("joints", ["construction", "constructions"]) == "constructions"


def test_one_name_of_others_may_be_several_of_ours(monkeypatch):
    monkeypatch.setitem(names.FAMILIAR, "corpus", ("texts", "data"))
    assert nearest("corpus", ["data", "model"]) == "data"
    assert nearest("corpus", ["data", "texts"]) == "texts"


def test_an_argument_of_another_verb_leads_to_that_verb(monkeypatch):
    """It comes before the nearest argument, which the control shows."""

    def from_python():
        with pytest.raises(unmask.InputError) as caught:
            unmask.fill("A [MASK].", tops=3)
        return str(caught.value)

    assert from_python() == "tops is not an argument of fill: did you mean top?"
    assert "did you mean --top?" in refused(["fill", "A [MASK].", "--tops", "3"])
    monkeypatch.setitem(names.OF_OTHER_VERBS, ("fill", "tops"), "compare")
    assert from_python() == "tops is not an argument of fill: use unmask.compare"
    message = refused(["fill", "A [MASK].", "--tops", "3"])
    assert "--tops is not an option: use unmask compare" in message
