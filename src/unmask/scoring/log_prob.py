"""The score `log_prob`: log pi(x) = -E(x) - log Z, a probability over the texts of one length, within the bounds of log Z.

Z depends on the length alone (and on the words around a target, which are held), so it is found once per length:
see `annealed_importance`. Over all texts of the length exp(log_prob) sums to 1 if log Z is right; an error of log Z moves all
of them alike, so differences between texts of one length are exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress
from unmask.sampling.energy import Energy, energies
from unmask.scoring.annealed_importance import Question, log_normaliser
from unmask.scoring.batch import Batch, Scored, outside_support
from unmask.scoring.settings import ScoreSettings


def score_log_prob(
    model: ConditionalModel, batch: Batch, names: Sequence[str], settings: ScoreSettings, progress: Progress | None = None
) -> dict[str, Scored]:
    """The score `log_prob`; its normaliser is kept as long as the model lives."""
    impossible = outside_support(model, batch)
    possible = [row for row in range(len(batch)) if row not in impossible]
    columns = {name: torch.full((len(batch),), torch.nan, dtype=torch.float64) for name in ("value", "low", "high", "exact")}
    if possible:
        energy = energies(model, batch.ids[possible], Energy(settings.energy)).cpu()  # type: ignore[arg-type]
        templates = batch.ids.scatter(1, batch.sites, model.mask_id)[possible].tolist()
        found = [
            log_normaliser(
                model, Question(tuple(template), settings.energy, settings.chains, settings.anneals, settings.seed), progress
            )
            for template in templates
        ]
        for name, log_z in (
            ("value", [z.log_z for z in found]),
            ("low", [z.high for z in found]),
            ("high", [z.low for z in found]),
        ):
            columns[name][possible] = -energy - torch.tensor(log_z, dtype=torch.float64)
        columns["exact"][possible] = torch.tensor([float(z.exact) for z in found], dtype=torch.float64)
    value = columns.pop("value")
    return {"log_prob": Scored(value, extra=columns, reasons=impossible)}
