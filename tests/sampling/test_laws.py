"""Every kernel and decoder keeps the laws of its kind; one that breaks a law is found, and told
which.
"""

from pathlib import Path
from typing import ClassVar, get_args

import pytest
import torch

import unmask
from support.sampling_cases import ChangedOnlyBlock, Flipped, SubsetEnergy, small_target
from unmask.sampling import decoder_check
from unmask.sampling.decoders.ancestral import Order
from unmask.sampling.decoders.decoder import DECODERS, decode, lowest
from unmask.sampling.decoders.in_steps import InSteps
from unmask.sampling.decoders.lowest_entropy import LowestEntropy
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.kernels.kernel import KERNELS
from unmask.tables.profile import DependenceProfile
from unmask.testing import check_decoder, check_kernel

PROFILE = DependenceProfile((0.9, 0.4, 0.2, 0.1), "", 1)
FOLDERS = Path(unmask.__file__).parent / "sampling"


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_keeps_the_laws_of_kernels(name):
    check_kernel(KERNELS[name]())


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.filterwarnings("ignore:.*has no dependence profile")
def test_every_decoder_keeps_the_laws_of_decoders(name):
    cls = DECODERS[name]
    check_decoder(cls())
    if cls.parts:
        check_decoder(cls.in_parts(2, temperature=0.7))
    if hasattr(cls, "profile"):
        check_decoder(cls.in_parts(2, profile=PROFILE))


def settings_at_temperature_0(name):
    """A decoder with its defaults, with other numbers of passes, and with every order."""
    cls = DECODERS[name]
    settings = [{}]
    if cls.parts:
        settings += [{cls.parts: number} for number in (1, 2, 3)]
    if name == "ancestral":
        settings += [{"order": order} for order in get_args(Order)]
    return [cls(temperature=0.0, **some) for some in settings]


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.filterwarnings("ignore:.*has no dependence profile")
def test_a_decoder_knows_whether_it_is_random(name):
    """At temperature 0 other random numbers make other texts, or passes, where it says so."""
    assert DECODERS[name]().is_random(1)
    for sites in (1, 2, 5):
        target = small_target(vocab=6, length=sites)
        for decoder in settings_at_temperature_0(name):
            on_target = decoder.on(target)
            drawn = set()
            for seed in range(8):
                state, passes = decode(on_target, 4, ChainStreams(seed, range(4)).at(0, 0))
                drawn.add((tuple(state.ids.flatten().tolist()), tuple(passes.tolist())))
            assert decoder.is_random(sites) == (len(drawn) > 1), (decoder, sites)


def test_a_decoder_of_a_user_may_be_random_at_temperature_0():
    assert Stopping(temperature=0.0).is_random(1)


@pytest.mark.parametrize(("folder", "registry"), [("kernels", KERNELS), ("decoders", DECODERS)])
def test_a_file_of_a_method_is_a_method_and_nothing_else_names_it(folder, registry):
    """One class, one file: the name of a method stands in its own file alone."""
    for name, cls in registry.items():
        stated = f'name = "{name}"'
        holders = [path for path in FOLDERS.rglob("*.py") if stated in path.read_text("utf-8")]
        assert [path.stem for path in holders] == [cls.__module__.rpartition(".")[2]]
        assert holders[0].parent.name == folder


# ---- what must fail, fails ----


@unmask.method
class Drawing(unmask.MH):
    """Draws outside of the given randomness."""

    def propose(self, on, state, rng, sites):
        move = super().propose(on, state, rng, sites)
        return move._replace(tokens=torch.randint(0, 2, move.tokens.shape), own_terms=None)


@unmask.method
class Straying(unmask.Gibbs):
    """Changes a site that it was not given."""

    def step(self, on, state, rng, sites):
        state, info = super().step(on, state, rng, sites)
        other = (sites[:, 0] + 1) % on.target.sites
        state.ids[state.rows, on.target.free_positions[other]] = 0
        return state, info


@unmask.method
class Promising(unmask.Gibbs):
    """Promises the law of the norm energy."""

    law: ClassVar[str] = "exp(-E)"

    def log_law(self, on, ids):
        return unmask.MH().log_law(on, ids)


@unmask.method
class Uncountable(unmask.MH):
    """Uses uniform numbers in its own way."""

    def propose(self, on, state, rng, sites):
        rng.uniform(state.rows, torch.zeros((1, 1), dtype=torch.long))
        return super().propose(on, state, rng, sites)


@pytest.mark.parametrize(
    ("kernel", "sentence"),
    [
        (Drawing, "draws outside of the given randomness"),
        (Straying, "which is none of them"),
        (Promising, "leaves exp\\(-E\\) invariant, and a step at the sites"),
        (Uncountable, "asks for uniform numbers"),
        (Flipped, "moves this law by"),
        (SubsetEnergy, "moves this law by"),
        (ChangedOnlyBlock, "moves this law by"),
    ],
)
def test_a_kernel_that_breaks_a_law_is_found(kernel, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_kernel(kernel())


@unmask.method
class Peeking(LowestEntropy):
    """Chooses by what it will draw: the first token decides."""

    def choose(self, on, observed):
        probable = observed.ids[:, on.target.free_positions].sum(1, keepdim=True) + observed.order
        return lowest(torch.rand(probable.shape).double(), observed.blank, observed.share)


@unmask.method
class Stopping(InSteps):
    """Leaves blanks."""

    def step(self, on, state, rng):
        filled = self.fill(on, state, rng)
        return self.end(on, state, filled, lowest(state.confidence, filled, 1))


@unmask.method
class Miscounting(unmask.Confidence):
    """States half of its passes."""

    def step(self, on, state, rng):
        state, passes = super().step(on, state, rng)
        return state, passes // 2


@unmask.method
class Boasting(unmask.Confidence):
    """Says that its texts have a law, and multiplies what it drew."""

    @property
    def exact(self):
        return True

    def log_law(self, on, ids, rng):
        return unmask.LowestEntropy(passes=self.passes).log_law(
            unmask.LowestEntropy(passes=self.passes).on(on.target), ids, rng
        )


@pytest.mark.parametrize(
    ("decoder", "sentence"),
    [
        (Peeking, "draws outside of the given randomness"),
        (Stopping, "have blanks"),
        (Miscounting, "says that step 1 took 0 passes"),
        (Boasting, "log_prob of texts"),
    ],
)
def test_a_decoder_that_breaks_a_law_is_found(decoder, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_decoder(decoder(passes=2))


def test_draws_of_another_frequency_are_found():
    made = unmask.LowestEntropy(passes=2).on(next(decoder_check._small_targets()))
    state, _passes = decoder_check._drawn(made)
    decoder_check._check_frequencies(made, state)
    state.ids[:300] = state.ids[0]
    with pytest.raises(AssertionError, match="and its law says"):
        decoder_check._check_frequencies(made, state)
