"""`fill` over tables, against the tables written out by hand."""

import json
from itertools import product
from math import exp, log

import pytest
import torch

import unmask
from support.command_runner import invoke
from support.constructions import NAMES
from unmask.common.errors import InputError
from unmask.verbs.filling_from_table import filling_given

TWO = "the [MASK] sat on the [MASK] ."


def plain_log_probs(model, ids, position):
    """The model's log-probabilities at one position of one text, straight from the Hugging Face
    network.
    """
    with torch.no_grad():
        return (
            model.network(input_ids=torch.tensor([ids]))
            .logits[0, position]
            .double()
            .log_softmax(-1)
        )


def test_one_blank_is_the_models_own_conditional_among_regular_tokens(tiny):
    filling = unmask.fill("the [MASK] sat .", model=tiny, top=3)
    log_p = plain_log_probs(tiny, filling.cloze.ids, filling.cloze.block[0])[list(tiny.regular_ids)]
    inside = float(log_p.logsumexp(0))
    best = log_p.topk(3)
    assert filling.candidates_mass == pytest.approx(exp(inside), abs=1e-5)
    assert [c.log_prob for c in filling.completions] == pytest.approx(
        (best.values - inside).tolist(), abs=1e-4
    )
    assert [c.tokens for c in filling.completions] == [
        (tiny.token(tiny.regular_ids[i]),) for i in best.indices
    ]
    texts = ["the [MASK] sat .", TWO]
    for name in NAMES:
        other, _ = unmask.fill(texts, model=tiny, top=3, construction=name)
        assert other.completions == filling.completions
        assert other.joint.name == name


def test_two_blanks_against_a_plain_loop(tiny):
    """mrf and product over all 12 x 12 fillings with regular tokens, from single passes of the
    Hugging Face network.
    """
    filling = unmask.fill(TWO, model=tiny, construction="mrf", candidates="all", top=200)
    ids, (a, b) = list(filling.cloze.ids), filling.cloze.block
    regular = tiny.regular_ids
    masked_a, masked_b = plain_log_probs(tiny, ids, a), plain_log_probs(tiny, ids, b)
    mrf, independent = {}, {}
    for x, y in product(regular, regular):
        row_a, row_b = list(ids), list(ids)
        row_a[b], row_b[a] = y, x
        of_a, of_b = plain_log_probs(tiny, row_a, a), plain_log_probs(tiny, row_b, b)
        mrf[x, y] = float(
            of_a[x] - of_a[list(regular)].logsumexp(0) + of_b[y] - of_b[list(regular)].logsumexp(0)
        )
        independent[x, y] = float(masked_a[x] + masked_b[y])
    log_z = float(torch.tensor(list(mrf.values())).logsumexp(0))
    mass = float(torch.tensor(list(independent.values())).logsumexp(0))
    assert len(filling.completions) == 144
    assert sum(exp(c.log_prob) for c in filling.completions) == pytest.approx(1, abs=1e-5)
    assert log(filling.candidates_mass) == pytest.approx(mass, abs=1e-5)
    names = {(tiny.token(x), tiny.token(y)): (x, y) for x, y in mrf}
    for completion in filling.completions:
        cell = names[completion.tokens]
        assert completion.log_prob == pytest.approx(mrf[cell] - log_z, abs=2e-4)
        assert completion.product_log_prob == pytest.approx(independent[cell] - mass, abs=2e-4)
    scores = [c.log_prob for c in filling.completions]
    assert scores == sorted(scores, reverse=True)


def test_text_and_spans_show_the_filled_tokens(tiny):
    for completion in unmask.fill(TWO, model=tiny, top=5).completions:
        assert [completion.text[start:stop] for start, stop in completion.spans] == list(
            completion.tokens
        )
        assert completion.text.split()[1] == completion.tokens[0]


def test_positions_blank_out_the_tokens_named(tiny):
    by_position = unmask.fill("the cat sat on the mat .", model=tiny, positions=[2, 6], top=4)
    by_mask = unmask.fill(TWO, model=tiny, top=4)
    assert [c.tokens for c in by_position.completions][:4] == [
        c.tokens for c in by_mask.completions
    ]
    assert [c.tokens for c in by_position.completions if c.is_gold] == [("cat", "mat")]
    assert by_position.cloze.gold == tuple(tiny.tokenizer.convert_tokens_to_ids(["cat", "mat"]))


def test_json_warns_where_the_joint_did_not_converge(tiny, monkeypatch):
    filling, compared = unmask.fill(TWO, model=tiny, top=2), unmask.compare(TWO, model=tiny, top=2)
    assert "warning" not in filling.to_dict()
    assert "warning" not in compared.to_dict()
    monkeypatch.setitem(filling.joint.report, "converged", False)
    monkeypatch.setitem(compared.joints["balanced"].report, "converged", False)
    assert filling.to_dict()["warning"].startswith(
        "restarted did not converge, and the probabilities are approximate"
    )
    assert compared.to_dict()["warning"].startswith(
        "balanced did not converge, and the probabilities are approximate"
    )


def test_html_escapes_what_the_user_typed(tiny):
    html = unmask.fill("the <i> [MASK] & [MASK]", model=tiny)._repr_html_()
    assert "<i>" not in html
    assert "&lt;i&gt;" in html


def test_a_list_of_texts_gives_the_answers_of_each(tiny):
    texts = [
        TWO,
        "the [MASK] .",
        "a [MASK] dog [MASK] on the [MASK] .",
        "the [MASK] ran under the [MASK]",
        TWO,
    ]
    together = unmask.fill(texts, model=tiny, candidates=5)
    assert [filling.text for filling in together] == texts
    for filling, text in zip(together, texts, strict=True):
        alone = unmask.fill(text, model=tiny, candidates=5)
        assert [c.tokens for c in filling.completions] == [c.tokens for c in alone.completions]
        assert [c.log_prob for c in filling.completions] == pytest.approx(
            [c.log_prob for c in alone.completions], abs=1e-5
        )
        assert filling.candidates_mass == pytest.approx(alone.candidates_mass, rel=1e-5)
    pairs = [TWO, "the [MASK] ran under the [MASK]"]
    for both, alone in zip(
        unmask.compare(pairs, model=tiny),
        [unmask.compare(t, model=tiny) for t in pairs],
        strict=True,
    ):
        assert both.incompatibility == pytest.approx(alone.incompatibility, abs=1e-5)
    assert [d.text for d in unmask.dependence(pairs, model=tiny)] == pairs


def test_few_candidates_are_told(tiny):
    few = unmask.fill(TWO, model=tiny, candidates=1)
    assert few.candidates_mass < 0.5
    assert "less than half" in few._repr_html_()
    assert "give more candidates" in few.summary()
    named = unmask.fill("the [MASK] sat .", model=tiny, alphabet=["mat"])
    assert "less than half" in named.summary()
    assert "candidates" not in named.summary()
    assert "less than half" not in unmask.fill(TWO, model=tiny, candidates="all")._repr_html_()


def test_an_alphabet_is_all_that_blanks_take(tiny):
    filling = unmask.fill(TWO, model=tiny, alphabet="cat,dog,mat", top=99)
    assert filling.joint.shape == (3, 3)
    assert {t for c in filling.completions for t in c.tokens} == {
        "cat",
        "dog",
        "mat",
    }
    with pytest.raises(InputError, match="not in the alphabet"):
        unmask.fill(TWO, model=tiny, alphabet=["cat", "dog"], answers=["cat mat"])


def test_a_frame_of_completions(tiny):
    filling = unmask.fill("the cat sat on the mat .", model=tiny, top=3, positions=[2, 6])
    frame = filling.to_frame()
    assert list(frame) == ["text", "blank_1", "blank_2", "log_prob", "product_log_prob", "gold"]
    assert frame["log_prob"].tolist() == [c.log_prob for c in filling.completions]
    assert frame["gold"].sum() == 1


def test_texts_of_a_table_are_filled(tiny, tiny_folder, tmp_path):
    (tmp_path / "stimuli.csv").write_text("item,Sentence\n1,the [MASK] sat .\n2,a [MASK] sat .\n")
    printed = invoke(
        [
            "fill",
            "--file",
            str(tmp_path / "stimuli.csv"),
            "--model",
            str(tiny_folder),
            "--json",
            "--top",
            "1",
        ]
    )
    rows = [json.loads(line) for line in printed.stdout.splitlines()]
    assert [row["text"] for row in rows] == ["the [MASK] sat .", "a [MASK] sat ."]


def test_a_first_look_has_fewer_candidates_and_the_answer_stays(english):
    text = "She plays the [MASK] [MASK] in a band."
    looks = []
    filling = unmask.fill(text, english, top=5, forbid=["the"], partial=looks.append)
    (look,) = looks
    assert look.joint.shape == (48, 48)
    few = unmask.fill(text, english, top=5, forbid=["the"], candidates=48)
    assert look.to_dict() == few.to_dict()
    assert filling.to_dict() == unmask.fill(text, english, top=5, forbid=["the"]).to_dict()
    for no_look in ({"candidates": 64}, {"search": unmask.Search()}):
        unmask.fill(text, english, partial=looks.append, **no_look)
    unmask.fill("A [MASK].", english, partial=looks.append)
    assert len(looks) == 1


@pytest.mark.parametrize("options", [{}, {"construction": "mrf"}, {"candidates": 4}, {"top": 2}])
@pytest.mark.parametrize("whole", [False, True])
def test_another_word_given_is_the_answer_of_fill_without_a_pass(tiny, monkeypatch, options, whole):
    """Of a filling with and without a word given, and back to none."""
    text = "the [MASK] sat on the [MASK] ."
    if whole:
        text = "the cat sat on the mat ."
        options = {**options, "positions": [2, 6]}
    words = [one.tokens[0] for one in unmask.fill(text, tiny, **options).completions]
    expected = [unmask.fill(text, tiny, given={1: word}, **options) for word in words[:3]]
    filling = unmask.fill(text, tiny, **options)
    free = filling.to_dict()

    def no_pass(*_args, **_options):
        raise AssertionError("a pass of the model")

    monkeypatch.setattr(type(tiny), "logits", no_pass)
    for known in expected:
        (word,) = known.given.values()
        filling = filling_given(filling, {1: word})
        assert filling.to_dict() == known.to_dict()
        assert filling.view() == known.view()
    assert filling_given(filling, {}).to_dict() == free


def test_a_bad_word_given_later_is_refused_as_by_fill(tiny):
    text = "the [MASK] sat on the [MASK] ."
    filling = unmask.fill(text, tiny)
    for given in ({3: "cat"}, {1: " "}, {1: "cat", 2: "mat"}):
        with pytest.raises(InputError) as at_once:
            unmask.fill(text, tiny, given=given)
        with pytest.raises(InputError) as later:
            filling_given(filling, given)
        assert str(later.value) == str(at_once.value)
