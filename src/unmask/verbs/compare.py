"""`compare`: every construction on the blanks of one text, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import unmask
from unmask.models.load import Model
from unmask.runs.progress import Progress
from unmask.signature import Written, checked
from unmask.verbs.shared import Alphabet, Candidates, Joint, PathLike, Positions, Shown, Texts, Words, one_or_many


@one_or_many
@checked
def compare(
    text: Texts,
    model: Model = None,
    *,
    joints: Annotated[str | Sequence[str], Written(metavar="A,B")] = "all",
    joint: Joint | None = None,
    candidates: Candidates = None,
    exact: bool = False,
    top: Shown = 10,
    positions: Positions = None,
    targets: Words = None,
    alphabet: Alphabet = None,
    figure: PathLike | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Iterator[unmask.Comparison]:
    """Put the joints of all constructions side by side: completions, entropy, dependence, faithfulness to the model.

    The text has two blanks or more. The tokens that stood in the blanks are known where positions of a whole text are given, or
    targets, one per blank; then the metrics are those of these tokens.

    Parameters:
        text: Text with [MASK] at each blank.
        joints: all, or some constructions of `fill`, such as product,chain.
        joint: The construction by which completions are ranked [default: restarted].
        candidates: How many tokens to consider at each blank [default: as many as take about two seconds].
        exact: Consider every token of the vocabulary, special ones excepted.
        top: How many completions to show.
        positions: Tokens of a whole text to blank out, such as 3,4; the first, usually [CLS], is 0.
        targets: The words that belong in the blanks: shown, and measured.
        alphabet: The only tokens that may stand in a blank: letters such as ACDEFGHIKLMNPQRSTVWY, words with commas, or a file
            of either.
        figure: Draw the joint of two blanks, independent and by the default, to this file (png, pdf, svg).
        force: Go on where there are more than 200,000 passes or a billion cells.

    >>> found = unmask.compare("The [MASK] [MASK] at the casino.", joints="product,mrf,chain", candidates=32)
    >>> list(found.joints), found.ranked_by
    (['product', 'mrf', 'chain'], 'chain')
    """
    from unmask.answers.blanked_text import Grid
    from unmask.answers.comparison import comparisons

    grid = Grid(positions, targets, candidates, exact, alphabet, force)
    yield from comparisons(text, model, joints, joint, grid, top, figure, progress)
