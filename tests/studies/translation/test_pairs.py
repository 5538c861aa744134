"""Sources and translations in one text: layout, padding that nobody looks at, causal models
step by step, entropy bounds.
"""

from itertools import product

import pytest
import torch

from support.enumeration import energy_terms, target_law, transition_matrix
from unmask.models.encoder.bert import BertMaskedLM
from unmask.models.pair_layout import PairLayout
from unmask.models.tabular import TabularMLM
from unmask.sampling.decoders.ancestral import Ancestral
from unmask.sampling.decoders.decoder import decode
from unmask.sampling.decoders.entropy_bound import EntropyBound
from unmask.sampling.energies.with_terms import Energy
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.kernels.block import Block
from unmask.sampling.kernels.mh import MH
from unmask.sampling.kernels.sequential_block import SequentialBlock
from unmask.sampling.target import Target
from unmask.studies.training.encoder import PackedBert
from unmask.studies.training.masking.schemes import UniformRate
from unmask.studies.training.objectives import CausalTasks, MaskedTasks
from unmask.studies.training.packed_text import PackedText, Vocabulary
from unmask.studies.training.settings import TrainSettings
from unmask.studies.training.start import new_model
from unmask.studies.translation.causal_pairs import CausalPairs, beam_search

LAYOUT = PairLayout(source_length=8, max_length=16, start=2, end=3, pad=0, mask=4)
VOCABULARY = Vocabulary(12, 2, 0, 4, torch.arange(12) < 5, end=3, target=8)
SOURCES, TARGETS = ([5, 6, 7], [8]), ([9, 10], [11, 5, 6])


def network(seed: int = 0) -> BertMaskedLM:
    return new_model(
        TrainSettings(layers=2, width=16, heads=2, vocab=64, seed=seed, max_length=16), 12
    ).double()


def packed() -> PackedText:
    row = [
        i
        for source, target in zip(SOURCES, TARGETS, strict=True)
        for i in LAYOUT.segment(source, target)
    ]
    return PackedText.of(torch.tensor([row + [0] * (16 - len(row))], dtype=torch.int32), VOCABULARY)


def test_a_translation_has_positions_from_the_end_of_the_sources_room_on() -> None:
    text = packed()
    assert text.position[0, :14].tolist() == [0, 1, 2, 3, 4, 8, 9, 10, 0, 1, 2, 8, 9, 10]
    assert text.source[0].nonzero().squeeze(1).tolist() == [0, 1, 2, 3, 4, 8, 9, 10]
    assert text.maskable[0].nonzero().squeeze(1).tolist() == [5, 6, 11, 12, 13]
    plain = PackedText.of(text.ids, Vocabulary(12, 2, 0, 4, torch.arange(12) < 5))
    assert not plain.source.any()
    assert int(plain.position.max()) == 7


def test_only_the_translation_is_asked_for_and_its_end_by_a_causal_model() -> None:
    text, generator = packed(), torch.Generator().manual_seed(0)
    predicted = (
        CausalTasks().task(text, VOCABULARY, generator).predicted[0].nonzero().squeeze(1).tolist()
    )
    assert predicted == [4, 5, 6, 10, 11, 12, 13]
    everything = MaskedTasks(UniformRate(1.0, 1.0)).task(text, VOCABULARY, generator)
    assert torch.equal(everything.predicted, text.maskable)
    too = MaskedTasks(UniformRate(1.0, 1.0), source=0.999999).task(text, VOCABULARY, generator)
    assert int(too.predicted.sum()) == 5 + 4
    assert int((too.shown == 4).sum()) == 9


def test_nobody_looks_at_padding() -> None:
    """A pair in its padded room has the states that it has packed beside another; with the
    padding seen it has not.
    """
    model, text = network(), packed()
    rows = torch.tensor(
        [[*LAYOUT.room(s), *t, 3] for s, t in zip(SOURCES, ([9, 10, 3], TARGETS[1]), strict=True)]
    )
    beside = PackedBert(model, torch.float64).hidden(text.ids, text)
    with torch.no_grad():
        seen = model.bert(rows)[1, 8:11]
        model.bert.unseen = 0
        alone = model.bert(rows)[1, 8:11]
    assert (alone - beside[11:14]).abs().max() < 1e-12
    assert (seen - beside[11:14]).abs().max() > 1e-3


def causal_log_prob(model: BertMaskedLM, source: list[int], target: list[int]) -> float:
    """log p(target, end | source) from one pass over the packed pair, special tokens but the
    end ruled out nowhere.
    """
    segment = LAYOUT.segment(source, target)
    text = PackedText.of(
        torch.tensor([segment + [0] * (16 - len(segment))], dtype=torch.int32), VOCABULARY
    )
    with torch.no_grad():
        logits = model.head(PackedBert(model, torch.float64, causal=True).hidden(text.ids, text))
    first = len(source) + 1
    following = torch.tensor([*target, LAYOUT.end])
    return float(
        logits.float().log_softmax(-1)[torch.arange(first, first + len(following)), following].sum()
    )


def test_a_causal_model_reads_step_by_step_what_it_is_trained_on_at_once() -> None:
    model = network(3)
    pairs = CausalPairs(model, LAYOUT, torch.arange(5))
    read, log_probs = pairs.read(torch.tensor([LAYOUT.room(source) for source in SOURCES]))
    target = [[9, 10, 7], [11, 5, 6]]
    total = log_probs[[0, 1], [t[0] for t in target]]
    for place in range(3):
        log_probs = pairs.step(read, torch.tensor([t[place] for t in target]), place)
        total = (
            total + log_probs[[0, 1], [t[place + 1] if place < 2 else LAYOUT.end for t in target]]
        )
    for log_prob, source, tokens in zip(total.tolist(), SOURCES, target, strict=True):
        assert log_prob == pytest.approx(causal_log_prob(model, source, tokens), abs=1e-5)


def test_a_wide_beam_finds_the_likeliest_translation_of_all() -> None:
    short = PairLayout(source_length=8, max_length=11, start=2, end=3, pad=0, mask=4)
    model = network(5)
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight *= 30
    pairs = CausalPairs(model, short, torch.arange(5))
    texts = [list(t) for n in (0, 1, 2) for t in product(range(5, 12), repeat=n)]
    best = max(texts, key=lambda t: causal_log_prob(model, SOURCES[0], t) / (len(t) + 1))
    widest = beam_search(pairs, [SOURCES[0]], width=60)[0]
    assert list(widest.tokens) == best
    assert widest.log_prob == pytest.approx(causal_log_prob(model, SOURCES[0], best), abs=1e-5)
    greedy = beam_search(pairs, SOURCES, width=1)
    per_token = [one.log_prob / (len(one.tokens) + 1) for one in (greedy[0], widest)]
    assert per_token[0] <= per_token[1] + 1e-9
    assert len(greedy) == 2


def conditioned(seed: int = 0) -> Target:
    """Texts of four tokens, of which the first is given, and may differ from text to text."""
    model = TabularMLM.random(3, 4, seed)
    return Target(model, [0, *[model.mask_id] * 3], Energy("norm"), given=[0])


def test_what_a_text_is_conditioned_on_has_no_term_and_stays() -> None:
    target = conditioned()
    texts = torch.tensor([[0, 1, 2, 0], [2, 1, 1, 0]])
    target.check(texts)
    assert target.columns == 3
    assert target.sites == 3
    kernel = MH().on(target, Passes(target.model))
    state, _ = kernel.init(texts)
    assert torch.allclose(state.energy, energy_terms(target.model, texts, "norm", [1, 2, 3]).sum(1))
    blank = texts.clone()
    blank[:, 1:] = target.model.mask_id
    decoder = EntropyBound().on(target)
    filled, _ = decode(decoder, 2, ChainStreams(0, [0, 1]).at(0, 0), blank)
    assert filled.ids[:, 0].tolist() == [0, 2]
    assert bool((filled.ids < 3).all())


@pytest.mark.parametrize("kernel", [MH, Block, SequentialBlock])
def test_a_chain_leaves_the_law_given_its_source_invariant(kernel: type) -> None:
    """exp(-E(y | s)) for each source s; the law whose energy has the source's own term is
    another one, and not invariant.
    """
    model = TabularMLM.random(2, 3, 4)
    sites = torch.tensor([0]) if kernel is MH else torch.tensor([1, 0])
    for source in range(2):
        template = [source, model.mask_id, model.mask_id]
        target = Target(model, template, Energy("norm"), given=[0])
        matrix = transition_matrix(kernel().on(target), sites)
        law, other = target_law(target), target_law(Target(model, template, Energy("norm")))
        assert (law @ matrix - law).abs().max() < 1e-12
        assert (other @ matrix - other).abs().max() > 1e-3


def test_log_probabilities_of_an_order_sum_to_one_given_each_source() -> None:
    target = conditioned(1)
    for first in (0, 2):
        texts = torch.tensor([[first, *rest] for rest in product(range(3), repeat=3)])
        on = Ancestral().on(target)
        log_prob = on.method.log_prob(on, texts, torch.tensor([[2, 0, 1]]).repeat(27, 1))
        assert float(log_prob.exp().sum()) == pytest.approx(1.0, abs=1e-12)
