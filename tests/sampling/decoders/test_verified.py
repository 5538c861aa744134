"""Verified sets: the draws follow the law of one token per pass, whatever they were drafted
from; a wrong twin does not.
"""

import pytest
import torch
from scipy.stats import chisquare

from support.enumeration import all_texts
from support.sampling_cases import small_target
from unmask.models.tabular import TabularMLM
from unmask.sampling.decoders.decoder import decode
from unmask.sampling.decoders.least_dependent import surest_and_least_dependent
from unmask.sampling.decoders.revealing import law
from unmask.sampling.decoders.verified import Verified
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.methods import METHODS
from unmask.sampling.target import Target
from unmask.tables.profile import DependenceProfile

PROFILE = DependenceProfile((0.9, 0.4, 0.2, 0.1), "", 1)
DRAWS = 20_000


def verified(target, profile=PROFILE, **options):
    return METHODS["verified"](profile=profile, **options).on(target, Passes(target.model))


def drawn(decoder, n=DRAWS, seed=5):
    """Texts, their log-probabilities, rows and rounds."""
    state, rows = decode(decoder, n, ChainStreams(seed, range(n)).at(1, 0))
    return state, rows


def counted(decoder, ids):
    """How often each of all texts was drawn."""
    texts = all_texts(decoder.target)
    same = (ids[:, None, :] == texts[None, :, :]).all(2)
    return same.sum(0)


def p_value(decoder, ids):
    """Of the draws under the enumerated law of one token per pass; rare texts are one cell."""
    texts = all_texts(decoder.target)
    expected = law(decoder, texts, ChainStreams(3, [0] * len(texts)).at(0, 0)).log_q.sum(
        1
    ).exp() * len(ids)
    counts, rare = counted(decoder, ids), expected < 5
    cells = [
        torch.cat([x[~rare], x[rare].sum(0, keepdim=True)]).double() for x in (counts, expected)
    ]
    cells = [x[cells[1] > 0] for x in cells]
    return chisquare(cells[0].numpy(), (cells[1] * cells[0].sum() / cells[1].sum()).numpy()).pvalue


@pytest.mark.filterwarnings("ignore:.*has no dependence profile")
@pytest.mark.parametrize("profile", [PROFILE, None])
@pytest.mark.parametrize(
    ("steps", "temperature", "seed"), [(1, 1.0, 5), (2, 1.0, 6), (2, 0.6, 7), (4, 1.0, 8)]
)
def test_draws_follow_the_law_of_one_token_per_pass(profile, steps, temperature, seed):
    decoder = verified(
        small_target(3, 4, seed=seed),
        profile=profile,
        sets=steps,
        temperature=temperature,
    )
    state, _ = drawn(decoder)
    assert p_value(decoder, state.ids) > 1e-4
    exact = law(decoder, state.ids[:200], ChainStreams(3, [0] * 200).at(0, 0)).log_q.sum(1)
    assert torch.allclose(state.log_prob[:200], exact, atol=1e-9)


def test_a_wrong_twin_fails(monkeypatch):
    """Redrawing from p in place of (p - d)_+ gives another law."""
    decoder = verified(small_target(3, 4, seed=5), sets=1)

    def from_p(self, of_p, of_d, uniform):
        return of_p.draw(uniform).tokens

    monkeypatch.setattr(Verified, "_redrawn", from_p)
    assert p_value(decoder, drawn(decoder)[0].ids) < 1e-8


def test_drafts_from_any_distribution_leave_the_law_as_it_is(monkeypatch):
    """Uniform drafts: only the number of rounds grows."""
    decoder = verified(small_target(3, 4, seed=6), sets=1)
    usual, sets = drawn(decoder)[0].rounds, Verified._choose

    def uniform(self, on, state, texts, outputs):
        sets(self, on, state, texts, outputs)
        if state.outputs is not None:
            state.outputs[texts], state.fresh[texts] = 0.0, False

    monkeypatch.setattr(Verified, "_choose", uniform)
    state, _ = drawn(decoder)
    assert p_value(decoder, state.ids) > 1e-4
    assert state.rounds.double().mean() > usual.double().mean()


def test_sets_begin_with_the_surest_and_go_on_with_the_least_dependent():
    """Against plain loops; without dependence the order is that of the entropies."""
    draw = torch.Generator().manual_seed(3)
    entropy = torch.rand((20, 7), generator=draw, dtype=torch.float64)
    blank = torch.rand((20, 7), generator=draw) < 0.8
    blank[:, 0] = True
    information = torch.rand((20, 7, 7), generator=draw, dtype=torch.float64) / 4
    size = -(-blank.sum(1, keepdim=True) // 2)
    for scale in (0.0, 1.0):
        places = surest_and_least_dependent(entropy, blank, scale * information, size)
        for i in range(20):
            left, order = blank[i].nonzero()[:, 0].tolist(), list[int]()
            while len(order) < int(size[i]):
                near = {a: scale * sum(float(information[i, a, b]) for b in order) for a in left}
                order.append(
                    min(
                        left,
                        key=lambda a, near=near, h=entropy[i]: (
                            float(h[a]) + 64 * min(float(h[a]), near[a])
                        ),
                    )
                )
                left.remove(order[-1])
            expected = [order.index(a) if a in order else 7 for a in range(7)]
            assert places[i].tolist() == expected
            assert scale or order == sorted(order, key=lambda a, h=entropy[i]: float(h[a]))


def test_independent_sites_are_accepted_whole():
    """No token depends on another: one look, then one round per set."""
    q = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]], dtype=torch.float64)
    joint = q[0][:, None, None] * q[1][None, :, None] * q[2][None, None, :]
    model = TabularMLM.from_joint(joint)
    state, rows = drawn(verified(Target(model, [3, 3, 3]), sets=1), 500)
    assert state.rounds.tolist() == [2] * 500
    assert rows.tolist() == [3] * 500
    assert (counted(verified(Target(model, [3, 3, 3])), state.ids) > 0).sum() > 20


def test_at_temperature_0_the_text_is_that_of_one_token_per_pass():
    for seed in range(8):
        decoder = verified(small_target(4, 4, seed=seed), sets=2, temperature=0.0)
        state, _ = drawn(decoder, 3)
        one_by_one = decoder.init(3, ChainStreams(5, range(3)).at(1, 0))

        def likeliest(texts, conditionals, site):
            return conditionals.draw(torch.full_like(site, 0.5, dtype=torch.float64))

        from unmask.sampling.decoders.revealing import Law

        for _ in range(decoder.steps):
            part = Law.unknown(one_by_one)
            decoder.method.reveal(decoder, one_by_one, likeliest, part)
        assert torch.equal(state.ids, one_by_one.ids)


@pytest.mark.parametrize("heat", [0.0, 1.0])
def test_computing_everything_changes_nothing(monkeypatch, heat):
    """A round of one shape, as a GPU records it: every draft and row that there may be, and
    those that are not needed unused.
    """
    decoder = verified(small_target(4, 4, seed=3), sets=2, temperature=heat)
    some, rows = drawn(decoder, 60)
    round_of = Verified._round
    monkeypatch.setattr(
        Verified, "_round", lambda self, *parts: round_of(self, *parts, everywhere=True)
    )
    every, same = drawn(decoder, 60)
    for name in ("ids", "log_prob", "confidence", "rounds"):
        assert torch.equal(getattr(some, name), getattr(every, name))
    assert torch.equal(rows, same)


@pytest.mark.parametrize("seed", [5, 6])
def test_the_confidence_of_a_text_is_its_probability_at_temperature_1(seed):
    """The probability of each token when it was chosen: together that of the text, in the order
    of the draws.
    """
    state, _ = drawn(verified(small_target(3, 4, seed=seed), sets=2), 300)
    assert bool((state.confidence < 1).all())
    assert torch.allclose(state.confidence.log().sum(1), state.log_prob, atol=1e-9)


@pytest.mark.parametrize("heat", [0.0, 0.6, 1.0])
def test_the_confidence_is_the_models_own_at_every_temperature(heat):
    """Sites that are independent: whatever is revealed, a token's probability is that of its
    site.
    """
    marginals = torch.tensor(
        [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.25, 0.35, 0.4]], dtype=torch.float64
    )
    joint = torch.einsum("a,b,c->abc", *marginals)
    target = small_target(model=TabularMLM.from_joint(joint))
    decoder = verified(target, sets=2, temperature=heat)
    state, _ = drawn(decoder, 200)
    tokens = state.ids[:, target.free_positions]
    expected = marginals.expand(len(tokens), -1, -1).gather(2, tokens[:, :, None])[:, :, 0]
    assert torch.allclose(state.confidence, expected, atol=1e-9)
