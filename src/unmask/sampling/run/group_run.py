"""One group of chains or decodings under way: what both keep, and what a checkpoint of it holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from unmask.errors import InputError
from unmask.sampling.engine.passes import Passes
from unmask.sampling.run.groups import Group
from unmask.sampling.run.starts import independent_texts
from unmask.sampling.settings import SampleSettings

COUNTS = ("steps", "accepted", "proposed", "changed")
"""For each site: redrawn in a step; such steps accepted; proposed another token; holding another token after the step."""

Snapshot = dict[str, NDArray[Any]]
Mark = Mapping[str, Tensor | NDArray[Any]]
"""A snapshot whose arrays are still on the device."""


class GroupRun(ABC):
    """A group's chains or decodings; made at their start, or, from a snapshot, where they were interrupted.

    starts           the texts that the chains start from (blank ones, for decoders)
    independent      one text per chain whose tokens know nothing of each other (see `independent_texts`)
    spent            passes of each chain
    counts           what happened at each site, a row for each of COUNTS
    scoring_passes   passes that the samples' energies and the yardstick took besides
    remembered       passes that were asked for and answered from memory
    done             sweeps done
    """

    starts: Int[Tensor, "n T"]
    spent: Int[Tensor, " n"]

    def __init__(self, settings: SampleSettings, group: Group, passes: Passes, saved: Snapshot | None) -> None:
        self.settings, self.group, self.passes = settings, group, passes
        self.done = self.scoring_passes = self.remembered = 0
        self.counts = torch.zeros((len(COUNTS), group.target.sites), dtype=torch.long, device=group.target.device)
        if saved is not None:
            self.starts, self.spent = self._tensor(saved["starts"]), self._tensor(saved["spent"])
            self.independent, self.counts = self._tensor(saved["independent"]), self._tensor(saved["counts"])
            self.done, self.scoring_passes = int(saved["done"]), int(saved["scoring_passes"])
            self.remembered = int(saved["remembered"])
        else:
            self.scoring_passes = int(group.chains[0] == group.alike[0])
        self._remembered_before = passes.remembered

    @cached_property
    def independent(self) -> Int[Tensor, "n T"]:
        """Drawn when first asked for."""
        return independent_texts(self.settings, self.group)

    @abstractmethod
    def sweep(self) -> None:
        """Go on by one sweep."""

    @abstractmethod
    def texts(self) -> Int[Tensor, "n T"]:
        """The texts now."""

    @abstractmethod
    def energies(self) -> Float[Tensor, " n"]:
        """Their energies; passes that only this needs are counted apart, as scoring passes."""

    @abstractmethod
    def log_probs(self) -> Float[Tensor, " n"] | None:
        """Their log-probabilities, where they are known."""

    def mark(self) -> Mark:
        """All that is needed to go on, as it is now; `on_host` makes a snapshot of it."""
        remembered = self.remembered + self.passes.remembered - self._remembered_before
        return {
            "done": np.array(self.done),
            "chains": np.array(self.group.chains),
            "positions": self.group.target.free_positions,
            "starts": self.starts,
            "independent": self.independent,
            "spent": self.spent.clone(),
            "counts": self.counts.clone(),
            "scoring_passes": np.array(self.scoring_passes),
            "remembered": np.array(remembered),
        }

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array.copy()).to(self.group.target.device)


def on_host(mark: Mark) -> Snapshot:
    """The snapshot of a mark; waits for the device."""
    return {name: value.cpu().numpy() if isinstance(value, Tensor) else value for name, value in mark.items()}


def snapshot_shapes(settings: SampleSettings, group: Group, replicas: int) -> dict[str, tuple[int, ...]]:
    """The arrays that a snapshot of this group has, and their shapes."""
    n, target = len(group.chains), group.target
    common = {
        "done": (),
        "chains": (n,),
        "positions": (target.sites,),
        "starts": (n, len(target.template)),
        "independent": (n, len(target.template)),
        "spent": (n,),
        "counts": (len(COUNTS), target.sites),
        "scoring_passes": (),
        "remembered": (),
    }
    if settings.entry.decodes:
        return common
    rows = n * replicas
    return {
        **common,
        "ids": (rows, len(target.template)),
        "fresh": (rows, target.columns),
        "temperature": (rows,),
        "swaps": (2, replicas - 1),
        "steps": (),
    }


def check_snapshot(saved: Mapping[str, NDArray[Any]], shapes: Mapping[str, tuple[int, ...]], settings: SampleSettings) -> None:
    """Refuse arrays that no run of these settings has left; the message says what is wrong, not where."""
    for name, shape in shapes.items():
        if name not in saved:
            raise InputError(f"it lacks {name!r}")
        if saved[name].shape != shape:
            raise InputError(f"its {name!r} has shape {saved[name].shape}, not {shape}")
        if saved[name].dtype.kind not in ("f" if name == "temperature" else "iub"):
            raise InputError(f"its {name!r} holds no numbers of the right kind")
    if not 0 < int(saved["done"]) <= settings.sweeps:
        raise InputError(f"it has done {int(saved['done'])} of {settings.sweeps} sweeps")
