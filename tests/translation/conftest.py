"""Small models of a made-up pair of languages, trained once for all tests here."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from made_up_language import SMALL, pairs

import unmask


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("translation")


@pytest.fixture(scope="session")
def masked(folder: Path) -> Path:
    torch.set_num_threads(1)
    return unmask.train(parallel=pairs(600, words=6), out=folder / "masked", cache=folder / "cache", steps=350, **SMALL).out


@pytest.fixture(scope="session")
def causal(folder: Path, masked: Path) -> Path:
    options = {**SMALL, "objective": "causal", "tokenizer": masked}
    return unmask.train(parallel=pairs(600, words=6), out=folder / "causal", cache=folder / "cache", steps=180, **options).out


@pytest.fixture(scope="session")
def refined(folder: Path, masked: Path) -> Path:
    options = {**SMALL, "init": masked, "vocab": None, "refinement": 1.0, "lr": 4e-3, "steps": 120}
    return unmask.train(parallel=pairs(600, words=6), out=folder / "refined", cache=folder / "cache", **options).out
