"""A model that the user's own code loads, as loader.py:load, on every surface."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import unmask
from support.command_runner import invoke
from unmask.common.errors import InputError
from unmask.common.methods.own_code import without_own_code
from unmask.models.load import as_model, model_name, reload
from unmask.models.own_loader import load_own, names_loader, sent_loader
from unmask.models.sharing import loader_on

TEXT = "the [MASK] sat"
LOADER = """
from settings import FOLDER
import unmask

def load(device, dtype):
    return unmask.MaskedLM.load(FOLDER, device=device, dtype=dtype)

def network():
    model = unmask.MaskedLM.load(FOLDER, device="cpu")
    return model.network, model.tokenizer
"""


@pytest.fixture
def own(tmp_path, tiny_folder, monkeypatch):
    """The spelling of a loader in the working folder, which reads a neighbour."""
    monkeypatch.chdir(tmp_path)
    Path("settings.py").write_text(f"FOLDER = {str(tiny_folder)!r}\n")
    Path("loader.py").write_text(LOADER)
    return "loader.py:load"


def numbers(model):
    return unmask.fill(TEXT, model, candidates=5).to_dict()["completions"]


@pytest.mark.parametrize("function", ["load", "network"])
def test_own_code_gives_the_numbers_of_the_model_that_it_loads(own, tiny_folder, function):
    spelling = f"loader.py:{function}"
    for model in (spelling, unmask.ModelSpec(spelling), unmask.load(spelling)):
        assert numbers(model) == numbers(tiny_folder)


def test_what_it_returns_is_fingerprinted_as_any_model(own, tiny):
    assert unmask.load(own).fingerprint == tiny.fingerprint


def test_the_command_line_takes_it(own, tiny_folder):
    ours = invoke(["fill", TEXT, "--model", own, "--json"])
    assert ours.exit_code == 0
    assert ours.stdout == invoke(["fill", TEXT, "--model", str(tiny_folder), "--json"]).stdout


def test_it_gets_the_device_and_the_format_of_numbers(own):
    assert str(unmask.ModelSpec(own, dtype="float64").load().dtype) == "torch.float64"


def test_what_it_gets_can_be_given_to_load(own, tiny_folder):
    """The objects of torch are taken as their names."""
    Path("plain.py").write_text(
        "import unmask\n\n\ndef load(device, dtype):\n"
        f"    return unmask.load({str(tiny_folder)!r}, device, dtype)\n"
    )
    model = unmask.ModelSpec("plain.py:load", device="cpu", dtype="float64").load()
    assert str(model.dtype) == "torch.float64"
    assert numbers("plain.py:load") == numbers(tiny_folder)


def test_it_is_loaded_once_and_again_if_a_neighbour_has_changed(own):
    first = as_model(own)
    assert as_model(own) is first
    assert reload(own) is not first
    neighbour = Path("settings.py")
    neighbour.write_text(f"{neighbour.read_text()}# changed\n")
    assert as_model(own) is not first


def test_a_module_that_python_can_import_is_named_with_dots(own, monkeypatch):
    package = Path("mine")
    package.mkdir()
    for name in ("loader.py", "settings.py"):
        text = Path(name).read_text().replace("from settings", "from mine.settings")
        (package / name).write_text(text)
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(os.getcwd())
    assert numbers("mine.loader:load") == numbers(own)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("loader.py:load", True),
        (r"C:\models\loader.py:load", True),
        ("package.module:load", True),
        ("bert-base-cased", False),
        ("organisation/model", False),
        (r"C:\models\bert", False),
        (None, False),
    ],
)
def test_what_is_own_code(name, expected):
    assert names_loader(name) is expected


def test_a_folder_of_such_a_name_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.py:load").mkdir()
    assert not names_loader("a.py:load")


# ---- other processes, run folders, requests ----


def test_another_process_gets_the_sources_and_not_a_function(own, tiny_folder):
    loader = loader_on(unmask.ModelSpec(own), "cpu")
    sent = loader.__self__
    assert set(sent.code.sources) == {"loader.py", "settings.py"}
    Path("loader.py").unlink()  # another machine has no such file
    assert numbers(loader()) == numbers(tiny_folder)


def test_another_process_of_this_machine_reads_what_lies_beside_the_file(own, tiny_folder):
    Path("name.txt").write_text(str(tiny_folder))
    Path("loader.py").write_text(
        "from pathlib import Path\nimport unmask\n\ndef load():\n"
        "    return unmask.MaskedLM.load((Path(__file__).parent / 'name.txt').read_text())\n"
    )
    assert numbers(sent_loader(own, "cpu", "auto").load()) == numbers(tiny_folder)


def test_processes_that_share_the_work_give_the_same_rows(own, tmp_path):
    texts = ["the cat sat", "a dog ran", "the dog sat on the mat"]
    alone = unmask.score(texts, model=own).to_frame()
    several = unmask.ModelSpec(own, device="cpu,cpu")
    shared = unmask.score(texts, model=several, out=tmp_path / "run").to_frame()
    assert shared["pll"].tolist() == alone["pll"].tolist()


def test_a_run_goes_on_only_with_the_same_code(own, tmp_path):
    """The settings keep the name of the file and the hash, and load nothing."""
    texts, out = ["the cat sat", "a dog ran"], tmp_path / "run"
    first = unmask.score(texts, model=own, out=out).to_frame()
    assert f'"{model_name(own)}"' in (out / "settings.json").read_text()
    again = unmask.score(texts, model=own, out=out).to_frame()
    assert again.equals(first)
    with pytest.raises(InputError, match="model"):  # not named again
        unmask.score(texts, out=out)
    neighbour = Path("settings.py")
    neighbour.write_text(f"{neighbour.read_text()}# changed\n")
    with pytest.raises(InputError, match="model"):
        unmask.score(texts, model=own, out=out)


def test_no_request_loads_a_file(own):
    with without_own_code(), pytest.raises(InputError, match="names a file of code"):
        load_own(own)


@pytest.mark.parametrize("argument", ["model", "construction"])
def test_the_page_takes_no_code_from_a_request(own, tiny, tmp_path, argument):
    from fastapi.testclient import TestClient

    from unmask.surfaces.serving.app import create_app
    from unmask.surfaces.serving.jobs import Jobs

    marker = tmp_path / "ran"
    Path("evil.py").write_text(f"open({str(marker)!r}, 'w')\ndef load():\n    pass\n")
    jobs = Jobs()
    try:
        client = TestClient(create_app(tiny, jobs))
        answer = client.post("/api/fill", json={"text": TEXT, argument: "evil.py:load"})
    finally:
        jobs.close()
    assert answer.status_code in (400, 422)
    assert not marker.exists()


# ---- ten ways to get it wrong, each one line ----

WRONG = {
    "no file": ("", "missing.py:load", "there is no file"),
    "no module": ("", "no.such.module:load", "there is no module no.such.module"),
    "no function": ("def load():\n    pass", "loader.py:laod", "did you mean load"),
    "a syntax error": ("x = 1\ndef load(:\n", "loader.py:load", "loader.py line 2: SyntaxError"),
    "an error on import": ("import nothing_of_this_name", "loader.py:load", "loader.py line 1"),
    "an error inside": (
        "def load():\n    return 1 / 0",
        "loader.py:load",
        "loader.py line 2: ZeroDivisionError: division by zero",
    ),
    "an argument of a call in it": (
        "import unmask\ndef load():\n    return unmask.load(device=3)",
        "loader.py:load",
        "loader.py line 3: InputError: device 3 is not valid",
    ),
    "not a function": ("load = 3", "loader.py:load", "loader.py:load is 3"),
    "a needed argument": ("def load(path):\n    pass", "loader.py:load", "needs the argument path"),
    "nothing returned": ("def load():\n    pass", "loader.py:load", "returned None"),
    "a network alone": (
        "import torch\ndef load():\n    return torch.nn.Linear(2, 2)",
        "loader.py:load",
        "returned Linear",
    ),
    "not a tokenizer": (
        "import torch\ndef load():\n    return torch.nn.Linear(2, 2), 'tokenizer'",
        "loader.py:load",
        "tokenizer 'tokenizer' is not one of transformers",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_ten_ways_to_get_it_wrong_are_one_line(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source, spelling, expected = WRONG[name]
    Path("loader.py").write_text(source)
    with pytest.raises(InputError) as caught:
        unmask.fill(TEXT, spelling)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
    done = invoke(["fill", TEXT, "--model", spelling])
    assert done.exit_code == 2
    assert expected in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("option", [{"dtype": "float64"}, {"device": "cuda"}])
def test_a_loader_without_the_argument_is_not_taken_for_another(own, option, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    (name,) = option
    with pytest.raises(InputError, match=f"give the function a parameter {name}"):
        unmask.ModelSpec("loader.py:network", **({"device": "cpu"} | option)).load()
