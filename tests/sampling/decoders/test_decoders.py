"""Decoders: schedules, and the exact log-probability of ancestral sampling."""

from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.enumeration import all_texts
from support.sampling_cases import log_prob, of, small_target, strictly_positive_joint
from unmask.common.errors import ModelError
from unmask.models.tabular import TabularMLM
from unmask.sampling.decoders.ancestral import Ancestral
from unmask.sampling.decoders.confidence import Confidence
from unmask.sampling.decoders.decoder import decode
from unmask.sampling.decoders.entropy_bound import EntropyBound
from unmask.sampling.decoders.in_steps import blanks_left
from unmask.sampling.decoders.mask_predict import MaskPredict
from unmask.sampling.decoders.revise import Revise
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.target import Target


@pytest.mark.parametrize("proposal", [{}, {"temperature": 0.7}])
def test_ancestral_probabilities_sum_to_one_for_every_order(proposal):
    target = small_target(seed=4)
    decoder, texts = of(Ancestral, target, **proposal), all_texts(target)
    laws = []
    for order in permutations(range(3)):
        log_probs = log_prob(decoder, texts, torch.tensor(order).expand(len(texts), -1))
        assert float(log_probs.exp().sum()) == pytest.approx(1.0, abs=1e-13)
        laws.append(log_probs.exp())
    assert float((laws[0] - laws[-1]).abs().sum()) > 0.01, (
        "incompatible conditionals: the order matters"
    )


def test_ancestral_probabilities_respect_constraints_and_sum_to_one():
    model = TabularMLM.random(4, 3, 5)
    model.special_ids = (0,)
    target = Target(model, [4, 2, 4], allowed={2: [1, 3]})
    texts = all_texts(target)
    log_probs = log_prob(of(Ancestral, target), texts, torch.tensor([1, 0]).expand(len(texts), -1))
    assert len(texts) == 6
    assert float(log_probs.exp().sum()) == pytest.approx(1.0, abs=1e-13)


def test_ancestral_sampling_of_compatible_conditionals_is_the_joint():
    joint = strictly_positive_joint(3, 3, 2)
    target = small_target(model=TabularMLM.from_joint(joint))
    texts = all_texts(target)
    for order in ([0, 1, 2], [2, 0, 1]):
        log_probs = log_prob(of(Ancestral, target), texts, torch.tensor(order).expand(27, -1))
        assert torch.allclose(log_probs.exp(), joint[tuple(texts.T)], atol=1e-14)


def test_ancestral_draws_report_their_own_log_probability():
    target = small_target(seed=4)
    decoder = of(Ancestral, target)
    state, passes = decode(decoder, 500, ChainStreams(0, range(500)).at(0, 0))
    assert passes.tolist() == [3] * 500
    assert torch.allclose(state.log_prob, log_prob(decoder, state.ids, state.order), atol=1e-12)
    fixed = of(Ancestral, target, order="right-to-left")
    drawn, _ = decode(fixed, 6000, ChainStreams(1, range(6000)).at(0, 0))
    law = log_prob(decoder, all_texts(target), torch.tensor([2, 1, 0]).expand(27, -1)).exp()
    seen = torch.bincount(drawn.ids @ torch.tensor([9, 3, 1]), minlength=27) / 6000
    assert float((seen - law).abs().sum() / 2) < 0.03


def test_steps_leave_fewer_and_fewer_blanks():
    assert [blanks_left(10, s, 5) for s in range(1, 6)] == [8, 6, 4, 2, 0]


@pytest.mark.parametrize("decoder_class", [MaskPredict, Confidence, Revise])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_decoders_fill_everything_inside_the_support(tiny, decoder_class, temperature):
    template = tiny.cloze("the cat [MASK] [MASK] [MASK] [MASK] .").ids
    target = Target(tiny, template, allowed={4: [7, 8]})
    decoder = of(decoder_class, target, passes=3, temperature=temperature)
    state, passes = decode(decoder, 4, ChainStreams(0, range(4)).at(0, 0))
    target.check(state.ids)
    assert int(passes.max()) <= 3
    again, _ = decode(decoder, 4, ChainStreams(0, range(4)).at(0, 0))
    assert torch.equal(again.ids, state.ids)
    if temperature == 0:
        assert bool((state.ids == state.ids[0]).all())


def test_confidence_order_with_one_site_a_step_is_easy_first():
    target = small_target(seed=8)
    model = target.model
    decoder = of(Confidence, target, passes=3, temperature=0.0)
    state, passes = decode(decoder, 1, ChainStreams(0, [0]).at(0, 0))
    ids = [3, 3, 3]
    for _ in range(3):
        blank = [t for t in range(3) if ids[t] == 3]
        probs = {t: model.table[(t, *ids)].softmax(-1) for t in blank}
        best = max(blank, key=lambda t: float(probs[t].max()))
        ids[best] = int(probs[best].argmax())
    assert state.ids[0].tolist() == ids
    assert passes.tolist() == [3]


def test_mask_predict_masks_the_least_sure_again():
    target = small_target(seed=8)
    decoder = of(MaskPredict, target, passes=2, temperature=0.0)
    rng = ChainStreams(0, [0]).at(0, 0)
    state = decoder.init(1, rng)
    first = [int(target.model.table[(t, 3, 3, 3)].argmax()) for t in range(3)]
    sure = [float(target.model.table[(t, 3, 3, 3)].softmax(-1).max()) for t in range(3)]
    state, passes = decoder.step(state, rng)
    assert passes.tolist() == [1]
    least = min(range(3), key=lambda t: sure[t])
    assert state.ids[0].tolist() == [3 if t == least else first[t] for t in range(3)]


def revised_by_hand(model, steps):
    """Texts step by step from the table: all sites at once from the text as it is."""
    texts = [[3, 3, 3]]
    for _ in range(steps):
        texts.append([int(model.table[(t, *texts[-1])].argmax()) for t in range(3)])
    return texts[1:]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_revision_predicts_every_token_from_the_whole_text_until_nothing_changes(seed):
    target = small_target(seed=seed)
    wanted = revised_by_hand(target.model, 8)
    still = next((s for s in range(1, 8) if wanted[s] == wanted[s - 1]), 7)
    for steps in (1, 2, 8):
        state, passes = decode(
            of(Revise, target, passes=steps, temperature=0.0),
            1,
            ChainStreams(0, [0]).at(0, 0),
        )
        assert state.ids[0].tolist() == wanted[steps - 1]
        assert passes.tolist() == [min(steps, still + 1)]


def test_revision_mends_a_first_guess_if_the_model_corrects_what_it_sees_and_not_if_it_copies():
    table = torch.zeros(2, 3, 3, 2, dtype=torch.float64)
    table[0, ..., 0] = table[1, ..., 1] = 1.0  # blank: "0 1", a pair that does not exist
    table[:, :2, :2, :] = 0.0
    table[:, 0, :2, 0] = table[:, 1, :2, 1] = 2.0  # corrects: both follow the first token
    target = small_target(model=TabularMLM(table))
    state, passes = decode(of(Revise, target, temperature=0.0), 1, ChainStreams(0, [0]).at(0, 0))
    assert state.ids[0].tolist() == [0, 0]
    assert passes.tolist() == [3]
    copies = table.clone()
    for x, y in ((x, y) for x in range(2) for y in range(2)):
        copies[:, x, y] = torch.eye(2, dtype=torch.float64)[[x, y]]
    state, _ = decode(
        of(Revise, small_target(model=TabularMLM(copies)), temperature=0.0),
        1,
        ChainStreams(0, [0]).at(0, 0),
    )
    assert state.ids[0].tolist() == [0, 1]


@pytest.mark.parametrize(
    "decoder_class", [MaskPredict, Confidence, Revise, Ancestral, EntropyBound]
)
@pytest.mark.parametrize("heat", [0.0, 1.0])
def test_logits_that_are_no_numbers_are_an_error_and_no_token(decoder_class, heat):
    target = small_target(
        model=TabularMLM(torch.full((3, 4, 4, 4, 3), torch.nan, dtype=torch.float64))
    )
    options = {} if decoder_class is Ancestral else {"temperature": heat}
    with pytest.raises(ModelError, match="not numbers"):
        decode(of(decoder_class, target, **options), 2, ChainStreams(0, [0, 1]).at(0, 0))
