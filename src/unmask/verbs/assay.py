"""`assay`: which score ranks measured variants of a sequence best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast

import unmask
from unmask.common.border.calls import checked
from unmask.common.border.marks import ShownType, Written
from unmask.common.checks import shown
from unmask.common.errors import InputError
from unmask.common.files import user_path
from unmask.joints.constructions.construction import Construction, Rule
from unmask.models.load import Model
from unmask.runs.file_names import file_name
from unmask.runs.lines import located_texts
from unmask.runs.progress import Progress
from unmask.runs.unpacking import source_name
from unmask.studies.variants.assay_scores import AssayScores, chosen_scores
from unmask.verbs import Alphabet, Force, PathLike, Positions

if TYPE_CHECKING:
    from pandas import DataFrame

    from unmask.scoring.scores.score import Score
    from unmask.studies.variants.scores.score import VariantScore

    Measurements: TypeAlias = PathLike | DataFrame | Sequence[Mapping[str, Any]]
else:
    Measurements = Annotated[
        Any,
        ShownType("str | PathLike[str] | DataFrame | Sequence[Mapping[str, Any]]"),
        Written(metavar="MEASURED", placed=True),
    ]


@checked
def assay(
    sequence: PathLike,
    measured: Measurements,
    model: Model = None,
    *,
    score: AssayScores = "all",
    construction: Rule | None = None,
    better: Literal["higher", "lower"] = "higher",
    column: str | None = None,
    variant: str | None = None,
    positions: Positions = None,
    skip_bad: bool = False,
    alphabet: Alphabet = None,
    save: PathLike | None = None,
    force: Force = False,
    progress: Progress | None = None,
) -> unmask.Assay:
    """Say which score ranks the measured variants of a sequence best, and how sure that is.

    A variant may have any number of changes. Each score is compared with the measured values by
    Spearman's rho, or the area under the curve for two classes, with intervals by bootstrap over
    the variants.

    Parameters:
        sequence: The sequence whose variants were measured, such as a protein; in Python a Path
            is a file that holds it.
        measured: CSV or TSV file of variants (A24G+L30V, whole sequences, or residues at
            positions) with measured values; in Python also a pandas frame, or a list of rows.
        score: all, or some of {names}. The first
            ones, all, are over the sites that vary and the alphabet; the others are of the whole
            text, as `score` has them. pairs:NAME has a construction of its own. In Python also
            objects, such as unmask.AnyOrder(orders=32).
        construction: How the joints of pairs are derived, for epistasis and pairs: a construction
            of `fill` [default: balanced].
        better: Which values are better.
        column: The column of the values [default: the only one of numbers].
        variant: The column of the variants [default: the first without numbers].
        positions: Residues that vary, such as 24,30-33 (the first is 1), or all [default: those
            that some variant changes].
        skip_bad: Leave out rows that cannot be read, and count them.
        alphabet: The tokens that may stand at a position: letters such as ACDEFGHIKLMNPQRSTVWY,
            words with commas, or a file of either [default: every regular token of a small
            vocabulary].
        save: File for all variants and their scores: Parquet, CSV or TSV, by its ending.

    Returns:
        An `Assay`: a row per score, best first, and a sentence that recommends one, or none.

    >>> values = {"cat2dog": 0.9, "cat2man": 0.2, "cat2bird": 0.4}
    >>> rows = [{"variant": name, "value": value} for name, value in values.items()]
    >>> words = "cat,dog,man,bird"
    >>> assay = unmask.assay("the cat sat", rows, score="singles,pll", alphabet=words)
    >>> sorted(row["score"] for row in assay.scores)
    ['pll', 'singles']
    """
    from unmask.common.files import output_file
    from unmask.studies.variants.saved_table import TABLES
    from unmask.studies.variants.score_comparison import assayed

    # `checked` has made methods of the names.
    scores = cast("Sequence[VariantScore | Score]", score)
    chosen = chosen_scores(scores, cast("Construction | None", construction))
    save_file = None
    if save is not None:
        file_of_sequence = None if isinstance(sequence, str) else sequence
        reads = (file_of_sequence, model, measured, alphabet)
        save_file = output_file("save", save, reads, TABLES)
    answer = assayed(
        _one_sequence(sequence),
        model,
        measured,
        scores=chosen,
        positions=positions,
        column=column,
        variant=variant,
        better=better,
        skip_bad=skip_bad,
        alphabet=alphabet,
        force=force,
        progress=progress,
    )
    if save_file is not None:
        answer.write(save_file)
    return answer


def _one_sequence(sequence: PathLike) -> str:
    """The sequence that was given, or the only one of a file."""
    if isinstance(sequence, str):
        refuse_file_of_sequence(sequence, f"Path({shown(sequence)})")
        return sequence
    path = user_path(sequence, "sequence")
    sequences = [text for _, text in located_texts(path) if text]
    if len(sequences) != 1:
        raise InputError(
            f"{source_name(path)!r} has {len(sequences)} sequences, and measured variants are those"
            " of one: give a file with one sequence"
        )
    return sequences[0]


def refuse_file_of_sequence(sequence: str, instead: str) -> None:
    """Raise if a sequence is the name of a file, or looks like one; `instead` gives the file."""
    is_named = file_name(sequence)
    if is_named is not None:
        raise InputError(
            f"the sequence {shown(sequence)} {is_named}", use=f"give {instead} to read the file"
        )
