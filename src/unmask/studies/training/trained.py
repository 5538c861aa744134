"""What a run of training leaves beside its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from unmask.studies.training.settings import TrainSettings
from unmask.studies.training.steps import Status
from unmask.studies.training.validation import Validation


@dataclass(frozen=True)
class Trained:
    """A run that ended, and the model folder `out` that it left.

    status       "finished", "interrupted" or "paused"
    step         steps done
    validation   the last one
    parameters   of the model
    tokens       in an epoch
    epochs       of all steps
    """

    out: Path
    status: Status
    step: int
    validation: Validation
    parameters: int
    tokens: int
    epochs: float
    settings: TrainSettings

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return self.status == "finished"
