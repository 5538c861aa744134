"""The tokenizer of a trained model: cased WordPiece, in the layout that BERT models use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from unmask.errors import InputError
from unmask.models.text.learning import CONTINUES, learn_pieces

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MOST_LETTERS = 256
"""Of the alphabet, and at most a third of the vocabulary, since letters stand in it alone and inside words."""
LONGEST_WORD = 100
"""Characters; a longer word is unknown."""


def count_words(lines: Iterable[tuple[str, int]]) -> Counter[str]:
    """How often each word occurs in lines that count so many times each; punctuation marks are words of their own."""
    normalizer, splitter = _normalizer(), pre_tokenizers.BertPreTokenizer()
    chunks: Counter[str] = Counter()
    for line, times in lines:
        for chunk in line.split(" "):
            chunks[chunk] += times
    words: Counter[str] = Counter()
    for chunk, count in chunks.items():
        for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(chunk)):
            if len(word) <= LONGEST_WORD:
                words[word] += count
    return words


def train_tokenizer(words: Mapping[str, int], vocab_size: int) -> Tokenizer:
    """A cased WordPiece tokenizer of at most `vocab_size` tokens, the special ones first (ids 0 to 4)."""
    pieces = learn_pieces(words, vocab_size - len(SPECIAL_TOKENS), min(MOST_LETTERS, vocab_size // 3))
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys([*SPECIAL_TOKENS, *pieces]))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=LONGEST_WORD))
    tokenizer.normalizer = _normalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUES)
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:0 [SEP]:0",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def load_tokenizer(path: Path) -> Tokenizer:
    """A tokenizer.json (or the folder that holds one) with the special tokens that training needs."""
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise InputError(f"no tokenizer at {path}: give a tokenizer.json or a model folder that holds one")
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:
        raise InputError(f"{file} is not a tokenizers file ({error}): give a tokenizer.json") from None
    missing = [t for t in SPECIAL_TOKENS if tokenizer.token_to_id(t) is None]
    if missing:
        raise InputError(f"the tokenizer at {file} lacks {', '.join(missing)}: training needs {', '.join(SPECIAL_TOKENS)}")
    return tokenizer


def special_id(tokenizer: Tokenizer, token: str) -> int:
    """The id of a special token, which `load_tokenizer` and `train_tokenizer` have made sure of."""
    token_id = tokenizer.token_to_id(token)
    assert token_id is not None
    return token_id


def tokenizer_config(max_length: int, causal: bool) -> dict[str, object]:
    """What tokenizer_config.json says, so that AutoTokenizer loads the folder; a causal model's texts begin and end."""
    names = {f"{token[1:-1].lower()}_token": token for token in SPECIAL_TOKENS}
    ends = {"bos_token": "[CLS]", "eos_token": "[SEP]"} if causal else {}
    return {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": max_length, **names, **ends}


def _normalizer() -> normalizers.Normalizer:
    return normalizers.BertNormalizer(strip_accents=False, lowercase=False)
