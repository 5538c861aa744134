"""The information of pairs of blanks against enumeration on models given by tables."""

from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.common.cloze import Cloze
from unmask.joints.pair_information import pair_matrix
from unmask.joints.registry import named
from unmask.models.tabular import TabularMLM


def joint_of(vocab: int, length: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    weights = torch.rand([vocab] * length, generator=generator, dtype=torch.float64) ** 3 + 1e-3
    return weights / weights.sum()


def information(pair: torch.Tensor) -> float:
    """I(x; y) of a table that need not be normalised, by its definition."""
    p = pair / pair.sum()
    return float((p * (p / (p.sum(1, keepdim=True) * p.sum(0, keepdim=True))).log()).sum())


def blank(model: TabularMLM, *block: int) -> Cloze:
    return Cloze((model.mask_id,) * model.length, block)


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([(2, 4), (3, 3), (4, 2), (5, 3)]),
    st.sampled_from(["pseudo_gibbs", "arnold_gokhale"]),
)
def test_others_masked_is_the_information_of_the_pair_with_the_others_summed_out(
    seed, size, construction
):
    vocab, length = size
    p = joint_of(vocab, length, seed)
    model = TabularMLM.from_joint(p)
    matrix = pair_matrix(model, blank(model, *range(length)), vocab, "masked", named(construction))
    for a, b in combinations(range(length), 2):
        exact = information(
            p.sum([t for t in range(length) if t not in (a, b)]) if length > 2 else p
        )
        assert abs(float(matrix.information[a, b]) - exact) < 1e-10
        assert matrix.information[a, b] == matrix.information[b, a]
        assert float(matrix.mass[a, b]) == pytest.approx(1, abs=1e-12)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 2), min_size=4, max_size=4))
def test_others_as_they_stand_is_the_information_given_all_the_rest(seed, text):
    p = joint_of(3, 4, seed)
    model = TabularMLM.from_joint(p)
    cloze = Cloze((3,) * 4, (0, 1, 2, 3), tuple(text))
    matrix = pair_matrix(model, cloze, 3, "text")
    for a, b in combinations(range(4), 2):
        rest = tuple(slice(None) if t in (a, b) else text[t] for t in range(4))
        assert abs(float(matrix.information[a, b]) - information(p[rest])) < 1e-10


def test_the_visible_text_is_the_context():
    p = joint_of(3, 4, 5)
    model = TabularMLM.from_joint(p)
    matrix = pair_matrix(model, Cloze((3, 3, 1, 3), (0, 1, 3)), 3)
    assert abs(float(matrix.information[0, 2]) - information(p[:, :, 1, :].sum(1))) < 1e-10


def test_negative_controls():
    """A product joint sees no dependence where there is some, and the mrf joint sees another
    one than there is.
    """
    p = joint_of(3, 2, 1)
    model = TabularMLM.from_joint(p)
    exact = information(p)
    assert exact > 0.05
    assert (
        float(
            pair_matrix(
                model, blank(model, 0, 1), 3, construction=named("product")
            ).information.max()
        )
        < 1e-12
    )
    assert (
        abs(
            float(
                pair_matrix(model, blank(model, 0, 1), 3, construction=named("mrf")).information[
                    0, 1
                ]
            )
            - exact
        )
        > 0.01
    )


def test_candidate_sets_give_the_information_inside_them_and_say_their_mass():
    p = joint_of(5, 2, 3)
    model = TabularMLM.from_joint(p)
    joints = []
    matrix = pair_matrix(
        model, blank(model, 0, 1), 3, look=lambda a, b, joint: joints.append(joint)
    )
    sets = joints[0].tables.candidates
    assert abs(float(matrix.information[0, 1]) - information(p[sets[0]][:, sets[1]])) < 1e-10
    assert float(matrix.mass[0, 1]) == pytest.approx(
        float(p.sum(1)[sets[0]].sum() * p.sum(0)[sets[1]].sum())
    )
    assert abs(float(matrix.information[0, 1]) - information(p)) > 1e-3


@pytest.mark.parametrize(
    ("others", "candidates"), [("masked", 3), ("text", 3), ("masked", 5), ("text", 5)]
)
def test_passes_are_those_that_the_model_ran(others, candidates):
    class Counted(TabularMLM):
        rows = 0

        def logits_at(self, ids, positions):
            type(self).rows += len(ids)
            return super().logits_at(ids, positions)

    model = Counted(TabularMLM.random(5, 3, 0).table)
    reported = []
    matrix = pair_matrix(
        model,
        Cloze((5, 5, 5), (0, 1, 2), (0, 1, 2)),
        candidates,
        others,
        progress=lambda done, total, what: reported.append((done, total)),
    )
    assert matrix.passes == Counted.rows
    assert reported == sorted(reported)
    assert len(set(reported)) > 2
    assert reported[0] == (0, matrix.passes)
    assert reported[-1] == (matrix.passes, matrix.passes)
