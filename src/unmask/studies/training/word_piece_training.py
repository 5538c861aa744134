"""The tokenizer of a new model: a cased WordPiece, learned from the texts of its corpus.

The trainer of `tokenizers` breaks ties by the ids of the pieces, and would number the pieces
"##a", "##b", ... in a random order. Here they have their ids before it starts: equal texts give
an equal tokenizer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers.trainers import WordPieceTrainer

from unmask.models.text.tokenizer_config import PLAIN_CLASS
from unmask.models.text.vocabulary import CONTINUES
from unmask.models.text.word_pieces import SPECIAL_TOKENS, UNKNOWN, special_id

NORMALIZER = normalizers.BertNormalizer(strip_accents=False, lowercase=False)
MOST_LETTERS = 256
"""Of the alphabet, and at most a third of the vocabulary, since it holds each letter twice:
alone and inside words.
"""
LONGEST_KNOWN_WORD = 100  # Characters; a longer word is unknown


def train_tokenizer(lines: Callable[[], Iterable[str]], vocab_size: int) -> Tokenizer:
    """A cased WordPiece tokenizer of at most `vocab_size` tokens, the special ones first (ids 0
    to 4).

    `lines` is called twice: to count letters, and to learn the pieces.
    """
    letters = _alphabet(lines(), min(MOST_LETTERS, vocab_size // 3))
    continuing = [CONTINUES + letter for letter in letters if _can_continue_a_word(letter)]
    trainer = WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=[*SPECIAL_TOKENS, *continuing],  # they have the first ids, in this order
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        show_progress=False,
    )
    learning = _with_vocabulary({})
    learning.train_from_iterator(lines(), trainer)
    # `learning` reads the continuing letters as special tokens: only its vocabulary is kept
    tokenizer = _with_vocabulary(learning.get_vocab(with_added_tokens=False))
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUES)
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:0 [SEP]:0",
        special_tokens=[(token, special_id(tokenizer, token)) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def _with_vocabulary(vocabulary: dict[str, int]) -> Tokenizer:
    """A WordPiece tokenizer that cuts texts as a cased BERT does."""
    tokenizer = Tokenizer(
        models.WordPiece(vocabulary, unk_token=UNKNOWN, max_input_chars_per_word=LONGEST_KNOWN_WORD)
    )
    tokenizer.normalizer = NORMALIZER
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _alphabet(lines: Iterable[str], most: int) -> list[str]:
    """The `most` frequent letters of the normalised lines, in alphabetical order; of equally
    frequent ones the first.
    """
    counts = Counter(chain.from_iterable(lines))
    letters = [letter for letter in counts if _is_kept_by_normalizer(letter)]
    by_frequency = sorted(letters, key=lambda letter: (-counts[letter], letter))
    return sorted(by_frequency[:most])


def _is_kept_by_normalizer(letter: str) -> bool:
    """False for control characters and spaces. The normaliser puts spaces around a Chinese
    character, which is kept."""
    return NORMALIZER.normalize_str(letter).strip() == letter


def _can_continue_a_word(letter: str) -> bool:
    """Whether the letter can stand inside a word; punctuation is cut off as a word by itself."""
    return len(pre_tokenizers.BertPreTokenizer().pre_tokenize_str("a" + letter)) == 1


def config_to_save(max_length: int, causal: bool) -> dict[str, object]:
    """The content of tokenizer_config.json for AutoTokenizer; a causal model's names its first
    and last token too.
    """
    config: dict[str, object] = {
        "tokenizer_class": PLAIN_CLASS,
        "model_max_length": max_length,
    }
    for token in SPECIAL_TOKENS:
        kind = token.strip("[]").lower()
        config[f"{kind}_token"] = token
    if causal:
        config["bos_token"] = "[CLS]"
        config["eos_token"] = "[SEP]"
    return config
