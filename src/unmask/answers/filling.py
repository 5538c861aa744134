"""`fill`: from a text with blanks to its most probable completions under an explicit joint of the blanks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from unmask.answers.blanked_text import BlankedText, Filling, Grid, for_each, with_tables
from unmask.answers.chain_filling import SearchedText, searches
from unmask.answers.checking import look_at_first
from unmask.answers.search import Search
from unmask.joints.deriving import derive
from unmask.joints.registry import DEFAULT, INDEPENDENT, named
from unmask.models.load import Model, as_model
from unmask.runs.progress import Progress


def fillings(
    texts: Sequence[str],
    model: Model,
    joint: str | None,
    grid: Grid,
    search: Search,
    top: int,
    progress: Progress | None,
) -> Iterator[Filling]:
    """The answers of `fill`, one by one; everything is checked before the first."""
    construction = None if joint is None else named(joint, "joint").name
    lm = as_model(model)

    def read(text: str) -> BlankedText | SearchedText:
        searched, cloze = searches(lm, text, construction, grid, search)
        return SearchedText.read(lm, text, grid, search, top, cloze) if searched else BlankedText.read(lm, text, grid, cloze)

    everything = for_each(texts, read)
    look_at_first(lm, (one.cloze.ids for one in everything))
    for searched, some in groupby(everything, lambda one: isinstance(one, SearchedText)):
        if searched:
            yield from (one.answer(progress) for one in some if isinstance(one, SearchedText))
        else:
            for one, tables in with_tables(lm, [one for one in some if isinstance(one, BlankedText)], progress):
                name = construction or DEFAULT
                yield Filling(one.text, lm, name, top, one.cloze, (derive(tables, name), derive(tables, INDEPENDENT)))
