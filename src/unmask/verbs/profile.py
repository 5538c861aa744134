"""`profile`: how much two blanks depend on each other, by their distance, in the eyes of a model.

    f(d) = (mean of I_ij at |i - j| = d) / (mean of min(H_i, H_j) at d)

`unmask.tables.profile` says what it is, and `unmask.tables.profile_measurement` how it is measured.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from annotated_types import Interval

from unmask.common.border.calls import checked
from unmask.common.border.marks import Written
from unmask.common.errors import InputError
from unmask.common.files import output_file, user_path
from unmask.models.load import Model
from unmask.runs.lines import plain_texts
from unmask.runs.progress import Progress
from unmask.runs.unpacking import source_name
from unmask.tables.profile import USUAL_CANDIDATES, Profile
from unmask.verbs import PathLike

OF_PROFILES = {"": (b'{\n  "by_distance"',)}
"""A file that begins as a profile does, whatever its name's ending, may be replaced."""


@checked
def profile(
    data: Annotated[PathLike | Sequence[str], Written(metavar="PATH")],
    model: Model = None,
    *,
    candidates: Annotated[int, Interval(ge=2, le=10**7), Written(short="-n")] = USUAL_CANDIDATES,
    limit: Annotated[int, Interval(ge=1, le=10**7)] = 2_000,
    save: PathLike | None = None,
    progress: Progress | None = None,
) -> Profile:
    """Measure a model's dependence profile: how much two blanks depend on each other, by their
    distance.

    The decoders least-dependent and verified read it. Sites of each text are hidden at random;
    texts of fewer than two known tokens are passed over.

    Parameters:
        data: Texts of the kind that the model was trained on: a file with one per line, .jsonl,
            .csv or .tsv with a column text, or FASTA; - is standard input. In Python also a list
            of texts.
        candidates: Tokens that are put at a hidden site, two or more.
        limit: The most texts to measure on.
        save: File for the profile, JSON.

    Returns:
        The `Profile`.

    >>> texts = [f"The {word} sat on the mat." for word in ("cat", "dog", "man")] * 20
    >>> profile = unmask.profile(texts, candidates=4)
    >>> profile.texts, profile.by_distance[0] > 0
    (60, True)
    """
    from unmask.models.first_look import look_at_first
    from unmask.models.load import as_model
    from unmask.tables.profile_measurement import profile_of, readable_rows

    file = None
    if save is not None:
        file = output_file("save", save, (data, model), OF_PROFILES)
    name, texts = _named_texts(data)  # before the model is loaded, which takes time
    lm = as_model(model)
    rows, skipped = readable_rows(lm, texts, limit)
    if not rows:
        raise InputError(
            f"{name} has no text of two known tokens: give texts of the kind that the model was"
            " trained on"
        )
    look_at_first(lm, (row.ids for row in rows))
    measured = profile_of(lm, rows, name, candidates, progress=progress, skipped=skipped)
    if file is not None:
        measured.save(file)
    return measured


def _named_texts(data: PathLike | Sequence[str]) -> tuple[str, Iterable[str]]:
    """What messages and the profile call the texts, and the texts of a file or a list."""
    if not isinstance(data, str | os.PathLike):
        return f"{len(data):,} texts given", data
    path = user_path(data, "data")
    return Path(source_name(path)).name, plain_texts(path)
