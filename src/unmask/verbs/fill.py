"""`fill`: from a text with blanks to its most probable completions under an explicit joint of the blanks."""

from __future__ import annotations

from collections.abc import Iterator

import unmask
from unmask.answers.search import Search
from unmask.models.load import Model
from unmask.runs.progress import Progress
from unmask.signature import checked
from unmask.verbs.shared import Alphabet, Candidates, Joint, Positions, Shown, Texts, Words, one_or_many


@one_or_many
@checked
def fill(
    text: Texts,
    model: Model = None,
    *,
    joint: Joint | None = None,
    candidates: Candidates = None,
    exact: bool = False,
    top: Shown = 10,
    positions: Positions = None,
    targets: Words = None,
    alphabet: Alphabet = None,
    search: Search = Search(),  # noqa: B008
    force: bool = False,
    progress: Progress | None = None,
) -> Iterator[unmask.Filling]:
    """Fill the blanks of a text by their joint probability, beside what independent blanks would give.

    One text gives one answer; a list of texts, whose passes run together, gives a list. Special tokens are outside the support of
    a filled text. With one blank all constructions are the model's own conditional.

    From three blanks on by chain without candidates, with [WORD] and [GAP:2-5], and with the options of a search, fillings are
    searched over the whole vocabulary, and the answer says how much of the mass was seen and what is certain.

    Parameters:
        text: Text with [MASK] at each blank, [WORD] for a whole word or [GAP:2-5] for two to five tokens.
        joint: How the joint is derived: product, mrf_logit, mrf, hcb, arnold_gokhale, balanced, pseudo_gibbs, restarted, chain
            or family:ALPHA,LAMBDA [default: restarted for one or two blanks, chain from three on].
        candidates: How many tokens to consider at each blank [default: as many as take about two seconds].
        exact: Consider every token of the vocabulary, special ones excepted.
        top: How many completions to show.
        positions: Tokens of a whole text to blank out, such as 3,4; the first, usually [CLS], is 0.
        targets: The words that belong in the blanks: shown, and measured by compare.
        alphabet: The only tokens that may stand in a blank: letters such as ACDEFGHIKLMNPQRSTVWY, words with commas, or a file
            of either.
        search: Search over the whole vocabulary, and constraints on fillings.
        force: Go on where there are more than 200,000 passes or a billion cells.

    >>> found = unmask.fill("She drank a cup of [MASK].", top=2)
    >>> [completion.text for completion in found.completions]
    ['She drank a cup of tea.', 'She drank a cup of coffee.']
    """
    from unmask.answers.blanked_text import Grid
    from unmask.answers.filling import fillings

    grid = Grid(positions, targets, candidates, exact, alphabet, force)
    yield from fillings(text, model, joint, grid, search, top, progress)
