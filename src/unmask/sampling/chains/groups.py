"""The groups of a run: which chains have one target, and how many of them run side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.common.border.calls import trusted
from unmask.common.errors import InputError
from unmask.models.first_look import look_at_first
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.alphabet import alphabet_ids
from unmask.models.text.blanks import cloze_of
from unmask.runs.engine import Workers
from unmask.sampling.chains.group_run import Group, GroupRun, group_run
from unmask.sampling.chains.starts import stacked_starts, template_of_start
from unmask.sampling.energies.energy import ModelEnergy
from unmask.sampling.energies.with_terms import Energy
from unmask.sampling.engine.memory import (
    GIGABYTE,
    GPU_WORKER_BYTES,
    chains_that_fit,
    free_bytes,
    output_form,
)
from unmask.sampling.engine.passes import OutputForm, Passes, rows_for
from unmask.sampling.settings import SampleSettings
from unmask.sampling.target import Target, blank_template, target_of

BYTES_PER_SAMPLE = 300  # In memory at the end of a run, about, besides its tokens
BYTES_PER_TOKEN = 12  # Of a sample, about


def group_runs(
    settings: SampleSettings,
    model: MaskedLM,
    chains_at_once: int | Sequence[int] | None = None,
    energy: Energy | None = None,
    form: OutputForm | None = None,
    workers: Workers | None = None,
) -> list[GroupRun]:
    """The groups of all chains, before they begin. Chains of a group have one target.

    chains_at_once   the most chains of a group, by default as many as the memory holds; or the
                     number of chains of each group, as an earlier run of the same settings has it
    energy           that of the settings, with terms of the user
    form             of the model's outputs. If it is given, the model is not run.
    workers          get a group each, if memory holds it

    Groups whose calls of the model have the same number of rows share their passes.
    """
    starts = [torch.tensor(model.words.encode(text)) for text in settings.start_texts]
    templates = _templates(settings, model, starts)
    if form is None:
        texts_of_user = [ids.tolist() for ids in starts] or templates
        look_at_first(model, texts_of_user)
    chains_of_template: dict[tuple[int, ...], list[int]] = {}
    for chain in range(settings.chains):
        template = templates[chain % len(templates)]  # chains take templates and starts in turn
        chains_of_template.setdefault(template, []).append(chain)
    _refuse_too_many_samples(settings, longest=max(map(len, templates)))
    if energy is None:
        assert isinstance(settings.energy, ModelEnergy)  # a call that draws has its code
        energy = trusted(Energy, kind=settings.energy)
    targets = [
        target_of(model, template, energy, _allowed_tokens(settings, model, template))
        for template in chains_of_template
    ]
    if form is None:
        form = _output_form(model, targets, workers)
    most_at_once: int | None = None
    sizes: Iterator[int] = iter(())
    if isinstance(chains_at_once, int):
        most_at_once = chains_at_once
    elif isinstance(chains_at_once, Sequence):
        sizes = iter(chains_at_once)
    runs = []
    passes_of_rows: dict[int, Passes] = {}
    for target, chains in zip(targets, chains_of_template.values(), strict=True):
        rows = rows_for(model, len(chains), settings.kernel.decodes)
        passes = passes_of_rows.setdefault(rows, Passes(model, rows, form))
        usual_size = most_at_once
        if usual_size is None:
            usual_size = _size_that_fits(settings, target, form, workers)
        groups = _groups_of(
            target=target, chains=chains, starts=starts, sizes=sizes, usual_size=usual_size
        )
        runs += [group_run(settings, group, passes) for group in groups]
    return runs


def blanks_of_texts(settings: SampleSettings, model: MaskedLM) -> list[int]:
    """How many blanks each of the templates has that chains take in turn."""
    starts = [torch.tensor(model.words.encode(text)) for text in settings.start_texts]
    templates = _templates(settings, model, starts)
    return [template.count(model.mask_id) for template in templates]


def _templates(
    settings: SampleSettings, model: MaskedLM, starts: Sequence[Int[Tensor, " _"]]
) -> list[tuple[int, ...]]:
    """The templates that chains take in turn: that of the user, those of the starts, or blanks
    of each length.
    """
    if settings.template is not None:
        cloze = cloze_of(model.words, settings.template, max_length=model.max_length)
        return [cloze.ids]
    if starts:
        texts = settings.start_texts
        return [
            template_of_start(ids, model, text) for ids, text in zip(starts, texts, strict=True)
        ]
    return [blank_template(model, length) for length in settings.length]


def _refuse_too_many_samples(settings: SampleSettings, longest: int) -> None:
    """Raise, before anything is allocated, if memory cannot hold all samples: it does when the
    run is done.

    longest   tokens of the longest text
    """
    samples = settings.kept_after(settings.sweeps)
    bytes_per_chain = samples * (BYTES_PER_SAMPLE + BYTES_PER_TOKEN * longest)
    needed = settings.chains * bytes_per_chain
    free = free_bytes(torch.device("cpu"))
    if needed > free and settings.kernel.decodes:
        raise InputError(
            f"{settings.chains:,} texts need about {needed / GIGABYTE:,.0f} GB, and"
            f" {free / GIGABYTE:.1f} GB are free",
            argument="n_texts",
            use=f"ask for {free // bytes_per_chain:,} texts or fewer",
        )
    if needed > free:
        raise InputError(
            f"{settings.chains:,} chains of {samples:,} samples need about"
            f" {needed / GIGABYTE:,.0f} GB, and {free / GIGABYTE:.1f} GB are free:"
            f" give {free // bytes_per_chain:,} chains or fewer, or thin more"
        )


def _allowed_tokens(
    settings: SampleSettings, model: MaskedLM, template: Sequence[int]
) -> dict[int, list[int]]:
    """The token ids that are allowed at each restricted position: those of `allow` in its blank,
    and of the alphabet in every blank.
    """
    blanks = [position for position, token in enumerate(template) if token == model.mask_id]
    restricted: dict[int, list[int]] = {}
    if settings.alphabet:
        alphabet = list(alphabet_ids(model.words, settings.alphabet))
        restricted = {position: alphabet for position in blanks}
    for number, tokens in (settings.allow or {}).items():
        if not 1 <= number <= len(blanks):
            raise InputError(
                f"names blank {number}, and the text has {len(blanks)}",
                argument="allow",
                use="number them from 1",
            )
        position = blanks[number - 1]
        ids = list(alphabet_ids(model.words, tokens, f"allow of blank {number}"))
        if settings.alphabet:
            ids = [i for i in ids if i in restricted[position]]
            if not ids:
                raise InputError(
                    f"names no token of the alphabet for blank {number}",
                    argument="allow",
                    use="name one that the alphabet has",
                )
        restricted[position] = ids
    return restricted


def _output_form(model: MaskedLM, targets: Sequence[Target], workers: Workers | None) -> OutputForm:
    """The form of outputs of a whole run, which the longest texts decide."""
    device = model.device.type if workers is None else workers.device
    longest = max(targets, key=lambda target: len(target.template))
    return output_form(model, longest.template_ids.unsqueeze(0), device)


def _size_that_fits(
    settings: SampleSettings,
    target: Target,
    form: OutputForm,
    workers: Workers | None,
) -> int:
    """How many chains of a target run side by side by default."""
    if workers is None:
        return chains_that_fit(settings.kernel, target, form)
    budget = GPU_WORKER_BYTES if workers.device == "cuda" else None
    fitting = chains_that_fit(settings.kernel, target, form, budget)
    share_of_a_worker = -(-settings.chains // workers.count)
    return min(fitting, share_of_a_worker)


def _groups_of(
    target: Target,
    chains: list[int],
    starts: Sequence[Int[Tensor, " _"]],
    sizes: Iterator[int],
    usual_size: int,
) -> Iterator[Group]:
    """The chains of a target in groups. These have the next `sizes`, and the usual one after the
    last of them.

    starts   texts that all chains of the run take in turn; empty if the user named none
    """
    starts_of_chains = None
    if starts:
        starts_in_turn = [starts[chain % len(starts)] for chain in chains]
        starts_of_chains = stacked_starts(starts_in_turn, target)
    first = 0
    while first < len(chains):
        end = first + next(sizes, usual_size)
        starts_of_group = None
        if starts_of_chains is not None:
            starts_of_group = starts_of_chains[first:end]
        yield Group(chains[first:end], target, starts_of_group)
        first = end
