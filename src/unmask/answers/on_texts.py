"""Measures a model on a user's own texts, one token masked at a time, for `check`.

A model that is read wrong still gives numbers, and they look wrong. One that is read right predicts the masked token more often
than the most frequent token alone would, and puts next to nothing on special tokens. `measure` takes up to MOST_POSITIONS
positions, spread evenly over the texts:

    accuracy       how often the masked token is the model's first choice
    frequent       how often it is the most frequent token of these texts: the accuracy of a model that reads nothing
    nats           the mean of -log q(token | rest); a uniform distribution over the V regular tokens has log V
    special mass   the mean probability of special tokens and of outputs that are not tokens

The number of heads and the activation leave every tensor's shape as it is, so a wrong one in config.json loads and computes. With
the same weights, let q be the network that config.json states and q' the one with another value. The mean over some masked
positions of

    d = log q'(token | rest) - log q(token | rest)

is far below 0 if config.json is right. `doubts` reports a value whose mean lies above 0 by more than ERRORS standard errors.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil, log
from os import PathLike

import torch
from torch import Tensor

from unmask.answers.asking import mean_and_error
from unmask.errors import InputError, UnmaskWarning
from unmask.models.encoder.bert import ACTIVATIONS, BertMaskedLM, BertShape
from unmask.models.masked_lm import MaskedLM
from unmask.runs.files import user_path
from unmask.runs.lines import plain_texts, source_name
from unmask.runs.progress import Progress
from unmask.tables.unary import of_one_key

MOST_POSITIONS = 2_000
DOUBT_POSITIONS = 100
MOST_TEXTS = 20_000
ROWS = 64
HEAD_WIDTHS = (16, 32, 64, 128)
ERRORS = 3.0
"""Standard errors above 0 that a difference must have."""
Place = tuple[int, int]
"""The number of a text, and a position among its tokens."""


@dataclass(frozen=True)
class OnTexts:
    """Figures of a model on the user's texts.

    texts, tokens     how many were read; tokens without start and end
    refused           texts that could not be read, and `why` the first of them
    too_long          texts with more tokens than the model takes
    unknown           share of tokens that the model does not know
    positions         how many were masked, one at a time
    nats_error        the standard error of `nats`; `uniform`: log V
    doubts            sentences about settings of config.json with which the texts are less likely than with others
    """

    texts: int
    tokens: int
    refused: int
    why: str | None
    too_long: int
    unknown: float
    positions: int
    accuracy: float
    frequent: float
    frequent_token: str
    nats: float
    nats_error: float
    uniform: float
    special_mass: float
    doubts: tuple[str, ...]


def texts_of(data: str | PathLike[str] | Sequence[str]) -> list[str]:
    """The first MOST_TEXTS texts of a list or a file."""
    if not isinstance(data, str | PathLike):
        found = [text for text in data if text.strip()]
        if len(found) < len(data) or not found:
            what = f"{len(data) - len(found)} of the {len(data)} texts of data are empty" if data else "data holds no text"
            raise InputError(f"{what}: give a list of texts")
        return found[:MOST_TEXTS]
    path = user_path(data, "data")
    read = list(islice(plain_texts(path), MOST_TEXTS))
    if not read:
        raise InputError(f"{source_name(path)!r} holds no text: give a file with one text per line, or FASTA")
    return read


@torch.no_grad()
def measure(model: MaskedLM, texts: Sequence[str], progress: Progress | None = None) -> OnTexts:
    """The figures of `OnTexts`."""
    special, unknown_id = set(model.special_ids), model.words.unknown_id
    rows, why, refused, too_long, unknown, tokens = [], None, 0, 0, 0, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnmaskWarning)
        for text in texts:
            try:
                ids = model.words.encode(text)
            except InputError as error:
                refused, why = refused + 1, why or str(error)
                continue
            unknown += sum(i == unknown_id for i in ids)
            tokens += sum(i not in special or i == unknown_id for i in ids)
            too_long += model.max_length is not None and len(ids) > model.max_length
            rows.append(ids[: model.max_length])
    places = [(row, place) for row, ids in enumerate(rows) for place, i in enumerate(ids) if i not in special]
    if not places:
        raise InputError(f"none of the {len(texts):,} texts has a token that the model knows ({why}): give texts of its own kind")
    common = Counter(rows[row][place] for row, place in places).most_common(1)[0][0]
    chosen = places[:: ceil(len(places) / MOST_POSITIONS)]
    right, mass, each = 0, 0.0, []
    ruled_out = torch.tensor(sorted(special), dtype=torch.long)
    for log_q, gold in _masked_one_by_one(model, rows, chosen):
        right += int((log_q.argmax(-1) == gold).sum())
        each += (-log_q.gather(1, gold[:, None])[:, 0]).tolist()
        mass += float(log_q[:, ruled_out].exp().sum())
        if progress:
            progress(len(each), len(chosen), "masked positions")
    nats, nats_error = mean_and_error(each)
    return OnTexts(
        texts=len(rows),
        tokens=tokens,
        refused=refused,
        why=why,
        too_long=too_long,
        unknown=unknown / max(1, tokens),
        positions=len(chosen),
        accuracy=right / len(chosen),
        frequent=sum(rows[row][place] == common for row, place in chosen) / len(chosen),
        frequent_token=model.token(common),
        nats=nats,
        nats_error=nats_error,
        uniform=log(len(model.regular_ids)),
        special_mass=mass / len(chosen),
        doubts=tuple(doubts(model, rows, places[:: ceil(len(places) / DOUBT_POSITIONS)])),
    )


def _masked_one_by_one(
    model: MaskedLM, rows: Sequence[Sequence[int]], chosen: Sequence[Place]
) -> Iterator[tuple[Tensor, Tensor]]:
    """log q at each place, which alone is masked, and the tokens there; rows of one length together."""
    for part in of_one_key(chosen, lambda place: len(rows[place[0]]), ROWS):
        ids, where = torch.tensor([rows[row] for row, _ in part]), torch.tensor([[place] for _, place in part])
        logits = model.logits(ids.scatter(1, where, model.mask_id), where)[:, 0]
        yield logits.double().log_softmax(-1).cpu(), ids.gather(1, where)[:, 0]


def doubts(model: MaskedLM, rows: Sequence[Sequence[int]], chosen: Sequence[Place]) -> Iterator[str]:
    """A sentence for each setting with which the texts are likelier; only for networks that `unmask` builds itself."""

    def log_probs(other: MaskedLM) -> Tensor:
        return torch.cat([log_q.gather(1, gold[:, None])[:, 0] for log_q, gold in _masked_one_by_one(other, rows, chosen)])

    if not isinstance(model.network, BertMaskedLM):
        return
    stated = log_probs(model)
    for name, value, shape in _others(model.network.config):
        network = BertMaskedLM(shape)
        network.load_state_dict(model.network.state_dict(), assign=True)
        difference = log_probs(MaskedLM(network, model.tokenizer)) - stated
        mean, error = mean_and_error(difference.tolist())
        if mean > ERRORS * error:
            yield (
                f"with {name} {value} instead of {getattr(model.network.config, name)} the texts are likelier, by "
                f"{mean:.2f} nats per token: config.json may state it wrong"
            )


def _others(shape: BertShape) -> Iterator[tuple[str, object, BertShape]]:
    for width in HEAD_WIDTHS:
        heads, rest = divmod(shape.hidden_size, width)
        if not rest and heads != shape.num_attention_heads:
            yield "num_attention_heads", heads, replace(shape, num_attention_heads=heads)
    for activation in ("gelu", "relu"):
        if ACTIVATIONS[activation] is not ACTIVATIONS[shape.hidden_act]:
            yield "hidden_act", activation, replace(shape, hidden_act=activation)
