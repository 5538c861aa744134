"""Verbs on one text, or on each of many: fill, compare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, cast

from annotated_types import Interval

import unmask
from unmask.common.border.calls import checked
from unmask.common.border.marks import Only, Written
from unmask.joints.constructions.construction import Construction, Rule, Rules
from unmask.models.load import Model
from unmask.runs.progress import Progress
from unmask.verbs import Alphabet, Force, PathLike, Positions, Texts, one_or_many
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
Words = Annotated[
    Sequence[str] | None,
    Written(help="The words that belong in the blanks: shown, and measured by compare."),
]
Shown = Annotated[
    int, Interval(ge=1, le=1_000_000), Written(short="-t", help="How many completions to show.")
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
