"""`mutants`: the model's numbers for single and multiple mutants of a sequence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, cast

from annotated_types import Interval

import unmask
from unmask.common.border.calls import checked
from unmask.common.border.marks import Only, Written
from unmask.common.errors import InputError, argument_name
from unmask.joints.constructions.construction import Construction, Rule
from unmask.models.load import Model
from unmask.runs.progress import Progress
from unmask.studies.variants.mutants import Ranked
from unmask.verbs import Alphabet, Force, PathLike, Positions, Texts, one_or_many


@one_or_many
@checked
def mutants(
    sequence: Texts,
    mutations: Annotated[
        PathLike | Sequence[str] | None,
        Only(without=("positions",)),
        Written(metavar="NAMES"),
    ] = None,
    model: Model = None,
    *,
    positions: Positions = None,
    changes: Annotated[
        Annotated[int, Interval(ge=1, le=4)] | None, Only(beside=("positions",))
    ] = None,
    construction: Rule = "balanced",
    alphabet: Alphabet = None,
    top: Annotated[int, Interval(ge=1, le=1_000_000), Written(short="-t")] | None = None,
    rank_by: Ranked | None = None,
    save: PathLike | None = None,
    figure: PathLike | None = None,
    force: Force = False,
    progress: Progress | None = None,
) -> Iterator[unmask.Mutants]:
    """Score mutants of a sequence: their log-probabilities, the sum of their single effects,
    and the difference, epistasis.

    One sequence gives one answer, a list of sequences or a file (in Python a Path) a list. Give
    mutations or positions. Exact over the alphabet for up to four changes. Which score ranks
    variants that were measured best, `assay` says.

    Parameters:
        sequence: A sequence, such as a protein.
        mutations: Mutants, such as A24G,A24G+L30V (or A24G:L30V), or a file of them, one per
            line; or a list of names.
        positions: Or residues to scan, such as 24,30-33 (the first is 1), or all.
        changes: How many residues of a scan change together, 1 to 4 [default: 1].
        alphabet: The tokens that may stand at a position: letters such as ACDEFGHIKLMNPQRSTVWY,
            words with commas, or a file of either [default: every regular token of a small
            vocabulary].
        top: How many mutants to show, best first [default: 20 are printed, JSON has all].
        rank_by: The number that ranks them [default: effect; JSON has the order of the scan].
        save: File for all mutants and their numbers: Parquet, CSV or TSV, by its ending.
        figure: Draw effects or epistasis as a heat map to this file (png, pdf, svg).

    Returns:
        `Mutants`; of a list of sequences, or of a file, a list of them.

    >>> mutants = unmask.mutants("the cat sat", "cat2dog", alphabet="cat,dog,man")
    >>> mutants.to_frame()["mutant"].tolist()
    ['cat2dog']
    """
    from unmask.common.figure_files import figure_path, save_figure
    from unmask.common.files import output_file
    from unmask.studies.variants.saved_table import TABLES
    from unmask.studies.variants.scan import scans

    reads = (model, mutations, alphabet)
    figure_file = figure_path(figure, len(sequence), reads)
    save_file = None
    if save is not None:
        save_file = output_file("save", save, reads, TABLES, len(sequence))
    if save_file and figure_file and save_file.resolve() == figure_file.resolve():
        raise InputError(
            f"and {argument_name('figure')} are one file, {str(save_file)!r}",
            argument="save",
            use="name two",
        )
    answers = scans(
        sequence,
        model,
        mutations=mutations,
        positions=positions,
        changes=1 if changes is None else changes,
        construction=cast(Construction, construction),
        alphabet=alphabet,
        top=top,
        rank_by=rank_by,
        force=force,
        progress=progress,
        drawn=figure_file is not None,
    )
    for answer in answers:
        yield answer
        if save_file is not None:
            answer.write(save_file)
        if figure_file is not None:
            save_figure(answer.figure, figure_file)
