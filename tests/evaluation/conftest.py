from __future__ import annotations

import random

import pytest


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """Forty texts of 2 to 9 words that the tiny model knows."""
    draw = random.Random(5)
    words = "the a cat dog sat ran on under mat tree".split()
    path = tmp_path_factory.mktemp("corpus") / "texts.txt"
    path.write_text("".join(" ".join(draw.choices(words, k=draw.randint(2, 9))) + " .\n" for _ in range(40)))
    return path
