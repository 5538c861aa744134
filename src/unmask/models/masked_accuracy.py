"""How often a model predicts a masked token of a user's texts: figures that show a model that is
read wrong.

Such a model still gives numbers, and they look wrong. One that is read right predicts the masked
token more often than the most frequent token alone would, and puts next to nothing on special
tokens. `measure` masks up to MOST_POSITIONS positions of the texts, one at a time:

    accuracy       how often the masked token is the model's first choice
    frequent       how often it is the most frequent token of these texts: the accuracy of a
                   model that reads nothing
    nats           the mean of -log q(token | rest); a uniform distribution over the V regular
                   tokens has log V
    special mass   the mean probability of special tokens and of outputs that are not tokens
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import ceil, inf, log
from os import PathLike
from typing import TYPE_CHECKING

import torch

from unmask.common.batches import of_one_key
from unmask.common.errors import InputError, UnmaskWarning
from unmask.common.files import user_path
from unmask.common.intervals import mean_and_error
from unmask.models.masked_lm import MaskedLM
from unmask.runs.lines import plain_texts
from unmask.runs.progress import Progress
from unmask.runs.unpacking import source_name

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

MOST_TEXTS = 20_000  # read
MOST_POSITIONS = 2_000  # masked, spread evenly over all texts
ROWS_AT_ONCE = 64  # of a forward pass
ENTROPY_BLANKS = 4  # blanks of the text whose entropy is measured
ENTROPY_BLANK = (
    1  # the blank whose entropy it is, from 0: the first one beside blanks on both sides
)

Position = tuple[int, int]
"""A row of token ids, and a place in it, both from 0."""


@dataclass(frozen=True)
class OnTexts:
    """Figures of a model on the user's texts.

    n_texts, n_tokens   how many were read; tokens without start and end
    n_refused, why      texts that could not be read, and why the first of them
    n_too_long          texts with more tokens than the model takes; their first tokens are masked
    unknown             share of tokens that the model does not know
    n_positions         how many were masked, one at a time
    accuracy            share of these where the token is the model's first choice
    frequent            share of these that are the most frequent token of the texts,
    frequent_token      which is this one
    nats, nats_error    the mean of -log q(token | rest), and its standard error
    uniform             log V, over V regular tokens
    special_mass        mean probability of special tokens and of outputs that are not tokens
    """

    n_texts: int
    n_tokens: int
    n_refused: int
    why: str | None
    n_too_long: int
    unknown: float
    n_positions: int
    accuracy: float
    frequent: float
    frequent_token: str
    nats: float
    nats_error: float
    uniform: float
    special_mass: float


def texts_of(data: str | PathLike[str] | Sequence[str]) -> list[str]:
    """The first MOST_TEXTS texts of a list or a file; empty ones are left out."""
    if isinstance(data, str | PathLike):
        path = user_path(data, "data")
        name = repr(source_name(path))
        texts = plain_texts(path)
    else:
        name = "data"
        texts = (text for text in data if text.strip())
    first = list(islice(texts, MOST_TEXTS))
    if not first:
        raise InputError(
            f"{name} holds no text: give a list of texts, or a file with one text per line, or"
            " FASTA"
        )
    return first


def measure(model: MaskedLM, texts: Sequence[str], progress: Progress | None = None) -> OnTexts:
    """The figures of a model on texts."""
    read = _read(model, texts)
    positions = _positions(model, read.rows)
    if not positions:
        because = "" if read.why is None else f" ({read.why})"
        raise InputError(
            f"none of the {len(texts):,} texts has a token that the model knows{because}: give"
            " texts of its own kind"
        )
    tokens = Counter(read.rows[row][place] for row, place in positions)
    frequent_id, _ = tokens.most_common(1)[0]
    step = ceil(len(positions) / MOST_POSITIONS)
    masked = positions[::step]
    predicted = _predict(model, read.rows, masked, progress)
    nats, nats_error = mean_and_error(predicted.surprisals)
    n_frequent = sum(read.rows[row][place] == frequent_id for row, place in masked)
    return OnTexts(
        n_texts=len(read.rows),
        n_tokens=read.n_tokens,
        n_refused=read.n_refused,
        why=read.why,
        n_too_long=read.n_too_long,
        unknown=read.n_unknown / max(1, read.n_tokens),
        n_positions=len(masked),
        accuracy=predicted.n_right / len(masked),
        frequent=n_frequent / len(masked),
        frequent_token=model.words.token(frequent_id),
        nats=nats,
        nats_error=nats_error,
        uniform=log(len(model.regular_ids)),
        special_mass=predicted.special_mass / len(masked),
    )


@dataclass(frozen=True)
class _Read:
    """Texts as token ids, cut to the model's length, and what was noted as they were read.

    n_tokens    tokens without special ones, unknown ones among them
    n_refused   texts that could not be read, and `why` the first of them
    """

    rows: list[list[int]]
    n_tokens: int
    n_unknown: int
    n_too_long: int
    n_refused: int
    why: str | None


def _read(model: MaskedLM, texts: Sequence[str]) -> _Read:
    """The texts as token ids."""
    special = set(model.special_ids)
    unknown_id = model.words.unknown_id
    rows = []
    reasons = []
    n_tokens = n_unknown = n_too_long = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnmaskWarning)
        for text in texts:
            try:
                ids = model.words.encode(text)
            except InputError as error:
                reasons.append(str(error))
                continue
            n_unknown += sum(i == unknown_id for i in ids)
            n_tokens += sum(i not in special or i == unknown_id for i in ids)
            n_too_long += model.max_length is not None and len(ids) > model.max_length
            rows.append(ids[: model.max_length])
    return _Read(
        rows=rows,
        n_tokens=n_tokens,
        n_unknown=n_unknown,
        n_too_long=n_too_long,
        n_refused=len(reasons),
        why=next(iter(reasons), None),
    )


def _positions(model: MaskedLM, rows: Sequence[Sequence[int]]) -> list[Position]:
    """All positions of the rows whose tokens are not special."""
    special = set(model.special_ids)
    positions = []
    for row, ids in enumerate(rows):
        positions += [(row, place) for place, token in enumerate(ids) if token not in special]
    return positions


@dataclass
class _Predicted:
    """Sums over masked positions.

    n_right        positions whose token is the first choice
    surprisals     -log q(token | rest) of each position, in nats
    special_mass   the sum of the probabilities of special tokens
    """

    n_right: int
    surprisals: list[float]
    special_mass: float


@torch.no_grad()
def _predict(
    model: MaskedLM,
    rows: Sequence[Sequence[int]],
    masked: Sequence[Position],
    progress: Progress | None,
) -> _Predicted:
    """What the model predicts where one position at a time is masked."""
    predicted = _Predicted(n_right=0, surprisals=[], special_mass=0.0)
    special = torch.tensor(sorted(set(model.special_ids)), dtype=torch.long)

    def length_of(position: Position) -> int:
        row, _ = position
        return len(rows[row])

    for part in of_one_key(masked, length_of, ROWS_AT_ONCE):
        ids = torch.tensor([rows[row] for row, _ in part])
        places = torch.tensor([[place] for _, place in part])
        log_q = _log_q(model, ids.scatter(1, places, model.mask_id), places)
        tokens = ids.gather(1, places)[:, 0]
        log_q_of_tokens = log_q.gather(1, tokens[:, None])[:, 0]
        predicted.n_right += int((log_q.argmax(-1) == tokens).sum())
        predicted.surprisals += (-log_q_of_tokens).tolist()
        predicted.special_mass += float(log_q[:, special].exp().sum())
        if progress:
            progress(len(predicted.surprisals), len(masked), "masked positions")
    return predicted


def _log_q(
    model: MaskedLM, ids: Int[Tensor, "n T"], places: Int[Tensor, "n 1"]
) -> Float[Tensor, "n V"]:
    """log q at one place of each row, over all outputs of the model."""
    logits = model.logits_at(ids, places)[:, 0]
    return logits.double().log_softmax(-1).cpu()


@torch.no_grad()
def masked_entropy(model: MaskedLM) -> float:
    """The entropy at the second of four blanks, in nats.

    Where nothing is put around a text, a token follows the blanks, for models that divide by the
    share of tokens (`not_finite`).
    """
    before, after = model.words.around()
    beside: Sequence[int] = after
    if not before and not after:
        beside = model.regular_ids[:1]
    ids = torch.tensor([[*before, *[model.mask_id] * ENTROPY_BLANKS, *beside]])
    place = torch.tensor([[len(before) + ENTROPY_BLANK]])
    log_q = _log_q(model, ids, place)[0]
    log_q = log_q[log_q > -inf]  # an excluded token adds 0, not 0 times infinity
    return -float((log_q.exp() * log_q).sum())
