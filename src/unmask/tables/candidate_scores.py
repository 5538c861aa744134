"""The score that ranks the tokens of each blank, of which the best become its candidates.

Of a cloze with k blanks, token x of blank t has

    score_t(x) = m_t(x) / 2 + 1/(2(k-1)) sum_{s != t} sum_{y in Y_s} w_s(y) q_t(x | x_s = y)

    m_t   the model's distribution at blank t, with every blank masked
    Y_s   the most likely tokens of blank s by m_s: its neighbours
    w_s   m_s, renormalised over Y_s
    q_t   the model's distribution at blank t, with y at blank s and every other blank masked

The first term alone misses tokens that are likely only beside the right neighbour (the second
half of a name). The second takes one pass for each neighbour.

All distributions are those over the model's whole vocabulary; x and y are allowed tokens. A
single blank has the first term alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.common.batches import consecutive
from unmask.common.cloze import Cloze
from unmask.models.conditional_model import ConditionalModel
from unmask.tables.conditional_table import rows_at_once
from unmask.tables.unary import masked_logits

NEIGHBOURS = 64  # of each blank; fewer with a slow model


def likely_tokens(
    model: ConditionalModel,
    cloze: Cloze,
    size: int,
    regular: Int[Tensor, " n"],
    neighbours: int = NEIGHBOURS,
) -> tuple[Int[Tensor, " size"], ...]:
    """The `size` tokens of each blank with the highest score, best first."""
    (score,) = token_scores(model, [cloze], [regular], neighbours)
    return best_tokens(cloze, score, regular, size)


def best_tokens(
    cloze: Cloze, score: Float[Tensor, "k n"], allowed: Int[Tensor, " n"], size: int
) -> tuple[Int[Tensor, " size"], ...]:
    """The `size` allowed tokens of each blank with the highest score, best first. Gold tokens
    come before all others.
    """
    best = []
    for t, of_blank in enumerate(score):
        if cloze.gold is not None:
            of_blank = of_blank.masked_fill(allowed == cloze.gold[t], torch.inf)
        best.append(allowed[of_blank.topk(size).indices])
    return tuple(best)


def score_passes(sites: int, neighbours: int) -> int:
    """Passes of the model that the scores of a cloze take: one with all blanks masked, and one
    for each neighbour; a single blank is no neighbour of another.
    """
    if sites == 1:
        return 1
    return 1 + sites * neighbours


def token_scores(
    model: ConditionalModel,
    clozes: Sequence[Cloze],
    allowed: Sequence[Int[Tensor, " _"]],
    neighbours: int,
) -> list[Float[Tensor, "k _"]]:
    """For each cloze the score (k, n) of its n allowed tokens.

    clozes       all of one length and one number of blanks, so that they share calls of the model
    allowed      for each cloze the token ids allowed in a blank
    neighbours   how many each blank has, at most all allowed tokens
    """
    sums: list[_ScoreSum] = []
    for cloze, tokens, logits in zip(clozes, allowed, masked_logits(model, clozes), strict=True):
        sums.append(_ScoreSum(cloze, tokens, logits, neighbours))
    if len(clozes[0].block) == 1:
        return [of_cloze.score for of_cloze in sums]  # there is no blank beside it
    for s in range(len(clozes[0].block)):
        at_once = rows_at_once(model, len(clozes[0].ids))
        for batch in consecutive(sums, _ScoreSum.rows, at_once):
            texts = torch.cat([of_cloze.texts(s) for of_cloze in batch])
            positions = torch.cat([of_cloze.positions_beside(s) for of_cloze in batch])
            logits = model.logits_at(texts, positions)
            parts = logits.split([of_cloze.rows() for of_cloze in batch])
            for of_cloze, part in zip(batch, parts, strict=True):
                of_cloze.add(s, part)
    return [of_cloze.score for of_cloze in sums]


class _ScoreSum:
    """The score of one cloze. It starts with the first term, and the second is added blank by
    blank: each s adds to the scores of all others.

    score    (k, n), of the n allowed tokens
    likely   each blank's neighbours, the most likely first: places among the allowed tokens, and
             m_s of each, both (k, rows)
    """

    def __init__(
        self,
        cloze: Cloze,
        allowed: Int[Tensor, " n"],
        logits: Float[Tensor, "k V"],
        neighbours: int,
    ) -> None:
        masked = logits.float().softmax(-1)[:, allowed]  # m_t(x)
        self.cloze = cloze
        self.allowed = allowed
        self.score = masked / 2
        self.likely = masked.topk(min(neighbours, len(allowed)))

    def rows(self) -> int:
        """How many texts one blank takes: one for each of its neighbours."""
        return self.likely.indices.shape[1]

    def texts(self, s: int) -> Int[Tensor, "rows T"]:
        """The cloze with each neighbour y at blank s, and the other blanks masked."""
        y = self.allowed[self.likely.indices[s]]
        ids = torch.tensor([self.cloze.ids], device=self.allowed.device)
        texts = ids.repeat(len(y), 1)
        texts[:, self.cloze.block[s]] = y
        return texts

    def positions_beside(self, s: int) -> Tensor:
        """The positions of the blanks other than s (rows, k-1), where q is asked for."""
        beside = [self.cloze.block[t] for t in self._others(s)]
        return torch.tensor([beside], device=self.allowed.device).expand(self.rows(), -1)

    def add(self, s: int, logits: Float[Tensor, "rows others V"]) -> None:
        """Add the share of blank s to the score of each other blank; `logits` are those of
        `texts` at `positions_beside`.
        """
        of_neighbours = self.likely.values[s]
        weight = of_neighbours / of_neighbours.sum()  # w_s(y)
        q = logits.float().softmax(-1)[..., self.allowed]  # q_t(x | x_s = y) at (y, t, x)
        mean_q = torch.einsum("y,ytx->tx", weight, q)
        others = self._others(s)
        self.score[others] += mean_q / (2 * len(others))  # there are k-1 others

    def _others(self, s: int) -> list[int]:
        """The numbers of the blanks other than s."""
        return [t for t in range(len(self.cloze.block)) if t != s]
