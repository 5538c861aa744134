"""A masked language model given by explicit tables: the ground truth that tests enumerate."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.models.conditional_model import ConditionalModel


class TabularMLM(ConditionalModel):
    """Logits f_t(. | x) for every text x over {0..V-1, mask}^T, read from `table[t, x_1, ...,
    x_T, :]`; mask = V.

    Nothing ties the entries to each other, so its conditionals are in general incompatible, as
    those of a trained model are; `from_joint` builds the compatible case.
    """

    def __init__(self, table: Tensor) -> None:
        self.table = table
        self.length = self.max_length = table.shape[0]
        self.vocab_size = table.shape[-1]
        self.mask_id = self.vocab_size
        self.device, self.dtype = table.device, table.dtype

    @classmethod
    def random(cls, vocab_size: int, length: int, seed: int, scale: float = 1.5) -> TabularMLM:
        """Independent normal logits of standard deviation `scale`, in float64."""
        generator = torch.Generator().manual_seed(seed)
        shape = (length, *[vocab_size + 1] * length, vocab_size)
        return cls(scale * torch.randn(shape, generator=generator, dtype=torch.float64))

    @classmethod
    def from_joint(cls, joint: Tensor) -> TabularMLM:
        """The conditionals of a strictly positive joint p over V^T: f_t(x_t | visible) = log
        p(x_t, visible).
        """
        length, vocab_size = joint.dim(), joint.shape[0]
        padded = joint
        for axis in range(length):
            padded = torch.cat([padded, padded.sum(axis, keepdim=True)], axis)
        table = torch.empty((length, *[vocab_size + 1] * length, vocab_size), dtype=joint.dtype)
        for t in range(length):
            visible = padded.narrow(t, 0, vocab_size).movedim(t, -1)
            table[t] = visible.unsqueeze(t).expand(table[t].shape).log()
        return cls(table)

    def logits(
        self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]
    ) -> Float[Tensor, "n p V"]:
        """Entries of the table."""
        index = tuple(ids.unsqueeze(1).expand(-1, positions.shape[1], -1).unbind(-1))
        return self.table[(positions, *index)]
