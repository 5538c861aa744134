"""The kernels and decoders: what each is called, its options, the law of its texts, and where
it is computed.

A kernel is one step of a Markov chain, a decoder a rule that fills blanks. Each is a frozen
dataclass; its options are fields. Nothing heavy is imported; `on` loads the class with `init`
and `step` that computes it. A new one is that file and a class here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from annotated_types import Interval

from unmask.common.border.calls import settings
from unmask.common.border.marks import Written
from unmask.common.checks import one_of, shown
from unmask.common.errors import InputError

if TYPE_CHECKING:
    from unmask.sampling.engine.passes import Passes
    from unmask.sampling.target import Target

EnergyKind = Literal["raw", "norm"]
Scan = Literal["random", "fixed", "permutation"]
OutputForm = Literal["logits", "states"]
Order = Literal["random", "left-to-right", "right-to-left"]

HOTTEST, LONGEST, MOST_STEPS = 1e6, 10**5, 10**6
Temperature = Annotated[float, Interval(gt=0, le=HOTTEST)]
Steps = Annotated[int, Interval(ge=1, le=MOST_STEPS)]
OWN_LAW = "its own law, with log_prob"


@settings
class Method:
    """A kernel or a decoder. The fields of a subclass are its options; the rest is the same for
    all objects of a class.
    """

    name: ClassVar[str] = ""  # as it is typed
    label: ClassVar[str] = ""  # in tables and figures
    colour: ClassVar[str] = ""
    computed_by: ClassVar[str] = ""  # "module:class", below `unmask.sampling`
    step: ClassVar[str] = (
        ""  # one step, in words: the first line of the docstring, unless it is given
    )
    invariant: ClassVar[str] = ""  # the law that its steps leave invariant
    verdict: ClassVar[str] = ""  # the law of its texts, in a sentence
    uses_terms: ClassVar[bool] = (
        False  # whether the user's own terms of the energy are part of that law
    )
    decodes: ClassVar[bool] = (
        False  # whether it is a decoder: its texts are independent of each other
    )
    conditionals: ClassVar[int | None] = (
        None  # drawn from at once in a text; None: of the redrawn sites, of a decoder all
    )
    law: ClassVar[
        str
        # of a decoder that chooses positions before it draws their tokens, and so has a law: its
        # sets
    ] = ""
    bound: ClassVar[str] = (
        ""  # the option that bounds a set, for decoders that take a bound or a number of steps
    )
    parts: ClassVar[str] = (
        ""  # of a decoder, the option that says in how many passes, or sets, it fills a text
    )
    one_by_one: ClassVar[bool] = (
        False  # whether its law has one token per pass; `parts` are sets that are drafted together
    )
    corrects: ClassVar[bool] = (
        # whether it asks about tokens that the model sees, which takes training (--refinement)
        False
    )

    def __init_subclass__(cls) -> None:
        if "step" not in vars(cls):
            paragraph = (cls.__doc__ or "").partition("\n\n")[0]
            first = " ".join(paragraph.split()).removesuffix(".")
            cls.step = first[:1].lower() + first[1:]

    def __post_init__(self) -> None:
        """Checks of several fields together."""

    @property
    def sites_per_step(self) -> int:
        """How many sites one step redraws."""
        return int(getattr(self, "block_size", 1))

    @classmethod
    def in_parts(cls, number: int | None, **options: Any) -> Self:
        """A decoder that fills a text in this many passes, or sets; None: its own bound decides."""
        return cls(**{cls.parts: number}, **options)

    def conditionals_at_once(self, sites: int) -> int:
        """Conditionals of one text of `sites` free tokens that are drawn from at once."""
        return self.conditionals or (sites if self.decodes else self.sites_per_step)

    def on(self, target: Target, passes: Passes | None = None) -> Any:
        """The kernel or decoder for a target, with `init` and `step`."""
        from unmask.sampling.target import Target

        if not isinstance(target, Target):
            raise InputError(
                f"target {shown(target)} is not a target: give unmask.Target(model, template)"
            )
        if target.energy.user_terms and not self.uses_terms:
            able = ", ".join(name for name, method in KERNELS.items() if method.uses_terms)
            raise InputError(
                f"kernel {self.name} does not use terms of your own: leave them out, or use one of"
                f" {able}"
            )
        if passes is None:
            from unmask.sampling.engine.passes import Passes

            passes = Passes(target.model)
        module, _, name = self.computed_by.partition(":")
        return getattr(import_module(f"unmask.sampling.{module}"), name)(target, passes, self)


@settings
class Markov(Method):
    """A Markov kernel, which draws tokens from the model's conditionals.

    Parameters:
        proposal_temperature: Of the proposed tokens.
        scan: Order of the updates of a sweep.
    """

    proposal_temperature: Temperature = 1.0
    scan: Scan = "permutation"


@settings
class MH(Markov):
    """One token from its conditional, accepted or not.

    Parameters:
        energy_temperature: Of the energy: exp(-E / energy_temperature).
    """

    name, label, colour = "mh", "Metropolis-Hastings", "#0072B2"
    computed_by = "kernels.metropolis:MetropolisHastings"
    invariant, uses_terms = "exp(-E / energy_temperature)", True
    verdict = (
        "The chain leaves exp(-E / T) invariant: E the {energy} energy and what was added to it, T"
        " = {temperature:g}."
    )
    energy_temperature: Temperature = 1.0


@settings
class Gibbs(Markov):
    """One token from its conditional, always accepted."""

    name, label, colour = "gibbs", "pseudo-Gibbs", "#D55E00"
    computed_by = "kernels.kernel:PseudoGibbs"
    invariant = "a law of its own, which depends on the scan"
    verdict = (
        "Pseudo-Gibbs accepts everything: its law is not exp(-E) of either energy and depends on"
        " the order of updates. R-hat shows whether the chains agree with each other, not whether"
        " they agree with a target."
    )


@settings
class Block(MH):
    """A block of tokens at once, independently of each other.

    Parameters:
        block_size: Neighbouring tokens that a step redraws at once.
    """

    name, label, colour = "block", "product blocks", "#009E73"
    computed_by = "kernels.metropolis:ProductBlock"
    block_size: Annotated[int, Interval(ge=1, le=LONGEST)] = 2


@settings
class SequentialBlock(Block):
    """A block of tokens, each given those before it."""

    name, label, colour = "sequential-block", "sequential blocks", "#CC79A7"
    computed_by = "kernels.metropolis:SequentialBlock"
    conditionals = 1


@settings
class Decoding(Method):
    """A decoder.

    Parameters:
        temperature: Of the tokens that a decoder draws; 0 takes the likeliest [default: 1;
            translate: 0].
    """

    invariant = "nothing named"
    verdict = "Decoded texts, independent of each other; they are samples of no named distribution."
    decodes = True
    temperature: Annotated[float, Interval(ge=0, le=HOTTEST)] | None = None

    @property
    def token_temperature(self) -> float:
        """The temperature at which tokens are drawn."""
        return 1.0 if self.temperature is None else self.temperature


@settings
class Ancestral(Decoding):
    """A new text: blanks filled one by one.

    Parameters:
        order: In which blanks are filled.
    """

    name, label, colour = "ancestral", "ancestral sampling", "#117733"
    computed_by = "decoders.decoder:Ancestral"
    invariant = "an explicit distribution, with log_prob"
    verdict = (
        "Independent draws with exact log-probabilities, given each text's order; no chain, so"
        " nothing has to mix."
    )
    conditionals = 1
    order: Order = "random"


@settings
class InSteps(Decoding):
    """A decoder that takes a number of steps.

    Parameters:
        passes: Steps to a whole text.
    """

    parts = "passes"
    passes: Steps = 10


@settings
class MaskPredict(InSteps):
    """A new text: all blanks predicted, the least confident again."""

    name, label, colour = "mask-predict", "mask-predict", "#882255"
    computed_by = "decoders.decoder:MaskPredict"


@settings
class Confidence(InSteps):
    """A new text: all blanks predicted, the most confident kept."""

    name, label, colour = "confidence", "most confident first", "#555555"
    computed_by = "decoders.decoder:ConfidenceOrder"


@settings
class Revise(InSteps):
    """A new text: all blanks predicted, then every token again from the whole text."""

    name, label, colour = "revise", "revision", "#332288"
    computed_by = "decoders.decoder:Revise"
    corrects = True


REVEALED = (
    "Independent draws with exact log-probabilities (at temperature 0 the law is one text); no"
    " chain, so nothing has to mix. The law is the decoder's own: blanks that are filled together"
    " do not see each other."
)


@settings
class Bounded(Decoding):
    """A decoder that takes as many steps as a bound needs, or a number of them.

    Parameters:
        passes: Steps to a whole text, in place of the bound.
        gamma: Nats of dependence that a step may lose: more is fewer steps, 0 fills one by one
            [default: 1; least-dependent: 0.1].
    """

    parts, bound, usual_bound = "passes", "gamma", 1.0
    invariant, verdict = OWN_LAW, REVEALED
    passes: Steps | None = None
    gamma: Annotated[float, Interval(ge=0, le=HOTTEST)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.passes is not None and self.gamma is not None:
            raise InputError(
                f"passes {self.passes} and gamma {self.gamma:g} were both given, and each decides"
                " the number of steps: leave one out"
            )

    @property
    def limit(self) -> float:
        """The bound, or the usual one."""
        return self.usual_bound if self.gamma is None else self.gamma


@settings
class EntropyBound(Bounded):
    """A new text: the blanks of lowest entropy filled, as many as stay under a bound."""

    name, label, colour = "entropy-bound", "entropy-bound", "#44AA99"
    computed_by = "decoders.revealing:EntropyBound"
    law = "the blanks of lowest entropy whose entropies without the largest sum to gamma at most"


@settings
class LowestEntropy(InSteps):
    """A new text: the blanks of lowest entropy filled, equal numbers per step."""

    name, label, colour = "lowest-entropy", "lowest entropies", "#BB5566"
    computed_by = "decoders.revealing:LowestEntropy"
    invariant, verdict = OWN_LAW, REVEALED
    law = "the blanks of lowest entropy, equal numbers per pass"


@settings
class RandomSets(InSteps):
    """A new text: random blanks filled, equal numbers per step."""

    name, label, colour = "random-sets", "random sets", "#999933"
    computed_by = "decoders.revealing:RandomSets"
    invariant, verdict = OWN_LAW, REVEALED
    law = "blanks in a random order that the seed draws, equal numbers per pass"


@settings
class Interleaved(InSteps):
    """A new text: every m-th blank filled, m the number of steps."""

    name, label, colour = "interleaved", "interleaved", "#88CCEE"
    computed_by = "decoders.revealing:Interleaved"
    invariant, verdict = OWN_LAW, REVEALED
    law = "every m-th blank, m the number of passes, in bit-reversed order"


@settings
class Profiled(Method):
    """A decoder that reads a dependence profile.

    Parameters:
        profile: Dependence by distance: a file of `unmask dependence --profile` [default: the
            model's own].
    """

    profile: Annotated[Any, Written(metavar="PATH")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.profile is not None:
            from unmask.tables.profile import as_profile

            object.__setattr__(self, "profile", as_profile("profile", self.profile))


@settings
class LeastDependent(Profiled, Bounded):
    """A new text: blanks filled together that hardly depend on each other."""

    name, label, colour = "least-dependent", "least dependent", "#004488"
    computed_by = "decoders.revealing:LeastDependent"
    law = (
        "blanks whose estimated dependence on each other sums to gamma at most, least dependent"
        " next"
    )
    usual_bound = 0.1


@settings
class Verified(Profiled, Decoding):
    """A new text: sets of blanks drafted together, verified, and drawn again from the first
    rejection on.

    Parameters:
        sets: Of verified: sets that a whole text is drafted in.
    """

    name, label, colour = "verified", "verified sets", "#225522"
    computed_by = "decoders.verified:Verified"
    invariant = OWN_LAW
    verdict = (
        "Independent draws with exact log-probabilities (at temperature 0 the law is one text); no"
        " chain, so nothing has to mix. The law is that of one token per pass, in the order of the"
        " sets: nothing is lost by drafting together."
    )
    law = "one token, in the order of sets that are drafted together and verified"
    one_by_one = True
    parts = "sets"
    sets: Steps = 4

    def conditionals_at_once(self, sites: int) -> int:
        """Every row of a set has those of all sites."""
        return sites * (-(-sites // self.sets) + 2)


KERNELS: dict[str, type[Method]] = {
    one.name: one
    for one in list(globals().values())
    if isinstance(one, type) and issubclass(one, Method) and one.name
}
"""All kernels and decoders by name, in the order of this file: the choices of `--kernel`, of
tables and of figures.
"""


def with_law() -> list[str]:
    """The decoders that have a law."""
    return [name for name, method in KERNELS.items() if method.law]


def refuse_no_law(argument: str, decoder: str) -> None:
    """Refuse a decoder whose law cannot be computed; `argument`: with its value, as messages
    name it.
    """
    if decoder == Ancestral.name:
        raise InputError(
            f"{argument}: {decoder} fills one blank per pass, so its law is a chain rule; use"
            " any_order or left_to_right"
        )
    if decoder in KERNELS and KERNELS[decoder].decodes and not KERNELS[decoder].law:
        raise InputError(
            f"{argument}: {decoder} has no law that can be computed, because it does not choose"
            f" positions before it draws their tokens; use one of {', '.join(with_law())}"
        )


def entry_of(kernel: object) -> type[Method]:
    """The class of a name; an unknown one is refused, with the nearest."""
    return KERNELS[one_of("kernel", kernel, KERNELS)]
