"""Options of `fill`, `compare`, `dependence`, `mutants` and `check`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from unmask.joints.registry import DEFAULT_OF_MUTANTS, FORMS
from unmask.options.kinds import (
    AllowedWords,
    Choice,
    Construction,
    Constructions,
    File,
    Flag,
    Listed,
    Numbers,
    Patterns,
    Real,
    Text,
    Whole,
    Words,
)
from unmask.options.option import OUTPUT, option
from unmask.options.shared import ALPHABET, GRID, MOST_CANDIDATES, Drawn, Grid, Loaded, Printed, Targets, Texts, texts

Others = Literal["masked", "text"]
MUTANT_NUMBERS = ("log_prob", "effect", "singles", "epistasis", "interaction")
MOST_SHOWN = 1_000_000
MOST_PIECES, MOST_PASSES, MOST_CHANGES = 8, 10**7, 4
SEARCH = "Search over the whole vocabulary"
DERIVED = f"How the joint is derived: {', '.join(FORMS)}."


def _top(what: str, count: int) -> Any:
    return option(count, Whole(1, MOST_SHOWN), f"How many {what}.", "-t", group=OUTPUT)


@dataclass(frozen=True)
class FillOptions(Printed, Loaded, Grid, Targets, Texts):
    """Options of `fill`."""

    more: ClassVar[str] = (
        "From three blanks on by chain without --candidates, with [WORD] and [GAP:2-5], and with the options of a search, "
        "fillings are searched over the whole vocabulary, and the answer says how much of the mass was seen."
    )
    examples: ClassVar[tuple[str, ...]] = (
        "unmask fill 'The [MASK] [MASK] at the casino.'",
        "unmask fill 'She [WORD] the door.' --forbid closed,opened --top 5",
    )
    text: Any = texts("Text with [MASK] at each blank, [WORD] for a whole word or [GAP:2-5] for two to five tokens.")
    joint: str | None = option(
        None, Construction(), DERIVED, "-j", group=GRID, otherwise="restarted for one or two blanks, chain from three on"
    )
    answers: Sequence[str] | None = option(
        None, Words(), "Fillings to score beside the best, each with its rank and odds; of any length.", group=SEARCH
    )
    pieces: int = option(3, Whole(1, MOST_PIECES), "The most tokens of a [WORD].", group=SEARCH)
    lengths: str = option(
        "uniform",
        Choice(("uniform", "fit")),
        "How the lengths of [WORD] and [GAP:2-5] are weighed",
        group=SEARCH,
    )
    allow: Mapping[int, Sequence[str]] | None = option(
        None, AllowedWords(), "The only words of a blank, such as 2=red,green.", group=SEARCH
    )
    forbid: Sequence[str] | None = option(None, Words(), "Words that no blank may take, whatever their case.", group=SEARCH)
    match: str | Mapping[int, str] | None = option(
        None, Patterns(), "What a blank's filling must match as a whole, such as 2=.*ing.", group=SEARCH
    )
    differ: bool = option(False, Flag(), "Leave out the tokens that stood at --positions.", group=SEARCH)
    passes: int | None = option(None, Whole(1, MOST_PASSES), "The most passes of the search.", group=SEARCH, otherwise="1,000")
    mass: float | None = option(
        None, Real(0, 1, above=True), "Search until this much probability is found, such as 0.5.", group=SEARCH
    )
    top: int = _top("completions to show", 10)


@dataclass(frozen=True)
class CompareOptions(Printed, Drawn, Loaded, Grid, Targets, Texts):
    """Options of `compare`."""

    more: ClassVar[str] = "The figure shows the joint of two blanks, independent and by the default."
    examples: ClassVar[tuple[str, ...]] = (
        "unmask compare 'The [MASK] [MASK] at the casino.'",
        "unmask compare 'The [MASK] [MASK] at the casino.' --targets man,is --joints product,mrf,restarted",
    )
    text: Any = texts("Text with [MASK] at each blank.")
    joints: Any = option("all", Constructions(), f"all, or some of {', '.join(FORMS)}.", group=GRID)
    joint: str | None = option(
        None, Construction(), "The construction by which completions are ranked.", "-j", group=GRID, otherwise="restarted"
    )
    top: int = _top("completions to show", 10)


@dataclass(frozen=True)
class DependenceOptions(Printed, Drawn, Loaded, Grid, Texts):
    """Options of `dependence`."""

    more: ClassVar[str] = "The figure shows the matrix as a heat map."
    examples: ClassVar[tuple[str, ...]] = (
        "unmask dependence 'The [MASK] [MASK] at the [MASK].'",
        "unmask dependence 'She put the keys on the table.' --positions 2,4,7 --figure dependence.png",
    )
    text: Any = texts("Text with [MASK] at two blanks or more, or a whole text.")
    joint: str = option("pseudo_gibbs", Construction(), DERIVED, "-j", group=GRID)
    others: Others | None = option(
        None,
        Choice(("masked", "text")),
        "What stands at the other positions while a pair is measured: masked, or the text itself (text).",
        otherwise="masked for blanks, text for a whole text",
    )
    candidates: int | None = option(
        None,
        Whole(1, MOST_CANDIDATES),
        "Tokens to consider at each position.",
        "-n",
        group=GRID,
        otherwise="32 to 256, by how many positions",
    )
    positions: Sequence[int] | None = option(
        None,
        Numbers(int),
        "Which tokens of a whole text, such as 2,3,6; the first, usually [CLS], is 0.",
        otherwise="all but special ones",
    )
    force: bool = option(False, Flag(), "Go on where there are more than 200,000 passes.", group=GRID)


@dataclass(frozen=True)
class MutantsOptions(Printed, Drawn, Loaded, Texts):
    """Options of `mutants`."""

    more: ClassVar[str] = (
        "Exact over the alphabet for up to four changes. "
        "The figure is a heat map: effects of single changes, or epistasis of pairs."
    )
    examples: ClassVar[tuple[str, ...]] = (
        "unmask mutants 'the cat sat' --mutations cat2dog --alphabet cat,dog,man",
        "unmask mutants 'the cat sat' --positions all --changes 2 --alphabet the,cat,dog,sat --by epistasis",
    )
    sequence: Any = texts("A sequence, such as a protein.")
    mutations: Any = option(
        None, Listed(), "Mutants by name, such as A24G,A24G+L30V, or a file of them, one per line.", python="Or a list of names."
    )
    positions: Any = option(
        None, Listed(), "Or residues to scan, such as 24,30-33, or all; the first is 1.", python="Or a list of numbers."
    )
    changes: int = option(1, Whole(1, MOST_CHANGES), "How many residues of a scan change together, 1 to 4.")
    joint: str = option(DEFAULT_OF_MUTANTS, Construction(), DERIVED, "-j")
    alphabet: Any = option(
        None,
        Text(),
        f"The tokens that may stand at a position: {ALPHABET}.",
        otherwise="every regular token of a small vocabulary",
        python="Or a list of tokens.",
    )
    force: bool = option(False, Flag(), "Go on beyond 200,000 passes or five million mutants.")
    out: Any = option(None, File(), "Parquet file for all mutants and their numbers.", group=OUTPUT)
    top: int = _top("mutants to print, best first", 20)
    by: str = option("effect", Choice(MUTANT_NUMBERS), "What ranks them", group=OUTPUT)


@dataclass(frozen=True)
class CheckOptions(Printed, Loaded):
    """Options of `check`."""

    more: ClassVar[str] = (
        "With --data, one token at a time is masked in those texts: a model that is read wrong shows in the accuracy."
    )
    examples: ClassVar[tuple[str, ...]] = ("unmask check", "unmask check --model bert-base-cased --data texts.txt")
    data: Any = option(
        None,
        File(),
        "Texts of the kind it was trained on: one per line, or .fasta; - is standard input.",
        python="Or a list of texts.",
    )
