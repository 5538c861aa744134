"""Verbs on a model and many texts: evaluate, frontier, check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, cast

from annotated_types import Interval

import unmask
from unmask.common.border.calls import checked
from unmask.common.border.marks import Only, TakesMethod, Written
from unmask.common.errors import InputError, argument_name
from unmask.joints.constructions.construction import Construction, Rules, all_constructions
from unmask.joints.registry import published
from unmask.models.load import Model
from unmask.runs.progress import Progress
from unmask.sampling.decoders.decoder import Decoder
from unmask.verbs import Alphabet, Engine, Out, PathLike, Seed

PAPER_STEPS, MOST_TOKENS = 50, 100_000
"""Steps of Arnold-Gokhale from uniform in the paper; the longest text of a frontier."""
Count = Annotated[int, Interval(ge=1, le=10_000_000)]
OWN_TABLE = Only(without=("paper",))
"""Marks what `paper` chooses itself."""


@checked
def frontier(
    data: Annotated[PathLike | Sequence[str], Written(metavar="PATH", named=True)],
    model: Model = None,
    *,
    decoders: Annotated[
        str | Decoder | Sequence[str | Decoder] | None,
        TakesMethod("unmask.sampling.decoders.decoder:DECODERS", several=True, options=False),
    ] = None,
    passes: Sequence[Annotated[int, Interval(ge=1, le=MOST_TOKENS)]] | None = None,
    sets: Sequence[Annotated[int, Interval(ge=1, le=MOST_TOKENS)]] | None = None,
    length: Annotated[int, Interval(ge=2, le=MOST_TOKENS)] = 16,
    first: bool = False,
    sentences: Count = 256,
    seed: Seed = 0,
    out: Out = None,
    progress: Progress | None = None,
) -> unmask.Frontier:
    """Nats per token against passes, for every decoder that has a law, beside one token per pass.

    All tokens are masked at the start; q runs over regular tokens at temperature 1. Intervals
    are paired by text.

    Parameters:
        data: Texts: a file with one per line, .conllu or .fasta (also .gz, .xz), - (standard
            input), or snli or xsum. In Python also a list of texts.
        decoders: Decoders with a law [default: all]. In Python also objects, such as
            unmask.LeastDependent(profile=...); a number of passes that is not the decoder's default
            is then its only one.
        passes: Passes of each, below length [default: 2, 4, 8 and 16].
        sets: Of verified: its sets, below length [default: the numbers of passes].
        length: Tokens of a text; texts of another length are skipped.
        first: Take the first tokens of longer texts, too.
        sentences: The most texts to measure.
        seed: Seed of random orders and of the bootstrap.

    Returns:
        A `Frontier`: nats per token of each decoder and number of passes, with intervals.

    >>> texts = ["The dog barked at the old man.", "A girl sat on the red chair."]
    >>> frontier = unmask.frontier(texts, decoders=["interleaved"], passes=[2], length=8)
    >>> frontier.to_frame()["decoder"].tolist()
    ['interleaved', 'surest first', 'random order', 'left to right']
    """
    from unmask.runs.folder import output_folder
    from unmask.studies.evaluation.frontier_rows import KIND, measured_frontier, points_of

    points = points_of(decoders, passes, sets, length)  # type: ignore[arg-type]  # names are objects
    folder = None if out is None else output_folder(out, KIND)
    return measured_frontier(
        data,
        model,
        points,
        length=length,
        first=first,
        most_texts=sentences,
        seed=seed,
        folder=folder,
        progress=progress,
    )


@checked
def check(
    model: Model = None,
    *,
    data: Annotated[PathLike | Sequence[str] | None, Written(metavar="PATH")] = None,
    progress: Progress | None = None,
) -> unmask.Check:
    """Say what was understood of a model (tokenizer, mask, longest text) and what looks wrong.

    With data, one token at a time is masked in those texts: a model that is read wrong shows in
    the accuracy.

    Parameters:
        data: Texts of the kind it was trained on: one per line, or .fasta; - is standard input.
            Or a list of texts.

    Returns:
        A `Check`: the facts of the model, and its concerns.

    >>> unmask.check().concerns
    ()
    """
    from unmask.verbs.answers.checking import checked_model

    return checked_model(model, data, progress)
