"""`profile`: how much two blanks depend on each other, by their distance, in the eyes of a model.

    f(d) = (mean of I_ij at |i - j| = d) / (mean of min(H_i, H_j) at d)

`unmask.tables.profile` says what it is, and `unmask.tables.profile_measurement` how it is measured.
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
from unmask.common.formats import count, nats
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

OF_PROFILES = {"": (b'{\n  "by_distance"',)}
"""A file that begins as a profile does, whatever its name's ending, may be replaced."""
ALL_SHOWN = 8
"""Distances up to this one are all shown, of larger ones the powers of two."""
COLUMNS = (
    Column("distance", show=str, text=True),
    Column("information", show=nats),
    Column("smaller entropy", show=nats),
    Column("ratio", show=nats),
    Column("pairs", show=count),
)


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
        """For each distance the mean information and smaller entropy of its pairs in nats, their
        ratio f, and the number of pairs. A file that does not say how it was measured has the
        ratio alone, and None for the others.
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
        """On what the profile was measured."""
        sentence = f"dependence of two blanks by distance, {self.n_texts:,} texts"
        if "mass_of_candidates" in self.measurement:
            tried = self.measurement["candidates"]
            held = self.measurement["mass_of_candidates"]
            sentence += (
                f", {tried} tokens tried at a site, which hold {held:.0%} of its probability"
            )
        return [f"{sentence}; nats"]

    def tables(self) -> list[Table]:
        """The smallest distances, and powers of two."""
        rows = []
        for row in self.rows:
            distance = row["distance"]
            is_power_of_two = distance.bit_count() == 1
            if distance <= ALL_SHOWN or is_power_of_two:
                rows.append(list(row.values()))
        note = f"{len(self.by_distance)} distances in all"
        return [Table(COLUMNS, rows, notes=[note])]


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
    answer = Profile(
        by_distance=measured.by_distance,
        fingerprint=measured.fingerprint,
        n_texts=measured.n_texts,
        measurement=measured.measurement,
    )
    if file is not None:
        answer.save(file)
    return answer


def _named_texts(data: PathLike | Sequence[str]) -> tuple[str, Iterable[str]]:
    """What messages and the profile call the texts, and the texts of a file or a list."""
    if not isinstance(data, str | os.PathLike):
        return f"{len(data):,} texts given", data
    path = user_path(data, "data")
    return Path(source_name(path)).name, plain_texts(path)
