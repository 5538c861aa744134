"""`train`: a corpus in, a folder with a language model out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Interval

from unmask.common.border.calls import checked
from unmask.common.border.marks import Only, TakesMethod, Written
from unmask.common.results import Result
from unmask.runs.progress import Progress
from unmask.studies.training.recipe import (
    Causal,
    Corpus,
    HeldOut,
    Masked,
    Optimisation,
    Recipe,
    Shape,
    Side,
)
from unmask.verbs import PathLike, Seed

if TYPE_CHECKING:
    import pandas

    from unmask.studies.training.settings import TrainSettings
    from unmask.studies.training.steps import Status
    from unmask.studies.training.validation import Validation

Weight = Annotated[float, Interval(gt=0, le=1e6)]


@dataclass(frozen=True)
class TrainingRun(Result):
    """A run that finished, was interrupted or paused, and the model folder `out` that it left.

    out           the folder of the model
    status        "finished", "interrupted" or "paused"
    step          steps done, of `steps`
    validation    loss in nats, accuracy and positions: with 15 % of held-out tokens masked, or
                  of the next token (causal)
    n_parameters  parameters of the model
    n_tokens      tokens of an epoch
    epochs        how often all `steps` go through the data
    settings      what decided the weights, those that were chosen for the data included
    learned       whether the validation loss is better than that of the tokens' frequencies
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
        "n_parameters",
        "n_tokens",
        "epochs",
        "settings",
    )
    out: Path
    status: Status
    step: int
    validation: Validation
    n_parameters: int
    n_tokens: int
    epochs: float
    settings: TrainSettings

    @property
    def steps(self) -> int:
        """All steps of the run."""
        return self.settings.steps

    @property
    def finished(self) -> bool:
        """Whether all steps are done; the same call continues a run that is not."""
        return self.status == "finished"

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the run."""
        return self.status == "interrupted"

    @property
    def learned(self) -> bool | None:
        """Whether the model has learned anything; None if the held-out texts gave no position to
        validate.
        """
        return self.validation.learned

    @property
    def headline(self) -> str:
        """The run in a line."""
        validation = self.validation
        return (
            f"{self.out}: {self.status} at step {self.step:,} of {self.steps:,},"
            f" validation {validation.loss:.3f} nats, {validation.accuracy:.1%} right"
            f" (the tokens' frequencies alone: {validation.unigram:.3f})"
        )

    def about(self) -> list[str]:
        """Where the model is, how far it is, and its validation."""
        return [self.headline]

    def notices(self) -> list[str]:
        """How a paused run goes on."""
        if self.status == "paused":
            return ["give the same command again to continue"]
        return []

    def __str__(self) -> str:
        """The headline, so that `print(run)` has one line; `repr` has all fields."""
        return self.headline

    def to_frame(self) -> pandas.DataFrame:
        """The log, one row per note: step, loss, lr, tokens_per_second, valid_loss,
        valid_accuracy, seconds.
        """
        from unmask.common.lazy import pandas
        from unmask.studies.training.log import read_log

        return pandas.DataFrame(read_log(self.out / "training" / "log.jsonl"))


@checked
def train(
    data: Annotated[
        Corpus | None,
        Only(without=("parallel",)),
        Written(metavar="FILE...", repeat=True, files=True),
    ] = None,
    *,
    out: PathLike,
    parallel: Annotated[Sequence[Side] | None, Written(metavar="SOURCE TARGET", words=2)] = None,
    weight: Annotated[Sequence[Weight] | None, Only(without=("parallel",))] = None,
    init: PathLike | None = None,
    objective: Annotated[
        Masked | Causal | str, TakesMethod("unmask.studies.training.recipe:OBJECTIVES")
    ] = "masked",
    # B008 forbids a default that calls may change; these classes are frozen.
    shape: Shape = Shape(),  # noqa: B008
    optimisation: Optimisation = Optimisation(),  # noqa: B008
    held_out: HeldOut = HeldOut(),  # noqa: B008
    seed: Seed = 0,
    max_minutes: Annotated[float, Interval(ge=0, le=1e7)] | None = None,
    device: str = "auto",
    progress: Progress | None = None,
) -> TrainingRun:
    """Train a masked language model (or a causal one) from text, and leave it in the folder `out`.

    Settings that are left out are chosen for the data and the device, and printed first. The
    folder loads in unmask (as model) and in Hugging Face's transformers, and has a model card.
    An interrupt (Ctrl-C) ends the run after its step with a checkpoint and a usable model;
    the same command continues it with the same numbers. On several GPUs: torchrun
    --nproc-per-node N -m unmask train with the same options.

    Parameters:
        data: Text files, one text per line: .txt, .txt.xz, .txt.gz or .jsonl with the text
            under "text". Or a list of texts.
        out: Folder for the model: a new one, or that of a run to continue.
        parallel: Instead of data: a file of sources and one of their translations (for
            example what translate saved), line by line; or two lists of texts.
        weight: How often an epoch sees each file, such as 1,8; one per file, in order.
        init: A model folder to start from; its shape and tokenizer are taken with its weights.
        objective: masked, or causal (of the next token).
        shape: Shape of the network, and its tokenizer.
        optimisation: Optimiser, steps and regularisation.
        held_out: Texts of the validation.
        seed: Seed of weights, order and masks.
        max_minutes: Pause after this time, with a checkpoint.
        device: cpu, cuda or auto.

    Returns:
        A `TrainingRun`: the folder of the model, its validation, and the settings that were chosen.

    >>> texts = [f"The {who} met {n} friends." for who in ("baker", "sailor") for n in range(50)]
    >>> small = unmask.Shape(layers=1, width=16, heads=1, vocab=80, max_length=16)
    >>> two_steps = unmask.Optimisation(steps=2, batch_tokens=128)
    >>> held_out = unmask.HeldOut(valid_share=0.2)
    >>> run = unmask.train(
    ...     texts,
    ...     out="friends",
    ...     shape=small,
    ...     optimisation=two_steps,
    ...     held_out=held_out,
    ...     device="cpu",
    ... )
    >>> run.status
    'finished'
    """
    from unmask.studies.training.run import train_model

    assert not isinstance(objective, str)  # `checked` turned a name into an object
    recipe = Recipe(
        shape=shape,
        objective=objective,
        optimisation=optimisation,
        held_out=held_out,
        seed=seed,
        weight=weight,
        init=init,
    )
    trained = train_model(
        data,
        parallel,
        recipe,
        out,
        max_minutes=max_minutes,
        device=device,
        progress=progress,
    )
    return TrainingRun(
        out=trained.out,
        status=trained.status,
        step=trained.step,
        validation=trained.validation,
        n_parameters=trained.parameters,
        n_tokens=trained.tokens,
        epochs=trained.epochs,
        settings=trained.settings,
    )
