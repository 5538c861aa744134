"""Clozes of small models, and the score of their tokens by its formula."""

import torch

from unmask.common.cloze import Cloze
from unmask.models.tabular import TabularMLM


def masked_cloze(model: TabularMLM, *block: int) -> Cloze:
    return Cloze((model.mask_id,) * model.length, block)


def scores_by_enumeration(model: TabularMLM, cloze: Cloze) -> torch.Tensor:
    """The score of `unmask.tables.candidate_scores`, one token at a time; every token is a
    neighbour, for V <= NEIGHBOURS.
    """
    k, vocabulary = len(cloze.block), model.vocab_size
    ids = torch.tensor([cloze.ids])
    m = [model.logits(ids, torch.tensor([[p]]))[0, 0].softmax(-1) for p in cloze.block]
    out = torch.zeros(k, vocabulary, dtype=torch.float64)
    for t in range(k):
        for x in range(vocabulary):
            out[t, x] = m[t][x] / 2
            for s in range(k):
                for y in range(vocabulary) if s != t else ():
                    row = ids.clone()
                    row[0, cloze.block[s]] = y
                    q = model.logits(row, torch.tensor([[cloze.block[t]]]))[0, 0].softmax(-1)
                    out[t, x] += m[s][y] * q[x] / (2 * (k - 1))
    return out
