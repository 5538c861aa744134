"""The scores: one entry each, a frozen dataclass. Its fields are the score's own options, its
class variables the facts.

    unmask.score(texts, ["pll", unmask.AnyOrder(orders=32)])
            unmask score FILE --score pll,any_order --orders 32

Write q(x_i | x_S) for the model's probability of token x_i where the tokens of S are revealed
and all other sites masked. "A probability" means that exp(score) sums to 1 over all texts of
the same length in regular tokens, so that scores of one length can be compared as odds and
divided by log 2 to give bits; any other score can rank texts, but its size has no such meaning.

A model gives some probability to special tokens, which cannot occur in a text. So q is
normalised over the regular tokens in all chain rules and joints, as in `fill`.
Pseudo-likelihoods and energies keep the whole vocabulary, as they are published and as other
tools compute them. Nothing here imports torch: the function that computes a score is loaded
when it is used.

Variants x of a parent w differ from it at some of k sites, and every other token is the
parent's. Their scores (OF_VARIANTS) are those of texts, with t over the sites and q over the
alphabet, and a few that need the parent's neighbours only. Such a score is a list of chains. A
chain is one term (S, t) per site t, with the sites of S (a bit mask) revealed and the others
masked; its value is sum_t log q(x_t | x_S). Terms with the same S share their passes, whichever
score asks, and so do variants with the same x_S.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Interval

from unmask.common.border.calls import settings
from unmask.common.border.marks import PYTHON_ONLY, TakesMethod, comma_separated
from unmask.common.checks import one_of, whole
from unmask.common.errors import InputError, argument_name
from unmask.joints.constructions.construction import Construction
from unmask.joints.registry import DEFAULT_OF_MUTANTS, named
from unmask.sampling.registry import KERNELS, refuse_no_law

Seed = Annotated[int, Interval(ge=0, le=2**63 - 1)]
Chain = list[tuple[int, int]]


@settings
class Score:
    """A score. A subclass is an entry, whose first paragraph is the definition; an object of it
    is the score with its options.
    """

    name: ClassVar[str]  # as it is typed, and its column
    definition: ClassVar[str]  # a sentence with its formula, and what q is normalised over
    probability: ClassVar[bool] = False  # whether exp(score) sums to 1 over the texts of a length
    why: ClassVar[str]  # in a few words, why that is so
    function: ClassVar[
        str
    ]  # "module:function" (`batch.ScoreFunction`); with equal options, its scores share passes
    unknown: ClassVar[bool] = (
        False  # whether texts with tokens that the model does not know have one
    )
    by_token: ClassVar[bool] = (
        False  # whether it is a sum over tokens, so that each token and word has its share
    )
    by_word: ClassVar[bool] = False  # whether it needs the tokenizer's words
    windows: ClassVar[bool] = False  # whether texts longer than the model can be scored in windows
    better: ClassVar[int] = 1  # 1 if a higher value means a better text, -1 if a lower one does
    extra: ClassVar[
        tuple[str, ...]
    ] = ()  # further columns of numbers that come with it, named NAME_suffix

    def __init_subclass__(cls) -> None:
        if isinstance(vars(cls).get("name"), str):
            cls.definition = " ".join((cls.__doc__ or "").partition("\n\n")[0].split())

    @property
    def columns(self) -> list[str]:
        """Its own column, and the further ones."""
        return [self.name, *(f"{self.name}_{suffix}" for suffix in self.extra)]

    @property
    def share_column(self) -> str:
        """The column of a token's or a word's share: minus its part of the score, or an
        energy's part itself.
        """
        return self.name if self.better < 0 else f"{self.name}_surprisal"

    def cost(self, sites: int) -> int:
        """About how many passes a text with this many sites takes, without what depends on its
        length alone.
        """
        return sites

    @classmethod
    def variant_chains(cls, sites: int, orders: Sequence[Sequence[int]]) -> list[Chain]:
        """Its chains over the sites of variants, `orders` being sampled; none if it is not a
        sum over contexts.
        """
        return []


def _along(order: Sequence[int]) -> Chain:
    """The chain rule in one order."""
    return [(sum(1 << site for site in order[:place]), site) for place, site in enumerate(order)]


class MaskedRange(Score):
    """Scores whose every term masks one range of positions."""

    function = "unmask.scoring.batch:score_ranges"
    masks: ClassVar[Literal["token", "word", "after", "before"]] = (
        "token"  # what is masked with a token: its word's later pieces
    )
    reads: ClassVar[Literal["log_q", "logit"]] = "log_q"  # what the term of a token is
    by_token, windows = True, True


@settings
class PLL(MaskedRange):
    """pseudo-log-likelihood: sum over t of log q(x_t | all other tokens), q over the whole
    vocabulary
    """

    name, unknown = "pll", True
    why = (
        "the conditionals overlap; two tokens that always agree count each other's information"
        " twice"
    )

    @classmethod
    def variant_chains(cls, sites: int, orders: Sequence[Sequence[int]]) -> list[Chain]:
        """Every site given all others."""
        return [[((1 << sites) - 1 - (1 << t), t) for t in range(sites)]]


@settings
class PLLWord(MaskedRange):
    """as pll, with the later pieces of the same word masked along with x_t (Kauf & Ivanova
    2023), q over the whole vocabulary
    """

    name, unknown, masks, by_word = "pll_word", True, "word", True
    why = "within a word it is a chain rule, between words the conditionals overlap as those of pll"


@settings
class EnergyRaw(MaskedRange):
    """E(x) = - sum over t of the logit f_t(x_t), position t masked alone; lower is better"""

    name, reads, better = "energy_raw", "logit", -1
    why = "exp(-E) has no normaliser"


@settings
class EnergyNorm(MaskedRange):
    """E(x) = - sum over t of log q(x_t | all other tokens) = -pll, q over the whole vocabulary;
    lower is better
    """

    name, better = "energy_norm", -1
    why = "exp(-E) has no normaliser"


class FixedOrder(MaskedRange):
    """Chain rules whose order is the same for all texts."""

    probability = True
    why = "the chain rule in a fixed order"


@settings
class LeftToRight(FixedOrder):
    """chain rule from the first token to the last: sum over t of log q(x_t | x_1 .. x_{t-1}, a
    blank for each later token), q over the regular tokens; so it knows how long the text is,
    unless right is given

    Parameters:
        right: Of left_to_right: blanks after each token, the same for texts of all lengths
            [default: one for each later token].
    """

    right: Annotated[int, Interval(ge=0, le=10_000)] | None = None

    name, masks = "left_to_right", "after"

    @classmethod
    def variant_chains(cls, sites: int, orders: Sequence[Sequence[int]]) -> list[Chain]:
        """Every site given those before it."""
        return [_along(range(sites))]


@settings
class RightToLeft(FixedOrder):
    """chain rule from the last token to the first: sum over t of log q(x_t | x_{t+1} .. x_T), q
    over the regular tokens
    """

    name, masks = "right_to_left", "before"


@settings
class AnyOrder(Score):
    """log of the mean over all orders of the chain rule's probability, q over the regular
    tokens; any_order_mean_log: mean of the logs

    Parameters:
        exact_tokens: Exact up to this many tokens, in 2^k - 1 passes for k tokens.
        orders: Orders sampled for longer texts.
        seed: Seed of the sampled orders.
    """

    exact_tokens: Annotated[int, Interval(ge=0, le=16)] = 14
    orders: Annotated[int, Interval(ge=2, le=10**6)] = 64
    seed: Seed = 0

    name, probability, extra = "any_order", True, ("se", "mean_log")
    why = "a mean of probabilities"
    function = "unmask.scoring.batch:score_orders"

    def cost(self, sites: int) -> int:
        """Passes of the lattice of revealed sets, or of the sampled orders."""
        return 2**sites - 1 if sites <= self.exact_tokens else sites * self.orders

    @classmethod
    def variant_chains(cls, sites: int, orders: Sequence[Sequence[int]]) -> list[Chain]:
        """Every site given those before it, in each order."""
        return [_along(order) for order in orders]


# Before the name of a decoder whose law is the score; @N after it gives the number of passes
DECODER = "decoder:"
USUAL_PASSES, MOST_PASSES = 10, 10**6


@settings
class DecoderLaw(Score):
    """Law of a decoder: the log-probability that it fills all blanks with the text's tokens;
    typed as decoder:NAME@PASSES.

    Parameters:
        decoder: Decoder that chooses positions before it draws their tokens.
        passes: Passes in which it fills a text. By default its bound decides, or the decoder's
            own number.
        sets: Of verified: sets of a text. By default the decoder's own number.
        seed: Seed of a random order, which is the same for all texts of a length.
    """

    decoder: Annotated[str, PYTHON_ONLY]
    passes: Annotated[int | None, PYTHON_ONLY] = None
    sets: Annotated[int | None, PYTHON_ONLY] = None
    seed: Seed = 0

    probability, by_token = True, True
    why = (
        "positions are chosen from the revealed tokens only, so each pass is a conditional"
        " probability of the tokens it reveals"
    )
    function = "unmask.scoring.batch:score_law"

    def __post_init__(self) -> None:
        refuse_no_law(f"score {DECODER}{self.decoder}", self.decoder)
        one_of("score", f"{DECODER}{self.decoder}", LAWS)
        option = KERNELS[self.decoder].parts
        for name in ("passes", "sets"):
            number = getattr(self, name)
            if number is None:
                continue
            if name != option:
                raise InputError(
                    f"is not used by decoder {self.decoder}", argument=name, use=f"give {option}"
                )
            whole(f"the number of {name} of score {DECODER}{self.decoder}", number, 1, MOST_PASSES)

    @property
    def parts(self) -> int | None:
        """The number of passes, or of sets; None: by default."""
        return self.passes if self.sets is None else self.sets

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{DECODER}{self.decoder}" + ("" if self.parts is None else f"@{self.parts}")

    @property
    def definition(self) -> str:  # type: ignore[override]
        entry = KERNELS[self.decoder]
        number = self.parts
        if number is None:
            number = getattr(entry(), entry.parts)  # None where a bound decides
        one, several = ("set", "sets") if entry.one_by_one else ("pass", "passes")
        passes = (
            f"the default {entry.bound}"
            if number is None
            else f"{number} {one if number == 1 else several}"
        )
        return (
            f"law of the decoder {self.decoder}: a pass reveals {entry.law}, each token with log"
            f" q(x_i | what was revealed before), {passes}, q over the regular tokens"
        )

    def cost(self, sites: int) -> int:
        """The decoder's own passes."""
        return sites if KERNELS[self.decoder].one_by_one else min(sites, self.parts or USUAL_PASSES)


SCORES: dict[str, type[Score]] = {
    entry.name: entry
    for entry in (PLL, PLLWord, EnergyRaw, EnergyNorm, LeftToRight, RightToLeft, AnyOrder)
}
"""Entries by name; the laws of decoders, which have any number of passes in their names, are
`DecoderLaw`.
"""
LAWS = [f"{DECODER}{name}" for name, entry in KERNELS.items() if entry.law]
DEFAULT = PLL.name
DEFAULT_OF_HARNESS = AnyOrder.name
"""A probability: answers of the LM Evaluation Harness are compared by it."""
METHODS: dict[str, type[Score]] = {**SCORES, f"{DECODER}NAME@PASSES": DecoderLaw}
SCORE = TakesMethod("unmask.scoring.registry:METHODS", parse="unmask.scoring.registry:parsed")
SEVERAL = TakesMethod(SCORE.registry, several=True, parse=SCORE.parse)
"""Marks of arguments that take a score, or several: names with commas between them, entries, or
a list of both.
"""


def parsed(name: str) -> Score:
    """The score of a name, such as decoder:interleaved@4; an unknown one raises, with the
    nearest.
    """
    if name == "surprisal":
        raise InputError(
            "surprisal is not a name of a score",
            argument="score",
            use=f"use left_to_right with {argument_name('rows', 'words')}, which has surprisals",
        )
    if not name.startswith(DECODER):
        return SCORES[one_of("score", name, [*SCORES, *LAWS])]()
    decoder, at, number = name.removeprefix(DECODER).partition("@")
    option = "passes"
    if decoder in KERNELS and KERNELS[decoder].parts:
        option = KERNELS[decoder].parts
    if not at:
        return DecoderLaw(decoder)
    short = (
        number.isascii() and number.isdigit() and len(number) <= len(str(2**64))
    )  # int() refuses thousands of digits
    if not short:
        whole(f"the number of {option} of score {DECODER}{decoder}", number[:20], 1, MOST_PASSES)
    return DecoderLaw(decoder, **{option: int(number)})


def each_once(scores: Iterable[Score]) -> tuple[Score, ...]:
    """The scores, each once.

    Raises for a score with two sets of options, whose columns would have the same names.
    """
    by_name: dict[str, Score] = {}
    for score in scores:
        if by_name.setdefault(score.name, score) != score:
            raise InputError(
                f"{score.name} was given twice, with different options",
                argument="score",
                use="give it once",
            )
    return tuple(by_name.values())


def sharing(scores: Iterable[Score]) -> list[list[Score]]:
    """The scores in groups that one call of their function computes: those with equal options."""
    groups: dict[tuple[Any, ...], list[Score]] = {}
    for score in scores:
        options = [value for value in astuple(score) if value is not None]
        groups.setdefault((score.function, *options), []).append(score)
    return list(groups.values())


def columns_of(scores: Iterable[Score]) -> list[str]:
    """The columns of these scores."""
    return [column for score in scores for column in score.columns]


def about(scores: Iterable[Score]) -> dict[str, dict[str, Any]]:
    """The definition of each score, and whether it is a probability."""
    return {
        score.name: {
            "definition": score.definition,
            "probability": score.probability,
            "why": score.why,
            "better": "higher" if score.better > 0 else "lower",
        }
        for score in scores
    }


@settings
class Singles(Score):
    """sum over the changes of log q(x_t | w) - log q(w_t | w): each change alone in the parent"""

    name = "singles"
    why = "a difference"


@settings
class Product(Score):
    """sum over the sites of log q(x_t | no site revealed): all sites masked"""

    name, probability = "product", True
    why = "independent sites"

    @classmethod
    def variant_chains(cls, sites: int, orders: Sequence[Sequence[int]]) -> list[Chain]:
        """Every site given none."""
        return [[(0, t) for t in range(sites)]]


@settings
class Epistasis(Score):
    """sum over pairs of changed sites of log mu(x_s, x_t) - log mu(w_s, w_t) - the pair's
    singles, mu the joint that a construction derives for s and t in the parent
    """

    name = "epistasis"
    why = "a difference"


OF_VARIANTS: dict[str, type[Score]] = {
    entry.name: entry for entry in (Singles, Product, PLL, LeftToRight, AnyOrder, Epistasis)
}
PAIRS = "pairs:"
"""Before the name of a construction: singles plus epistasis by it."""


def chosen_of_variants(
    names: str | Iterable[str], construction: Construction | None = None
) -> tuple[str, ...]:
    """The scores of variants asked for, each once: a list of names, or one text with commas;
    "all" is each of them.

    construction   that of `pairs` without a name [default: balanced]
    """
    listed = comma_separated(names) if isinstance(names, str) else list(names)
    if listed == ["all"]:
        listed = [*OF_VARIANTS, "pairs"]
    known = (*OF_VARIANTS, f"{PAIRS}CONSTRUCTION")
    if not listed:
        raise InputError(f"no score was asked for: name one or more of {', '.join(known)}")
    scores: dict[str, None] = {}
    for name in listed:
        if name == "pairs" or name.startswith(PAIRS):
            name = PAIRS + of_pairs(name.removeprefix(PAIRS), construction).name
        else:
            one_of("score", name, known)
        scores[name] = None
    return tuple(scores)


def of_pairs(name: str, construction: Construction | None) -> Construction:
    """The construction that pairs:NAME names; of `pairs` the one that is given."""
    if construction is None:
        construction = named(DEFAULT_OF_MUTANTS)
    if name in ("pairs", construction.name):  # its name may be that of a user's own
        return construction
    return named(name, "construction of pairs")
