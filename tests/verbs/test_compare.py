"""`compare` against the tables written out by hand."""

from math import exp

import pytest

import unmask
from support.command_runner import invoke
from support.constructions import NAMES
from unmask.common.errors import InputError

TWO = "the [MASK] sat on the [MASK] ."


def test_compare_describes_each_joint(tiny):
    comparison = unmask.compare(TWO, model=tiny, top=6)
    assert list(comparison.joints) == list(NAMES)
    for name, row in comparison.descriptions.items():
        dense = unmask.fill(TWO, model=tiny, construction=name).joint.dense().double()
        entropy = -float((dense.exp() * dense).sum())
        parts = [-float((m.exp() * m).sum()) for m in (dense.logsumexp(0), dense.logsumexp(1))]
        assert row.entropy == pytest.approx(entropy, abs=1e-4)
        assert row.total_correlation == pytest.approx(sum(parts) - entropy, abs=1e-4)
        assert row.g_kl is None
        assert row.p_ppl is None
    assert comparison.descriptions["product"].total_correlation == pytest.approx(0, abs=1e-4)
    assert comparison.descriptions["balanced"].total_correlation > 0.01


@pytest.mark.parametrize(
    ("options", "ranks"),
    [({}, "restarted"), ({"rank_by": "mrf"}, "mrf"), ({"constructions": "mrf,hcb"}, "hcb")],
)
def test_compare_shows_the_best_of_the_construction_that_ranks(tiny, options, ranks):
    comparison = unmask.compare(TWO, model=tiny, top=6, **options)
    best = comparison.joints[ranks].dense().double().exp().flatten().topk(6).values.tolist()
    assert [exp(c.log_probs[ranks]) for c in comparison.completions] == pytest.approx(
        best, abs=1e-5
    )
    assert comparison.to_frame().shape == (6, len(comparison.joints) + 1)
    assert comparison.to_dict()["ranked_by"] == ranks


@pytest.mark.parametrize("text", [TWO, "a [MASK] [MASK] [MASK] ."])
def test_compare_has_the_chain_over_all_orders_beside_the_others(tiny, text):
    compared = unmask.compare(text, model=tiny, top=5, rank_by="chain")
    searched = unmask.fill(text, model=tiny, top=500, search=unmask.Search(mass=0.9))
    known = {c.tokens: c.log_prob for c in searched.completions}
    for completion in compared.completions:
        assert completion.orders_log_prob == pytest.approx(known[completion.tokens], abs=1e-4)


def test_compare_with_gold_tokens_has_the_metrics(tiny):
    comparison = unmask.compare(TWO, model=tiny, targets=["cat", "mat"], top=3)
    gold = tiny.tokenizer.convert_tokens_to_ids(["cat", "mat"])
    shown = [c for c in comparison.completions if c.is_gold]
    assert len(shown) == 1
    assert shown[0].tokens == ("cat", "mat")
    for name, row in comparison.descriptions.items():
        log_prob = float(comparison.joints[name].log_prob(gold))
        assert row.gold_log_prob == pytest.approx(log_prob, abs=1e-4)
        assert row.p_ppl == pytest.approx(exp(-log_prob / 2), rel=1e-3)
        assert row.g_kl >= 0
        assert row.a_kl >= -1e-6
    by_position = unmask.compare("the cat sat on the mat .", model=tiny, positions=[2, 6], top=3)
    assert by_position.to_dict() == {**comparison.to_dict(), "text": "the cat sat on the mat ."}


def test_compare_needs_two_blanks_and_known_names(tiny):
    with pytest.raises(InputError, match="one blank"):
        unmask.compare("the [MASK] sat .", model=tiny)
    with pytest.raises(InputError, match="'x' is unknown"):
        unmask.compare(TWO, model=tiny, constructions=["x"])
    with pytest.raises(InputError, match="rank_by mrf is not among those compared"):
        unmask.compare(TWO, model=tiny, constructions=["hcb"], rank_by="mrf")


def test_targets_are_among_the_candidates_of_compare_and_answers_are_not_of_fill(tiny):
    """Words that two candidates leave out."""
    least = unmask.fill(TWO, model=tiny, candidates="all", top=144).completions[-1].tokens
    comparison = unmask.compare(TWO, model=tiny, candidates=2, targets=list(least))
    (gold,) = [c for c in comparison.completions if c.is_gold]
    assert gold.tokens == least
    assert comparison.descriptions["restarted"].gold_log_prob == pytest.approx(
        gold.log_probs["restarted"], abs=1e-5
    )
    assert "the tokens given are among them" in comparison.summary()
    assert "the tokens given" not in unmask.compare(TWO, model=tiny, candidates=2).summary()
    plain = unmask.fill(TWO, model=tiny, candidates=2)
    filling = unmask.fill(TWO, model=tiny, candidates=2, answers=[" / ".join(least)])
    assert filling.completions == plain.completions
    (answer,) = filling.answers
    assert (answer.log_prob, answer.rank, answer.odds) == (None, None, None)
    assert filling.verdict() == [
        f"'{' / '.join(least)}' is not among the candidates: give more candidates, or search the"
        " whole vocabulary (max_passes)"
    ]


def test_fill_and_compare_give_one_answer_to_one_question(tiny):
    filling = unmask.fill(TWO, model=tiny, candidates=6)
    comparison = unmask.compare(TWO, model=tiny, candidates=6)
    assert [c.log_prob for c in filling.completions] == pytest.approx(
        [c.log_probs["restarted"] for c in comparison.completions], abs=1e-6
    )


def test_the_figure_is_checked_first_and_left_by_the_call(tiny, tmp_path):
    unmask.compare("the [MASK] $x_{$ [MASK]", model=tiny, figure=tmp_path / "joint.svg")
    assert "the [MASK] $x_{$ [MASK]" in (tmp_path / "joint.svg").read_text()
    for path, message in (
        (tmp_path / "none" / "a.png", "does not exist"),
        (tmp_path / "a.gif", "no known ending"),
    ):
        with pytest.raises(InputError, match=message):
            unmask.compare(TWO, model=tiny, figure=path)
    with pytest.raises(InputError, match="one figure"):
        unmask.compare([TWO, TWO], model=tiny, figure=tmp_path / "a.png")
    with pytest.raises(InputError, match="the text has 3"):
        unmask.compare("[MASK] [MASK] [MASK]", model=tiny, figure=tmp_path / "a.png")


def test_many_constructions_are_compared_in_eighty_columns(tiny_folder):
    joints = (
        "product,mrf_logit,mrf,hcb,arnold_gokhale,balanced,pseudo_gibbs,restarted,chain,"
        "family:0.5,0.25,family:0.1,0.2"
    )
    typed = [
        "compare",
        "the [MASK] sat on the [MASK] .",
        "--model",
        str(tiny_folder),
        "--constructions",
        joints,
        "--top",
        "2",
    ]
    lines = invoke(typed, env={"COLUMNS": "80"}).stdout.splitlines()
    assert sum("completion" in line for line in lines) == 3
    assert max(map(len, lines)) <= 80


def test_figures_display_without_pyplot(tiny):
    for figure in (
        unmask.compare(TWO, tiny, constructions="product,chain").figure(),
        unmask.dependence(TWO, tiny).figure(),
    ):
        assert type(figure).__mro__[1].__module__ == "matplotlib.figure"
        assert figure._repr_png_().startswith(b"\x89PNG")
