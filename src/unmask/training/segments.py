"""From a line of text to segments of bounded length: whole sentences, joined while they fit.

A line is cut after sentence ends; its sentences are joined from the left while the segment stays within L tokens, the
start and end tokens included. L is drawn for each line from the given lengths by a hash of its text, so that a model
meets single sentences and whole paragraphs alike and the cut does not depend on the order of the corpus. A sentence
longer than L stands alone; one longer than the model takes is cut between words.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer

from unmask.models.text.word_pieces import special_id

_SENTENCE_END = re.compile(r"""(?<=[.!?])["'”’)\]]*\s+(?=["'“‘(\[]?[A-Z0-9])""")
_HASH_SPACE = 1 << 32


@dataclass(frozen=True)
class Segmentation:
    """How lines become segments, and which lines are held out for validation (`holdout` of them, by hash)."""

    lengths: tuple[int, ...] = (24, 64, 128)
    max_length: int = 128
    holdout: float = 0.0

    def holds_out(self, line: str) -> bool:
        """Whether this line belongs to the validation part; the same for equal lines."""
        return self.holdout > 0 and _hash(line, b"holdout") < self.holdout * _HASH_SPACE

    def length_for(self, line: str) -> int:
        """The target length drawn for this line."""
        return self.lengths[_hash(line, b"length") % len(self.lengths)]


def sentences(line: str) -> list[str]:
    """The line's sentences, by punctuation; their concatenation is the line but for white space between them."""
    out, start = [], 0
    for gap in _SENTENCE_END.finditer(line):
        closing = len(gap.group()) - len(gap.group().lstrip("\"'”’)]"))
        out.append(line[start : gap.start() + closing])
        start = gap.end()
    return [*out, line[start:]]


class Segmenter:
    """Tokenises lines into segments of token ids, each with its start and end token."""

    def __init__(self, tokenizer: Tokenizer, settings: Segmentation) -> None:
        self.tokenizer = tokenizer
        self.settings = settings
        self.start, self.end = special_id(tokenizer, "[CLS]"), special_id(tokenizer, "[SEP]")
        vocabulary = tokenizer.get_vocab()
        self.continues = np.zeros(max(vocabulary.values()) + 1, dtype=bool)
        self.continues[[i for word, i in vocabulary.items() if word.startswith("##")]] = True

    def __call__(self, lines: Sequence[str]) -> list[list[int]]:
        """Segments of all lines, in order."""
        split = [sentences(line) for line in lines]
        flat = [s for parts in split for s in parts]
        encoded = iter(self.tokenizer.encode_batch_fast(flat, add_special_tokens=False))
        out: list[list[int]] = []
        for line, parts in zip(lines, split, strict=True):
            out += self._join([next(encoded).ids for _ in parts], self.settings.length_for(line) - 2)
        return out

    def _join(self, parts: list[list[int]], room: int) -> list[list[int]]:
        joined: list[list[int]] = []
        for part in parts:
            if joined and len(joined[-1]) + len(part) <= room:
                joined[-1] = joined[-1] + part
            else:
                joined += self._cut(part)
        return [[self.start, *ids, self.end] for ids in joined]

    def _cut(self, ids: list[int]) -> list[list[int]]:
        room, pieces = self.settings.max_length - 2, []
        while len(ids) > room:
            end = room
            while end > 1 and self.continues[ids[end]]:
                end -= 1
            end = end if not self.continues[ids[end]] else room
            pieces.append(ids[:end])
            ids = ids[end:]
        return [*pieces, ids] if ids else pieces


def _hash(line: str, purpose: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(line.encode(), digest_size=4, person=purpose).digest(), "little")
