"""A small language and packed rows made for these tests."""

import random

import torch

from unmask.studies.training.packed_text import PackedText, Vocabulary

NOUNS = {
    "farmer": "ploughs",
    "sailor": "steers",
    "baker": "kneads",
    "painter": "mixes",
    "miller": "grinds",
    "singer": "hums",
}
THINGS = {
    "ploughs": "fields",
    "steers": "boats",
    "kneads": "dough",
    "mixes": "colours",
    "grinds": "barley",
    "hums": "melodies",
}


def made_up_lines(count, seed=0):
    """Sentences in which the noun decides the verb and the verb decides the object."""
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        noun = draw.choice(list(NOUNS))
        day = draw.choice(["Monday", "Tuesday", "Friday", "Sunday"])
        lines.append(
            f"The {draw.choice(['old', 'young', 'quiet'])} {noun} {NOUNS[noun]}"
            f" {THINGS[NOUNS[noun]]} on {day}."
        )
    return lines


def toy_vocabulary(size=40):
    """Ids 0 to 4 are [PAD] [UNK] [CLS] [SEP] [MASK]."""
    return Vocabulary(size, 2, 0, 4, torch.arange(size) < 5)


def packed_text(lengths, row, vocabulary, seed=0):
    """Rows with segments of the given numbers of regular tokens."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.zeros(len(lengths), row, dtype=torch.int32)
    for r, segments in enumerate(lengths):
        at = 0
        for n in segments:
            body = torch.randint(5, vocabulary.size, (n,), generator=generator, dtype=torch.int32)
            ids[r, at : at + n + 2] = torch.cat([torch.tensor([2]), body, torch.tensor([3])])
            at += n + 2
    return PackedText.of(ids, vocabulary)
