"""A group of chains, run side by side: how it advances sweep by sweep, and goes on from a
snapshot.

The samples of a chain are a function of the settings, the model's weights and the kind of device
alone: not of the chains beside it, nor of where the run was interrupted (see `randomness` and
`passes`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.sampling.chains.samples import SweepRows
from unmask.sampling.chains.snapshot import COUNTS, DeviceSnapshot, OtherTerms, Snapshot
from unmask.sampling.chains.starts import drawn_starts
from unmask.sampling.chains.watching import Watcher
from unmask.sampling.decoders.decoder import DecodeState, decoding
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams, streams_of
from unmask.sampling.kernels.state import ChainState, StepInfo
from unmask.sampling.kernels.sweep import SweepPlan
from unmask.sampling.on_target import DecoderOnTarget, KernelOnTarget
from unmask.sampling.own_steps import kernel_step
from unmask.sampling.settings import SampleSettings
from unmask.sampling.target import Target


@dataclass(frozen=True)
class Group:
    """Chains with one target, run side by side.

    chains   their numbers in the whole run
    starts   the texts they start from, if the user named them; a decoder takes only the tokens
             that it is conditioned on
    """

    chains: list[int]
    target: Target
    starts: Int[Tensor, "n T"] | None


class GroupRun(ABC):
    """The chains or decodings of a group. `begin` puts them at their starts, `restore` where a
    snapshot has them.

    state            the chains, or the latest decodings
    starts           the texts that the chains start from (blank ones, for decoders)
    spent            passes of each chain
    counts           what happened at each site, a row for each of COUNTS
    scoring_passes   passes that the samples' energies took besides
    done             sweeps done
    """

    state: Any

    def __init__(self, settings: SampleSettings, group: Group, passes: Passes) -> None:
        self.settings = settings
        self.group = group
        self.passes = passes
        n = len(group.chains)
        target = group.target
        self.starts: Tensor = target.template_ids.repeat(n, 1)
        self.spent: Tensor = torch.zeros(n, dtype=torch.long, device=target.device)
        self.counts: Tensor = torch.zeros(
            (len(COUNTS), target.sites), dtype=torch.long, device=target.device
        )
        self.streams: ChainStreams = streams_of(settings.seed, group.chains, target.device)
        self.done: int = 0
        self.scoring_passes: int = 0

    def begin(self) -> None:  # noqa: B027
        """Put the chains at their starts; those of decoders are blank, and there already."""

    @abstractmethod
    def steps(self) -> Iterator[Any]:
        """One sweep, step by step. A kernel yields what each step did. A decoder yields its state
        before its first step, and after each step.
        """

    def sweep(self, watcher: Watcher | None = None) -> None:
        """Go on by one sweep; a watcher sees each step."""
        for step in self.steps():
            if watcher is not None:
                watcher.stepped(self, step)

    @abstractmethod
    def scored(self) -> ChainState:
        """The texts now, with the terms of their energy that are known."""

    def texts(self) -> Int[Tensor, "n T"]:
        """The texts now."""
        ids: Tensor = self.state.ids.clone()
        return ids

    def energies(self) -> Float[Tensor, " n"]:
        """Their energies; passes that only this needs are counted apart, as scoring passes."""
        energies, spent = self._energies_and_passes()
        self.scoring_passes += int(spent.sum())
        return energies

    def watched_energies(self) -> Float[Tensor, " n"]:
        """Their energies for a watcher, whose passes are not those of the run: none is counted."""
        energies, _ = self._energies_and_passes()
        return energies

    def _energies_and_passes(self) -> tuple[Float[Tensor, " n"], Int[Tensor, " n"]]:
        """The energies of the texts now, and the passes that only they took."""
        state = self.scored()
        # `complete` computes the terms that are not known. keep=False: the outputs of its passes
        # are not cached.
        spent = state.complete(self.group.target, self.passes, keep=False)
        return state.energy, spent

    def energies_of_samples(self) -> Float[Tensor, " n"] | None:
        """The energies that are kept with the samples; None if none are."""
        return self.energies()

    def log_probs(self) -> Float[Tensor, " n"] | None:
        """The log-probabilities of the texts now, given the order in which they were filled;
        None if they are not tractable.
        """
        return None

    def sample(self) -> SweepRows:
        """The texts now, as samples."""
        return SweepRows(
            sweep=self.done,
            chains=self.group.chains,
            length=self.group.target.sites,
            ids=self.texts().int(),
            energies=self.energies_of_samples(),
            log_probs=self.log_probs(),
            passes=self.spent.clone(),
        )

    def snapshot(self) -> DeviceSnapshot:
        """The arrays from which the group goes on; see `unmask.sampling.chains.snapshot`."""
        return {
            "done": np.array(self.done),
            "chains": np.array(self.group.chains),
            "positions": self.group.target.free_positions,
            "starts": self.starts,
            "spent": self.spent.clone(),
            "counts": self.counts.clone(),
            "scoring_passes": np.array(self.scoring_passes),
            **self.state_snapshot(),
        }

    def state_snapshot(self) -> DeviceSnapshot:
        """The part of a snapshot that only this kind of run has."""
        return {}

    def check(self, snapshot: Snapshot) -> None:
        """Refuse a snapshot of other chains, or one that is damaged."""
        done = int(snapshot["done"])
        sweeps = self.settings.sweeps
        has_other_chains = snapshot["chains"].tolist() != self.group.chains
        is_possible = 1 <= done <= sweeps
        if has_other_chains or not is_possible:
            raise ValueError(
                f"it has {done} of {sweeps} sweeps of {len(snapshot['chains'])} chains"
            )
        # The arrays of this run, before it begins, have the shapes that they have later.
        arrays = {
            "starts": self.starts,
            "spent": self.spent,
            "counts": self.counts,
            **self.state_snapshot(),
        }
        for name, array in arrays.items():
            expected = tuple(array.shape)
            shape = snapshot[name].shape
            if shape != expected:
                raise ValueError(f"its {name!r} has shape {shape}, not {expected}")

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot, token for token as if there had been no interruption."""
        arrays = {
            name: torch.from_numpy(array.copy()).to(self.group.target.device)
            for name, array in snapshot.items()
        }
        self.starts = arrays["starts"]
        self.spent = arrays["spent"]
        self.counts = arrays["counts"]
        self.done = int(snapshot["done"])
        self.scoring_passes = int(snapshot["scoring_passes"])
        self.restore_state(arrays)

    def restore_state(self, arrays: Mapping[str, Tensor]) -> None:  # noqa: B027
        """Restore what `state_snapshot` returned. A decoder begins every sweep with blank texts,
        and needs nothing.
        """


class MarkovRun(GroupRun):
    """A group's chains of a Markov kernel."""

    def __init__(self, settings: SampleSettings, group: Group, kernel: KernelOnTarget) -> None:
        super().__init__(settings, group, kernel.passes)
        self.kernel = kernel
        self.plan: SweepPlan = kernel.plan  # raises if its blocks do not fit the target
        self.state: Any = ChainState.blank(group.target, len(group.chains))

    def begin(self) -> None:
        target = self.group.target
        if self.group.starts is None:
            self.starts, spent_on_starts = drawn_starts(
                self.settings, self.group.chains, target, self.passes
            )
        else:
            self.starts = self.group.starts
            spent_on_starts = torch.zeros_like(self.spent)
        self.state, spent_by_kernel = self.kernel.method.init(self.kernel, self.starts)
        self.spent = spent_on_starts + spent_by_kernel

    def steps(self) -> Iterator[StepInfo]:
        sweep = self.done + 1
        every_chain = self.state.rows
        sites = self.plan.draw(self.streams.of(sweep, step=0), every_chain)
        for number in range(self.plan.steps):
            rng = self.streams.of(sweep, step=number + 1)
            self.state, info = kernel_step(self.kernel, self.state, rng, sites[number])
            self._count(info)
            yield info
        self.done = sweep

    def _count(self, info: StepInfo) -> None:
        """Add a step's passes, and what it did at the sites that it redrew."""
        self.spent += info.passes
        # (n, k) each: n chains, k sites that the step redrew in each of them
        accepted = info.accepted.unsqueeze(1).expand(info.sites.shape)
        redrawn = torch.ones_like(accepted)
        in_order_of_counts = torch.stack([redrawn, accepted, info.proposed, info.changed])
        happened = in_order_of_counts.flatten(1).long()  # (4, n k): 1 where it did, else 0
        redrawn_sites = info.sites.flatten().expand(len(COUNTS), -1)  # (4, n k), rows alike
        self.counts.scatter_add_(1, redrawn_sites, happened)

    def scored(self) -> ChainState:
        # `take` copies: the outputs are left out, which the energy does not need.
        without_outputs = replace(self.state, outputs=None)
        every_chain = self.state.rows
        return without_outputs.take(every_chain)

    def state_snapshot(self) -> DeviceSnapshot:
        return {**self.state.snapshot(), "user": self.group.target.energy.from_user(self.state.ids)}

    def check(self, snapshot: Snapshot) -> None:
        """Refuse other terms of the user, too: a folder knows them by their names alone."""
        super().check(snapshot)
        target = self.group.target
        ids = torch.from_numpy(snapshot["ids"]).to(target.device)
        user = target.energy.from_user(ids).cpu().numpy()
        if not np.allclose(user, snapshot["user"], rtol=1e-4, atol=1e-6):
            raise OtherTerms(
                "user_terms have other values at its texts than those given: give the same"
                " functions to continue it"
            )

    def restore_state(self, arrays: Mapping[str, Tensor]) -> None:
        # A next sweep needs the model's outputs, which no snapshot has: `restored` runs the model
        # for them if it is given `passes`. `restore` has set `done`.
        goes_on = self.done < self.settings.sweeps
        passes = self.passes if goes_on else None
        self.state = ChainState.restored(self.group.target, passes, arrays)


class DecoderRun(GroupRun):
    """A group of independent decodings: a sweep decodes every text of the group again. `starts`
    are blank texts; those of the group have the tokens that the decodings are conditioned on.
    """

    def __init__(self, settings: SampleSettings, group: Group, decoder: DecoderOnTarget) -> None:
        super().__init__(settings, group, decoder.passes)
        self.decoder = decoder
        self.state: Any = DecodeState.blank(group.target, len(group.chains))

    def steps(self) -> Iterator[DecodeState]:
        n = len(self.group.chains)
        rng = self.streams.of(self.done + 1, step=0)
        passes_of_sweep = torch.zeros_like(self.spent)
        # `passes_so_far` are those of the whole sweep so far: only the last ones are added.
        for state, passes_so_far in decoding(self.decoder, n, rng, self.group.starts):
            self.state = state
            passes_of_sweep = passes_so_far
            yield state
        self.spent += passes_of_sweep
        self.done += 1

    def scored(self) -> ChainState:
        return ChainState.at(self.group.target, self.state.ids)

    def energies_of_samples(self) -> None:
        """The law of a decoder has no energy, and energies would take passes."""

    def log_probs(self) -> Float[Tensor, " n"] | None:
        if not self.decoder.exact:
            return None
        log_probs: Tensor = self.state.log_prob.clone()
        return log_probs


def group_run(settings: SampleSettings, group: Group, passes: Passes) -> GroupRun:
    """The run of a group, before it begins; raises for settings that do not fit the target."""
    on_target = settings.kernel.on(group.target, passes)
    if isinstance(on_target, DecoderOnTarget):
        return DecoderRun(settings, group, on_target)
    return MarkovRun(settings, group, on_target)
