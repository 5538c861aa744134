"""The look at the first text that a model gets: three passes, once per model.

A model that is read wrong still gives numbers, and they look wrong. So every verb calls
`look_at_first`, which warns of two things:

worse than uniform  The model predicts the text worse than a uniform distribution: by more than
                    ERRORS standard errors, the mean of -log q(token | rest) is above log V. A
                    model that is read right lies far below, even on a text of another language;
                    with another model's tokenizer it lies several nats above.
sequence            The text is a protein or DNA, and the model reads words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from math import ceil, inf, log
from weakref import WeakSet

import torch

from unmask.common.intervals import mean_and_error
from unmask.common.warn import warn
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.text_tokenizer import BLANK, TextTokenizer

LOOKED_ROWS = 3
"""Passes of a look: each masks every third token that the text shows."""
TEXTS_LOOKED = 64
"""Of the first 64 texts, the first that is long enough is looked at."""
LEAST_LOOKED = 6
MOST_LOOKED = 48
"""Tokens of a text that are looked at: texts that show fewer than 6 are skipped, and of more than
48 only some are predicted.
"""
ERRORS = 2.0
"""Standard errors by which a mean must lie above log V."""

AMINO_ACIDS = set("ACDEFGHIKLMNPQRSTVWY")
BASES = set("ACGT")
LEAST_LETTERS = 10
MOST_LETTERS = 60
"""Letters of a sequence that are looked at. A text of fewer than 10 letters is not taken for a
sequence; of a text of more than 60, the first 60 are cut into tokens.
"""
FEWEST_AMINO_ACIDS = 6
"""A protein has at least so many kinds of letters."""
LETTERS_PER_TOKEN = 2
MORE_TOKENS_WITHOUT_Q = 1.5
"""A sequence of n letters is cut into more than n / 2 tokens; without a Q, into more than
n / 2 + 1.5. These numbers were tried on 104 texts in capitals, English and others: none of them
is taken for a sequence.
"""
COMMON_WORDS = ("the", "Ġthe", "▁the")
"""A token of every tokenizer of words, as WordPiece, byte-level BPE and SentencePiece write it."""

_looked_at = WeakSet[MaskedLM]()
_warned_of_sequence = WeakSet[MaskedLM]()


def look_at_first(model: MaskedLM, texts: Iterable[Sequence[int]]) -> None:
    """Warn, once per model, if it predicts a text worse than a uniform distribution, and if it
    reads words and the text is a sequence.

    texts   token ids; the first that is long enough is looked at. If none is long enough, nothing
            is looked at, and the next call of a verb tries again
    """
    text = _first_to_look_at(model, texts)
    if text is None:
        return
    problem = None
    # The check for a sequence takes no pass, so each call makes it until it has warned. A model
    # that it has warned of counts as looked at.
    if model not in _warned_of_sequence and is_sequence(model.words, model.words.text(text)):
        _warned_of_sequence.add(model)
        problem = (
            "it reads words, and the text looks like amino acids or bases: give a model of such"
            " sequences"
        )
    elif model not in _looked_at:
        problem = _worse_than_uniform_on(model, text)
    _looked_at.add(model)
    if problem is not None:
        warn(f"model {model.name!r}: {problem}")


def _first_to_look_at(model: MaskedLM, texts: Iterable[Sequence[int]]) -> Sequence[int] | None:
    """The first text that shows LEAST_LOOKED tokens and fits the model; None if none does."""
    longest = inf if model.max_length is None else model.max_length
    for text in islice(texts, TEXTS_LOOKED):
        if len(_shown(model, text)) >= LEAST_LOOKED and len(text) <= longest:
            return text
    return None


def _shown(model: MaskedLM, text: Sequence[int]) -> list[int]:
    """The positions of a text that hold a token which is not special."""
    special = set(model.special_ids)
    return [position for position, token in enumerate(text) if token not in special]


def _worse_than_uniform_on(model: MaskedLM, text: Sequence[int]) -> str | None:
    """What is wrong if the model predicts this text worse than a uniform distribution."""
    shown = _shown(model, text)
    step = ceil(len(shown) / MOST_LOOKED)
    nats, error = mean_and_error(_surprise(model, text, shown[::step]))
    uniform = log(len(model.regular_ids))
    problem = worse_than_uniform("the tokens that the text shows", nats, error, uniform)
    if problem is None:
        return None
    return f"{problem}; check with your own texts as its data shows more"


def is_sequence(words: TextTokenizer, text: str) -> bool:
    """Whether a text is a protein or DNA that a tokenizer of words has to spell.

    1. Its letters are one run of capitals, or single capitals with spaces between them. Blanks do
       not count.
    2. There are at least LEAST_LETTERS of them. They are amino acids of at least
       FEWEST_AMINO_ACIDS kinds, or their kinds are exactly the 4 bases.
    3. The tokenizer knows words.
    4. It cuts the letters into tokens of less than two letters on average: as they are, as small
       letters, and as a capital with small letters after it. Words and names in capitals are cut
       into longer tokens in at least one of these forms. Without a Q the limit is stricter: a Q
       in a word nearly always comes with a U, which is no amino acid, so letters with a Q are
       seldom a word.
    """
    if not words.cased:
        text = text.upper()
    between_blanks = text.split(BLANK)
    is_one_run = all(len(part.split()) <= 1 for part in between_blanks)  # spaces at blanks only
    groups = text.replace(BLANK, " ").split()  # of letters, between blanks and spaces
    is_spaced = all(len(group) == 1 for group in groups)
    if not (is_one_run or is_spaced):
        return False
    letters = "".join(groups)
    if len(letters) < LEAST_LETTERS:
        return False
    kinds = set(letters)
    is_dna = kinds == BASES
    is_protein = kinds <= AMINO_ACIDS and len(kinds) >= FEWEST_AMINO_ACIDS
    if not (is_dna or is_protein):
        return False
    if words.by_character or not any(word in words.regular_tokens for word in COMMON_WORDS):
        return False
    beginning = letters[:MOST_LETTERS]
    fewest_tokens = min(
        _token_count(words, spelled)
        for spelled in (beginning, beginning.lower(), beginning.capitalize())
    )
    limit = len(beginning) / LETTERS_PER_TOKEN
    if "Q" not in beginning:
        limit += MORE_TOKENS_WITHOUT_Q
    return fewest_tokens > limit


def _token_count(words: TextTokenizer, text: str) -> int:
    """The number of tokens of a text, without those that the tokenizer puts around it."""
    start, stop = words.tokens_of(text).inside
    return stop - start


@torch.no_grad()
def _surprise(model: MaskedLM, text: Sequence[int], positions: Sequence[int]) -> list[float]:
    """-log q(token | rest) at these positions, in LOOKED_ROWS passes.

    Row r masks the positions r, r + LOOKED_ROWS, ... of the list. The last one or two are left
    out, so that all rows mask equally many.
    """
    per_row = len(positions) // LOOKED_ROWS
    used = torch.tensor(positions[: per_row * LOOKED_ROWS])
    # (LOOKED_ROWS, per_row), neighbouring positions in different rows
    hidden_positions = used.view(per_row, LOOKED_ROWS).T.contiguous()
    rows = torch.tensor([list(text)] * LOOKED_ROWS)
    masked_rows = rows.scatter(1, hidden_positions, model.mask_id)
    logits = model.logits_at(masked_rows, hidden_positions)
    log_q = logits.double().log_softmax(-1).cpu()
    tokens = rows.gather(1, hidden_positions)
    log_q_of_tokens = log_q.gather(2, tokens.unsqueeze(2))
    return (-log_q_of_tokens).flatten().tolist()


def worse_than_uniform(what: str, nats: float, error: float, uniform: float) -> str | None:
    """The sentence about a model that predicts worse than a uniform distribution; else None.

    what      what it predicts
    nats      the mean of -log q
    error     its standard error; ERRORS of them must lie between `nats` and `uniform`
    uniform   the entropy of a uniform distribution
    """
    if nats - ERRORS * error <= uniform:
        return None
    return (
        f"it predicts {what} worse than a uniform distribution ({nats:.1f} nats, uniform"
        f" {uniform:.1f}): the tokenizer may be another model's, config.json may state another"
        " network, or the texts are not of its kind"
    )
