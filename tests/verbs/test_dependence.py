"""`dependence`: from texts to matrices, and what is refused."""

import pytest
import torch
from tokenizers import processors
from transformers import AutoTokenizer, BertForMaskedLM

import unmask
from support.command_runner import refused
from unmask.common.border.options import options
from unmask.common.errors import InputError
from unmask.joints import pair_information
from unmask.verbs.dependence import dependence


def test_a_real_model_from_text_to_matrix(tiny):
    pairs = dependence("the [MASK] sat on the [MASK] [MASK]", tiny)
    assert pairs.others == "masked"
    assert pairs.positions == (2, 6, 7)
    assert pairs.tokens == ("[MASK]",) * 3
    assert pairs.candidates == 12
    assert 0.3 < pairs.least_mass <= 1
    assert torch.equal(pairs.matrix, pairs.matrix.T)
    assert float(pairs.matrix.diagonal().abs().max()) == 0
    whole = dependence("the cat sat on the mat", tiny)
    assert whole.others == "text"
    assert whole.tokens == ("the", "cat", "sat", "on", "the", "mat")
    some = dependence("the cat sat on the mat", tiny, positions=[2, 6])
    assert float(some.matrix[0, 1]) == pytest.approx(float(whole.matrix[1, 5]), abs=1e-9)
    masked = dependence("the cat sat on the mat", tiny, others="masked")
    assert float((masked.matrix - whole.matrix).abs().max()) > 1e-3
    i, j, most = whole.pairs()[0]
    assert most == float(whole.matrix.max())
    assert repr(whole).startswith(f"Dependence(6 positions, most {most:.3f}")
    as_dict = whole.to_dict()
    assert as_dict["matrix"][i][j] == most
    assert as_dict["matrix"][2][2] is None
    assert whole.to_frame().loc["2 cat", "6 mat"] == float(whole.matrix[1, 5])
    assert "2 cat" in whole._repr_html_()


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("the [MASK] sat", {}, "one blank"),
        ("the cat", {"positions": [1]}, "'the cat' has one known token to measure"),
        ("the", {}, "'the' has one known token to measure: dependence is between two or more"),
        ("the [WORD] sat [MASK]", {}, r"has a \[WORD\] or \[GAP\], which fill alone takes"),
        ("the cat sat", {"positions": [1, 9]}, "9 is out of range: the text has tokens 1 to 3"),
        (
            "the cat sat",
            {"positions": "0,1"},
            "positions 0 is out of range: the text has tokens 1 to 3",
        ),
        ("the cat sat", {"positions": [1, 1]}, "twice"),
        ("the [MASK] [MASK]", {"positions": [1, 2]}, "one or the other"),
        ("the [MASK] [MASK]", {"others": "text"}, "needs a whole text"),
        ("", {}, "is empty"),
    ],
)
def test_what_is_refused(tiny, text, options, message):
    with pytest.raises(InputError, match=message):
        dependence(text, tiny, **options)


@pytest.mark.parametrize("candidates", [3, 12])
def test_of_two_positions_there_are_no_others(tiny, candidates):
    """Whatever would stand there, the numbers are the same: so it is refused."""
    numbers = {}
    for others in ("masked", "text"):
        for positions in ([2, 4], [2, 4, 6]):
            cloze = tiny.cloze("the cat sat on the mat", positions=positions)
            found = pair_information.pair_matrix(tiny, cloze, candidates, others)
            numbers[others, len(positions)] = found
    masked, text = numbers["masked", 2], numbers["text", 2]
    assert torch.equal(masked.information, text.information)
    assert torch.equal(masked.mass, text.mass)
    masked, text = numbers["masked", 3], numbers["text", 3]
    assert not torch.allclose(masked.information, text.information, atol=1e-6)
    for text, given in (
        ("the cat", {"others": "text"}),
        ("the cat sat on", {"others": "masked", "positions": [1, 3]}),
        ("the [MASK] [MASK] on", {"others": "masked"}),
        (["the cat", "a mat"], {"others": "masked"}),
    ):
        with pytest.raises(InputError, match="^others does nothing with two positions"):
            dependence(text, tiny, **given)
    pair, three = dependence(["the cat", "the cat sat"], tiny, others="masked")
    assert (pair.others, three.others) == ("masked", "masked")


def test_positions_are_counted_from_1_without_special_tokens(tiny, tiny_folder):
    """Of a model without start and end tokens, token 1 has index 0."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A", special_tokens=[]
    )
    bare = unmask.MaskedLM(BertForMaskedLM.from_pretrained(tiny_folder), tokenizer)
    whole = dependence("the cat sat", bare)
    assert whole.positions == dependence("the cat sat", tiny).positions == (1, 2, 3)
    assert whole.names() == ["1 the", "2 cat", "3 sat"]
    some = dependence("the cat sat", bare, positions="1,3")
    assert (some.positions, some.tokens) == ((1, 3), ("the", "sat"))
    assert float(some.matrix[0, 1]) == pytest.approx(float(whole.matrix[0, 2]), abs=1e-9)
    assert torch.equal(dependence("the cat sat", bare, positions="all").matrix, whole.matrix)
    assert bare.cloze("the cat sat", positions="2-3").block == (1, 2)


def test_pairs_come_as_they_are_measured(tiny, monkeypatch):
    monkeypatch.setitem(pair_information.PAIRS_AT_ONCE, "cpu", 2)
    text = "the cat sat on"
    parts = []
    whole = dependence(text, tiny, partial=parts.append)
    assert [len(part.pairs()) for part in parts] == [2, 4, 6]
    assert [len(part.verdict()) for part in parts] == [1, 1, 0]
    assert parts[0].verdict() == ["2 of 6 pairs are measured."]
    assert [part.passes for part in parts] == sorted(part.passes for part in parts)
    assert parts[0].to_dict()["matrix"][2][3] is None
    for i, j, value in parts[0].pairs():
        assert value == float(whole.matrix[i, j])
    assert parts[-1].to_dict() == whole.to_dict()


def test_look_gets_the_joint_of_every_pair(tiny):
    """It is a function, which the command line does not have."""
    joints = {}

    def look(i, j, joint):
        joints[i, j] = joint

    whole = dependence("the cat sat on", tiny, look=look)
    assert sorted(joints) == sorted((i, j) for i, j, _ in whole.pairs())
    for (i, j), joint in joints.items():
        assert joint.mutual_information() == pytest.approx(float(whole.matrix[i, j]), abs=1e-12)
    with pytest.raises(InputError, match="give a function"):
        dependence("the cat sat on", tiny, look="joints")
    assert "look" not in [option.name for option in options(dependence)]


def test_what_a_person_sees(tiny):
    found = dependence("the [MASK] sat [MASK]", tiny)
    (table,) = found.tables()
    assert found.heading == "the [MASK] sat [MASK]"
    assert table.to_dict()["columns"][1]["head"] == "2"
    assert table.rows == [
        ["2 [MASK]", None, float(found.matrix[0, 1])],
        ["4 [MASK]", float(found.matrix[0, 1]), None],
    ]
    assert found.summary().startswith("mutual information of each pair (nats)")
    assert found.verdict() == []
    few = dependence("the [MASK] sat [MASK]", tiny, candidates=2)
    assert few.least_mass < 0.5
    assert "a number is about them only" in few.summary()
    long = dependence("the cat sat on the mat the a dog ran under", tiny)
    (listed,) = long.tables()
    i, j, most = long.pairs()[0]
    assert len(listed.rows) == 20
    assert listed.rows[0] == [f"{long.names()[i]} - {long.names()[j]}", most]


def test_too_much_work_is_refused_with_what_would_fit(english):
    with pytest.raises(InputError, match="use candidates=4760 or fewer, or force=True"):
        dependence("The man sat on a chair.", english, candidates=8187)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alphabet": ["dog"]}, r"one token lets nothing vary, .*: give two or more \(alphabet\)"),
        ({"candidates": 1}, "candidates 1 is out of range: give .* equal to 2"),
    ],
)
def test_where_nothing_varies_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        dependence("A [MASK] [MASK].", **options)


@pytest.mark.parametrize("name", ["profile", "sentences", "save"])
def test_options_of_the_verb_that_was_here_lead_to_profile(name):
    expected = f"{name} is not an argument of dependence: use unmask.profile"
    with pytest.raises(InputError) as caught:
        unmask.dependence(**{name: "texts.txt"})
    assert str(caught.value) == expected
    message = refused(["dependence", f"--{name}", "texts.txt"])
    assert message == f"--{name} is not an option: use unmask profile"
