"""`evaluate`: Table 1 of Torroba Hennigen & Kim (2023) for any model and any text: pairs chosen, measured, put into a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from annotated_types import Interval

import unmask
from unmask.errors import InputError
from unmask.joints.registry import PUBLISHED, all_named
from unmask.models.load import Model
from unmask.runs.progress import Progress
from unmask.signature import Written, checked
from unmask.verbs.shared import Alphabet, Engine, PathLike, Seed

PAPER_STEPS = 50
"""Steps of Arnold-Gokhale from uniform in the paper."""


@checked
def evaluate(
    data: Annotated[PathLike | Sequence[str], Written(metavar="PATH", named=True)],
    model: Model = None,
    *,
    scheme: Literal["random", "contiguous"] = "random",
    pairs: Annotated[int, Interval(ge=1, le=10_000_000)] | None = None,
    seed: Seed = 0,
    joints: Annotated[str | Sequence[str], Written(metavar="NAMES")] = "all",
    paper: bool = False,
    support: Literal["regular", "all"] = "regular",
    alphabet: Alphabet = None,
    out: PathLike | None = None,
    engine: Engine = "local",
    progress: Progress | None = None,
) -> unmask.Evaluation:
    """Measure every construction on pairs of tokens: U-PPL, P-PPL, A-KL and G-KL, as in Table 1 of Torroba Hennigen & Kim (2023).

    A pair that fails is listed in the result and left out of the table.

    Parameters:
        data: Texts: a file with one per line, .conllu or .fasta (also .gz, .xz), - (standard input), or snli or xsum; or
            pairs: .jsonl with {"text": ..., "block": [i, j]} per line, in tokens. In Python also a list of texts.
        scheme: Two positions anywhere, or two adjacent ones.
        pairs: How many pairs to choose [default: as many as take about a minute on two cores, from 2 to 1,000; 1,000 on a
            GPU].
        seed: Seed of the choice of pairs and of the bootstrap.
        joints: all, or some constructions of `fill`, such as product,chain.
        paper: Table 1 as published: product, mrf_logit, mrf, hcb, and arnold_gokhale after 50 steps, over all columns of the
            output; the command prints both schemes if scheme is left out.
        support: What joints run over: regular tokens, or all columns of the model's output (the paper).
        alphabet: The only tokens that joints run over: letters such as ACDEFGHIKLMNPQRSTVWY, words with commas, or a file of
            either.
        out: Folder of the run; the same command continues a run that was stopped. Left out, the result is in memory only.
        engine: local, ray (a cluster: a worker per GPU, or per two CPUs), or ray:4 with another number of workers.

    >>> texts, words = ["The cat sat on the mat.", "The dog sat on the bed."], "cat,dog,sat,lay,mat,bed"
    >>> unmask.evaluate(texts, pairs=2, joints="product,chain", alphabet=words).pairs
    2
    """
    from unmask.evaluation.measure import KIND, evaluated
    from unmask.models.text.blanks import alphabet_tokens
    from unmask.runs.folder import run_output

    if paper:
        if joints != "all" or support != "regular" or alphabet is not None:
            raise InputError("paper was given, which chooses joints and support itself: leave these out")
        joints, support = PUBLISHED, "all"
    constructions = [construction.name for construction in all_named(joints)]
    if alphabet is not None and support != "regular":
        raise InputError(f"alphabet and support {support} exclude each other: leave one out")
    settings = {
        "constructions": constructions,
        "arnold_gokhale_steps": PAPER_STEPS if paper else None,
        "support": support,
        "alphabet": None if alphabet is None else list(alphabet_tokens(alphabet)),
    }
    folder = run_output(KIND, out)
    return evaluated(data, model, settings, (scheme, pairs, seed), folder, engine, progress)
