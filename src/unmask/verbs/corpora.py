"""The verb `check`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import unmask
from unmask.common.border.calls import checked
from unmask.common.border.marks import Written
from unmask.models.load import Model
from unmask.runs.progress import Progress
from unmask.verbs import PathLike


@checked
def check(
    model: Model = None,
    *,
    data: Annotated[PathLike | Sequence[str] | None, Written(metavar="PATH")] = None,
    progress: Progress | None = None,
) -> unmask.Check:
    """Say what was understood of a model (tokenizer, mask, longest text) and what looks wrong.

    With data, one token at a time is masked in those texts: a model that is read wrong shows in
    the accuracy.

    Parameters:
        data: Texts of the kind it was trained on: one per line, or .fasta; - is standard input.
            Or a list of texts.

    Returns:
        A `Check`: the facts of the model, and its concerns.

    >>> unmask.check().concerns
    ()
    """
    from unmask.verbs.answers.checking import checked_model

    return checked_model(model, data, progress)
