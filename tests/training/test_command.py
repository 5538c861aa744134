"""`unmask train` on the command line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from unmask.cli.app import app
from unmask.models.masked_lm import MaskedLM

OPTIONS = ["--layers", "1", "--width", "16", "--heads", "2", "--vocab", "160", "--max-length", "32", "--segment-lengths", "16,32"]
RUN = ["--batch-tokens", "256", "--steps", "4", "--device", "cpu", "--licence", "cc0-1.0"]


def call(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["unmask", *arguments])
    with pytest.raises(SystemExit) as end:
        app(arguments)
    return int(end.value.code or 0)


def test_train_writes_a_folder_that_unmask_loads(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model"
    arguments = ["train", str(corpus), "--out", str(out), "--cache", str(tmp_path / "cache"), *OPTIONS, *RUN]
    assert call(arguments, monkeypatch) == 0
    assert f"{out}: finished at step 4, validation " in capsys.readouterr().out
    assert f"    unmask {' '.join(arguments)}" in (out / "README.md").read_text()
    model = MaskedLM.load(out, device="cpu")
    cloze = model.cloze("The old sailor [MASK] boats on Monday.")
    logits = model.logits(torch.tensor([cloze.ids]), torch.tensor([cloze.block]))
    assert logits.shape == (1, 1, model.vocab_size) and bool(logits.isfinite().all())
    assert call(arguments, monkeypatch) == 2
    assert f"error: {out} exists and is not empty" in capsys.readouterr().err
    other = ["train", str(corpus), "--out", str(tmp_path / "other"), "--init", str(out), "--layers", "3", *RUN]
    assert call(other, monkeypatch) == 2
    assert f"error: --layers 3, but {out} has 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--size", "huge"], 'size "huge" is unknown'),
        (["--segment-lengths", "a,b"], '--segment-lengths "a,b": give whole numbers'),
        (["--weight", "1", "--weight", "2"], "2 weights for 1 corpus files"),
        (["--valid-share", "0"], "--valid-share 0: give a share between 0 and 1"),
        (["--masking", "half"], 'masking "half" is unknown'),
    ],
)
def test_wrong_options_end_in_one_line(
    corpus: Path,
    tmp_path: Path,
    options: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call(["train", str(corpus), "--out", str(tmp_path / "model"), *options], monkeypatch) == 2
    assert f"error: {message}" in capsys.readouterr().err
    assert not (tmp_path / "model").exists()
