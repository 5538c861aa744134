"""How a run advances: groups of chains or decodings, sweep by sweep, with burn-in, thinning, checkpoints, and resumption.

The samples are a function of the settings, the model's weights and the kind of device alone: not of how many chains run
side by side, nor of where the run was interrupted (see `randomness` and `passes`).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from unmask.checks import memory as budget_of
from unmask.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.runs.files import write_table
from unmask.runs.progress import Progress
from unmask.sampling.decoders.decoder import Decoder, DecodeState, decode
from unmask.sampling.energy import UserTerm
from unmask.sampling.engine.memory import LogitMemory, MemoryPlan, available_bytes
from unmask.sampling.engine.passes import Passes, rows_for
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.engine.token_draw import Proposal
from unmask.sampling.kernels.kernel import ChainState, Kernel, StepInfo, SweepPlan
from unmask.sampling.run.groups import Group, groups, independent_texts, refuse_too_many_at_once, starting_texts
from unmask.sampling.run.keeper import Keeper
from unmask.sampling.run.result import (
    COUNTS,
    SampleFolder,
    SampleRun,
    Snapshot,
    SweepRows,
    Write,
    as_frame,
    assemble,
    on_host,
    sample_columns,
    table_of,
    writing_aside,
)
from unmask.sampling.run.resuming import refuse_other_terms, stored_plan
from unmask.sampling.settings import SampleSettings
from unmask.sampling.target import Target

if TYPE_CHECKING:
    from unmask.sampling.run.sharing import SharedChains

SECONDS_BETWEEN_CHECKPOINTS = 20.0
STREAM = "philox4x32-10"
"""The definition of the random numbers; a run of another one is not continued."""


class GroupRun(ABC):
    """A group's chains or decodings: `begin` puts them at their start, `restore` where a snapshot has them.

    starts           the texts that the chains start from (blank ones, for decoders)
    spent            passes of each chain
    counts           what happened at each site, a row for each of COUNTS
    scoring_passes   passes that the samples' energies and the yardstick took besides
    remembered       passes that were asked for and answered from memory
    done             sweeps done
    """

    def __init__(self, settings: SampleSettings, group: Group, passes: Passes) -> None:
        self.settings, self.group, self.passes = settings, group, passes
        n, target = len(group.chains), group.target
        self.starts = target.template_ids.repeat(n, 1)
        self.spent = torch.zeros(n, dtype=torch.long, device=target.device)
        self.counts = torch.zeros((len(COUNTS), target.sites), dtype=torch.long, device=target.device)
        self.done = self.remembered = 0
        self.scoring_passes = int(group.chains[0] == group.alike[0])  # of `independent`, once per target
        self._remembered_before = passes.remembered

    @cached_property
    def independent(self) -> Int[Tensor, "n T"]:
        """One text per chain whose tokens do not depend on each other; drawn when first asked for."""
        return independent_texts(self.settings, self.group)

    @cached_property
    def user_independent(self) -> Float[Tensor, " n"]:
        """The user's terms of these texts, by which a run that goes on knows them again."""
        return self.group.target.energy.from_user(self.independent)

    def begin(self) -> None:  # noqa: B027
        """Put the chains at their starts; those of decoders are blank, and there already."""

    @abstractmethod
    def sweep(self) -> None:
        """Go on by one sweep."""

    @abstractmethod
    def texts(self) -> Int[Tensor, "n T"]:
        """The texts now."""

    @abstractmethod
    def energies(self) -> Float[Tensor, " n"]:
        """Their energies; passes that only this needs are counted apart, as scoring passes."""

    def log_probs(self) -> Float[Tensor, " n"] | None:
        """Their log-probabilities, where they are known; a chain's states have none."""
        return None

    def mark(self, independent: Int[Tensor, "n T"] | None = None) -> dict[str, Tensor | NDArray[Any]]:
        """All that is needed to go on, as it is now; `on_host` makes a snapshot of it.

        `independent`: texts of the same shape instead of those that take a pass.
        """
        user = {}
        if self.group.target.energy.user_terms:
            user["user_independent"] = self.user_independent if independent is None else torch.zeros(len(independent)).double()
        return {
            "done": np.array(self.done),
            "chains": np.array(self.group.chains),
            "positions": self.group.target.free_positions,
            "starts": self.starts,
            "independent": self.independent if independent is None else independent,
            "spent": self.spent.clone(),
            "counts": self.counts.clone(),
            "scoring_passes": np.array(self.scoring_passes),
            "remembered": np.array(self.remembered + self.passes.remembered - self._remembered_before),
            **user,
        }

    def restore(self, saved: Snapshot) -> Mapping[str, Tensor]:
        """Go on from a snapshot, token for token as if there had been no interruption; returns its arrays, on the device."""
        arrays = {name: torch.from_numpy(array.copy()).to(self.group.target.device) for name, array in saved.items()}
        self.starts, self.spent = arrays["starts"], arrays["spent"]
        self.independent, self.counts = arrays["independent"], arrays["counts"]
        self.done, self.scoring_passes = int(saved["done"]), int(saved["scoring_passes"])
        self.remembered = int(saved["remembered"])
        return arrays

    def sample(self) -> SweepRows:
        """The texts now, as samples."""
        log_probs = self.log_probs()
        return SweepRows(
            self.done,
            self.group.chains,
            self.group.target.sites,
            self.texts().int(),
            self.energies(),
            None if log_probs is None else log_probs.clone(),
            self.spent.clone(),
        )


class MarkovRun(GroupRun):
    """A group's chains of a Markov kernel."""

    def __init__(self, settings: SampleSettings, group: Group, kernel: Kernel) -> None:
        super().__init__(settings, group, kernel.passes)
        self.kernel = kernel
        rows = [chain * settings.replicas + replica for chain in group.chains for replica in range(settings.replicas)]
        self.streams = ChainStreams(settings.seed, rows, group.target.device)
        self.swaps = torch.zeros((2, settings.replicas - 1), dtype=torch.long, device=group.target.device)
        self.plan = sweep_plan(settings, group.target.sites)
        self.state = ChainState.blank(group.target, len(rows))

    def begin(self) -> None:
        self.starts, spent = starting_texts(self.settings, self.group, self.passes, self.kernel.proposal)
        self.state, started = self.kernel.init(self.starts)
        self.spent = spent + started.reshape(-1, self.settings.replicas).sum(1)

    def mark(self, independent: Int[Tensor, "n T"] | None = None) -> dict[str, Tensor | NDArray[Any]]:
        user = {"user_now": self.state.user.clone()} if self.group.target.energy.user_terms else {}
        return {**super().mark(independent), **self.state.snapshot(), **user, "swaps": self.swaps.clone()}

    def restore(self, saved: Snapshot) -> Mapping[str, Tensor]:
        arrays = super().restore(saved)
        self.swaps = arrays["swaps"]
        going_on = self.done < self.settings.sweeps
        self.state = ChainState.restored(self.group.target, self.passes if going_on else None, arrays)
        return arrays

    def sweep(self) -> None:
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
        return self.state.ids[self.kernel.sampled(self.state)]

    def energies(self) -> Float[Tensor, " n"]:
        """The chains' energies now; terms that the kernel did not need cost scoring passes."""
        state = replace(self.state, kept=None).take(self.kernel.sampled(self.state))
        self.scoring_passes += int(state.complete(self.group.target, self.passes, keep=False).sum())
        return state.energy

    def _count(self, info: StepInfo, sampled: Int[Tensor, " n"]) -> None:
        self.spent += info.passes.reshape(-1, self.settings.replicas).sum(1)
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
            f"give more blanks, or kernel {SampleSettings.kernel}"
        )
    return SweepPlan(sites, settings.scan, settings.sites_per_step, settings.block_shape)


class DecoderRun(GroupRun):
    """A group of independent decodings: a sweep decodes every text of the group again. Its starts are blank."""

    def __init__(self, settings: SampleSettings, group: Group, decoder: Decoder) -> None:
        super().__init__(settings, group, decoder.passes)
        self.decoder = decoder
        self.streams = ChainStreams(settings.seed, group.chains, group.target.device)
        self.state = DecodeState.blank(group.target, len(group.chains))

    def sweep(self) -> None:
        self.state, spent = decode(self.decoder, len(self.group.chains), self.streams.at(self.done + 1, 0), self.group.starts)
        self.spent += spent
        self.done += 1

    def texts(self) -> Int[Tensor, "n T"]:
        return self.state.ids

    def energies(self) -> Float[Tensor, " n"]:
        """The latest texts' energies; all of their passes are scoring passes."""
        if bool(self.group.target.energy.from_user(self.state.ids).isinf().any()):
            raise InputError(
                f"kernel {self.settings.kernel} drew a text that is forbidden by a user term, which decoders do not use: take a "
                f"Markov kernel such as {SampleSettings.kernel}, or return finite numbers"
            )
        state = ChainState.at(self.group.target, self.state.ids)
        self.scoring_passes += int(state.complete(self.group.target, self.passes, keep=False).sum())
        return state.energy

    def log_probs(self) -> Float[Tensor, " n"] | None:
        """Exact given the order, where the decoder has a tractable probability."""
        return self.state.log_prob if self.decoder.exact else None


def build(settings: SampleSettings, target: Target, passes: Passes) -> Kernel | Decoder:
    """The kernel or decoder of the settings, which are checked against the target."""
    if not settings.entry.decodes:
        sweep_plan(settings, target.sites)
    proposal = Proposal(settings.proposal_temperature, settings.top_k, settings.nucleus)
    made: Kernel | Decoder = settings.entry.build(target=target, passes=passes, proposal=proposal, **vars(settings))
    return made


def build_all(settings: SampleSettings, model: MaskedLM, found: Sequence[Group], plan: MemoryPlan) -> list[Kernel | Decoder]:
    """The kernel or decoder of each group. Groups whose calls have the same number of rows share their passes."""
    caches = model.device.type == "cpu" and plan.keeps == "logits"  # a GPU runs a row sooner than it is looked up
    memory = LogitMemory(model, most_bytes=plan.budget // 4) if caches else None
    rows = [rows_for(model, len(group.alike), settings.entry.decodes) for group in found]
    by_rows = {number: Passes(model, number, memory, plan.keeps) for number in rows}
    return [build(settings, group.target, by_rows[number]) for group, number in zip(found, rows, strict=True)]


def group_run(settings: SampleSettings, group: Group, made: Kernel | Decoder) -> GroupRun:
    """The run of a group, before it begins."""
    return MarkovRun(settings, group, made) if isinstance(made, Kernel) else DecoderRun(settings, group, made)


def memory_budget(memory: int | float | str | None, model: MaskedLM) -> int | None:
    """Bytes, where the user gave a budget."""
    return None if memory is None else budget_of("memory", memory, available_bytes(model.device))


def draw_samples(
    settings: SampleSettings,
    model: MaskedLM,
    out: str | os.PathLike[str] | None = None,
    *,
    name: str = "in memory",
    chains_at_once: int | None = None,
    memory: int | float | str | None = None,
    user_terms: Sequence[UserTerm] = (),
    progress: Progress | None = None,
    seconds_between_checkpoints: float = SECONDS_BETWEEN_CHECKPOINTS,
    shared: SharedChains | None = None,
) -> SampleRun:
    """Draw samples; with a folder `out`, keep them there and go on where an earlier run of the same settings stopped.

    name     of the model, for the record: another name of the same weights continues the run
    shared   the workers that advance the chains, instead of this process
    """
    with nullcontext() if shared is None else shared.engine:
        budget = memory_budget(memory, model)
        begun = planned = stored_plan(out, settings, model)
        if shared is not None and (begun is None or chains_at_once is not None):
            planned = shared.plan()
        at_once = chains_at_once if planned is None or (shared is None and chains_at_once is not None) else planned.sizes
        found, plan = groups(settings, model, at_once, user_terms, budget, planned.keeps if planned else None)
        if begun is not None and shared is None:
            for group in found:
                refuse_too_many_at_once(settings, group.target, len(group.chains), plan.keeps, begun=True)
        made = build_all(settings, model, found, plan)  # so that everything is checked before anything is written
        done = [0] * len(found)

        def report(number: int, sweeps: int) -> None:
            done[number] = sweeps
            if progress:
                progress(sum(done), len(found) * settings.sweeps, "sweeps")

        def advance(folder: SampleFolder | None = None, write: Write | None = None) -> list[Keeper]:
            keepers = []
            for number, group in enumerate(found):
                run = group_run(settings, group, made[number])
                saved = folder.checkpoint(number, run.mark(run.starts)) if folder else None
                if folder and saved is not None:
                    refuse_other_terms(folder.path, group.target, saved)
                keepers.append(Keeper(number, settings.sweeps, write, seconds_between_checkpoints, saved))
                if shared is None:
                    with folder.restoring(number) if folder and saved is not None else nullcontext():
                        run.begin() if saved is None else run.restore(saved)
                    advance_group(run, keepers[-1], partial(report, number))
                elif saved is not None:
                    report(number, keepers[-1].done)
            if shared is not None and planned is not None:
                shared.advance(planned, keepers, report)
            return keepers

        if out is None:
            keepers = advance()
            rows = as_frame(table_of([row for keeper in keepers for row in keeper.rows], model))
            return assemble(settings, rows, _snapshots(keepers), model.text, memory=str(plan))
        about = {
            "user_terms": [getattr(term, "__qualname__", repr(term)) for term in user_terms],
            "model": name,
            "dtype": str(model.dtype).removeprefix("torch."),
            "device": model.device.type if shared is None else shared.device,
            "stream": STREAM,
            "keeps": plan.keeps,
            "chains_at_once": [len(group.chains) for group in found],
        }
        with SampleFolder(out, settings, model.fingerprint, about) as folder:
            with writing_aside(folder, model) as write:
                keepers = advance(folder, write)
            rows = as_frame(folder.rows(sample_columns()))
            run = assemble(settings, rows, _snapshots(keepers), model.text, folder.path, str(plan))
            for file, frame in (("starts", run.starts), ("rates", run.rates), ("samples", run.samples)):
                write_table(folder.path / f"{file}.parquet", frame)
        return run


def _snapshots(keepers: Sequence[Keeper]) -> list[Snapshot]:
    return [on_host(keeper.mark) for keeper in keepers if keeper.mark is not None]


def advance_group(run: GroupRun, keeper: Keeper, report: Callable[[int], None]) -> None:
    """All sweeps of one group that has begun; an interrupt leaves a checkpoint of the last whole sweep."""
    try:
        while run.done < run.settings.sweeps:
            run.sweep()
            keeper.add([run.sample()] if run.settings.keeps(run.done) else [], run.mark())
            report(run.done)
    except KeyboardInterrupt:
        keeper.flush()
        raise
