"""Forward passes in calls of one shape, so that a row's numbers do not depend on what else is
computed beside it (see `calls`): chains are reproducible token for token.

Chains cache outputs of the network: logits, or the encoder's last hidden states. From hidden
states the head makes logits for a few per cent of a pass. In calls of one shape both give the
same chains. On a GPU a call is recorded once as a CUDA graph and replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.common.methods.own_code import is_ours
from unmask.models.conditional_model import ConditionalModel
from unmask.sampling.energies.with_terms import Energy
from unmask.sampling.engine.calls import Recorded, in_full_calls
from unmask.sampling.engine.token_draw import Categoricals
from unmask.sampling.target import Target, masked_alone

OutputForm = Literal["logits", "states"]
CPU_ROWS = 16  # Default rows of a call on a CPU
GPU_ROWS = 512  # Most rows of a call on a GPU: rounds of chains ask for fewer and fewer rows
GPU_ROWS_OF_DECODERS = 2048  # Most for decoders: a step of one asks for rows of all texts
FEWEST_GPU_ROWS = 64  # Rows of a call on a GPU, however few chains there are
HEAD_ROWS = 1024  # Most rows that the head makes logits of at once: more leave a GPU's cache
FEWEST_CHAINS = {4: 1, 8: 8, 16: 32}
"""For a number of rows of a call on a CPU, the fewest chains that use it: with fewer, most of
the call would be copies.
"""
LENGTH_OF_FULL_CALLS = 48
"""Most tokens of a text for which a call on a CPU has all its rows. Longer texts need fewer rows
to pay for reading the weights.
"""


def rows_for(model: ConditionalModel, chains: int, decodes: bool = False) -> int:
    """The rows of every call for `chains` chains with one target, however many of them run side
    by side; a power of two.
    """
    if model.device.type == "cuda":
        most = GPU_ROWS_OF_DECODERS if decodes else GPU_ROWS
        return min(most, max(FEWEST_GPU_ROWS, _power_of_two_up_to(chains)))
    return max(rows for rows, fewest in FEWEST_CHAINS.items() if chains >= fewest)


def _power_of_two_up_to(number: int) -> int:
    """The largest power of two that is not above a number."""
    return 1 << (number.bit_length() - 1)


class Passes:
    """Runs the model on rows and counts them; one pass is one row.

    rows    of a call, at most
    form    of the outputs: logits, or hidden states; by default states on a GPU where the model
            offers them, else logits
    count   rows so far
    """

    def __init__(
        self, model: ConditionalModel, rows: int | None = None, form: OutputForm | None = None
    ) -> None:
        on_gpu = model.device.type == "cuda"
        usual_rows = GPU_ROWS if on_gpu else CPU_ROWS
        usual_form: OutputForm = "states" if on_gpu else "logits"
        self.model = model
        self.rows: int = rows or usual_rows
        self.form: OutputForm = form or usual_form
        self.count: int = 0
        self._offered: dict[int, bool] = {}  # whether the model offers states, by tokens of a text
        self._recorded: dict[tuple[object, ...], Recorded] = {}
        self._pool: list[Any] = []
        self._in_one_call = False

    def outputs(
        self, ids: Int[Tensor, "m T"], positions: Int[Tensor, "m p"]
    ) -> Float[Tensor, "m p W"]:
        """The network's outputs at `positions` of each row: hidden states (W = d) or logits (W
        = V), see `as_states`.
        """
        self.count += len(ids)
        rows = self.rows_of_a_call(tokens=ids.shape[1], predicted=positions.shape[1])
        if not self.as_states(ids):
            logits: Tensor = in_full_calls(self.model.logits_at, rows, ids, positions)
            return logits
        return self._in_calls("states", self.model.states, rows, (ids, positions))

    def as_one_call(
        self, name: Hashable, function: Callable[..., Any], inputs: Sequence[Tensor]
    ) -> Any:
        """`function` of whole tensors with all calls that it makes: on a GPU they are recorded
        and replayed together.

        All shapes must follow from those of the inputs, and rows are not counted.
        """

        def with_its_calls(*values: Tensor) -> Any:
            self._in_one_call = True  # calls within it are not recorded by themselves
            try:
                return function(*values)
            finally:
                self._in_one_call = False

        return self._in_calls(name, with_its_calls, len(inputs[0]), inputs)

    def logits(
        self, ids: Int[Tensor, "m T"], positions: Int[Tensor, "m p"]
    ) -> Float[Tensor, "m p V"]:
        """Logits at `positions` of each row, on the model's device."""
        outputs = self.outputs(ids, positions).flatten(0, 1)
        return self.logits_of(outputs).unflatten(0, positions.shape)

    def alone(self, ids: Int[Tensor, "m T"], positions: Int[Tensor, " m"]) -> Float[Tensor, "m W"]:
        """The output at one position of each text, masked alone."""
        masked = masked_alone(ids, positions, self.model.mask_id)
        return self.outputs(masked, positions.unsqueeze(1))[:, 0]

    def terms(
        self, ids: Int[Tensor, "m T"], positions: Int[Tensor, " m"], energy: Energy
    ) -> tuple[Float[Tensor, " m"], Float[Tensor, "m W"]]:
        """The energy's terms at one position of each text, and the outputs there; one pass each."""
        column = positions.unsqueeze(1)
        tokens = ids.gather(1, column).squeeze(1)
        masked = masked_alone(ids, positions, self.model.mask_id)
        in_one_call = self.as_states(ids) and is_ours(type(energy.kind))
        if not in_one_call:  # own code may do what a GPU cannot record
            outputs = self.outputs(masked, column)[:, 0]
            return energy.term(self.logits_of(outputs), tokens), outputs
        self.count += len(ids)

        def compute(masked: Tensor, column: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
            # The head's logits are used and dropped within the call.
            states = self.model.states(masked, column)[:, 0]
            return energy.term(self.model.logits_of(states), tokens), states

        rows = self.rows_of_a_call(tokens=ids.shape[1], predicted=1)
        both: tuple[Tensor, Tensor] = self._in_calls(
            energy.of_model, compute, rows, (masked, column, tokens)
        )
        return both

    def logits_of(self, outputs: Float[Tensor, "m W"]) -> Float[Tensor, "m V"]:
        """Logits from outputs, which may be logits already."""
        if self._are_logits(outputs):
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
        if current is None:
            current = torch.zeros_like(sites)  # any token
        distributions = Categoricals(
            outputs=outputs,
            temperature=temperature,
            support=target.support,
            sites=sites,
            current=current,
        )
        if self._are_logits(outputs):
            return distributions
        return replace(distributions, logits_of=self.model.logits_of, in_calls=self._through_head)

    def as_states(self, ids: Int[Tensor, "m T"]) -> bool:
        """Whether outputs for texts like these are hidden states."""
        if self.form == "logits":
            return False
        tokens = ids.shape[1]
        is_known = tokens in self._offered
        if not is_known and len(ids) > 0:  # the model is asked with texts, so there must be one
            self._offered[tokens] = self.model.offers_states(ids)
        return self._offered.get(tokens, False)

    def _are_logits(self, outputs: Float[Tensor, "m W"]) -> bool:
        """Whether outputs are logits already, by their width."""
        return outputs.shape[1] == self.model.vocab_size

    def rows_of_a_call(self, tokens: int, predicted: int) -> int:
        """The rows of a call: at most what the model takes at once, since a call that it cuts
        in two has two shapes.

        Powers of two give every thread the same share, so a row's bits do not depend on its place.
        """
        most_of_model = self.model.rows_at_once(tokens, predicted)
        rows = min(self.rows, most_of_model or self.rows)
        if self.model.device.type == "cpu":
            rows_for_length = self.rows * LENGTH_OF_FULL_CALLS // tokens
            rows = min(rows, max(1, rows_for_length))
        return _power_of_two_up_to(rows)

    def _through_head(
        self,
        name: Hashable,
        function: Callable[..., Any],
        inputs: Sequence[Tensor],
        shared: Sequence[Tensor],
    ) -> Any:
        """`function`, which makes logits of hidden states, in calls of a few rows."""
        rows = min(HEAD_ROWS, self.rows_of_a_call(tokens=1, predicted=1))
        return self._in_calls(name, function, rows, inputs, shared)

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

        name   tells functions apart; one that was recorded is replayed for inputs of its shapes
        """
        on_gpu = inputs[0].is_cuda
        has_rows = len(inputs[0]) > 0
        is_recorded = on_gpu and has_rows and not self._in_one_call
        if not is_recorded:

            def of_rows(*part: Tensor) -> Any:
                return function(*part, *shared)

            return in_full_calls(of_rows, rows, *inputs)
        shapes_of_rows = [tuple(value.shape[1:]) for value in inputs]
        shapes_of_shared = [tuple(value.shape) for value in shared]
        key = (name, rows, *shapes_of_rows, *shapes_of_shared)
        if key not in self._recorded:
            self._recorded[key] = Recorded(
                function, rows, examples=inputs, shared=shared, pool=self._pool
            )
        return self._recorded[key](inputs, shared)
