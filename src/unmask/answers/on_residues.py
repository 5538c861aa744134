"""What a protein model is worth on sequences: perplexities per residue, of all residues and of each region, for `check`.

q is renormalised over the 20 residues; other letters (X, gaps) are left out. A perplexity is exp of a mean over residues of

    frequencies   -log f(x_i), f the residues' own frequencies in the file, or in the region: what a model without context reaches
    alone         -log q(x_i | all other residues): pseudo-perplexity, of no distribution over sequences
    any order     -log q(x_i | x_S), S the residues before i in a random order: the chain rule. Each order is a distribution over
                  sequences, so this is a code length: no less than that of the mean over orders

One pass in which t of n residues are shown, t uniform from 0 to n - 1 and the set uniform too, has the mean of any order's sum
over its n - t hidden residues, times n / (n - t). Intervals are 1.96 standard errors of a ratio of sums, with sequences as units.

Regions come from a table of the user. Letters are counted from 1 as the file of sequences writes them, gaps (- and .) too; `end`
belongs to the region.

    region,start,end           columns of an alignment, the same for every sequence
    name,region,start,end      letters of the sequence with this name in the FASTA file
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, nan, sqrt
from pathlib import Path

import numpy as np
import torch

from unmask.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.runs.files import user_path
from unmask.runs.lines import numbered_lines
from unmask.runs.progress import Progress
from unmask.tables.questions import of_one_key

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
MOST_LETTERS = 40
"""Of a protein model's vocabulary: residues, rare ones, gaps. Models that spell texts have more letters."""
ORDER_PASSES = 400
ROWS = 32
EVERYTHING, ELSEWHERE = "all residues", "elsewhere"
Place = tuple[int, int]
"""The number of a sequence, and a position among its tokens."""
GAPS = "-."
HEADERS = (["region", "start", "end"], ["name", "region", "start", "end"])


@dataclass(frozen=True)
class Perplexity:
    """A perplexity per residue and its 95 % interval; NaN where nothing was measured."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class RegionWorth:
    """The figures of a region, or of all residues.

    residues      how many the sequences have; `masked`: how many were masked alone
    accuracy      how often the residue masked alone is the model's first choice; `frequent`: the most frequent residue's share
    frequencies, alone, any_order   perplexities per residue
    """

    region: str
    residues: int
    masked: int
    accuracy: float
    frequent: float
    frequencies: float
    alone: Perplexity
    any_order: Perplexity

    def says(self) -> str:
        """One line."""
        return (
            f"perplexity {_shown(self.alone)} alone, {_shown(self.any_order)} in any order, "
            f"{self.frequencies:.2f} by frequencies; accuracy {self.accuracy:.1%} of {self.masked:,}"
        )


@dataclass(frozen=True)
class Masked:
    """A residue that was masked alone: where, -log q over the residues, and whether it is the first choice."""

    place: Place
    nats: float
    right: bool


def residue_ids(model: MaskedLM) -> list[int] | None:
    """Ids of the 20 residues, if a model reads proteins letter by letter; else None."""
    ids = {model.token(i).strip(): i for i in model.regular_ids} if len(model.regular_ids) <= MOST_LETTERS else {}
    if not model.words.by_character or not ids.keys() >= set(RESIDUES):
        return None
    return [ids[letter] for letter in RESIDUES]


def measure_residues(
    model: MaskedLM,
    rows: Sequence[Sequence[int]],
    masked: Sequence[Masked],
    regions: Regions | None = None,
    numbers: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> list[RegionWorth]:
    """The figures of all residues, then of every region; `numbers`: which sequence of the file each row is."""
    found = residue_ids(model)
    assert found is not None
    kinds = {i: kind for kind, i in enumerate(found)}
    places = [(row, t) for row, ids in enumerate(rows) for t, i in enumerate(ids) if i in kinds]
    if not places:
        raise InputError("the texts have none of the 20 residues: give protein sequences")
    region_of = {} if regions is None else _regions_of(model, rows, places, regions, numbers or range(len(rows)))
    names = [EVERYTHING, *([] if regions is None else [*regions.names, ELSEWHERE])]
    drawn = list(_any_order(model, rows, places, kinds, progress))
    worth = []
    for name in names:
        inside = [place for place in places if name == EVERYTHING or region_of[place] == name]
        if not inside:
            continue
        chosen = set(inside)
        counts = np.bincount([kinds[rows[row][t]] for row, t in inside], minlength=len(found))
        share = counts[counts > 0] / counts.sum()
        mine = [one for one in masked if one.place in chosen]
        worth.append(
            RegionWorth(
                region=name,
                residues=len(inside),
                masked=len(mine),
                accuracy=sum(one.right for one in mine) / len(mine) if mine else nan,
                frequent=float(share.max()),
                frequencies=exp(-float(share @ np.log(share))),
                alone=_perplexity([(one.place[0], one.nats, 1.0) for one in mine]),
                any_order=_perplexity([(number, nats * w, w) for number, place, nats, w in drawn if place in chosen]),
            )
        )
    return worth


def _regions_of(
    model: MaskedLM, rows: Sequence[Sequence[int]], places: Sequence[Place], regions: Regions, numbers: Sequence[int]
) -> dict[Place, str]:
    """The region of every place; raises if a token is not the letter that is counted there."""
    before, found = len(model.words.around()[0]), dict[Place, str]()
    for row, t in places:
        letters = regions.by_residue[numbers[row]]
        letter, region = letters[t - before] if t - before < len(letters) else ("", None)
        if letter.upper() != model.token(rows[row][t]).strip():
            raise InputError(f"sequence {numbers[row] + 1} of data has letters that are not one token each: leave regions out")
        found[row, t] = region or ELSEWHERE
    return found


@torch.no_grad()
def _any_order(
    model: MaskedLM, rows: Sequence[Sequence[int]], places: Sequence[Place], kinds: dict[int, int], progress: Progress | None
) -> Iterator[tuple[int, Place, float, float]]:
    """(sequence, place, -log q, weight) of the hidden residues of ORDER_PASSES passes; the sequences take turns."""
    generator = torch.Generator().manual_seed(0)
    sites: dict[int, list[int]] = {}
    for row, t in places:
        sites.setdefault(row, []).append(t)
    usable = list(sites)
    turns = [
        usable[int(j * len(usable) / ORDER_PASSES) if len(usable) > ORDER_PASSES else j % len(usable)]
        for j in range(ORDER_PASSES)
    ]
    support, column = torch.tensor(list(kinds)), torch.tensor([kinds.get(i, 0) for i in range(model.vocab_size)])
    depths = (torch.randperm(ORDER_PASSES, generator=generator) + torch.rand(ORDER_PASSES, generator=generator)) / ORDER_PASSES
    shown = [int(depth * len(sites[row])) for depth, row in zip(depths.tolist(), turns, strict=True)]
    done = 0
    for part in of_one_key(range(ORDER_PASSES), lambda j: len(rows[turns[j]]), ROWS):
        ids = torch.tensor([rows[turns[j]] for j in part])
        hidden = [
            [sites[turns[j]][i] for i in torch.randperm(len(sites[turns[j]]), generator=generator)[shown[j] :]] for j in part
        ]
        shown_ids = ids.clone()
        for n, some in enumerate(hidden):
            shown_ids[n, some] = model.mask_id
        logits = model.logits(shown_ids, torch.arange(ids.shape[1]).expand(len(part), -1)).double().cpu()
        log_q = logits[:, :, support].log_softmax(-1).gather(2, column[ids][:, :, None])[:, :, 0]
        for n, j in enumerate(part):
            weight = len(sites[turns[j]]) / len(hidden[n])
            yield from ((turns[j], (turns[j], t), -float(log_q[n, t]), weight) for t in hidden[n])
        done += len(part)
        if progress:
            progress(done, ORDER_PASSES, "passes in any order")


def _perplexity(terms: Sequence[tuple[int, float, float]]) -> Perplexity:
    """exp of the sum of the second numbers over that of the third; the first is the sequence, the unit of its error."""
    if not terms:
        return Perplexity(nan, nan, nan)
    unit = np.unique([number for number, _, _ in terms], return_inverse=True)[1]
    above = np.bincount(unit, [a for _, a, _ in terms])
    below = np.bincount(unit, [b for _, _, b in terms])
    ratio = above.sum() / below.sum()
    n = len(above)
    error = sqrt(((above - ratio * below) ** 2).sum() * n / (n - 1)) / below.sum() if n > 1 else nan
    return Perplexity(*(exp(ratio + z * error) if z else exp(ratio) for z in (0.0, -1.96, 1.96)))


def _shown(found: Perplexity) -> str:
    if found.value != found.value:
        return "-"
    return f"{found.value:.2f}" if found.low != found.low else f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"


@dataclass(frozen=True)
class Regions:
    """The region of every residue of every sequence.

    names       the regions, in the file's order
    by_residue  for each sequence, for each of its residues (gaps left out), the letter and the region's name or None
    """

    names: list[str]
    by_residue: list[list[tuple[str, str | None]]]


def without_gaps(sequence: str) -> str:
    """A sequence of an alignment, its gaps left out."""
    return sequence.translate(dict.fromkeys(map(ord, GAPS)))


def read_regions(given: str | Path, names: Sequence[str] | None, sequences: Sequence[str]) -> Regions:
    """The regions of a table, for sequences as they are written; `names` of a FASTA file's records."""
    path = user_path(given, "regions")
    lines = [(number, line) for number, line in numbered_lines(path) if line.strip()]
    cells = [[cell.strip() for cell in row] for row in csv.reader(line for _, line in lines)]
    header = [cell.lower() for cell in cells[0]] if cells else []
    if header not in HEADERS or len(cells) < 2:
        raise InputError(
            f"regions {str(path)!r} is not a table of regions: begin it with region,start,end or name,region,start,end, "
            "and give one region per line"
        )
    number_of: dict[str, int] = {}
    if "name" in header:
        if names is None:
            raise InputError(f"regions {str(path)!r} names sequences, and data is not FASTA: give region,start,end, or FASTA")
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise InputError(f"data has {twice[0]!r} more than once, and regions go by name: give each sequence its own name")
        number_of = {name: number for number, name in enumerate(names)}
    columns: list[list[str | None]] = [[None] * len(sequence) for sequence in sequences]
    longest = max(map(len, sequences))
    found: dict[str, None] = {}
    for (number, _), row in zip(lines[1:], cells[1:], strict=True):
        at = f"regions {str(path)!r} line {number}"
        if len(row) != len(header):
            raise InputError(f"{at} has {len(row)} cells: give {','.join(header)}")
        entry = dict(zip(header, row, strict=True))
        if not entry["start"].isdecimal() or not entry["end"].isdecimal() or len(entry["end"]) > 9:
            raise InputError(f"{at}: {entry['start']!r} to {entry['end']!r} is not a range: give whole numbers from 1 on")
        start, end = int(entry["start"]), int(entry["end"])
        name = entry.get("name")
        if name is not None and name not in number_of:
            raise InputError(f"{at}: no sequence of data is named {name!r}: write the first word after > of its record")
        chosen = range(len(sequences)) if name is None else [number_of[name]]
        length = longest if name is None else len(sequences[number_of[name]])
        if not 1 <= start <= end <= length:
            raise InputError(f"{at}: {start} to {end} is outside the letters 1 to {length}: correct it")
        found[entry["region"]] = None
        for one in chosen:
            for place in range(start - 1, min(end, len(sequences[one]))):
                if columns[one][place] is not None:
                    raise InputError(f"{at}: letter {place + 1} is in {columns[one][place]!r} already: let regions not overlap")
                columns[one][place] = entry["region"]
    residues = [
        [(letter, region) for letter, region in zip(sequence, column, strict=True) if letter not in GAPS]
        for sequence, column in zip(sequences, columns, strict=True)
    ]
    return Regions(list(found), residues)
