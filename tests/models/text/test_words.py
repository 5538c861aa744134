"""Word starts and continuations of the three kinds of tokenizers, the ways to spell a word, and
alphabets.
"""

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from unmask.common.errors import InputError
from unmask.models.text.blanks import (
    WordMarks,
    alphabet_ids,
    alphabet_tokens,
    read_blanks,
    readings_of,
)
from unmask.models.text.text_tokenizer import TextTokenizer


def sentence_piece():
    """A Unigram tokenizer with "▁" before words, as ALBERT and XLM-R have it."""
    pieces = [
        "<s>",
        "<pad>",
        "</s>",
        "<unk>",
        "<mask>",
        "▁the",
        "▁cat",
        "▁",
        "cat",
        "s",
        "at",
        "c",
        "▁c",
        "the",
        ".",
        ",",
        "é",
    ]
    core = Tokenizer(
        models.Unigram([(piece, -float(len(piece) < 3) - 1) for piece in pieces], unk_id=3)
    )
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.decoder = decoders.Metaspace()
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = {
        "bos_token": "<s>",
        "cls_token": "<s>",
        "pad_token": "<pad>",
        "eos_token": "</s>",
        "sep_token": "</s>",
    }
    return PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token="<unk>", mask_token="<mask>", **names
    )


def marks(tokenizer):
    return WordMarks(TextTokenizer(tokenizer, len(tokenizer)), len(tokenizer))


def tokens(tokenizer, mask):
    return set(tokenizer.convert_ids_to_tokens(torch.nonzero(mask).flatten().tolist()))


def test_word_pieces(make_word_tokenizer):
    tokenizer = make_word_tokenizer()
    found = marks(tokenizer)
    begin, go_on = (
        tokens(tokenizer, found.beginning(False, True)),
        tokens(tokenizer, found.continuing),
    )
    assert {"cat", "play", "a", "un"} <= begin
    assert not begin & {
        ".",
        ",",
        "!",
        "##s",
        "[MASK]",
        "[CLS]",
    }
    assert {"##s", "##ing", "##able"} <= go_on
    assert all(token.startswith("##") for token in go_on)
    ids = tokenizer.convert_tokens_to_ids(["play", "##ing"])
    assert found.spelled(ids) == "playing"
    assert found.is_canonical(ids, False, True)
    letters = tokenizer.convert_tokens_to_ids(["p", "##l", "##a", "##y", "##ing"])
    assert found.spelled(letters) == "playing"
    assert not found.is_canonical(letters, False, True)
    assert found.spelled(tokenizer.convert_tokens_to_ids(["cat", "."])) == ""


def test_byte_level(make_byte_tokenizer):
    tokenizer = make_byte_tokenizer()
    found = marks(tokenizer)
    after_space, inside = (
        tokens(tokenizer, found.beginning(False, True)),
        tokens(tokenizer, found.continuing),
    )
    assert {"Ġcat", "Ġthe"} <= after_space
    assert all(token.startswith("Ġ") for token in after_space)
    assert {"a", "z"} <= inside
    assert not any(token.startswith("Ġ") for token in inside)
    assert not inside & {".", ","}
    assert tokens(tokenizer, found.beginning(True, False)) == inside
    for word in ("café", "naïve", "cats"):
        ids = tokenizer(" " + word)["input_ids"][1:-1]
        assert found.spelled(ids) == word
        assert found.is_canonical(ids, False, True)
        pieces = [found.beginning(False, True)[ids[0]], *(found.continuing[i] for i in ids[1:])]
        assert all(pieces)


def test_sentence_piece():
    tokenizer = sentence_piece()
    found = marks(tokenizer)
    assert tokens(tokenizer, found.beginning(False, True)) == {"▁the", "▁cat", "▁", "▁c"}
    assert tokens(tokenizer, found.continuing) == {"cat", "s", "at", "c", "the", "é"}
    ids = tokenizer.convert_tokens_to_ids(["▁cat", "s"])
    assert found.spelled(ids) == "cats"


def test_a_tokenizer_without_marks_is_refused(tiny):
    with pytest.raises(InputError, match=r"does not mark where a word begins.*\[GAP:1-3\]"):
        WordMarks(tiny.words, tiny.vocab_size)


def words_of(tokenizer):
    return TextTokenizer(tokenizer, len(tokenizer))


def test_readings_have_as_many_masks_as_the_lengths_say(make_word_tokenizer):
    words = words_of(make_word_tokenizer())
    text = "the [WORD] sat on [GAP:2-3] [MASK]."
    blanks = read_blanks(words, text, pieces=2)
    assert [(b.kind, b.least, b.most) for b in blanks] == [
        ("word", 1, 2),
        ("gap", 2, 3),
        ("token", 1, 1),
    ]
    readings = readings_of(words, text, blanks)
    assert [r.lengths for r in readings] == [(1, 2, 1), (1, 3, 1), (2, 2, 1), (2, 3, 1)]
    for reading in readings:
        assert len(reading.cloze.block) == sum(reading.lengths)
        assert [len(part) for part in reading.parts(range(sum(reading.lengths)))] == list(
            reading.lengths
        )


def test_contexts(make_byte_tokenizer):
    words = words_of(make_byte_tokenizer())
    first, second, third = read_blanks(words, "[WORD] ran ([WORD]) to [WORD].")
    assert (first.at_start, first.after_space) == (True, False)
    assert (second.at_start, second.after_space) == (False, False)
    assert (third.at_start, third.after_space) == (False, True)


@pytest.mark.parametrize(
    ("text", "pieces", "said"),
    [
        ("the cat", 3, "has no blank"),
        ("the [GAP:5-2] cat", 3, r"\[GAP:5-2\] is not understood"),
        ("the [GAP:0-2] cat", 3, "is not understood"),
        ("the [GAP] cat", 3, "is not understood"),
        ("the [GAP:a-b] cat", 3, "is not understood"),
        ("the [WORD]s", 3, "touches 's'"),
        ("un[WORD]", 3, "touches 'n'"),
        ("[WORD] [WORD] [WORD] [WORD]", 3, "more than 64 ways"),
        (
            "the [GAP:30-40]",
            3,
            "the blanks alone have 30 tokens at their shortest and the model takes 24",
        ),
    ],
)
def test_bad_blanks(make_word_tokenizer, text, pieces, said):
    words = words_of(make_word_tokenizer())
    with pytest.raises(InputError, match=said):
        readings_of(words, text, read_blanks(words, text, pieces), max_length=24)


def test_lengths_too_long_for_the_model_are_left_out_with_a_warning(make_word_tokenizer, caplog):
    words = words_of(make_word_tokenizer())
    text = "the [GAP:1-5]"
    found = readings_of(words, text, read_blanks(words, text), max_length=6)
    assert [r.lengths for r in found] == [(1,), (2,), (3,)]
    assert "2 of 5 lengths" in caplog.text


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
