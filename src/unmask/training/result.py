"""How a run ended: what `unmask.train` hands back and `unmask train --json` prints."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.training.log import read_log
from unmask.training.loop import Status
from unmask.training.settings import TrainSettings
from unmask.training.validation import Figures

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class TrainingRun:
    """A run that finished, was interrupted or paused, and the model folder `out` that it left.

    step         steps done, of settings.steps
    validation   loss in nats, accuracy and positions: with 15 % of held-out tokens masked, or of the next token (causal)
    parameters   of the model
    tokens       in an epoch
    epochs       of all steps
    learned      whether the validation loss is better than that of the tokens' frequencies (`validation.unigram`), and, of a
                 masked model of pairs, whether it says more than one token again and again

    >>> texts = [f"The {who} met {n} friends." for who in ("baker", "sailor") for n in range(50)]
    >>> run = unmask.train(texts, out="friends", layers=1, width=16, heads=1, vocab=80, max_length=16,
    ...                    segment_lengths="16", batch_tokens=128, steps=2, valid_share=0.2, device="cpu")
    >>> run.step, run.out.name
    (2, 'friends')
    """

    out: Path
    status: Status
    step: int
    validation: Figures
    parameters: int
    tokens: int
    epochs: float
    settings: TrainSettings

    @property
    def finished(self) -> bool:
        """Whether all steps are done; `resume=True` goes on with a run that is not."""
        return self.status == "finished"

    @property
    def learned(self) -> bool | None:
        """Whether the model has learned anything; where it has not, or little, `validation.doubt` says why."""
        return self.validation.learned

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "out": str(self.out),
            "status": self.status,
            "step": self.step,
            "steps": self.settings.steps,
            "validation": asdict(self.validation),
            "learned": self.learned,
            "parameters": self.parameters,
            "tokens": self.tokens,
            "epochs": self.epochs,
            "settings": self.settings.to_dict(),
        }

    def to_frame(self) -> pandas.DataFrame:
        """The log, one row per note: step, loss, lr, tokens_per_second, valid_loss, valid_accuracy, seconds."""
        import pandas

        return pandas.DataFrame(read_log(self.out / "training" / "log.jsonl"))

    def __str__(self) -> str:
        figures = f"validation {self.validation.loss:.3f} nats, {self.validation.accuracy:.1%}"
        frequencies = f"(the tokens' frequencies alone: {self.validation.unigram:.3f})"
        return f"{self.out}: {self.status} at step {self.step:,} of {self.settings.steps:,}, {figures} {frequencies}"

    def _repr_html_(self) -> str:
        rows = {
            "model": str(self.out),
            "status": f"{self.status} at step {self.step:,} of {self.settings.steps:,}",
            "validation loss": f"{self.validation.loss:.3f} nats",
            "frequencies alone": f"{self.validation.unigram:.3f} nats",
            "validation accuracy": f"{self.validation.accuracy:.1%} of {self.validation.positions:,} positions",
            "parameters": f"{self.parameters:,}",
        }
        cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows.items())
        return f"<table><tbody>{cells}</tbody></table>"
