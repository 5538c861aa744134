"""The tokens that an alphabet names, in letters, words, lists and files, and their ids."""

import pytest

from unmask.common.errors import InputError
from unmask.models.text.alphabet import alphabet_ids, alphabet_tokens
from unmask.models.text.text_tokenizer import TextTokenizer


@pytest.mark.parametrize(
    ("given", "tokens"),
    [
        ("ACDA", ("A", "C", "D")),
        ("red, green", ("red", "green")),
        ("red green", ("red", "green")),
        (["red", " green ", "red"], ("red", "green")),
        ("x" * 5000, ("x",)),
    ],
)
def test_letters_words_and_lists(given, tokens):
    assert alphabet_tokens(given) == tokens


def test_files(tmp_path):
    (tmp_path / "letters.txt").write_text("ACDEF\n")
    (tmp_path / "words.txt").write_text("red\ngreen\n\n")
    assert alphabet_tokens(str(tmp_path / "letters.txt")) == tuple("ACDEF")
    assert alphabet_tokens(tmp_path / "words.txt") == ("red", "green")


@pytest.mark.parametrize("given", ["", " , ", []])
def test_an_empty_alphabet_is_refused(given):
    with pytest.raises(InputError, match="names no token"):
        alphabet_tokens(given)


def test_unreadable_files_are_refused(tmp_path):
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    with pytest.raises(InputError, match="not UTF-8"):
        alphabet_tokens(str(tmp_path / "latin.txt"))
    with pytest.raises(InputError, match="cannot be read"):
        alphabet_tokens(tmp_path / "nowhere.txt")


def test_ids_are_single_regular_tokens(tiny):
    assert alphabet_ids(tiny.words, ["cat", "dog", "cat"]) == [
        tiny.words.encode("cat")[1],
        tiny.words.encode("dog")[1],
    ]
    with pytest.raises(InputError, match="2 tokens of the model"):
        alphabet_ids(tiny.words, ["cat dog"])
    for wrong in ("zebra", "[SEP]"):
        with pytest.raises(InputError, match="is not a word of the model"):
            alphabet_ids(tiny.words, [wrong])


def test_both_spellings_of_a_word_are_meant():
    class Spaced(TextTokenizer):
        """A tokenizer whose words carry their space; "blue" without one is two tokens."""

        def __init__(self):
            """Without a vocabulary: only `encode_word` is asked."""

        def encode_word(self, word, at_start, after_space):
            return {"red": [8] if after_space else [7], "blue": [9] if after_space else [1, 2]}[
                word
            ]

    assert alphabet_ids(Spaced(), ["red", "blue"]) == [7, 8, 9]
