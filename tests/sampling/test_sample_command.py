"""`unmask sample` and `unmask diagnose` as they are typed."""

import json

import pandas
import pytest

from support.command_runner import invoke
from unmask.sampling.decoders.decoder import DECODERS
from unmask.sampling.kernels.kernel import KERNELS


def unmask(*words):
    return invoke([str(word) for word in words])


@pytest.fixture(scope="module")
def run_folder(tiny_folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "mh"
    ran = unmask(
        *(
            "sample",
            "--kernel",
            "mh",
            "--energy",
            "norm",
            "--length",
            "6",
            "--chains",
            "4",
            "--sweeps",
            "8",
            "--seed",
            "0",
        ),
        *("--scan", "fixed", "--model", tiny_folder, "--device", "cpu", "--out", out),
    )
    assert ran.exit_code == 0, ran.output
    return out, ran


def test_a_run_leaves_samples_settings_diagnostics_and_figures(run_folder):
    out, ran = run_folder
    frame = pandas.read_parquet(out / "samples.parquet")
    assert len(frame) == 32
    assert {"text", "energy", "chain", "sweep"} <= set(frame.columns)
    settings = json.loads((out / "settings.json").read_text())
    assert settings["kernel"]["name"] == "mh"
    assert settings["kernel"]["scan"] == "fixed"
    assert "torch" in settings["begun"]["versions"]
    assert (out / "figures" / "chains.png").stat().st_size > 20_000
    assert json.loads((out / "diagnostics.json").read_text())["chains"] == 4
    assert "R-hat" in ran.output
    assert "accepted" in ran.output
    assert "invariant" in ran.output


def test_diagnose_reads_the_folder(run_folder):
    out, _ = run_folder
    told = unmask("diagnose", out, "--json")
    assert told.exit_code == 0
    assert json.loads(told.stdout)["runs"][0]["functionals"][0]["name"] == "energy"
    assert "equal neighbours" in unmask("diagnose", out).output


def test_the_figures_are_named(run_folder):
    out, ran = run_folder
    assert f"figures in {out / 'figures'}" in " ".join(ran.output.split())
    told = unmask("diagnose", out)
    files = f"diagnostics.json and figures/chains.png are in {out}"
    assert files in " ".join(told.output.split())


def test_several_runs_stand_side_by_side(run_folder, tmp_path):
    out, _ = run_folder
    told = unmask("diagnose", out, out, "--json")
    alone = json.loads(unmask("diagnose", out, "--json").stdout)
    assert json.loads(told.stdout) == {"runs": alone["runs"] * 2}
    table = unmask("diagnose", out, out)
    assert table.exit_code == 0
    assert table.output.count("(mh)") == 2
    assert "R-hat" in table.output
    refused = unmask("diagnose", out, tmp_path)
    assert refused.exit_code == 2
    assert "run 2 of 2: " in refused.output


def test_the_same_command_again_changes_nothing_and_another_is_refused(run_folder, tiny_folder):
    out, _ = run_folder
    common = [
        "sample",
        "--length",
        6,
        "--chains",
        4,
        "--model",
        tiny_folder,
        "--device",
        "cpu",
        "--out",
        out,
        "--scan",
        "fixed",
    ]
    before = (out / "samples.parquet").read_bytes()
    assert unmask(*common, "--sweeps", 8).exit_code == 0
    assert (out / "samples.parquet").read_bytes() == before
    refused = unmask(*common, "--sweeps", 8, "--energy", "raw")
    assert refused.exit_code == 2
    assert "energy 'norm', not 'raw'" in refused.output
    assert refused.output.count("\n") == 1


def test_json_and_no_folder(tiny_folder, tmp_path):
    ran = unmask(
        "sample",
        "--length",
        4,
        "--chains",
        3,
        "--sweeps",
        5,
        "--model",
        tiny_folder,
        "--device",
        "cpu",
        "--json",
    )
    told = json.loads(ran.stdout)
    assert ran.exit_code == 0
    assert set(told) == {"settings", "samples", "diagnosis"}
    assert [row["chain"] for row in told["samples"]] == [0, 1, 2]
    assert set(told["samples"][0]) == {"chain", "sweep", "text", "energy", "passes"}
    assert told["diagnosis"]["verdict"]
    assert told["settings"]["length"] == [4]
    plain = unmask(
        "sample",
        "--length",
        4,
        "--chains",
        3,
        "--sweeps",
        5,
        "--model",
        tiny_folder,
        "--device",
        "cpu",
    )
    assert "none is kept: give --out" in plain.output
    assert told["samples"][0]["text"] in plain.output
    assert "\nenergy  text\n" in plain.output


def test_help_names_the_kernels_and_their_options():
    shown = " ".join(unmask("sample", "--help").output.split())
    for name in KERNELS:
        assert name in shown
    for name in DECODERS:
        assert f" {name}," not in shown
    assert "--block-size" in shown
    assert "--together" not in shown
    assert unmask("sample", "--together", 4).exit_code == 2
