"""Text to ids and back: blanks, readings, positions, targets, spaces, characters, errors."""

import pytest
import torch
from tokenizers import pre_tokenizers
from transformers import BertTokenizer, EsmTokenizer

from support.small_models import SPECIAL, random_bert, tokenizer_of
from unmask.common.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.blanks import read_blanks, readings_of
from unmask.models.text.mask_token import with_mask
from unmask.models.text.text_tokenizer import TextTokenizer
from unmask.models.text.vocabulary import tokenizer_from_vocabulary
from unmask.studies.training.segmentation import Segmentation, segments


@pytest.fixture(scope="module")
def bert(checkpoint):
    return MaskedLM.load(checkpoint("bert"))


@pytest.fixture(scope="module")
def roberta(roberta_folder):
    return MaskedLM.load(roberta_folder)


def refusal(model, *arguments, **options) -> str:
    with pytest.raises(InputError) as caught:
        model.cloze(*arguments, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_blanks_of_a_text(bert):
    cloze = bert.cloze("the [MASK] sat on [MASK] mat.")
    assert bert.decode(cloze.ids) == [
        "[CLS]",
        "the",
        "[MASK]",
        "sat",
        "on",
        "[MASK]",
        "mat",
        ".",
        "[SEP]",
    ]
    assert cloze.block == (2, 5)
    assert cloze.gold is None
    assert all(cloze.ids[t] == bert.mask_id for t in cloze.block)
    assert bert.cloze("  the [MASK]\tsat\non [MASK] mat.  ") == cloze


def test_positions_of_a_text_keep_the_gold_tokens_and_their_order(bert):
    plain = bert.words.encode("the cat sat on the mat.")
    cloze = bert.cloze("the cat sat on the mat.", positions=[6, 2])
    assert cloze.block == (6, 2)
    assert bert.decode(cloze.gold) == ["mat", "cat"]
    assert cloze.filled(cloze.gold) == tuple(plain)
    assert cloze.ids[2] == cloze.ids[6] == bert.mask_id
    assert cloze.ids[1] == plain[1]


def test_positions_are_written_as_spans_or_all(bert):
    text = "the cat sat on the mat."
    assert bert.cloze(text, positions="2,4-6").block == (2, 4, 5, 6)
    assert bert.cloze(text, positions="all").block == (1, 2, 3, 4, 5, 6, 7)
    assert "positions '2-x' is not understood" in refusal(bert, text, positions="2-x")


def test_target_of_several_tokens_widens_its_blank(bert):
    widened = bert.cloze("the [MASK] sat.", targets=["walking"])
    assert bert.decode(widened.gold) == ["walk", "##ing"]
    assert widened.block == (2, 3)
    assert widened.filled(widened.gold) == tuple(bert.words.encode("the walking sat."))
    both = bert.cloze("[MASK] sat on [MASK] mat.", targets=["the", "playing"])
    assert both.block == (1, 4, 5)
    assert bert.decode(both.gold) == ["the", "play", "##ing"]
    assert "1 targets for 2 blanks" in refusal(bert, "the [MASK] [MASK] sat.", targets=["walking"])
    assert "3 targets for 1 blank:" in refusal(bert, "the [MASK].", targets=["a", "b", "c"])


def test_target_that_continues_a_word(bert):
    cloze = bert.cloze("the dog walk[MASK].", targets=["##ing"])
    assert cloze.filled(cloze.gold) == tuple(bert.words.encode("the dog walking."))


def test_targets_that_are_no_words(bert):
    assert "[UNK]" in refusal(bert, "the [MASK] sat.", targets=["Zürich"])
    assert "not a word" in refusal(bert, "the [MASK] sat.", targets=["[SEP]"])
    assert "empty" in refusal(bert, "the [MASK] sat.", targets=[" "])
    assert "is not valid: give a list" in refusal(bert, "the [MASK] sat.", targets="cat")
    assert "0 targets" in refusal(bert, "the [MASK] sat.", targets=[])


def test_text_without_blank(bert):
    message = refusal(bert, "the cat sat.")
    assert "the cat sat." in message
    assert "[MASK]" in message


@pytest.mark.parametrize("written", ["<mask>", "[mask]", "___", "<extra_id_0>", "[blank]"])
def test_a_blank_of_another_tool_is_named(bert, written):
    assert refusal(bert, f"the {written} sat.").endswith(
        f"has no blank: write [MASK] instead of {written!r}"
    )


@pytest.mark.parametrize("written", ["<mask>", "[mask]"])
def test_a_mask_of_another_model_beside_blanks_is_no_text(bert, roberta, written):
    text = f"the [MASK] {written} sat."
    assert (
        refusal(bert, text)
        == f"the text {text!r} has {written!r} beside its blanks: write [MASK] for every blank"
    )
    assert len(roberta.cloze("the [MASK] <mask> sat.").block) == 2, "its own mask is one"


@pytest.mark.parametrize(
    ("bad", "name"),
    [("\x00", "U+0000"), ("\x07", "U+0007"), ("\x85", "U+0085"), ("\ud800", "U+D800")],
)
def test_control_character_is_named_with_its_place(bert, bad, name):
    assert f"{name} at place 5" in refusal(bert, f"the {bad}[MASK] sat.")


def test_positions_that_cannot_be_blanks(bert):
    text = "the cat sat."
    assert "special token [UNK]" in refusal(bert, "the Ω sat.", positions=[2])
    for outside in (0, 5, -1):
        expected = f"positions {outside} is out of range: the text has tokens 1 to 4"
        assert refusal(bert, text, positions=[outside]) == expected
    assert "twice" in refusal(bert, text, positions=[2, 2])
    assert "positions is empty" in refusal(bert, text, positions=[])
    assert "one or the other" in refusal(bert, "the [MASK] sat.", positions=[1])
    assert "one or the other" in refusal(bert, text, positions=[1], targets=["a"])


def test_longest_text_counts_the_added_tokens(bert, roberta):
    assert bert.max_length == 24
    assert len(bert.cloze("the " * 21 + "[MASK]").ids) == 24
    assert "25 tokens and the model takes 24" in refusal(bert, "the " * 22 + "[MASK]")
    assert "25 tokens and the model takes 24" in refusal(
        bert, "the " * 20 + "[MASK] sat", targets=["walking"]
    )
    assert "25 tokens and the model takes 24" in refusal(bert, "the " * 23, positions=[3])
    assert roberta.max_length == 20, "22 positions, numbered from padding_idx + 1 = 2"
    longest = torch.tensor([roberta.cloze("The" + " the" * 16 + " [MASK]").ids])
    assert longest.shape[1] == 20
    assert roberta.logits(longest, torch.tensor([[18]])).isfinite().all()
    assert "21 tokens and the model takes 20" in refusal(roberta, "The" + " the" * 17 + " [MASK]")


def test_byte_level_blank_takes_its_space(roberta):
    plain = roberta.words.encode("The cat sat on the mat.")
    for blank in ("[MASK]", "<mask>"):
        cloze = roberta.cloze(f"The {blank} sat on the mat.", targets=["cat"])
        assert cloze.filled(cloze.gold) == tuple(plain)
    assert roberta.token(cloze.gold[0]) == " cat"
    glued = roberta.cloze("(The[MASK]", targets=["cat"])
    assert roberta.decode(glued.gold)[0][0] != " "
    assert roberta.text(glued.filled(glued.gold)) == "(Thecat"
    start = roberta.cloze("[MASK] cat sat.", targets=["The"])
    assert start.filled(start.gold) == tuple(roberta.words.encode("The cat sat."))
    assert roberta.text(cloze.ids) == "The[MASK] sat on the mat."


def test_byte_level_token_that_is_half_a_character(roberta):
    ids = roberta.words.encode("é")[1:-1]
    assert [roberta.token(i) for i in ids] == ["Ã", "©"]


def test_sentencepiece_spaces(make_network):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    pieces = ["<pad>", "<unk>", "<mask>", "▁the", "▁cat", "cat", "▁sat", ",", "▁,", ".", "▁"]
    core = Tokenizer(
        models.Unigram([(piece, -float(i)) for i, piece in enumerate(pieces)], unk_id=1)
    )
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.add_special_tokens(["<mask>"])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", unk_token="<unk>", mask_token="<mask>"
    )
    model = MaskedLM(make_network("albert", vocab_size=len(pieces)), tokenizer)
    spaced = model.cloze("the [MASK] sat.", targets=["cat"])
    assert model.decode(spaced.filled(spaced.gold))[:3] == [" the", " cat", " sat"]
    start = model.cloze("[MASK] sat.", targets=["cat"])
    assert model.decode(start.gold) == [" cat"]
    glued = model.cloze("the[MASK] sat.", targets=["cat"])
    assert model.decode(glued.gold) == ["cat"]


@pytest.fixture(scope="module")
def protein(tmp_path_factory):
    folder = tmp_path_factory.mktemp("protein")
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL, *"ACDEFGHIKLMNPQRSTVWY"]))
    return MaskedLM(
        random_bert(25, 64, seed=0, spread=0.02),
        BertTokenizer.from_pretrained(folder, do_lower_case=False),
    )


def test_characters_are_tokens_when_all_tokens_are_characters(protein):
    cloze = protein.cloze("EVQL[MASK][MASK]SGG")
    assert protein.decode(cloze.ids) == ["[CLS]", *"EVQL", "[MASK]", "[MASK]", *"SGG", "[SEP]"]
    assert protein.cloze("EV QL [MASK] [MASK]\nSGG") == cloze
    assert protein.text(cloze.ids) == "EVQL[MASK][MASK]SGG"
    assert (
        protein.text(cloze.filled(protein.cloze("EVQLVESGG", positions=[5, 6]).gold)) == "EVQLVESGG"
    )
    filled = protein.cloze("EVQL[MASK]SGG", targets=["VE"])
    assert filled.block == (5, 6)
    assert protein.decode(filled.gold) == ["V", "E"]


def test_character_outside_the_alphabet(protein):
    message = refusal(protein, "EVQl[MASK]ESGG")
    assert "'l' at place 4" in message
    assert "ACDEFGHIKLMNPQRSTVWY" in message
    assert "'x' at place 13" in refusal(protein, "EVQ[MASK]ES x")
    assert "'Z'" in refusal(protein, "EVQ[MASK]", targets=["Z"])


def test_places_of_letters_beside_special_tokens():
    tokenizer = tokenizer_from_vocabulary(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "*", *"ACDE"], special={"mask": "*"}
    )
    words = TextTokenizer(tokenizer, 9)
    text = "A C[UNK]D[MASK]*E"
    spans = words.tokens_of(text).spans
    assert [text[start:stop] for start, stop in spans[1:-1]] == [
        "A",
        "C",
        "[UNK]",
        "D",
        "[MASK]",
        "*",
        "E",
    ]
    assert words.encode(text) == [2, 5, 6, 1, 7, 4, 4, 8, 3]
    with pytest.raises(InputError, match="'B' at place 8 "):
        words.encode("A[MASK]B")


def test_tokens_of_a_tokenizer_without_spans(tmp_path):
    (tmp_path / "vocab.txt").write_text(
        "\n".join(["<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSE", "<mask>"])
    )
    words = TextTokenizer(EsmTokenizer(str(tmp_path / "vocab.txt")), 11)
    assert words.core is None
    for text, ids in (("LA", (4, 5)), ("<unk>LA", (3, 4, 5)), ("[MASK]", (10,)), ("<unk>", (3,))):
        tokens = words.tokens_of(text)
        assert tokens.ids == (0, *ids, 2)
        assert tokens.inside == (1, 1 + len(ids))
        assert tokens.words == [None, *range(1, 1 + len(ids)), None]


def test_a_regular_expression_that_panics_is_one_line_and_the_other_texts_are_read(capfd):
    """Rust's panic is a BaseException in Python."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "ab", "b"]
    words = TextTokenizer(tokenizer_from_vocabulary(tokens, pattern=r"(a+)+$"), len(tokens))
    bad = "a" * 40 + "b"
    with pytest.raises(
        InputError,
        match="the model's tokenizer cannot read 'aaaa.*: write it in the model's own tokens",
    ) as error:
        words.encode(bad)
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="the model's tokenizer cannot read 'aaaa"):
        words.encode_word(bad, at_start=True, after_space=False)
    with pytest.raises(InputError, match="the model's tokenizer cannot read a text of the corpus"):
        segments(words.core, Segmentation(), [bad])
    first, second = words.tokens_of_each([bad, "a"])
    assert isinstance(first, InputError)
    assert second.ids == (2, 5, 3)
    capfd.readouterr()  # Rust's own report


def test_unused_places_of_a_vocabulary_are_not_regular():
    tokens = [
        "[PAD]",
        "[unused1]",
        "[unused99]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "unused",
        "[used]",
        "the",
    ]
    words = TextTokenizer(tokenizer_from_vocabulary(tokens), len(tokens))
    assert list(words.regular_tokens) == ["unused", "[used]", "the"]
    assert words.special_ids == tuple(range(7))


def test_tokens_that_the_tokenizer_marks_as_special_are_not_regular():
    """Also without a name, and a mask that another token has replaced."""
    tokenizer = tokenizer_of(["the", "cat", "sat"], pre_tokenizers.Whitespace())
    tokenizer.backend_tokenizer.add_special_tokens(["<|user|>"])
    words = TextTokenizer(tokenizer, len(tokenizer))
    assert "<|user|>" not in tokenizer.all_special_tokens
    assert list(words.regular_tokens) == [
        "the",
        "cat",
        "sat",
    ]
    words = TextTokenizer(with_mask(tokenizer, words.regular_tokens["cat"]), len(tokenizer))
    assert list(words.regular_tokens) == ["the", "sat"]


def test_a_tokenizer_that_cuts_letters_itself_gets_no_spaces():
    words = TextTokenizer(tokenizer_of("ACDE", pre_tokenizers.Split("", "isolated")), 9)
    assert words.by_character
    assert words.encode("CA[MASK] DE") == [2, 6, 5, 4, 7, 8, 3]
    read = words.tokens_of("CA DE")
    assert read.ids == (2, 6, 5, 7, 8, 3)
    assert list(read.spans) == [
        (0, 0),
        (0, 1),
        (1, 2),
        (3, 4),
        (4, 5),
        (0, 0),
    ]


def words_of(tokenizer):
    return TextTokenizer(tokenizer, len(tokenizer))


def test_readings_have_as_many_masks_as_the_lengths_say(make_word_tokenizer):
    words = words_of(make_word_tokenizer())
    text = "the [WORD:1-2] sat on [GAP:2-3] [MASK]."
    blanks = read_blanks(words, text)
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
    ("text", "said"),
    [
        ("the cat", "has no blank"),
        ("the [GAP:5-2] cat", r"\[GAP:5-2\] is not understood"),
        ("the [GAP:0-2] cat", "is not understood"),
        ("the [GAP] cat", "is not understood"),
        ("the [GAP:a-b] cat", "is not understood"),
        ("the [WORD:3-2] cat", r"the word \[WORD:3-2\] is not understood: write \[WORD:1-5\]"),
        ("the [WORD:] cat", "is not understood"),
        ("the [WORD:1-9999999] cat", "is too long"),
        ("the [WORD]s", "touches 's'"),
        ("the [WORD:1-2]s", "touches 's'"),
        ("un[WORD]", "touches 'n'"),
        ("[WORD] [WORD] [WORD] [WORD]", "more than 64 ways"),
        ("[WORD:1-9] [WORD:1-9]", "more than 64 ways"),
        (
            "the [GAP:30-40]",
            "the blanks alone have 30 tokens at their shortest and the model takes 24",
        ),
    ],
)
def test_bad_blanks(make_word_tokenizer, text, said):
    words = words_of(make_word_tokenizer())
    with pytest.raises(InputError, match=said):
        readings_of(words, text, read_blanks(words, text), max_length=24)


def test_lengths_too_long_for_the_model_are_left_out_with_a_warning(make_word_tokenizer, caplog):
    words = words_of(make_word_tokenizer())
    text = "the [GAP:1-5]"
    readings = readings_of(words, text, read_blanks(words, text), max_length=6)
    assert [r.lengths for r in readings] == [(1,), (2,), (3,)]
    assert "2 of 5 lengths" in caplog.text
