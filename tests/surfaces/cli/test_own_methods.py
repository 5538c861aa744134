"""Methods of the user's own code on the command line: typed like ours, and every mistake in the
file is one line.
"""

import json
from pathlib import Path

import pytest

import unmask
from support.command_runner import invoke, refused
from unmask.common.border.options import options
from unmask.joints.constructions.construction import CONSTRUCTIONS
from unmask.sampling.decoders.decoder import DECODERS
from unmask.sampling.kernels.kernel import KERNELS
from unmask.sampling.methods import METHODS
from unmask.scoring.scores.score import SCORES

MINE = '''
from typing import Literal

import unmask
from unmask.tables.conditionals import Conditionals, regular_tokens

print("loaded")


@unmask.method
class Mine(unmask.Score):
    """k times the sum over t of log q(x_t | nothing revealed)

    Parameters:
        strength: The factor k.
        unit_of: What it is called.
    """

    strength: float = 1.0
    unit_of: Literal["nat", "hat"] = "nat"

    def compute(self, model, batch, progress=None):
        hidden = batch.ids.scatter(1, batch.sites, model.mask_id)
        tokens = batch.ids.gather(1, batch.sites)
        q = Conditionals(model, regular_tokens(model))
        return self.strength * q.log_q(hidden, batch.sites, tokens).sum(1)
'''
TEXT = "the cat sat"


@pytest.fixture(autouse=True)
def nothing_brought(tmp_path, monkeypatch):
    """A folder with the file; what a test brings is forgotten after it."""
    monkeypatch.chdir(tmp_path)
    Path("my.py").write_text(MINE)
    yield
    SCORES.brought.clear()
    CONSTRUCTIONS.brought.clear()
    DECODERS.brought.clear()
    KERNELS.brought.clear()
    METHODS.brought.clear()
    options.cache_clear()


def score_of(tiny_folder, *words):
    done = invoke(["score", TEXT, "--model", tiny_folder, *words, "--json"])
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout.removeprefix("loaded\n"))["rows"]
    return row


@pytest.mark.parametrize(
    "way", [["--score", "my.py:Mine"], ["--score=my.py:Mine"], ["-s", "my.py:Mine"]]
)
def test_its_options_are_typed_like_ours(tiny_folder, way):
    alone = score_of(tiny_folder, *way)["mine"]
    twice = score_of(tiny_folder, *way, "--strength", "2")["mine"]
    before = score_of(tiny_folder, "--strength", "2", *way)["mine"]
    assert twice == before == pytest.approx(2 * alone)
    assert score_of(tiny_folder, *way, "--unit-of", "hat")["mine"] == alone


def test_beside_ours_in_a_list(tiny_folder):
    row = score_of(tiny_folder, "--score", "pll,my.py:Mine", "--strength", "3")
    assert row["pll"] < 0
    assert row["mine"] == pytest.approx(3 * score_of(tiny_folder, "--score", "my.py:Mine")["mine"])


def test_the_numbers_are_those_of_the_object_in_python(tiny_folder):
    printed = score_of(tiny_folder, "--score", "my.py:Mine", "--strength", "2")
    cls = SCORES.brought["my.py:Mine"]
    (row,) = unmask.score([TEXT], cls(strength=2.0), model=str(tiny_folder)).rows
    assert row["mine"] == printed["mine"]


def test_the_file_is_loaded_once(tiny_folder):
    done = invoke(["score", TEXT, "--model", tiny_folder, "--score", "my.py:Mine"])
    assert done.stdout.count("loaded") == 1


def test_help_has_its_options_after_it():
    assert "--strength" not in invoke(["score", "--help"]).stdout
    shown = invoke(["score", "--score", "my.py:Mine", "--help"], env={"COLUMNS": "100"}).stdout
    assert "--strength NUMBER" in shown
    assert "The factor k. [my.py:Mine] [default: 1.0]" in shown
    assert "--unit-of nat|hat" in shown


def test_without_the_method_its_options_are_none():
    assert "--strength is not an option" in refused(["score", TEXT, "--strength", "2"])
    words = ["score", TEXT, "--", "--score", "my.py:Mine"]  # texts
    assert "--strength is not an option" in refused([*words[:2], "--strength", "2", *words[2:]])


def test_its_values_are_refused_as_ours_are():
    Path("my.py").write_text(MINE.replace('print("loaded")', ""))
    words = ["score", TEXT, "--score", "my.py:Mine"]
    message = "--strength 'x' is not valid: give a number"
    assert refused([*words, "--strength", "x"]) == message
    assert refused([*words, "--unit-of", "mat"]).startswith("--unit-of 'mat' is unknown: did you")
    assert "--strenght is not an option: did you mean --strength?" in refused(
        [*words, "--strenght=2"]
    )


def changed(old: str, new: str) -> str:
    assert old in MINE
    return MINE.replace(old, new)


WRONG = {
    "a syntax error": (
        changed("def compute(", "def compute"),
        "my.py:Mine",
        ("my.py line 22: SyntaxError",),
    ),
    "an exception": (
        changed('print("loaded")', "1 / 0"),
        "my.py:Mine",
        ("my.py line 7: ZeroDivisionError",),
    ),
    "an exit": (changed('print("loaded")', "exit(3)"), "my.py:Mine", ("my.py line 7: SystemExit",)),
    "a missing import": (
        changed("from typing", "import no_such_module\nfrom typing"),
        "my.py:Mine",
        ("my.py line 2: ModuleNotFoundError", "no_such_module"),
    ),
    "a missing file": (MINE, "your.py:Mine", ("there is no file 'your.py'",)),
    "a missing class": (MINE, "my.py:Mime", ("my.py has no Mime: did you mean Mine?",)),
    "no class": (MINE, "my.py", ("name the class in the file, as in my.py:Name",)),
    "a class of another kind": (
        changed("(unmask.Score)", ""),
        "my.py:Mine",
        ("my.py line 10: TypeError: Mine is not derived from the base class", "unmask.Score"),
    ),
    "a module": (MINE, "my.py:unmask", ("no score: name a class derived from unmask.Score",)),
    "no decorator": (changed("@unmask.method", ""), "my.py:Mine", ("write @unmask.method",)),
    "no mathematics": (changed("def compute(", "def computes("), "my.py:Mine", ("compute",)),
    "the name of one of ours": (
        changed("    strength: float", '    name = "pll"\n    strength: float'),
        "my.py:Mine",
        ("is called pll, as one of ours is",),
    ),
    "an option of the command": (
        changed("strength: float = 1.0", "rows: float = 1.0"),
        "my.py:Mine",
        ("my.py:Mine has an option --rows, and so has this command",),
    ),
    "an option that the command line has": (
        changed("strength: float = 1.0", "json: float = 1.0"),
        "my.py:Mine",
        ("my.py:Mine has an option --json, and so has this command",),
    ),
    "an option of another type": (
        changed("strength: float = 1.0", "orders: str = 'x'"),
        "my.py:Mine",
        ("the option --orders of my.py:Mine is of another type than that of any_order",),
    ),
    "an option without a default": (
        changed("strength: float = 1.0", "strength: float"),
        "my.py:Mine",
        ("strength", "default"),
    ),
    "a type that is none": (
        changed("strength: float = 1.0", "strength: 'Flaot' = 1.0"),
        "my.py:Mine",
        ("my.py", "Flaot"),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_every_mistake_is_one_line(name):
    content, spelling, words = WRONG[name]
    Path("my.py").write_text(content.replace('print("loaded")', ""))
    for line in (["score", TEXT, "--score", spelling], ["score", "--score", spelling, "--help"]):
        if "--help" in line and name == "no class":
            continue  # the help does not check names
        message = refused(line)
        for word in words:
            assert word in message
        assert message.startswith("--score ")
        assert "strength" not in message or name == "an option without a default"


def test_a_shared_option_is_one_option(tiny_folder):
    Path("my.py").write_text(
        MINE.replace("strength: float = 1.0", "orders: int = 8").replace("self.strength", "1.0")
    )
    row = score_of(tiny_folder, "--score", "any_order,my.py:Mine", "--orders", "4")
    assert row["mine"] < 0


RULES = """
import unmask


@unmask.method
class Peaked(unmask.Construction):
    \"\"\"One cell is likelier than all others.

    Parameters:
        height: How much likelier.
    \"\"\"

    height: float = 1.0

    def derive(self, tables):
        cells = tables.log_q[0].new_zeros(tables.shape)
        cells[0, 0] = self.height
        return cells.flatten().log_softmax(0).reshape(tables.shape)


def flat(tables):
    cells = tables.log_q[0].new_zeros(tables.shape)
    return cells.flatten().log_softmax(0).reshape(tables.shape)
"""
TWO = "the [MASK] [MASK] ."


def completions_of(tiny_folder, *words):
    done = invoke(["fill", TWO, "--candidates", "4", "--model", tiny_folder, *words, "--json"])
    assert done.exit_code == 0, done.output
    printed = json.loads(done.stdout)
    return printed["construction"], [one["log_prob"] for one in printed["completions"]]


@pytest.mark.parametrize("option", ["--construction", "-c"])
def test_a_construction_of_a_file(tiny_folder, option):
    Path("rules.py").write_text(RULES)
    name, low = completions_of(tiny_folder, option, "rules.py:Peaked")
    _, high = completions_of(tiny_folder, option, "rules.py:Peaked", "--height", "3")
    assert name == "peaked"
    assert low[0] - low[1] == pytest.approx(1.0, abs=1e-5)
    assert high[0] - high[1] == pytest.approx(3.0, abs=1e-5)


def test_a_construction_that_is_a_function_has_no_options(tiny_folder):
    Path("rules.py").write_text(RULES)
    name, log_probs = completions_of(tiny_folder, "--construction", "rules.py:flat")
    assert name == "flat"
    assert log_probs[0] == log_probs[-1]
    message = refused(["fill", TWO, "--construction", "rules.py:flat", "--height", "2"])
    assert message.startswith("--height is not an option")


def test_several_constructions_of_which_one_is_the_users_own(tiny_folder):
    Path("rules.py").write_text(RULES)
    words = ["--constructions", "mrf,rules.py:Peaked", "--height", "2"]
    done = invoke(["compare", TWO, "--candidates", "4", "--model", tiny_folder, *words])
    assert done.exit_code == 0, done.output
    assert "peaked" in done.stdout


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        (None, "load", "there is no file 'loader.py'"),
        ("def load(:\n", "load", "loader.py line 1: SyntaxError"),
        ("def load():\n    return 1 / 0\n", "load", "loader.py line 2: ZeroDivisionError"),
        ("def load():\n    return 3\n", "lod", "loader.py has no lod: did you mean load?"),
    ],
)
def test_mistakes_in_a_loader_are_one_line(content, name, words):
    if content is not None:
        Path("loader.py").write_text(content)
    message = refused(["fill", TWO, "--model", f"loader.py:{name}"])
    assert message.startswith("--model ")
    assert words in message


KERNEL = """
import unmask


@unmask.method
class Lazy(unmask.Gibbs):
    \"\"\"Gibbs, which ends at a number.

    Parameters:
        ending: The number.
    \"\"\"

    ending: int = 1

    def step(self, on, state, rng, sites):
        if self.ending == 7:
            raise ValueError("seven")
        return super().step(on, state, rng, sites)
"""


def test_a_kernel_of_a_file_and_an_error_in_its_step(tiny_folder):
    Path("kernel.py").write_text(KERNEL)
    words = ["sample", "--model", tiny_folder, "--chains", "2", "--sweeps", "2", "--length", "3"]
    own = [*words, "--kernel", "kernel.py:Lazy"]
    done = invoke([*own, "--ending", "2"])
    assert done.exit_code == 0, done.output
    assert refused([*own, "--ending", "x"]) == "--ending 'x' is not valid: give a whole number"
    assert refused([*own, "--block-size", "2"]).startswith("--block-size was given, which --kernel")
    line = refused([*own, "--ending", "7"])
    assert line == "kernel.py line 17: ValueError: seven: mend the file"


DECODER = """
import torch
import unmask
from unmask.sampling.decoders.decoder import lowest
from unmask.sampling.decoders.revealing import RevealingInSteps


@unmask.method
class LastFirst(RevealingInSteps):
    \"\"\"From the last blank to the first.\"\"\"

    def choose(self, on, observed):
        place = torch.arange(observed.blank.shape[1]).double()
        return lowest(-place.unsqueeze(0), observed.blank, observed.share)
"""


def test_a_decoder_of_a_file_on_the_frontier_whose_passes_are_an_option_of_the_command(
    tiny_folder,
):
    Path("decoder.py").write_text(DECODER)
    Path("texts.txt").write_text("the cat sat on the mat .\n")
    words = ["frontier", "texts.txt", "--model", tiny_folder, "--length", "4", "--first"]
    own = [*words, "--decoders", "decoder.py:LastFirst,interleaved", "--passes", "2"]
    done = invoke([*own, "--out", "run", "--json"])
    assert done.exit_code == 0, done.output
    points = json.loads(done.stdout)["points"]
    assert [(point["decoder"], point["passes"]) for point in points[:2]] == [
        ("last-first", 2.0),
        ("interleaved", 2.0),
    ]
    again = invoke([*own, "--out", "run", "--json"])
    assert json.loads(again.stdout)["points"] == points


def test_own_code_of_another_kind_names_the_command_that_takes_it():
    Path("decoder.py").write_text(DECODER)
    assert refused(["sample", "--kernel", "decoder.py:LastFirst"]) == (
        "--kernel decoder.py:LastFirst is a decoder, and no kernel: use unmask generate --decoder"
        " decoder.py:LastFirst"
    )


def test_a_module_of_one_word_is_told_from_a_name():
    message = refused(["fill", TWO, "--construction", "rules:Peaked"])
    assert message == (
        "--construction 'rules:Peaked' is unknown: name code of your own as rules.py:Peaked, or"
        " package.module:Peaked"
    )
