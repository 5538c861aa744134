"""`mutants`: the model's log-probabilities of single and multiple mutants of a sequence.

For positions S of a sequence w and tokens x at them, all else as in w, mu is the joint of S
that a construction derives:

    log_prob      log mu(x)
                  normalised over the alphabet at every position of S
    effect        log mu(x) - log mu(w)
    singles       sum_{t in S} log q_t(x_t | w) - log q_t(w_t | w)
                  the model's own conditionals, all else as in w
    epistasis     effect - singles
                  0 where the changes add up
    interaction   log mu(x) - log mu(w) - sum_t [log mu(x_t, w) - log mu(w)]

Epistasis compares the joint with the model's effect of each change alone; interaction is the
same difference inside the joint. If the conditionals come from one joint the two are equal;
their difference shows how far to trust either. Exact: every combination of the alphabet's
tokens at S is summed over, at up to MOST_CHANGES positions.

Mutants are given by names such as A24G+L30V (or A24G:L30V, A24G/L30V), or as a scan of
positions (`Scan`). Residues are counted from 1; residue i is the i-th regular token of the
text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from itertools import combinations
from math import comb
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from unmask.common.cloze import blanked
from unmask.common.errors import InputError
from unmask.common.excerpts import excerpt
from unmask.common.files import output_file, write_atomically, write_table
from unmask.common.results import Result
from unmask.common.signature import checked
from unmask.common.texts import for_each
from unmask.joints.deriving import derive
from unmask.joints.joint import Joint
from unmask.joints.registry import named
from unmask.models.first_look import look_at_first
from unmask.models.load import Model, as_model
from unmask.models.masked_lm import MaskedLM
from unmask.runs.progress import Enough, Progress
from unmask.studies.variants.parsing import (
    Parent,
    changes_of,
    listed,
    places_of,
    refuse_english,
    refuse_twice,
    residue_ids,
)
from unmask.tables.candidates import MAX_PASSES
from unmask.tables.unary import pass_count, tables_of

if TYPE_CHECKING:
    import pandas

    from unmask.common.figures import Figure

NUMBERS = ("log_prob", "effect", "singles", "epistasis", "interaction")
TABLES = {".parquet": (b"PAR1",), ".csv": (b"mutant,",), ".tsv": (b"mutant\t",)}
"""Endings of the files that hold mutants and their numbers, and how such files begin."""
TOGETHER = 64
"""Sets of positions whose passes run together."""
MOST_CHANGES, MOST_ROWS = 4, 5_000_000


def effects(joint: Joint, wild: Sequence[int]) -> dict[str, Tensor]:
    """The five numbers of the module's text for all fillings of a block: tensors with one axis
    per position.

    wild   the places, among each position's candidates, of the tokens of the sequence
    """
    tables = joint.tables
    log_prob = (tables.log_q[0] if tables.sites == 1 else joint.dense()).double()
    whole = tuple(wild)
    singles, alone = torch.zeros_like(log_prob), torch.zeros_like(log_prob)
    for t in range(log_prob.dim()):
        line: tuple[int | slice, ...] = (*whole[:t], slice(None), *whole[t + 1 :])
        shape = [-1 if s == t else 1 for s in range(log_prob.dim())]
        of_model, of_joint = tables.log_q[t][line].double(), log_prob[line]
        singles = singles + (of_model - of_model[wild[t]]).reshape(shape)
        alone = alone + (of_joint - of_joint[wild[t]]).reshape(shape)
    effect = log_prob - log_prob[whole]
    return dict(
        zip(NUMBERS, (log_prob, effect, singles, effect - singles, effect - alone), strict=True)
    )


@dataclass(frozen=True)
class Mutants(Result):
    """Mutants of a sequence and the model's numbers for each; the five numbers have one entry
    per mutant.

    sequence      as it was given; `wild_type`: its tokens; `alphabet`: the tokens allowed at a
                  position
    joint         how the joint of the changed places was derived
    changes       for each mutant its (place, token) pairs, places counted from 1
    numbers       the five numbers of the module's text by name
    top, by       how many are shown, of all that are there, and the number by which they are
                  ranked, largest first

    >>> mutants = unmask.mutants("the cat sat", positions=[2], alphabet="cat,dog,man")
    >>> mutants.wild_type, len(mutants.changes)
    (('the', 'cat', 'sat'), 2)
    """

    KEYS = ("sequence", "joint", "alphabet", "mutants")

    sequence: str
    wild_type: tuple[str, ...]
    alphabet: tuple[str, ...]
    joint: str
    changes: list[tuple[tuple[int, str], ...]]
    numbers: Mapping[str, list[float]] = field(repr=False)
    top: int = 20
    by: str = "effect"

    def __len__(self) -> int:
        return len(self.changes)

    @cached_property
    def names(self) -> list[str]:
        """The names, such as "A24G+L30V"."""
        return [
            "+".join(f"{self.wild_type[place - 1]}{place}{new}" for place, new in made)
            for made in self.changes
        ]

    @property
    def mutants(self) -> list[dict[str, Any]]:
        """The rows of the data frame."""
        return self.to_frame().to_dict("records")

    def to_frame(self) -> pandas.DataFrame:
        """One row per mutant: its name, how many changes, the five numbers."""
        import pandas

        return pandas.DataFrame(
            {"mutant": self.names, "changes": [len(made) for made in self.changes], **self.numbers}
        )

    def best(self) -> Mutants:
        """The `top` mutants with the largest number `by`, largest first."""
        order = sorted(range(len(self)), key=lambda i: -self.numbers[self.by][i])[: self.top]
        numbers = {name: [values[i] for i in order] for name, values in self.numbers.items()}
        return replace(self, changes=[self.changes[i] for i in order], numbers=numbers)

    @checked
    def write(self, path: str | PathLike[str]) -> None:
        """All mutants and their numbers to a file: Parquet, CSV or TSV, by its ending."""
        save_table(output_file("save", path, (), TABLES), self.to_frame())

    def figure(self) -> Figure:
        """A heat map: of single mutants their effects; of one pair of places its epistasis by
        token; of several the largest.
        """
        return mutant_map(self)

    def __repr__(self) -> str:
        best = self.best()
        return (
            f"Mutants({len(self)} of {len(self.wild_type)} residues, best {best.names[0]}"
            f" {best.numbers[self.by][0]:+.3f})"
        )

    def _repr_html_(self) -> str:
        table = self.best().to_frame().round(3).to_html(index=False)
        return (
            f"<p>{escape(excerpt(self.sequence, [], 80)[0])}<br>the best of {len(self):,}"
            f" mutants</p>{table}"
        )


def scans(
    sequences: Sequence[str],
    model: Model,
    mutations: str | PathLike[str] | Sequence[str] | None,
    positions: str | Sequence[int] | None,
    changes: int,
    joint: str,
    alphabet: str | PathLike[str] | Sequence[str] | None,
    top: int,
    by: str,
    force: bool,
    progress: Progress | None,
    drawn: bool = False,
) -> Iterator[Mutants]:
    """The mutants of each sequence, named or by position; everything is checked before the first.

    drawn   a figure is wanted of each
    """
    if (mutations is None) == (positions is None):
        both = (
            "neither mutations nor positions were given"
            if positions is None
            else "mutations and positions were both given"
        )
        raise InputError(f"{both}: name mutants such as A24G+L30V, or positions to scan")
    construction = named(joint, "joint").name
    refuse_english(model, sequences)
    names = None if mutations is None else listed(mutations)
    lm = as_model(model)
    allowed = residue_ids(lm, alphabet)
    read = for_each(
        sequences, lambda sequence: Scan(lm, sequence, names, positions, changes, allowed, force)
    )
    for scan in read if drawn else ():
        refuse_undrawable([len(places) for places in scan.sets])
    look_at_first(lm, (scan.ids for scan in read))
    report = progress if len(read) == 1 else None
    for number, scan in enumerate(read, 1):
        yield replace(scan.answer(construction, report), top=top, by=by)
        if progress and len(read) > 1:
            progress(number, len(read), "sequences")


class Scan(Parent):
    """One sequence, and the mutants of it that are asked for.

    sets   for each set of places the fillings asked for, as indices into `allowed`; None: all
           in which every place changes
    """

    def __init__(
        self,
        model: MaskedLM,
        text: str,
        names: Sequence[str] | None,
        positions: str | Sequence[int] | None,
        changes: int,
        allowed: Sequence[int],
        force: bool,
    ) -> None:
        super().__init__(model, text, allowed)
        self.sets: dict[tuple[int, ...], list[tuple[int, ...]] | None]
        if names is not None:
            self.sets = self._named(names)
        else:
            scanned = places_of(positions if positions is not None else "all", len(self.residues))
            if changes > len(scanned):
                raise InputError(
                    f"{changes} changes together and {len(scanned)} positions: give more positions"
                )
            rows = sum(
                comb(len(scanned), m) * (len(allowed) - 1) ** m for m in range(1, changes + 1)
            )
            what = f"{changes} changes among {len(scanned)} positions are {{}} mutants"
            fewer = "change fewer together" if changes > 1 else "use a smaller alphabet"
            refuse_more(rows, MOST_ROWS, what, f"scan fewer positions, {fewer}", force)
            self.sets = {
                places: None for m in range(1, changes + 1) for places in combinations(scanned, m)
            }
        self.refuse_foreign({place for places in self.sets for place in places})
        self.passes = sum(map(self._passes, self.sets))
        what = "these mutants need {} passes of the model"
        fewer = "scan fewer positions" if names is None else "name fewer mutants"
        refuse_more(self.passes, MAX_PASSES, what, f"{fewer}, use a smaller alphabet", force)

    def _named(self, names: Sequence[str]) -> dict[tuple[int, ...], list[tuple[int, ...]] | None]:
        sets: dict[tuple[int, ...], dict[tuple[int, ...], None]] = {}
        for name in names:
            made = sorted(
                self.change(part.strip(), f"mutant {name!r}") for part in changes_of(name)
            )
            places = tuple(place for place, _ in made)
            refuse_twice(places, f"mutant {name!r}")
            if len(places) > MOST_CHANGES:
                raise InputError(
                    f"mutant {name!r} has {len(places)} changes, and up to {MOST_CHANGES} are"
                    " exact: change fewer, or give variants with measured values (measured), whose"
                    " scores take any number of changes"
                )
            cell = tuple(token for _, token in made)
            sets.setdefault(places, {})[cell] = (
                None  # once, however often and in whatever order it is named
            )
        return {places: list(cells) for places, cells in sets.items()}

    def _passes(self, places: Sequence[int]) -> int:
        return pass_count([len(self.allowed)] * len(places))

    def answer(self, construction: str, progress: Progress | None) -> Mutants:
        """The numbers of the mutants; of those done, if the user has enough."""
        changes: list[tuple[tuple[int, str], ...]] = []
        numbers: dict[str, list[float]] = {name: [] for name in NUMBERS}
        sets, done = list(self.sets), 0
        if progress:
            progress(0, self.passes, "passes of the model")
        try:
            for start in range(0, len(sets), TOGETHER):
                self._measure(
                    group := sets[start : start + TOGETHER], construction, changes, numbers
                )
                done += sum(map(self._passes, group))
                if progress:
                    progress(done, self.passes, "passes of the model")
        except Enough:
            if not changes:
                raise
        return Mutants(
            self.text, tuple(self.residues), tuple(self.tokens), construction, changes, numbers
        )

    def _measure(
        self,
        group: Sequence[tuple[int, ...]],
        construction: str,
        changes: list[tuple[tuple[int, str], ...]],
        numbers: dict[str, list[float]],
    ) -> None:
        """Add the mutants of some sets of places."""
        axis = torch.tensor(self.allowed, device=self.model.device)
        clozes = [
            blanked(self.ids, [self.where[place - 1] for place in places], self.model.mask_id)
            for places in group
        ]
        axes = [[axis] * len(places) for places in group]
        for places, table in zip(
            group,
            tables_of(self.model, clozes, axes, dtype=torch.float64, supports=axes),
            strict=True,
        ):
            wild = [self.allowed.index(self.ids[self.where[place - 1]]) for place in places]
            cells = self.sets[places]
            chosen = _all_changed(wild, len(self.allowed)) if cells is None else torch.tensor(cells)
            for row in chosen.tolist():
                changes.append(
                    tuple((place, self.tokens[i]) for place, i in zip(places, row, strict=True))
                )
            for name, values in effects(derive(table, construction), wild).items():
                numbers[name] += values.cpu()[tuple(chosen.T)].tolist()


def _all_changed(wild: Sequence[int], size: int) -> Tensor:
    """Every filling in which no place keeps its token, one per row."""
    others = [torch.tensor([i for i in range(size) if i != old]) for old in wild]
    return torch.cartesian_prod(*others).reshape(-1, len(wild))


def refuse_more(count: int, most: int, what: str, advice: str, force: bool = False) -> None:
    """Raise if there are more than `most`, unless `force`; `what` has the place of the number."""
    if count > most and not force:
        raise InputError(
            f"{what.format(f'{count:,}')} (limit {most:,}): {advice}, or use force=True"
        )


def refuse_undrawable(changes: Sequence[int]) -> None:
    """Raise if no mutant, of which these are the numbers of changes, has a place on a map."""
    if all(count > 2 for count in changes):
        raise InputError(
            f"a figure shows mutants of one or two changes, and those given have {min(changes)} or"
            " more: leave out figure"
        )


def save_table(path: Path, frame: pandas.DataFrame, about: Mapping[str, Any] | None = None) -> None:
    """A data frame as Parquet, CSV or TSV, by the ending of the path; only Parquet holds
    `about`, in its metadata.
    """
    ending = path.suffix.lower()
    if ending == ".parquet":
        write_table(path, frame, about=about)
    else:
        write_atomically(
            path,
            frame.to_csv(index=False, sep="\t" if ending == ".tsv" else ",", lineterminator="\n"),
        )


def mutant_map(mutants: Mutants) -> Figure:
    """See `Mutants.figure`; cells without a mutant are grey."""
    refuse_undrawable([len(made) for made in mutants.changes])
    pairs = {tuple(place for place, _ in made) for made in mutants.changes if len(made) == 2}
    measure, size = ("epistasis", 2) if pairs else ("effect", 1)
    shown = [
        (made, value)
        for made, value in zip(mutants.changes, mutants.numbers[measure], strict=True)
        if len(made) == size
    ]
    residue = {
        place: f"{mutants.wild_type[place - 1]}{place}"
        for place in sorted({p for made, _ in shown for p, _ in made})
    }
    places, tokens = list(residue), list(mutants.alphabet)
    rows = columns = list(residue.values())
    title = f"largest epistasis of each pair of residues ({mutants.joint} joint)"
    if not pairs:
        rows = tokens
        title = (
            "effect of each change alone: log-probability beside the sequence's own residue (nats)"
        )
    elif len(pairs) == 1:
        rows, columns = ([f"{old}{new}" for new in tokens] for old in residue.values())
        title = f"epistasis of residues {' and '.join(map(str, places))} ({mutants.joint} joint)"
    values = np.full((len(rows), len(columns)), np.nan)
    for made, value in shown:
        (first, new), (second, other) = made[0], made[-1]
        if not pairs:
            values[tokens.index(new), places.index(first)] = value
        elif len(pairs) == 1:
            values[tokens.index(new), tokens.index(other)] = value
        else:
            i, j = places.index(first), places.index(second)
            values[i, j] = values[j, i] = max(np.nan_to_num(values[i, j]), value, key=abs)
    largest = float(np.nanmax(np.abs(values))) or 1e-12
    inches = (
        min(24.0, max(5.0, 2.4 + 0.3 * len(columns))),
        min(24.0, max(3.6, 1.8 + 0.24 * len(rows))),
    )
    colours = {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest}
    from unmask.common.figures import heat_map

    return heat_map(values, rows, columns, title, f"{measure} (nats)", inches, **colours)
