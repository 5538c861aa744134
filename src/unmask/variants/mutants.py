"""`mutants`: the model's log-probabilities of single and multiple mutants of a sequence.

For positions S of a sequence w and tokens x at them, all else as in w, mu is the joint of S that a construction derives:

    log_prob      log mu(x)                                                 normalised over the alphabet at every position of S
    effect        log mu(x) - log mu(w)
    singles       sum_{t in S} log q_t(x_t | w) - log q_t(w_t | w)          the model's own conditionals, all else as in w
    epistasis     effect - singles                                          0 where the changes add up
    interaction   log mu(x) - log mu(w) - sum_t [log mu(x_t, w) - log mu(w)]

Epistasis compares the joint with the model's effect of each change alone; interaction is the same difference inside the
joint. If the conditionals come from one joint the two are equal; their difference shows how far to trust either.
Exact: every combination of the alphabet's tokens at S is summed over, at up to MOST_CHANGES positions.

Mutants are given by names such as A24G+L30V, or as a scan of positions (`Wanted`). Residues are counted from 1; residue i is the
i-th regular token of the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from itertools import combinations
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from unmask.answers.asking import Alphabet, Model, for_each, look_at_first
from unmask.answers.plots import figure_path, save_figure
from unmask.arguments import checked
from unmask.cloze import blanked
from unmask.errors import InputError
from unmask.formats import excerpt
from unmask.joints.deriving import derive
from unmask.joints.joint import Joint
from unmask.joints.registry import DEFAULT_OF_MUTANTS, named
from unmask.models.masked_lm import MaskedLM, as_model
from unmask.options.answers import MOST_CHANGES, MUTANT_NUMBERS, MutantsOptions
from unmask.options.option import documented
from unmask.runs.files import write_table
from unmask.runs.outputs import answer_file
from unmask.runs.progress import Enough, Progress
from unmask.tables.candidates import MAX_PASSES
from unmask.tables.unary import Tables, pass_count, tables_of
from unmask.variants.parent import Parent, listed, places_of, refuse_twice, residue_ids
from unmask.variants.signatures import mutants_verb

if TYPE_CHECKING:
    import pandas
    from pandas import DataFrame

    from unmask.figures import Figure
    from unmask.variants.measured import Measured


PARQUET = {".parquet": (b"PAR1",)}
TOGETHER = 64
"""Sets of positions whose passes run together."""


def effects(tables: Tables, wild: Sequence[int], construction: str = DEFAULT_OF_MUTANTS) -> dict[str, Tensor]:
    """The five numbers of the module's text for all fillings of the block of `tables`: tensors with one axis per position.

    wild   the places, among each position's candidates, of the tokens of the sequence
    """
    return effects_in(derive(tables, construction), wild)


def effects_in(joint: Joint, wild: Sequence[int]) -> dict[str, Tensor]:
    """The same, of a joint that is derived already."""
    tables = joint.tables
    log_prob = (tables.log_q[0] if tables.sites == 1 else joint.dense()).double()
    whole = tuple(wild)
    singles, alone = torch.zeros_like(log_prob), torch.zeros_like(log_prob)
    for t in range(log_prob.dim()):
        line: tuple[int | slice, ...] = (*whole[:t], slice(None), *whole[t + 1 :])
        shape = [-1 if s == t else 1 for s in range(log_prob.dim())]
        own, line_of_joint = tables.log_q[t][line].double(), log_prob[line]
        singles = singles + (own - own[wild[t]]).reshape(shape)
        alone = alone + (line_of_joint - line_of_joint[wild[t]]).reshape(shape)
    effect = log_prob - log_prob[whole]
    return dict(zip(MUTANT_NUMBERS, (log_prob, effect, singles, effect - singles, effect - alone), strict=True))


@dataclass(frozen=True)
class Mutants:
    """Mutants of a sequence and the model's numbers for each; the five numbers have one entry per mutant.

    sequence      as it was given
    wild_type     its tokens
    alphabet      the tokens allowed at a position
    joint         how the joint of the changed places was derived
    changes       for each mutant its (place, token) pairs, places counted from 1
    numbers       the five numbers of the module's text by name
    top           how many are shown; all are there
    by            the number by which they are ranked, largest first

    >>> found = unmask.mutants("the cat sat", positions=[2], alphabet="cat,dog,man")
    >>> found.wild_type, len(found.changes)
    (('the', 'cat', 'sat'), 2)
    """

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
    def mutants(self) -> list[str]:
        """The names, such as "A24G+L30V"."""
        return ["+".join(f"{self.wild_type[place - 1]}{place}{new}" for place, new in made) for made in self.changes]

    def to_frame(self) -> pandas.DataFrame:
        """One row per mutant: its name, how many changes, the five numbers."""
        import pandas

        changes = [len(made) for made in self.changes]
        return pandas.DataFrame({"mutant": self.mutants, "changes": changes, **self.numbers})

    def to_dict(self) -> dict[str, object]:
        """The JSON of `unmask mutants --json`."""
        return {
            "sequence": self.sequence,
            "joint": self.joint,
            "alphabet": list(self.alphabet),
            "mutants": self.to_frame().to_dict("records"),
        }

    def best(self) -> Mutants:
        """The `top` mutants with the largest number `by`, largest first."""
        order = sorted(range(len(self)), key=lambda i: -self.numbers[self.by][i])[: self.top]
        numbers = {name: [values[i] for i in order] for name, values in self.numbers.items()}
        return replace(self, changes=[self.changes[i] for i in order], numbers=numbers)

    @checked
    def write(self, path: str | Path) -> None:
        """All mutants and their numbers to a Parquet file."""
        write_table(answer_file("out", path, PARQUET, 1), self.to_frame())

    def figure(self) -> Figure:
        """A heat map: effects of single changes by place and token; of multiple ones, epistasis."""
        from unmask.variants.plots import mutant_map

        return mutant_map(self)

    def __repr__(self) -> str:
        best = self.best()
        return f"Mutants({len(self)} of {len(self.wild_type)} residues, best {best.mutants[0]} {best.numbers[self.by][0]:+.3f})"

    def _repr_html_(self) -> str:
        shown = self.best().to_frame().round(3).to_html(index=False)
        return f"<p>{escape(excerpt(self.sequence, [], 80).text)}<br>the best of {len(self):,} mutants</p>{shown}"


@mutants_verb
@documented(MutantsOptions)
@checked
def mutants(
    sequence: Sequence[str],
    mutations: str | Path | Sequence[str] | None = None,
    positions: str | Sequence[int] | None = None,
    changes: int | None = None,
    measured: str | Path | DataFrame | Sequence[Mapping[str, Any]] | None = None,
    column: str | None = None,
    variant: str | None = None,
    skip_bad: bool = False,
    better: str | None = None,
    scores: str | Sequence[str] | None = None,
    orders: int | None = None,
    seed: int | None = None,
    run: str | Path | None = None,
    engine: str | None = None,
    workers: int | None = None,
    model: Model = None,
    joint: str = DEFAULT_OF_MUTANTS,
    alphabet: Alphabet = None,
    top: int | None = None,
    by: str | None = None,
    out: str | Path | None = None,
    figure: str | Path | None = None,
    device: str = "auto",
    dtype: str = "auto",
    rename: Mapping[str, str] | None = None,
    lang: str | None = None,
    shift: bool = False,
    mask_token: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Iterator[Mutants | Measured]:
    """Log-probabilities of mutants of a sequence, the sum of their single effects, and the difference: epistasis.

    One sequence gives one answer, a list of sequences a list of them. Give mutations or positions; or `measured`, a list of
    variants with measured values, and the answer is a `Measured`: which score ranks them best, and how sure that is.

    Arguments: help(unmask.mutants)

    >>> found = unmask.mutants("the cat sat", "cat2dog", alphabet="cat,dog,man")
    >>> found.to_frame()["mutant"].tolist()
    ['cat2dog']
    """
    options = MutantsOptions.given(locals())
    construction = named(joint, "joint").name
    if measured is None and (mutations is None) == (positions is None):
        both = "neither mutations nor positions were given" if positions is None else "mutations and positions were both given"
        raise InputError(f"{both}: name mutants such as A24G+L30V, or positions to scan")
    if measured is not None and len(sequence) > 1:
        raise InputError(f"{len(sequence)} sequences and one list of measured variants were given: give one sequence")
    reads = (model, mutations, alphabet, measured)
    figure_file = figure_path(figure, len(sequence), reads)
    out_file = None if out is None else answer_file("out", out, PARQUET, len(sequence), reads)
    names = None if mutations is None else listed(mutations)
    answers: Iterator[Mutants | Measured]
    if measured is not None:
        from unmask.variants.measured import check_run, measure

        check_run(options, reads)
    lm = as_model(model, "cpu" if options.engine == "ray" else device, dtype, rename, lang, shift, mask_token)
    allowed = residue_ids(lm, alphabet)
    if measured is not None:
        answers = (measure(lm, one, allowed, options, progress) for one in for_each(sequence, lambda text: text))
    else:
        scans = for_each(sequence, lambda one: Scan(lm, one, names, positions, options.changes, allowed, force))
        look_at_first(lm, (scan.ids for scan in scans))
        report = progress if len(sequence) == 1 else None
        answers = (replace(scan.answer(construction, report), top=options.top, by=options.by) for scan in scans)
    for answer in answers:
        yield answer
        if out_file is not None:
            answer.write(out_file)
        save_figure(answer.figure, figure_file)


MOST_ROWS = 5_000_000


class Scan(Parent):
    """One sequence, and the mutants of it that are asked for.

    sets   for each set of places the fillings asked for, as indices into `allowed`; None: all in which every place changes
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
                raise InputError(f"{changes} changes together and {len(scanned)} positions: give more positions")
            rows = sum(comb(len(scanned), m) * (len(allowed) - 1) ** m for m in range(1, changes + 1))
            what = f"{changes} changes among {len(scanned)} positions are {{}} mutants"
            _refuse_more(rows, MOST_ROWS, what, "change fewer together, or use", force)
            self.sets = {some: None for m in range(1, changes + 1) for some in combinations(scanned, m)}
        self.refuse_foreign({place for places in self.sets for place in places})
        self.passes = sum(map(self._passes, self.sets))
        _refuse_more(self.passes, MAX_PASSES, "these mutants need {} passes of the model", "use a smaller alphabet, or", force)

    def _named(self, names: Sequence[str]) -> dict[tuple[int, ...], list[tuple[int, ...]] | None]:
        sets: dict[tuple[int, ...], list[tuple[int, ...]] | None] = {}
        for name in names:
            made = sorted(self.change(part.strip(), f"mutant {name!r}") for part in name.split("+"))
            places = tuple(place for place, _ in made)
            refuse_twice(places, f"mutant {name!r}")
            if len(places) > MOST_CHANGES:
                raise InputError(f"mutant {name!r} has {len(places)} changes, and up to {MOST_CHANGES} are exact: change fewer")
            cells = sets.setdefault(places, [])
            assert cells is not None
            cells.append(tuple(token for _, token in made))
        return sets

    def _passes(self, places: Sequence[int]) -> int:
        return pass_count([len(self.allowed)] * len(places))

    def answer(self, construction: str, progress: Progress | None) -> Mutants:
        """The numbers of the mutants; of those done, if the user has enough."""
        changes: list[tuple[tuple[int, str], ...]] = []
        numbers: dict[str, list[float]] = {name: [] for name in MUTANT_NUMBERS}
        sets, done = list(self.sets), 0
        try:
            for start in range(0, len(sets), TOGETHER):
                self._measure(group := sets[start : start + TOGETHER], construction, changes, numbers)
                done += sum(map(self._passes, group))
                if progress:
                    progress(done, self.passes, "passes of the model")
        except Enough:
            if not changes:
                raise
        return Mutants(self.text, tuple(self.residues), tuple(self.tokens), construction, changes, numbers)

    def _measure(
        self,
        group: Sequence[tuple[int, ...]],
        construction: str,
        changes: list[tuple[tuple[int, str], ...]],
        numbers: dict[str, list[float]],
    ) -> None:
        """Add the mutants of some sets of places."""
        axis = torch.tensor(self.allowed, device=self.model.device)
        clozes = [blanked(self.ids, [self.where[place - 1] for place in places], self.model.mask_id) for places in group]
        axes = [[axis] * len(places) for places in group]
        for places, table in zip(group, tables_of(self.model, clozes, axes, dtype=torch.float64, supports=axes), strict=True):
            wild = [self.allowed.index(self.ids[self.where[place - 1]]) for place in places]
            cells = self.sets[places]
            chosen = _all_changed(wild, len(self.allowed)) if cells is None else torch.tensor(cells)
            for row in chosen.tolist():
                changes.append(tuple((place, self.tokens[i]) for place, i in zip(places, row, strict=True)))
            for name, values in effects(table, wild, construction).items():
                numbers[name] += values.cpu()[tuple(chosen.T)].tolist()


def _all_changed(wild: Sequence[int], size: int) -> Tensor:
    """Every filling in which no place keeps its token, one per row."""
    others = [torch.tensor([i for i in range(size) if i != old]) for old in wild]
    return torch.cartesian_prod(*others).reshape(-1, len(wild))


def _refuse_more(count: int, most: int, what: str, advice: str, force: bool) -> None:
    if count > most and not force:
        raise InputError(f"{what.format(f'{count:,}')} (limit {most:,}): scan fewer positions, {advice} --force")
