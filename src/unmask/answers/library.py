"""A library: the best fillings of a parent's positions as variants of it, how far apart they are, and the residues of each site.

With k variants, and n_s(a) of them with residue a at site s, two different variants differ on average at

    (2 / (k (k - 1))) sum over pairs of the sites where they differ  =  sum_s (k^2 - sum_a n_s(a)^2) / (k (k - 1))

sites: the mean pairwise Hamming distance. The n_s(a) count residues, not codons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING

from unmask.answers.completion import Completion
from unmask.arguments import checked
from unmask.cloze import Cloze
from unmask.errors import InputError
from unmask.formats import percent_at_least, percent_at_most
from unmask.joints.chain_search import ChainSearch
from unmask.models.masked_lm import MaskedLM
from unmask.options.answers import FillOptions
from unmask.runs.files import write_atomically, write_table
from unmask.runs.outputs import answer_file

if TYPE_CHECKING:
    import pandas

FORMATS: Mapping[str, tuple[bytes, ...]] = {".csv": (b"variant,",), ".parquet": (b"PAR1",), ".fasta": (b">",)}
PARENT = "parent"


@dataclass(frozen=True)
class Library:
    """Variants of a parent, the most probable first.

    sites           places of the residues that may change, counted from 1; `wild_type`: the parent's residues there
    variants        the residues of each variant at the sites; `sequences`: the whole of it
    log_probs       over the alphabet and all orders; `standard_errors` are 0 where no order is left out
    most_changes    no variant has more changes from the parent; None: any number
    mass            lower and upper bound of the probability of all variants within the constraints; an estimate where
                    orders are sampled
    certain         how many variants from the first are certain to be the best, in this order

    >>> found = unmask.fill("the cat sat", positions=[2, 3], most_changes=1, alphabet="cat,dog,sat,ran", top=3).library
    >>> len(found), max(found.changes)
    (3, 1)
    """

    sites: tuple[int, ...]
    wild_type: tuple[str, ...]
    variants: tuple[tuple[str, ...], ...]
    sequences: tuple[str, ...]
    log_probs: tuple[float, ...]
    standard_errors: tuple[float, ...]
    most_changes: int | None
    mass: tuple[float, float]
    certain: int

    def __len__(self) -> int:
        return len(self.variants)

    @property
    def site_names(self) -> list[str]:
        """The parent's residues with their places, such as S31."""
        return [f"{old}{place}" for old, place in zip(self.wild_type, self.sites, strict=True)]

    @cached_property
    def names(self) -> list[str]:
        """The variants by their changes, such as "S31D+A33Y"; "parent" has none."""
        made = [
            [f"{site}{new}" for site, old, new in zip(self.site_names, self.wild_type, one, strict=True) if new != old]
            for one in self.variants
        ]
        return ["+".join(parts) or PARENT for parts in made]

    @property
    def changes(self) -> list[int]:
        """How many residues of each variant are not the parent's."""
        return [sum(a != b for a, b in zip(one, self.wild_type, strict=True)) for one in self.variants]

    @cached_property
    def residues(self) -> list[Counter[str]]:
        """For each site, how many variants have each residue."""
        return [Counter(one[t] for one in self.variants) for t in range(len(self.sites))]

    @property
    def distance(self) -> float:
        """The mean number of sites at which two variants differ; NaN for a single variant."""
        k = len(self)
        if k < 2:
            return float("nan")
        return sum(k * k - sum(n * n for n in counts.values()) for counts in self.residues) / (k * (k - 1))

    @property
    def counts(self) -> pandas.DataFrame:
        """Sites by residues: how many variants have it."""
        import pandas

        columns = sorted({residue for counts in self.residues for residue in counts})
        rows = [[counts[residue] for residue in columns] for counts in self.residues]
        return pandas.DataFrame(rows, index=pandas.Index(self.site_names, name="site"), columns=columns)

    def to_frame(self) -> pandas.DataFrame:
        """One row per variant: its name, changes, probability and its logarithm, standard error, sequence."""
        import pandas

        return pandas.DataFrame(
            {
                "variant": self.names,
                "changes": self.changes,
                "probability": [exp(value) for value in self.log_probs],
                "log_prob": self.log_probs,
                "standard_error": self.standard_errors,
                "sequence": self.sequences,
            }
        )

    def to_dict(self) -> dict[str, object]:
        """`library` in the JSON of `unmask fill --json`."""
        return {
            "sites": self.site_names,
            "most_changes": self.most_changes,
            "mass": list(self.mass),
            "certain": self.certain,
            "distance": None if len(self) < 2 else self.distance,
            "residues": [len(counts) for counts in self.residues],
            "counts": {site: dict(counts) for site, counts in zip(self.site_names, self.residues, strict=True)},
            "variants": self.to_frame().to_dict("records"),
        }

    @property
    def summary(self) -> str:
        """One line: how many variants, how much probability lies within the constraints, how far apart they are."""
        most = self.most_changes
        limit = "any number of changes" if most is None else f"at most {most} change{'s' * (most > 1)}"
        apart = f"two of them differ at {self.distance:.2f} of {len(self.sites)} sites; " if len(self) > 1 else ""
        kinds = len({residue for counts in self.residues for residue in counts})
        per_site = sum(map(len, self.residues)) / len(self.sites)
        return (
            f"library of {len(self):,}: {limit} from the parent, {sum(self.changes) / len(self):.2f} on average; {apart}"
            f"{kinds} residues in all, {per_site:.1f} per site; "
            f"all variants that are allowed hold {percent_at_least(self.mass[0])} to {percent_at_most(self.mass[1])} of all mass"
        )

    @checked
    def write(self, path: str | Path) -> None:
        """The variants to a .csv, .parquet or .fasta file."""
        file = library_file(path, self.sequences)
        if file.suffix.lower() == ".parquet":
            write_table(file, self.to_frame())
        elif file.suffix.lower() == ".csv":
            write_atomically(file, self.to_frame().to_csv(index=False, lineterminator="\n").encode())
        else:
            write_atomically(file, "".join(self._records()).encode())

    def _records(self) -> Iterator[str]:
        for number, row in enumerate(self.to_frame().itertuples(), 1):
            yield f">{number} {row.variant} changes={row.changes} log_prob={row.log_prob:.6f}\n{row.sequence}\n"

    def __repr__(self) -> str:
        return f"Library({len(self)} variants of {' '.join(self.site_names)}, first {self.names[0]})"

    def _repr_html_(self) -> str:
        return f"<p>{self.summary}</p>{self.to_frame().to_html(index=False)}{self.counts.to_html()}"


def library_file(path: str | Path, sequences: Sequence[str], texts: int = 1, reads: Sequence[object] = ()) -> Path:
    """The file of a library, checked; FASTA takes sequences without spaces only."""
    file = answer_file("library", path, FORMATS, texts, reads)
    if file.suffix.lower() == ".fasta" and any(" " in one for one in sequences):
        raise InputError(f"library {str(file)!r} is FASTA, and the text has spaces: name a .csv or .parquet file")
    return file


def library_of(
    model: MaskedLM,
    cloze: Cloze,
    completions: Sequence[Completion],
    options: FillOptions,
    found: ChainSearch,
    certain: int,
) -> Library | None:
    """The completions as variants of the text that had `cloze.gold` in its blanks; None if they are not asked for."""
    if options.most_changes is None and options.library is None:
        return None
    assert cloze.gold is not None
    special = set(model.special_ids) - {model.mask_id}
    before = [sum(i not in special for i in cloze.ids[:position]) for position in cloze.block]
    return Library(
        sites=tuple(n + 1 for n in before),
        wild_type=tuple(model.token(i).strip() for i in cloze.gold),
        variants=tuple(tuple(model.token(i).strip() for i in one.ids) for one in completions),
        sequences=tuple(one.text for one in completions),
        log_probs=tuple(one.log_prob for one in completions),
        standard_errors=tuple(getattr(one, "standard_error", 0.0) for one in completions),
        most_changes=options.most_changes,
        mass=(found.mass, max(found.mass, found.inside)),
        certain=certain,
    )
