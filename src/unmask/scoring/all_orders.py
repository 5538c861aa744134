"""Scores over all orders of the chain rule, from the lattice of revealed sets (`unmask.tables.lattice`).

    any_order      log (1/k!) sum over orders o of p_o(x);   any_order_mean_log   (1/k!) sum over orders of log p_o(x), below it
    order_bounds   max over orders of log p_o(x);            order_bounds_worst   the min

Exact up to `exact_tokens` sites (2^k - 1 passes). Beyond, `orders` orders are drawn per text: the mean of p_o is unbiased and
any_order_se is the standard error of its logarithm; the best and worst of the drawn orders lie within the true bounds, which
order_bounds_exact = 0 says.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.models.conditional_model import ConditionalModel
from unmask.scoring.batch import Batch, Scored, text_seed
from unmask.scoring.settings import ScoreSettings
from unmask.tables.lattice import along_orders, lattice, log_mean_of_sampled, random_orders
from unmask.tables.revealing import Conditionals

ROWS_TOGETHER = 2**16
"""Revealed texts made at once, over all texts of a call."""


def score_orders(model: ConditionalModel, batch: Batch, names: Sequence[str], settings: ScoreSettings) -> dict[str, Scored]:
    """any_order and order_bounds from the same passes."""
    exact = batch.sites.shape[1] <= settings.exact_tokens
    per_text = 2 ** batch.sites.shape[1] if exact else settings.orders
    at_once = max(1, ROWS_TOGETHER // per_text)
    parts = [batch.part(slice(start, start + at_once)) for start in range(0, len(batch), at_once)]
    columns = [_exact(model, part) if exact else _sampled(model, part, settings) for part in parts]
    found = {name: torch.cat([part[name] for part in columns]) for name in columns[0]}
    scored = {
        "any_order": Scored(found["log_mean"], extra={"se": found["se"], "mean_log": found["mean_log"]}),
        "order_bounds": Scored(
            found["best"], extra={"worst": found["worst"], "exact": torch.full_like(found["best"], float(exact))}
        ),
    }
    return {name: scored[name] for name in names}


def _exact(model: ConditionalModel, batch: Batch) -> dict[str, Float[Tensor, " n"]]:
    orders = lattice(Conditionals(model), batch.ids, batch.sites)
    return {
        "log_mean": orders.log_mean,
        "se": torch.zeros_like(orders.log_mean),
        "mean_log": orders.mean_log,
        "best": orders.best()[0],
        "worst": orders.worst()[0],
    }


def _sampled(model: ConditionalModel, batch: Batch, settings: ScoreSettings) -> dict[str, Float[Tensor, " n"]]:
    drawn = [
        random_orders(
            1, settings.orders, batch.sites.shape[1], torch.Generator().manual_seed(text_seed(settings.seed, ids, sites))
        )
        for ids, sites in zip(batch.ids, batch.sites, strict=True)
    ]
    log_p = along_orders(Conditionals(model), batch.ids, batch.sites, torch.cat(drawn).to(model.device))
    log_mean, se = log_mean_of_sampled(log_p)
    return {"log_mean": log_mean, "se": se, "mean_log": log_p.mean(1), "best": log_p.amax(1), "worst": log_p.amin(1)}
