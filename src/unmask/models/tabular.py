"""A masked language model given by explicit tables: the ground truth that tests enumerate."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.models.conditional_model import ConditionalModel


class TabularMLM(ConditionalModel):
    """Logits f_t(. | x) for every text x over {0, ..., V-1, mask}^T, where mask = V.

    f_t(. | x) = table[t, x_1, ..., x_T, :], so the table has the shape (T, V+1, ..., V+1, V).
    Nothing ties the entries to each other: in general its conditionals are incompatible, as those
    of a trained model are. `from_joint` builds the compatible case.
    """

    def __init__(self, table: Tensor) -> None:
        self.table = table
        self.length: int = table.shape[0]
        self.max_length: int = self.length
        self.vocab_size: int = table.shape[-1]
        self.mask_id: int = self.vocab_size
        self.device: torch.device = table.device
        self.dtype: torch.dtype = table.dtype

    @classmethod
    def random(cls, vocab_size: int, length: int, seed: int, scale: float = 1.5) -> TabularMLM:
        """Independent normal logits of standard deviation `scale`, in float64."""
        generator = torch.Generator().manual_seed(seed)
        shape = _table_shape(vocab_size, length)
        return cls(scale * torch.randn(shape, generator=generator, dtype=torch.float64))

    @classmethod
    def from_joint(cls, joint: Tensor) -> TabularMLM:
        """The conditionals of a strictly positive joint p over V^T.

        f_t(x_t | visible) = log p(x_t, visible), whose softmax is p(x_t | visible).
        """
        length = joint.dim()
        vocab_size = joint.shape[0]
        marginals = joint  # p of the visible tokens, where an index `mask` sums its axis out
        for axis in range(length):
            summed_out = marginals.sum(axis, keepdim=True)
            marginals = torch.cat([marginals, summed_out], axis)
        table = torch.empty(_table_shape(vocab_size, length), dtype=joint.dtype)
        for t in range(length):
            log_p = marginals.narrow(t, 0, vocab_size).movedim(t, -1).log()
            # What x holds at t itself makes no difference.
            table[t] = log_p.unsqueeze(t).expand(table[t].shape)
        return cls(table)

    def logits_at(
        self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]
    ) -> Float[Tensor, "n p V"]:
        """Entries of the table."""
        texts = ids.unsqueeze(1).expand(-1, positions.shape[1], -1)  # one for each position
        tokens = texts.unbind(-1)  # T indices of shape (n, p)
        return self.table[(positions, *tokens)]


def _table_shape(vocab_size: int, length: int) -> tuple[int, ...]:
    tokens = [vocab_size + 1] * length
    return (length, *tokens, vocab_size)
