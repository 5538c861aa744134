"""Every energy keeps the laws of energies; one that breaks a law is found. An energy of the user's
own is taken wherever ours are.
"""

import json
from pathlib import Path
from typing import ClassVar

import pytest
import torch

import unmask
from support.command_runner import invoke
from unmask.common.errors import InputError
from unmask.common.methods.own_code import without_own_code
from unmask.sampling.energies.energy import ENERGIES, OwnEnergy, energy_of_stored, stored_energy
from unmask.sampling.energies.with_terms import SAMPLED
from unmask.sampling.settings import SampleSettings
from unmask.studies.translation.recipe import TranslateSettings, settle
from unmask.testing import check_energy

OWN = """
import unmask


@unmask.method
class Margin(unmask.ModelEnergy):
    '''How far each token's logit is below the largest.

    Parameters:
        scale: Of all terms.
    '''

    never_negative = True
    scale: float = 1.0

    def term(self, logits, tokens):
        logit = logits.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        return self.scale * (logits.amax(-1) - logit).double()
"""
TEMPLATE = "the [MASK] [MASK] ."
FOLDER = Path(unmask.__file__).parent / "sampling" / "energies"


@pytest.fixture
def own(tmp_path):
    """The spelling of an own energy in a file."""
    path = tmp_path / "my_energy.py"
    path.write_text(OWN)
    yield f"{path}:Margin"
    ENERGIES.brought.clear()
    SAMPLED.brought.clear()


@unmask.method
class Margin(unmask.ModelEnergy):
    """That of the file, and here no bound is stated."""

    scale: float = 1.0

    def term(self, logits, tokens):
        logit = logits.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        return self.scale * (logits.amax(-1) - logit).double()


def sampled(tiny, energy, **options):
    return unmask.sample(
        TEMPLATE, model=tiny, chains=2, seed=1, energy=energy, **{"sweeps": 4, **options}
    )


# ---- laws ----


@pytest.mark.parametrize("name", ENERGIES)
def test_every_energy_keeps_the_laws_of_energies(name):
    check_energy(ENERGIES[name]())


@pytest.mark.parametrize("name", ENERGIES)
def test_a_file_of_an_energy_is_an_energy_and_nothing_else_names_it(name):
    stated = f'name = "{name}"'
    holders = [path for path in FOLDER.parent.rglob("*.py") if stated in path.read_text("utf-8")]
    assert holders == [FOLDER / f"{name}.py"]


@unmask.method
class OfTheBatch(unmask.ModelEnergy):
    """A row's term depends on the other rows."""

    def term(self, logits, tokens):
        return -logits.double().log_softmax(-1).mean(0)[tokens]


@unmask.method
class Drawing(unmask.RawEnergy):
    """Adds a random number."""

    def term(self, logits, tokens):
        return super().term(logits, tokens) + torch.rand(len(tokens)).double()


@unmask.method
class OtherDraws(unmask.NormEnergy):
    """Doubles the terms of logits, and not those of drawn tokens."""

    def term(self, logits, tokens):
        return 2 * super().term(logits, tokens)


@unmask.method
class Bounded(unmask.RawEnergy):
    """Says of the raw energy that it is never negative."""

    never_negative: ClassVar[bool] = True


@unmask.method
class Flat(unmask.ModelEnergy):
    """One number for all tokens together."""

    def term(self, logits, tokens):
        return torch.ones(1, dtype=torch.float64)


@pytest.mark.parametrize(
    ("energy", "sentence"),
    [
        (OfTheBatch, "depends on that row alone"),
        (Drawing, "a term is no draw"),
        (OtherDraws, "another term by term_of_draw than by term"),
        (Bounded, "says that it is never negative, and a term is -"),
        (Flat, "return one number for each"),
    ],
)
def test_an_energy_that_breaks_a_law_is_found(energy, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_energy(energy())


def test_chains_that_compute_another_energy_are_found(monkeypatch):
    from unmask.sampling.energies.with_terms import Energy

    def shifted(self, logits, tokens):
        return self.of_model.term(logits, tokens) + tokens

    monkeypatch.setattr(Energy, "term", shifted)
    with pytest.raises(AssertionError, match="another energy than the sum of the terms of norm"):
        check_energy("norm")


@unmask.method
class Far(unmask.ModelEnergy):
    """Large at one token, far below 0 at the others; the class does not know."""

    never_negative: ClassVar[bool] = True

    def term(self, logits, tokens):
        return 3.0 * tokens.double() - 4.0


def test_chains_that_reject_too_early_are_found(monkeypatch):
    monkeypatch.setattr("unmask.sampling.energy_check._check_bound", lambda *_: None)
    monkeypatch.setattr("unmask.sampling.energies.with_terms.is_ours", lambda _: True)
    with pytest.raises(AssertionError, match=r"Metropolis-Hastings on far moves exp\(-E\)"):
        check_energy(Far())
    monkeypatch.setattr(Far, "never_negative", False)
    check_energy(Far())


# ---- an energy of the user's own ----


def test_an_own_energy_is_sampled_as_an_object_and_from_a_file(tiny, own):
    of_object = sampled(tiny, Margin())
    assert of_object.settings.energy.name == "margin"
    assert str(of_object).startswith("SampleRun(Metropolis-Hastings, margin energy")
    assert "E the margin energy" in of_object.diagnosis.verdict()[0]
    assert sampled(tiny, unmask.Energy(Margin())).to_frame().equals(of_object.to_frame())
    of_file = sampled(tiny, own)
    texts = ["text", "energy"]  # it rejects earlier, and so takes fewer passes
    assert of_file.to_frame()[texts].equals(of_object.to_frame()[texts])
    assert of_file.to_frame()["passes"].sum() < of_object.to_frame()["passes"].sum()
    assert not sampled(tiny, "norm").to_frame()["energy"].equals(of_object.to_frame()["energy"])


@pytest.mark.parametrize("kernel", ["gibbs", "block", "sequential-block"])
def test_every_kernel_takes_an_own_energy(tiny, kernel):
    run = sampled(tiny, Margin(), kernel=kernel, sweeps=2)
    last = run.samples.last_of_each_chain()
    ids = torch.tensor([list(ids) for ids in last.ids])
    target = unmask.Target(tiny, tiny.cloze(TEMPLATE).ids, unmask.Energy(Margin()))
    state, _passes = unmask.MH().on(target).init(ids)
    assert torch.allclose(torch.tensor(last.energy), state.energy, atol=1e-4)


def test_an_own_energy_on_the_command_line_has_its_options(tiny_folder, tmp_path, own):
    words = ["sample", TEMPLATE, "--model", str(tiny_folder), "--device", "cpu", "--chains", "2"]
    words += ["--sweeps", "2", "--energy", own, "--out", str(tmp_path / "run")]
    done = invoke([*words, "--scale", "2"])
    assert done.exit_code == 0, done.output
    stored = json.loads((tmp_path / "run" / "settings.json").read_text())["energy"]
    assert stored["name"] == "margin"
    assert stored["code"] == "my_energy.py:Margin"
    assert stored["scale"] == 2.0
    assert invoke([*words, "--scale", "2"]).exit_code == 0
    refused = invoke([*words, "--scale", "3"])
    assert refused.exit_code == 2
    assert "--scale 2.0, not 3.0" in refused.output
    file = Path(own.rpartition(":")[0])
    file.write_text(OWN.replace("amax", "mean"))
    refused = invoke([*words, "--scale", "2"])
    assert refused.exit_code == 2
    assert "holds a run with" in refused.output
    file.unlink()  # a run is read without the code of its user
    assert unmask.diagnose(tmp_path / "run")[0].energy == "margin"


def test_settings_keep_an_energy(own):
    assert stored_energy(unmask.NormEnergy()) == "norm"
    assert energy_of_stored("raw") == unmask.RawEnergy()
    stored = SampleSettings(energy=ENERGIES.taken("energy", own)).to_dict()
    found = SampleSettings.from_dict(stored).energy
    assert isinstance(found, OwnEnergy)
    assert found.name == "margin"
    assert stored_energy(found) == stored["energy"]
    assert TranslateSettings().to_dict()["energy"] == "norm"
    energy = ENERGIES.taken("energy", own)
    settled = settle(False, kernel=unmask.MH(), energy=energy, seed=0)
    assert settled.to_dict()["energy"]["code"] == "my_energy.py:Margin"


def test_requests_and_folders_load_no_energy(own):
    with without_own_code(), pytest.raises(InputError, match="names a file of code"):
        SAMPLED.taken("energy", own)
    with without_own_code(), pytest.raises(InputError, match="names a file of code"):
        unmask.Energy(own)
    with pytest.raises(InputError, match="which no stored setting loads"):
        energy_of_stored({"name": "margin"})


@pytest.mark.parametrize(
    ("energy", "sentence"),
    [
        ("nrom", "did you mean norm"),
        (3, "energy 3 is unknown: use one of norm, raw"),
        (Margin, "energy Margin is a class: give Margin()"),
        ("nowhere.py:Margin", "there is no file"),
        (Flat(), r"the terms of flat have the shape \(1,\)"),
        (Bounded(), "bounded says that it is never negative, and a term is -"),
    ],
)
def test_a_wrong_energy_is_one_line(tiny, energy, sentence):
    with pytest.raises(InputError, match=sentence) as error:
        sampled(tiny, energy)
    assert "\n" not in str(error.value)


@unmask.method
class Failing(unmask.ModelEnergy):
    """Returns what is said, or fails."""

    returned: object = None

    def term(self, logits, tokens):
        if self.returned is None:
            raise ValueError("no idea")
        if isinstance(self.returned, float):
            return torch.full((len(tokens),), self.returned)
        return self.returned


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        (None, "test_energies.py line [0-9]+: ValueError: no idea"),
        ("much", "the terms of failing are 'much'"),
        (float("nan"), "a term of failing is NaN"),
        (float("-inf"), "a term of failing is -inf"),
    ],
)
def test_an_energy_that_fails_is_named(tiny, returned, sentence):
    with pytest.raises(InputError, match=sentence):
        sampled(tiny, Failing(returned))
