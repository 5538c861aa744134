"""Decoders with a law: positions are chosen from the revealed tokens alone, and only then are
their tokens drawn.

    pass t:  K_t = choose(S_t, x_{S_t});   x_i ~ q(. | x_{S_t}) for i in K_t, independently;
             S_{t+1} = S_t + K_t
    law(x) = prod_t prod_{i in K_t} q(x_i | x_{S_t}),   K_t found by revealing x itself

The law sums to 1 over all texts (induction on the last pass), whatever the conditionals are,
and costs as many passes as decoding. q runs over the allowed tokens, at the decoder's
temperature. Where `choose` follows a random order, this is the law given the order. At
temperature 0 the law is a point mass on one text, which is not a score. A decoder that looks at
the tokens it drew before it keeps them (mask-predict, confidence) has no such law: the same
product does not sum to 1.

`choose` sees entropies of the model's own conditionals over the allowed tokens, at temperature 1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from annotated_types import Interval

from unmask.common.errors import InputError, argument_name
from unmask.common.lazy import torch
from unmask.common.methods.method import method
from unmask.sampling.decoders.decoder import (
    HOTTEST,
    OWN_LAW,
    Decoder,
    DecodeState,
    Steps,
    blank_sites,
)
from unmask.sampling.kernels.state import refuse_nan

if TYPE_CHECKING:
    from typing import TypeAlias

    from jaxtyping import Bool, Float, Int
    from torch import Tensor

    from unmask.sampling.engine.randomness import Randomness
    from unmask.sampling.engine.token_draw import Categoricals, Drawn
    from unmask.sampling.on_target import DecoderOnTarget

    Tokens: TypeAlias = Callable[[Tensor, Categoricals, Tensor], Drawn]
else:
    Tokens = Callable
"""From texts (m), their distributions and sites (m) to a token of each and its
log-probabilities.
"""


class Observed(NamedTuple):
    """All that a choice of positions may depend on.

    ids          token ids, the mask token where blank
    blank        which sites are blank
    entropy      of each site's conditional, in nats; 0 where it is revealed
    order        a random order of the sites, for decoders that draw one
    step         passes made before this one
    passes_left  passes from this one on; None if their number is not given
    """

    ids: Int[Tensor, "n T"]
    blank: Bool[Tensor, "n F"]
    entropy: Float[Tensor, "n F"]
    order: Int[Tensor, "n F"]
    step: int
    passes_left: int | None

    @property
    def share(self) -> Int[Tensor, "n 1"]:
        """How many blanks of each text are filled now if the passes that are left take equal
        numbers of them.
        """
        count = self.blank.sum(1, keepdim=True)
        return count if self.passes_left is None else -(-count // self.passes_left)


class Law(NamedTuple):
    """The law of n texts, in nats; its sum over sites is the log-probability of a text.

    log_q     log q(x_i | x_S) of each site, S what was revealed before the pass that revealed it
    passes    how many passes each text took
    steps     the pass in which each site was revealed, from 0
    entropy   of the model's own conditional at each site: the mean of -log_q at temperature 1
              if the model is right
    """

    log_q: Float[Tensor, "n F"]
    passes: Int[Tensor, " n"]
    steps: Int[Tensor, "n F"]
    entropy: Float[Tensor, "n F"]

    @classmethod
    def unknown(cls, state: DecodeState) -> Law:
        """A law of zeros, before anything is revealed."""
        zeros = torch.zeros_like(state.confidence)
        return cls(
            zeros, torch.zeros_like(state.rows), torch.zeros_like(state.order), zeros.clone()
        )


@method
class Revealing(Decoder):
    """A decoder with a law; see above. A step is a pass."""

    law = OWN_LAW
    verdict = (
        "Independent draws with exact log-probabilities (at temperature 0 the law is one text); no"
        " chain, so nothing has to mix. The law is the decoder's own: blanks that are filled"
        " together do not see each other."
    )

    @abstractmethod
    def choose(self, on: DecoderOnTarget, observed: Observed) -> Bool[Tensor, "n F"]:
        """The sites that are filled next: some blank ones of every text that has any."""

    @property
    def exact(self) -> bool:
        """False at temperature 0, where the law is a point mass."""
        return self.token_temperature > 0

    def steps(self, on: DecoderOnTarget) -> int:
        """Every pass fills at least one blank."""
        return min(on.target.sites, self.number or on.target.sites)

    def step(
        self, on: DecoderOnTarget, state: DecodeState, rng: Randomness
    ) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """Choose sites and draw their tokens; one pass for each text that has blanks."""
        part = Law.unknown(state)
        self.reveal(on, state, rng.tokens, part)
        return state, part.passes

    def reveal(self, on: DecoderOnTarget, state: DecodeState, tokens: Tokens, part: Law) -> None:
        """One pass: choose sites, fill them with `tokens`, and write their part of the law into
        `part`.
        """
        target = on.target
        sites = target.sites
        blank = blank_sites(on, state)
        texts = blank.any(1).nonzero().squeeze(1)
        state.steps += 1
        if not len(texts):
            return
        ids = state.ids[texts]
        blank_here = blank[texts]
        positions = target.free_positions.expand(len(texts), -1)
        outputs = on.passes.outputs(ids, positions).flatten(0, 1)
        entropy = torch.zeros_like(part.entropy[texts])
        row, site = blank_here.nonzero().unbind(1)
        numbers = self.categoricals(on, outputs[row * sites + site], site).entropy()
        entropy[row, site] = numbers.nan_to_num(0.0)  # NaN: filled now, refused at the end
        passes_left = None
        if self.number is not None:
            passes_left = self.steps(on) - state.steps + 1
        observed = Observed(
            ids=ids,
            blank=blank_here,
            entropy=entropy,
            order=state.order[texts],
            step=state.steps - 1,
            passes_left=passes_left,
        )
        if passes_left == 1:
            chosen = blank_here
        else:
            chosen = blank_here & self.choose(on, observed)
        part.passes[texts] += 1
        row, site = chosen.nonzero().unbind(1)
        text = texts[row]
        drawn = tokens(text, self.categoricals(on, outputs[row * sites + site], site), site)
        state.write(target, text, site, drawn)
        log_q = torch.zeros_like(part.log_q)
        log_q[text, site] = drawn.log_density
        state.log_prob = state.log_prob + log_q.sum(1)
        part.log_q[text, site] = drawn.log_density
        part.steps[text, site] = torch.full_like(text, state.steps - 1)
        part.entropy[text, site] = entropy[row, site]

    def log_law(
        self, on: DecoderOnTarget, ids: Int[Tensor, "n T"], rng: Randomness
    ) -> Float[Tensor, " n"]:
        """The sum of `law` over the sites."""
        return law(on, ids, rng).log_q.sum(1)


@method
class RevealingInSteps(Revealing):
    """A decoder with a law that takes a number of passes.

    Parameters:
        passes: Steps to a whole text.
    """

    parts = "passes"
    passes: Steps = 10


@method
class Bounded(Revealing):
    """A decoder with a law that takes as many passes as a bound needs, or a number of them.

    Parameters:
        passes: Steps to a whole text, in place of the bound.
        gamma: Nats of dependence that a step may lose: more is fewer steps, 0 fills one by one
            [default: 1; least-dependent: 0.1].
    """

    parts = "passes"
    limited_by = "gamma"
    usual_bound: ClassVar[float] = 1.0
    passes: Steps | None = None
    gamma: Annotated[float, Interval(ge=0, le=HOTTEST)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.passes is not None and self.gamma is not None:
            raise InputError(
                f"{argument_name('passes', self.passes)} and"
                f" {argument_name('gamma', f'{self.gamma:g}')} were both given, and each decides"
                " the number of steps: leave one out"
            )

    @property
    def limit(self) -> float:
        """The bound, or the usual one."""
        return self.usual_bound if self.gamma is None else self.gamma


def law(on: DecoderOnTarget, ids: Int[Tensor, "n T"], rng: Randomness) -> Law:
    """The log-probability with which a decoder draws given texts, pass by pass; `rng` draws
    random orders, if there are any.

    The texts lie in the support of the target.
    """
    decoder = on.method
    assert isinstance(decoder, Revealing)
    if not decoder.exact:
        raise InputError(
            "0 takes the likeliest tokens, and its law is one text",
            argument="temperature",
            use="give a number above 0",
        )
    target = on.target
    state = decoder.init(on, len(ids), rng)
    state.ids[:, target.given] = ids[:, target.given]
    tokens = ids[:, target.free_positions]
    whole = Law.unknown(state)

    def known_tokens(texts: Tensor, distributions: Categoricals, site: Tensor) -> Drawn:
        return distributions.at(tokens[texts, site])

    for _ in range(decoder.steps(on)):
        decoder.reveal(on, state, known_tokens, whole)
    refuse_nan(state.confidence)
    return whole
