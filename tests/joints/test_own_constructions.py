"""A construction of the user's own is taken wherever ours are: an object, a function, a file."""

import json
import pickle
from math import log

import pytest
import torch

import unmask
from support.command_runner import invoke, refused
from unmask.common.border.options import options
from unmask.common.errors import InputError
from unmask.joints.constructions.construction import CONSTRUCTIONS
from unmask.joints.registry import named

TEXT = "The [MASK] [MASK] at the casino."
FILE = '''
import unmask


@unmask.method
class Tempered(unmask.Construction):
    """prod_t q_t(x_t | x_{-t})^power, normalised

    Parameters:
        power: The power of each conditional.
    """

    power: float = 0.5

    def derive(self, tables):
        cells = self.power * sum(tables.log_q)
        return cells.flatten().log_softmax(0).reshape(tables.shape)


def flat(tables):
    return (0 * tables.log_q[0]).flatten().log_softmax(0).reshape(tables.shape)
'''


@unmask.method
class Tempered(unmask.Construction):
    """prod_t q_t(x_t | x_{-t})^power, normalised"""

    power: float = 0.5

    def derive(self, tables):
        cells = self.power * sum(tables.log_q)
        return cells.flatten().log_softmax(0).reshape(tables.shape)


def flat(tables):
    """Every filling is as likely as any other."""
    return (0 * tables.log_q[0]).flatten().log_softmax(0).reshape(tables.shape)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_rules.py").write_text(FILE)
    yield "my_rules.py:Tempered"
    CONSTRUCTIONS.brought.clear()  # what a test brings is forgotten after it
    options.cache_clear()


# ---- Python ----


def test_an_object_is_a_construction_like_ours():
    filling = unmask.fill(TEXT, construction=Tempered(power=1.0), candidates=16)
    expected = unmask.fill(TEXT, construction="mrf", candidates=16)
    assert filling.construction == filling.joint.name == "tempered"
    # mrf normalises over the support, which for candidates differs by the mass that they hold
    tables = filling.joint.tables
    own = sum(tables.log_q).flatten().log_softmax(0)
    torch.testing.assert_close(filling.joint.dense().flatten(), own)
    assert expected.joint.name == "mrf"


def test_a_function_from_tables_is_one_too():
    filling = unmask.fill(TEXT, construction=flat, candidates=4)
    assert filling.construction == "flat"
    assert filling.completions[0].log_prob == pytest.approx(-log(16))


def test_a_function_may_return_a_joint():
    def squared(tables):
        return unmask.derive(tables, "mrf")

    assert unmask.fill(TEXT, construction=squared, candidates=4).joint.name == "squared"


def test_own_ones_stand_beside_ours():
    compared = unmask.compare(TEXT, constructions=["mrf", Tempered(), flat], candidates=8)
    assert list(compared.joints) == ["mrf", "tempered", "flat"]
    assert compared.ranked_by == "flat"
    ranked = unmask.compare(
        TEXT, constructions=["mrf", Tempered()], rank_by="tempered", candidates=8
    )
    assert ranked.ranked_by == "tempered"
    assert "tempered" in ranked.to_dict()["joints"]


def test_dependence_takes_one():
    dependence = unmask.dependence(TEXT, construction=flat, candidates=8)
    assert dependence.construction == "flat"
    assert dependence.pairs()[0][2] == pytest.approx(0, abs=1e-6)


def test_with_one_blank_it_is_the_model_s_conditional():
    own, _ = unmask.fill(["A [MASK].", TEXT], construction=flat, candidates=8)
    assert (
        own.completions[0].log_prob
        == unmask.fill("A [MASK].", candidates=8).completions[0].log_prob
    )


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda tables: sum(tables.log_q), "sum to"),
        (lambda tables: tables.log_q[0] * torch.nan, "returns NaN"),
        (lambda tables: tables.log_q[0][0], r"shape \(8,\): return log-probabilities of shape"),
        (lambda tables: None, "returns None: return a Joint"),
        (lambda tables: tables.missing, "fails: AttributeError"),
        (lambda tables: torch.full(tables.shape, -torch.inf), r"sum to exp\(-inf\)"),
        (
            lambda tables: unmask.derive(unmask.Tables.from_conditionals([[1.0]], [[1.0]]), "mrf"),
            "over other tables",
        ),
    ],
)
def test_what_is_no_joint_is_said(returned, message):
    with pytest.raises(InputError, match=message):
        unmask.fill(TEXT, construction=returned, candidates=8)


def test_names_of_ours_are_refused():
    def mrf(tables):
        return flat(tables)

    with pytest.raises(InputError, match="called mrf"):
        unmask.fill(TEXT, construction=mrf)

    @unmask.method
    class Mine(Tempered):
        """Under a name of ours."""

        name = "chain"

    with pytest.raises(InputError, match="called chain, as one of ours is"):
        unmask.fill(TEXT, construction=Mine())
    with pytest.raises(InputError, match="names tempered twice"):
        unmask.compare(TEXT, constructions=[Tempered(), Tempered(power=2.0)])
    with pytest.raises(InputError, match=r"give Tempered\(\)"):
        unmask.fill(TEXT, construction=Tempered)


# ---- files ----


def filled(*words):
    done = invoke(["fill", TEXT, "--candidates", "8", *words, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_a_file_is_named_on_the_command_line(file):
    answer = filled("--construction", file)
    assert answer["construction"] == "tempered"
    sharper = filled("-c", file, "--power", "3")
    assert sharper["completions"][0]["log_prob"] > answer["completions"][0]["log_prob"]
    assert filled("--construction", "my_rules.py:flat")["construction"] == "flat"
    words = ["fill", TEXT, "--construction"]
    assert "--power" in refused([*words, "mrf", "--power", "3"])
    assert "did you mean Tempered" in refused([*words, "my_rules.py:Temperd"])


def test_a_run_folder_keeps_the_hash_and_goes_on_with_the_same_code_alone(file, tmp_path):
    texts = ["The cat sat on the mat.", "The dog sat on the bed."]

    def evaluate():
        return unmask.evaluate(
            texts, pairs=2, constructions=["mrf", file], alphabet="cat,dog,sat,mat", out="run"
        )

    first = evaluate()
    _, stored = json.loads((tmp_path / "run" / "settings.json").read_text())["constructions"]
    assert stored["name"] == "tempered"
    assert stored["code"] == "my_rules.py:Tempered"
    assert stored["power"] == 0.5
    assert first.to_frame()["construction"].tolist() == ["mrf", "tempered"]
    assert evaluate().rows == first.rows
    (tmp_path / "my_rules.py").write_text(FILE + "\n# another\n")
    with pytest.raises(InputError, match="the file of your code"):
        evaluate()


def test_without_a_folder_it_needs_no_file():
    texts = ["The cat sat on the mat.", "The dog sat on the bed."]
    rules = ["mrf", lambda tables: flat(tables)]
    table = unmask.evaluate(texts, pairs=2, constructions=rules, alphabet="cat,dog,sat,mat")
    assert table.to_frame()["construction"].tolist() == ["mrf", "lambda"]
    with pytest.raises(InputError, match="file"):
        unmask.evaluate(
            texts, pairs=2, constructions=rules, alphabet="cat,dog,sat,mat", out="no_run"
        )


@pytest.mark.parametrize("name", ["Tempered", "flat"])
def test_another_process_gets_the_source(file, name):
    construction = named(f"my_rules.py:{name}")
    sent = pickle.loads(pickle.dumps(construction))
    assert type(sent) is not Tempered
    assert sent.name == construction.name
    tables = unmask.fill(TEXT, candidates=4).joint.tables
    here = unmask.derive(tables, construction).dense()
    assert torch.equal(unmask.derive(tables, sent).dense(), here)
