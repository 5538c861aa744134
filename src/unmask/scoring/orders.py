"""Chain rules in orders that are not fixed: chosen by a rule or a decoder as tokens are revealed, or all orders together.

    p(x) = prod over steps of q(x_i | x_S),   i = rule(S, x_S),   then S becomes S + i

    confident        i maximises max_v q_i(v | x_S)                     highest probability first
    margin           i maximises q_i(first) - q_i(second)               largest margin first
    open             i maximises the entropy of q_i(. | x_S)            highest entropy first
    decoder:NAME@N   log law(x) = sum_{t <= N} sum_{i in K_t} log q(x_i | x_{S_t}),   K_t chosen by NAME from x_{S_t}

q runs over the regular tokens, for the rule too. A rule sees distributions given x_S and never a hidden token, so p is a
probability: it is the law of the sampler that fills blanks in this order. Ties go to the leftmost site. The first three make one
pass per token, and share only the first. A decoder reveals a text pass by pass as it would draw it
(`unmask.sampling.decoders.revealing`). Its random order is drawn from the seed and is the same for all texts of a length: an
order that depended on the text would not give a probability.

    any_order      log (1/k!) sum over orders o of p_o(x);   any_order_mean_log   (1/k!) sum over orders of log p_o(x), below it
    order_bounds   max over orders of log p_o(x);            order_bounds_worst   the min

These come from the lattice of revealed sets (`unmask.tables.lattice`), exact up to `exact_tokens` sites (2^k - 1 passes). Beyond,
`orders` orders are drawn per text: the mean of p_o is unbiased and any_order_se is the standard error of its logarithm;
order_bounds_exact = 0 says that these are the best and worst of the drawn orders, which lie within the true bounds.

NAME_special is by how many nats a score is lower if q runs over the whole vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress
from unmask.sampling.decoders.revealing import Law, law
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.registry import entry_of
from unmask.sampling.target import Target
from unmask.scoring.batch import GPU_LOGITS, Scored, TextBatch, text_seed
from unmask.scoring.registry import AnyOrder, DecoderLaw, OrderBounds, Score
from unmask.tables.lattice import along_orders_and_lost, lattice, log_mean_of_sampled, random_orders
from unmask.tables.revealing import Conditionals, logit_rows, lost_nats, outside, regular_tokens

ROWS_TOGETHER = 2**16
"""Revealed texts made at once, over all texts of a call."""
Rule = Callable[[Tensor], Tensor]
"""From log-probabilities (n, h, V) at hidden sites to a priority of each site (n, h); the highest is revealed next."""


def _confidence(log_q: Float[Tensor, "n h V"]) -> Float[Tensor, "n h"]:
    return log_q.amax(-1)


def _margin(log_q: Float[Tensor, "n h V"]) -> Float[Tensor, "n h"]:
    first, second = log_q.topk(2, -1).values.exp().unbind(-1)
    return first - second


def _openness(log_q: Float[Tensor, "n h V"]) -> Float[Tensor, "n h"]:
    return -torch.special.xlogy(log_q.exp(), log_q.exp()).sum(-1)


RULES: dict[str, Rule] = {"confident": _confidence, "margin": _margin, "open": _openness}


def score_adaptive(
    model: ConditionalModel, batch: TextBatch, scores: Sequence[Score], progress: Progress | None = None
) -> dict[str, Scored]:
    """The scores of RULES; k passes per text and rule."""
    at_once = logit_rows(model, batch.sites.shape[1], GPU_LOGITS)
    scored = {}
    for score in scores:
        by_site, lost = torch.cat([along_rule(model, part, RULES[score.name]) for part in batch.parts(at_once)], 1)
        scored[score.name] = Scored(by_site.sum(1), by_site, {"special": lost.sum(1)})
    return scored


def along_rule(model: ConditionalModel, batch: TextBatch, rule: Rule) -> Float[Tensor, "2 n k"]:
    """log q(x_i | x_S) of each site i, S the sites revealed before the rule chose i; and the nats of special tokens."""
    n, k = batch.sites.shape
    rows = batch.ids.scatter(1, batch.sites, model.mask_id)
    hidden = torch.arange(k, device=batch.ids.device).repeat(n, 1)
    terms = torch.empty((2, n, k), dtype=torch.float64, device=batch.ids.device)
    special = outside(model, regular_tokens(model))
    for _ in range(k):
        positions = batch.sites.gather(1, hidden)
        logits = model.logits(rows, positions)
        log_p = logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
        nats = lost_nats(logits, special, logits.amax(-1) - log_p.amax(-1))
        log_q = log_p.index_fill_(-1, special, -torch.inf).add_(nats.unsqueeze(-1))
        place = rule(log_q).argmax(1, keepdim=True)
        site, position = hidden.gather(1, place), positions.gather(1, place)
        token = batch.ids.gather(1, position)
        texts = torch.arange(n, device=place.device).unsqueeze(1)
        read = torch.stack([log_q[texts, place, token], nats[texts, place]])
        terms.scatter_(2, site.expand(2, -1, -1), read.double())
        rows = rows.scatter(1, position, token)
        hidden = _without(hidden, place)
    return terms


def _without(values: Int[Tensor, "n h"], place: Int[Tensor, "n 1"]) -> Int[Tensor, "n g"]:
    """Each row without the entry at `place`, the others in their order."""
    keep = torch.ones_like(values, dtype=torch.bool).scatter(1, place, False)
    return values[keep].reshape(len(values), -1)


def score_law(
    model: ConditionalModel, batch: TextBatch, scores: Sequence[DecoderLaw], progress: Progress | None = None
) -> dict[str, Scored]:
    """The law of a decoder; as many passes per text as it makes."""
    (score,) = scores
    n, k = batch.sites.shape
    passes = Passes(model, keeps="logits")
    method = entry_of(score.decoder)(**({} if score.passes is None else {"passes": score.passes}))
    by_site, special = torch.zeros((2, n, k), dtype=torch.float64, device=model.device)
    for rows, target in _alike(model, batch):
        decoder = method.on(target, passes)
        for part in rows.split(logit_rows(model, k, GPU_LOGITS)):
            same = ChainStreams(score.seed, [0] * len(part), model.device).at(0, 0)
            one: Law = law(decoder, batch.ids[part], same)
            by_site[part], special[part] = one.log_q, one.special
    return {score.name: Scored(by_site.sum(1), by_site, {"special": special.sum(1)})}


def _alike(model: ConditionalModel, batch: TextBatch) -> Iterator[tuple[Int[Tensor, " m"], Target]]:
    """The texts with the same sites, and their target, in which all other tokens are given."""
    each, which = batch.sites.unique(dim=0, return_inverse=True)
    for number, sites in enumerate(each):
        rows = (which == number).nonzero().flatten()
        template = batch.ids[rows[0]].index_fill(0, sites, model.mask_id)
        given = [t for t in range(len(template)) if t not in set(sites.tolist())]
        yield rows, Target(model, template.tolist(), given=given)


def score_orders(
    model: ConditionalModel, batch: TextBatch, scores: Sequence[AnyOrder | OrderBounds], progress: Progress | None = None
) -> dict[str, Scored]:
    """any_order and order_bounds from the same passes."""
    options, names = scores[0], [score.name for score in scores]
    exact = batch.sites.shape[1] <= options.exact_tokens
    per_text = 2 ** batch.sites.shape[1] if exact else options.orders
    at_once = max(1, ROWS_TOGETHER // per_text)
    passes = len(batch) * (per_text - 1 if exact else per_text * batch.sites.shape[1])
    conditionals = Conditionals(model, regular_tokens(model), progress, passes)
    parts = [
        _exact(conditionals, part, names) if exact else _sampled(conditionals, part, options) for part in batch.parts(at_once)
    ]
    return {name: _joined([part[name] for part in parts]) for name in names}


def _exact(conditionals: Conditionals, batch: TextBatch, names: Sequence[str]) -> dict[str, Scored]:
    orders = lattice(conditionals, batch.ids, batch.sites)
    scored = {}
    if AnyOrder.name in names:
        log_mean = orders.log_mean
        extra = {"se": torch.zeros_like(log_mean), "mean_log": orders.mean_log, "special": log_mean - orders.whole.log_mean}
        scored[AnyOrder.name] = Scored(log_mean, extra=extra)
    if OrderBounds.name in names:
        scored[OrderBounds.name] = _order_bounds(orders.best()[0], orders.worst()[0], exact=True)
    return scored


def _sampled(conditionals: Conditionals, batch: TextBatch, options: AnyOrder | OrderBounds) -> dict[str, Scored]:
    drawn = [
        random_orders(1, options.orders, batch.sites.shape[1], torch.Generator().manual_seed(text_seed(options.seed, ids, sites)))
        for ids, sites in zip(batch.ids, batch.sites, strict=True)
    ]
    log_p, lost = along_orders_and_lost(conditionals, batch.ids, batch.sites, torch.cat(drawn).to(conditionals.model.device))
    log_mean, se = log_mean_of_sampled(log_p)
    extra = {"se": se, "mean_log": log_p.mean(1), "special": log_mean - log_mean_of_sampled(log_p - lost)[0]}
    return {
        AnyOrder.name: Scored(log_mean, extra=extra),
        OrderBounds.name: _order_bounds(log_p.amax(1), log_p.amin(1), exact=False),
    }


def _order_bounds(best: Float[Tensor, " n"], worst: Float[Tensor, " n"], exact: bool) -> Scored:
    return Scored(best, extra={"worst": worst, "exact": torch.full_like(best, float(exact))})


def _joined(parts: Sequence[Scored]) -> Scored:
    """The texts of several parts, one after the other."""
    extra = {name: torch.cat([part.extra[name] for part in parts]) for name in parts[0].extra}
    return Scored(torch.cat([part.values for part in parts]), extra=extra)
