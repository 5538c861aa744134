"""Laws of decoders that keep the surest sites or tokens, as confidence-based decoders do.

These orders look at the values drawn: their texts are enumerated.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from unmask.studies.lab.dynamics import parallel_step, product_conditional, uniform_masks
from unmask.studies.lab.groupings import even_sizes
from unmask.studies.lab.hidden_sites import (
    HiddenSites,
    PartialText,
    all_hidden,
    law_of_texts,
    revealed,
)
from unmask.studies.lab.model import LabModel, Vector

Order = Literal["sure site", "sure token"]
Kept = tuple[tuple[int, int], ...]
"""The site and the value of each token that is kept, from left to right."""


def greedy_law(model: LabModel, steps: int, order: Order) -> Vector:
    """The law of texts unmasked by confidence, in even groups: every masked site is drawn, the
    most probable are kept.

    "sure site" ranks sites by max_v p(x_i = v | visible), known before anything is drawn; "sure
    token" ranks by the probability of the token that was drawn, as mask-predict does. Ties go
    to the site on the left.
    """
    chances: dict[PartialText, float] = {all_hidden(model): 1.0}
    for size in even_sizes(model.space.sites, steps):
        after: dict[PartialText, float] = {}
        for text, chance in chances.items():
            kept_chances = _chances_of_kept(HiddenSites.of(model, text), size, order)
            for kept, probability in kept_chances.items():
                longer = revealed(text, kept)
                after[longer] = after.get(longer, 0.0) + chance * probability
        chances = after
    return law_of_texts(model, chances)


def _chances_of_kept(hidden: HiddenSites, size: int, order: Order) -> dict[Kept, float]:
    """The probability of each way to keep the `size` surest of the hidden sites.

    In the arrays an axis is over the hidden sites, and a column is one combination of their
    values, which are drawn independently.
    """
    count = len(hidden.sites)
    marginals = [hidden.marginal(place) for place in range(count)]
    values = np.indices([len(marginal) for marginal in marginals]).reshape(count, -1)
    chances = np.stack([marginal[row] for marginal, row in zip(marginals, values, strict=True)])
    if order == "sure token":
        confidence = chances
    else:
        largest = [[marginal.max()] for marginal in marginals]
        confidence = np.repeat(largest, values.shape[1], axis=1)
    # Rounded, so that equal values are ties; a stable sort leaves the site on the left first.
    surest_first = np.argsort(-np.round(confidence, 12), axis=0, kind="stable")
    places = np.sort(surest_first[:size], axis=0)
    kept_values = np.take_along_axis(values, places, axis=0)

    kept_chances: dict[Kept, float] = {}
    for column, chance in enumerate(chances.prod(0)):
        pairs = zip(places[:, column], kept_values[:, column], strict=True)
        kept = tuple((hidden.sites[place], int(value)) for place, value in pairs)
        kept_chances[kept] = kept_chances.get(kept, 0.0) + float(chance)
    return kept_chances


def mask_predict_law(model: LabModel, steps: int) -> Vector:
    """The law after T = `steps` parallel draws: of all sites, then t = 1, ..., T - 1 of
    N (T - t) / T sites chosen at random, rounded, but at least one.
    """
    space = model.space
    law = product_conditional(space, model.p, tuple(range(space.sites)))
    for t in range(1, steps):
        masked = max(1, round(space.sites * (steps - t) / steps))
        law = law @ parallel_step(model, uniform_masks(space, masked))
    return np.asarray(law)
