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
from pathlib import Path

import torch
from torch import Tensor

from unmask.answers.asking import mean_and_error
from unmask.answers.on_residues import Masked, Place, Regions, RegionWorth, measure_residues, residue_ids
from unmask.errors import InputError, UnmaskWarning
from unmask.models.encoder.bert import ACTIVATIONS, BertMaskedLM, BertShape
from unmask.models.masked_lm import MaskedLM
from unmask.runs.files import user_path
from unmask.runs.lines import FASTA, fasta_records, kind_of, plain_texts, source_name
from unmask.runs.progress import Progress
from unmask.tables.questions import of_one_key

MOST_POSITIONS = 2_000
DOUBT_POSITIONS = 100
MOST_TEXTS = 20_000
ROWS = 64
HEAD_WIDTHS = (16, 32, 64, 128)
ERRORS = 3.0
"""Standard errors above 0 that a difference must have."""


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
    residues          of a protein model: figures of all residues, then of each region (`unmask.answers.on_residues`)
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
    residues: tuple[RegionWorth, ...] = ()


def texts_of(data: str | Path | Sequence[str]) -> tuple[list[str] | None, list[str]]:
    """(names of a FASTA file's records, texts): the first MOST_TEXTS of a list or a file."""
    if not isinstance(data, str | Path):
        found = [text for text in data if text.strip()]
        if len(found) < len(data) or not found:
            what = f"{len(data) - len(found)} of the {len(data)} texts of data are empty" if data else "data holds no text"
            raise InputError(f"{what}: give a list of texts")
        return None, found[:MOST_TEXTS]
    path = user_path(data, "data")
    named = kind_of(path) in FASTA
    records = fasta_records(path) if named else (("", text) for text in plain_texts(path))
    read = list(islice(records, MOST_TEXTS))
    if not read:
        raise InputError(f"{source_name(path)!r} holds no text: give a file with one text per line, or FASTA")
    return [name for name, _ in read] if named else None, [text for _, text in read]


@torch.no_grad()
def measure(model: MaskedLM, texts: Sequence[str], progress: Progress | None = None, regions: Regions | None = None) -> OnTexts:
    """The figures of `OnTexts`; `regions`: of the texts of a protein model."""
    special, unknown_id = set(model.special_ids), model.words.unknown_id
    rows, numbers, why, refused, too_long, unknown, tokens = [], [], None, 0, 0, 0, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnmaskWarning)
        for number, text in enumerate(texts):
            try:
                ids = model.words.encode(text)
            except InputError as error:
                refused, why = refused + 1, why or str(error)
                continue
            unknown += sum(i == unknown_id for i in ids)
            tokens += sum(i not in special or i == unknown_id for i in ids)
            too_long += model.max_length is not None and len(ids) > model.max_length
            rows.append(ids[: model.max_length])
            numbers.append(number)
    places = [(row, place) for row, ids in enumerate(rows) for place, i in enumerate(ids) if i not in special]
    if not places:
        raise InputError(f"none of the {len(texts):,} texts has a token that the model knows ({why}): give texts of its own kind")
    common = Counter(rows[row][place] for row, place in places).most_common(1)[0][0]
    chosen = places[:: ceil(len(places) / MOST_POSITIONS)]
    right, mass, each = 0, 0.0, []
    support, masked = residue_ids(model), list[Masked]()
    ruled_out = torch.tensor(sorted(special), dtype=torch.long)
    for part, log_q, gold in _masked_one_by_one(model, rows, chosen):
        right += int((log_q.argmax(-1) == gold).sum())
        each += (-log_q.gather(1, gold[:, None])[:, 0]).tolist()
        mass += float(log_q[:, ruled_out].exp().sum())
        masked += [] if support is None else _masked_residues(part, log_q, gold, support)
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
        residues=() if support is None else tuple(measure_residues(model, rows, masked, regions, numbers, progress)),
    )


def _masked_residues(part: Sequence[Place], log_q: Tensor, gold: Tensor, support: Sequence[int]) -> list[Masked]:
    """Those of the masked tokens that are residues, with q over the residues alone."""
    kept = [n for n, i in enumerate(gold.tolist()) if i in support]
    among = log_q[kept][:, support].log_softmax(-1)
    at = torch.tensor([support.index(i) for i in gold[kept].tolist()], dtype=torch.long)
    nats, right = -among.gather(1, at[:, None])[:, 0], among.argmax(-1) == at
    return [Masked(part[n], *numbers) for n, *numbers in zip(kept, nats.tolist(), right.tolist(), strict=True)]


def _masked_one_by_one(
    model: MaskedLM, rows: Sequence[Sequence[int]], chosen: Sequence[Place]
) -> Iterator[tuple[list[Place], Tensor, Tensor]]:
    """Places, log q at each, which alone is masked, and the tokens there; rows of one length together."""
    for part in of_one_key(chosen, lambda place: len(rows[place[0]]), ROWS):
        ids, where = torch.tensor([rows[row] for row, _ in part]), torch.tensor([[place] for _, place in part])
        logits = model.logits(ids.scatter(1, where, model.mask_id), where)[:, 0]
        yield part, logits.double().log_softmax(-1).cpu(), ids.gather(1, where)[:, 0]


def doubts(model: MaskedLM, rows: Sequence[Sequence[int]], chosen: Sequence[Place]) -> Iterator[str]:
    """A sentence for each setting with which the texts are likelier; only for networks that `unmask` builds itself."""

    def log_probs(other: MaskedLM) -> Tensor:
        return torch.cat([log_q.gather(1, gold[:, None])[:, 0] for _, log_q, gold in _masked_one_by_one(other, rows, chosen)])

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
