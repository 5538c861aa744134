"""Decoders that choose positions before they draw tokens: their laws, by enumeration and pass by pass."""


import pytest
from sampling_cases import of, small_target

from unmask.tables.profile import Profile
from unmask.sampling.decoders.revealing import law
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.enumeration import all_texts
from unmask.sampling.registry import KERNELS

PROFILE = Profile((0.9, 0.4, 0.2, 0.1), "", 1)
WITH_LAW = [name for name, entry in KERNELS.items() if entry.law]
BOUNDS = {"gamma": (0.0, 0.3, 1.0, 1e6), "tau": (0.0, 0.5, 1.0)}
CASES = [(name, {"decoding_steps": steps}) for name in WITH_LAW for steps in (1, 2, 3, 4, 9)]
CASES += [(name, {bound: value}) for name in WITH_LAW if (bound := KERNELS[name].bound) for value in BOUNDS[bound]]


def decoder_of(name, target, **options):
    profile = {"profile": PROFILE} if "profile" in KERNELS[name].options else {}
    return of(KERNELS[name].load(), target, **profile, **options)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_every_law_sums_to_one_over_all_texts(name, options):
    for target in (small_target(3, 4, seed=5), small_target(2, 5, seed=6)):
        texts = all_texts(target)
        found = law(decoder_of(name, target, **options), texts, same_streams(len(texts)))
        assert float(found.log_q.sum(1).exp().sum()) == pytest.approx(1.0, abs=1e-10)


def same_streams(n):
    """The streams of one chain, for each of n texts: the same random order."""
    return ChainStreams(3, [0] * n).at(0, 0)
