"""What a user can get wrong: one line, from Python and from the command line alike, and nothing
written or lost.
"""

import json
import shutil

import numpy as np
import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import unmask
from sampling.test_sample_command import unmask as command
from support.sampling_cases import flat_settings
from unmask.common.border.options import arguments
from unmask.common.errors import InputError
from unmask.sampling.chains.sample_folder import load_run
from unmask.sampling.settings import SampleSettings, starts_of, tokens_of_alphabet

SMALL = {"chains": 3, "sweeps": 4, "length": 4, "seed": 7}

WRONG = [
    ({"chains": 10**6, "sweeps": 10**6}, "GB are free: give [0-9,]+ chains or fewer"),
    ({"length": 0}, "length 0"),
    ({"length": []}, "length is empty: ask for texts of at least one token"),
    ({"length": [4, -1]}, r"length \[4, -1\]"),
    ({"length": 40}, "the text has 42 tokens and the model takes 16"),
    ({"burn_in": 4}, "leaves no sample"),
    ({"thin": 9}, "leaves no sample"),
    ({"device": "abacus"}, "device 'abacus'"),
    (
        {"kernel": "block", "block_size": 9},
        "block_size 9 is not possible in a text of 4 free positions: give 1 to 4",
    ),
    ({"kernel": "verified"}, r"verified is a decoder, and no kernel: use unmask.generate"),
    ({"kernel": unmask.Verified()}, r"verified is a decoder, and no kernel: use unmask.generate"),
    ({"alphabet": ["zebra"]}, "zebra"),
    ({"alphabet": ["cat dog"]}, "2 tokens of the model"),
]
TEMPLATES = [
    ({"template": "the cat sat"}, "no blank"),
    ({"template": ""}, "empty"),
    ({"template": "the [MASK]", "length": 4}, "length is not used with template"),
    (
        {"template": "the [MASK]", "allow": {1: []}},
        "no token satisfies the constraint at position 2",
    ),
    ({"template": "the [MASK]", "allow": {1: ["[SEP]"]}}, "allow of blank 1|not a word of it"),
    (
        {"template": "the [MASK]", "allow": {2: ["cat"]}},
        "allow names blank 2, and the text has 1: number them from 1",
    ),
    ({"template": "the [MASK]", "allow": {0: ["cat"]}}, "allow names blank 0, and the text has 1"),
    (
        {"template": "the [MASK]", "allow": {1: ["tree"]}, "alphabet": ["cat"]},
        "allow names no token of the alphabet for blank 1",
    ),
    ({"template": "the [MASK]", "allow": {1: ["cat dog"]}}, "2 tokens of the model"),
    ({"template": "the [MASK]", "allow": {1: ["zebra"]}}, "zebra"),
    ({"start": 5}, "start 5 is not a list of texts: give ancestral, random, a file or a list"),
    ({"start": [None]}, r"start \[None\] is not a list of texts: give ancestral, random, a file"),
    ({"start": []}, "no text to start from"),
    ({"start": ["the [MASK]"]}, "has a blank"),
    ({"start": ["the zebra"]}, "special token, or one that the model does not know"),
    ({"start": ["the cat"], "length": 4}, "length is not used with texts to start from"),
    (
        {"start": ["the cat sat"], "template": "the [MASK]"},
        "another number of tokens than the template",
    ),
    ({"start": ["a cat"], "template": "the [MASK]"}, "differs from the template"),
    ({"start": "/nowhere/starts.txt"}, "is no file, and neither ancestral nor random"),
    ({"start": "randm"}, "start 'randm' is no file, and neither ancestral nor random"),
    (
        {"start": ["the cat", "a dog"], "chains": 1},
        "start has 2 texts to start from, and chains=1 takes 1 of them: give chains=2 or more",
    ),
    (
        {"length": [3, 4, 5], "chains": 1},
        "length has 3 lengths, and chains=1 takes 1 of them: give chains=3 or more",
    ),
]


@pytest.mark.parametrize(("wrong", "message"), [(SMALL | w, m) for w, m in WRONG] + TEMPLATES)
def test_python_refuses_in_one_line_and_writes_nothing(tiny, tmp_path, wrong, message):
    options = {"chains": 3, "sweeps": 4, "out": tmp_path / "run", **wrong}
    model = {} if "device" in wrong else {"model": tiny}
    with pytest.raises(unmask.UnmaskError, match=message) as caught:
        unmask.sample(**arguments(unmask.sample, options), **model)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert not (tmp_path / "run").exists()


OF_DECODERS = [
    (
        {"decoder": "entropy-bound", "gamma": 1.0, "passes": 4},
        "passes=4 and gamma=1 were both given",
    ),
    ({"decoder": "least-dependent", "profile": "no/such/profile.json"}, "no/such/profile.json"),
    (
        {"decoder": "least-dependent", "profile": {"by_distance": [0.1]}},
        "profile lacks 'fingerprint': measure one",
    ),
    ({"decoder": "gibbs"}, r"gibbs is a kernel, and no decoder: use unmask.sample"),
    ({"n_texts": 0}, "n_texts 0 is"),
    ({"length": []}, "length is empty"),
    ({"template": "the [MASK]", "length": 4}, "length is not used with template"),
    ({"template": "the cat"}, "no blank"),
    ({"length": [3, 4], "n_texts": 1}, "length has 2 lengths, and n_texts=1 takes 1 of them"),
    (
        {"template": "the [MASK]", "allow": {2: ["cat"]}},
        "allow names blank 2, and the text has 1: number them from 1",
    ),
    ({"template": "the [MASK]", "allow": {0: ["cat"]}}, "allow names blank 0, and the text has 1"),
    (
        {"template": "the [MASK]", "allow": {1: ["tree"]}, "alphabet": ["cat"]},
        "allow names no token of the alphabet for blank 1",
    ),
    ({"alphabet": ["zebra"]}, "zebra"),
    ({"judge": "/nowhere"}, "nowhere"),
]


@pytest.mark.parametrize(("wrong", "message"), OF_DECODERS)
def test_generate_refuses_in_one_line_and_writes_nothing(tiny, tmp_path, wrong, message):
    options = {"n_texts": 3, "out": tmp_path / "run", **wrong}
    with pytest.raises(unmask.UnmaskError, match=message) as caught:
        unmask.generate(**arguments(unmask.generate, options), model=tiny)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


STREAMS = unmask.ChainStreams(seed=0, chains=range(2))
ALONE = [
    (
        lambda target, model: unmask.Target(model, "the [MASK]"),
        "template 'the [MASK]' is not valid: give a list",
    ),
    (lambda target, model: unmask.Target(model, [2, 4, 5.7]), "give a whole number as item 3"),
    (
        lambda target, model: unmask.Target(model, [2, 4, 10**6, 3]),
        "token id 1000000 is not the model's: give ids from 0 to",
    ),
    (
        lambda target, model: unmask.Target(model, target.template, allowed={2: 5}),
        "allowed {2: 5} is not valid: give a list at 2",
    ),
    (
        lambda target, model: unmask.Target(model, target.template, given=[99]),
        "given 99 is outside of the template",
    ),
    (lambda target, model: unmask.Target(model), "Target: missing a required argument: 'template'"),
    (
        lambda target, model: unmask.MH().on(model),
        "is not a target: give unmask.Target(model, template)",
    ),
    (
        lambda target, model: unmask.MH().on(target).init("the cat"),
        "ids 'the cat' is not valid: give a tensor",
    ),
    (
        lambda target, model: unmask.Gibbs().on(target).init(target.template_ids),
        "give a tensor of int and shape (n, T)",
    ),
    (
        lambda target, model: unmask.MaskPredict().on(target).init(2, STREAMS),
        "give streams.at(sweep, step)",
    ),
    (
        lambda target, model: unmask.ChainStreams(0.5, range(2)),
        "seed 0.5 is not valid: give a whole number",
    ),
    (lambda target, model: unmask.ChainStreams(0, 4), "chains 4 is not valid: give a list"),
    (lambda target, model: STREAMS.at(-1, 0), "sweep -1 is out of range"),
]


@pytest.mark.parametrize(("call", "message"), ALONE)
def test_a_kernel_alone_refuses_in_one_line(tiny, call, message):
    target = unmask.Target(tiny, tiny.cloze("the [MASK]").ids)
    with pytest.raises(unmask.UnmaskError) as caught:
        call(target, tiny)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kernel", "gibs"], "did you mean gibbs"),
        (["--length", "many"], "--length 'many' is not valid"),
        (["--start", "/"], "is a folder"),
        (["--init", "x.txt"], "did you mean --start"),
        (["--together", "3"], "--together"),
        (["--kernel", "verified", "--sets", "4"], "use unmask generate --decoder verified"),
        (["--sets", "4"], "--sets is not an option: use unmask generate"),
        (["--num-return-sequences", "4"], "use --n-texts of unmask generate"),
    ],
)
def test_the_command_refuses_in_one_line(tiny_folder, tmp_path, arguments, message):
    ran = command(
        "sample", "--model", tiny_folder, "--device", "cpu", "--out", tmp_path / "run", *arguments
    )
    assert ran.exit_code == 2
    assert message in ran.output
    assert ran.output.startswith("error: ")
    assert len(ran.output.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


@given(
    options=st.fixed_dictionaries(
        {},
        optional={
            "chains": st.integers() | st.floats(),
            "sweeps": st.integers() | st.none(),
            "temperature": st.floats() | st.text(max_size=3),
            "thin": st.integers(),
            "burn_in": st.integers(),
            "seed": st.integers(),
            "kernel": st.text(max_size=5) | st.sampled_from(["mh", "gibbs", "block"]),
            "length": st.lists(st.integers(), max_size=3),
        },
    )
)
def test_settings_are_either_sound_or_refused(options):
    """Whatever is given, there are settings that can be written down and read back, or one line."""
    try:
        made = flat_settings(**options)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert (
            SampleSettings.from_dict(json.loads(json.dumps(made.to_dict(), allow_nan=False)))
            == made
        )


@pytest.fixture(scope="module")
def finished(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    unmask.sample(out=folder, model=tiny, **SMALL)
    return folder


@pytest.fixture
def folder(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


CHECKPOINT, PART = "checkpoints/group-0000.npz", "parts/group-0000-00000004.parquet"


anything = (
    st.none()
    | st.integers()
    | st.text(max_size=4)
    | st.lists(st.integers(), max_size=2)
    | st.just({"a": 1})
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    change=st.dictionaries(
        st.sampled_from(sorted(SampleSettings().to_dict())), anything, min_size=1
    )
)
def test_settings_that_somebody_edited_are_read_or_refused(finished, folder, change):
    stored = json.loads((finished / "settings.json").read_text())
    (folder / "settings.json").write_text(json.dumps({**stored, **change}))
    try:
        load_run(folder)
    except InputError as error:
        assert "\n" not in str(error)


def edited(path, **arrays):
    with np.load(path) as archive:
        known = {name: archive[name] for name in archive.files}
    changed = {**known, **arrays}
    np.savez(path, **{name: array for name, array in changed.items() if array is not None})


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"done": np.array(99)}, "99 of 4 sweeps"),
        ({"done": np.array(-1)}, "-1 of 4 sweeps"),
        ({"done": np.array([1, 2])}, "do not fit"),
        ({"done": None}, "done is not a file in the archive"),
        ({"ids": None}, "ids"),
        ({"ids": np.zeros((3, 2), dtype=np.int64)}, "shape"),
        ({"chains": np.arange(2)}, "do not fit"),
        ({"chains": np.array([0, 1, 9])}, "of 3 chains"),
        ({"fresh": np.array(["a", "b", "c"])}, "damaged"),
    ],
)
def test_a_damaged_checkpoint_is_one_line(tiny, folder, arrays, message):
    edited(folder / CHECKPOINT, **arrays)
    with pytest.raises(InputError, match=message) as caught:
        unmask.sample(out=folder, model=tiny, **SMALL)
    assert "delete it and give the command of the run again" in str(caught.value)


def test_a_text_of_the_checkpoint_that_no_chain_can_be_at_is_refused(tiny, folder):
    with np.load(folder / CHECKPOINT) as archive:
        ids = archive["ids"].copy()
    ids[0, 1] = 999
    edited(folder / CHECKPOINT, ids=ids)
    with pytest.raises(InputError, match="damaged"):
        unmask.sample(out=folder, model=tiny, **{**SMALL, "sweeps": 6})


def test_a_part_that_is_gone_is_noticed_and_drawn_again(tiny, folder, finished):
    (folder / PART).write_bytes(b"garbage")
    with pytest.raises(InputError, match="delete it and its group's file in checkpoints"):
        unmask.sample(out=folder, model=tiny, **SMALL)
    (folder / PART).unlink()
    with pytest.raises(InputError, match="holds no sample"):
        load_run(folder)
    with pytest.raises(InputError, match="12 of the 12 samples are gone"):
        unmask.sample(out=folder, model=tiny, **SMALL)
    (folder / CHECKPOINT).unlink()
    again = unmask.sample(out=folder, model=tiny, **SMALL)
    assert again.texts == load_run(finished).samples.text.tolist()


def test_a_folder_without_the_settings_of_this_version_is_refused(tiny, folder):
    stored = json.loads((folder / "settings.json").read_text())
    for name in ("kind", "start"):
        stored.pop(name)
    (folder / "settings.json").write_text(json.dumps(stored))
    with pytest.raises(InputError, match="lacks 'start'.*start the run again in another folder"):
        unmask.diagnose(folder)
    with pytest.raises(InputError, match="holds a run with start None, not"):
        unmask.sample(out=folder, model=tiny, **SMALL)


@pytest.mark.parametrize("kind", [list, tuple, iter, np.array, pandas.Series, pandas.Index])
def test_starts_and_alphabets_of_every_kind_of_list(kind):
    assert starts_of(kind(["a man", " a dog "])) == ("a man", "a dog")
    assert tokens_of_alphabet(kind(["cat", "dog"])) == ("cat", "dog")


@pytest.mark.parametrize(
    "value",
    [
        {"a", "b"},
        {"a": 1},
        b"ab",
        [b"a"],
        [1],
        ["a", float("nan")],
        np.array([["a"]]),
        pandas.DataFrame({"a": ["b"]}),
        None,
    ],
)
def test_no_list_of_texts_is_read_as_one(value):
    for name, read in (("start", starts_of), ("alphabet", tokens_of_alphabet)):
        with pytest.raises(InputError, match=f"^{name} .* is not a list of texts: give "):
            read(value)


def test_what_is_no_run_is_named_in_one_line():
    for value in (pandas.Series([3]), [pandas.Series([3, 4])]):
        with pytest.raises(InputError, match=r"is not a path: give one as text$") as refused:
            unmask.diagnose(value)
        assert "\n" not in str(refused.value)
