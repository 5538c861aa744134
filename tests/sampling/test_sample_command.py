"""`unmask sample` and `unmask diagnose` as they are typed."""

import json

import pandas
import pytest
import typer
from typer.testing import CliRunner

from unmask.cli.app import OneLineErrors
from unmask.cli.diagnose import diagnose
from unmask.cli.sample import read_allowed, sample

app = typer.Typer(cls=OneLineErrors)
app.command()(sample)
app.command()(diagnose)


def unmask(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def run_folder(tiny_folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "mh"
    ran = unmask(
        *("sample", "--kernel", "mh", "--energy", "norm", "--length", "6", "--chains", "4", "--sweeps", "8", "--seed", "0"),
        *("--delayed", "1,3", "--model", tiny_folder, "--device", "cpu", "--out", out),
    )
    assert ran.exit_code == 0, ran.output
    return out, ran


def test_a_run_leaves_samples_settings_diagnostics_and_figures(run_folder):
    out, ran = run_folder
    frame = pandas.read_parquet(out / "samples.parquet")
    assert len(frame) == 32 and {"text", "energy", "chain", "sweep"} <= set(frame.columns)
    settings = json.loads((out / "settings.json").read_text())
    assert settings["kernel"] == "mh" and settings["delayed"] == [1, 3] and "torch" in settings["begun"]["versions"]
    assert (out / "figures" / "chains.png").stat().st_size > 20_000
    assert json.loads((out / "diagnostics.json").read_text())["chains"] == 4
    assert "R-hat" in ran.output and "accepted" in ran.output and "invariant" in ran.output


def test_diagnose_reads_the_folder(run_folder):
    out, _ = run_folder
    told = unmask("diagnose", out, "--json")
    assert told.exit_code == 0
    assert json.loads(told.stdout)["functionals"][0]["name"] == "energy"
    assert "self-BLEU" in unmask("diagnose", out).output


def test_the_same_command_again_changes_nothing_and_another_is_refused(run_folder, tiny_folder):
    out, _ = run_folder
    common = ["sample", "--length", 6, "--chains", 4, "--model", tiny_folder, "--device", "cpu", "--out", out, "--delayed", "1,3"]
    before = (out / "samples.parquet").read_bytes()
    assert unmask(*common, "--sweeps", 8).exit_code == 0
    assert (out / "samples.parquet").read_bytes() == before
    refused = unmask(*common, "--sweeps", 8, "--energy", "raw")
    assert refused.exit_code == 2 and "energy norm, not raw" in refused.output and refused.output.count("\n") == 1


def test_starts_from_a_file(tiny_folder, tmp_path):
    (tmp_path / "starts.txt").write_text("the cat sat on the mat\n\na dog ran\n")
    ran = unmask(
        *("sample", "--init", tmp_path / "starts.txt", "--chains", 3, "--sweeps", 5, "--model", tiny_folder, "--device", "cpu"),
        *("--out", tmp_path / "run", "--kernel", "gibbs", "--top-k", 4),
    )
    assert ran.exit_code == 0, ran.output
    assert pandas.read_parquet(tmp_path / "run" / "starts.parquet")["text"].tolist()[1] == "a dog ran"
    assert ran.output.count("out of reach") >= 1, "truncated proposals are warned about"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--chains", "0"], "0 chains"),
        (["--length", "99"], "the model takes at most 16"),
        (["--length", "many"], "numbers separated by commas"),
        (["--template", "the [MASK]", "--allow", "2=zebra"], "zebra"),
        (["--template", "the [MASK]", "--allow", "two"], "such as 3=red,green"),
        (["--init", "/nowhere/starts.txt"], "cannot be read"),
        (["--kernel", "block", "--block", "30"], "blocks of 30"),
        (["--ladder", "2,1", "--kernel", "tempering"], "rising"),
    ],
)
def test_mistakes_end_in_one_line(tiny_folder, tmp_path, arguments, message):
    ran = unmask("sample", "--model", tiny_folder, "--device", "cpu", "--out", tmp_path / "run", *arguments)
    assert ran.exit_code == 2 and message in ran.output and ran.output.startswith("error: ")
    assert len(ran.output.strip().splitlines()) == 1


def test_diagnosing_nothing_is_refused(tmp_path):
    ran = unmask("diagnose", tmp_path)
    assert ran.exit_code == 2 and "holds no run" in ran.output


def test_an_interrupt_says_how_to_go_on(tiny_folder, tmp_path, interrupted_at):
    where = ["--model", tiny_folder, "--device", "cpu", "--out", tmp_path / "r"]
    command = ["sample", "--length", 5, "--chains", 2, "--sweeps", 6, *where]
    with interrupted_at(3):
        ran = unmask(*command)
    assert ran.exit_code == 130 and "the same command goes on" in ran.output
    assert unmask(*command).exit_code == 0
    assert pandas.read_parquet(tmp_path / "r" / "samples.parquet")["sweep"].max() == 6


def test_allowed_tokens_are_read():
    assert read_allowed("3=red, green") == (3, ("red", "green"))
