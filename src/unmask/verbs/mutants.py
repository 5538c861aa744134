"""`mutants`: the model's numbers for single and multiple mutants of a sequence.

`unmask.studies.variants.effects` says what the numbers are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isnan, nan
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, cast

from annotated_types import Interval

from unmask.common.border.calls import checked
from unmask.common.border.marks import Only, Written
from unmask.common.errors import InputError, argument_name
from unmask.common.figure_files import figure_path, save_figure
from unmask.common.files import output_file
from unmask.common.formats import how_many
from unmask.common.result_tables import Column, Table
from unmask.common.results import Result
from unmask.joints.constructions.construction import Construction, Rule
from unmask.models.load import Model
from unmask.runs.progress import Progress
from unmask.verbs import Alphabet, Force, PathLike, Positions, Texts, one_or_many

if TYPE_CHECKING:
    import pandas

    from unmask.common.figures import Figure
    from unmask.studies.variants.scan import ScannedMutants

Ranked = Literal["log_prob", "effect", "singles", "epistasis", "interaction"]
"""The numbers that can rank mutants."""
SHOWN = 20
"""Mutants that are shown, unless the caller asks for another number."""


@dataclass(frozen=True)
class Mutants(Result):
    """Mutants of a sequence and the model's numbers for each; the five numbers have one entry
    per mutant.

    sequence      the sequence as it was given
    wild_type     its tokens
    alphabet      the tokens allowed at a position
    construction  how the joint of the changed places was derived
    changes       for each mutant its (place, token) pairs, places counted from 1
    numbers       log_prob, effect, singles, epistasis and interaction, by name; the module
                  `unmask.studies.variants.effects` defines them
    n_mutants     how many mutants the scan or the list has; fewer are measured if the user
                  stopped the work
    top           how many mutants to show; None if the caller did not say
    rank_by       the number that ranks them, largest first; None if the caller did not say

    >>> mutants = unmask.mutants("the cat sat", positions=[2], alphabet="cat,dog,man")
    >>> mutants.wild_type, len(mutants.changes)
    (('the', 'cat', 'sat'), 2)
    """

    KEYS: ClassVar[tuple[str, ...]] = ("sequence", "construction", "alphabet", "mutants=rows")

    sequence: str
    wild_type: tuple[str, ...]
    alphabet: tuple[str, ...]
    construction: str
    changes: list[tuple[tuple[int, str], ...]]
    numbers: Mapping[str, list[float]] = field(repr=False)
    n_mutants: int
    top: int | None = None
    rank_by: Ranked | None = None

    def __len__(self) -> int:
        return len(self.changes)

    # ---- numbers ----

    @cached_property
    def names(self) -> list[str]:
        """The names, such as "A24G+L30V"."""
        return [self._name(mutant) for mutant in self.changes]

    def _name(self, mutant: tuple[tuple[int, str], ...]) -> str:
        return "+".join(f"{self._residue(place)}{token}" for place, token in mutant)

    def _residue(self, place: int) -> str:
        """A residue of the sequence with its place, such as A24."""
        return f"{self.wild_type[place - 1]}{place}"

    @property
    def ranked_by(self) -> Ranked:
        """The number that ranks them: `rank_by`, or effect if the caller named none."""
        return "effect" if self.rank_by is None else self.rank_by

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The mutants: their names, how many changes, the five numbers. With `rank_by` the
        largest are first, with `top` there are no more than these.
        """
        if self.top is None and self.rank_by is None:  # all, in their own order
            return self._all_rows()
        count = len(self) if self.top is None else self.top
        return self._largest(count)._all_rows()

    def best(self) -> Mutants:
        """The mutants that are shown: the `top` (20 by default) with the largest number
        `rank_by` (effect by default), largest first.
        """
        count = SHOWN if self.top is None else self.top
        return self._largest(count)

    def _largest(self, count: int) -> Mutants:
        """The `count` mutants with the largest number `ranked_by`, largest first."""
        ranking = self.numbers[self.ranked_by]
        ranked = sorted(range(len(self)), key=lambda i: -ranking[i])
        chosen = ranked[:count]
        changes = [self.changes[i] for i in chosen]
        numbers = {}
        for name, values in self.numbers.items():
            numbers[name] = [values[i] for i in chosen]
        return replace(self, changes=changes, numbers=numbers)

    def _columns(self) -> dict[str, Sequence[Any]]:
        """The columns of a table of mutants, by name, with one entry per mutant."""
        counts = [len(mutant) for mutant in self.changes]
        return {"mutant": self.names, "changes": counts, **self.numbers}

    def _all_rows(self) -> list[dict[str, Any]]:
        """The same as `_columns`, with one dict per mutant."""
        columns = self._columns()
        names = list(columns)
        rows = []
        for cells in zip(*columns.values(), strict=True):
            rows.append(dict(zip(names, cells, strict=True)))
        return rows

    def to_frame(self) -> pandas.DataFrame:
        """One row per mutant, of all of them: its name, how many changes, the five numbers."""
        from unmask.common.lazy import pandas

        return pandas.DataFrame(self._columns())

    @checked
    def save(self, path: PathLike) -> None:
        """All mutants and their numbers to a file: Parquet, CSV or TSV, by its ending."""
        from unmask.studies.variants.saved_table import TABLES, save_table

        file = output_file("save", path, formats=TABLES)
        save_table(file, self.to_frame())

    def __repr__(self) -> str:
        best = self.best()
        return (
            f"Mutants({len(self)} of {len(self.wild_type)} residues, best {best.names[0]}"
            f" {best.numbers[self.ranked_by][0]:+.3f})"
        )

    # ---- what a person sees ----

    @property
    def heading(self) -> str:
        """The sequence."""
        return self.sequence

    def about(self) -> list[str]:
        """How many mutants there are, and what their numbers are of."""
        facts = [how_many(len(self), "mutant")]
        has_several_changes = any(len(mutant) > 1 for mutant in self.changes)
        if has_several_changes:  # a single change has its conditional, and no joint
            facts.append(f"{self.construction} joint")
        facts += [f"{len(self.alphabet)} tokens per residue", "in nats"]
        return ["; ".join(facts)]

    def tables(self) -> list[Table]:
        """The best mutants."""
        best = self.best()
        columns = [Column("mutant", text=True)]
        columns += [Column(name) for name in best.numbers]
        rows = list(zip(best.names, *best.numbers.values(), strict=True))
        notes: list[str] = []
        if len(best) < len(self):
            if self.top is None:
                where_all_are = "JSON and a saved file have all"
            else:  # JSON has the `top` mutants only
                where_all_are = "a saved file has all"
            notes = [f"the {len(best)} of largest {self.ranked_by}; {where_all_are}"]
        return [Table(columns, rows, notes=notes)]

    def verdict(self) -> list[str]:
        """Whether mutants are missing."""
        if len(self) == self.n_mutants:
            return []
        return [f"{len(self):,} of {self.n_mutants:,} mutants are measured."]

    def figure(self) -> Figure:
        """A heat map: of single mutants their effects; of one pair of places its epistasis by
        token; of several pairs the largest of each. Cells without a mutant are grey.
        """
        from unmask.common.figures import heat_map
        from unmask.studies.variants.scan import refuse_undrawable

        # Only single and double mutants have a place on a map.
        refuse_undrawable([len(mutant) for mutant in self.changes])
        pairs_of_places: set[tuple[int, int]] = set()
        for mutant in self.changes:
            if len(mutant) == 2:
                (first, _), (second, _) = mutant
                pairs_of_places.add((first, second))
        if not pairs_of_places:
            cells = self._effects_of_singles()
        elif len(pairs_of_places) == 1:
            cells = self._epistasis_by_token()
        else:
            cells = self._epistasis_by_place()
        sizes: list[float] = []
        for row in cells.values:
            sizes += [abs(value) for value in row if not isnan(value)]
        largest = max(sizes, default=0.0)
        if largest == 0:  # the colours of a map of zeros need a range, too
            largest = 1e-12
        # In inches: room for the labels, and for each cell.
        width = 2.4 + 0.3 * len(cells.columns)
        width = min(24.0, max(5.0, width))
        height = 1.8 + 0.24 * len(cells.rows)
        height = min(24.0, max(3.6, height))
        return heat_map(
            cells.values,
            cells.rows,
            cells.columns,
            title=cells.title,
            label=f"{cells.measure} (nats)",
            size=(width, height),
            cmap="RdBu_r",  # with these ends white is 0
            vmin=-largest,
            vmax=largest,
        )

    def _effects_of_singles(self) -> _Cells:
        """Tokens by places."""
        places = self._changed_places(changes=1)
        tokens = list(self.alphabet)
        values = _empty_cells(len(tokens), len(places))
        for mutant, effect in zip(self.changes, self.numbers["effect"], strict=True):
            if len(mutant) == 1:
                place, token = mutant[0]
                values[tokens.index(token)][places.index(place)] = effect
        return _Cells(
            values=values,
            rows=tokens,
            columns=[self._residue(place) for place in places],
            measure="effect",
            title=(
                "effect of each change alone: log-probability beside the sequence's own residue"
                " (nats)"
            ),
        )

    def _epistasis_by_token(self) -> _Cells:
        """Tokens of the first place by tokens of the second; all pairs change the same two."""
        first, second = self._changed_places(changes=2)
        tokens = list(self.alphabet)
        values = _empty_cells(len(tokens), len(tokens))
        for mutant, epistasis in zip(self.changes, self.numbers["epistasis"], strict=True):
            if len(mutant) == 2:
                (_, token), (_, other_token) = mutant
                values[tokens.index(token)][tokens.index(other_token)] = epistasis
        return _Cells(
            values=values,
            rows=[f"{self._residue(first)}{token}" for token in tokens],
            columns=[f"{self._residue(second)}{token}" for token in tokens],
            measure="epistasis",
            title=f"epistasis of residues {first} and {second} ({self.construction} joint)",
        )

    def _epistasis_by_place(self) -> _Cells:
        """Places by places: the epistasis of each pair that is farthest from 0."""
        places = self._changed_places(changes=2)
        values = _empty_cells(len(places), len(places))
        for mutant, epistasis in zip(self.changes, self.numbers["epistasis"], strict=True):
            if len(mutant) == 2:
                (place, _), (other_place, _) = mutant
                i = places.index(place)
                j = places.index(other_place)
                is_first_of_pair = isnan(values[i][j])
                if is_first_of_pair or abs(epistasis) > abs(values[i][j]):
                    values[i][j] = epistasis
                    values[j][i] = epistasis
        residues = [self._residue(place) for place in places]
        return _Cells(
            values=values,
            rows=residues,
            columns=residues,
            measure="epistasis",
            title=f"largest epistasis of each pair of residues ({self.construction} joint)",
        )

    def _changed_places(self, changes: int) -> list[int]:
        """The places of the mutants with this many changes, in ascending order."""
        places: set[int] = set()
        for mutant in self.changes:
            if len(mutant) == changes:
                places.update(place for place, _ in mutant)
        return sorted(places)


class _Cells(NamedTuple):
    """What a heat map shows.

    values    one number per row and column; NaN where there is no mutant
    rows      names of the rows, and `columns` those of the columns
    measure   the name of the number: effect or epistasis
    """

    values: list[list[float]]
    rows: Sequence[str]
    columns: Sequence[str]
    measure: str
    title: str


def _empty_cells(rows: int, columns: int) -> list[list[float]]:
    return [[nan] * columns for _ in range(rows)]


@one_or_many
@checked
def mutants(
    sequence: Texts,
    mutations: Annotated[
        PathLike | Sequence[str] | None,
        Only(without=("positions",)),
        Written(metavar="NAMES"),
    ] = None,
    model: Model = None,
    *,
    positions: Positions = None,
    changes: Annotated[
        Annotated[int, Interval(ge=1, le=4)] | None, Only(beside=("positions",))
    ] = None,
    construction: Rule = "balanced",
    alphabet: Alphabet = None,
    top: Annotated[int, Interval(ge=1, le=1_000_000), Written(short="-t")] | None = None,
    rank_by: Ranked | None = None,
    save: PathLike | None = None,
    figure: PathLike | None = None,
    force: Force = False,
    progress: Progress | None = None,
) -> Iterator[Mutants]:
    """Score mutants of a sequence: their log-probabilities, the sum of their single effects,
    and the difference, epistasis.

    One sequence gives one answer, a list of sequences or a file (in Python a Path) a list. Give
    mutations or positions. Exact over the alphabet for up to four changes. Which score ranks
    variants that were measured best, `assay` says.

    Parameters:
        sequence: A sequence, such as a protein.
        mutations: Mutants, such as A24G,A24G+L30V (or A24G:L30V), or a file of them, one per
            line; or a list of names.
        positions: Or residues to scan, such as 24,30-33 (the first is 1), or all.
        changes: How many residues of a scan change together, 1 to 4 [default: 1].
        alphabet: The tokens that may stand at a position: letters such as ACDEFGHIKLMNPQRSTVWY,
            words with commas, or a file of either [default: every regular token of a small
            vocabulary].
        top: How many mutants to show, best first [default: 20 are printed, JSON has all].
        rank_by: The number that ranks them [default: effect; JSON has the order of the scan].
        save: File for all mutants and their numbers: Parquet, CSV or TSV, by its ending.
        figure: Draw effects or epistasis as a heat map to this file (png, pdf, svg).

    Returns:
        `Mutants`; of a list of sequences, or of a file, a list of them.

    >>> mutants = unmask.mutants("the cat sat", "cat2dog", alphabet="cat,dog,man")
    >>> mutants.to_frame()["mutant"].tolist()
    ['cat2dog']
    """
    from unmask.studies.variants.saved_table import TABLES
    from unmask.studies.variants.scan import scans

    n_sequences = len(sequence)
    inputs = (model, mutations, alphabet)  # none of the files that are written may be one of these
    figure_file = figure_path(figure, texts=n_sequences, reads=inputs)
    save_file = None
    if save is not None:
        save_file = output_file("save", save, reads=inputs, formats=TABLES, texts=n_sequences)
    if save_file and figure_file and save_file.resolve() == figure_file.resolve():
        raise InputError(  # the message begins with the name of the argument: save
            f"and {argument_name('figure')} are one file, {str(save_file)!r}",
            argument="save",
            use="name two",
        )
    scanned = scans(
        sequence,
        model,
        mutations=mutations,
        positions=positions,
        changes=1 if changes is None else changes,
        construction=cast(Construction, construction),  # `checked` has made an object of a name
        alphabet=alphabet,
        force=force,
        progress=progress,
        drawn=figure_file is not None,
        rank_by=rank_by,
    )
    for found in scanned:
        answer = _answer(found, top, rank_by)
        yield answer  # the caller has it before its files are written
        if save_file is not None:
            answer.save(save_file)
        save_figure(answer.figure, figure_file)


def _answer(found: ScannedMutants, top: int | None, rank_by: Ranked | None) -> Mutants:
    """The result for a sequence."""
    return Mutants(
        sequence=found.sequence,
        wild_type=found.wild_type,
        alphabet=found.alphabet,
        construction=found.construction,
        changes=found.changes,
        numbers=found.numbers,
        n_mutants=found.n_mutants,
        top=top,
        rank_by=rank_by,
    )
