"""A small model of letters, as protein models are, with random weights."""

import pytest

LETTERS = "ACDEG"


@pytest.fixture(scope="session")
def letters_folder(tmp_path_factory):
    """A saved BERT over five letters, whose conditionals depend on each other by nats; texts of
    at most 30 letters.
    """
    from tokenizers.pre_tokenizers import WhitespaceSplit

    from support.small_models import save_bert

    return save_bert(
        tmp_path_factory.mktemp("letters"),
        LETTERS,
        WhitespaceSplit(),
        positions=32,
        seed=5,
        spread=0.6,
    )


@pytest.fixture(scope="session")
def letters(letters_folder):
    """The model of `letters_folder`."""
    from unmask.models.masked_lm import MaskedLM

    return MaskedLM.load(letters_folder, device="cpu")
