"""Texts as a person types them: what is a word, a residue and a blank, and where it stands."""

import pytest
from tokenizers.pre_tokenizers import ByteLevel, WhitespaceSplit

from support.small_models import save_bert
from unmask.common.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.surfaces.serving.texts import TypedTexts, Word, _title

LETTERS = "ACDEFGHIKLMNPQRSTVWY"


@pytest.fixture(scope="module")
def of_words(tiny):
    return TypedTexts(tiny)


@pytest.fixture(scope="module")
def of_letters(tmp_path_factory):
    folder = tmp_path_factory.mktemp("letters")
    save_bert(folder, LETTERS, WhitespaceSplit(), positions=64, seed=5, spread=0.5)
    return TypedTexts(MaskedLM.load(folder, device="cpu"))


@pytest.fixture(scope="module")
def of_bytes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bytes")
    words = ["the", "cat", "sat", "Ġ", "Ċ", "Ġcat", "Ġsat"]
    save_bert(folder, words, ByteLevel(add_prefix_space=False), positions=64, seed=5, spread=0.5)
    return TypedTexts(MaskedLM.load(folder, device="cpu"))


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("EVQL", "EVQL"),
        (" ev QL\n", "EVQL"),
        ("evq[GAP:2-3]l___<mask>", "EVQ[GAP:2-3]L___<mask>"),
        ("___", "___"),
        ("E V [GAP:1 - 3] Q\nL [WORD:2\n] S", "EV[GAP:1 - 3]QL[WORD:2\n]S"),
        ("E [GAP:1 3] V", "E[GAP:1 3]V"),  # which the verb refuses: it is no gap of 13
        (">one\nEVQL\nVES\n", "EVQLVES"),
        ("EV\n>one", "EV"),
        (">one", ""),
        (">one\n", ""),
        ("", ""),
    ],
)
def test_headers_and_spaces_are_left_out_of_sequences(of_letters, typed, read):
    assert of_letters.sequence(typed) == read


@pytest.mark.parametrize("typed", [">a\n>b", ">a\nEV\n>b\nQL\n", "EV\n>b\nQL"])
def test_two_records_of_fasta_do_not_become_one_sequence(of_letters, typed):
    with pytest.raises(InputError, match="2 records of FASTA"):
        of_letters.words(typed)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("the  cat sat", [(0, 3), (5, 8), (9, 12)]),
        ("the cat ", [(0, 3), (4, 7)]),
        ("the [MASK] sat", [(0, 3), (4, 10), (11, 14)]),
        ("the\n\ncat", [(0, 3), (5, 8)]),
    ],
)
def test_spaces_are_no_words(of_bytes, text, places):
    """Byte-level tokenizers make a word of a second space, and of a space before a blank."""
    words = of_bytes.words(text)["words"]
    assert [(word["start"], word["end"]) for word in words] == places
    assert all(word["title"] for word in words)


def test_a_text_of_words_is_read_as_it_is(of_words):
    assert of_words.words("> the cat\n> sat")["text"] == "> the cat\n> sat"


def test_positions_are_those_of_the_whole_text(of_words, tiny):
    text = "the cat sat"
    words = of_words.words(text)["words"]
    assert [word["positions"] for word in words] == [[1], [2], [3]]
    tokens = tiny.words.tokens_of(text)
    first = tokens.inside[0]
    for word in words:
        (position,) = word["positions"]
        start, end = tokens.spans[first + position - 1]
        assert text[start:end] == word["text"]


@pytest.mark.parametrize("text", ["the [MASK] sat on", "the [GAP:1-3] sat on"])
def test_beside_a_typed_blank_no_position_is_known(of_words, text):
    """ "sat" is not the first token of the text."""
    words = of_words.words(text)["words"]
    assert [word["positions"] for word in words] == [[], [], [], []]


def test_a_tokenizer_that_does_not_place_its_tokens_gives_no_positions(tiny, monkeypatch):
    monkeypatch.setattr(tiny.words, "core", None)
    words = TypedTexts(tiny).words("the cats zebra")["words"]
    assert [word["text"] for word in words] == ["the", "cats", "zebra"]
    assert [(word["start"], word["end"]) for word in words] == [(0, 3), (4, 8), (9, 14)]
    assert [word["positions"] for word in words] == [[], [], []]
    assert [word["known"] for word in words] == [True, False, False]


@pytest.mark.parametrize(
    ("typed", "kind", "extent"),
    [
        ("[MASK]", "token", "one token"),
        ("___", "token", "one token"),
        ("<mask>", "token", "one token"),
        ("[WORD]", "word", "a whole word"),
        ("[WORD:2-3]", "word", "a word of 2 to 3 tokens"),
        ("[GAP:2]", "gap", "2 tokens"),
        ("[GAP:1]", "gap", "1 token"),
        ("[GAP:2-5]", "gap", "2 to 5 tokens"),
        ("[GAP:9-2]", "gap", "a gap"),
        ("[WORD:0]", "word", "a word"),
    ],
)
def test_a_blank_says_how_many_tokens_it_takes(of_words, typed, kind, extent):
    (word,) = of_words.words(typed)["words"]
    assert (word["blank"], word["extent"]) == (kind, extent)


def test_residues_are_named_by_their_numbers(of_letters):
    words = of_letters.words("acd")["words"]
    assert [word["title"] for word in words] == ["residue 1, A", "residue 2, C", "residue 3, D"]


def test_an_unknown_residue_is_named_with_its_number():
    """A model of single letters that has an unknown token."""
    word = Word(
        text="B",
        start=2,
        end=3,
        pieces=1,
        positions=[3],
        blank=None,
        extent=None,
        known=False,
        label="residue 3, B",
        title="",
    )
    assert _title(word) == "residue 3, B: the model does not know it"
