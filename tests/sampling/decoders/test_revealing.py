"""Decoders that choose positions before they draw tokens: their laws, by enumeration and pass
by pass.
"""

from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from support.enumeration import all_texts
from support.sampling_cases import of, small_target, strictly_positive_joint
from unmask.common.errors import InputError, UnmaskWarning
from unmask.models.tabular import TabularMLM
from unmask.sampling.decoders.decoder import decode
from unmask.sampling.decoders.entropy_bound import least_bound
from unmask.sampling.decoders.interleaved import Interleaved, every_nth
from unmask.sampling.decoders.least_dependent import FALL, LeastDependent
from unmask.sampling.decoders.revealing import law
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.methods import METHODS
from unmask.sampling.target import Target
from unmask.tables.profile import DependenceProfile

PROFILE = DependenceProfile((0.9, 0.4, 0.2, 0.1), "", 1)
WITH_LAW = [name for name, entry in METHODS.items() if getattr(entry, "chooses", "")]
CASES = [(name, {METHODS[name].parts: steps}) for name in WITH_LAW for steps in (1, 2, 3, 9)]
CASES += [
    (name, {"gamma": value})
    for name in WITH_LAW
    if METHODS[name].limited_by
    for value in (0.0, 0.3, 1.0, 1e6)
]


def decoder_of(name, target, **options):
    profile = {"profile": PROFILE} if hasattr(METHODS[name], "profile") else {}
    return METHODS[name](**profile, **options).on(target, Passes(target.model))


def same_order(n):
    """The streams of one chain for each of n texts: all have the same random order."""
    return ChainStreams(3, [0] * n).at(0, 0)


def log_law(decoder):
    """Of all texts."""
    texts = all_texts(decoder.target)
    return law(decoder, texts, same_order(len(texts))).log_q.sum(1)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_every_law_sums_to_one_over_all_texts(name, options):
    constrained = TabularMLM.random(4, 4, 5)
    constrained.special_ids = (0,)
    for target, temperature in (
        (small_target(3, 4, seed=5), 1.0),
        (Target(constrained, [4, 2, 4, 4], allowed={2: [1, 3]}), 0.6),
    ):
        log_probs = log_law(decoder_of(name, target, temperature=temperature, **options))
        assert float(log_probs.exp().sum()) == pytest.approx(1.0, abs=1e-10)


def entropy_of(q):
    return float(torch.special.entr(q).sum())


def sets_by_hand(name, q, blank, step, left, options):
    """The sites that a rule fills next, from the distributions `q` of the blanks."""
    entropy = {s: entropy_of(q[s]) for s in blank}
    if name == "interleaved":
        passes = min(4, options["passes"])
        return [
            s
            for s in blank
            if s % passes == {1: [0], 2: [0, 1], 3: [0, 2, 1], 4: [0, 2, 1, 3]}[passes][step]
        ]
    if name == "lowest-entropy":
        return sorted(blank, key=entropy.get)[: -(-len(blank) // left)]
    if name == "entropy-bound":
        rising, taken = sorted(blank, key=entropy.get), []
        while rising and sum(entropy[s] for s in taken) <= options["gamma"]:
            taken.append(rising.pop(0))
        return taken
    tie = {
        (s, o): PROFILE.by_distance[abs(s - o) - 1] * min(entropy[s], entropy[o])
        for s in blank
        for o in blank
        if s != o
    }
    sums = {s: sum(tie[s, o] for o in blank if o != s) for s in blank}
    if "gamma" not in options:
        surest = min(blank, key=entropy.get)
        sets = [[] for _ in range(left)]
        for s in sorted(blank, key=lambda s: -sums[s]):
            open_sets = [k for k in range(left) if len(sets[k]) < (len(blank) + k) // left]
            cost = {
                k: FALL**k * min(entropy[s], sum(tie[s, o] for o in sets[k])) for k in open_sets
            }
            sets[min(open_sets, key=cost.get)].append(s)
        return next(taken for taken in sets if surest in taken)
    taken, total = [max(blank, key=sums.get)], 0.0
    while rest := [s for s in blank if s not in taken]:
        term = {s: min(entropy[s], sum(tie[s, o] for o in taken)) for s in rest}
        best = min(rest, key=term.get)
        if (total := total + term[best]) > options["gamma"]:
            break
        taken.append(best)
    return taken


def law_by_hand(model, text, name, options):
    ids, total, passes, entropies = [model.mask_id] * len(text), 0.0, 0, [0.0] * len(text)
    steps = min(len(text), options.get("passes", len(text)))
    while blank := [s for s, i in enumerate(ids) if i == model.mask_id]:
        q = {s: model.table[(s, *ids)].softmax(0) for s in blank}
        taken = (
            blank
            if passes == steps - 1
            else sets_by_hand(name, q, blank, passes, steps - passes, options)
        )
        total += sum(float(q[s][text[s]].log()) for s in taken)
        for s in taken:
            ids[s], entropies[s] = text[s], entropy_of(q[s])
        passes += 1
    return total, passes, entropies


BY_HAND = [
    case
    for case in CASES
    if case[0] not in ("random-sets", "verified")
    and not (case[0] == "entropy-bound" and "gamma" not in case[1])
]


@pytest.mark.parametrize(("name", "options"), BY_HAND)
def test_laws_are_those_of_a_plain_reference_pass_by_pass(name, options):
    target = small_target(3, 4, seed=11)
    texts = all_texts(target)[::7]
    laws = law(decoder_of(name, target, **options), texts, same_order(len(texts)))
    for row, text in enumerate(texts.tolist()):
        total, passes, entropies = law_by_hand(target.model, text, name, options)
        assert float(laws.log_q[row].sum()) == pytest.approx(total, abs=1e-10)
        assert int(laws.passes[row]) == passes == int(laws.steps[row].max()) + 1
        assert laws.entropy[row].tolist() == pytest.approx(entropies, abs=1e-10)


@pytest.mark.parametrize("name", WITH_LAW)
def test_draws_follow_the_law_and_report_their_own_log_probability(name):
    target = small_target(3, 3, seed=4)
    decoder, n = decoder_of(name, target, temperature=0.8, **{METHODS[name].parts: 2}), 5000
    drawn, passes = decode(decoder, n, ChainStreams(1, range(n)).at(0, 0))
    again = law(decoder, drawn.ids, ChainStreams(1, range(n)).at(0, 0))
    assert torch.allclose(drawn.log_prob, again.log_q.sum(1), atol=1e-12)
    assert (
        bool((passes >= again.passes).all())
        if name == "verified"
        else torch.equal(passes, again.passes)
    )
    seen = torch.bincount(drawn.ids @ torch.tensor([9, 3, 1]), minlength=27) / n
    laws = mean_law(decoder) if name == "random-sets" else log_law(decoder).exp()
    assert float((seen - laws).abs().sum() / 2) < 0.045


def mean_law(decoder, orders=2000):
    """Over random orders."""
    texts = all_texts(decoder.target)
    chains = torch.arange(orders).repeat_interleave(len(texts)).tolist()
    probs = (
        law(decoder, texts.repeat(orders, 1), ChainStreams(9, chains).at(0, 0)).log_q.sum(1).exp()
    )
    return probs.reshape(orders, -1).mean(0)


def test_a_rule_that_looks_at_what_it_drew_gives_a_product_that_does_not_sum_to_one():
    """Confidence keeps the tokens that came out most probable: hidden values decide which
    factor each site gets.
    """
    model, total = TabularMLM.random(3, 3, 8), 0.0
    for text in product(range(3), repeat=3):
        ids, log_product = [3, 3, 3], 0.0
        for _ in range(3):
            blank = [s for s in range(3) if ids[s] == 3]
            log_q = {s: float(model.table[(s, *ids)].log_softmax(0)[text[s]]) for s in blank}
            best = max(blank, key=log_q.get)
            log_product, ids[best] = log_product + log_q[best], text[best]
        total += torch.tensor(log_product).exp().item()
    assert abs(total - 1) > 0.05


def test_alternate_sites_of_a_chain_cost_nothing_given_their_neighbours():
    """Two interleaved passes of a Markov chain lose the total correlation of the first set, and
    nothing in the second.
    """
    generator = torch.Generator().manual_seed(2)
    start, *steps = (
        torch.rand(shape, generator=generator).double() + 0.05 for shape in [(3,)] + [(3, 3)] * 4
    )
    steps = [step / step.sum(1, keepdim=True) for step in steps]
    joint = torch.einsum("a,ab,bc,cd,de->abcde", start / start.sum(), *steps)
    target = small_target(model=TabularMLM.from_joint(joint))
    first = joint.sum((1, 3))
    alone = [first.sum(axes) for axes in ((1, 2), (0, 2), (0, 1))]
    correlation = sum(entropy_of(m) for m in alone) - entropy_of(first.flatten())
    divergence = float(
        (
            joint.flatten() * (joint.flatten().log() - log_law(of(Interleaved, target, passes=2)))
        ).sum()
    )
    assert divergence == pytest.approx(correlation, abs=1e-12)
    assert correlation > 1e-3


@pytest.mark.parametrize("passes", [2, 4, 8, 16])
def test_after_half_of_the_interleaved_passes_every_site_has_revealed_neighbours(passes):
    revealed = sum(every_nth(33, passes, step) for step in range(passes // 2)).bool()
    assert all(
        revealed[s - 1] and (s == 32 or revealed[s + 1]) for s in range(33) if not revealed[s]
    )


def sets_under(bound, rising):
    """Into how many sets entropies in rising order are parted, if each without its largest has
    a sum of at most `bound`.
    """
    sets, rest = 0, list(rising)
    while rest:
        size = max(n for n in range(1, len(rest) + 1) if sum(rest[: n - 1]) <= bound)
        sets, rest = sets + 1, rest[size:]
    return sets


@given(
    st.lists(st.floats(0.01, 8.0), min_size=1, max_size=9).flatmap(
        lambda entropies: st.tuples(
            st.just(entropies), st.integers(1, len(entropies)), st.integers(0, 3)
        )
    )
)
def test_the_bound_for_a_number_of_passes_is_the_smallest(case):
    """Whether a set fits depends on sums of neighbours in rising order: one of these sums is
    the smallest bound.
    """
    entropies, passes, hidden = case
    rising = sorted(entropies)
    sums = {0.0} | {
        sum(rising[i:j]) for i in range(len(rising)) for j in range(i + 1, len(rising) + 1)
    }
    smallest = min(bound for bound in sums if sets_under(bound, rising) <= passes)
    row = torch.tensor([[*entropies, *[torch.inf] * hidden]], dtype=torch.float64)
    least = float(least_bound(row, passes))
    assert smallest * (1 - 1e-12) <= least <= smallest + 2e-6 * sum(rising)


def test_a_model_without_a_profile_is_interleaved_and_says_so():
    target = small_target(3, 4, seed=3)
    with pytest.warns(UnmaskWarning, match="no dependence profile: blanks are interleaved"):
        decoder = of(LeastDependent, target, passes=2)
    assert torch.equal(log_law(decoder), log_law(of(Interleaved, target, passes=2)))


def test_a_point_mass_is_not_a_score():
    target = small_target(3, 3, seed=3)
    decoder = of(Interleaved, target, passes=2, temperature=0.0)
    state, _ = decode(decoder, 5, ChainStreams(0, range(5)).at(0, 0))
    assert not decoder.exact
    assert bool((state.ids == state.ids[0]).all())
    with pytest.raises(InputError, match="temperature 0"):
        law(decoder, all_texts(target), same_order(27))


def test_profiles_that_do_not_fit_are_refused(tmp_path):
    target = small_target(3, 4, seed=3)
    short = of(LeastDependent, target, profile=DependenceProfile((0.5, 0.25), "", 1))
    with pytest.raises(
        InputError,
        match="the profile has 2 distances, and the text has blanks 3 tokens apart: measure",
    ):
        log_law(short)
    target.model.fingerprint = "this"
    with pytest.raises(
        InputError, match="the profile was measured on model that, and this is this: measure"
    ):
        of(
            LeastDependent,
            target,
            profile=DependenceProfile((0.5,), "that", 1, {"dtype": "float64"}),
        )
    of(
        LeastDependent, target, profile=DependenceProfile((0.5,), "that", 1, {"dtype": "float16"})
    )  # the same weights, perhaps
    for content, wrong in (
        ("[]", "not an object"),
        ("{}", "lacks 'by_distance'"),
        ("{", "damaged"),
        ('{"by_distance": [], "fingerprint": "a", "n_texts": 1}', "has no values"),
        ('{"by_distance": [-1], "fingerprint": "a", "n_texts": 1}', "out of range"),
    ):
        (tmp_path / "profile.json").write_text(content)
        with pytest.raises(InputError, match=wrong):
            DependenceProfile.load(tmp_path / "profile.json")


def test_compatible_conditionals_one_by_one_are_the_joint():
    joint = strictly_positive_joint(3, 4, 2)
    target = small_target(model=TabularMLM.from_joint(joint))
    for name in WITH_LAW:
        assert torch.allclose(
            log_law(decoder_of(name, target, **{METHODS[name].parts: 4})),
            joint.flatten().log(),
            atol=1e-10,
        )
