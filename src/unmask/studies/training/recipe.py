"""The choices of a user about a run: shape, objective, optimisation, held-out texts. Loads
nothing heavy.

What is left out is chosen for the data and the device (`choosing`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Interval

from unmask.common.border.calls import settings
from unmask.common.border.marks import Only, TakesMethod, Written
from unmask.studies.training.masking.scheme import MaskingScheme

PathLike = str | os.PathLike[str]
Corpus = PathLike | Sequence[PathLike]
"""A corpus as a user names it: a file, several files, or a list of texts."""
Side = PathLike | Sequence[str]
"""One side of a parallel corpus: a file, or a list of texts."""
Count = Annotated[int, Interval(ge=1, le=10**9)]
NEW = Only(without=("init",))
"""Marks what a new model takes, and a model to start from has already."""
OF_PAIRS = Only(beside=("parallel",))
"""Marks what means something in training on pairs alone."""
VALID_SHARE = 0.02
"""Share of the corpus' lines that is held out, where the user names neither it nor texts."""


@settings
class Shape:
    """Shape of the network, and its tokenizer.

    Parameters:
        size: Default shape: mini, tiny, small, medium or base [default: by the data and the
            device].
        layers: Encoder layers [default: by size].
        width: Hidden size [default: by size].
        heads: Attention heads [default: by size].
        vocab: Tokens of the vocabulary of the tokenizer that is trained [default: by size and
            the data].
        max_length: Longest text in tokens, start and end tokens included [default: 128; with
            init at most the model's positions].
        tokenizer: A tokenizer.json, or a model folder, to use instead of training one.

    >>> unmask.Shape(size="tiny", vocab=8000)
    Shape(size='tiny', layers=None, width=None, heads=None, vocab=8000, ...)
    """

    size: Annotated[Literal["mini", "tiny", "small", "medium", "base"] | None, NEW] = None
    layers: Annotated[Annotated[int, Interval(ge=1, le=1024)] | None, NEW] = None
    width: Annotated[Annotated[int, Interval(ge=1, le=1 << 16)] | None, NEW] = None
    heads: Annotated[Annotated[int, Interval(ge=1, le=1 << 10)] | None, NEW] = None
    vocab: Annotated[
        Annotated[int, Interval(ge=1, le=1 << 24)] | None, Only(without=("init", "tokenizer"))
    ] = None
    max_length: Annotated[int, Interval(ge=8, le=1 << 16)] | None = None
    tokenizer: Annotated[PathLike | None, NEW] = None


@settings
class Masked:
    """Predict hidden tokens from the others.

    Parameters:
        masking: fixed:R, uniform:A-B or k:N, or a scheme of your own such as my.py:Scheme
            [default: uniform:0.05-0.45, of translations uniform:0-1]. In Python also an object,
            such as unmask.FixedRate(rate=0.15).
        loss: factorised, or block (chain rule inside the masked block).
        mask_source: Rate at which source tokens are masked, too [default: 0.1; 0 with steps or
            init].
        refinement: Weight of learning to correct one's own one-step output.

    >>> unmask.Masked(loss="block").loss
    'block'
    """

    name: ClassVar[str] = "masked"
    masking: Annotated[
        MaskingScheme | str | None,
        TakesMethod("unmask.studies.training.masking.scheme:SCHEMES"),
        Written(metavar="SCHEME"),
    ] = None
    loss: Literal["factorised", "block"] = "factorised"
    mask_source: Annotated[Annotated[float, Interval(ge=0, le=0.9)] | None, OF_PAIRS] = None
    refinement: Annotated[float, Interval(ge=0, le=1e3), OF_PAIRS] = 0.0


@settings
class Causal:
    """Predict the next token from those before it.

    >>> unmask.Causal().name
    'causal'
    """

    name: ClassVar[str] = "causal"


OBJECTIVES = {"masked": Masked, "causal": Causal}


@settings
class Optimisation:
    """Optimisation.

    Parameters:
        optimiser: muon (orthogonalised steps for the layers' matrices), or adamw for all.
        lr: Peak learning rate [default: by size].
        warmup: Steps of rising learning rate; at most a tenth of all steps.
        steps: Optimisation steps [default: those of epochs].
        epochs: Passes over the corpus [default: by the data; 3 with init].
        batch_tokens: Tokens of each step [default: by size and the data].
        dropout: Share of each layer's output that training drops [default: by the epochs; 0
            with steps or init].
        label_smoothing: Share of each answer spread over the vocabulary.

    >>> unmask.Optimisation(steps=500, lr=0.002)
    Optimisation(optimiser='muon', lr=0.002, warmup=500, steps=500, ...)
    """

    optimiser: Literal["muon", "adamw"] = "muon"
    lr: Annotated[float, Interval(gt=0, le=10)] | None = None
    warmup: Annotated[int, Interval(ge=0, le=10**9)] = 500
    steps: Count | None = None
    epochs: Annotated[Annotated[float, Interval(gt=0, le=1e6)] | None, Only(without=("steps",))] = (
        None
    )
    batch_tokens: Annotated[int, Interval(ge=8, le=10**9)] | None = None
    dropout: Annotated[float, Interval(ge=0, le=0.9)] | None = None
    label_smoothing: Annotated[float, Interval(ge=0, le=0.9)] = 0.0


@settings
class HeldOut:
    """Validation.

    Parameters:
        valid: Held-out text: a file, or a list of texts [default: a share of the corpus].
        valid_share: Share of the corpus' lines held out [default: 0.02].

    >>> unmask.HeldOut(valid_share=0.1).share
    0.1
    """

    valid: Annotated[
        PathLike | Sequence[str] | None, Only(without=("parallel",)), Written(metavar="PATH")
    ] = None
    valid_share: Annotated[
        Annotated[float, Interval(gt=0, lt=1)] | None, Only(without=("valid",))
    ] = None

    @property
    def share(self) -> float:
        """The share of the corpus' lines that is held out, without `valid`."""
        return VALID_SHARE if self.valid_share is None else self.valid_share


@dataclass(frozen=True)
class Recipe:
    """Every choice about a run that decides its numbers.

    weight   how often an epoch sees each corpus file
    init     a model folder to start from
    """

    shape: Shape
    objective: Masked | Causal
    optimisation: Optimisation
    held_out: HeldOut
    seed: int
    weight: Sequence[float] | None
    init: PathLike | None

    def options(self) -> dict[str, Any]:
        """The choices as the command line has them, without groups; None is one left out."""
        groups = (self.shape, self.objective, self.optimisation, self.held_out)
        options: dict[str, Any] = {"init": self.init, "weight": self.weight}
        for group in groups:
            options |= vars(group)
        return options
