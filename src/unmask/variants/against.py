"""From a list of measured variants to the scores of each under the model, and under a background."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.answers.asking import Model, letter_ids
from unmask.errors import InputError
from unmask.models.masked_lm import MaskedLM, as_model
from unmask.models.workers import Workers, on_ray, refuse_loaded
from unmask.options.answers import MutantsOptions
from unmask.runs.files import user_path
from unmask.runs.folder import refuse_foreign
from unmask.runs.outputs import output_folder
from unmask.runs.progress import Progress
from unmask.variants.epistasis import distances, interactions, refuse_few
from unmask.variants.measured import Measured, compared
from unmask.variants.parent import Parent, places_of
from unmask.variants.reading import Variants, read_variants
from unmask.variants.registry import chosen
from unmask.variants.streaming import KIND, Asked, kept_scores, refuse_many

FOLDERS = ("sequence", "background")
"""The two runs of a folder."""


class Question:
    """A sequence, its measured variants and the background, all read and checked before the model runs."""

    def __init__(self, model: MaskedLM, sequence: str, allowed: Sequence[int], options: MutantsOptions) -> None:
        self.model, self.options, self.parent = model, options, Parent(model, sequence, allowed)
        self.variants = read_variants(
            options.measured, self.parent, options.positions, options.column, options.variant, options.skip_bad
        )
        self.regions = _regions(options.regions, self.parent, self.variants)
        self.background = None if options.background is None else _background(self.parent, options)
        self.apart = _distances(self.parent, self.variants, options)
        for parent in (self.parent, *([] if self.background is None else [self.background.parent])):
            asked, tokens = _asked(parent, self.variants, options)
            refuse_many(asked.contexts(parent.model), tokens, options.force)

    def answer(self, progress: Progress | None) -> Measured:
        """The scores, against the measurement."""
        options, parent, variants = self.options, self.parent, self.variants
        background = None if self.background is None else effects_of(self.background, variants, options, progress)
        effects = effects_of(Source(parent, options.model, "sequence"), variants, options, progress)
        common = (self.regions, options.joint, options.better, options.top, options.seed)
        found = compared(parent.text, variants.names(parent), variants, effects, background, *common)
        if options.epistasis is None:
            return found
        sign = 1 if options.better == "higher" else -1
        sites = [f"{parent.residues[place - 1]}{place}" for place in variants.places]
        values, tokens = sign * variants.values, parent.tokens
        if progress:
            progress(0, 0, "interactions of pairs")
        pairs = interactions(variants.cells, variants.wild, values, effects, sites, tokens, self.apart, options.seed)
        return replace(found, interactions=pairs)


def _distances(parent: Parent, variants: Variants, options: MutantsOptions) -> Float[np.ndarray, "k k"] | None:
    """Distances of the sites in the structure, if there is one; refuses what epistasis cannot use."""
    if options.chain is not None and options.pdb is None:
        raise InputError(f"chain {options.chain!r} was given without pdb: give the structure, too")
    if options.pdb is not None and options.epistasis is None:
        raise InputError("pdb was given without epistasis: give the file of its figure, too")
    if options.epistasis is not None:
        refuse_few(len(variants.places))
    return None if options.pdb is None else distances(options.pdb, options.chain, parent.residues, variants.places)


class Source(NamedTuple):
    """A parent, its model as it was given, and the part of a run folder that keeps its scores."""

    parent: Parent
    model: Model
    folder: str


def check_run(options: MutantsOptions, reads: Sequence[object]) -> None:
    """Refuse a folder that holds something else, and Ray without one; needs no model, and writes nothing."""
    if options.engine == "ray":
        if options.run is None:
            raise InputError("engine ray needs a run folder, where its workers' scores are kept: give one")
        refuse_loaded(options.model)
        refuse_loaded(options.background)
    if options.run is not None:
        folder = output_folder("run", options.run, reads)
        for name in FOLDERS:
            refuse_foreign(folder / name, KIND)
        if folder.is_dir() and any(path.name not in FOLDERS and path.name[0] != "." for path in folder.iterdir()):
            raise InputError(f"folder {str(folder)!r} is not empty and holds no run: choose another --run folder")


def effects_of(
    source: Source, variants: Variants, options: MutantsOptions, progress: Progress | None
) -> dict[str, Float[np.ndarray, " n"]]:
    """Every score of every variant, minus that of the parent's letters at the same sites."""
    lm, (asked, tokens) = source.parent.model, _asked(source.parent, variants, options)
    if options.run is None:
        scored = asked.contexts(lm).scores(tokens, progress)
    else:
        shown = None if source.model is None else "given" if isinstance(source.model, MaskedLM) else str(source.model)
        folder = user_path(options.run, "run") / source.folder
        scored = kept_scores(folder, lm, shown, asked, tokens, _workers(source.model, options), progress)
    return {name: (values[:-1] - values[-1]).numpy() for name, values in scored.items()}


def _asked(parent: Parent, variants: Variants, options: MutantsOptions) -> tuple[Asked, Int[Tensor, "n k"]]:
    """What is asked of the model, and the token ids of each variant; the last is the parent itself."""
    sites = tuple(parent.where[place - 1] for place in variants.places)
    names = tuple(score.name for score in chosen(options.scores, options.joint))
    cells = torch.from_numpy(np.concatenate([variants.cells, variants.wild[None]]))
    asked = Asked(tuple(parent.ids), sites, names, tuple(parent.allowed), options.orders, options.seed, options.joint)
    return asked, torch.tensor(parent.allowed)[cells]


def _workers(model: Model, options: MutantsOptions) -> Workers | None:
    if options.engine != "ray":
        return None
    reading = (options.rename, options.lang, options.shift, options.mask_token) if model is options.model else ()
    return on_ray(as_model, model, options.device, options.dtype, *reading, count=options.workers)


def _regions(given: Mapping[str, str | Sequence[int]] | None, parent: Parent, variants: Variants) -> dict[str, list[int]]:
    """Named groups of residues; by default every residue that varies."""
    if given is None:
        return {f"{parent.residues[place - 1]}{place}": [place] for place in variants.places}
    found = {name: places_of(places, len(parent.residues)) for name, places in given.items()}
    for name, places in found.items():
        if not set(places) & set(variants.places):
            raise InputError(f"region {name!r} has no residue that varies: name one of {', '.join(map(str, variants.places))}")
    return found


def _background(parent: Parent, options: MutantsOptions) -> Source:
    """The same sites in another sequence, or under another model."""
    given = options.background
    if isinstance(given, str) and not os.path.exists(given):
        tokens = parent.spelled(given)
        if tokens and all(token in parent.index or token in parent.residues for token in tokens):
            if len(tokens) != len(parent.residues):
                raise InputError(
                    f"background has {len(tokens)} residues, and the sequence {len(parent.residues)}: align them, or name a model"
                )
            return Source(Parent(parent.model, given, parent.allowed), options.model, "background")
    other = as_model(given, "cpu" if options.engine == "ray" else options.device, options.dtype)
    found = Parent(other, parent.text, letter_ids(other, parent.tokens) or ())
    if found.residues != parent.residues:
        raise InputError("the background model reads the sequence as other residues: give one with the same letters")
    return Source(found, given, "background")
