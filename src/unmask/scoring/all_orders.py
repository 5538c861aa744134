"""Scores over all orders of the chain rule, from the lattice of revealed sets (`unmask.tables.lattice`).

    any_order      log (1/k!) sum over orders o of p_o(x);   any_order_mean_log   (1/k!) sum over orders of log p_o(x), below it
    order_bounds   max over orders of log p_o(x);            order_bounds_worst   the min

Exact up to `exact_tokens` sites (2^k - 1 passes). Beyond, `orders` orders are drawn per text: the mean of p_o is unbiased and
any_order_se is the standard error of its logarithm; order_bounds_exact = 0 says that these are the best and worst of the drawn
orders, which lie within the true bounds. q runs over the regular tokens; any_order_special is by how many nats any_order is
lower if q runs over the whole vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress
from unmask.scoring.batch import Scored, ScoreSettings, TextBatch, text_seed
from unmask.tables.lattice import along_orders_and_lost, lattice, log_mean_of_sampled, random_orders
from unmask.tables.revealing import Conditionals, regular_tokens

ROWS_TOGETHER = 2**16
"""Revealed texts made at once, over all texts of a call."""


def score_orders(
    model: ConditionalModel, batch: TextBatch, names: Sequence[str], settings: ScoreSettings, progress: Progress | None = None
) -> dict[str, Scored]:
    """any_order and order_bounds from the same passes."""
    exact = batch.sites.shape[1] <= settings.exact_tokens
    per_text = 2 ** batch.sites.shape[1] if exact else settings.orders
    at_once = max(1, ROWS_TOGETHER // per_text)
    passes = len(batch) * (per_text - 1 if exact else per_text * batch.sites.shape[1])
    conditionals = Conditionals(model, regular_tokens(model), progress, passes)
    found = [
        _exact(conditionals, part, names) if exact else _sampled(conditionals, part, settings) for part in batch.parts(at_once)
    ]
    return {name: _joined([part[name] for part in found]) for name in names}


def _exact(conditionals: Conditionals, batch: TextBatch, names: Sequence[str]) -> dict[str, Scored]:
    orders = lattice(conditionals, batch.ids, batch.sites)
    scored = {}
    if "any_order" in names:
        log_mean = orders.log_mean
        extra = {"se": torch.zeros_like(log_mean), "mean_log": orders.mean_log, "special": log_mean - orders.whole.log_mean}
        scored["any_order"] = Scored(log_mean, extra=extra)
    if "order_bounds" in names:
        scored["order_bounds"] = _order_bounds(orders.best()[0], orders.worst()[0], exact=True)
    return scored


def _sampled(conditionals: Conditionals, batch: TextBatch, settings: ScoreSettings) -> dict[str, Scored]:
    drawn = [
        random_orders(
            1, settings.orders, batch.sites.shape[1], torch.Generator().manual_seed(text_seed(settings.seed, ids, sites))
        )
        for ids, sites in zip(batch.ids, batch.sites, strict=True)
    ]
    log_p, lost = along_orders_and_lost(conditionals, batch.ids, batch.sites, torch.cat(drawn).to(conditionals.model.device))
    log_mean, se = log_mean_of_sampled(log_p)
    extra = {"se": se, "mean_log": log_p.mean(1), "special": log_mean - log_mean_of_sampled(log_p - lost)[0]}
    return {
        "any_order": Scored(log_mean, extra=extra),
        "order_bounds": _order_bounds(log_p.amax(1), log_p.amin(1), exact=False),
    }


def _order_bounds(best: Float[Tensor, " n"], worst: Float[Tensor, " n"], exact: bool) -> Scored:
    return Scored(best, extra={"worst": worst, "exact": torch.full_like(best, float(exact))})


def _joined(parts: Sequence[Scored]) -> Scored:
    """The texts of several parts, one after the other."""
    extra = {name: torch.cat([part.extra[name] for part in parts]) for name in parts[0].extra}
    return Scored(torch.cat([part.values for part in parts]), extra=extra)
