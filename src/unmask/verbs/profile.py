"""The verb `profile`: how much two blanks depend on each other, by their distance, according to a
model.

    f(d) = (mean of I_ij at |i - j| = d) / (mean of min(H_i, H_j) at d)

    I_ij   the mutual information of the blanks i and j, in nats
    H_i    the entropy of blank i, in nats

f has no unit. `unmask.tables.profile` says what a profile is for, and
`unmask.tables.profile_measurement` how it is measured.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Interval

from unmask.common.border.calls import checked
from unmask.common.border.marks import Written
from unmask.common.errors import InputError
from unmask.common.files import output_file, user_path
from unmask.common.formats import count, how_many, in_form, nats
from unmask.common.result_tables import Column, Table
from unmask.common.results import Result
from unmask.models.load import Model
from unmask.runs.lines import plain_texts
from unmask.runs.progress import Progress
from unmask.runs.unpacking import source_name
from unmask.tables.profile import USUAL_CANDIDATES, DependenceProfile
from unmask.verbs import PathLike

if TYPE_CHECKING:
    import pandas

START_OF_A_PROFILE = b'{\n  "by_distance"'  # of a file, as `Profile.save` writes it
MAY_BE_REPLACED = {"": (START_OF_A_PROFILE,)}
"""`save` replaces no other file than a profile: by the ending of its name ("": any), how it begins.
"""
ALL_SHOWN = 8
"""Distances up to this one are all shown, of larger ones the powers of two."""
COLUMNS = {
    "distance": Column("distance", show=str, text=True),
    "information": Column("information", show=nats),
    "smaller_entropy": Column("smaller entropy", show=nats),
    "ratio": Column("ratio", show=in_form(".3f")),
    "pairs": Column("pairs", show=count),
}
"""The columns of the table, by the keys of `Profile.rows`."""


@dataclass(frozen=True)
class Profile(DependenceProfile, Result):
    """How strongly blanks depend on each other, by their distance; see the module's text.

    by_distance   f at distance 1, 2, 3, ...
    fingerprint   of the model that it was measured on
    n_texts       how many it was measured on
    measurement   how and when it was measured

    >>> profile = unmask.Profile.of(unmask.MaskedLM.load())
    >>> profile.by_distance[0] > profile.by_distance[5]
    True
    """

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each distance: the mean information of its pairs and the mean of their smaller
        entropies, both in nats, their ratio f, and the number of pairs.

        All but the distance and the ratio are None if the profile does not say how it was measured.
        """
        unknown = [None] * len(self.by_distance)
        information = self.measurement.get("information", unknown)
        entropies = self.measurement.get("smaller_entropy", unknown)
        pairs = self.measurement.get("pairs", unknown)
        rows = []
        for i, ratio in enumerate(self.by_distance):
            row = {
                "distance": i + 1,
                "information": information[i],
                "smaller_entropy": entropies[i],
                "ratio": ratio,
                "pairs": pairs[i],
            }
            rows.append(row)
        return rows

    def to_frame(self) -> pandas.DataFrame:
        """One row per distance."""
        from unmask.common.lazy import pandas

        return pandas.DataFrame(self.rows)

    def about(self) -> list[str]:
        """On how many texts the profile was measured, and with which candidates."""
        measured_on = how_many(self.n_texts, "text")
        candidates = self.measurement.get("candidates")
        mass = self.measurement.get("mass_of_candidates")
        tried = ""
        if candidates is not None and mass is not None:
            tried = (
                f", {count(candidates)} tokens tried at a site, which hold {mass:.0%} of its"
                " probability"
            )
        return [
            f"dependence of two blanks by distance, {measured_on}{tried};"
            " information and entropy in nats"
        ]

    def tables(self) -> list[Table]:
        """The smallest distances, and powers of two."""
        rows = []
        for row in self.rows:
            distance = row["distance"]
            is_power_of_two = distance.bit_count() == 1
            if distance <= ALL_SHOWN or is_power_of_two:
                rows.append([row[key] for key in COLUMNS])
        note = f"{how_many(len(self.by_distance), 'distance')} in all"
        return [Table([*COLUMNS.values()], rows, notes=[note])]


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
    >>> profile.n_texts, profile.by_distance[0] > 0
    (60, True)
    """
    from unmask.models.first_look import look_at_first
    from unmask.models.load import as_model
    from unmask.tables.profile_measurement import profile_of, readable_rows

    file = None
    if save is not None:
        inputs = [data, model]  # those that are files are not to be overwritten
        file = output_file("save", save, reads=inputs, formats=MAY_BE_REPLACED)
    name, texts = _named_texts(data)  # before the model is loaded, which takes time
    lm = as_model(model)
    rows, skipped = readable_rows(lm, texts, limit)
    if not rows:
        raise InputError(
            f"no text has two known tokens ({name})",
            use="give texts of the kind that the model was trained on",
        )
    look_at_first(lm, (row.ids for row in rows))
    measured = profile_of(lm, rows, name, candidates, progress=progress, skipped=skipped)
    answer = Profile(**vars(measured))  # the same fields, as a result that can be shown
    if file is not None:
        answer.save(file)
    return answer


def _named_texts(data: PathLike | Sequence[str]) -> tuple[str, Iterable[str]]:
    """How messages and the profile name the texts, and the texts of a file or a list."""
    if not isinstance(data, str | os.PathLike):
        return f"{how_many(len(data), 'text')} given", data
    path = user_path(data, "data")
    file = source_name(path)  # of standard input too
    return Path(file).name, plain_texts(path)
