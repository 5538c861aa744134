"""Verbs on a model and many texts: evaluate, frontier."""

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
def evaluate(
    data: Annotated[PathLike | Sequence[str], Written(metavar="PATH", named=True)],
    model: Model = None,
    *,
    scheme: Literal["random", "contiguous"] = "random",
    pairs: Count | None = None,
    seed: Seed = 0,
    constructions: Annotated[Rules | None, OWN_TABLE] = None,
    paper: bool = False,
    support: Annotated[Literal["regular", "all"] | None, OWN_TABLE] = None,
    alphabet: Annotated[Alphabet, OWN_TABLE] = None,
    out: Out = None,
    engine: Engine = "local",
    progress: Progress | None = None,
) -> unmask.Evaluation:
    """Measure every construction on pairs of tokens: U-PPL, P-PPL, A-KL and G-KL, as in Table 1
    of Torroba Hennigen & Kim (2023).

    A pair that fails is listed in the result and left out of the table.

    Parameters:
        data: Texts: a file with one per line, .conllu or .fasta (also .gz, .xz), - (standard
            input), or snli or xsum; or pairs: .jsonl with {"text": ..., "block": [i, j]} per
            line, in tokens. In Python also a list of texts.
        scheme: Two positions anywhere, or two adjacent ones.
        pairs: How many pairs to choose [default: as many as take about a minute on two cores,
            from 2 to 1,000; 1,000 on a GPU].
        seed: Seed of the choice of pairs and of the bootstrap.
        constructions: all, or some constructions of `fill`, such as product,chain [default:
            all].
        paper: Table 1 as published: product, mrf_logit, mrf, hcb, and arnold_gokhale after 50
            steps, over all columns of the output; the command prints both schemes if scheme is
            left out, as JSON in one object.
        support: What joints run over: regular tokens, or all columns of the model's output (the
            paper) [default: regular].

    Returns:
        An `Evaluation`: the table, and the rows behind it.

    >>> texts = ["The cat sat on the mat.", "The dog sat on the bed."]
    >>> words = "cat,dog,sat,lay,mat,bed"
    >>> unmask.evaluate(texts, pairs=2, constructions="product,chain", alphabet=words).pairs
    2
    """
    from unmask.models.text.alphabet import alphabet_tokens
    from unmask.runs.folder import output_folder
    from unmask.studies.evaluation.run import KIND, evaluated

    if paper:
        support = "all"
    rules = _rules(constructions, paper)
    if alphabet is not None and support == "all":
        raise InputError(
            f"and {argument_name('support', support)} exclude each other",
            argument="alphabet",
            use="leave one out",
        )
    settings = {
        "constructions": [_in_settings(rule, paper, lasts=out is not None) for rule in rules],
        "arnold_gokhale_steps": PAPER_STEPS if paper else None,
        "support": "regular" if support is None else support,
        "alphabet": None if alphabet is None else list(alphabet_tokens(alphabet)),
    }
    folder = None if out is None else output_folder(out, KIND)
    return evaluated(data, model, rules, settings, (scheme, pairs, seed), folder, engine, progress)


def _rules(constructions: Rules | None, paper: bool) -> tuple[Construction, ...]:
    """The constructions of `evaluate`."""
    if paper:
        return published(PAPER_STEPS)
    if constructions is None:
        return all_constructions()
    return cast("tuple[Construction, ...]", constructions)


def _in_settings(construction: Construction, paper: bool, lasts: bool) -> Any:
    """What the settings of `evaluate` keep of a construction.

    lasts   whether a folder keeps them, from which the run may go on
    """
    if paper:  # the steps of the paper are a setting of their own
        return construction.name
    try:
        return construction.stored()
    except InputError:  # own code that stands in no file: nothing can go on with it
        if lasts:
            raise
        return construction.name


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
