"""One group of chains of a Markov kernel, sweep by sweep, with everything that a checkpoint needs."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from unmask.sampling.choose_kernel import markov_kernel, sweep_plan
from unmask.sampling.dependence_blocks import template_dependence
from unmask.sampling.kernels.tempering import ParallelTempering
from unmask.sampling.passes import Passes, rows_for
from unmask.sampling.proposal import Proposal
from unmask.sampling.randomness import ChainStreams
from unmask.sampling.settings import SampleSettings
from unmask.sampling.starts import Group, starting_texts
from unmask.sampling.state import ChainState, StepInfo, complete, empty_state, look_up, take

COUNTS = ("steps", "accepted", "proposed", "changed")
"""For each site: redrawn in a step; such steps accepted; proposed another token; holding another token after the step."""

Snapshot = dict[str, NDArray[Any]]


class GroupRun(Protocol):
    """One group of chains or decodings, under way."""

    settings: SampleSettings
    group: Group
    starts: Int[Tensor, "n T"]
    spent: Int[Tensor, " n"]
    counts: Int[Tensor, "4 F"]
    scoring_passes: int
    done: int

    def begin(self) -> None:
        """Go to the start."""
        ...

    def sweep(self) -> None:
        """Go on by one sweep."""
        ...

    def texts(self) -> Int[Tensor, "n T"]:
        """The texts now."""
        ...

    def energies(self) -> Float[Tensor, " n"]:
        """Their energies."""
        ...

    def log_probs(self) -> list[float | None]:
        """Their log-probabilities, where they are known."""
        ...

    def snapshot(self) -> Snapshot:
        """All that is needed to go on."""
        ...

    def restore(self, saved: Snapshot) -> None:
        """Go on from a snapshot."""
        ...


def common_snapshot(run: GroupRun) -> Snapshot:
    """What every group keeps, and what `load_run` reads."""
    target = run.group.target
    return {
        "done": np.array(run.done),
        "chains": np.array(run.group.chains),
        "positions": target.free_positions.numpy().copy(),
        "starts": run.starts.numpy().copy(),
        "spent": run.spent.numpy().copy(),
        "counts": run.counts.numpy().copy(),
        "scoring_passes": np.array(run.scoring_passes),
    }


def restore_common(run: GroupRun, saved: Snapshot) -> None:
    """The other way round."""
    run.starts, run.spent = torch.from_numpy(saved["starts"]), torch.from_numpy(saved["spent"])
    run.counts = torch.from_numpy(saved["counts"])
    run.scoring_passes, run.done = int(saved["scoring_passes"]), int(saved["done"])


class MarkovRun:
    """A group's chains: `sweep` moves them on, `snapshot` and `restore` carry them over an interruption."""

    def __init__(self, settings: SampleSettings, group: Group, proposal: Proposal) -> None:
        self.settings, self.group, self.proposal = settings, group, proposal
        self.passes = Passes(group.target.model, rows_for(group.target.model, settings.chains))
        self.kernel = markov_kernel(settings, group.target, self.passes, proposal)
        self.plan = sweep_plan(settings, group.target)
        self.replicas = len(settings.ladder) if isinstance(self.kernel, ParallelTempering) else 1
        rows = [chain * self.replicas + replica for chain in group.chains for replica in range(self.replicas)]
        self.streams = ChainStreams(settings.seed, rows)
        self.counts = torch.zeros((len(COUNTS), group.target.sites), dtype=torch.long)
        self.swaps = torch.zeros((2, self.replicas - 1), dtype=torch.long)
        self.scoring_passes = 0
        self.done = 0
        self.dependence: Float[Tensor, "F F"] | None = None

    def begin(self) -> None:
        """Put the chains at their starts. Passes for the dependence of the sites are shared out among all chains that use it."""
        self.starts, spent = starting_texts(self.settings, self.group, self.passes, self.proposal)
        self.state, started = self.kernel.init(self.starts)
        self.spent = spent + started.reshape(-1, self.replicas).sum(1)
        if self.settings.measures_dependence:
            measured = template_dependence(self.group.target, self.settings.candidates, self.settings.construction)
            self._choose_blocks_by(measured.information)
            place = torch.tensor([self.group.alike.index(chain) for chain in self.group.chains])
            each, left = divmod(measured.passes, len(self.group.alike))
            self.spent += each + (place < left)

    def sweep(self) -> None:
        """One sweep of every chain."""
        number = self.done + 1
        sites = self.plan.draw(self.streams.at(number, 0), len(self.state.ids))
        state: ChainState = self.state
        for step in range(self.plan.steps):
            sampled = self._sampled(state)
            state, info = self.kernel.step(state, self.streams.at(number, step + 1), sites[step])
            self._count(info, sampled)
        self.state, self.done = state, number

    def texts(self) -> Int[Tensor, "n T"]:
        """The chains' texts now."""
        return self.state.ids[self._sampled(self.state)]

    def energies(self) -> Float[Tensor, " n"]:
        """The chains' energies now; terms that the kernel did not need cost passes that are counted apart."""
        state = take(self.state, self._sampled(self.state))
        state, spent = complete(self.group.target, self.passes, state)
        self.scoring_passes += int(spent.sum())
        return state.energy

    def log_probs(self) -> list[float | None]:
        """A chain's states have no known log-probability."""
        return [None] * len(self.group.chains)

    def snapshot(self) -> Snapshot:
        """All that the run needs to go on, but the tables, which are computed again."""
        measured = {} if self.dependence is None else {"dependence": self.dependence.numpy().copy()}
        return {
            **common_snapshot(self),
            **measured,
            "swaps": self.swaps.numpy().copy(),
            "ids": self.state.ids.numpy().copy(),
            "fresh": self.state.fresh.numpy().copy(),
            "temperature": self.state.temperature.numpy().copy(),
            "steps": np.array(self.state.steps),
        }

    def restore(self, saved: Snapshot) -> None:
        """Go on from a snapshot: the chains are the same, token for token, as if there had been no interruption."""
        restore_common(self, saved)
        self.swaps = torch.from_numpy(saved["swaps"])
        state = empty_state(self.group.target, torch.from_numpy(saved["ids"]), torch.from_numpy(saved["temperature"]))
        if self.done < self.settings.sweeps:
            rows, columns = torch.from_numpy(saved["fresh"]).nonzero(as_tuple=True)
            look_up(self.group.target, self.passes, state, rows, columns)
        self.state = state._replace(steps=int(saved["steps"]))
        if "dependence" in saved:
            self._choose_blocks_by(torch.from_numpy(saved["dependence"]))

    def _choose_blocks_by(self, dependence: Float[Tensor, "F F"]) -> None:
        self.dependence = dependence
        self.plan = sweep_plan(self.settings, self.group.target, dependence)

    def _sampled(self, state: ChainState) -> Int[Tensor, " n"]:
        """The rows that are samples; the others are replicas at higher temperatures."""
        if isinstance(self.kernel, ParallelTempering):
            return self.kernel.sampled(state)
        return torch.arange(len(state.ids))

    def _count(self, info: StepInfo, sampled: Int[Tensor, " n"]) -> None:
        self.spent += info.passes.reshape(-1, self.replicas).sum(1)
        if info.swaps is not None:
            self.swaps += info.swaps
        sites = info.sites[sampled]
        took = info.accepted[sampled].unsqueeze(1).expand(sites.shape)
        for row, happened in enumerate((torch.ones_like(took), took, info.proposed[sampled], info.changed[sampled])):
            self.counts[row] += torch.bincount(sites[happened], minlength=self.counts.shape[1])
