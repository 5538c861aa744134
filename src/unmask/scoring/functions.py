"""The functions that compute scores: masked ranges, and orders.

Scores whose every term masks one range of positions, which does not depend on what the model says.

    pll, energy_norm   log q(x_t | rest), t masked alone          energy_raw   f_t(x_t), the logit instead
    pll_word           t and the later pieces of its word masked
    left_to_right      t and everything after it masked           right_to_left   t and everything before it
                       with right=N, N blanks in the place of everything after it

Pseudo-likelihoods and energies have q over the whole vocabulary, as they are published; the fixed orders, which are
probabilities, over the regular tokens (`unmask.tables.revealing`).

One term is one pass: mask a range, read one position. Terms that several scores share (the last piece of a word for pll and
pll_word, the last token for pll and left_to_right) are passed once.

Windows, for texts of more tokens than the model takes: the term of t is computed in the stretch of tokens that the model takes
(its start and end tokens kept around it) with t in the middle, moved inwards at the ends of the text. left_to_right and
right_to_left stay probabilities, of a chain rule with a bounded memory.

Chain rules in orders that are not fixed: chosen as tokens are revealed, or all orders together.

    p(x) = prod over steps of q(x_i | x_S),   i = rule(S, x_S),   then S becomes S + i

    confident        i maximises max_v q_i(v | x_S): one pass per token
    decoder:NAME@N   log law(x) = sum_{t <= N} sum_{i in K_t} log q(x_i | x_{S_t}),   K_t chosen by NAME from x_{S_t}

q runs over the regular tokens, for the rule too. A rule sees distributions given x_S and never a hidden token, so p is a
probability: it is the law of the sampler that fills blanks in this order. Ties go to the leftmost site. A decoder reveals a text
pass by pass as it would draw it (`unmask.sampling.decoders.revealing`). Its random order is drawn from the seed and is the same
for all texts of a length: an order that depended on the text would not give a probability.

    any_order      log (1/k!) sum over orders o of p_o(x);   any_order_mean_log   (1/k!) sum over orders of log p_o(x), below it
    order_bounds   max over orders of log p_o(x);            order_bounds_worst   the min

These come from the lattice of revealed sets (`unmask.tables.lattice`), exact up to `exact_tokens` sites (2^k - 1 passes). Beyond,
`orders` orders are drawn per text: the mean of p_o is unbiased and any_order_se is the standard error of its logarithm;
order_bounds_exact = 0 says that these are the best and worst of the drawn orders, which lie within the true bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.errors import InputError
from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress
from unmask.sampling.decoders.revealing import Law, law
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.registry import entry_of
from unmask.sampling.target import Target
from unmask.scoring.batch import GPU_LOGITS, Scored, TextBatch, text_seed
from unmask.scoring.registry import AnyOrder, DecoderLaw, MaskedRange, OrderBounds, Score
from unmask.tables.lattice import along_orders, lattice, log_mean_of_sampled, random_orders
from unmask.tables.revealing import Conditionals, logit_rows, lost_nats, outside, regular_tokens

ROWS_TOGETHER = 2**16
"""Revealed texts made at once, over all texts of a call."""


def score_ranges(
    model: ConditionalModel, batch: TextBatch, scores: Sequence[MaskedRange], progress: Progress | None = None
) -> dict[str, Scored]:
    """The scores of every text; one pass per distinct term."""
    if (right := getattr(scores[0], "right", None)) is not None:
        return {scores[0].name: _with_fixed_right(model, batch, right)}
    n, k = batch.sites.shape
    text = torch.arange(n, device=batch.ids.device).unsqueeze(1).expand(n, k)
    ranges = [torch.stack([text, *masked_range(batch, score.masks), batch.sites], -1) for score in scores]
    wanted = torch.stack(ranges).flatten(0, 2)
    if len(scores) > 1:
        terms, term_of = wanted.unique(dim=0, return_inverse=True)
    else:  # one score's terms differ; to sort them would wait for a GPU
        terms, term_of = wanted, torch.arange(len(wanted), device=wanted.device)
    over_regular = any("special" in score.extra for score in scores)
    special = outside(model, regular_tokens(model)) if over_regular else None
    log_q, logit, lost = _read(model, batch, terms, special)
    scored = {}
    for part, score in zip(term_of.reshape(len(scores), n, k), scores, strict=True):
        by_site = score.better * (logit if score.reads == "logit" else log_q)[part]
        if "special" in score.extra:
            by_site = by_site + lost[part]
            scored[score.name] = Scored(by_site.sum(1), by_site, {"special": lost[part].sum(1)})
        else:
            scored[score.name] = Scored(by_site.sum(1), by_site)
    return scored


def _with_fixed_right(model: ConditionalModel, batch: TextBatch, right: int) -> Scored:
    """left_to_right with `right` blanks after each token, in the place of the later tokens.

    Where the model does not take the whole prefix, its first tokens are left out.
    """
    special = outside(model, regular_tokens(model))
    first, after = _stretch(batch)
    by_site, lost = torch.zeros((2, *batch.sites.shape), dtype=torch.float64, device=batch.ids.device)
    room = batch.ids.shape[1] if model.max_length is None else model.max_length - (batch.ids.shape[1] - after) - first - 1 - right
    if room < 1:
        raise InputError(f"right {right} leaves no room for the text in the {model.max_length} tokens of the model: give fewer")
    for position in batch.sites.unique().tolist():
        for rows in (batch.sites == position).any(1).nonzero()[:, 0].split(logit_rows(model, 1, GPU_LOGITS)):
            ids = batch.ids[rows]
            before = torch.cat([ids[:, :first], ids[:, max(first, position - room) : position]], 1)
            blanks = ids.new_full((len(rows), 1 + right), model.mask_id)
            logits = model.logits(torch.cat([before, blanks, ids[:, after:]], 1), torch.full_like(rows, before.shape[1])[:, None])
            nats = lost_nats(logits[:, 0], special, total := logits[:, 0].logsumexp(1)).double()
            token = logits[:, 0].gather(1, ids[:, position : position + 1])[:, 0]
            here = (batch.sites[rows] == position).nonzero()[:, 1]
            by_site[rows, here], lost[rows, here] = (token - total).double() + nats, nats
    return Scored(by_site.sum(1), by_site, {"special": lost.sum(1)})


def masked_range(batch: TextBatch, masks: str) -> tuple[Int[Tensor, "n k"], Int[Tensor, "n k"]]:
    """For each site the first position that is masked with it, and the first after those."""
    sites, length = batch.sites, batch.ids.shape[1]
    if masks == "after":
        return sites, torch.full_like(sites, length)
    if masks == "before":
        return torch.zeros_like(sites), sites + 1
    return sites, batch.word_end if masks == "word" else sites + 1


def _read(
    model: ConditionalModel, batch: TextBatch, terms: Int[Tensor, "m 4"], special: Int[Tensor, " s"] | None
) -> Float[Tensor, "3 m"]:
    """log q and logit of the token at `position` of `text`, the regular positions from `first` to before `after` masked.

    q is over the whole vocabulary; the third row has the nats that the tokens `special` take of it.
    """
    log_q, logit, lost = numbers = torch.zeros((3, len(terms)), dtype=torch.float64, device=terms.device)
    at_once = logit_rows(model, 1, GPU_LOGITS)
    for start in range(0, len(terms), at_once):
        text, first, after, position = terms[start : start + at_once].unbind(1)
        places = _places(model, batch, text, position)
        hidden = batch.regular[text.unsqueeze(1), places] & (places >= first.unsqueeze(1)) & (places < after.unsqueeze(1))
        rows = batch.ids[text.unsqueeze(1), places].masked_fill(hidden, model.mask_id)
        column = (places == position.unsqueeze(1)).int().argmax(1, keepdim=True)
        logits = model.logits(rows, column)[:, 0]
        chosen = logits.gather(1, batch.ids[text, position].unsqueeze(1)).squeeze(1)
        logit[start : start + at_once] = chosen.double()
        total = logits.logsumexp(1)
        log_q[start : start + at_once] = (chosen - total).double()
        if special is not None:
            lost[start : start + at_once] = lost_nats(logits, special, total).double()
    return numbers


def _places(
    model: ConditionalModel, batch: TextBatch, text: Int[Tensor, " m"], position: Int[Tensor, " m"]
) -> Int[Tensor, "m L"]:
    """The positions of its text that each row holds: all, or the start and end tokens and a window around `position`."""
    length, limit = batch.ids.shape[1], model.max_length
    whole = torch.arange(length, device=text.device).expand(len(text), -1)
    if limit is None or length <= limit:
        return whole
    first, after = _stretch(batch)
    width = limit - first - (length - after)
    start = (position - width // 2).clamp(min=first, max=after - width)
    inside = start.unsqueeze(1) + torch.arange(width, device=text.device)
    return torch.cat([whole[:, :first], inside, whole[:, after:]], 1)


def _stretch(batch: TextBatch) -> tuple[int, int]:
    """Where the tokens of the texts begin and end; the start and end tokens of one model are the same for all texts."""
    columns = batch.regular.any(0).nonzero().flatten()
    return int(columns[0]), int(columns[-1]) + 1


def score_confident(
    model: ConditionalModel, batch: TextBatch, scores: Sequence[Score], progress: Progress | None = None
) -> dict[str, Scored]:
    """The score `confident`; k passes per text."""
    at_once = logit_rows(model, batch.sites.shape[1], GPU_LOGITS)
    by_site, lost = torch.cat([_confident(model, part) for part in batch.parts(at_once)], 1)
    return {score.name: Scored(by_site.sum(1), by_site, {"special": lost.sum(1)}) for score in scores}


def _confident(model: ConditionalModel, batch: TextBatch) -> Float[Tensor, "2 n k"]:
    """log q(x_i | x_S) of each site i, S the sites revealed before it; and the nats of special tokens."""
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
        place = log_q.amax(-1).argmax(1, keepdim=True)
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
        fixed = [t for t in range(len(template)) if t not in set(sites.tolist())]
        yield rows, Target(model, template.tolist(), given=fixed)


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
        scored[OrderBounds.name] = _order_bounds(orders.best, orders.worst, exact=True)
    return scored


def _sampled(conditionals: Conditionals, batch: TextBatch, options: AnyOrder | OrderBounds) -> dict[str, Scored]:
    drawn = [
        random_orders(1, options.orders, batch.sites.shape[1], torch.Generator().manual_seed(text_seed(options.seed, ids, sites)))
        for ids, sites in zip(batch.ids, batch.sites, strict=True)
    ]
    log_p, lost = along_orders(conditionals, batch.ids, batch.sites, torch.cat(drawn).to(conditionals.model.device))
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
