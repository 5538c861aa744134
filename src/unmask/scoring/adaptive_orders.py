"""The chain rule in an order that a rule chooses from the revealed tokens alone.

    p(x) = prod over steps of q(x_i | x_S),   i = rule(S, x_S),   then S becomes S + i

    confident   i maximises max_v q_i(v | x_S)                     highest probability first
    margin      i maximises q_i(first) - q_i(second)               largest margin first
    open        i maximises the entropy of q_i(. | x_S)            highest entropy first

q runs over the regular tokens, for the rule too. The rule sees distributions given x_S and never a hidden token, so p is a
probability: it is the law of the sampler that fills blanks in this order. Ties go to the leftmost site. One pass per token; the
three rules choose different orders and share only the first pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress
from unmask.scoring.batch import Scored, ScoreSettings, TextBatch
from unmask.scoring.masked_ranges import CPU_LOGITS, GPU_LOGITS
from unmask.tables.revealing import lost_nats, outside, regular_tokens

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
    model: ConditionalModel, batch: TextBatch, names: Sequence[str], settings: ScoreSettings, progress: Progress | None = None
) -> dict[str, Scored]:
    """The scores `names`; k passes per text and rule."""
    budget = GPU_LOGITS if model.device.type == "cuda" else CPU_LOGITS
    at_once = max(1, budget // (4 * model.vocab_size * batch.sites.shape[1]))
    found = {}
    for name in names:
        by_site, lost = torch.cat([along_rule(model, part, RULES[name]) for part in batch.parts(at_once)], 1)
        found[name] = Scored(by_site.sum(1), by_site, {"special": lost.sum(1)})
    return found


def along_rule(model: ConditionalModel, batch: TextBatch, rule: Rule) -> Float[Tensor, "2 n k"]:
    """log q(x_i | x_S) of each site i, S the sites revealed before the rule chose i; and the nats of special tokens."""
    n, k = batch.sites.shape
    rows = batch.ids.scatter(1, batch.sites, model.mask_id)
    hidden = torch.arange(k, device=batch.ids.device).repeat(n, 1)
    found = torch.empty((2, n, k), dtype=torch.float64, device=batch.ids.device)
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
        found.scatter_(2, site.expand(2, -1, -1), read.double())
        rows = rows.scatter(1, position, token)
        hidden = _without(hidden, place)
    return found


def _without(values: Int[Tensor, "n h"], place: Int[Tensor, "n 1"]) -> Int[Tensor, "n g"]:
    """Each row without the entry at `place`, the others in their order."""
    keep = torch.ones_like(values, dtype=torch.bool).scatter(1, place, False)
    return values[keep].reshape(len(values), -1)
