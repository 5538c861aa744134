"""Chains with one target run side by side: where they start, how they advance sweep by sweep,
and how a run is resumed.

The samples are a function of the settings, the model's weights and the kind of device alone:
not of how many chains run side by side, nor of where the run was interrupted (see `randomness`
and `passes`). So workers of a Ray cluster can advance the groups, a few sweeps at a time: an
answer has the samples of these sweeps and where the chains are then, so that a dead worker
loses a few sweeps, and this process keeps what comes as that of a run without Ray.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from inspect import unwrap
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from unmask.common.errors import InputError, UnmaskError
from unmask.common.files import user_path, write_table
from unmask.models.first_look import look_at_first
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.alphabet import alphabet_ids
from unmask.runs.engine import Workers, each
from unmask.runs.folder import on_a_thread, refuse_foreign
from unmask.runs.progress import Progress
from unmask.sampling import registry
from unmask.sampling.decoders.decoder import Ancestral, Decoder, DecodeState, decode, decoding
from unmask.sampling.engine.passes import (
    GIGABYTE,
    GPU_WORKER_BYTES,
    Passes,
    chains_that_fit,
    free_bytes,
    output_form,
    rows_for,
)
from unmask.sampling.engine.randomness import ChainStreams, Randomness
from unmask.sampling.kernels.kernel import ChainState, Kernel, StepInfo
from unmask.sampling.run.result import (
    COUNTS,
    KIND,
    Mark,
    OtherTerms,
    SampleFolder,
    SampleRun,
    Snapshot,
    SweepRows,
    assemble,
    on_host,
    sample_columns,
    table_of,
)
from unmask.sampling.settings import SampleSettings
from unmask.sampling.target import Energy, Target, blank_template

SECONDS_BETWEEN_CHECKPOINTS = 20.0
STREAM = "philox4x32-10"
"""The definition of the random numbers; a run of another one is not continued."""
PIECES = 20  # Answers of a worker about a group, at most
ROW_BYTES, TOKEN_BYTES = 300, 12  # Bytes of a sample, and of each of its tokens, about


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


def group_runs(
    settings: SampleSettings,
    model: MaskedLM,
    chains_at_once: int | Sequence[int] | None = None,
    energy: Energy | None = None,
    form: registry.OutputForm | None = None,
    workers: Workers | None = None,
) -> list[GroupRun]:
    """All chains, by target; at most `chains_at_once` side by side, by default as many as the
    memory holds.

    A list has the number of chains of each group, as an earlier run of the same settings had
    them. With `form`, outputs have that form, and the model is not run. `workers` get a group
    each, if memory holds it. Groups whose calls have the same number of rows share their
    passes.
    """
    texts = settings.start.init
    starts = [torch.tensor(model.words.encode(text)) for text in texts]
    if settings.template is not None:
        templates = [tuple(model.cloze(settings.template).ids)]
    elif starts:
        templates = [_blanked(ids, model, text) for ids, text in zip(starts, texts, strict=True)]
    else:
        templates = [blank_template(model, length) for length in settings.length]
    if form is None:
        look_at_first(model, [ids.tolist() for ids in starts] or templates)
    by_template: dict[tuple[int, ...], list[int]] = {}
    for chain in range(settings.chains):
        by_template.setdefault(templates[chain % len(templates)], []).append(chain)
    _refuse_too_many_samples(settings, max(map(len, templates)))
    energy = energy or Energy(settings.energy)
    targets = [
        Target(model, template, energy, _allowed(settings, model, template))
        for template in by_template
    ]
    device = model.device.type if workers is None else workers.device
    form = form or output_form(
        model,
        max(targets, key=lambda target: len(target.template)).template_ids.unsqueeze(0),
        device,
    )
    budget = GPU_WORKER_BYTES if workers is not None and device == "cuda" else None
    sizes = iter(chains_at_once if isinstance(chains_at_once, Sequence) else ())
    runs, by_rows = [], dict[int, Passes]()
    for target, chains in zip(targets, by_template.values(), strict=True):
        rows = rows_for(model, len(chains), settings.kernel.decodes)
        passes = by_rows.setdefault(rows, Passes(model, rows, form))
        stacked = _stacked([starts[c % len(starts)] for c in chains], target) if starts else None
        fitting = chains_that_fit(settings.kernel, target, form, budget)
        fitting = fitting if workers is None else min(fitting, -(-settings.chains // workers.count))
        usual = chains_at_once if isinstance(chains_at_once, int) else fitting
        first = 0
        while first < len(chains):
            part = slice(first, first + next(sizes, usual))
            runs.append(
                group_run(
                    settings,
                    Group(chains[part], target, None if stacked is None else stacked[part]),
                    passes,
                )
            )
            first = part.stop
    return runs


def _allowed(
    settings: SampleSettings, model: MaskedLM, template: Sequence[int]
) -> dict[int, list[int]]:
    """The token ids that are allowed at each restricted position: those of the alphabet, and of
    `allow` there.
    """
    allowed: dict[int, list[int]] = {}
    for position, tokens in (settings.start.allow or {}).items():
        allowed[position] = list(alphabet_ids(model.words, tokens, f"allow at position {position}"))
    if settings.start.alphabet:
        everywhere = alphabet_ids(model.words, settings.start.alphabet)
        blank = {
            position: everywhere
            for position, token in enumerate(template)
            if token == model.mask_id
        }
        allowed = blank | {
            position: [i for i in ids if i in set(everywhere)] for position, ids in allowed.items()
        }
    return allowed


def _blanked(ids: Int[Tensor, " T"], model: MaskedLM, text: str) -> tuple[int, ...]:
    """The text with every token that is not special blanked out."""
    if model.mask_id in ids.tolist():
        raise InputError(
            f"the start {text!r} has a blank: give whole texts as starts, and a template for blanks"
        )
    template = blank_template(model, sum(i not in model.special_ids for i in ids.tolist()) or 1)
    if len(template) != len(ids):
        raise InputError(
            f"the start {text!r} has a special token, or one that the model does not know:"
            " reword it"
        )
    return template


def _stacked(ids: Sequence[Int[Tensor, " _"]], target: Target) -> Int[Tensor, "n T"]:
    if any(len(row) != len(target.template) for row in ids):
        raise InputError(
            "a start has another number of tokens than the template: give starts that fit the"
            " template"
        )
    starts = torch.stack(list(ids)).to(target.device)
    target.check(starts)
    return starts


def _refuse_too_many_samples(settings: SampleSettings, tokens: int) -> None:
    """Before anything is allocated: the samples are held in memory when the run is done."""
    samples = settings.kept_after(settings.sweeps)
    each = samples * (ROW_BYTES + TOKEN_BYTES * tokens)
    free = free_bytes(torch.device("cpu"))
    if settings.chains * each > free:
        raise InputError(
            f"{settings.chains:,} chains of {samples:,} samples need about"
            f" {settings.chains * each / GIGABYTE:,.0f} GB, and {free / GIGABYTE:.1f} GB are free:"
            f" give {free // each:,} chains or fewer, or thin more"
        )


def starting_texts(
    settings: SampleSettings, group: Group, passes: Passes
) -> tuple[Int[Tensor, "n T"], Int[Tensor, " n"]]:
    """The texts that a group's chains start from, and the passes they took.

    Blanks are filled one by one in a random order of each chain's own (ancestral sampling): F
    passes per chain.
    """
    n, target, kernel = len(group.chains), group.target, settings.kernel
    no_passes = torch.zeros(n, dtype=torch.long, device=target.device)
    if group.starts is not None:
        return group.starts, no_passes
    rng = ChainStreams(settings.seed, group.chains, target.device).at(0, 0)
    if settings.start.random_start:
        return random_texts(target, n, rng), no_passes
    assert isinstance(kernel, registry.Proposing)
    options = registry.Ancestral(proposal_temperature=kernel.proposal_temperature)
    state, spent = decode(Ancestral(target, passes, options), n, rng)
    return state.ids, spent


def random_texts(target: Target, n: int, rng: Randomness) -> Int[Tensor, "n T"]:
    """n texts whose free tokens are uniform over those allowed."""
    ids, log_weights = (
        target.template_ids.repeat(n, 1),
        torch.where(target.support, 0.0, -torch.inf).double(),
    )
    rows = torch.arange(n, device=target.device)
    for site, position in enumerate(target.free_positions.tolist()):
        ids[:, position] = rng.categorical(rows, log_weights[site].expand(n, -1))
    return ids


class GroupRun(ABC):
    """A group's chains or decodings: `begin` puts them at their start, `restore` where a
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
        self.settings, self.group, self.passes = settings, group, passes
        n, target = len(group.chains), group.target
        self.starts = target.template_ids.repeat(n, 1)
        self.spent = torch.zeros(n, dtype=torch.long, device=target.device)
        self.counts = torch.zeros(
            (len(COUNTS), target.sites), dtype=torch.long, device=target.device
        )
        self.streams = ChainStreams(settings.seed, group.chains, target.device)
        self.done = self.scoring_passes = 0

    def begin(self) -> None:  # noqa: B027
        """Put the chains at their starts; those of decoders are blank, and there already."""

    @abstractmethod
    def steps(self) -> Iterator[Any]:
        """One sweep, step by step: what each step of a kernel did, or the state of a decoder at
        its beginning and after each.
        """

    def sweep(self) -> None:
        """Go on by one sweep."""
        for _ in self.steps():
            pass

    @abstractmethod
    def scored(self) -> ChainState:
        """The texts now, with the terms of their energy that are known."""

    def texts(self) -> Int[Tensor, "n T"]:
        """The texts now."""
        ids: Tensor = self.state.ids.clone()
        return ids

    def energies(self) -> Float[Tensor, " n"]:
        """Their energies; passes that only this needs are counted apart, as scoring passes."""
        state = self.scored()
        self.scoring_passes += int(state.complete(self.group.target, self.passes, keep=False).sum())
        return state.energy

    def mark(self) -> dict[str, Tensor | NDArray[Any]]:
        """The arrays from which the run can go on, still on the device; `on_host` makes a
        snapshot of them.
        """
        return {
            "done": np.array(self.done),
            "chains": np.array(self.group.chains),
            "positions": self.group.target.free_positions,
            "starts": self.starts,
            "spent": self.spent.clone(),
            "counts": self.counts.clone(),
            "scoring_passes": np.array(self.scoring_passes),
            **self.state_mark(),
        }

    def state_mark(self) -> Mark:
        """The part of a mark that only this kind of run has."""
        return {}

    def check(self, saved: Snapshot) -> None:
        """Refuse a snapshot of other chains."""
        if (
            saved["chains"].tolist() != self.group.chains
            or not 0 < int(saved["done"]) <= self.settings.sweeps
        ):
            raise ValueError(
                f"it has {int(saved['done'])} of {self.settings.sweeps} sweeps of"
                f" {len(saved['chains'])} chains"
            )
        for name, like in {
            "starts": self.starts,
            "counts": self.counts,
            **self.state_mark(),
        }.items():
            if saved[name].shape != tuple(like.shape):
                raise ValueError(
                    f"its {name!r} has shape {saved[name].shape}, not {tuple(like.shape)}"
                )

    def restore(self, saved: Snapshot) -> Mapping[str, Tensor]:
        """Go on from a snapshot, token for token as if there had been no interruption; returns
        its arrays, on the device.
        """
        arrays = {
            name: torch.from_numpy(array.copy()).to(self.group.target.device)
            for name, array in saved.items()
        }
        self.starts, self.spent, self.counts = arrays["starts"], arrays["spent"], arrays["counts"]
        self.done, self.scoring_passes = int(saved["done"]), int(saved["scoring_passes"])
        return arrays

    def sample(self) -> SweepRows:
        """The texts now, as samples; log-probabilities where a decoder has tractable ones,
        given the order.
        """
        log_probs = (
            self.state.log_prob.clone()
            if isinstance(self, DecoderRun) and self.decoder.exact
            else None
        )
        chains, sites, ids = self.group.chains, self.group.target.sites, self.texts().int()
        return SweepRows(
            self.done, chains, sites, ids, self.energies(), log_probs, self.spent.clone()
        )


class MarkovRun(GroupRun):
    """A group's chains of a Markov kernel."""

    def __init__(self, settings: SampleSettings, group: Group, kernel: Kernel) -> None:
        super().__init__(settings, group, kernel.passes)
        self.kernel = kernel
        self.state = ChainState.blank(group.target, len(group.chains))

    def begin(self) -> None:
        self.starts, spent = starting_texts(self.settings, self.group, self.passes)
        self.state, started = self.kernel.init(self.starts)
        self.spent = spent + started

    def state_mark(self) -> Mark:
        return {**self.state.snapshot(), "user": self.group.target.energy.from_user(self.state.ids)}

    def check(self, saved: Snapshot) -> None:
        """Refuse other terms of the user, too, which a folder holds by their names alone."""
        super().check(saved)
        terms = self.group.target.energy.from_user(
            torch.from_numpy(saved["ids"]).to(self.group.target.device)
        )
        if not np.allclose(terms.cpu().numpy(), saved["user"], rtol=1e-4, atol=1e-6):
            raise OtherTerms(
                "user_terms have other values at its texts than those given: give the same"
                " functions to continue it"
            )

    def restore(self, saved: Snapshot) -> Mapping[str, Tensor]:
        arrays = super().restore(saved)
        going_on = self.done < self.settings.sweeps
        self.state = ChainState.restored(
            self.group.target, self.passes if going_on else None, arrays
        )
        return arrays

    def steps(self) -> Iterator[StepInfo]:
        number, plan = self.done + 1, self.kernel.plan
        sites = plan.draw(self.streams.at(number, 0), self.state.rows)
        take = partial(
            unwrap(type(self.kernel).step), self.kernel
        )  # without the check of its arguments
        for step in range(plan.steps):
            self.state, info = take(self.state, self.streams.at(number, step + 1), sites[step])
            self._count(info)
            yield info
        self.done = number

    def scored(self) -> ChainState:
        return replace(self.state, outputs=None).take(self.state.rows)

    def _count(self, info: StepInfo) -> None:
        self.spent += info.passes
        took = info.accepted.unsqueeze(1).expand(info.sites.shape)
        happened = torch.stack([torch.ones_like(took), took, info.proposed, info.changed])
        self.counts.scatter_add_(
            1, info.sites.flatten().expand(len(COUNTS), -1), happened.flatten(1).long()
        )


class DecoderRun(GroupRun):
    """A group of independent decodings: a sweep decodes every text of the group again. Its
    starts are blank.
    """

    def __init__(self, settings: SampleSettings, group: Group, decoder: Decoder) -> None:
        super().__init__(settings, group, decoder.passes)
        self.decoder = decoder
        self.state = DecodeState.blank(group.target, len(group.chains))

    def steps(self) -> Iterator[DecodeState]:
        rng = self.streams.at(self.done + 1, 0)
        passes = torch.zeros_like(self.spent)
        for state, passes in decoding(self.decoder, len(self.group.chains), rng, self.group.starts):  # noqa: B007
            self.state = state
            yield state
        self.spent += passes
        self.done += 1

    def scored(self) -> ChainState:
        return ChainState.at(self.group.target, self.state.ids)


def group_run(settings: SampleSettings, group: Group, passes: Passes) -> GroupRun:
    """The run of a group, before it begins; settings that do not fit the target are refused."""
    method: Kernel | Decoder = settings.kernel.on(group.target, passes)
    if isinstance(method, Decoder):
        return DecoderRun(settings, group, method)
    _ = method.plan
    return MarkovRun(settings, group, method)


def draw_samples(
    settings: SampleSettings,
    model: MaskedLM,
    out: str | os.PathLike[str] | None = None,
    *,
    name: str = "in memory",
    chains_at_once: int | None = None,
    energy: Energy | None = None,
    progress: Progress | None = None,
    seconds_between_checkpoints: float = SECONDS_BETWEEN_CHECKPOINTS,
    shared: SharedChains | None = None,
) -> SampleRun:
    """Draw samples; with a folder `out`, keep them there and go on where an earlier run of the
    same settings stopped.

    name             of the model, for the record: another name of the same weights continues
                     the run
    chains_at_once   at most this many run side by side; by default as many as the memory holds
    energy           that of the settings, with terms of the user
    shared           the workers that advance the chains, instead of this process
    """
    stored = None if out is None else refuse_foreign(user_path(out, "out"), KIND)
    at_once: Any = (stored or {}).get("chains_at_once") or chains_at_once
    runs = group_runs(settings, model, at_once, energy, workers=shared.workers if shared else None)
    sizes, done = [len(run.group.chains) for run in runs], [0] * len(runs)

    def report(number: int, sweeps: int) -> None:
        done[number] = sweeps
        if progress:
            progress(sum(done), len(done) * settings.sweeps, "sweeps")

    def advance(
        folder: SampleFolder | None = None, write: Callable[..., None] | None = None
    ) -> list[Keeper]:
        keepers = []
        report(0, 0)
        runs.reverse()
        for number in range(len(sizes)):
            run = runs.pop()  # so that the memory of a group that is done can be used again
            saved = folder.checkpoint(number, run, goes_on=shared is None) if folder else None
            keepers.append(
                keeper := Keeper(number, settings.sweeps, write, seconds_between_checkpoints, saved)
            )
            if shared is not None:
                continue
            if saved is None:
                run.begin()
            try:
                while run.done < settings.sweeps:
                    run.sweep()
                    keeper.add([run.sample()] if settings.keeps(run.done) else [], run.mark())
                    report(number, run.done)
            except KeyboardInterrupt:  # leaves a checkpoint of the last whole sweep
                keeper.flush()
                raise
        if shared is not None:
            shared.advance(sizes, keepers, report)
        return keepers

    if out is None:
        keepers = advance()
        rows = table_of([row for keeper in keepers for row in keeper.rows], model)
        return assemble(settings, rows, [on_host(keeper.mark) for keeper in keepers], model.text)
    about = {
        "user_terms": energy.names if energy else [],
        "model": name,
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": model.device.type if shared is None else shared.workers.device,
        "stream": STREAM,
        "chains_at_once": sizes,
    }
    with SampleFolder(out, settings, model.fingerprint, about) as folder:
        with on_a_thread() as call:
            keepers = advance(folder, partial(call, folder.keep, model))
        run = assemble(
            settings,
            folder.rows(sample_columns()),
            [on_host(k.mark) for k in keepers],
            model.text,
            folder.path,
        )
        for file, frame in (("starts", run.starts), ("rates", run.rates), ("samples", run.samples)):
            write_table(folder.path / f"{file}.parquet", frame)
    return run


class Keeper:
    """A group's samples and latest mark, written to the folder every `seconds` seconds, and at
    the end.

    Without a folder, all samples stay here.
    """

    def __init__(
        self,
        number: int,
        sweeps: int,
        write: Callable[..., None] | None,
        seconds: float,
        mark: Mark | None = None,
    ) -> None:
        self.number, self.sweeps, self.write, self.seconds = number, sweeps, write, seconds
        self.rows: list[SweepRows] = []
        self.mark: Mark = mark or {}
        self._last = time.monotonic()

    @property
    def done(self) -> int:
        """Sweeps of the mark."""
        return int(self.mark["done"]) if self.mark else 0

    def add(self, rows: Sequence[SweepRows], mark: Mark) -> None:
        """Samples of further sweeps, and the mark after them."""
        self.rows += rows
        self.mark = mark
        if time.monotonic() - self._last > self.seconds or self.done == self.sweeps:
            self.flush()

    def flush(self) -> None:
        """Write what is there."""
        if self.write and self.mark:
            self.write(self.number, [row for row in self.rows if row.sweep <= self.done], self.mark)
            self.rows, self._last = [], time.monotonic()


@dataclass(frozen=True)
class Share:
    """A group, of groups with these `sizes`, to be advanced to sweep `upto` from where `saved`
    has it (None: its start).
    """

    sizes: Sequence[int]
    group: int
    upto: int
    saved: Snapshot | None


class ChainWorker:
    """Advances groups in a process of a Ray cluster; it keeps the last one's chains, which
    usually go on there.
    """

    def __init__(
        self, load: Callable[[], MaskedLM], settings: SampleSettings, energy: Energy | None
    ) -> None:
        self.settings, self.model, self.energy = settings, load(), energy
        self.live: tuple[int, GroupRun] | None = None

    def __call__(self, share: Share) -> tuple[list[SweepRows], Snapshot]:
        """Advance a group; its samples on the way, and where its chains are then."""
        done = 0 if share.saved is None else int(share.saved["done"])
        if self.live is None or self.live[0] != share.group or self.live[1].done != done:
            run = group_runs(self.settings, self.model, share.sizes, self.energy)[share.group]
            run.begin() if share.saved is None else run.restore(share.saved)
            self.live = share.group, run
        run, rows = self.live[1], []
        while run.done < share.upto:
            run.sweep()
            rows += [run.sample().on_host()] if self.settings.keeps(run.done) else []
        return rows, on_host(run.mark())


@dataclass(frozen=True)
class SharedChains:
    """The chains of a run on workers; `load` returns the model in a worker's process."""

    settings: SampleSettings
    workers: Workers
    load: Callable[[], MaskedLM]
    energy: Energy | None = None

    def advance(
        self, sizes: Sequence[int], keepers: Sequence[Keeper], report: Callable[[int, int], None]
    ) -> None:
        """All sweeps of all groups, each from the mark of its keeper, if it has one. `report`:
        a group, and its sweeps done.
        """
        pending = [keeper for keeper in keepers if keeper.done < self.settings.sweeps]
        shares = [
            Share(sizes, k.number, self._upto(k.done), on_host(k.mark) if k.mark else None)
            for k in pending
        ]
        setup = partial(ChainWorker, self.load, self.settings, self.energy)
        try:
            with closing(
                each(ChainWorker.__call__, shares, self.workers, setup, self._rest)
            ) as results:
                for index, (rows, snapshot) in results:
                    pending[index].add(rows, snapshot)
                    report(pending[index].number, pending[index].done)
        except (KeyboardInterrupt, UnmaskError):
            for keeper in keepers:
                keeper.flush()
            raise

    def _rest(self, share: Share, answer: tuple[list[SweepRows], Snapshot]) -> Share | None:
        done = share.upto >= self.settings.sweeps
        return None if done else replace(share, saved=answer[1], upto=self._upto(share.upto))

    def _upto(self, done: int) -> int:
        return min(self.settings.sweeps, done + -(-self.settings.sweeps // PIECES))
