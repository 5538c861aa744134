"""The score `pair`: adjacent pairs from derived joints, over their shared marginals.

    pair(x) = sum_{i=1}^{k-1} log mu_i(x_i, x_{i+1}) - sum_{i=2}^{k-1} (log mu_{i-1}(x_i) + log mu_i(x_i)) / 2

mu_i is the joint of sites i and i+1 given all other tokens, derived by a construction from the pair's two tables. Every inner
token is in two pairs, so one of its two marginals is taken out again: their geometric mean, since the pairs to its left and
right were derived in different contexts. It is pll with pairs in the place of tokens; on a law that is a product, both are
that law. For one token it is log q, for two the joint itself; only these two are probabilities.

A joint over `candidates` tokens per site is given that the pair lies among them; it is multiplied by the share of the product
joint that they hold, so that the score does not rise when there are fewer. All of this is over the regular tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.cloze import Cloze
from unmask.joints.deriving import derive
from unmask.joints.joint import Joint
from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress
from unmask.scoring.batch import Scored, TextBatch
from unmask.scoring.registry import AdjacentPairs
from unmask.tables.candidates import find_candidates, plan_candidates
from unmask.tables.revealing import Conditionals, regular_tokens
from unmask.tables.unary import tables_of


def score_pairs(
    model: ConditionalModel, batch: TextBatch, scores: Sequence[AdjacentPairs], progress: Progress | None = None
) -> dict[str, Scored]:
    """The score `pair`; about 2 `candidates` passes per pair."""
    (score,) = scores
    if batch.sites.shape[1] == 1:
        masked, tokens = batch.ids.scatter(1, batch.sites, model.mask_id), batch.ids.gather(1, batch.sites)
        return {score.name: Scored(Conditionals(model, regular_tokens(model)).log_q(masked, batch.sites, tokens)[:, 0])}
    values = [float(pair_score(model, ids, sites, score)) for ids, sites in zip(batch.ids, batch.sites, strict=True)]
    return {score.name: Scored(torch.tensor(values, dtype=torch.float64))}


def pair_score(
    model: ConditionalModel, ids: Int[Tensor, " T"], sites: Int[Tensor, " k"], score: AdjacentPairs
) -> Float[Tensor, ""]:
    """pair(x) of one text of two sites or more; the passes of its pairs run together."""
    clozes = []
    for place in range(len(sites) - 1):
        block = sites[place : place + 2]
        masked = ids.scatter(0, block, model.mask_id).tolist()
        clozes.append(Cloze(tuple(masked), tuple(block.tolist()), tuple(ids[block].tolist())))
    candidates = find_candidates(model, [plan_candidates(model, cloze, score.candidates, force=True) for cloze in clozes])
    logs = [
        _logs(derive(tables, score.joint), cloze.gold or ())
        for tables, cloze in zip(tables_of(model, clozes, candidates), clozes, strict=True)
    ]
    joint, left, right = torch.tensor(logs, dtype=torch.float64).unbind(1)
    return joint.sum() - (right[:-1] + left[1:]).sum() / 2


def _logs(joint: Joint, gold: tuple[int, ...]) -> tuple[float, ...]:
    """log mu(x, y) of the two tokens `gold`, and the logs of their marginals."""
    inside = sum(joint.tables.log_masked_inside)
    marginals = [
        float(marginal[candidates == token].log())
        for marginal, candidates, token in zip(joint.marginals(), joint.tables.candidates, gold, strict=True)
    ]
    return float(joint.log_prob(gold)) + inside, marginals[0] + inside, marginals[1] + inside
