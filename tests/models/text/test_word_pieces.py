"""The vocabulary against a plain reading of its rule, and the same bits in any process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from unmask.models.text.word_pieces import join, learn_pieces

WORDS = st.dictionaries(st.text("aabbcdé", min_size=1, max_size=7), st.integers(1, 9), min_size=1, max_size=12)


def plainly(words: dict[str, int], size: int, alphabet: int) -> list[str]:
    """Count all pairs again after every join."""
    seen = Counter(letter for word, count in words.items() for letter in word * count)
    letters = sorted(seen, key=lambda letter: (-seen[letter], letter))[:alphabet]
    spelled = {w: [w[0], *("##" + c for c in w[1:])] for w in words if set(w) <= set(letters)}
    found = [*sorted(letters), *sorted({p for pieces in spelled.values() for p in pieces if p.startswith("##")})]
    while len(found) < size:
        counts: Counter[tuple[str, str]] = Counter()
        for word, pieces in spelled.items():
            for pair in pairwise(pieces):
                counts[pair] += words[word]
        if not counts:
            break
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        found += [join(best)] if join(best) not in found else []
        for word, pieces in spelled.items():
            out: list[str] = []
            for piece in pieces:
                if out and (out[-1], piece) == best:
                    out[-1] = join(best)
                else:
                    out.append(piece)
            spelled[word] = out
    return found[:size]


@given(words=WORDS, size=st.integers(3, 60), alphabet=st.integers(1, 7))
def test_pieces_are_those_of_the_plain_rule(words: dict[str, int], size: int, alphabet: int) -> None:
    assert learn_pieces(words, size, alphabet) == plainly(words, size, alphabet)


@given(words=WORDS, size=st.integers(3, 40))
def test_the_order_in_which_words_come_does_not_matter(words: dict[str, int], size: int) -> None:
    backwards = dict(reversed(words.items()))
    assert learn_pieces(words, size, 7) == learn_pieces(backwards, size, 7)


def test_ties_go_to_the_first_in_alphabetical_order() -> None:
    words = {"xy": 2, "ab": 2, "mn": 2}
    assert learn_pieces(words, 11, 26)[9:] == ["ab", "mn"]
    assert learn_pieces({**words, "xy": 3}, 11, 26)[9:] == ["xy", "ab"]


def test_other_processes_with_other_hash_seeds_learn_the_same_tokenizer() -> None:
    program = """if True:
        import hashlib, random
        from unmask.models.text.word_pieces import count_words, train_tokenizer
        draw = random.Random(0)
        words = ["".join(draw.choices("abcdefgh", k=draw.randint(1, 6))) for _ in range(800)]
        lines = [(" ".join(draw.choices(words, k=12)) + ".", 1) for _ in range(300)]
        print(hashlib.sha256(train_tokenizer(count_words(lines), 400).to_str().encode()).hexdigest())
    """
    path = os.pathsep.join(p for p in sys.path if p)
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(seen) == 1
