"""`mutants`: the model's log-probabilities of single and multiple mutants of a sequence.

Mutants are given by names such as A24G+L30V (or A24G:L30V, A24G/L30V), or as a scan of
positions. Their numbers are those of `effects`. They are exact: every combination of the
alphabet's tokens at the changed positions is summed over, at up to MOST_CHANGES positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from os import PathLike

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.common.cloze import blanked
from unmask.common.errors import InputError, argument_name
from unmask.common.texts import for_each
from unmask.joints.constructions.construction import Construction
from unmask.joints.deriving import derived
from unmask.joints.joint import Joint
from unmask.joints.registry import DEFAULT_OF_MUTANTS, named
from unmask.models.first_look import look_at_first
from unmask.models.load import Model, as_model
from unmask.runs.progress import Enough, Progress
from unmask.studies.variants.effects import NUMBERS, effects
from unmask.studies.variants.limits import refuse_more
from unmask.studies.variants.naming import changes_of, listed, refuse_twice
from unmask.studies.variants.parent import Parent, refuse_english, residue_ids
from unmask.tables.joint_limits import MAX_PASSES
from unmask.tables.unary import Tables, pass_count, tables_of

Places = tuple[int, ...]
"""Residues that change together, counted from 1, in ascending order."""
Cell = tuple[int, ...]
"""The tokens at these places, as indices into the alphabet."""
SETS_AT_ONCE = 64
"""Sets of places whose passes run together."""
MOST_CHANGES = 4
"""The largest number of changes of a mutant."""
MOST_ROWS = 5_000_000
"""The largest number of mutants of a scan, without `force`."""
OF_SEVERAL = ("epistasis", "interaction")
"""Numbers that are 0 for a mutant of one change."""
PASSES = "passes of the model"
"""The unit of progress."""


@dataclass(frozen=True)
class ScannedMutants:
    """The mutants of one sequence and their numbers.

    wild_type     the sequence's tokens; `alphabet`: those allowed at a position
    construction  the name of the rule of the joints
    changes       for each mutant its (place, token) pairs, places counted from 1
    numbers       those of `effects` by name, one for each mutant
    n_mutants     how many there are in the scan or the list; fewer are measured if the user had
                  enough
    """

    sequence: str
    wild_type: tuple[str, ...]
    alphabet: tuple[str, ...]
    construction: str
    changes: list[tuple[tuple[int, str], ...]]
    numbers: Mapping[str, list[float]]
    n_mutants: int


def scans(
    sequences: Sequence[str],
    model: Model,
    mutations: str | PathLike[str] | Sequence[str] | None,
    positions: str | Sequence[int] | None,
    changes: int,
    construction: Construction,
    alphabet: str | PathLike[str] | Sequence[str] | None,
    force: bool,
    progress: Progress | None,
    drawn: bool = False,
    rank_by: str | None = None,
) -> Iterator[ScannedMutants]:
    """The mutants of each sequence, named or by position; everything is checked before the first.

    drawn     a figure is wanted of each
    rank_by   the number by which they will be ranked, if the user named one
    """
    if mutations is None and positions is None:
        raise InputError(
            f"neither {argument_name('mutations')} nor {argument_name('positions')} was given",
            use="name mutants such as A24G+L30V, or positions to scan",
        )
    refuse_english(model, sequences)
    names = None if mutations is None else listed(mutations)
    lm = as_model(model)
    allowed = residue_ids(lm, alphabet)

    def read(sequence: str) -> ChosenMutants:
        parent = Parent(lm, sequence, allowed)
        if names is not None:
            return ChosenMutants.of_names(parent, names, force)
        assert positions is not None  # one of the two is given
        return ChosenMutants.of_positions(parent, positions, changes, force)

    chosen = for_each(sequences, read)
    changes_together = [len(places) for of_sequence in chosen for places in of_sequence.sets]
    if max(changes_together) == 1:
        refuse_without_joints(construction, rank_by)
    if drawn:
        for of_sequence in chosen:
            refuse_undrawable([len(places) for places in of_sequence.sets])
    look_at_first(lm, (of_sequence.parent.ids for of_sequence in chosen))
    if len(chosen) == 1:  # its own passes are the progress
        yield chosen[0].measure(construction, progress)
        return
    for number, of_sequence in enumerate(chosen, 1):
        yield of_sequence.measure(construction, None)
        if progress:
            progress(number, len(chosen), "sequences")


def refuse_without_joints(construction: Construction, rank_by: str | None) -> None:
    """Raise for what only joints of several residues decide, where every mutant has one change:
    its log-probability is the model's own conditional, and its epistasis 0.
    """
    more = f"or give {argument_name('changes', 2)}"
    if construction != named(DEFAULT_OF_MUTANTS):
        raise InputError(
            "says how joints of several residues are derived, and every mutant has one change",
            argument="construction",
            use=f"leave it out, {more}",
        )
    if rank_by in OF_SEVERAL:
        raise InputError(
            f"{rank_by} is 0 where every mutant has one change",
            argument="rank_by",
            use=f"rank by another number, {more}",
        )


def refuse_undrawable(changes: Sequence[int]) -> None:
    """Raise if no mutant, of which these are the numbers of changes, has a place on a map."""
    if all(count > 2 for count in changes):
        raise InputError(
            f"shows mutants of one or two changes, and those given have {min(changes)} or more",
            argument="figure",
            use="leave it out",
        )


class ChosenMutants:
    """The mutants of one sequence that are asked for.

    sets            the sets of places that change
    named_cells     for each set of places the cells that are named; a set without an entry is
                    scanned: all cells in which every place changes
    passes          of the model, for all sets
    """

    def __init__(
        self, parent: Parent, sets: Sequence[Places], named_cells: Mapping[Places, list[Cell]]
    ) -> None:
        self.parent = parent
        self.sets = sets
        self.named_cells = named_cells
        changing = {place for places in sets for place in places}
        parent.refuse_foreign(changing)
        self.passes: int = self._pass_count(sets)

    @classmethod
    def of_names(cls, parent: Parent, names: Sequence[str], force: bool) -> ChosenMutants:
        """The mutants of these names."""
        # The keys of the inner dictionaries are an ordered set: each mutant is there once,
        # however often and in whatever order it is named.
        cells_of: dict[Places, dict[Cell, None]] = {}
        for name in names:
            what = f"mutant {name!r}"
            made = sorted(parent.change(part.strip(), what) for part in changes_of(name))
            places = tuple(place for place, _ in made)
            refuse_twice(places, what)
            if len(places) > MOST_CHANGES:
                raise InputError(
                    f"{what} has {len(places)} changes, and up to {MOST_CHANGES} are"
                    " exact: change fewer; the scores that assay compares take any number of"
                    " changes"
                )
            cell = tuple(token for _, token in made)
            cells_of.setdefault(places, {})[cell] = None
        named_cells = {places: list(cells) for places, cells in cells_of.items()}
        chosen = cls(parent, sets=list(cells_of), named_cells=named_cells)
        chosen.refuse_many_passes("name fewer mutants", force)
        return chosen

    @classmethod
    def of_positions(
        cls, parent: Parent, positions: str | Sequence[int], changes: int, force: bool
    ) -> ChosenMutants:
        """All mutants of 1 to `changes` of these places."""
        scanned = parent.named_places(positions)
        if changes > len(scanned):
            raise InputError(
                f"{changes} is more than the {len(scanned)} positions",
                argument="changes",
                use="give more positions, or fewer changes",
            )
        other_tokens = len(parent.allowed) - 1
        mutants = 0
        for together in range(1, changes + 1):
            mutants += comb(len(scanned), together) * other_tokens**together
        fewer = "change fewer together" if changes > 1 else "use a smaller alphabet"
        refuse_more(
            mutants,
            most=MOST_ROWS,
            what=f"{changes} changes among {len(scanned)} positions are {mutants:,} mutants",
            advice=f"scan fewer positions, {fewer}",
            force=force,
        )
        sets: list[Places] = []
        for together in range(1, changes + 1):
            sets += combinations(scanned, together)
        chosen = cls(parent, sets=sets, named_cells={})
        chosen.refuse_many_passes("scan fewer positions", force)
        return chosen

    def refuse_many_passes(self, fewer: str, force: bool) -> None:
        """Raise if there are too many passes, unless `force`; `fewer` says how to have fewer."""
        refuse_more(
            self.passes,
            most=MAX_PASSES,
            what=f"these mutants need {self.passes:,} passes of the model",
            advice=f"{fewer}, use a smaller alphabet",
            force=force,
        )

    def measure(self, construction: Construction, progress: Progress | None) -> ScannedMutants:
        """The numbers of the mutants. If the user has had enough, those of the mutants that are
        done; raises `Enough` if none is.
        """
        changes: list[tuple[tuple[int, str], ...]] = []
        numbers: dict[str, list[float]] = {name: [] for name in NUMBERS}
        done = 0
        if progress:
            progress(0, self.passes, PASSES)
        try:
            for start in range(0, len(self.sets), SETS_AT_ONCE):
                group = self.sets[start : start + SETS_AT_ONCE]
                tables_of_group = self._tables(group)  # the passes: they may raise Enough
                for places, tables in zip(group, tables_of_group, strict=True):
                    cells = self._cells(places)
                    changes += [self._changes(places, cell) for cell in cells.tolist()]
                    joint = derived(tables, construction)
                    index = tuple(cells.T)  # a vector of token indices for each place
                    for name, of_fillings in self._effects(places, joint).items():
                        numbers[name] += of_fillings[index].tolist()
                done += self._pass_count(group)
                if progress:
                    progress(done, self.passes, PASSES)
        except Enough:
            if not changes:
                raise
        return ScannedMutants(
            sequence=self.parent.text,
            wild_type=tuple(self.parent.residues),
            alphabet=tuple(self.parent.tokens),
            construction=construction.name,
            changes=changes,
            numbers=numbers,
            n_mutants=sum(len(self._cells(places)) for places in self.sets),
        )

    def _pass_count(self, sets: Sequence[Places]) -> int:
        """Passes of the model for some sets of places."""
        tokens = len(self.parent.allowed)
        return sum(pass_count([tokens] * len(places)) for places in sets)

    def _tables(self, group: Sequence[Places]) -> list[Tables]:
        """The tables of each set of places, over the alphabet."""
        model = self.parent.model
        # One tensor for all axes: `tables_of` fills blocks with the same axes as one.
        axis = torch.tensor(self.parent.allowed, device=model.device)
        clozes = [
            blanked(self.parent.ids, self.parent.positions(places), model.mask_id)
            for places in group
        ]
        axes = [[axis] * len(places) for places in group]
        return tables_of(model, clozes, candidates=axes, dtype=torch.float64, supports=axes)

    def _effects(self, places: Places, joint: Joint) -> dict[str, Tensor]:
        """The numbers of all fillings of these places, on the CPU, with an axis per place."""
        wild = self._wild(places)
        return {name: values.cpu() for name, values in effects(joint, wild).items()}

    def _cells(self, places: Places) -> Int[Tensor, "n m"]:
        """The cells of these places that are asked for, one per row."""
        if places in self.named_cells:
            return torch.tensor(self.named_cells[places])
        changed = []
        for own in self._wild(places):
            others = [token for token in range(len(self.parent.allowed)) if token != own]
            changed.append(torch.tensor(others))
        cells = torch.cartesian_prod(*changed)
        return cells.reshape(-1, len(places))  # of a single place the product is a vector

    def _wild(self, places: Places) -> list[int]:
        """The tokens of the sequence at these places, as indices into the alphabet."""
        positions = self.parent.positions(places)
        return [self.parent.allowed.index(self.parent.ids[position]) for position in positions]

    def _changes(self, places: Places, cell: Sequence[int]) -> tuple[tuple[int, str], ...]:
        """(place, token) of each change."""
        return tuple(
            (place, self.parent.tokens[token]) for place, token in zip(places, cell, strict=True)
        )
