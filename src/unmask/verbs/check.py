"""`check`: what was understood of a model, and what looks wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import unmask
from unmask.models.load import Model
from unmask.runs.progress import Progress
from unmask.signature import Written, checked
from unmask.verbs.shared import PathLike


@checked
def check(
    model: Model = None,
    *,
    data: Annotated[PathLike | Sequence[str] | None, Written(metavar="PATH")] = None,
    progress: Progress | None = None,
) -> unmask.Check:
    """Say what was understood of a model (tokenizer, mask, head, longest text, speed) and what looks wrong.

    With data, one token at a time is masked in those texts: a model that is read wrong shows in the accuracy.

    Parameters:
        data: Texts of the kind it was trained on: one per line, or .fasta; - is standard input. Or a list of texts.

    >>> unmask.check().concerns
    ()
    """
    from unmask.answers.checking import checked_model

    return checked_model(model, data, progress)
