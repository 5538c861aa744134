"""The law that every masking scheme keeps, and schemes of a user's own."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import unmask
from support import flat
from support.command_runner import invoke
from support.made_up import made_up_lines, packed_text, toy_vocabulary
from unmask.common.errors import InputError
from unmask.studies.training.masking.scheme import SCHEMES, capacity, check_masking, drawn_mask
from unmask.studies.training.recipe import Masked

OWN = '''
"""Half of the segments are masked, the others are left."""

import unmask


@unmask.method
class WholeOrNothing(unmask.MaskingScheme):
    """All positions of a segment with probability `share`, or none."""

    share: float = 0.5

    def draw(self, text, generator):
        of_segment = text.noise(generator).gather(1, text.start)
        return (of_segment < self.share) & text.maskable

    def number_law(self, n):
        return [1 - self.share, *[0.0] * (n - 1), self.share]
'''
SMALL = {
    "layers": 1,
    "width": 16,
    "heads": 1,
    "vocab": 80,
    "max_length": 16,
    "batch_tokens": 128,
    "valid_share": 0.2,
    "steps": 2,
    "device": "cpu",
}


@pytest.mark.parametrize("name", SCHEMES)
def test_each_of_ours_keeps_its_law(name):
    check_masking(SCHEMES[name]())


@pytest.mark.parametrize(
    "scheme",
    [
        unmask.FixedRate(rate=1.0),
        unmask.UniformRate(low=0.0, high=1.0),
        unmask.UniformRate(low=0.3, high=0.3),
        unmask.ExactlyK(k=3),
    ],
)
def test_other_options_keep_it_too(scheme):
    check_masking(scheme, seed=1)
    assert SCHEMES.taken("masking", scheme.spelling) == scheme


@unmask.method
class Wrong(unmask.MaskingScheme):
    """FixedRate(.5), with one thing wrong."""

    wrong: str = ""

    def draw(self, text, generator):
        """At rate .5."""
        if self.wrong == "outside":
            generator = torch.Generator().manual_seed(torch.seed() % 2**32)
        rate = 0.4 if self.wrong == "rate" else 0.5
        chosen = text.noise(generator) < rate
        if self.wrong == "special":
            return chosen
        if self.wrong == "number":
            return (chosen & text.maskable).float()
        if self.wrong == "nothing":
            return None
        return chosen & text.maskable

    def number_law(self, n):
        """Of FixedRate(.5)."""
        law = unmask.FixedRate(rate=0.5).number_law(n)
        if self.wrong == "length":
            return law[1:]
        if self.wrong == "sum":
            return [p / 2 for p in law]
        return law

    def moments(self, tokens_per_segment):
        """Of FixedRate(.5)."""
        if self.wrong == "bound":
            return 0.01, 0.0
        return 0.5, 0.0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("special", "draw masks special tokens, padding or a source"),
        ("number", "draw returned torch.float32 of shape"),
        ("nothing", "draw returned NoneType, no tensor"),
        ("outside", "two generators of one seed give different masks"),
        ("rate", "of segments of .* have .* masked, and number_law says"),
        ("length", r"number_law\(1\) has 1 probabilities, not 2"),
        ("sum", r"number_law\(1\) sums to 0.5, not 1"),
        ("bound", "positions are masked, and its moments bound them by"),
    ],
)
def test_what_is_broken_is_said_in_a_sentence(wrong, message):
    check_masking(Wrong())  # control: nothing is
    with pytest.raises(AssertionError, match=message):
        check_masking(Wrong(wrong=wrong))


@pytest.mark.parametrize("wrong", ["special", "number", "nothing"])
def test_a_mask_of_own_code_is_checked_where_it_comes_in(wrong):
    vocabulary = toy_vocabulary()
    text = packed_text([[5, 3]] * 8, 16, vocabulary)
    generator = torch.Generator().manual_seed(0)
    assert drawn_mask(Wrong(), text, generator).any()
    with pytest.raises(InputError, match="masking wrong: draw .*: mend its draw"):
        drawn_mask(Wrong(wrong=wrong), text, generator)


def test_a_scheme_without_moments_has_room_for_every_position():
    class Bare(Wrong):
        def moments(self, tokens_per_segment):
            return None

    assert capacity(Bare(), 3, 16, 8.0) == 48
    assert capacity(unmask.FixedRate(), 300, 16, 8.0) < 300 * 16


@pytest.fixture
def own(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    return file


def trained(own: Path, out: Path, **options):
    return flat.train(
        made_up_lines(200), out=out, masking=f"{own}:WholeOrNothing", **{**SMALL, **options}
    )


@pytest.mark.filterwarnings("ignore:.*has not learned")
def test_a_file_of_the_user_trains_a_model_and_a_resumed_run_needs_the_same_file(own, tmp_path):
    out = tmp_path / "model"
    assert trained(own, out, max_minutes=0.0).status == "paused"
    stored = json.loads((out / "training" / "settings.json").read_text())
    (masking,) = [one for key, one in walk(stored) if key == "masking"]
    assert masking["name"] == "whole-or-nothing"
    assert masking["code"] == "mine.py:WholeOrNothing"
    assert masking["share"] == 0.5
    own.write_text(OWN.replace("< self.share", "<= self.share"))
    with pytest.raises(InputError, match="holds a run with .*sha256"):
        trained(own, out)
    own.write_text(OWN)
    made = trained(own, out)
    assert made.finished
    card = (out / "README.md").read_text()
    assert "mine.py:WholeOrNothing" in card
    assert masking["sha256"] in card
    assert made.to_dict()["settings"]["masking"] == masking


def walk(value):
    """All (key, value) of nested dictionaries."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield key, one
            yield from walk(one)


@pytest.mark.filterwarnings("ignore:.*has not learned")
def test_objects_spellings_and_the_command_line_train_the_same(tmp_path):
    lines = made_up_lines(200)
    (tmp_path / "lines.txt").write_text("\n".join(lines) + "\n")
    by_text = flat.train(lines, out=tmp_path / "a", masking="fixed:.3", **SMALL)
    scheme = unmask.FixedRate(rate=0.3)
    by_object = flat.train(lines, out=tmp_path / "b", masking=scheme, **SMALL)
    assert by_text.settings == by_object.settings
    assert by_text.validation == by_object.validation
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    words = ["train", tmp_path / "lines.txt", "--out", tmp_path / "c", "--masking", "fixed:.3"]
    done = invoke([*words, *options])
    assert done.exit_code == 0, done.stderr
    assert "masking: fixed:0.3\n" in (tmp_path / "c" / "README.md").read_text()


def test_masking_that_cannot_be(own, tmp_path):
    for masking, message in (
        ("fixed:2", "masking 'fixed:2' is unknown: give fixed:RATE"),
        (f"{own}:Nobody", "masking mine.py has no Nobody"),
        (f"{tmp_path}/no.py:Mine", "there is no file"),
        (3, "masking 3 is unknown: use one of fixed, uniform, k"),
        (unmask.FixedRate, r"masking FixedRate is a class: give FixedRate\(\)"),
        (unmask.MH(), r"masking MH.* is unknown"),
    ):
        with pytest.raises(InputError, match=message):
            Masked(masking=masking)
    with pytest.raises(InputError, match="low 0.5 is more than the highest rate, 0.1"):
        unmask.UniformRate(low=0.5, high=0.1)
    assert replace(unmask.UniformRate(), low=0.2).high == 0.45


def test_an_error_in_a_scheme_of_the_users_own_has_its_file_and_line():
    from unmask.studies.training.masking.scheme import _rows, _vocabulary, drawn_mask
    from unmask.studies.training.packed_text import PackedText

    @unmask.method
    class Failing(unmask.MaskingScheme):
        """It fails."""

        def draw(self, text, generator):
            return {}["nothing"]

        def number_law(self, n):
            return [1.0] + [0.0] * n

    text = PackedText.of(_rows(1), _vocabulary())
    with pytest.raises(InputError, match="masking .*KeyError: 'nothing': mend it"):
        drawn_mask(Failing(), text, torch.Generator())
