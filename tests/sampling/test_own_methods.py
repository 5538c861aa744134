"""A user's own kernel and decoder, from a file: in Python, on the command line, in run folders and
on workers.
"""

import json
import os
import pickle
import subprocess
import sys

import pytest
import torch

import unmask
from support.command_runner import invoke
from unmask.common.errors import InputError
from unmask.sampling.decoders.decoder import DECODERS
from unmask.sampling.energies.with_terms import SAMPLED
from unmask.sampling.kernels.kernel import KERNELS
from unmask.sampling.methods import OwnMethod

OWN = """
import torch
import unmask
from unmask.sampling.decoders.decoder import lowest
from unmask.sampling.decoders.in_steps import InSteps
from unmask.sampling.kernels.metropolis import Metropolis, Proposed


@unmask.method
class Uniform(Metropolis):
    '''Any token, accepted or not.

    Parameters:
        strength: Of nothing.
    '''

    strength: float = 1.0

    def propose(self, on, state, rng, sites):
        site = sites[:, 0]
        drawn = rng.categorical(state.rows, on.target.support[site].double().log())
        zeros = torch.zeros_like(site)
        return Proposed(tokens=drawn.unsqueeze(1), log_ratio=zeros.double(), passes=zeros)


@unmask.method
class Leftmost(InSteps):
    '''All blanks predicted, the leftmost kept.'''

    def step(self, on, state, rng):
        filled = self.fill(on, state, rng)
        place = torch.arange(filled.shape[1], dtype=torch.float64).expand(filled.shape)
        again = lowest(-place, filled, self.blanks_after(on, state))
        return self.end(on, state, filled, again)
"""
TERM = """
def few_ones(ids):
    return 3.0 * (ids == 16).sum(1).double()


number = 3
"""
TEMPLATE = "the [MASK] [MASK] ."


@pytest.fixture
def own(tmp_path):
    """The spelling of a file of own methods, up to its colon."""
    path = tmp_path / "my_methods.py"
    path.write_text(OWN)
    yield str(path)
    KERNELS.brought.clear()
    DECODERS.brought.clear()


def sampled(tiny, kernel, **options):
    return unmask.sample(TEMPLATE, model=tiny, kernel=kernel, chains=2, seed=1, **options)


def test_a_kernel_and_a_decoder_from_a_file(tiny, own):
    run = sampled(tiny, f"{own}:Uniform", sweeps=3)
    assert run.settings.kernel.name == "uniform"
    assert run.diagnosis.kernel == "uniform"
    assert run.diagnosis.verdict()[0].startswith("The chain leaves exp(-E / T) invariant")
    decoder = f"{own}:Leftmost"
    texts = unmask.generate(TEMPLATE, model=tiny, decoder=decoder, n_texts=2, seed=1).texts
    assert len(texts) == 2
    assert not any("[MASK]" in text for text in texts)


def test_its_options_are_those_of_the_command(tiny_folder, own):
    words = ["sample", TEMPLATE, "--model", tiny_folder, "--device", "cpu", "--chains", "2"]
    done = invoke(
        [*map(str, words), "--sweeps", "2", "--kernel", f"{own}:Uniform", "--strength", "3"]
    )
    assert done.exit_code == 0, done.output
    wrong = invoke([*words, "--kernel", f"{own}:Uniform", "--strength", "much"])
    assert wrong.exit_code == 2
    assert "--strength" in wrong.output
    other = invoke([*words, "--kernel", "mh", "--strength", "3"])
    assert other.exit_code == 2


def test_a_folder_goes_on_where_the_same_code_is_named_again(tiny, own, tmp_path):
    whole = sampled(tiny, f"{own}:Uniform", sweeps=4)
    sampled(tiny, f"{own}:Uniform", sweeps=2, out=tmp_path / "run")
    stored = json.loads((tmp_path / "run" / "settings.json").read_text())["kernel"]
    assert stored["code"] == "my_methods.py:Uniform"
    assert len(stored["sha256"]) == 16
    run = sampled(tiny, f"{own}:Uniform", sweeps=4, out=tmp_path / "run")
    assert run.to_frame()["text"].tolist() == whole.to_frame()["text"].tolist()
    path = tmp_path / "my_methods.py"
    path.write_text(path.read_text() + "\n# changed\n")
    with pytest.raises(InputError, match="holds a run with sha256"):
        sampled(tiny, f"{own}:Uniform", sweeps=6, out=tmp_path / "run")


def test_diagnose_reads_a_folder_and_loads_no_code(tiny, own, tmp_path):
    sampled(tiny, f"{own}:Uniform", sweeps=4, out=tmp_path / "run")
    os.unlink(tmp_path / "my_methods.py")
    script = (
        "import sys, unmask; found = unmask.diagnose(sys.argv[1]);"
        " print(found[0].kernel, found[0].draws, found.verdict()[0][:17])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "run")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "uniform 4 The chain leaves "
    settings = unmask.diagnose(tmp_path / "run")[0]
    assert settings.kernel == "uniform"


def test_what_settings_name_moves_no_chain():
    shown = {"label": "a", "colour": "#000000", "decodes": False, "sites_per_step": 1}
    stored = {"name": "mine", "code": "my.py:Mine"}
    kernel = OwnMethod(stored=stored, verdict="", **shown)
    with pytest.raises(InputError, match="no stored setting loads"):
        kernel.on(None)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("my_methods.py:Uniform2", "did you mean Uniform"),
        ("my_methods.py:torch", "and no kernel"),
        ("nowhere.py:Uniform", "there is no file"),
        ("my_methods.py:Leftmost", "is a decoder, and no kernel: use unmask.generate"),
    ],
)
def test_wrong_names_are_one_line(tiny, own, text, sentence, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=sentence) as error:
        sampled(tiny, text, sweeps=1)
    assert "\n" not in str(error.value)


def test_translate_takes_an_own_decoder(own):
    from unmask.studies.translation.recipe import WRITERS

    assert WRITERS.taken("decoder", f"{own}:Leftmost").name == "leftmost"
    assert WRITERS.taken("decoder", "beam").name == "beam"


def test_a_term_of_the_energy_from_a_file(tiny, tiny_folder, tmp_path):
    path = tmp_path / "term.py"
    path.write_text(TERM)
    names: dict[str, object] = {}
    exec(TERM, names)
    energy = unmask.Energy("norm", (names["few_ones"],))
    wanted = sampled(tiny, "mh", sweeps=3, energy=energy).to_frame()
    for given in (f"{path}:few_ones", names["few_ones"]):
        assert sampled(tiny, "mh", sweeps=3, energy=given).to_frame().equals(wanted)
    assert not sampled(tiny, "mh", sweeps=3).to_frame().equals(wanted)
    sampled(tiny, "mh", sweeps=2, energy=f"{path}:few_ones", out=tmp_path / "run")
    stored = json.loads((tmp_path / "run" / "settings.json").read_text())["user_terms"]
    assert stored[0].startswith("term.py:few_ones ")
    words = ["sample", TEMPLATE, "--model", str(tiny_folder), "--device", "cpu", "--sweeps", "2"]
    done = invoke([*words, "--chains", "2", "--energy", f"{path}:few_ones"])
    assert done.exit_code == 0, done.output
    with pytest.raises(InputError, match="no function of token ids"):
        sampled(tiny, "mh", sweeps=2, energy=f"{path}:number")
    term = SAMPLED.taken("energy", f"{path}:few_ones").user_terms[0]
    path.unlink()  # another process has the source alone
    sent = pickle.loads(pickle.dumps(term))
    ids = torch.tensor([[16, 16, 1]])
    assert sent(ids).tolist() == [6.0]
