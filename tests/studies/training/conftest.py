"""What most of these tests need of the small language in `made_up`."""

import pytest

from support.made_up import made_up_lines
from unmask.studies.training.packed_text import Vocabulary
from unmask.studies.training.word_piece_training import train_tokenizer


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def lines():
    return made_up_lines(600)


@pytest.fixture(scope="session")
def tokenizer(lines):
    return train_tokenizer(lambda: lines, 160)


@pytest.fixture(scope="session")
def vocabulary(tokenizer):
    return Vocabulary.of(tokenizer)


@pytest.fixture
def corpus(tmp_path, lines):
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(lines) + "\n")
    return path
