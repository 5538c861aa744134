"""The scores: one entry each, a frozen dataclass. Its fields are the score's own options, its class variables the facts.

    unmask.score(texts, ["pll", unmask.AnyOrder(orders=32)])           unmask score FILE --score pll,any_order --orders 32

Write q(x_i | x_S) for the model's probability of token x_i where the tokens of S are revealed and all other sites masked.
"A probability" means that exp(score) sums to 1 over all texts of the same length in regular tokens, so that scores of one length
can be compared as odds and divided by log 2 to give bits; any other score can rank texts, but its size has no such meaning.

A model gives some probability to special tokens, which cannot occur in a text. So q is normalised over the regular tokens in all
chain rules and joints, as in `fill`; NAME_special is by how many nats a score is lower with q over the whole vocabulary.
Pseudo-likelihoods and energies keep the whole vocabulary, as they are published and as other tools compute them.
Nothing here imports torch: the function that computes a score is loaded when it is used.

Variants x of a parent w differ from it at some of k sites, and every other token is the parent's. Their scores (OF_VARIANTS) are
those of texts, with t over the sites and q over the alphabet, and a few that need the parent's neighbours only. Such a score is a
list of chains. A chain is one term (S, t) per site t, with the sites of S (a bit mask) revealed and the others masked; its value
is sum_t log q(x_t | x_S). Terms with the same S share their passes, whichever score asks, and so do variants with the same x_S.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from annotated_types import Interval

from unmask.checks import one_of, whole
from unmask.errors import InputError
from unmask.joints.registry import DEFAULT as DEFAULT_JOINT
from unmask.joints.registry import DEFAULT_OF_MUTANTS, named
from unmask.sampling.registry import KERNELS, refuse_no_law

Seed = Annotated[int, Interval(ge=0, le=2**63 - 1)]
Chain = list[tuple[int, int]]
_REGULAR, _WHOLE = "q over the regular tokens", "q over the whole vocabulary"


@dataclass(frozen=True)
class Score:
    """A score; a subclass is an entry, an object of it the score with these options.

    name          as it is typed, and its column
    definition    a sentence with its formula, and what q is normalised over
    probability   whether exp(score) sums to 1 over the texts of a length
    why           in a few words, why that is so
    function      "module:function" (`unmask.scoring.batch.ScoreFunction`); with equal options, its scores share passes
    shared        whether the passes of one of these give all of them; otherwise each counts
    unknown       whether texts with tokens that the model does not know have one
    by_token      whether it is a sum over tokens, so that each token and word has its share
    by_word       whether it needs the tokenizer's words
    windows       whether texts longer than the model can be scored in windows
    better        1 if a higher value means a better text, -1 if a lower one does
    extra         further columns of numbers that come with it, named NAME_suffix
    flags         further columns of yes or no, after those
    inexact       printed below values whose flag `exact` is no
    page_refusal  why the page does not offer it; empty if it does
    """

    name: ClassVar[str]
    definition: ClassVar[str]
    probability: ClassVar[bool]
    why: ClassVar[str]
    function: ClassVar[str]
    shared: ClassVar[bool] = False
    unknown: ClassVar[bool] = False
    by_token: ClassVar[bool] = False
    by_word: ClassVar[bool] = False
    windows: ClassVar[bool] = False
    better: ClassVar[int] = 1
    extra: ClassVar[tuple[str, ...]] = ()
    flags: ClassVar[tuple[str, ...]] = ()
    inexact: ClassVar[str] = ""
    page_refusal: ClassVar[str] = ""

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self), include_extras=True)
        for field in fields(self):
            object.__setattr__(self, field.name, _checked(field.name, getattr(self, field.name), hints[field.name]))

    @property
    def columns(self) -> dict[str, bool]:
        """Its columns, and whether each is a yes or no."""
        return {
            self.name: False,
            **{f"{self.name}_{suffix}": False for suffix in self.extra},
            **{f"{self.name}_{suffix}": True for suffix in self.flags},
        }

    @property
    def share_column(self) -> str:
        """The column of a token's or a word's share: minus its part of the score, or an energy's part itself."""
        return self.name if self.better < 0 else f"{self.name}_surprisal"

    def cost(self, sites: int) -> int:
        """About how many passes a text with this many sites takes, without what depends on its length alone."""
        return sites

    @classmethod
    def chains(cls, sites: int, orders: Sequence[Sequence[int]]) -> list[Chain]:
        """Its chains over the sites of variants, `orders` being sampled; none if it is not a sum over contexts."""
        return []


def _checked(name: str, value: Any, hint: Any) -> Any:
    """The value of a field, which must be within the bounds, or among the choices, of its type."""
    kind, *bounds = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if get_origin(kind) is Literal:
        return one_of(name, value, get_args(kind))
    if bounds and value is not None:
        return whole(name, value, bounds[0].ge, bounds[0].le)
    return value


def _along(order: Sequence[int]) -> Chain:
    """The chain rule in one order."""
    return [(sum(1 << site for site in order[:place]), site) for place, site in enumerate(order)]


class MaskedRange(Score):
    """Scores whose every term masks one range of positions.

    masks   what is masked with a token: nothing else, the later pieces of its word, all that comes after or before it
    reads   what the term of a token is: its log-probability, or its logit
    """

    function = "unmask.scoring.masked_ranges:score_ranges"
    masks: ClassVar[Literal["token", "word", "after", "before"]] = "token"
    reads: ClassVar[Literal["log_q", "logit"]] = "log_q"
    by_token = True
    windows = True


@dataclass(frozen=True)
class PLL(MaskedRange):
    """Pseudo-log-likelihood (Salazar et al. 2020)."""

    name = "pll"
    definition = f"pseudo-log-likelihood: sum over t of log q(x_t | all other tokens), {_WHOLE}"
    probability = False
    why = "the conditionals overlap; two tokens that always agree count each other's information twice"
    unknown = True

    @classmethod
    def chains(cls, sites: int, orders: Sequence[Sequence[int]]) -> list[Chain]:
        """Every site given all others."""
        return [[((1 << sites) - 1 - (1 << t), t) for t in range(sites)]]


@dataclass(frozen=True)
class PLLWord(MaskedRange):
    """Pseudo-log-likelihood with the later pieces of a word masked (Kauf & Ivanova 2023)."""

    name = "pll_word"
    definition = f"as pll, with the later pieces of the same word masked along with x_t (Kauf & Ivanova 2023), {_WHOLE}"
    probability = False
    why = "within a word it is a chain rule, between words the conditionals overlap as those of pll"
    masks = "word"
    unknown = True
    by_word = True


class _Energies(MaskedRange):
    probability = False
    why = "exp(-E) has no normaliser"
    better = -1


@dataclass(frozen=True)
class EnergyRaw(_Energies):
    """Energy of the logits."""

    name = "energy_raw"
    definition = "E(x) = - sum over t of the logit f_t(x_t), position t masked alone; lower is better"
    reads = "logit"


@dataclass(frozen=True)
class EnergyNorm(_Energies):
    """Energy of the normalised conditionals: minus the pseudo-log-likelihood."""

    name = "energy_norm"
    definition = f"E(x) = - sum over t of log q(x_t | all other tokens) = -pll, {_WHOLE}; lower is better"


class _FixedOrders(MaskedRange):
    probability = True
    why = "the chain rule in a fixed order"
    extra = ("special",)


@dataclass(frozen=True)
class LeftToRight(_FixedOrders):
    """Chain rule from the first token to the last."""

    name = "left_to_right"
    definition = f"chain rule from the first token to the last: sum over t of log q(x_t | x_1 .. x_{{t-1}}), {_REGULAR}"
    masks = "after"

    @classmethod
    def chains(cls, sites: int, orders: Sequence[Sequence[int]]) -> list[Chain]:
        """Every site given those before it."""
        return [_along(range(sites))]


@dataclass(frozen=True)
class RightToLeft(_FixedOrders):
    """Chain rule from the last token to the first."""

    name = "right_to_left"
    definition = f"chain rule from the last token to the first: sum over t of log q(x_t | x_{{t+1}} .. x_T), {_REGULAR}"
    masks = "before"


class _AdaptiveOrders(Score):
    function = "unmask.scoring.orders:score_adaptive"
    probability = True
    why = "the rule sees the revealed tokens only, so each step is a conditional probability of the next"
    by_token = True
    extra = ("special",)


@dataclass(frozen=True)
class Confident(_AdaptiveOrders):
    """Chain rule, the site with the most probable token next."""

    name = "confident"
    definition = f"chain rule, next the hidden site whose likeliest token has the highest probability, {_REGULAR}"


@dataclass(frozen=True)
class Margin(_AdaptiveOrders):
    """Chain rule, the site with the largest margin between its two best tokens next."""

    name = "margin"
    definition = f"chain rule, next the hidden site whose two likeliest tokens lie furthest apart in probability, {_REGULAR}"


@dataclass(frozen=True)
class Open(_AdaptiveOrders):
    """Chain rule, the site with the highest entropy next."""

    name = "open"
    definition = f"chain rule, next the hidden site whose distribution has the highest entropy, {_REGULAR}"


@dataclass(frozen=True)
class _Orders(Score):
    exact_tokens: Annotated[int, Interval(ge=0, le=16)] = 14
    orders: Annotated[int, Interval(ge=2, le=10**6)] = 64
    seed: Seed = 0

    function = "unmask.scoring.orders:score_orders"
    shared = True

    def cost(self, sites: int) -> int:
        """Passes of the lattice of revealed sets, or of the sampled orders."""
        return 2**sites - 1 if sites <= self.exact_tokens else sites * self.orders


@dataclass(frozen=True)
class AnyOrder(_Orders):
    """Log of the mean over all orders of the chain rule's probability.

    Parameters
    ----------
    exact_tokens
        Exact up to this many tokens, in 2^k - 1 passes for k tokens.
    orders
        Orders sampled for longer texts.
    seed
        Seed of the sampled orders.
    """

    name = "any_order"
    definition = (
        f"log of the mean over all orders of the chain rule's probability, {_REGULAR}; any_order_mean_log: mean of the logs"
    )
    probability = True
    why = "a mean of probabilities"
    extra = ("se", "mean_log", "special")

    @classmethod
    def chains(cls, sites: int, orders: Sequence[Sequence[int]]) -> list[Chain]:
        """Every site given those before it, in each order."""
        return [_along(order) for order in orders]


@dataclass(frozen=True)
class OrderBounds(_Orders):
    """Chain rule in the best order, and in the worst.

    Parameters
    ----------
    exact_tokens
        Exact up to this many tokens, in 2^k - 1 passes for k tokens.
    orders
        Orders sampled for longer texts.
    seed
        Seed of the sampled orders.
    """

    name = "order_bounds"
    definition = f"chain rule in the best order; order_bounds_worst in the worst; any_order lies between; {_REGULAR}"
    probability = False
    why = "which order is best depends on the hidden tokens"
    extra = ("worst",)
    flags = ("exact",)


@dataclass(frozen=True)
class PairJoint(Score):
    """Adjacent pairs from derived joints, over their shared marginals.

    Parameters
    ----------
    joint
        Construction of the joints.
    candidates
        Tokens considered per site.
    """

    joint: str = DEFAULT_JOINT
    candidates: Annotated[int, Interval(ge=1, le=10**6)] = 64

    name = "pair"
    definition = (
        "sum of log mu_i(x_i, x_{i+1}) over adjacent pairs minus log of their shared marginals, mu_i a derived joint, " + _REGULAR
    )
    probability = False
    why = "the pairs' contexts overlap, as those of pll do"
    function = "unmask.scoring.pair_joints:score_pairs"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "joint", named(self.joint, "joint").name)

    def cost(self, sites: int) -> int:
        """Two rows of each candidate."""
        return 2 * self.candidates * sites


@dataclass(frozen=True)
class LogProb(Score):
    """Log-probability under exp(-E) / Z at a fixed length, between bounds.

    Parameters
    ----------
    energy
        Energy that is normalised.
    chains
        Annealing runs in each direction.
    anneals
        Distributions between the chain rule and exp(-E), in sweeps; more make tighter bounds.
    seed
        Seed of the annealing.
    """

    energy: Literal["norm", "raw"] = "norm"
    chains: Annotated[int, Interval(ge=2, le=10**6)] = 32
    anneals: Annotated[int, Interval(ge=1, le=10**6)] = 20
    seed: Seed = 0

    name = "log_prob"
    definition = (
        "-E(x) - log Z over the texts of this length in regular tokens, log Z by enumeration or between annealed importance "
        "sampling's bounds; E as in energy_raw or energy_norm"
    )
    probability = True
    why = "normalised by Z, within the bounds log_prob_low and log_prob_high"
    function = "unmask.scoring.annealed_importance:score_log_prob"
    extra = ("low", "high")
    flags = ("exact",)
    # against enumeration with the default settings; docs/scores.md has the counts
    inexact = "bounds less than 2 nats apart miss about 1 time in 50, wider ones 1 time in 3"
    page_refusal = "takes minutes for one text"


DECODER = "decoder:"
"""Before the name of a decoder whose law is the score; @N after it gives the number of passes."""
USUAL_PASSES, MOST_PASSES = 10, 10**6


@dataclass(frozen=True)
class DecoderLaw(Score):
    """Law of a decoder: the log-probability that it fills all blanks with the text's tokens; typed as decoder:NAME@PASSES.

    Parameters
    ----------
    decoder
        Decoder that chooses positions before it draws their tokens.
    passes
        Passes in which it fills a text. By default its bound decides, or there are 10.
    seed
        Seed of a random order, which is the same for all texts of a length.
    """

    decoder: str
    passes: Annotated[int, Interval(ge=1, le=MOST_PASSES)] | None = None
    seed: Seed = 0

    probability = True
    why = "positions are chosen from the revealed tokens only, so each pass is a conditional probability of the tokens it reveals"
    function = "unmask.scoring.orders:score_law"
    by_token = True
    extra = ("special",)

    def __post_init__(self) -> None:
        refuse_no_law(f"score {DECODER}{self.decoder}", self.decoder)
        one_of("score", f"{DECODER}{self.decoder}", LAWS)
        if self.passes is not None:
            whole(f"the number of passes of score {DECODER}{self.decoder}", self.passes, 1, MOST_PASSES)
        whole("seed", self.seed, 0, 2**63 - 1)

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{DECODER}{self.decoder}" + ("" if self.passes is None else f"@{self.passes}")

    @property
    def definition(self) -> str:  # type: ignore[override]
        entry = KERNELS[self.decoder]
        usual = f"the default {entry.bound}" if entry.bound else f"{USUAL_PASSES} passes"
        passes = usual if self.passes is None else f"{self.passes} passes" if self.passes > 1 else "1 pass"
        return (
            f"law of the decoder {self.decoder}: a pass reveals {entry.law}, "
            f"each token with log q(x_i | what was revealed before), {passes}, {_REGULAR}"
        )

    def cost(self, sites: int) -> int:
        """The decoder's own passes."""
        return min(sites, self.passes or USUAL_PASSES)


SCORES: dict[str, type[Score]] = {
    entry.name: entry
    for entry in (
        PLL, PLLWord, EnergyRaw, EnergyNorm, LeftToRight, RightToLeft, Confident, Margin, Open, AnyOrder, OrderBounds, PairJoint,
        LogProb,
    )
}  # fmt: skip
"""Entries by name; the laws of decoders, which have any number of passes in their names, are `DecoderLaw`."""
LAWS = [f"{DECODER}{name}" for name, entry in KERNELS.items() if entry.law]
DEFAULT = PLL.name
DEFAULT_OF_HARNESS = AnyOrder.name
"""A probability: answers of the LM Evaluation Harness are compared by it."""
ScoreNames = str | Score | Sequence[str | Score]
"""Names with commas between them, an entry, or a list of both."""


def chosen(scores: ScoreNames, options: Mapping[str, Any] | None = None) -> tuple[Score, ...]:
    """The scores asked for, each once; an unknown name raises, with the nearest.

    options   fields of entries that are given by name: each goes to all of them that have it, and one that none has is refused
    """
    options = options or {}
    listed = [part.strip() for part in scores.split(",")] if isinstance(scores, str) else scores
    listed = [listed] if isinstance(listed, Score) else list(listed)
    if not listed or listed == [""]:
        raise InputError(f"no score was asked for: name one or more of {', '.join(SCORES)}")
    entries = [item if isinstance(item, Score) else _named(item, options) for item in listed]
    for option in options:
        if not any(hasattr(entry, option) for entry, item in zip(entries, listed, strict=True) if item is not entry):
            names, readers = (", ".join(entry.name for entry in entries), " or ".join(_readers(option)))
            raise InputError(f"{option} was given, which score {names} does not use: leave it out, or use score {readers}")
    by_name: dict[str, Score] = {}
    for entry in entries:
        if by_name.setdefault(entry.name, entry) != entry:
            raise InputError(f"score {entry.name} was given twice, with different options: give it once")
    return tuple(by_name.values())


def _named(name: object, options: Mapping[str, Any]) -> Score:
    """The score of a name, with those of the options that it has."""
    own: dict[str, Any] = {}
    if isinstance(name, str) and name.startswith(DECODER):
        decoder, at, passes = name.removeprefix(DECODER).partition("@")
        short = passes.isascii() and passes.isdigit() and len(passes) <= len(str(2**64))  # int() refuses thousands of digits
        kind: type[Score] = DecoderLaw
        own = {"decoder": decoder} | ({"passes": int(passes) if short else passes[:20]} if at else {})
    else:
        kind = SCORES[one_of("score", name, [*SCORES, *LAWS])]
    return kind(**{field.name: options[field.name] for field in fields(kind) if field.name in options} | own)


def _readers(option: str) -> list[str]:
    """The scores that have an option."""
    kinds: dict[str, type[Score]] = {**SCORES, f"{DECODER}NAME": DecoderLaw}
    return [name for name, kind in kinds.items() if any(field.name == option for field in fields(kind))]


@dataclass(frozen=True)
class Singles(Score):
    """Every change alone in the parent."""

    name = "singles"
    definition = "sum over the changes of log q(x_t | w) - log q(w_t | w): each change alone in the parent"
    probability = False
    why = "a difference"


@dataclass(frozen=True)
class Product(Score):
    """Every site alone, all of them masked."""

    name = "product"
    definition = "sum over the sites of log q(x_t | no site revealed): all sites masked"
    probability = True
    why = "independent sites"

    @classmethod
    def chains(cls, sites: int, orders: Sequence[Sequence[int]]) -> list[Chain]:
        """Every site given none."""
        return [[(0, t) for t in range(sites)]]


@dataclass(frozen=True)
class Epistasis(Score):
    """What pairs of changes add to single ones."""

    name = "epistasis"
    definition = (
        "sum over pairs of changed sites of log mu(x_s, x_t) - log mu(w_s, w_t) - the pair's singles, mu the joint that a "
        "construction derives for s and t in the parent"
    )
    probability = False
    why = "a difference"


OF_VARIANTS: dict[str, type[Score]] = {
    entry.name: entry for entry in (Singles, Product, PLL, LeftToRight, AnyOrder, Epistasis)
}
PAIRS = "pairs:"
"""Before the name of a construction: singles plus epistasis by it."""


def chosen_of_variants(names: str | Iterable[str], joint: str = DEFAULT_OF_MUTANTS) -> tuple[str, ...]:
    """The scores of variants asked for, each once: a list of names, or one text with commas; "all" is each of them.

    joint   the construction of `pairs` without a name
    """
    listed = _comma_separated(names) if isinstance(names, str) else list(names)
    if listed == ["all"]:
        listed = [*OF_VARIANTS, "pairs"]
    known = (*OF_VARIANTS, f"{PAIRS}CONSTRUCTION")
    if not listed:
        raise InputError(f"no score was asked for: name one or more of {', '.join(known)}")
    scores: dict[str, None] = {}
    for name in listed:
        if isinstance(name, str) and (name == "pairs" or name.startswith(PAIRS)):
            construction = joint if name == "pairs" else name.removeprefix(PAIRS)
            name = PAIRS + named(construction, "construction of pairs").name
        else:
            one_of("score", name, known)
        scores[name] = None
    return tuple(scores)


def _comma_separated(text: str) -> list[str]:
    """The names in a text with commas; a number belongs to the name before it, such as pairs:family:0.5,0.25."""
    parts: list[str] = []
    for part in text.split(","):
        if parts and not part.strip()[:1].isalpha():
            parts[-1] += f",{part.strip()}"
        else:
            parts.append(part.strip())
    return parts


def sharing(scores: Iterable[Score]) -> list[list[Score]]:
    """The scores in groups that one call of their function computes: those with equal options."""
    groups: dict[tuple[Any, ...], list[Score]] = {}
    for score in scores:
        groups.setdefault((score.function, *astuple(score)), []).append(score)
    return list(groups.values())


def passes_of(sites: int, scores: Iterable[Score]) -> int:
    """About how many passes these scores take for a text, in whatever order they are named."""
    return sum(group[0].cost(sites) * (1 if group[0].shared else len(group)) for group in sharing(scores))


def columns_of(scores: Iterable[Score]) -> dict[str, bool]:
    """The columns of these scores, and whether each is a yes or no."""
    return {column: is_flag for score in scores for column, is_flag in score.columns.items()}


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
