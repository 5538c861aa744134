"""The tokenizer of a trained model: every word of its letters can be spelled, and the same bits
in any process.
"""

from hypothesis import given
from hypothesis import strategies as st

from unmask.models.text.word_pieces import SPECIAL_TOKENS
from unmask.studies.training.word_piece_training import train_tokenizer

LINES = st.lists(st.text("aabbcdé .", min_size=1, max_size=30), min_size=1, max_size=12)


@given(lines=LINES, size=st.integers(40, 80))
def test_special_tokens_come_first_and_every_word_of_the_letters_can_be_spelled(
    lines: list[str], size: int
) -> None:
    tokenizer = train_tokenizer(lambda: lines, size)
    assert [tokenizer.id_to_token(i) for i in range(5)] == list(SPECIAL_TOKENS)
    assert tokenizer.get_vocab_size() <= size
    letters = sorted({letter for line in lines for letter in line if letter.isalpha()})
    word = "".join(letters + letters[::-1])
    encoded = tokenizer.encode(f"{word} {lines[0]}")
    assert "[UNK]" not in encoded.tokens
    assert (encoded.tokens[0], encoded.tokens[-1]) == (
        "[CLS]",
        "[SEP]",
    )
    assert tokenizer.decode(tokenizer.encode(word).ids) == word


def test_frequent_words_become_one_token_and_rare_letters_stay_out() -> None:
    lines = ["the baker kneads the dough"] * 20 + ["rare"]
    assert tuple(train_tokenizer(lambda: lines, 90).encode("the baker").tokens) == (
        "[CLS]",
        "the",
        "baker",
        "[SEP]",
    )
    few = train_tokenizer(
        lambda: ["a" * 9, "b" * 8, *"cdefgh"], 15
    )  # a third of the tokens are letters
    assert "[UNK]" in few.encode("h").tokens
    assert "[UNK]" not in few.encode("abc").tokens
