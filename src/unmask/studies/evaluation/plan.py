"""What an evaluation will measure: its pairs, and the settings that a resumed run must share.

Both are fixed before the first pass. The number of pairs is the user's, or that of a first try,
which takes about a minute.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from unmask.models.masked_lm import MaskedLM
from unmask.runs.fingerprint import content_hash
from unmask.studies.evaluation.conllu import Parse
from unmask.studies.evaluation.pairs import (
    PositionPair,
    choose_pairs,
    pairs_as_lines,
    read_pairs,
)
from unmask.studies.evaluation.sources import read_texts
from unmask.tables.default_effort import SPEED

Data = str | os.PathLike[str] | Sequence[str]
"""A list of texts, or the name of what `read_texts` reads."""

MOST_USUAL = 1000
FEWEST_USUAL = 2
"""Pairs of a run that is not told how many."""
FIRST_TRY = 70.0
"""Seconds that such a run may take on a CPU."""
SECONDS_PER_CELL = 8e-8
"""Seconds that the joints of a pair take on two cores, per cell of its table."""
USUAL_TOKENS = 12
"""Tokens of a text, for the estimate."""
FEWEST_SECONDS = 1e-3
"""Of a pair, for the estimate: a tiny model takes longer than its multiplications."""


@dataclass(frozen=True)
class GivenPairs:
    """The pairs of a file, which `read_pairs` reads."""

    file: str | os.PathLike[str]


@dataclass(frozen=True)
class ChosenPairs:
    """Pairs that a scheme chooses of texts, by a seed.

    scheme   "random" or "contiguous"
    count    how many; None: those of a first try (`usual_pairs`)
    """

    data: Data
    scheme: str
    count: int | None
    seed: int


@dataclass(frozen=True)
class Plan:
    """The pairs to measure.

    settings    those that a resumed run must share
    skipped     how many texts gave no pair, by reason
    first_try   whether the number of pairs is ours, and smaller than that of a report
    """

    pairs: list[PositionPair]
    settings: dict[str, Any]
    skipped: Counter[str]
    first_try: bool = False

    @property
    def longest(self) -> int:
        """Tokens of the longest text of a pair."""
        return max((len(pair.ids) for pair in self.pairs), default=0)


def given_pairs(given: GivenPairs, model: MaskedLM, regular: Sequence[int]) -> Plan:
    """The pairs of a file for `model`, whose tokens are among `regular`."""
    special = _others(model, regular)
    pairs = read_pairs(given.file, model.words.encode, special, model.max_length)
    settings = {
        "blocks": str(given.file),
        "blocks_sha256": content_hash(pairs_as_lines(pairs)),
    }
    return Plan(pairs=pairs, settings=settings, skipped=Counter())


def chosen_pairs(
    chosen: ChosenPairs, model: MaskedLM, regular: Sequence[int], usual_count: int
) -> Plan:
    """Pairs of texts for `model`, whose tokens are among `regular`.

    usual_count   how many, where the user names no number
    """
    texts = read_texts(chosen.data)
    count = usual_count if chosen.count is None else chosen.count
    without_syntax, skipped = choose_pairs(
        texts,
        model.words.encode,
        _others(model, regular),
        scheme=chosen.scheme,
        count=count,
        seed=chosen.seed,
        max_tokens=model.max_length,
    )
    pairs = [_with_syntax(pair, texts[pair.text_index].parse, model) for pair in without_syntax]
    if isinstance(chosen.data, str | os.PathLike):
        name = str(chosen.data)
    else:
        name = f"{len(texts)} given texts"
    settings = {
        "data": name,
        "data_sha256": content_hash("\n".join(text.text for text in texts)),
        "scheme": chosen.scheme,
        "pairs": count,
        "seed": chosen.seed,
        "pairs_sha256": content_hash(pairs_as_lines(pairs)),
    }
    is_first_try = chosen.count is None and count < MOST_USUAL
    return Plan(pairs=pairs, settings=settings, skipped=skipped, first_try=is_first_try)


def _others(model: MaskedLM, regular: Sequence[int]) -> list[int]:
    """The token ids of a model that are not regular."""
    return sorted(set(range(model.vocab_size)) - set(regular))


def _with_syntax(pair: PositionPair, parse: Parse | None, model: MaskedLM) -> PositionPair:
    """The pair with its distance in the dependency tree, if its text has one and the tokenizer
    says which characters a token covers.
    """
    if parse is None:
        return pair
    if model.words.prepared(pair.text) != pair.text:
        return pair  # the tokenizer's characters are not those of the parse
    spans = model.words.spans(pair.text)
    if spans is None:
        return pair
    words = parse.words_of(pair.text, spans)
    first, second = pair.block
    return replace(pair, syntactic_distance=parse.token_distance(words[first], words[second]))


def usual_pairs(model: MaskedLM, tokens: int, shared: bool) -> int:
    """How many pairs a first try has: about a minute's on two cores, which is a function of the
    model alone. `shared`: workers measure them.
    """
    if shared or model.device.type == "cuda":
        return MOST_USUAL
    seconds = max(seconds_per_pair(model, tokens), FEWEST_SECONDS)
    return max(FEWEST_USUAL, min(MOST_USUAL, int(FIRST_TRY / seconds)))


def seconds_per_pair(model: MaskedLM, tokens: int) -> float:
    """About how long a pair over this many tokens takes on two cores, by the size of model and
    tables alone.

    Each of the two tables takes a pass for each token.
    """
    seconds_of_passes = 2 * model.multiplications(USUAL_TOKENS) / SPEED["cpu"]
    return tokens * (seconds_of_passes + tokens * SECONDS_PER_CELL)
