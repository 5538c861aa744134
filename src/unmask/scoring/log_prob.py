"""The score `log_prob`: log pi(x) = -E(x) - log Z, a probability over the texts of one length, within the bounds of log Z.

The texts are those of regular tokens; the norm energy is that of sampling, whose log q runs over the whole vocabulary.
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
from unmask.scoring.batch import Batch, Scored
from unmask.scoring.settings import ScoreSettings


def score_log_prob(
    model: ConditionalModel, batch: Batch, names: Sequence[str], settings: ScoreSettings, progress: Progress | None = None
) -> dict[str, Scored]:
    """The score `log_prob`; its normaliser is kept as long as the model lives."""
    energy = energies(model, batch.ids, Energy(settings.energy)).cpu()  # type: ignore[arg-type]
    asked = [
        Question(tuple(template), settings.energy, settings.chains, settings.anneals, settings.seed)
        for template in batch.ids.scatter(1, batch.sites, model.mask_id).tolist()
    ]
    found = [log_normaliser(model, question, progress) for question in asked]
    value, low, high = (
        -energy - torch.tensor([getattr(z, bound) for z in found], dtype=torch.float64) for bound in ("log_z", "high", "low")
    )
    exact = torch.tensor([float(z.exact) for z in found], dtype=torch.float64)
    return {"log_prob": Scored(value, extra={"low": low, "high": high, "exact": exact})}
