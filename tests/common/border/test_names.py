"""The name that was meant."""

from unmask.common.border.names import nearest


def test_a_familiar_name_comes_before_a_similar_one():
    assert nearest("top_k", ["top", "to_k"]) == "top"
    assert nearest("top_k", ["to_k"]) == "to_k"
    assert nearest("tpo", ["top", "kind"]) == "top"
    assert nearest("zzz", ["top", "kind"]) is None


def test_the_rule_was_called_joint():
    assert nearest("joint", ["construction", "constructions"]) == "construction"
    assert nearest("joints", ["construction", "constructions"]) == "constructions"
