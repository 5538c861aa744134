"""One group of chains of a Markov kernel, sweep by sweep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.errors import InputError
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.kernels.kernel import ChainState, Kernel, StepInfo
from unmask.sampling.kernels.proposal import Proposal
from unmask.sampling.kernels.scan import SweepPlan
from unmask.sampling.run.group_run import COUNTS, GroupRun, Mark, Snapshot
from unmask.sampling.run.groups import Group
from unmask.sampling.run.starts import starting_texts
from unmask.sampling.settings import SampleSettings


class MarkovRun(GroupRun):
    """A group's chains; with a snapshot they go on, token for token, as if there had been no interruption."""

    def __init__(
        self,
        settings: SampleSettings,
        group: Group,
        passes: Passes,
        kernel: Kernel,
        proposal: Proposal,
        saved: Snapshot | None = None,
    ) -> None:
        super().__init__(settings, group, passes, saved)
        self.kernel = kernel
        rows = [chain * kernel.replicas + replica for chain in group.chains for replica in range(kernel.replicas)]
        self.streams = ChainStreams(settings.seed, rows, group.target.device)
        self.swaps = torch.zeros((2, kernel.replicas - 1), dtype=torch.long, device=group.target.device)
        if saved is None:
            self._begin(proposal)
        else:
            self._restore(saved)
        self.plan = sweep_plan(settings, group.target.sites)

    def _begin(self, proposal: Proposal) -> None:
        """Put the chains at their starts."""
        self.starts, spent = starting_texts(self.settings, self.group, self.passes, proposal)
        self.state, started = self.kernel.init(self.starts)
        self.spent = spent + started.reshape(-1, self.kernel.replicas).sum(1)

    def _restore(self, saved: Snapshot) -> None:
        """The conditionals are computed again, but for a run that is done."""
        target = self.group.target
        self.swaps = self._tensor(saved["swaps"])
        self.state = ChainState.at(target, self._tensor(saved["ids"]), self._tensor(saved["temperature"]))
        self.state.steps = int(saved["steps"])
        if self.done < self.settings.sweeps:
            rows, columns = self._tensor(saved["fresh"]).nonzero(as_tuple=True)
            self.state.look_up(target, self.passes, rows, columns)

    def sweep(self) -> None:
        """One sweep of every chain."""
        for _ in self.steps():
            pass

    def steps(self) -> Iterator[StepInfo]:
        """One sweep of every chain, and what each of its steps did as it happens."""
        number = self.done + 1
        sites = self.plan.draw(self.streams.at(number, 0), self.state.rows)
        for step in range(self.plan.steps):
            sampled = self.kernel.sampled(self.state)
            info = self.kernel.step(self.state, self.streams.at(number, step + 1), sites[step])
            self._count(info, sampled)
            yield info
        self.done = number

    def texts(self) -> Int[Tensor, "n T"]:
        """The chains' texts now."""
        return self.state.ids[self.kernel.sampled(self.state)]

    def energies(self) -> Float[Tensor, " n"]:
        """The chains' energies now; terms that the kernel did not need cost scoring passes."""
        state = replace(self.state, kept=None).take(self.kernel.sampled(self.state))
        self.scoring_passes += int(state.complete(self.group.target, self.passes, keep=False).sum())
        return state.energy

    def log_probs(self) -> None:
        """A chain's states have no known log-probability."""

    def mark(self) -> Mark:
        """All that the chains need to go on, but the conditionals, which are computed again."""
        return {
            **super().mark(),
            "swaps": self.swaps.clone(),
            "ids": self.state.ids.clone(),
            "fresh": self.state.fresh.clone(),
            "temperature": self.state.temperature.clone(),
            "steps": np.array(self.state.steps),
        }

    def _count(self, info: StepInfo, sampled: Int[Tensor, " n"]) -> None:
        self.spent += info.passes.reshape(-1, self.kernel.replicas).sum(1)
        if info.swaps is not None:
            self.swaps += info.swaps
        sites = info.sites[sampled]
        took = info.accepted[sampled].unsqueeze(1).expand(sites.shape)
        happened = torch.stack([torch.ones_like(took), took, info.proposed[sampled], info.changed[sampled]])
        self.counts.scatter_add_(1, sites.flatten().expand(len(COUNTS), -1), happened.flatten(1).long())


def sweep_plan(settings: SampleSettings, sites: int) -> SweepPlan:
    """Which sites a sweep redraws."""
    if settings.entry.sites is not None and settings.entry.sites > sites:
        raise InputError(
            f"kernel {settings.kernel} redraws {settings.entry.sites} positions at once, and the text has {sites} free: "
            "give more blanks, or kernel mh"
        )
    return SweepPlan(sites, settings.scan, settings.sites_per_step, settings.block_shape)
