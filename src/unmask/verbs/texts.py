"""Verbs on one text, or on each of many: fill, compare, mutants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast

from annotated_types import Interval

import unmask
from unmask.common.border.calls import checked
from unmask.common.border.marks import Only, ShownType, Written
from unmask.common.errors import InputError, argument_name
from unmask.joints.constructions.construction import Construction, Rule, Rules
from unmask.models.load import Model
from unmask.runs.progress import Progress
from unmask.studies.variants.ranking import Ranking
from unmask.verbs import Alphabet, Force, PathLike, Texts, one_or_many
from unmask.verbs.answers.search import Search

Count = Annotated[int, Interval(ge=1, le=10**7)]
CANDIDATES = (
    "How many tokens to consider at each blank [default: as many as take about two seconds]."
)
Candidates = Annotated[
    Count | Sequence[Sequence[int]] | None, Written(metavar="INT", short="-n", help=CANDIDATES)
]
Exact = Annotated[
    bool,
    Only(without=("candidates",)),
    Written(help="Consider every token of the vocabulary, special ones excepted."),
]
BLANKED = "Tokens of a whole text to blank out, such as 3,4; the first, usually [CLS], is 0."
Positions = Annotated[Sequence[int] | None, Written(help=BLANKED)]
Words = Annotated[
    Sequence[str] | None,
    Written(help="The words that belong in the blanks: shown, and measured by compare."),
]
Shown = Annotated[
    int, Interval(ge=1, le=1_000_000), Written(short="-t", help="How many completions to show.")
]
OF_SCAN = Only(without=("measured",))
"""Marks what `mutants` takes without measured values alone."""
MUTANTS_SHOWN = 20
if TYPE_CHECKING:
    from pandas import DataFrame

    Measurements: TypeAlias = PathLike | DataFrame | Sequence[Mapping[str, Any]] | None
else:
    Measurements = Annotated[
        Any,
        ShownType("str | PathLike[str] | DataFrame | Sequence[Mapping[str, Any]] | None"),
        Written(metavar="PATH"),
    ]


@one_or_many
@checked
def fill(
    text: Texts,
    model: Model = None,
    *,
    construction: Rule | None = None,
    candidates: Candidates = None,
    exact: Exact = False,
    top: Shown = 10,
    positions: Positions = None,
    targets: Words = None,
    alphabet: Alphabet = None,
    search: Search = Search(),  # noqa: B008
    force: Force = False,
    progress: Progress | None = None,
) -> Iterator[unmask.Filling]:
    """Fill the blanks of a text by their joint probability, beside what independent blanks
    would give.

    One text gives one answer; a list of texts, or a file of them (in Python a Path), whose
    passes run together, gives a list. Special tokens are outside the support of a filled text.
    With one blank all constructions are the model's own conditional.

    From three blanks on by chain without candidates, with [WORD] and [GAP:2-5], and with the
    options of a search, fillings are searched over the whole vocabulary, and the answer says
    how much of the mass was seen and what is certain.

    Parameters:
        text: Text with [MASK] at each blank, [WORD] for a whole word or [GAP:2-5] for two to
            five tokens.
        construction: How the joint is derived: the name of a construction (see
            `unmask.CONSTRUCTIONS`), family:ALPHA,LAMBDA, or a rule of your own, my_rules.py:Mine;
            in Python also an object such as unmask.HCB(pivot=...), or a function from tables to
            a joint [default: restarted for one or two blanks, chain from three on].
        search: Search over the whole vocabulary, and constraints on fillings.

    Returns:
        A `Filling`; of a list of texts, or of a file, a list of them.

    >>> filling = unmask.fill("She drank a cup of [MASK].", top=2)
    >>> [completion.text for completion in filling.completions]
    ['She drank a cup of tea.', 'She drank a cup of coffee.']
    """
    from unmask.verbs.answers.blanked_text import Grid
    from unmask.verbs.answers.filling import fillings

    grid = Grid(positions, targets, candidates, exact, alphabet, force)
    rule = cast("Construction | None", construction)
    yield from fillings(text, model, rule, grid, search, top, progress)


@one_or_many
@checked
def compare(
    text: Texts,
    model: Model = None,
    *,
    constructions: Rules = "all",
    construction: Annotated[str | None, Written(metavar="NAME", short="-c")] = None,
    candidates: Candidates = None,
    exact: Exact = False,
    top: Shown = 10,
    positions: Positions = None,
    targets: Words = None,
    alphabet: Alphabet = None,
    figure: PathLike | None = None,
    force: Force = False,
    progress: Progress | None = None,
) -> Iterator[unmask.Comparison]:
    """Put the joints of all constructions side by side: completions, entropy, dependence,
    faithfulness to the model.

    The text has two blanks or more. The tokens that stood in the blanks are known where
    positions of a whole text are given, or targets, one per blank; then the metrics are those
    of these tokens.

    Parameters:
        text: Text with [MASK] at each blank.
        constructions: all, or some constructions of `fill`, such as product,chain.
        construction: The construction by which completions are ranked [default: restarted].
        figure: Draw the joint of two blanks, independent and by the default, to this file (png,
            pdf, svg).

    Returns:
        A `Comparison`; of a list of texts, or of a file, a list of them.

    >>> text = "The [MASK] [MASK] at the casino."
    >>> comparison = unmask.compare(text, constructions="product,mrf,chain", candidates=32)
    >>> list(comparison.joints), comparison.ranked_by
    (['product', 'mrf', 'chain'], 'chain')
    """
    from unmask.verbs.answers.blanked_text import Grid
    from unmask.verbs.answers.comparison import comparisons

    grid = Grid(positions, targets, candidates, exact, alphabet, force)
    rules = cast("tuple[Construction, ...]", constructions)
    yield from comparisons(text, model, rules, construction, grid, top, figure, progress)


@one_or_many
@checked
def mutants(
    sequence: Texts,
    mutations: Annotated[
        PathLike | Sequence[str] | None,
        Only(without=("positions", "measured")),
        Written(metavar="NAMES"),
    ] = None,
    model: Model = None,
    *,
    positions: Annotated[str | Sequence[int] | None, Written(metavar="PLACES")] = None,
    changes: Annotated[
        Annotated[int, Interval(ge=1, le=4)] | None,
        Only(beside=("positions",), without=("measured",)),
    ] = None,
    measured: Measurements = None,
    ranking: Annotated[Ranking, Only(beside=("measured",))] = Ranking(),  # noqa: B008
    construction: Rule = "balanced",
    alphabet: Alphabet = None,
    top: Annotated[Shown | None, OF_SCAN] = None,
    by: Annotated[
        Literal["log_prob", "effect", "singles", "epistasis", "interaction"] | None, OF_SCAN
    ] = None,
    save: PathLike | None = None,
    figure: Annotated[PathLike | None, OF_SCAN] = None,
    force: Force = False,
    progress: Progress | None = None,
) -> Iterator[unmask.Mutants | unmask.Measured]:
    """Score mutants of a sequence: their log-probabilities, the sum of their single effects,
    and the difference, epistasis.

    One sequence gives one answer, a list of sequences or a file (in Python a Path) a list. Give
    mutations or positions. Exact over the alphabet for up to four changes. With measured, a
    list of variants with measured values, the answer says which score ranks them best, and how
    sure that is.

    Parameters:
        sequence: A sequence, such as a protein.
        mutations: Mutants, such as A24G,A24G+L30V (or A24G:L30V), or a file of them, one per
            line; or a list of names.
        positions: Or residues to scan, such as 24,30-33 (the first is 1), or all; of measured,
            those that vary.
        changes: How many residues of a scan change together, 1 to 4 [default: 1].
        measured: CSV or TSV file of variants (A24G+L30V, whole sequences, or residues at
            positions) with measured values; or a pandas frame, or a list of rows.
        ranking: How scores are compared with measured values.
        alphabet: The tokens that may stand at a position: letters such as ACDEFGHIKLMNPQRSTVWY,
            words with commas, or a file of either [default: every regular token of a small
            vocabulary].
        top: How many mutants to print, best first [default: 20].
        by: The number that ranks them [default: effect].
        save: File for all mutants and their numbers: Parquet, CSV or TSV, by its ending.
        figure: Draw effects or epistasis as a heat map to this file (png, pdf, svg).

    Returns:
        `Mutants`; with measured, `Measured`. Of a list of sequences, or of a file, a list.

    >>> mutants = unmask.mutants("the cat sat", "cat2dog", alphabet="cat,dog,man")
    >>> mutants.to_frame()["mutant"].tolist()
    ['cat2dog']
    """
    if measured is not None and len(sequence) > 1:
        raise InputError(
            f"is of one sequence, and {len(sequence)} were given",
            argument="measured",
            use="give one sequence",
        )
    from unmask.common.files import output_file
    from unmask.studies.variants.saved_table import TABLES
    from unmask.studies.variants.scan import scans
    from unmask.verbs.answers.plots import figure_path, save_figure

    reads = (model, mutations, alphabet, measured)
    figure_file = figure_path(figure, len(sequence), reads)
    save_file = None if save is None else output_file("save", save, reads, TABLES, len(sequence))
    if save_file and figure_file and save_file.resolve() == figure_file.resolve():
        raise InputError(
            f"and {argument_name('figure')} are one file, {str(save_file)!r}",
            argument="save",
            use="name two",
        )
    answers: Iterator[unmask.Mutants | unmask.Measured]
    rule = cast(Construction, construction)
    if measured is None:
        drawn = figure_file is not None
        answers = scans(
            sequence,
            model,
            mutations,
            positions,
            1 if changes is None else changes,
            rule,
            alphabet,
            MUTANTS_SHOWN if top is None else top,
            "effect" if by is None else by,
            force,
            progress,
            drawn,
        )
    else:
        from unmask.studies.variants.score_comparison import measure

        answers = (
            measure(one, model, measured, positions, ranking, rule, alphabet, force, progress)
            for one in sequence
        )
    for answer in answers:
        yield answer
        if save_file is not None:
            answer.write(save_file)
        if hasattr(answer, "figure"):
            save_figure(answer.figure, figure_file)
