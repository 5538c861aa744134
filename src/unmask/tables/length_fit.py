"""How well blanks of each length fit into a text.

For a text read with a given number of masks, let N be the visible tokens right beside a blank. Its fit is

    prod_{j in N} q(x_j | every other visible token, the blanks masked),

what the model makes of the blanks' neighbours when so many tokens stand between them. As weights, fits are divided by their
sum over the readings. A text without such neighbours, or with impossible ones in every reading, gives equal weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from unmask.cloze import Cloze
from unmask.tables.revealing import Conditionals


def length_weights(conditionals: Conditionals, clozes: Sequence[Cloze]) -> list[float]:
    """The weight of each reading of a text; two passes per blank and reading."""
    model = conditionals.model
    special = {*model.special_ids, model.mask_id}
    fits = []
    for cloze in clozes:
        beside = {p + step for p in cloze.block for step in (-1, 1)} & set(range(len(cloze.ids)))
        places = torch.tensor(sorted(p for p in beside if cloze.ids[p] not in special), device=model.device)
        text = torch.tensor([cloze.ids], device=model.device).repeat(len(places), 1)
        rows = text.scatter(1, places[:, None], model.mask_id)
        fits.append(conditionals.log_q(rows, places[:, None], text.gather(1, places[:, None])).sum() if len(places) else 0.0)
    log_fits = torch.tensor(fits, dtype=torch.float64)
    if float(log_fits.amax()) == -torch.inf:
        log_fits.zero_()
    weights: list[float] = log_fits.softmax(0).tolist()
    return weights
