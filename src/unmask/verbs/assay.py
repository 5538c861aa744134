"""`assay`: which score ranks measured variants of a sequence best, and how sure that is.

`unmask.studies.variants.score_comparison` says what is compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias, cast

from unmask.common.border.calls import checked
from unmask.common.border.marks import ShownType, Written
from unmask.common.checks import shown
from unmask.common.errors import InputError
from unmask.common.files import output_file, user_path
from unmask.common.result_tables import Column, Table
from unmask.common.results import Result
from unmask.joints.constructions.construction import Construction, Rule
from unmask.models.load import Model
from unmask.runs.file_names import refuse_file_name
from unmask.runs.lines import located_texts
from unmask.runs.progress import Progress
from unmask.runs.unpacking import source_name
from unmask.studies.variants.assay_scores import (
    FEWER_CHANGES,
    PER_CHANGE,
    AssayScores,
    chosen_scores,
)
from unmask.verbs import Alphabet, Force, PathLike, Positions

if TYPE_CHECKING:
    from pandas import DataFrame

    from unmask.scoring.scores.score import Score
    from unmask.studies.variants.score_comparison import ComparedScores
    from unmask.studies.variants.scores.score import VariantScore

    Measurements: TypeAlias = PathLike | DataFrame | Sequence[Mapping[str, Any]]
else:  # at run time the frame's class is not imported: that would load pandas
    Measurements = Annotated[
        Any,
        ShownType("str | PathLike[str] | DataFrame | Sequence[Mapping[str, Any]]"),
        Written(metavar="MEASURED", placed=True),
    ]

STATISTICS = {"spearman": "Spearman's rho", "auc": "area under the curve"}
"""Each statistic as sentences call it."""
STATISTIC_HEADS = {"spearman": "rho", "auc": "AUC"}
"""The head of the column of each statistic."""
Numbers = dict[str, Any]
"""A row about one score: its name, and numbers by name."""


@dataclass(frozen=True)
class Assay(Result):
    """Measured variants of a sequence against the model's scores.

    sequence      the sequence as it was given
    places        the residues that vary, counted from 1
    construction  how joints were derived, for the scores that use one
    column        the name of the measured column
    better        which measured values are better: "higher" or "lower"
    statistic     "spearman" for numbers, "auc" for two classes
    chance        the statistic of a score that knows nothing
    names         the names of the variants
    changes       how many residues of each variant differ from the sequence
    values        the measured value of each variant
    numbers       for every score, by name, one number per variant: the variant's score minus
                  that of the sequence (for a score where lower is better, the reverse)
    scores        one row per score, best first. It has the statistic (value) with its interval
                  (low, high), and the share of resamples in which no other score is better
                  (best_in). If groups of variants with the same number of changes are large
                  enough, it also has the mean of the statistic within these groups (within) with
                  its interval (within_low, within_high)
    behind        for each score except the best: how far the best is above it, with the interval
                  of the paired difference
    notes         what was guessed, averaged or left out

    >>> measured = {"cat2dog": 1.0, "cat2man": 2.0, "cat2boy": 3.0}
    >>> rows = [{"mutant": mutant, "y": y} for mutant, y in measured.items()]
    >>> assay = unmask.assay("the cat sat", rows, alphabet="cat,dog,man,boy")
    >>> assay.scores[0]["score"], assay.statistic
    ('singles', 'spearman')
    """

    KEYS: ClassVar[tuple[str, ...]] = (
        "sequence",
        "n_variants",
        "places",
        "construction",
        "column",
        "better",
        "statistic",
        "verdict",
        "scores",
        "behind",
        "notes",
    )

    sequence: str
    places: tuple[int, ...]
    construction: str
    column: str
    better: str
    statistic: str
    chance: float
    names: list[str] = field(repr=False)
    changes: list[int] = field(repr=False)
    values: list[float] = field(repr=False)
    numbers: Mapping[str, list[float]] = field(repr=False)
    scores: list[Numbers]
    behind: list[Numbers]
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    # ---- numbers ----

    @property
    def n_variants(self) -> int:
        """How many there are."""
        return len(self.names)

    def to_frame(self) -> DataFrame:
        """One row per variant: its name, how many changes, the measured value, every score
        minus that of the sequence.
        """
        from unmask.common.lazy import pandas

        columns = {
            "mutant": self.names,
            "changes": self.changes,
            "measured": self.values,
            **self.numbers,
        }
        return pandas.DataFrame(columns)

    @checked
    def save(self, path: PathLike) -> None:
        """All variants, their values and scores to a file: Parquet, with the numbers of
        `to_dict` in its metadata, CSV or TSV.
        """
        from unmask.studies.variants.saved_table import TABLES, save_table

        file = output_file("save", path, formats=TABLES)
        save_table(file, self.to_frame(), about=self.to_dict())

    def __repr__(self) -> str:
        best = self.scores[0]
        return (
            f"Assay({len(self):,} variants at {len(self.places)} sites, best {best['score']}"
            f" {best['value']:.3f})"
        )

    # ---- what a person sees ----

    @property
    def heading(self) -> str:
        """The sequence."""
        return self.sequence

    def about(self) -> list[str]:
        """What was compared, and what the columns are."""
        sites = f"{len(self):,} variants at {len(self.places)} sites"
        statistic = f"{STATISTICS[self.statistic]} with {self.column}, {self.better} is better"
        within = ""
        if "within" in self.scores[0]:
            within = "; within: among variants with as many changes"
        return [f"{sites}; {statistic};", f"low, high: its 95 % interval{within}"]

    def tables(self) -> list[Table]:
        """The scores, best first."""
        shown = [name for name in self.scores[0] if name not in ("score", "best_in")]
        # A number has its own name as the head of its column, except these.
        other_heads = {
            "value": STATISTIC_HEADS[self.statistic],
            "within_low": "low",
            "within_high": "high",
        }
        columns = [Column("score", text=True)]
        columns += [Column(other_heads.get(name, name)) for name in shown]
        rows = []
        for row in self.scores:
            numbers = [row[name] for name in shown]
            rows.append([row["score"], *numbers])
        return [Table(columns, rows, notes=self.notes)]

    def verdict(self) -> list[str]:
        """Which score to use here, if any, and how sure that is."""
        return [self._recommendation()]

    def _recommendation(self) -> str:
        """A score and how sure it is that it is the best, or that none should be used."""
        of_model = [row for row in self.scores if row["score"] != FEWER_CHANGES]
        best = of_model[0]
        best_shown = f"{best['score']}: {STATISTICS[self.statistic]} {_with_interval(best)}"
        is_above_chance = best["low"] > self.chance

        # Scores that all rank the wrong way come first: most often the other values are better.
        plain_scores = [row for row in of_model if not _is_correction(row["score"])]
        if plain_scores and all(row["high"] < self.chance for row in plain_scores):
            wrong_way = self._wrong_way(plain_scores)
            correction = ""
            if is_above_chance:
                correction = f"; the best correction is {best_shown}"
            return f"{wrong_way}{correction}; check which values are better."
        if not is_above_chance:
            return (
                "Use no score: none is significantly better than chance on these"
                f" {len(self):,} variants (best {best_shown})."
            )
        if self.scores[0]["score"] == FEWER_CHANGES:
            return self._beside_number_of_changes(best_shown)
        return f"Use {best_shown}{self._ahead_of_others(best)}."

    def _beside_number_of_changes(self, best_shown: str) -> str:
        """The recommendation if the number of changes, which needs no model, ranks best of all.

        best_shown   the best score of the model, which is the next one, and its statistic
        """
        alone = "the number of changes alone"
        interval = _with_interval(self.scores[0])
        best_is_significantly_below = self.behind[0]["low"] > 0
        if best_is_significantly_below:
            return (
                f"Use no score: none ranks {self.column} as well as {alone} ({interval};"
                f" best {best_shown})."
            )
        return f"Use {best_shown}, but {alone} ({interval}) does as well."

    def _wrong_way(self, plain_scores: Sequence[Numbers]) -> str:
        """The sentence that all scores are below chance.

        plain_scores   their rows, best first
        """
        best = plain_scores[0]["value"]
        worst = plain_scores[-1]["value"]
        return (
            f"Use no score as it is: all rank {self.column} the wrong way"
            f" ({STATISTICS[self.statistic]} {worst:.3f} to {best:.3f})"
        )

    def _ahead_of_others(self, best: Numbers) -> str:
        """How sure it is that the best score is better than the others: what follows its name."""
        if not self.behind:
            return ""
        tied = []
        for row in self.behind:
            is_below = row["low"] > 0  # False also for NaN
            if not is_below:
                tied.append(row)
        if not tied:
            second = self.behind[0]
            return (
                f", significantly above the next, {second['score']} (by {_with_interval(second)})"
            )
        nearest = tied[0]
        others = ""
        if len(tied) > 1:
            others = f", and {len(tied) - 1} more are not significantly different"
        return (
            f", but that is not decided (best in {best['best_in']:.0%} of resamples;"
            f" {nearest['score']} is {_with_interval(nearest)} below{others})"
        )


def _is_correction(score: str) -> bool:
    """Whether a column is no score as it is, but a part of one or a score per change."""
    return score == "epistasis" or score.endswith(PER_CHANGE)


def _with_interval(row: Numbers) -> str:
    return f"{row['value']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"


@checked
def assay(
    sequence: PathLike,
    measured: Measurements,
    model: Model = None,
    *,
    score: AssayScores = "all",
    construction: Rule | None = None,
    better: Literal["higher", "lower"] = "higher",
    column: str | None = None,
    variant: str | None = None,
    positions: Positions = None,
    skip_bad: bool = False,
    alphabet: Alphabet = None,
    save: PathLike | None = None,
    force: Force = False,
    progress: Progress | None = None,
) -> Assay:
    """Say which score ranks the measured variants of a sequence best, and how sure that is.

    A variant may have any number of changes. Each score is compared with the measured values by
    Spearman's rho, or the area under the curve for two classes, with intervals by bootstrap over
    the variants.

    Parameters:
        sequence: The sequence whose variants were measured, such as a protein; in Python a Path
            is a file that holds it.
        measured: CSV or TSV file of variants (A24G+L30V, whole sequences, or residues at
            positions) with measured values; in Python also a pandas frame, or a list of rows.
        score: all, or some of {names}. The first
            ones, all, are over the sites that vary and the alphabet; the others are of the whole
            text, as `score` has them. pairs:NAME has a construction of its own. In Python also
            objects, such as unmask.AnyOrder(orders=32).
        construction: How the joints of pairs are derived, for epistasis and pairs: a construction
            of `fill` [default: balanced].
        better: Which values are better.
        column: The column of the values [default: the only one of numbers].
        variant: The column of the variants [default: the first without numbers].
        positions: Residues that vary, such as 24,30-33 (the first is 1), or all [default: those
            that some variant changes].
        skip_bad: Leave out rows that cannot be read, and count them.
        alphabet: The tokens that may stand at a position: letters such as ACDEFGHIKLMNPQRSTVWY,
            words with commas, or a file of either [default: every regular token of a small
            vocabulary].
        save: File for all variants and their scores: Parquet, CSV or TSV, by its ending.

    Returns:
        An `Assay`: a row per score, best first, and a sentence that recommends one, or none.

    >>> values = {"cat2dog": 0.9, "cat2man": 0.2, "cat2bird": 0.4}
    >>> rows = [{"variant": name, "value": value} for name, value in values.items()]
    >>> words = "cat,dog,man,bird"
    >>> assay = unmask.assay("the cat sat", rows, score="singles,pll", alphabet=words)
    >>> sorted(row["score"] for row in assay.scores)
    ['pll', 'singles']
    """
    from unmask.studies.variants.saved_table import TABLES
    from unmask.studies.variants.score_comparison import assayed

    # `checked` has made objects of the names.
    scores = cast("Sequence[VariantScore | Score]", score)
    chosen = chosen_scores(scores, cast("Construction | None", construction))
    save_file = None
    if save is not None:
        sequence_file = None if isinstance(sequence, str) else sequence
        inputs = (sequence_file, model, measured, alphabet)  # it may not be one of these files
        save_file = output_file("save", save, reads=inputs, formats=TABLES)
    compared = assayed(
        _one_sequence(sequence),
        model,
        measured,
        scores=chosen,
        positions=positions,
        column=column,
        variant=variant,
        better=better,
        skip_bad=skip_bad,
        alphabet=alphabet,
        force=force,
        progress=progress,
    )
    answer = answer_of(compared, better)
    if save_file is not None:
        answer.save(save_file)
    return answer


def answer_of(compared: ComparedScores, better: str) -> Assay:
    """The result for scores that were compared with the measured values."""
    variants = compared.variants
    target = compared.target
    return Assay(
        sequence=compared.sequence,
        places=variants.places,
        construction=compared.construction,
        column=variants.column,
        better=better,
        statistic=target.statistic,
        chance=target.chance,
        names=compared.names,
        changes=variants.changes.tolist(),
        values=variants.values.tolist(),
        numbers={name: column.tolist() for name, column in compared.columns.items()},
        scores=compared.rows,
        behind=compared.behind,
        notes=tuple(compared.notes),
    )


def _one_sequence(sequence: PathLike) -> str:
    """The sequence that was given, or the only one of a file."""
    if isinstance(sequence, str):
        as_file = f"Path({shown(sequence)})"
        refuse_file_name(sequence, file=as_file, as_text=None, kind="sequence")
        return sequence
    path = user_path(sequence, "sequence")
    sequences = [text for _number, text in located_texts(path) if text]  # without empty lines
    if len(sequences) != 1:
        raise InputError(
            f"{source_name(path)!r} has {len(sequences)} sequences, and measured variants are those"
            " of one: give a file with one sequence"
        )
    return sequences[0]
