"""Word starts and continuations of the three kinds of tokenizers, and the ways to spell a word."""

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from unmask.common.errors import InputError
from unmask.models.text.text_tokenizer import TextTokenizer
from unmask.models.text.word_marks import WordMarks


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
    marked = marks(tokenizer)
    begin = tokens(tokenizer, marked.beginning(False, True))
    go_on = tokens(tokenizer, marked.continuing)
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
    assert marked.spelled(ids) == "playing"
    assert marked.is_canonical(ids, False, True)
    letters = tokenizer.convert_tokens_to_ids(["p", "##l", "##a", "##y", "##ing"])
    assert marked.spelled(letters) == "playing"
    assert not marked.is_canonical(letters, False, True)
    assert marked.spelled(tokenizer.convert_tokens_to_ids(["cat", "."])) == ""


def test_byte_level(make_byte_tokenizer):
    tokenizer = make_byte_tokenizer()
    marked = marks(tokenizer)
    after_space = tokens(tokenizer, marked.beginning(False, True))
    inside = tokens(tokenizer, marked.continuing)
    assert {"Ġcat", "Ġthe"} <= after_space
    assert all(token.startswith("Ġ") for token in after_space)
    assert {"a", "z"} <= inside
    assert not any(token.startswith("Ġ") for token in inside)
    assert not inside & {".", ","}
    assert tokens(tokenizer, marked.beginning(True, False)) == inside
    for word in ("café", "naïve", "cats"):
        ids = tokenizer(" " + word)["input_ids"][1:-1]
        assert marked.spelled(ids) == word
        assert marked.is_canonical(ids, False, True)
        pieces = [marked.beginning(False, True)[ids[0]], *(marked.continuing[i] for i in ids[1:])]
        assert all(pieces)


def test_sentence_piece():
    tokenizer = sentence_piece()
    marked = marks(tokenizer)
    assert tokens(tokenizer, marked.beginning(False, True)) == {"▁the", "▁cat", "▁", "▁c"}
    assert tokens(tokenizer, marked.continuing) == {"cat", "s", "at", "c", "the", "é"}
    ids = tokenizer.convert_tokens_to_ids(["▁cat", "s"])
    assert marked.spelled(ids) == "cats"


def test_a_tokenizer_without_marks_is_refused(tiny):
    with pytest.raises(InputError, match=r"does not mark where a word begins.*\[GAP:1-3\]"):
        WordMarks(tiny.words, tiny.vocab_size)
