"""What both kinds of models give for a source."""

from __future__ import annotations

from typing import NamedTuple


class OneTranslation(NamedTuple):
    """The translation of one source.

    tokens    without the end token
    energy    of a masked model; None of a causal one
    log_prob  of a masked model, token by token in a random order; of a causal one, in the order of
              the text, the end token included
    passes    that it took
    """

    tokens: tuple[int, ...]
    energy: float | None
    log_prob: float
    passes: int
