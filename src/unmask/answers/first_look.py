"""A look at the first text that a model is asked about: three passes, once per model.

A wrong tokenizer gives numbers without complaint. The sign is in the tokens that the text shows. Each of ROWS rows masks every
ROWS-th of them, and the mean of -log q(token | rest) is compared with log V, that of a uniform distribution over the V regular
tokens. A model that is read right lies far below, even on a text of another language; with another model's tokenizer it lies
several nats above. A mean above log V by more than ERRORS standard errors is reported. `unmask check --data`
finds less clear cases.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from math import inf, log
from statistics import fmean, stdev
from weakref import WeakSet

import torch

from unmask.errors import UnmaskWarning
from unmask.models.masked_lm import MaskedLM

ROWS = 3
LEAST, MOST = 6, 48
"""Tokens of a text that are looked at; a text with fewer than LEAST is skipped."""
ERRORS = 2.0
_seen: WeakSet[MaskedLM] = WeakSet()


def look_at_first(model: MaskedLM, texts: Iterable[Sequence[int]]) -> None:
    """Warn, once per model, if it predicts what the first text shows worse than a uniform distribution; `texts`: token ids."""
    if model in _seen:
        return
    special = set(model.special_ids)
    for ids in texts:
        shown = [place for place, i in enumerate(ids) if i not in special]
        if len(shown) >= LEAST:
            break
    else:
        return
    _seen.add(model)
    nats, error = mean_and_error(_surprise(model, ids, shown[:: -(-len(shown) // MOST)]))
    worse = worse_than_uniform("the tokens that the text shows", nats, error, log(len(model.regular_ids)))
    if worse:
        warnings.warn(
            f"model {model.name!r}: {worse}; unmask check --data with your own texts shows more",
            UnmaskWarning,
            stacklevel=4,
        )


@torch.no_grad()
def _surprise(model: MaskedLM, ids: Sequence[int], shown: Sequence[int]) -> list[float]:
    """-log q of the tokens at these places, every ROWS-th of them masked in one row; the last one or two are left out."""
    places = torch.tensor(shown[: len(shown) // ROWS * ROWS]).view(-1, ROWS).T.contiguous()
    rows = torch.tensor([list(ids)] * ROWS)
    log_q = model.logits(rows.scatter(1, places, model.mask_id), places).double().log_softmax(-1).cpu()
    return (-log_q.gather(2, rows.gather(1, places).unsqueeze(2))).flatten().tolist()


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean of some numbers and its standard error: infinite for one number, 0 for an infinite mean."""
    if inf in values:
        return inf, 0.0
    return fmean(values), stdev(values) / len(values) ** 0.5 if len(values) > 1 else inf


def worse_than_uniform(what: str, nats: float, error: float, uniform: float) -> str | None:
    """The sentence about a model that predicts tokens worse than a uniform distribution by more than ERRORS errors; else None."""
    if nats - ERRORS * error <= uniform:
        return None
    return (
        f"it predicts {what} worse than a uniform distribution ({nats:.1f} nats, uniform {uniform:.1f}): the tokenizer may be "
        "another model's, config.json may state another network, or the texts are not of its kind"
    )
