"""Learning to correct one's own output (Savinov et al. 2022; seeds of iterative refinement):

    y ~ prod_i q(. | x_-K) at the masked set K, in one step;   loss  sum_{i in K} -log q(x_i | y_K, x_-K)

The second pass sees the tokens that the first one put in place of the masks, all drawn independently of each other, and is asked
for the right ones. What is drawn carries no gradient.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from unmask.training.encoder import Slots
from unmask.training.objectives import Task
from unmask.training.packing import Vocabulary


@torch.no_grad()
def filled_in(
    task: Task,
    logits: Float[Tensor, "m V"],
    slots: Slots,
    vocabulary: Vocabulary,
    generator: Generator,
) -> Task:
    """The task with tokens drawn from `logits`, those of the slots, where they are asked for."""
    allowed = logits.float().masked_fill(vocabulary.special, -torch.inf)
    noise = torch.rand(allowed.shape, generator=generator, device=allowed.device).clamp(min=1e-12)
    drawn = (allowed - (-noise.log()).log()).argmax(-1).to(task.shown.dtype)
    proposed = torch.cat([drawn, drawn.new_zeros(1)])[slots.of].view_as(task.shown)
    inside = (slots.of < len(drawn)).view_as(task.asked)
    return task._replace(shown=torch.where(task.asked & inside, proposed, task.shown))
