"""What a run keeps of its conditionals, and how many chains run side by side, within a memory budget.

    logits    2 R F V numbers per chain     R replicas, F sites; 2: the text and its proposal
    states    2 R F d numbers per chain     d: the width of the encoder
    nothing                                 a proposal costs a pass more

and R V numbers while a token is drawn: for each chain, but for one at a time where states are kept, since the head makes logits
of a few rows at once. (Decoders that predict all blanks at once draw F tokens, and pair joints two whole conditionals.) A CPU
takes the first of these of which one chain fits: chains that do not fit run after each other, at no loss. A GPU wants all chains
at once, and its head is cheap: it takes states where the model offers them. The chains are the same whatever is kept; the passes
they count are those of what is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from unmask.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.sampling.settings import Keeps, SampleSettings
from unmask.sampling.target import Target

CPU_BYTES = 2**30
GPU_SHARE = 0.4
"""The budget, unless the user gives one: of the free memory, on a GPU."""
WORK = 32
"""Bytes per token of the vocabulary while a token is drawn."""
ALL_AT_ONCE, PAIRS = ("mask-predict", "confidence", "revise", "entropy-bound"), "pair-joint"
"""Kernels that look at several conditionals of a chain at once; pair joints at whole ones, whatever is kept."""
GIGABYTE = 2**30
WORDS = {"logits": "logits", "states": "hidden states", "nothing": "nothing, and computed anew"}


@dataclass(frozen=True)
class MemoryPlan:
    """What is kept of each site's conditional, the budget, and what one chain of the longest text takes of it."""

    keeps: Keeps
    budget: int
    per_chain: int

    def __str__(self) -> str:
        return f"kept of conditionals: {WORDS[self.keeps]} ({self.per_chain / 2**20:,.1f} MB per chain)"


def plan_memory(settings: SampleSettings, targets: list[Target], model: MaskedLM, memory: int | None) -> MemoryPlan:
    """The plan of a run; a budget that no chain fits into is refused."""
    longest = max(targets, key=lambda target: len(target.template))
    on_gpu = model.device.type == "cuda"
    budget = memory or (int(GPU_SHARE * free_memory(model.device)) if on_gpu else CPU_BYTES)
    costs = {keeps: chain_cost(settings, longest, keeps) for keeps in _offered(model, longest)}
    wanted = settings.chains if on_gpu else 1
    order: list[Keeps] = ["states", "logits"] if on_gpu else ["logits", "states"]
    for keeps in order:
        if keeps in costs and costs[keeps].of(1 if keeps == "states" else wanted) <= budget:
            return MemoryPlan(keeps, budget, costs[keeps].each)
    if costs["nothing"].one <= budget:
        return MemoryPlan("nothing", budget, costs["nothing"].each)
    raise InputError(
        f"memory of {budget:,} bytes is too little for one chain of {longest.sites} tokens, which takes "
        f"{costs['nothing'].one:,}: give more memory, or shorter texts"
    )


@dataclass(frozen=True)
class ChainCost:
    """Bytes that one chain keeps, its proposal included, bytes of the work on a step, and whether chains share the latter."""

    kept: int
    work: int
    shares_work: bool

    @property
    def one(self) -> int:
        """What a chain by itself takes."""
        return self.kept + self.work

    @property
    def each(self) -> int:
        """What another chain adds."""
        return self.kept if self.shares_work else self.one

    def of(self, chains: int) -> int:
        """What so many chains take."""
        return self.one + (chains - 1) * self.each

    def fitting(self, budget: int) -> int:
        """How many chains fit, at least one."""
        return max(1, 1 + (budget - self.one) // self.each)


def chain_cost(settings: SampleSettings, target: Target, keeps: Keeps) -> ChainCost:
    """What a chain of this target takes."""
    replicas = len(settings.ladder) if "ladder" in settings.entry.options else 1
    model = target.model
    width = {"logits": model.vocab_size, "states": model.cost.width, "nothing": 0}[keeps]  # type: ignore[attr-defined]
    size = torch.promote_types(model.dtype, torch.float32 if keeps == "logits" else model.dtype).itemsize
    text = 8 * len(target.template) + 9 * target.columns + 40
    rows = target.sites if settings.kernel in ALL_AT_ONCE else 2 if settings.kernel == PAIRS else 1
    return ChainCost(
        kept=replicas * 2 * (target.sites * width * size + text),
        work=replicas * rows * WORK * model.vocab_size,
        shares_work=keeps == "states" and settings.kernel != PAIRS,
    )


def free_memory(device: torch.device) -> int:
    """Bytes that can still be had on the device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return 8 * GIGABYTE


def _offered(model: MaskedLM, target: Target) -> list[Keeps]:
    return ["logits", "states", "nothing"] if model.offers_states(target.template_ids.unsqueeze(0)) else ["logits", "nothing"]
