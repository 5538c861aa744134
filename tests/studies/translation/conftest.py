"""Small models of a made-up pair of languages, trained once for all tests here."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from support import flat
from support.made_up_language import SMALL, pairs


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("translation")


@pytest.fixture(scope="session")
def masked(folder: Path) -> Path:
    torch.set_num_threads(1)
    return flat.train(parallel=pairs(600, words=6), out=folder / "masked", steps=350, **SMALL).out


@pytest.fixture(scope="session")
def causal(folder: Path, masked: Path) -> Path:
    options = {**SMALL, "objective": "causal", "vocab": None, "tokenizer": masked}
    return flat.train(parallel=pairs(600, words=6), out=folder / "causal", steps=180, **options).out


@pytest.fixture(scope="session")
def refined(folder: Path, masked: Path) -> Path:
    of_masked = dict.fromkeys(("layers", "width", "heads", "vocab"))
    options = {**SMALL, **of_masked, "init": masked, "refinement": 1.0, "lr": 4e-3, "steps": 120}
    return flat.train(parallel=pairs(600, words=6), out=folder / "refined", **options).out
