"""The form in which a run keeps its conditionals, how many chains run side by side within a memory budget, and a cache of logits.

    logits    2 R F V numbers per chain     R replicas, F sites; 2: the text and its proposal
    states    2 R F d numbers per chain     d: the width of the encoder
    nothing                                 a proposal costs a pass more

Besides, R r V numbers while tokens are drawn, where r conditionals of a text are drawn from at once
(`Method.conditionals_at_once`): for each chain, or, where states are kept, for one chain at a time, since the head makes
logits of a few rows at once. A CPU takes the first of these forms of which one chain fits: chains that do not fit run after each
other, at no loss. A GPU wants all chains at once, and its head is cheap: it takes states where the model offers them. The chains
are the same whatever is kept; the passes they count depend on it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.errors import InputError
from unmask.models.conditional_model import ConditionalModel
from unmask.models.masked_lm import MaskedLM
from unmask.sampling.registry import Method
from unmask.sampling.settings import Keeps, SampleSettings
from unmask.sampling.target import Target

CPU_BYTES = 2**30
GPU_SHARE = 0.4
"""The budget, unless the user gives one: of the whole memory, on a GPU, so that a run that goes on has the same plan."""
WORK = 32
"""Bytes per token of the vocabulary while a token is drawn."""
GIGABYTE = 2**30
WORDS = {"logits": "logits", "states": "hidden states", "nothing": "nothing; they are computed again"}
CACHE_BYTES = 2**28
MOST_ROWS = 2**18
"""Rows of the cache; this many keys take about 50 MB."""


@dataclass(frozen=True)
class MemoryPlan:
    """The form in which conditionals are kept, the budget, and the bytes of one chain of the longest text."""

    keeps: Keeps
    budget: int
    per_chain: int

    def __str__(self) -> str:
        return f"kept of conditionals: {WORDS[self.keeps]} ({self.per_chain / 2**20:,.1f} MB per chain)"


def plan_memory(
    settings: SampleSettings, targets: Sequence[Target], model: MaskedLM, memory: int | None, only: Keeps | None = None
) -> MemoryPlan:
    """The plan of a run; a budget that no chain fits into is refused. With `only`, that form is kept and the model is not run."""
    longest = max(targets, key=lambda target: len(target.template))
    on_gpu = model.device.type == "cuda"
    budget = memory or (int(GPU_SHARE * device_bytes(model.device)[1]) if on_gpu else CPU_BYTES)
    if only is not None:
        return MemoryPlan(only, budget, chain_cost(settings.kernel, longest, only).each)
    states: list[Keeps] = ["states"] if model.offers_states(longest.template_ids.unsqueeze(0)) else []
    costs = {keeps: chain_cost(settings.kernel, longest, keeps) for keeps in ("logits", *states, "nothing")}
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
        """Bytes of one chain by itself."""
        return self.kept + self.work

    @property
    def each(self) -> int:
        """Bytes that another chain adds."""
        return self.kept if self.shares_work else self.one

    def of(self, chains: int) -> int:
        """Bytes of this many chains."""
        return self.one + (chains - 1) * self.each

    def fitting(self, budget: int) -> int:
        """How many chains fit, at least one."""
        return max(1, 1 + (budget - self.one) // self.each)


def chain_cost(method: Method, target: Target, keeps: Keeps) -> ChainCost:
    """The memory of a chain of this target."""
    model = target.model
    width = {"logits": model.vocab_size, "states": model.cost.width, "nothing": 0}[keeps]  # type: ignore[attr-defined]
    size = torch.promote_types(model.dtype, torch.float32 if keeps == "logits" else model.dtype).itemsize
    text = 8 * len(target.template) + 9 * target.columns + 40
    rows = method.conditionals_at_once(target.sites)
    return ChainCost(
        kept=method.replicas * 2 * (target.sites * width * size + text),
        work=method.replicas * rows * WORK * model.vocab_size,
        shares_work=keeps == "states" and not method.whole_conditionals,
    )


def device_bytes(device: torch.device) -> tuple[int, int]:
    """Free memory of the device, and all of it, in bytes."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            kilobytes = {name: int(rest.split()[0]) for name, rest in (line.split(":") for line in lines)}
        return kilobytes["MemAvailable"] * 1024, kilobytes["MemTotal"] * 1024
    except (OSError, KeyError):
        return 8 * GIGABYTE, 8 * GIGABYTE


class LogitMemory:
    """Logits of the `rows` most recently used rows, by default as many as `most_bytes` hold.

    A row is a text with one position masked; its key is the bytes of its ids and of the position. Chains over a small space
    (two residues of a protein, say) come back to the same texts all the time, and a chain that rejects is offered the same
    texts again. Rows that occur twice in one question are computed once.
    """

    def __init__(self, model: ConditionalModel, rows: int | None = None, most_bytes: int = CACHE_BYTES) -> None:
        dtype = torch.promote_types(model.dtype, torch.float32)
        fitting = most_bytes // (model.vocab_size * torch.empty((), dtype=dtype).element_size())
        self.rows = max(1, min(MOST_ROWS, fitting)) if rows is None else rows
        self._kept = torch.empty((self.rows, model.vocab_size), dtype=dtype, device=model.device)
        self._slots: OrderedDict[bytes, int] = OrderedDict()

    def logits(
        self, ids: Int[Tensor, "m T"], positions: Int[Tensor, "m 1"], run: Callable[[Tensor, Tensor], Tensor]
    ) -> tuple[Float[Tensor, "m 1 V"], int]:
        """Logits of each row, and how many rows were `run` because they were not known."""
        keys = [row.tobytes() for row in torch.cat([ids, positions], 1).int().cpu().numpy()]
        hits = [place for place, key in enumerate(keys) if key in self._slots]
        new = {key: place for place, key in enumerate(keys) if key not in self._slots}
        out = torch.empty((len(keys), 1, self._kept.shape[1]), dtype=self._kept.dtype, device=self._kept.device)
        if hits:
            out[hits, 0] = self._kept[[self._slots[keys[place]] for place in hits]]
            for place in hits:
                self._slots.move_to_end(keys[place])
        if new:
            computed = run(ids[list(new.values())], positions[list(new.values())])
            number = {key: row for row, key in enumerate(new)}
            places = [place for place, key in enumerate(keys) if key in number]
            out[places] = computed[[number[keys[place]] for place in places]]
            self._keep(list(new), computed[:, 0])
        return out, len(new)

    def _keep(self, keys: list[bytes], logits: Float[Tensor, "k V"]) -> None:
        keys, logits = keys[-self.rows :], logits[-self.rows :]
        slots = []
        for key in keys:
            slot = len(self._slots) if len(self._slots) < self.rows else self._slots.popitem(last=False)[1]
            self._slots[key] = slot
            slots.append(slot)
        self._kept[slots] = logits
