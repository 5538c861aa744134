"""The result of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from unmask.common.results import Result
from unmask.studies.training.log import read_log
from unmask.studies.training.settings import TrainSettings
from unmask.studies.training.steps import Status
from unmask.studies.training.validation import Validation

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class TrainingRun(Result):
    """A run that finished, was interrupted or paused, and the model folder `out` that it left.

    out, status  the folder of the model; "finished", "interrupted" or "paused"
    step         steps done, of `steps`
    validation   loss in nats, accuracy and positions: with 15 % of held-out tokens masked, or
                 of the next token (causal)
    parameters   of the model; `tokens` in an epoch, and `epochs` of all steps
    settings     what decided the weights, those that were chosen for the data included
    learned      whether the validation loss is better than that of the tokens' frequencies
                 (`validation.unigram`)

    >>> texts = [f"The {who} met {n} friends." for who in ("baker", "sailor") for n in range(50)]
    >>> small = unmask.Shape(layers=1, width=16, heads=1, vocab=80, max_length=16)
    >>> one_step = unmask.Optimisation(steps=1, batch_tokens=128)
    >>> run = unmask.train(texts, out="friends", shape=small, optimisation=one_step)
    >>> run.step, run.finished
    (1, True)
    """

    KEYS: ClassVar[tuple[str, ...]] = (
        "out",
        "status",
        "step",
        "steps",
        "validation",
        "learned",
        "parameters",
        "tokens",
        "epochs",
        "settings",
    )
    out: Path
    status: Status
    step: int
    validation: Validation
    parameters: int
    tokens: int
    epochs: float
    settings: TrainSettings

    @property
    def steps(self) -> int:
        """All steps of the run."""
        return self.settings.steps

    @property
    def finished(self) -> bool:
        """Whether all steps are done; `resume=True` continues a run that is not."""
        return self.status == "finished"

    @property
    def learned(self) -> bool | None:
        """Whether the model has learned anything."""
        return self.validation.learned

    def to_frame(self) -> pandas.DataFrame:
        """The log, one row per note: step, loss, lr, tokens_per_second, valid_loss,
        valid_accuracy, seconds.
        """
        import pandas

        return pandas.DataFrame(read_log(self.out / "training" / "log.jsonl"))

    @property
    def headline(self) -> str:
        """The line that the command prints."""
        figures = (
            f"validation {self.validation.loss:.3f} nats, {self.validation.accuracy:.1%} right"
        )
        frequencies = f"(the tokens' frequencies alone: {self.validation.unigram:.3f})"
        return (
            f"{self.out}: {self.status} at step {self.step:,} of {self.steps:,}, {figures}"
            f" {frequencies}"
        )

    def __str__(self) -> str:
        return self.headline
