"""A kernel or a decoder on a target: the one object that holds what belongs to both.

A method is its options and its mathematics; the model, its passes and what is made once for a
target are here. A user calls `init` and `step` of this object, which check what they are given. A
run calls those of the method, whose arguments it made itself.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, Generic, TypeVar

from jaxtyping import Float, Int
from torch import Tensor

from unmask.common.border.calls import checked
from unmask.common.checks import shown
from unmask.common.errors import InputError
from unmask.sampling.decoders.decoder import Decoder, DecodeState
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import Number, Randomness
from unmask.sampling.engine.token_draw import Drawn
from unmask.sampling.kernels.kernel import Kernel
from unmask.sampling.kernels.state import ChainState, StepInfo
from unmask.sampling.kernels.sweep import SweepPlan
from unmask.sampling.methods import METHODS
from unmask.sampling.own_steps import decoder_step, kernel_step
from unmask.sampling.target import Target

AnyMethod = TypeVar("AnyMethod", Kernel, Decoder)


class OnTarget(Generic[AnyMethod]):
    """What kernels and decoders share.

    method     the kernel or decoder
    target     the law over texts that it works on
    passes     how the model is run
    prepared   what the method made for this target
    """

    def __init__(self, method: AnyMethod, target: Target, passes: Passes | None = None) -> None:
        self.method: AnyMethod = method
        self.target: Target = target
        self.passes: Passes = Passes(target.model) if passes is None else passes
        self.prepared: Any = method.prepare(self)  # type: ignore[arg-type]

    def terms_of_draw(self, drawn: Drawn, outputs: Float[Tensor, "n W"]) -> Float[Tensor, " n"]:
        """The energy's terms of drawn tokens, where the network gave `outputs`."""
        return self.target.energy.term_of_draw(drawn, partial(self.passes.logits_of, outputs))


def refuse_misfit(method: Kernel | Decoder, target: Target) -> None:
    """Refuse what is no target, and terms of the user that the law of the method does not have."""
    if not isinstance(target, Target):
        raise InputError(
            f"{shown(target)} is not a target",
            argument="target",
            use="give unmask.Target(model, template)",
        )
    if target.energy.user_terms and not method.uses_terms:
        able = ", ".join(name for name, cls in METHODS.items() if cls.uses_terms)  # type: ignore[attr-defined]
        raise InputError(
            f"{method.name} does not use terms of your own",
            argument="kernel",
            use=f"leave them out, or use one of {able}",
        )


class KernelOnTarget(OnTarget[Kernel]):
    """A kernel on a target.

    >>> model = unmask.load()
    >>> target = unmask.Target(model, model.cloze("The [MASK] sat on the [MASK].").ids)
    >>> chains = unmask.Gibbs().on(target)
    >>> ids = model.words.encode("The cat sat on the mat.")
    >>> state, passes = chains.init(torch.tensor([ids, ids]))
    >>> passes.tolist()
    [0, 0]
    """

    @cached_property
    def plan(self) -> SweepPlan:
        """The sites of a sweep."""
        return SweepPlan(self.target.sites, self.method.scan, self.method.sites_per_step)

    @checked
    def init(self, ids: Int[Tensor, "n T"]) -> tuple[ChainState, Int[Tensor, " n"]]:
        """The state of chains that start at the texts `ids`, and the passes that each took."""
        self.target.check(ids.to(self.target.device))
        return self.method.init(self, ids)

    @checked
    def sites(self, rng: Randomness, rows: Int[Tensor, " n"]) -> Int[Tensor, "steps n k"]:
        """The sites that each step of a sweep redraws, for each of the chains `rows`."""
        return self.plan.draw(rng, rows)

    @checked
    def step(
        self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]
    ) -> tuple[ChainState, StepInfo]:
        """Redraw the sites `sites` of each chain; which sites must not depend on the tokens there.

        Changes `state` in place and returns it; `state.take(state.rows)` is a copy.
        """
        return kernel_step(self, state, rng, sites)


class DecoderOnTarget(OnTarget[Decoder]):
    """A decoder on a target.

    >>> model = unmask.load()
    >>> target = unmask.Target(model, model.cloze("The [MASK] sat on the [MASK].").ids)
    >>> decoder = unmask.Interleaved(passes=2).on(target)
    >>> rng = unmask.ChainStreams(seed=0, chains=range(3)).at(sweep=0, step=0)
    >>> state, passes = decoder.step(decoder.init(3, rng), rng)
    >>> passes.tolist()
    [1, 1, 1]
    """

    @property
    def steps(self) -> int:
        """Steps to a whole text."""
        return self.method.steps(self)

    @property
    def exact(self) -> bool:
        """Whether `log_prob` of a state is the probability with which its text is drawn."""
        return self.method.exact

    @checked
    def init(self, n: Number, rng: Randomness) -> DecodeState:
        """n blank texts."""
        return self.method.init(self, n, rng)

    @checked
    def step(self, state: DecodeState, rng: Randomness) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """Fill some blanks of the state, in place; the state, and the passes that it took for
        each text.
        """
        return decoder_step(self, state, rng)

    @checked
    def log_law(self, ids: Int[Tensor, "n T"], rng: Randomness) -> Float[Tensor, " n"] | None:
        """The log-probability with which each of the texts is drawn, given the random choices that
        `init` makes with `rng`; None if it cannot be computed.
        """
        self.target.check(ids)
        return self.method.log_law(self, ids, rng)
