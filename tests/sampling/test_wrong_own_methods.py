"""What is wrong with a user's own kernel, decoder or term of the energy is one line: an error in
it, with its file and line, and what it returns that is no step.
"""

import pytest
import torch

import unmask
from unmask.common.errors import InputError
from unmask.sampling.methods import METHODS

KERNELS = """
import torch
import unmask
from unmask.sampling.kernels.kernel import Kernel
from unmask.sampling.kernels.metropolis import Metropolis, Proposed


@unmask.method
class Right(Metropolis):
    '''Any token, accepted or not.'''

    def propose(self, on, state, rng, sites):
        site = sites[:, 0]
        drawn = rng.categorical(state.rows, on.target.support[site].double().log())
        zeros = torch.zeros_like(site)
        return Proposed(tokens=drawn.unsqueeze(1), log_ratio=zeros.double(), passes=zeros)


@unmask.method
class NoNumber(Right):
    def propose(self, on, state, rng, sites):
        proposed = super().propose(on, state, rng, sites)
        return proposed._replace(log_ratio=proposed.log_ratio * torch.nan)


@unmask.method
class Shape(Right):
    def propose(self, on, state, rng, sites):
        proposed = super().propose(on, state, rng, sites)
        return proposed._replace(tokens=proposed.tokens[:, 0])


@unmask.method
class Beyond(Right):
    def propose(self, on, state, rng, sites):
        proposed = super().propose(on, state, rng, sites)
        return proposed._replace(tokens=proposed.tokens + 10**6)


@unmask.method
class Nothing(Right):
    def propose(self, on, state, rng, sites):
        return None


@unmask.method
class NoStep(Kernel):
    def step(self, on, state, rng, sites):
        return None


@unmask.method
class NoInfo(unmask.Gibbs):
    def step(self, on, state, rng, sites):
        state, info = super().step(on, state, rng, sites)
        return state, info._replace(accepted=True)


@unmask.method
class Outside(unmask.Gibbs):
    def step(self, on, state, rng, sites):
        state, info = super().step(on, state, rng, sites)
        state.ids[:] = -5
        return state, info


@unmask.method
class Fails(unmask.Gibbs):
    def step(self, on, state, rng, sites):
        raise KeyError("seven")
"""
DECODERS = """
import torch
import unmask
from unmask.sampling.decoders.in_steps import InSteps


@unmask.method
class Right(InSteps):
    def step(self, on, state, rng):
        filled = self.fill(on, state, rng)
        return self.end(on, state, filled, filled & False)


@unmask.method
class NoStep(InSteps):
    def step(self, on, state, rng):
        return None


@unmask.method
class Fails(InSteps):
    def step(self, on, state, rng):
        raise KeyError("seven")


@unmask.method
class Passes(Right):
    def step(self, on, state, rng):
        state, passes = super().step(on, state, rng)
        return state, 1


@unmask.method
class Blanks(InSteps):
    def step(self, on, state, rng):
        return state, torch.zeros(len(state.ids), dtype=torch.long)


@unmask.method
class Outside(Right):
    def step(self, on, state, rng):
        state, passes = super().step(on, state, rng)
        state.ids[:, on.target.free_positions[0]] = 10**6
        return state, passes
"""
TERMS = """
def fails(ids):
    return {}["nothing"]


def odd(ids):
    raise RuntimeError("odd")


def of_text(text):
    raise OSError("no file")
"""
WRONG = {
    "kernels.py:NoNumber": r"no-number: propose returned a log_ratio that is NaN: mend it",
    "kernels.py:Shape": r"shape: propose returned tokens of shape \(2,\): return \(2, 1\)",
    "kernels.py:Beyond": r"beyond: propose proposed token 10000\d\d, and the model has tokens 0 to",
    "kernels.py:Nothing": r"nothing: propose returned None: return a Proposed",
    "kernels.py:NoStep": r"no-step: step returned None: return the state and a StepInfo",
    "kernels.py:NoInfo": r"no-info: step returned accepted True: return a tensor of shape \(2,\)",
    "kernels.py:Outside": r"outside: step put token -5 at position \d, where it is not allowed",
    "kernels.py:Fails": r"^kernels.py line 70: KeyError: 'seven': mend the file$",
    "decoders.py:NoStep": r"no-step: step returned None: return the state and the passes of each",
    "decoders.py:Fails": r"^decoders.py line 23: KeyError: 'seven': mend the file$",
    "decoders.py:Passes": r"passes: step returned passes 1: return a tensor of shape \(2,\)",
    "decoders.py:Blanks": r"blanks: leaves blanks in 2 of 2 texts",
    "decoders.py:Outside": r"outside: step put token 1000000 at position \d, where it is not",
}


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "decoders.py").write_text(DECODERS)
    (tmp_path / "terms.py").write_text(TERMS)
    yield
    METHODS.brought.clear()


def sampled(tiny, kernel="mh", **options):
    return unmask.sample(
        "the [MASK] [MASK] .", model=tiny, kernel=kernel, chains=2, sweeps=2, **options
    )


def drawn(tiny, spelling):
    """Two texts by an own kernel or decoder."""
    if spelling.startswith("kernels"):
        return sampled(tiny, spelling)
    template = "the [MASK] [MASK] ."
    return unmask.generate(template, model=tiny, decoder=spelling, n_texts=2)


def test_right_ones_run(tiny):
    assert len(drawn(tiny, "kernels.py:Right").samples) == 4
    assert len(drawn(tiny, "decoders.py:Right").texts) == 2


@pytest.mark.parametrize("spelling", WRONG)
def test_what_is_wrong_is_one_line(tiny, spelling):
    with pytest.raises(InputError, match=WRONG[spelling]) as refused:
        drawn(tiny, spelling)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("spelling", WRONG)
def test_the_laws_find_it_too(tiny, spelling):
    method = METHODS.taken("kernel", spelling)
    check = unmask.testing.check_decoder
    if spelling.startswith("kernels"):
        check = unmask.testing.check_kernel
    with pytest.raises((InputError, AssertionError)) as refused:
        check(method)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("fails", r"a term of your own fails \(terms.py line 3: KeyError: 'nothing'\)"),
        ("odd", r"a term of your own fails \(terms.py line 7: RuntimeError: odd\)"),
    ],
)
def test_a_term_that_fails_is_one_line(tiny, name, sentence):
    with pytest.raises(InputError, match=sentence):
        sampled(tiny, energy=f"terms.py:{name}")


def test_a_term_of_texts_that_fails_is_one_line(tiny):
    def of_text(text):
        raise OSError("no file")

    with pytest.raises(InputError, match=r"fails \(.*of_text: OSError: no file\)"):
        sampled(tiny, energy=unmask.Energy(text_terms=(of_text,)))


def test_a_lack_of_memory_is_no_error_of_the_file(tiny):
    """It is for the run to go on with fewer texts."""

    @unmask.method
    class Large(unmask.Gibbs):
        def step(self, on, state, rng, sites):
            raise torch.OutOfMemoryError("no room")

    with pytest.raises(torch.OutOfMemoryError):
        sampled(tiny, Large())
