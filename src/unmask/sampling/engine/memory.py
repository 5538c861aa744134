"""How many chains run side by side, by the memory that their outputs take.

    logits    2 F V numbers per chain       F sites; 2: the text and its proposal
    states    2 F d numbers per chain       d: the width of the encoder

Besides, r V numbers while tokens are drawn, where r conditionals of a text are drawn from at
once (`conditionals_at_once`): for each chain, or, of states, for one chain at a time, since the
head makes logits of a few rows at once. A CPU takes logits: chains that do not fit run after
each other, at no loss. A GPU wants all chains at once: it takes states where there are any.
"""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.models.batching import whole_memory
from unmask.models.conditional_model import ConditionalModel
from unmask.runs.memory import free_memory
from unmask.sampling.engine.passes import OutputForm
from unmask.sampling.methods import OwnMethod, SampleMethod
from unmask.sampling.target import Target

GIGABYTE = 2**30  # bytes
CPU_BYTES = 2**30  # For chains on a CPU
GPU_SHARE = 0.4  # Of all memory of a GPU, for chains
GPU_WORKER_BYTES = 2**33  # For chains on a worker's GPU, whose memory is not known here
BYTES_PER_DRAWN_LOGIT = 32  # The four float64 tables of `plain_draw`
BYTES_PER_TOKEN = 8  # Of a text: its id, int64
BYTES_PER_TERM = 9  # Of an energy: float64, and whether it is that of the current text
BYTES_PER_TEXT = 40  # Single numbers of a chain, such as the sum of the user's terms


def output_form(model: ConditionalModel, ids: Int[Tensor, "n T"], device: str) -> OutputForm:
    """The form of a run's outputs: hidden states on a GPU, if the model offers them for such
    texts, else logits.
    """
    if device == "cuda" and model.offers_states(ids):
        return "states"
    return "logits"


def chains_that_fit(
    method: SampleMethod | OwnMethod, target: Target, form: OutputForm, budget: int | None = None
) -> int:
    """How many chains of this target run side by side, at least one; `budget` in bytes, by
    default a share of what is there.
    """
    model = target.model
    if budget is None:
        budget = _usual_budget(model.device)
    if form == "logits":
        width = model.vocab_size
        dtype = torch.promote_types(model.dtype, torch.float32)  # logits are never narrower
    else:
        width = model.cost.width  # type: ignore[attr-defined]
        dtype = model.dtype
    outputs = target.sites * width * dtype.itemsize
    text = BYTES_PER_TOKEN * len(target.template) + BYTES_PER_TERM * target.columns + BYTES_PER_TEXT
    chain = 2 * (outputs + text)  # 2: the text and its proposal
    if isinstance(method, OwnMethod):
        method.on(target)  # raises: nothing runs by it
    conditionals = method.conditionals_at_once(target.sites)
    draw = conditionals * BYTES_PER_DRAWN_LOGIT * model.vocab_size
    if form == "states":  # one chain's logits at a time
        fitting = (budget - draw) // chain
    else:
        fitting = budget // (chain + draw)
    return max(1, fitting)


def _usual_budget(device: torch.device) -> int:
    """Bytes for chains: at most what is free."""
    most = CPU_BYTES
    if device.type == "cuda":
        most = int(GPU_SHARE * whole_memory(device))
    return min(free_bytes(device), most)


def free_bytes(device: torch.device) -> int:
    """Free memory of the device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return free_memory()
