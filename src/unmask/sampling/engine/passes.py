"""Forward passes in calls of one shape, so that a row's numbers do not depend on what else is
computed beside it.

Matrix libraries choose their inner loops by the shape of the call, and with them the order of
summation: the same row can differ in its last bits between a call of 1 row and one of 64. Calls
of a fixed number of rows, the last one filled up with others, give each row the same bits
whatever the batch, which makes chains reproducible token for token.

That is also why the outputs that chains cache can be logits, or the encoder's last hidden
states, of which the head makes logits for a few per cent of a pass: both give the same chains.
On a GPU a call is recorded once as a CUDA graph and replayed (`Recorded`). How many chains run
side by side follows from the memory (`chains_that_fit`):

    logits    2 F V numbers per chain       F sites; 2: the text and its proposal
    states    2 F d numbers per chain       d: the width of the encoder

Besides, r V numbers while tokens are drawn, where r conditionals of a text are drawn from at
once (`conditionals_at_once`): for each chain, or, of states, for one chain at a time, since the
head makes logits of a few rows at once. A CPU takes logits: chains that do not fit run after
each other, at no loss. A GPU wants all chains at once: it takes states where there are any.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.models.batching import whole_memory
from unmask.models.conditional_model import ConditionalModel
from unmask.runs.memory import free_memory
from unmask.sampling.engine.randomness import Categoricals
from unmask.sampling.registry import Method, OutputForm
from unmask.sampling.target import Energy, Target, masked_alone

logger = logging.getLogger(__name__)
WARM_UPS = 2
CPU_ROWS = 16
GPU_ROWS = 512
GPU_ROWS_OF_DECODERS = 2048
FEWEST_GPU_ROWS = 64
"""Rows of a call on a GPU: the rounds of chains ask for fewer and fewer rows, the steps of a
decoder for all texts.
"""
HEAD_ROWS = 1024  # Rows that the head makes logits of at once: more leave a GPU's cache
CHAINS_THAT_FILL = {4: 1, 8: 8, 16: 32}
"""On a CPU, rows of a call and the fewest chains that use them: with fewer, most of the call
would be copies.
"""
TOKENS_PER_ROW = 48
"""On a CPU, these rows are for texts of this many tokens: longer texts need fewer rows to pay
for reading the weights.
"""
CPU_BYTES, GPU_SHARE = 2**30, 0.4  # Memory for chains; on a GPU a share of all of it
GPU_WORKER_BYTES = 2**33  # Of a GPU whose memory is not known here, because another process has it
WORK = 32  # Bytes per token of the vocabulary while a token is drawn
GIGABYTE = 2**30


def rows_for(model: ConditionalModel, chains: int, decodes: bool = False) -> int:
    """The rows of every call for `chains` chains with one target, however many of them run side
    by side; a power of two.
    """
    if model.device.type == "cuda":
        return min(
            GPU_ROWS_OF_DECODERS if decodes else GPU_ROWS,
            max(FEWEST_GPU_ROWS, 1 << (chains.bit_length() - 1)),
        )
    return max(rows for rows, fewest in CHAINS_THAT_FILL.items() if chains >= fewest)


class Passes:
    """Runs the model on rows and counts them; one pass is one row.

    form    of the outputs: logits, or hidden states; by default states on a GPU where the model
            offers them, else logits
    count   rows so far
    """

    def __init__(
        self, model: ConditionalModel, rows: int | None = None, form: OutputForm | None = None
    ) -> None:
        self.model = model
        self.rows = rows or (GPU_ROWS if model.device.type == "cuda" else CPU_ROWS)
        self.form: OutputForm = form or ("states" if model.device.type == "cuda" else "logits")
        self.count = 0
        self._offered: dict[int, bool] = {}
        self._recorded: dict[tuple[object, ...], Recorded] = {}
        self._pool: list[Any] = []
        self._whole = False

    def outputs(
        self, ids: Int[Tensor, "m T"], positions: Int[Tensor, "m p"]
    ) -> Float[Tensor, "m p W"]:
        """The network's outputs at `positions` of each row: hidden states (W = d) or logits (W
        = V), see `as_states`.
        """
        self.count += len(ids)
        rows = self.rows_of_a_call(ids.shape[1], positions.shape[1])
        if not self.as_states(ids):
            logits: Tensor = _filled_up(self.model.logits, rows, ids, positions)
            return logits
        return self._in_calls("states", self.model.states, rows, (ids, positions))

    def as_one_call(
        self, name: Hashable, function: Callable[..., Any], inputs: Sequence[Tensor]
    ) -> Any:
        """`function` of whole tensors with all calls that it makes: on a GPU they are recorded
        and replayed together.

        All shapes must follow from those of the inputs, and rows are not counted.
        """

        def whole(*values: Tensor) -> Any:
            self._whole = True
            try:
                return function(*values)
            finally:
                self._whole = False

        return self._in_calls(name, whole, len(inputs[0]), inputs)

    def logits(
        self, ids: Int[Tensor, "m T"], positions: Int[Tensor, "m p"]
    ) -> Float[Tensor, "m p V"]:
        """Logits at `positions` of each row, on the model's device."""
        return self.logits_of(self.outputs(ids, positions).flatten(0, 1)).unflatten(
            0, positions.shape
        )

    def alone(self, ids: Int[Tensor, "m T"], positions: Int[Tensor, " m"]) -> Float[Tensor, "m W"]:
        """The output at one position of each text, masked alone."""
        return self.outputs(
            masked_alone(ids, positions, self.model.mask_id), positions.unsqueeze(1)
        )[:, 0]

    def terms(
        self, ids: Int[Tensor, "m T"], positions: Int[Tensor, " m"], energy: Energy
    ) -> tuple[Float[Tensor, " m"], Float[Tensor, "m W"]]:
        """The energy's terms at one position of each text, and the outputs there; one pass each."""
        tokens = ids.gather(1, positions.unsqueeze(1)).squeeze(1)
        masked = masked_alone(ids, positions, self.model.mask_id)
        if not self.as_states(ids):
            logits = self.outputs(masked, positions.unsqueeze(1))[:, 0]
            return energy.term(logits, tokens), logits
        self.count += len(ids)

        def compute(ids: Tensor, positions: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
            states = self.model.states(ids, positions)[:, 0]
            return energy.term(self.model.logits_of(states), tokens), states

        rows = self.rows_of_a_call(ids.shape[1], 1)
        both: tuple[Tensor, Tensor] = self._in_calls(
            energy.kind, compute, rows, (masked, positions.unsqueeze(1), tokens)
        )
        return both

    def logits_of(self, outputs: Float[Tensor, "m W"]) -> Float[Tensor, "m V"]:
        """Logits from outputs, which may be logits already."""
        if outputs.shape[1] == self.model.vocab_size:
            return outputs
        return self._through_head("head", self.model.logits_of, (outputs,), ())

    def categoricals(
        self,
        outputs: Float[Tensor, "m W"],
        target: Target,
        temperature: float,
        sites: Int[Tensor, " m"],
        current: Int[Tensor, " m"] | None = None,
    ) -> Categoricals:
        """Distributions to draw from, made of the outputs at `sites`; without `current` tokens,
        their density is not needed.
        """
        current = torch.zeros_like(sites) if current is None else current
        distributions = Categoricals(outputs, temperature, target.support, sites, current)
        if outputs.shape[1] == self.model.vocab_size:
            return distributions
        return replace(distributions, logits_of=self.model.logits_of, in_calls=self._through_head)

    def as_states(self, ids: Int[Tensor, "m T"]) -> bool:
        """Whether outputs for texts like these are hidden states."""
        if self.form == "logits":
            return False
        if ids.shape[1] not in self._offered and len(ids):
            self._offered[ids.shape[1]] = self.model.offers_states(ids)
        return self._offered.get(ids.shape[1], False)

    def _through_head(
        self,
        name: Hashable,
        function: Callable[..., Any],
        inputs: Sequence[Tensor],
        shared: Sequence[Tensor],
    ) -> Any:
        return self._in_calls(
            name, function, min(HEAD_ROWS, self.rows_of_a_call(1, 1)), inputs, shared
        )

    def _in_calls(
        self,
        name: Hashable,
        function: Callable[..., Any],
        rows: int,
        inputs: Sequence[Tensor],
        shared: Sequence[Tensor] = (),
    ) -> Any:
        """`function` of `rows` rows of `inputs` at a time, and of the tensors they share;
        recorded, on a GPU.
        """
        if not inputs[0].is_cuda or not len(inputs[0]) or self._whole:
            return _filled_up(lambda *part: function(*part, *shared), rows, *inputs)
        key = (
            name,
            rows,
            *(tuple(value.shape[1:]) for value in inputs),
            *(tuple(value.shape) for value in shared),
        )
        if key not in self._recorded:
            self._recorded[key] = Recorded(function, rows, inputs, shared, self._pool)
        return self._recorded[key](inputs, shared)

    def rows_of_a_call(self, tokens: int, predicted: int) -> int:
        """The rows of a call: at most what the model takes at once, since a call that it cuts
        in two has two shapes.

        Powers of two give every thread the same share, so a row's bits do not depend on its place.
        """
        rows = min(self.rows, self.model.rows_at_once(tokens, predicted) or self.rows)
        if self.model.device.type == "cpu":
            rows = min(rows, max(1, self.rows * TOKENS_PER_ROW // tokens))
        return 1 << (rows.bit_length() - 1)


def _filled_up(function: Callable[..., Any], rows: int, *inputs: Tensor) -> Any:
    """`function` of `rows` rows of `inputs` at a time; the last call is filled up with copies
    of a row.
    """
    parts = []
    for start in range(0, max(1, len(inputs[0])), rows):
        part = [value[start : start + rows] for value in inputs]
        filler = rows - len(part[0])
        if filler and len(part[0]):
            part = [
                torch.cat([value, value[-1:].expand(filler, *value.shape[1:])]) for value in part
            ]
        results = function(*part)
        results = results if isinstance(results, tuple) else (results,)
        parts.append([value[: rows - filler] for value in results])
    whole = tuple(torch.cat(column) for column in zip(*parts, strict=True))
    return whole if len(whole) > 1 else whole[0]


class Recorded:
    """`function` in calls of `rows` rows, recorded once as a CUDA graph and replayed; called,
    where it cannot be recorded.

    A pass of a small network is a hundred launches, each shorter than the time a processor
    takes to ask for it; a graph asks once. Inputs are copied into the graph's own tensors and
    results out of them. A call with too few rows leaves the rest of the inputs as the call
    before had them, and drops their results. Tensors that all rows share (`shared`) are copied
    once.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        rows: int,
        examples: Sequence[Tensor],
        shared: Sequence[Tensor],
        pool: list[Any],
    ) -> None:
        self.function, self.rows = function, rows
        self.inputs = [value[:1].repeat(rows, *[1] * (value.dim() - 1)) for value in examples]
        self.shared = [value.clone() for value in shared]
        self.graph: torch.cuda.CUDAGraph | None = None
        self.outputs: tuple[Tensor, ...] = ()
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UPS):
                self._call()
        torch.cuda.current_stream().wait_stream(aside)
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(
                graph, pool=pool[0] if pool else None, capture_error_mode="thread_local"
            ):
                outputs = self._call()
        except RuntimeError as error:
            logger.warning(
                "a call could not be recorded (%s): it is made again each time",
                str(error).splitlines()[0],
            )
            return
        self.graph, self.outputs = graph, outputs
        pool[:] = [graph.pool()]

    def __call__(self, inputs: Sequence[Tensor], shared: Sequence[Tensor]) -> Any:
        """The function's results for all rows."""
        whole: tuple[Tensor, ...] = ()
        for buffer, value in zip(self.shared, shared, strict=True):
            buffer.copy_(value)
        for start in range(0, len(inputs[0]), self.rows):
            count = min(self.rows, len(inputs[0]) - start)
            for buffer, value in zip(self.inputs, inputs, strict=True):
                buffer[:count].copy_(value[start : start + count])
            if self.graph is None:
                self.outputs = self._call()
            else:
                self.graph.replay()
            whole = whole or tuple(
                value.new_empty((len(inputs[0]), *value.shape[1:])) for value in self.outputs
            )
            for all_rows, part in zip(whole, self.outputs, strict=True):
                all_rows[start : start + count].copy_(part[:count])
        return whole if len(whole) > 1 else whole[0]

    def _call(self) -> tuple[Tensor, ...]:
        with torch.no_grad():
            results = self.function(*self.inputs, *self.shared)
        return results if isinstance(results, tuple) else (results,)


def output_form(model: ConditionalModel, ids: Int[Tensor, "n T"], device: str) -> OutputForm:
    """The form of a run's outputs: hidden states on a GPU, if the model offers them for such
    texts, else logits.
    """
    return "states" if device == "cuda" and model.offers_states(ids) else "logits"


def chains_that_fit(
    method: Method, target: Target, form: OutputForm, budget: int | None = None
) -> int:
    """How many chains of this target run side by side, at least one; `budget` in bytes, by
    default a share of what is there.
    """
    model = target.model
    if budget is None:
        most = (
            int(GPU_SHARE * whole_memory(model.device))
            if model.device.type == "cuda"
            else CPU_BYTES
        )
        budget = min(free_bytes(model.device), most)
    width = model.vocab_size if form == "logits" else model.cost.width  # type: ignore[attr-defined]
    size = torch.promote_types(
        model.dtype, torch.float32 if form == "logits" else model.dtype
    ).itemsize
    chain = 2 * (target.sites * width * size + 8 * len(target.template) + 9 * target.columns + 40)
    work = method.conditionals_at_once(target.sites) * WORK * model.vocab_size
    return max(1, (budget - work) // chain if form == "states" else budget // (chain + work))


def free_bytes(device: torch.device) -> int:
    """Free memory of the device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return free_memory()
