"""What an answer looks like in a terminal: short, and the same after a pickle."""

import pickle

import pytest

import unmask

TWO = "the [MASK] [MASK]"
MADE = {
    "model": lambda lm: lm,
    "tables": lambda lm: unmask.fill(TWO, lm).joint.tables,
    "joint": lambda lm: unmask.fill(TWO, lm).joint,
    "filling": lambda lm: unmask.fill(TWO, lm),
    "chain filling": lambda lm: unmask.fill("the [MASK] [MASK] [MASK]", lm, top=2),
    "comparison": lambda lm: unmask.compare(TWO, lm, constructions="product,chain"),
    "dependence": lambda lm: unmask.dependence(TWO, lm),
    "mutants": lambda lm: unmask.mutants(
        "the cat sat", positions=[2], alphabet=["cat", "dog"], model=lm
    ),
    "assay": lambda lm: unmask.assay(
        "the cat sat",
        [{"mutant": f"cat2{word}", "y": y} for y, word in enumerate(("dog", "mat", "tree"))],
        lm,
        score="singles",
        alphabet="cat,dog,mat,tree",
    ),
    "scores": lambda lm: unmask.score(["the cat"], model=lm),
    "sampled": lambda lm: unmask.sample(model=lm, chains=2, sweeps=2, length=3),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_an_answer_is_short_in_a_terminal_and_the_same_after_a_pickle(tiny, make):
    answer = make(tiny)
    text = repr(answer)
    assert text == repr(pickle.loads(pickle.dumps(answer)))
    assert " at 0x" not in text
    assert len(text) < 200
    assert "\n" not in text
