"""`train`: a corpus in, a folder with a language model out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from annotated_types import Interval

import unmask
from unmask.common.border.calls import checked
from unmask.common.border.marks import Only, TakesMethod, Written
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

Weight = Annotated[float, Interval(gt=0, le=1e6)]


@checked
def train(
    corpus: Annotated[
        Corpus | None, Only(without=("parallel",)), Written(metavar="CORPUS...", repeat=True)
    ] = None,
    *,
    out: PathLike,
    parallel: Annotated[Sequence[Side] | None, Written(metavar="SOURCE TARGET", words=2)] = None,
    weight: Annotated[Sequence[Weight] | None, Only(without=("parallel",))] = None,
    init: PathLike | None = None,
    objective: Annotated[
        Masked | Causal | str, TakesMethod("unmask.studies.training.recipe:OBJECTIVES")
    ] = "masked",
    shape: Shape = Shape(),  # noqa: B008
    optimisation: Optimisation = Optimisation(),  # noqa: B008
    held_out: HeldOut = HeldOut(),  # noqa: B008
    seed: Seed = 0,
    max_minutes: Annotated[float, Interval(ge=0, le=1e7)] | None = None,
    resume: bool = False,
    device: str = "auto",
    progress: Progress | None = None,
) -> unmask.TrainingRun:
    """Train a masked language model (or a causal one) from text, and leave it in the folder `out`.

    Settings that are left out are chosen for the data and the device, and printed first. The
    folder loads in unmask (as model) and in Hugging Face's transformers, and has a model card.
    An interrupt (Ctrl-C) ends the run after its step with a checkpoint and a usable model;
    resume continues with the same numbers. On several GPUs: torchrun --nproc-per-node N -m
    unmask train with the same options.

    Parameters:
        corpus: Text files, one text per line: .txt, .txt.xz, .txt.gz or .jsonl with the text
            under "text". Or a list of texts.
        out: Folder for the model; must not exist, unless resume.
        parallel: Instead of a corpus: a file of sources and one of their translations (for
            example what translate saved), line by line; or two lists of texts.
        weight: How often an epoch sees each corpus file, such as 1,8; one per file, in order.
        init: A model folder to start from; its shape and tokenizer are taken with its weights.
        objective: masked, or causal (of the next token).
        shape: Shape of the network, and its tokenizer.
        optimisation: Optimiser, steps and regularisation.
        held_out: Texts of the validation.
        seed: Seed of weights, order and masks.
        max_minutes: Pause after this time, with a checkpoint.
        resume: Go on with the run in out.
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
    return train_model(
        corpus,
        parallel,
        recipe,
        out,
        max_minutes=max_minutes,
        resume=resume,
        device=device,
        progress=progress,
    )
