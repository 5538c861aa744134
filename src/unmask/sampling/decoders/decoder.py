"""Decoders: rules that fill blanks in a few passes. Their base class, their registry, and the loop
that all of them run in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Interval

from unmask.common.lazy import torch
from unmask.common.methods.method import Method, method
from unmask.common.methods.own_code import is_ours
from unmask.common.methods.registry import Elsewhere, Registry
from unmask.sampling.kernels.state import refuse_nan
from unmask.sampling.own_steps import decoder_step, refuse_blanks

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from torch import Tensor

    from unmask.sampling.engine.passes import Passes
    from unmask.sampling.engine.randomness import Randomness
    from unmask.sampling.engine.token_draw import Categoricals, Drawn
    from unmask.sampling.on_target import DecoderOnTarget
    from unmask.sampling.target import Target

HOTTEST = 1e6  # The highest temperature
MOST_STEPS = 10**6
Steps = Annotated[int, Interval(ge=1, le=MOST_STEPS)]
OWN_LAW = "its own law, with log_prob"
DECODERS = Registry(
    "decoder",
    folders=("unmask.sampling.decoders",),
    elsewhere=Elsewhere("unmask.sampling.kernels.kernel:KERNELS", "sample", "kernel"),
)


@dataclass
class DecodeState:
    """n texts being decoded, on the model's device; steps change it in place.

    ids          token ids, the mask token where blank
    order        the sites in the order in which they are filled, where the decoder has one
    confidence   the model's probability of each site's token when it was chosen, over the
                 allowed tokens
    log_prob     log-probability of the text so far, where the decoder has one
    settled      texts that no further step would change, where the decoder knows
    steps        steps done
    """

    ids: Int[Tensor, "n T"]
    order: Int[Tensor, "n F"]
    confidence: Float[Tensor, "n F"]
    log_prob: Float[Tensor, " n"]
    settled: Bool[Tensor, " n"]
    steps: int = 0

    @classmethod
    def blank(cls, target: Target, n: int) -> DecodeState:
        """n texts with all free positions masked."""
        wide = torch.empty(0, dtype=torch.float64, device=target.device)
        return cls(
            ids=target.template_ids.repeat(n, 1),
            order=torch.arange(target.sites, device=target.device).repeat(n, 1),
            confidence=wide.new_zeros((n, target.sites)),
            log_prob=wide.new_zeros(n),
            settled=wide.new_zeros(n, dtype=torch.bool),
        )

    @property
    def rows(self) -> Int[Tensor, " n"]:
        """0 ... n - 1, on the state's device."""
        return torch.arange(len(self.ids), device=self.ids.device)

    def write(
        self, target: Target, rows: Int[Tensor, " m"], sites: Int[Tensor, " m"], drawn: Drawn
    ) -> None:
        """Fill one site of each of the texts `rows`."""
        self.ids[rows, target.free_positions[sites]] = drawn.tokens
        self.confidence[rows, sites] = (drawn.logit - drawn.log_allowed).exp()


@method
class Decoder(Method, ABC, registry=DECODERS):
    """A rule that fills the blanks of a target in a few passes.

    `on` puts a decoder on a target, which gives `init`, `steps` and `step`. A subclass defines
    `steps` and `step`. A decoder whose texts have a probability that can be computed says so in
    `exact`, and computes it in `log_law`. All random choices come from the `rng` that a step gets.

    Parameters:
        temperature: Of the tokens that a decoder draws; 0 takes the likeliest [default: 1;
            translate: 0].

    >>> model = unmask.load()
    >>> target = unmask.Target(model, model.cloze("The [MASK] sat on the [MASK].").ids)
    >>> decoder = unmask.MaskPredict(passes=4).on(target)
    >>> rng = unmask.ChainStreams(seed=0, chains=[0]).at(sweep=0, step=0)
    >>> state = decoder.init(1, rng)
    >>> for _ in range(decoder.steps):
    ...     state, passes = decoder.step(state, rng)
    >>> model.mask_id in state.ids[0].tolist()
    False
    """

    colour: ClassVar[str] = "#222222"
    """In figures."""
    law: ClassVar[str] = "nothing named"
    """The law of its texts, in a few words."""
    step_passes: ClassVar[str] = "not stated"
    """Passes of a text with T free tokens, in a few words, for tables."""
    verdict: ClassVar[str] = (
        "Decoded texts, independent of each other; they are samples of no named distribution."
    )
    """The law of its texts, in a sentence."""
    uses_terms: ClassVar[bool] = False
    """Whether terms that the user adds to the energy are part of that law."""
    decodes: ClassVar[bool] = True
    """A decoder's texts are independent of each other; a kernel's are not."""
    conditionals: ClassVar[int | None] = None
    """Conditionals of a text that are drawn from at once; None: those of all sites."""
    chooses: ClassVar[str] = ""
    """Of a decoder that chooses blanks before it draws their tokens: which, in a few words."""
    parts: ClassVar[str] = ""
    """The option that says in how many passes, or sets, a text is filled."""
    limited_by: ClassVar[str] = ""
    """The option that bounds a set, of decoders that take a bound or a number of passes."""
    one_by_one: ClassVar[bool] = False
    """Whether its law has one token per pass; `parts` are sets that are drafted together."""
    corrects: ClassVar[bool] = False
    """Whether it asks about tokens that the model sees, which takes training for refinement."""

    temperature: Annotated[float, Interval(ge=0, le=HOTTEST)] | None = None

    def __post_init__(self) -> None:
        """Checks of several options together."""

    @classmethod
    def in_parts(cls, number: int | None, **options: Any) -> Decoder:
        """A decoder that fills a text in this many passes, or sets; None: its own bound decides."""
        return cls(**{cls.parts: number}, **options)

    @property
    def number(self) -> int | None:
        """Passes, or sets, of a text; None where another option decides."""
        if not self.parts:
            return None
        number: int | None = getattr(self, self.parts)
        return number

    @property
    def token_temperature(self) -> float:
        """The temperature at which tokens are drawn."""
        return 1.0 if self.temperature is None else self.temperature

    @property
    def sites_per_step(self) -> int:
        """Decoders count no steps of single sites."""
        return 1

    @property
    def exact(self) -> bool:
        """Whether `log_prob` of a state is the probability with which its text is drawn, given
        the random order, if there is one.
        """
        return False

    def is_random(self, sites: int) -> bool:
        """Whether random numbers decide anything in texts of `sites` blanks: tokens, or an order.

        At temperature 0 no token is drawn. A decoder whose order is random says so here. A user's
        own class may draw anything.
        """
        return self.token_temperature > 0 or not is_ours(type(self))

    def conditionals_at_once(self, sites: int) -> int:
        """Conditionals of one text of `sites` free tokens that are drawn from at once."""
        return self.conditionals or sites

    def on(self, target: Any, passes: Passes | None = None) -> DecoderOnTarget:
        """The decoder on a target, with `init` and `step`.

        target   an `unmask.Target`
        passes   how the model is run; by default in calls of its own
        """
        from unmask.sampling.on_target import DecoderOnTarget, refuse_misfit

        refuse_misfit(self, target)
        return DecoderOnTarget(self, target, passes)

    def prepare(self, on: DecoderOnTarget) -> Any:
        """Called once when the decoder is put on a target: what it returns is `on.prepared`."""
        return None

    @abstractmethod
    def steps(self, on: DecoderOnTarget) -> int:
        """Steps to a whole text."""

    def init(self, on: DecoderOnTarget, n: int, rng: Randomness) -> DecodeState:
        """n blank texts."""
        return DecodeState.blank(on.target, n)

    @abstractmethod
    def step(
        self, on: DecoderOnTarget, state: DecodeState, rng: Randomness
    ) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """Fill some blanks of the state, in place; the state, and the passes that it took for
        each text.
        """

    def log_law(
        self, on: DecoderOnTarget, ids: Int[Tensor, "n T"], rng: Randomness
    ) -> Float[Tensor, " n"] | None:
        """The log-probability with which each of the texts is drawn, given the random choices
        that `init` makes with `rng`; None if it cannot be computed.
        """
        return None

    def categoricals(
        self, on: DecoderOnTarget, outputs: Float[Tensor, "m W"], sites: Int[Tensor, " m"]
    ) -> Categoricals:
        """The distributions that tokens are drawn from at `sites`, from the network's outputs
        there.
        """
        return on.passes.categoricals(outputs, on.target, self.token_temperature, sites)


def blank_sites(on: DecoderOnTarget, state: DecodeState) -> Bool[Tensor, "n F"]:
    """Which sites are blank."""
    return state.ids[:, on.target.free_positions] == on.target.model.mask_id


def decode(
    decoder: DecoderOnTarget, n: int, rng: Randomness, texts: Int[Tensor, "n T"] | None = None
) -> tuple[DecodeState, Int[Tensor, " n"]]:
    """n whole texts, and the passes each took; `texts` bring the tokens that the target's texts
    are conditioned on.
    """
    *_, last = decoding(decoder, n, rng, texts)
    return last


def decoding(
    decoder: DecoderOnTarget, n: int, rng: Randomness, texts: Int[Tensor, "n T"] | None = None
) -> Iterator[tuple[DecodeState, Int[Tensor, " n"]]]:
    """The state of `decode` at its beginning and after each step, the same object, and the
    passes so far.
    """
    method = decoder.method
    state = method.init(decoder, n, rng)
    if texts is not None:
        state.ids[:, decoder.target.given] = texts[:, decoder.target.given]
    passes = torch.zeros_like(state.rows)
    yield state, passes
    for _ in range(method.steps(decoder)):
        state, spent = decoder_step(decoder, state, rng)
        passes += spent
        yield state, passes
    refuse_nan(state.confidence)
    refuse_blanks(decoder, state)


def lowest(
    values: Float[Tensor, "#n F"], among: Bool[Tensor, "n F"], count: Int[Tensor, "n 1"] | int
) -> Bool[Tensor, "n F"]:
    """Marks the `count` sites of lowest value `among` those of each row; earlier sites first
    among equals.
    """
    ranks = torch.where(among, values, torch.inf).argsort(dim=1, stable=True).argsort(dim=1)
    return among & (ranks < count)
