"""The result of `mutants`: mutants of a sequence and the model's numbers for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from unmask.common.border.calls import checked
from unmask.common.excerpts import excerpt
from unmask.common.files import output_file
from unmask.common.results import Result
from unmask.studies.variants.saved_table import TABLES, save_table

if TYPE_CHECKING:
    import pandas

    from unmask.common.figures import Figure

Ranked = Literal["log_prob", "effect", "singles", "epistasis", "interaction"]
"""The numbers that can rank mutants."""
PRINTED = 20
"""Mutants that are printed, unless the caller asks for another number."""


@dataclass(frozen=True)
class Mutants(Result):
    """Mutants of a sequence and the model's numbers for each; the five numbers have one entry
    per mutant.

    sequence      as it was given; `wild_type`: its tokens; `alphabet`: the tokens allowed at a
                  position
    construction  how the joint of the changed places was derived
    changes       for each mutant its (place, token) pairs, places counted from 1
    numbers       log_prob, effect, singles, epistasis and interaction (see `effects`), by name
    top, rank_by  how many were asked for, and the number by which they are ranked, largest
                  first; None where the caller left it to the surface

    >>> mutants = unmask.mutants("the cat sat", positions=[2], alphabet="cat,dog,man")
    >>> mutants.wild_type, len(mutants.changes)
    (('the', 'cat', 'sat'), 2)
    """

    KEYS: ClassVar[tuple[str, ...]] = ("sequence", "construction", "alphabet", "mutants")

    sequence: str
    wild_type: tuple[str, ...]
    alphabet: tuple[str, ...]
    construction: str
    changes: list[tuple[tuple[int, str], ...]]
    numbers: Mapping[str, list[float]] = field(repr=False)
    top: int | None = None
    rank_by: Ranked | None = None

    def __len__(self) -> int:
        return len(self.changes)

    @cached_property
    def names(self) -> list[str]:
        """The names, such as "A24G+L30V"."""
        return [self._name(made) for made in self.changes]

    def _name(self, made: tuple[tuple[int, str], ...]) -> str:
        return "+".join(f"{self.wild_type[place - 1]}{place}{new}" for place, new in made)

    @property
    def mutants(self) -> list[dict[str, Any]]:
        """The rows that were asked for: those of the data frame; with `rank_by` the largest first,
        with `top` no more than these.
        """
        if self.top is None and self.rank_by is None:
            return self.to_frame().to_dict("records")
        asked = len(self) if self.top is None else self.top
        return self._largest(asked).to_frame().to_dict("records")

    def to_frame(self) -> pandas.DataFrame:
        """One row per mutant: its name, how many changes, the five numbers."""
        import pandas

        return pandas.DataFrame(
            {"mutant": self.names, "changes": [len(made) for made in self.changes], **self.numbers}
        )

    def best(self) -> Mutants:
        """The mutants that are printed: the `top` (20 by default) with the largest number
        `rank_by` (effect by default), largest first.
        """
        return self._largest(PRINTED if self.top is None else self.top)

    @property
    def ranked_by(self) -> Ranked:
        """The number that ranks them."""
        return "effect" if self.rank_by is None else self.rank_by

    def _largest(self, most: int) -> Mutants:
        """As many mutants, those with the largest number first."""
        ranked_by = self.numbers[self.ranked_by]
        order = sorted(range(len(self)), key=lambda i: -ranked_by[i])[:most]
        changes = [self.changes[i] for i in order]
        numbers = {}
        for name, values in self.numbers.items():
            numbers[name] = [values[i] for i in order]
        return replace(self, changes=changes, numbers=numbers)

    @checked
    def write(self, path: str | PathLike[str]) -> None:
        """All mutants and their numbers to a file: Parquet, CSV or TSV, by its ending."""
        file = output_file("save", path, (), TABLES)
        save_table(file, self.to_frame())

    def figure(self) -> Figure:
        """A heat map: of single mutants their effects; of one pair of places its epistasis by
        token; of several the largest.
        """
        from unmask.studies.variants.mutant_map import mutant_map

        return mutant_map(self)

    def __repr__(self) -> str:
        best = self.best()
        return (
            f"Mutants({len(self)} of {len(self.wild_type)} residues, best {best.names[0]}"
            f" {best.numbers[self.ranked_by][0]:+.3f})"
        )

    def _repr_html_(self) -> str:
        table = self.best().to_frame().round(3).to_html(index=False)
        beginning, *_ = excerpt(self.sequence, [], 80)
        return f"<p>{escape(beginning)}<br>the best of {len(self):,} mutants</p>{table}"
