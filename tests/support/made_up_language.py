"""A made-up language with an exact dictionary into another: every word has one translation, and
verbs move to the front.

source  NOUN [ADJECTIVE] NOUN [ADJECTIVE] VERB .        target
        VERB [ADJECTIVE] NOUN [ADJECTIVE] NOUN .
"""

import random
from collections.abc import Sequence
from typing import Any

SMALL: dict[str, Any] = {
    "layers": 2,
    "width": 48,
    "heads": 2,
    "vocab": 96,
    "max_length": 32,
    "batch_tokens": 1024,
    "lr": 8e-3,
    "warmup": 20,
    "valid_share": 0.05,
    "device": "cpu",
}
"""Settings of models that learn the language in seconds."""
SYLLABLES = ("ka", "lo", "mi", "ru", "te", "so", "ni", "pa")
NOUNS, ADJECTIVES, VERBS = (
    [a + b for a in SYLLABLES for b in SYLLABLES][kind * 16 : kind * 16 + 16] for kind in range(3)
)


def translated(word: str) -> str:
    """The word of the other language: its syllables the other way round, and an ending that no
    word here has.
    """
    return word[2:] + word[:2] + "x"


def pairs(count: int, seed: int = 0, words: int = 16) -> tuple[list[str], list[str]]:
    """`count` sources and their translations, with so many words of each kind."""
    random_ = random.Random(seed)
    made = [_pair(random_, words) for _ in range(count)]
    return [source for source, _ in made], [target for _, target in made]


def _pair(random_: random.Random, words: int) -> tuple[str, str]:
    verb, nouns = random_.choice(VERBS[:words]), random_.choices(NOUNS[:words], k=2)
    adjectives = [
        random_.choice(ADJECTIVES[:words]) if random_.random() < 0.5 else None for _ in nouns
    ]
    source, target = [], [translated(verb)]
    for noun, adjective in zip(nouns, adjectives, strict=True):
        source += [noun, *([adjective] if adjective else [])]
        target += [*([translated(adjective)] if adjective else []), translated(noun)]
    return " ".join([*source, verb]) + ".", " ".join(target) + "."


def share_right(translations: Sequence[str], wanted: Sequence[str]) -> float:
    """How many translations are right to the letter."""
    return sum(a == b for a, b in zip(translations, wanted, strict=True)) / len(wanted)
