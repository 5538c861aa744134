"""`unmask train` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from command_runner import invoke
from unmask.models.masked_lm import MaskedLM

OPTIONS = ["--layers", "1", "--width", "16", "--heads", "2", "--vocab", "160", "--max-length", "32"]
RUN = ["--batch-tokens", "256", "--steps", "4", "--device", "cpu"]


def call(*words: object) -> tuple[int, str, str]:
    result = invoke([str(word) for word in words])
    return result.exit_code, result.stdout, result.stderr


def test_train_writes_a_folder_that_unmask_loads(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    arguments = ["train", corpus, "--out", out, *OPTIONS, *RUN]
    code, printed, _ = call(*arguments)
    assert code == 0 and f"{out}: finished at step 4 of 4, validation " in printed
    model = MaskedLM.load(out, device="cpu")
    cloze = model.cloze("The old sailor [MASK] boats on Monday.")
    logits = model.logits(torch.tensor([cloze.ids]), torch.tensor([cloze.block]))
    assert logits.shape == (1, 1, model.vocab_size) and bool(logits.isfinite().all())
    code, _, told = call(*arguments)
    assert code == 2 and told.startswith(f"error: '{out}' exists and is not empty") and told.count("\n") == 1
    code, _, told = call("train", corpus, "--out", tmp_path / "other", "--init", out, "--layers", "3", *RUN)
    assert code == 2 and f"error: --layers 3 was given, but {out} has 1" in told


def test_a_paused_run_says_how_to_go_on(corpus: Path, tmp_path: Path) -> None:
    arguments = ["train", corpus, "--out", tmp_path / "model", *OPTIONS, *RUN]
    code, printed, told = call(*arguments, "--max-minutes", "0")
    assert code == 0 and "paused at step 1 of 4" in printed and "add --resume to the same command to continue" in told
    code, printed, _ = call(*arguments, "--resume", "--json")
    assert code == 0 and json.loads(printed)["step"] == 4
