"""From a list of measured variants to the scores of each under the model, and under a background."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float

from unmask.answers.asking import letter_ids
from unmask.errors import InputError
from unmask.models.masked_lm import MaskedLM, as_model
from unmask.options.answers import MutantsOptions
from unmask.runs.progress import Progress
from unmask.variants.contexts import variant_scores
from unmask.variants.measured import Measured, compared
from unmask.variants.parent import Parent, places_of
from unmask.variants.reading import Variants, read_variants


class Question:
    """A sequence, its measured variants and the background, all read and checked before the model runs."""

    def __init__(self, model: MaskedLM, sequence: str, allowed: Sequence[int], options: MutantsOptions) -> None:
        self.model, self.options, self.parent = model, options, Parent(model, sequence, allowed)
        self.variants = read_variants(
            options.measured, self.parent, options.positions, options.column, options.variant, options.skip_bad
        )
        self.regions = _regions(options.regions, self.parent, self.variants)
        self.background = None if options.background is None else _background(self.parent, options)

    def answer(self, progress: Progress | None) -> Measured:
        """The scores, against the measurement."""
        options, parent, variants = self.options, self.parent, self.variants
        background = None if self.background is None else effects_of(self.background, variants, options, progress)
        return compared(
            parent.text,
            variants.names(parent),
            variants,
            effects_of(parent, variants, options, progress),
            background,
            self.regions,
            options.joint,
            options.better,
            options.top,
            options.seed,
        )


def effects_of(
    parent: Parent, variants: Variants, options: MutantsOptions, progress: Progress | None
) -> dict[str, Float[np.ndarray, " n"]]:
    """Every score of every variant, minus that of the parent's letters at the same sites."""
    cells = torch.from_numpy(np.concatenate([variants.cells, variants.wild[None]]))
    scored = variant_scores(
        parent.model,
        parent.ids,
        [parent.where[place - 1] for place in variants.places],
        torch.tensor(parent.allowed)[cells],
        options.scores,
        parent.allowed,
        options.orders,
        options.seed,
        options.joint,
        progress,
    )
    return {name: (values[:-1] - values[-1]).numpy() for name, values in scored.items()}


def _regions(given: Mapping[str, str | Sequence[int]] | None, parent: Parent, variants: Variants) -> dict[str, list[int]]:
    """Named groups of residues; by default every residue that varies."""
    if given is None:
        return {f"{parent.residues[place - 1]}{place}": [place] for place in variants.places}
    found = {name: places_of(places, len(parent.residues)) for name, places in given.items()}
    for name, places in found.items():
        if not set(places) & set(variants.places):
            raise InputError(f"region {name!r} has no residue that varies: name one of {', '.join(map(str, variants.places))}")
    return found


def _background(parent: Parent, options: MutantsOptions) -> Parent:
    """The same sites in another sequence, or under another model."""
    given = options.background
    if isinstance(given, str) and not os.path.exists(given):
        tokens = parent.spelled(given)
        if tokens and all(token in parent.index or token in parent.residues for token in tokens):
            if len(tokens) != len(parent.residues):
                raise InputError(
                    f"background has {len(tokens)} residues, and the sequence {len(parent.residues)}: align them, or name a model"
                )
            return Parent(parent.model, given, parent.allowed)
    other = as_model(given, options.device, options.dtype)
    found = Parent(other, parent.text, letter_ids(other, parent.tokens) or ())
    if found.residues != parent.residues:
        raise InputError("the background model reads the sequence as other residues: give one with the same letters")
    return found
