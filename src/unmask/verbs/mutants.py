"""`mutants`: log-probabilities and epistasis of mutants of a sequence; or scores of measured variants against their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from annotated_types import Interval

from unmask.errors import InputError
from unmask.models.load import Model
from unmask.runs.progress import Progress
from unmask.signature import Written, checked
from unmask.variants.ranking import Ranking
from unmask.verbs.shared import Alphabet, Joint, PathLike, Shown, Texts, one_or_many, refuse_given

if TYPE_CHECKING:
    from pandas import DataFrame

    from unmask.variants.measured import Measured
    from unmask.variants.mutants import Mutants

    Measurements: TypeAlias = PathLike | DataFrame | Sequence[Mapping[str, Any]] | None
else:
    Measurements = Annotated[Any, Written(metavar="PATH")]


@one_or_many
@checked
def mutants(
    sequence: Texts,
    mutations: Annotated[PathLike | Sequence[str] | None, Written(metavar="NAMES")] = None,
    model: Model = None,
    *,
    positions: Annotated[str | Sequence[int] | None, Written(metavar="PLACES")] = None,
    changes: Annotated[int, Interval(ge=1, le=4)] = 1,
    measured: Measurements = None,
    ranking: Ranking = Ranking(),  # noqa: B008
    joint: Joint = "balanced",
    alphabet: Alphabet = None,
    top: Shown = 20,
    by: Literal["log_prob", "effect", "singles", "epistasis", "interaction"] = "effect",
    save: PathLike | None = None,
    figure: PathLike | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Iterator[Mutants | Measured]:
    """Score mutants of a sequence: their log-probabilities, the sum of their single effects, and the difference, epistasis.

    One sequence gives one answer, a list of sequences a list of them. Give mutations or positions. Exact over the alphabet for up
    to four changes. With measured, a list of variants with measured values, the answer says which score ranks them best, and how
    sure that is.

    Parameters:
        sequence: A sequence, such as a protein.
        mutations: Mutants, such as A24G,A24G+L30V, or a file of them, one per line; or a list of names.
        positions: Or residues to scan, such as 24,30-33 (the first is 1), or all; of measured, those that vary.
        changes: How many residues of a scan change together, 1 to 4.
        measured: CSV or TSV file of variants (A24G+L30V, whole sequences, or residues at positions) with measured values; or a
            pandas frame, or a list of rows.
        ranking: How scores are compared with measured values.
        joint: How the joint is derived: a construction of `fill`.
        alphabet: The tokens that may stand at a position: letters such as ACDEFGHIKLMNPQRSTVWY, words with commas, or a file
            of either [default: every regular token of a small vocabulary].
        top: How many mutants to print, best first.
        by: What ranks them.
        save: Parquet file for all mutants and their numbers.
        figure: Draw effects or epistasis as a heat map to this file (png, pdf, svg).
        force: Go on beyond 200,000 passes or five million mutants.

    >>> found = unmask.mutants("the cat sat", "cat2dog", alphabet="cat,dog,man")
    >>> found.to_frame()["mutant"].tolist()
    ['cat2dog']
    """
    if measured is None:
        refuse_given(Ranking, vars(ranking), vars(ranking), "mutations or positions")
    else:
        refuse_given(mutants, locals(), ("mutations", "changes", "top", "by", "figure"), "measured")
    if measured is not None and len(sequence) > 1:
        raise InputError(f"{len(sequence)} sequences and one list of measured variants were given: give one sequence")
    from unmask.answers.plots import figure_path, save_figure
    from unmask.runs.files import answer_file
    from unmask.variants.mutants import PARQUET, scans

    reads = (model, mutations, alphabet, measured)
    figure_file = figure_path(figure, len(sequence), reads)
    save_file = None if save is None else answer_file("save", save, PARQUET, len(sequence), reads)
    if save_file and figure_file and save_file.resolve() == figure_file.resolve():
        raise InputError(f"save and figure are one file, {str(save_file)!r}: name two")
    answers: Iterator[Mutants | Measured]
    if measured is None:
        answers = scans(sequence, model, mutations, positions, changes, joint, alphabet, top, by, force, progress)
    else:
        from unmask.variants.measured import measure

        answers = (measure(one, model, measured, positions, ranking, joint, alphabet, force, progress) for one in sequence)
    for answer in answers:
        yield answer
        if save_file is not None:
            answer.write(save_file)
        if hasattr(answer, "figure"):
            save_figure(answer.figure, figure_file)
