"""The file that holds a run on its way, from which a resumed run starts."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unmask.common.errors import InputError, UnmaskError, argument_name
from unmask.common.files import first_line, write_atomically
from unmask.models.batching import is_out_of_memory

STEADIER = f"try a lower {argument_name('lr')} or a longer {argument_name('warmup')}"
"""What to do about a run whose numbers are not finite."""


class TrainingError(UnmaskError):
    """A number of the run is NaN or infinite."""


class Checkpoint:
    """The state of a run in a file. Each replaces the one before, whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def in_words(self) -> str:
        """Where the last checkpoint is, for messages."""
        if self.path.is_file():
            return f"the last good checkpoint is {self.path}"
        return "there is no checkpoint yet"

    def save(self, step: int, state: dict[str, Any]) -> None:
        """Write the state after `step` steps, if weights and moments are finite."""
        for name, tensor in _tensors_of(state).items():
            if not tensor.isfinite().all():
                raise TrainingError(
                    f"{name} is not finite after step {step}; {self.in_words}; {STEADIER}"
                )
        buffer = io.BytesIO()
        torch.save({**state, "step": step}, buffer)
        write_atomically(self.path, buffer.getbuffer())

    def restore(
        self, load: Callable[[dict[str, Any]], None], device: torch.device | str = "cpu"
    ) -> int:
        """Pass the state to `load`, which raises if it does not fit.

        Returns the steps done; 0 without a checkpoint.
        """
        if not self.path.is_file():
            return 0
        try:
            state: dict[str, Any] = torch.load(self.path, map_location=device, weights_only=True)
            load(state)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            raise InputError(
                f"checkpoint {str(self.path)!r} is damaged ({first_line(error)}): delete it to"
                f" begin at the first step, or name another {argument_name('out')}"
            ) from None
        return int(state["step"])


def _tensors_of(state: Mapping[str, Any]) -> dict[str, Tensor]:
    """Weights by their names, then moments by the optimiser's names and the parameter's number."""
    tensors = dict(state["model"])
    for optimiser in state.get("optimisers", ()):
        for place, moments in optimiser.get("state", {}).items():
            for name, moment in moments.items():
                tensors[f"{name} of parameter {place}"] = moment
    return tensors
