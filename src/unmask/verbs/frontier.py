"""`frontier`: every decoder that has a law as a language model on held-out texts, nats per token against passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from annotated_types import Interval

import unmask
from unmask.checks import one_of, whole
from unmask.errors import InputError
from unmask.models.load import Model
from unmask.runs.progress import Progress
from unmask.sampling.registry import refuse_no_law, with_law
from unmask.signature import Written, checked
from unmask.verbs.shared import PathLike, Seed

MOST_TOKENS = 100_000


@checked
def frontier(
    data: Annotated[PathLike | Sequence[str], Written(metavar="PATH", named=True)],
    model: Model = None,
    *,
    decoders: Sequence[str] | None = None,
    passes: Sequence[int] = (2, 4, 8, 16),
    length: Annotated[int, Interval(ge=2, le=MOST_TOKENS)] = 16,
    first: bool = False,
    sentences: Annotated[int, Interval(ge=1, le=10_000_000)] = 256,
    seed: Seed = 0,
    out: PathLike | None = None,
    progress: Progress | None = None,
) -> unmask.Frontier:
    """Nats per token against passes, for every decoder that has a law, beside one token per pass.

    All tokens are masked at the start; q runs over regular tokens at temperature 1. Intervals are paired by text.

    Parameters:
        data: Texts: a file with one per line, .conllu or .fasta (also .gz, .xz), - (standard input), or snli or xsum. In
            Python also a list of texts.
        decoders: Decoders with a law [default: all].
        passes: Passes of each, below length; of verified, its sets.
        length: Tokens of a text; texts of another length are skipped.
        first: Take the first tokens of longer texts, too.
        sentences: The most texts to measure.
        seed: Seed of random orders and of the bootstrap.
        out: Folder of the run; the same command continues a run that was stopped. Left out, the result is in memory only.

    >>> texts = ["The dog barked at the old man.", "A girl sat on the red chair."]
    >>> unmask.frontier(texts, decoders=["interleaved"], passes=[2], length=8).to_frame()["decoder"].tolist()
    ['interleaved', 'surest first', 'random order', 'left to right']
    """
    from unmask.evaluation.frontier import KIND, Point, measured_frontier
    from unmask.runs.folder import run_output

    for name in decoders or ():
        refuse_no_law(f"decoders {name}", name)
        one_of("decoders", name, with_law())
    folder = run_output(KIND, out)
    names = dict.fromkeys(with_law() if decoders is None else decoders)
    numbers = sorted({whole("passes", number, 1, MOST_TOKENS) for number in passes})
    points = [Point(name, number) for name in names for number in numbers if number < length]
    if not points:
        raise InputError(f"passes {', '.join(map(str, passes))}: none is below the length, {length}: give smaller numbers")
    return measured_frontier(data, model, points, (length, first, sentences), seed, folder, progress)
