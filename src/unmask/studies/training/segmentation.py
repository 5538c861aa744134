"""From lines to segments: what a model sees as one text.

A line is cut after sentence ends. Its sentences are joined from the left while the segment stays
within L tokens, the start and end tokens included. L is drawn for each line from a few lengths by a
hash of its text. So a model meets single sentences and whole paragraphs, and the cut does not
depend on the order of the corpus. A sentence longer than L is a segment of its own. One longer than
the model's limit is cut between words.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from unmask.models.text.text_tokenizer import read_by_tokenizer
from unmask.models.text.vocabulary import CONTINUES
from unmask.models.text.word_pieces import special_id

SENTENCE_END = re.compile(r"""(?<=[.!?])(["'”’)\]]*)\s+(?=["'“‘(\[]?[A-Z0-9])""")
"""Closing marks, which belong to the sentence before (group 1), and white space."""
START_AND_END = 2  # tokens of a segment beside its text
HASH_BYTES = 4
HASHES = 256**HASH_BYTES  # number of different hashes


@dataclass(frozen=True)
class Segmentation:
    """How lines become segments, and which lines are held out for validation.

    lengths      tokens of a segment at most; each line draws one of them by its hash
    max_length   tokens of the longest text that the model takes
    holdout      the share of lines, chosen by hash, that are held out
    """

    lengths: tuple[int, ...] = (24, 64, 128)
    max_length: int = 128
    holdout: float = 0.0

    def holds_out(self, line: str) -> bool:
        """Whether this line is held out; the same for equal lines."""
        if self.holdout <= 0:
            return False
        return _hash(line, b"holdout") < self.holdout * HASHES

    def length_for(self, line: str) -> int:
        """The length drawn for this line."""
        return self.lengths[_hash(line, b"length") % len(self.lengths)]


def _hash(line: str, purpose: bytes) -> int:
    """A whole number below HASHES; the hashes of one line for two purposes are independent."""
    digest = hashlib.blake2b(line.encode(), digest_size=HASH_BYTES, person=purpose).digest()
    return int.from_bytes(digest, "little")


def sentences(line: str) -> list[str]:
    """The line's sentences, by punctuation.

    Their concatenation is the line except for white space between them.
    """
    cut = []
    start = 0
    for gap in SENTENCE_END.finditer(line):
        cut.append(line[start : gap.end(1)])
        start = gap.end()
    cut.append(line[start:])
    return cut


def segments(tokenizer: Tokenizer, cut: Segmentation, lines: Sequence[str]) -> list[list[int]]:
    """Token ids of the segments of all lines, in order, each with its start and end token."""
    start = special_id(tokenizer, "[CLS]")
    end = special_id(tokenizer, "[SEP]")
    longest = cut.max_length - START_AND_END
    sentences_of_lines = [sentences(line) for line in lines]
    every_sentence = list(itertools.chain.from_iterable(sentences_of_lines))
    with read_by_tokenizer("a text of the corpus"):
        # All lines in one call, whose texts the tokenizer's own threads share.
        encodings = tokenizer.encode_batch_fast(every_sentence, add_special_tokens=False)
    remaining = iter(encodings)
    with_ends: list[list[int]] = []
    for line, of_line in zip(lines, sentences_of_lines, strict=True):
        ids_of_sentences = [encoding.ids for encoding in itertools.islice(remaining, len(of_line))]
        room = cut.length_for(line) - START_AND_END
        for ids in _segments_of_line(tokenizer, ids_of_sentences, room, longest):
            with_ends.append([start, *ids, end])
    return with_ends


def _segments_of_line(
    tokenizer: Tokenizer, ids_of_sentences: Sequence[list[int]], room: int, longest: int
) -> list[list[int]]:
    """Token ids of a line's segments, without start and end token, from those of its sentences.

    Sentences are joined while they stay within `room` tokens. One of more than `longest` is cut.
    """
    of_line: list[list[int]] = []
    for ids in ids_of_sentences:
        if of_line and len(of_line[-1]) + len(ids) <= room:
            of_line[-1] = of_line[-1] + ids
        else:
            of_line += _between_words(tokenizer, ids, longest)
    return of_line


def _between_words(tokenizer: Tokenizer, ids: list[int], longest: int) -> list[list[int]]:
    """The ids in pieces of at most `longest`, cut before a word if possible."""
    pieces = []
    while len(ids) > longest:
        end = _last_word_begin(tokenizer, ids, longest)
        pieces.append(ids[:end])
        ids = ids[end:]
    if ids:
        pieces.append(ids)
    return pieces


def _last_word_begin(tokenizer: Tokenizer, ids: list[int], longest: int) -> int:
    """The last place from 1 to `longest` at which a word begins; `longest` if none does."""
    for place in range(longest, 0, -1):
        token = str(tokenizer.id_to_token(ids[place]))
        if not token.startswith(CONTINUES):
            return place
    return longest
