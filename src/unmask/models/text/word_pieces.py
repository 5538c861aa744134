"""The tokenizer of a trained model: cased WordPiece in the layout of BERT, its vocabulary learned from word counts.

Every word starts as its characters, all but the first marked by ##. The most frequent pair of neighbouring pieces is joined
wherever it occurs,

    (l, r) = argmax  sum_words count(word) * #{neighbours (l, r) in word},

and the joined piece enters the vocabulary, until it is full or no pair is left. Ties go to the pair that is first in
alphabetical order, so equal counts give an equal vocabulary, in any process and on any machine.

`Spelling` is the tokenizer of a model of pairs. WordPiece forgets the spaces around marks. In what a decoder of pieces writes,
the spaces inside words are taken out again (t - shirt, man ' s), and a pair of quotation marks closes up around what it quotes.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

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
Pair = tuple[str, str]
UNKNOWN = "[UNK]"
INSIDE_WORDS = re.compile(r"(?<=\w) ([-'’/]) (?=\w)")
QUOTED = re.compile(r'" ([^"]*?) "')


def count_words(lines: Iterable[tuple[str, int]]) -> Counter[str]:
    """How often each word occurs, in lines with their counts; a punctuation mark is a word."""
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


def learn_pieces(words: Mapping[str, int], size: int, alphabet: int) -> list[str]:
    """At most `size` pieces of the `words` (word: count): the `alphabet` most frequent characters first, then joined pieces.

    A word with a character outside that alphabet is skipped: it will be unknown as a whole.
    """
    letters = _letters(words, alphabet)
    spelled = [(_spell(word), count) for word, count in words.items() if letters.issuperset(word)]
    single = {piece for pieces, _ in spelled for piece in pieces if piece.startswith(CONTINUES)}
    found = dict.fromkeys([*sorted(letters), *sorted(single - letters)])
    counts, where = _pairs(spelled)
    queue = [(-count, pair) for pair, count in counts.items()]
    heapq.heapify(queue)
    while queue and len(found) < size:
        negative, pair = heapq.heappop(queue)
        if counts[pair] != -negative:
            continue
        found[join(pair)] = None
        for changed in _join_everywhere(pair, spelled, counts, where):
            if counts[changed] > 0:
                heapq.heappush(queue, (-counts[changed], changed))
    return list(found)[:size]


def join(pair: Pair) -> str:
    """The piece that two neighbours make: un and ##do make undo."""
    return pair[0] + pair[1].removeprefix(CONTINUES)


def _letters(words: Mapping[str, int], most: int) -> set[str]:
    seen: Counter[str] = Counter()
    for word, count in words.items():
        for letter in word:
            seen[letter] += count
    return set(sorted(seen, key=lambda letter: (-seen[letter], letter))[:most])


def _spell(word: str) -> list[str]:
    return [word[0], *(CONTINUES + letter for letter in word[1:])]


def _pairs(spelled: list[tuple[list[str], int]]) -> tuple[Counter[Pair], dict[Pair, list[int]]]:
    """How often each pair of neighbours occurs, and in which words."""
    counts: Counter[Pair] = Counter()
    where: dict[Pair, list[int]] = defaultdict(list)
    for index, (pieces, count) in enumerate(spelled):
        for pair in pairwise(pieces):
            counts[pair] += count
            where[pair].append(index)
    return counts, where


def _join_everywhere(
    pair: Pair, spelled: list[tuple[list[str], int]], counts: Counter[Pair], where: dict[Pair, list[int]]
) -> list[Pair]:
    """Join one pair in all words, from the left; returns the pairs whose counts changed."""
    left, right = pair
    joined = join(pair)
    change: dict[Pair, int] = defaultdict(int)
    for index in where.pop(pair):
        pieces, count = spelled[index]
        for at in _places(pieces, left, right):
            change[pair] -= count
            if at:
                change[pieces[at - 1], left] -= count
                change[pieces[at - 1], joined] += count
                where[pieces[at - 1], joined].append(index)
            if at + 2 < len(pieces):
                change[right, pieces[at + 2]] -= count
                change[joined, pieces[at + 2]] += count
                where[joined, pieces[at + 2]].append(index)
            pieces[at : at + 2] = [joined]
    changed = [key for key, by in change.items() if by]
    for key in changed:
        counts[key] += change[key]
    return changed


def _places(pieces: list[str], left: str, right: str) -> Iterator[int]:
    """The places of `left` before `right`; the caller joins each pair before it asks for the next place."""
    at = 0
    while at < len(pieces) - 1:
        if pieces[at] == left and pieces[at + 1] == right:
            yield at
        at += 1


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
