"""Options of `fill`, `compare`, `dependence`, `mutants`, `check` and `serve`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from unmask.joints.registry import DEFAULT, DEFAULT_OF_DEPENDENCE, DEFAULT_OF_MUTANTS, FORMS, SEARCHED
from unmask.options.kinds import (
    AllowedWords,
    Alphabet,
    Choice,
    Construction,
    Constructions,
    File,
    Flag,
    ForbiddenWords,
    Listed,
    Numbers,
    Patterns,
    Real,
    Text,
    TextFile,
    VariantScores,
    Whole,
    Words,
)
from unmask.options.option import Fold, Reads, grouped, option, output_row
from unmask.options.shared import (
    ALPHABET,
    LARGEST_SEED,
    MOST_CANDIDATES,
    ON_RAY,
    Drawn,
    Grid,
    Loaded,
    Printed,
    SharedWork,
    Targets,
    Texts,
    grid_row,
    texts,
)
from unmask.scoring.registry import NAMES_OF_VARIANTS

Others = Literal["masked", "text"]
MUTANT_NUMBERS = ("log_prob", "effect", "singles", "epistasis", "interaction")
MOST_SHOWN = 1_000_000
MOST_PIECES, MOST_PASSES, MOST_CHANGES = 8, 10**7, 4
MOST_SENTENCES = 10**7
MOST_ORDERS = 10_000
search_row, profile_row = grouped("Search over the whole vocabulary"), grouped("Profile")
measured_row = grouped("Measured variants")
SCANNED, MEASURED = "--mutations or --positions", "--measured"
OF_MEASURED = tuple("column variant skip_bad better scores orders seed run engine workers".split())
SEARCH = ("alphabet", "pieces", "lengths", "allow", "match", "differ", "passes", "mass")
DERIVED = f"How the joint is derived: {', '.join(FORMS)}."


def _top(what: str, count: int) -> Any:
    return output_row(count, Whole(1, MOST_SHOWN), f"How many {what}.", "-t")


@dataclass(frozen=True)
class FillOptions(Printed, Loaded, Grid, Targets, Texts):
    """Options of `fill`."""

    more = (
        "From three blanks on by chain without --candidates, with [WORD] and [GAP:2-5], and with the options of a search, "
        "fillings are searched over the whole vocabulary, and the answer says how much of the mass was seen."
    )
    folds = (*Loaded.folds, Fold("--forbid WORDS", "search and constraints", SEARCH))
    examples = (
        "unmask fill 'The [MASK] [MASK] at the casino.'",
        "unmask fill 'She [WORD] the door.' --forbid closed,opened --top 5",
    )
    text: Any = texts("Text with [MASK] at each blank, [WORD] for a whole word or [GAP:2-5] for two to five tokens.")
    joint: str | None = grid_row(
        None, Construction(), DERIVED, "-j", otherwise=f"{DEFAULT} for one or two blanks, {SEARCHED} from three on"
    )
    answers: Sequence[str] | None = search_row(
        None, Words(), "Fillings to score beside the best, each with its rank and odds; of any length."
    )
    pieces: int = search_row(3, Whole(1, MOST_PIECES), "The most tokens of a [WORD].")
    lengths: str = search_row("uniform", Choice(("uniform", "fit")), "How the lengths of [WORD] and [GAP:2-5] are weighed")
    allow: Mapping[int, Sequence[str]] | None = search_row(
        None, AllowedWords(), "The only words of a blank, such as 2=red,green."
    )
    forbid: Sequence[str] | None = search_row(None, ForbiddenWords(), "Words that no blank may take, whatever their case.")
    match: Mapping[int, str] | None = search_row(
        None, Patterns(), "What a blank's filling must match as a whole, such as 2=.*ing."
    )
    differ: bool = search_row(False, Flag(), "Leave out the filling that stood at --positions, as a whole.")
    passes: int | None = search_row(None, Whole(1, MOST_PASSES), "The most passes of the search.", otherwise="1,000")
    mass: float | None = search_row(None, Real(0, 1, above=True), "Search until this much probability is found, such as 0.5.")
    top: int = _top("completions to show", 10)

    @property
    def constrained(self) -> bool:
        """Whether some fillings are left out, however probable."""
        return bool(self.allow or self.forbid or self.match or self.differ)


@dataclass(frozen=True)
class CompareOptions(Printed, Drawn, Loaded, Grid, Targets, Texts):
    """Options of `compare`."""

    more = "The figure shows the joint of two blanks, independent and by the default."
    examples = (
        "unmask compare 'The [MASK] [MASK] at the casino.'",
        "unmask compare 'The [MASK] [MASK] at the casino.' --targets man,is --joints product,mrf,restarted",
    )
    text: Any = texts("Text with [MASK] at each blank.")
    joints: Any = grid_row("all", Constructions(), f"all, or some of {', '.join(FORMS)}.")
    joint: str | None = grid_row(
        None, Construction(), "The construction by which completions are ranked.", "-j", otherwise=DEFAULT
    )
    top: int = _top("completions to show", 10)


@dataclass(frozen=True)
class DependenceOptions(Printed, Drawn, Loaded, Grid, Texts):
    """Options of `dependence`."""

    more = "The figure shows the matrix as a heat map. --profile takes a text's place."
    examples = (
        "unmask dependence 'The [MASK] [MASK] at the [MASK].'",
        "unmask dependence 'She put the keys on the table.' --positions 2,4,7 --figure dependence.png",
    )
    folds = (*Loaded.folds, Fold("--profile FILE", "a profile", ("sentences", "seed", "out")))
    text: Any = texts("Text with [MASK] at two blanks or more, or a whole text.", required="")
    profile: Any = profile_row(None, TextFile(), "Measure how blanks depend on each other by distance, on texts, one per line.")
    sentences: int = profile_row(2000, Whole(1, MOST_SENTENCES), "The most texts to measure on.")
    seed: int = profile_row(0, Whole(0, LARGEST_SEED), "Seed of the random hidden sets.")
    joint: str = grid_row(DEFAULT_OF_DEPENDENCE, Construction(), DERIVED, "-j")
    others: Others | None = option(
        None,
        Choice(("masked", "text")),
        "What stands at the other positions while a pair is measured: masked, or the text itself (text).",
        otherwise="masked for blanks, text for a whole text",
    )
    candidates: int | None = grid_row(
        None,
        Whole(1, MOST_CANDIDATES),
        "Tokens to consider at each position.",
        "-n",
        otherwise="32 to 256, by how many positions; 16 of a profile",
    )
    positions: Sequence[int] | None = option(
        None,
        Numbers(int),
        "Which tokens of a whole text, such as 2,3,6; the first, usually [CLS], is 0.",
        otherwise="all but special ones",
    )
    force: bool = grid_row(False, Flag(), "Go on where there are more than 200,000 passes.")
    out: Any = output_row(None, File(), "File for the profile, JSON; least-dependent decoding reads it (--profile).")


@dataclass(frozen=True)
class MutantsOptions(Printed, Drawn, SharedWork, Loaded, Texts):
    """Options of `mutants`."""

    more = (
        "Exact over the alphabet for up to four changes; the figure is a heat map. "
        "With --measured, scores of a list of variants are compared with their values."
    )
    examples = (
        "unmask mutants 'the cat sat' --mutations cat2dog --alphabet cat,dog,man",
        "unmask mutants 'the cat sat' --positions all --changes 2 --alphabet the,cat,dog,sat --by epistasis",
    )
    reads = (Reads("", {SCANNED: ("mutations", "changes", "top", "by"), MEASURED: OF_MEASURED}), ON_RAY)
    folds = (
        *Loaded.folds,
        Fold("--measured FILE", "measured variants", OF_MEASURED),
    )
    sequence: Any = texts("A sequence, such as a protein.")
    mutations: Any = option(
        None, Listed(), "Mutants, such as A24G,A24G+L30V, or a file of them, one per line.", python="Or a list of names."
    )
    positions: Any = option(
        None,
        Listed(),
        "Or residues to scan, such as 24,30-33 (the first is 1), or all; of --measured, those that vary.",
        python="Or a list of numbers.",
    )
    changes: int = option(1, Whole(1, MOST_CHANGES), "How many residues of a scan change together, 1 to 4.")
    joint: str = option(DEFAULT_OF_MUTANTS, Construction(), DERIVED, "-j")
    measured: Any = measured_row(
        None,
        File(),
        "CSV or TSV file of variants (A24G+L30V, whole sequences, or residues at --positions) with measured values.",
        python="Or a pandas frame, or a list of rows.",
    )
    column: str | None = measured_row(None, Text(), "The column of the values.", otherwise="the only one of numbers")
    variant: str | None = measured_row(None, Text(), "The column of the variants.", otherwise="the first that can be read")
    better: str = measured_row("higher", Choice(("higher", "lower")), "Which values are better")
    skip_bad: bool = measured_row(False, Flag(), "Leave out rows that cannot be read, and count them.")
    scores: Any = measured_row(
        "all",
        VariantScores(),
        f"Scores to compare: all, or some of {', '.join(NAMES_OF_VARIANTS)}.",
    )
    orders: int = measured_row(8, Whole(1, MOST_ORDERS), "Sampled orders of any_order.")
    seed: int = measured_row(0, Whole(0, LARGEST_SEED), "Seed of orders and bootstrap.")
    run: Any = measured_row(None, File(), "Folder where scores are kept as they come; the same command continues a stopped run.")
    alphabet: Any = option(
        None,
        Alphabet(),
        f"The tokens that may stand at a position: {ALPHABET}.",
        otherwise="every regular token of a small vocabulary",
    )
    force: bool = option(False, Flag(), "Go on beyond 200,000 passes or five million mutants.")
    out: Any = output_row(None, File(), "Parquet file for all mutants and their numbers.")
    top: int = _top("mutants to print, best first", 20)
    by: str = output_row("effect", Choice(MUTANT_NUMBERS), "What ranks them")

    @classmethod
    def chosen(cls, what: str, given: Mapping[str, Any]) -> tuple[str, ...]:
        """Whether variants are measured, or the engine."""
        return super().chosen(what, given) if what else (MEASURED if given.get("measured") is not None else SCANNED,)


@dataclass(frozen=True)
class CheckOptions(Printed, Loaded):
    """Options of `check`."""

    more = "With --data, one token at a time is masked in those texts: a model that is read wrong shows in the accuracy."
    examples = ("unmask check", "unmask check --model bert-base-cased --data texts.txt")
    data: Any = option(None, TextFile(), "Texts of the kind it was trained on: one per line, or .fasta; - is standard input.")
