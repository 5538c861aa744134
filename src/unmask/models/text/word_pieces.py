"""The tokenizer of a trained model: cased WordPiece in the layout of BERT, its vocabulary learned by `tokenizers`.

Every word starts as its characters, all but the first marked by ##. The trainer joins the most frequent pair of neighbouring
pieces wherever it occurs, and the joined piece enters the vocabulary, until it is full or no pair is left. It breaks ties by the
ids of the pieces, and would number the ## pieces in a random order. Here they have their ids before it
starts, so equal texts give an equal tokenizer in any process.

`Spelling` is the tokenizer of a model of pairs. WordPiece forgets the spaces around marks. In what a decoder of pieces writes,
the spaces inside words are taken out again (t - shirt, man ' s), and a pair of quotation marks closes up around what it quotes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers.trainers import WordPieceTrainer

from unmask.errors import InputError
from unmask.models.source import Source
from unmask.models.text.loading import as_it_is
from unmask.models.text.vocabulary import FolderTokenizer, tokenizer_config

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MOST_LETTERS = 256
"""Of the alphabet, and at most a third of the vocabulary, since it holds each letter twice: alone and inside words."""
LONGEST_WORD = 100
"""Characters; a longer word is unknown."""
CONTINUES = "##"
"""Before a piece that continues a word."""
UNKNOWN = "[UNK]"
INSIDE_WORDS = re.compile(r"(?<=\w) ([-'’/]) (?=\w)")
QUOTED = re.compile(r'" ([^"]*?) "')


def train_tokenizer(lines: Callable[[], Iterable[str]], vocab_size: int) -> Tokenizer:
    """A cased WordPiece tokenizer of at most `vocab_size` tokens, the special ones first (ids 0 to 4).

    `lines` is called twice: to count letters, and to learn the pieces.
    """
    letters = _alphabet(lines(), min(MOST_LETTERS, vocab_size // 3))
    split = pre_tokenizers.BertPreTokenizer()
    continuing = [CONTINUES + letter for letter in letters if len(split.pre_tokenize_str("a" + letter)) == 1]
    trainer = WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=[*SPECIAL_TOKENS, *continuing],
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        show_progress=False,
    )
    learned = _tokenizer({})
    learned.train_from_iterator(lines(), trainer)
    tokenizer = _tokenizer(learned.get_vocab(with_added_tokens=False))
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUES)
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:0 [SEP]:0",
        special_tokens=[(token, special_id(tokenizer, token)) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def _tokenizer(vocabulary: dict[str, int]) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=UNKNOWN, max_input_chars_per_word=LONGEST_WORD))
    tokenizer.normalizer = _normalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _alphabet(lines: Iterable[str], most: int) -> list[str]:
    """The `most` frequent letters of the normalised lines, in alphabetical order; of equally frequent ones the first."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line)
    normalizer = _normalizer()
    letters = [letter for letter in counts if normalizer.normalize_str(letter).strip() == letter]
    return sorted(sorted(letters, key=lambda letter: (-counts[letter], letter))[:most])


def load_word_pieces(path: Path) -> Tokenizer:
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
    """The id of a special token, which `load_word_pieces` and `train_tokenizer` guarantee."""
    token_id = tokenizer.token_to_id(token)
    assert token_id is not None
    return token_id


def config_to_save(max_length: int, causal: bool) -> dict[str, object]:
    """The content of tokenizer_config.json for AutoTokenizer; a causal model's names its first and last token too."""
    names = {f"{token[1:-1].lower()}_token": token for token in SPECIAL_TOKENS}
    ends = {"bos_token": "[CLS]", "eos_token": "[SEP]"} if causal else {}
    return {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": max_length, **names, **ends}


def _normalizer() -> normalizers.Normalizer:
    return normalizers.BertNormalizer(strip_accents=False, lowercase=False)


class Spelling:
    """The tokenizer of a model of pairs, used without special tokens."""

    def __init__(self, folder: Path, core: Tokenizer) -> None:
        self.folder, self.core = folder, core
        self.special = core.get_vocab()
        self.unknown = self.special.get(UNKNOWN)

    @classmethod
    def read(cls, folder: Path) -> Spelling:
        """The tokenizer of a model folder."""
        if not folder.is_dir():
            raise InputError(f"model {str(folder)!r} is not a folder: give one of `unmask train --parallel`")
        try:
            return cls(folder, Tokenizer.from_file(str(folder / "tokenizer.json")))
        except Exception as error:
            raise InputError(f"no tokenizer.json that can be read in {str(folder)!r} ({error}): train the model again") from None

    @cached_property
    def tokenizer(self) -> FolderTokenizer:
        """The same, with special tokens: the model's own."""
        return as_it_is(self.core, tokenizer_config(Source(str(self.folder))))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text."""
        return [encoding.ids for encoding in self.core.encode_batch(list(texts), add_special_tokens=False)]

    def text(self, ids: Sequence[int]) -> str:
        """The sentence that the ids spell."""
        return joined(self.core.decode(list(ids)))


def joined(text: str) -> str:
    """The text without spaces inside words and quotation marks."""
    return QUOTED.sub(r'"\1"', INSIDE_WORDS.sub(r"\1", text))
