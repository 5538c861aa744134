"""Markov kernels: the base class of all of them, and their registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Interval

from unmask.common.lazy import torch
from unmask.common.methods.method import Method, method
from unmask.common.methods.registry import Elsewhere, Registry
from unmask.sampling.kernels.state import ChainState
from unmask.sampling.kernels.sweep import Scan

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from unmask.sampling.engine.passes import Passes
    from unmask.sampling.engine.randomness import Randomness
    from unmask.sampling.kernels.state import StepInfo
    from unmask.sampling.on_target import KernelOnTarget

HOTTEST = 1e6  # The highest temperature
LONGEST = 10**5  # Tokens of a text
KERNELS = Registry(
    "kernel",
    folders=("unmask.sampling.kernels",),
    elsewhere=Elsewhere("unmask.sampling.decoders.decoder:DECODERS", "generate", "decoder"),
)


@method
class Kernel(Method, ABC, registry=KERNELS):
    """One step of a Markov chain over texts, for many chains at once.

        x -> x' ~ K_B(x, .)     B: the sites that are redrawn, chosen without a look at x

    `on` puts a kernel on a target, which gives `init` and `step` for many chains. A subclass
    defines `step`, and says in `log_law` what its steps leave invariant, if anything. All random
    choices come from the `rng` that a step gets.

    Parameters:
        proposal_temperature: Of the proposed tokens.
        scan: Order of the updates of a sweep.

    >>> model = unmask.load()
    >>> cloze = model.cloze("The [MASK] sat on the [MASK].")
    >>> chains = unmask.MH(energy_temperature=0.8).on(unmask.Target(model, cloze.ids))
    >>> state, passes = chains.init(torch.tensor([model.words.encode("The cat sat on the mat.")]))
    >>> rng = unmask.ChainStreams(seed=0, chains=[0]).at(sweep=1, step=1)
    >>> state, info = chains.step(state, rng, torch.tensor([[0]]))
    >>> info.sites.tolist()
    [[0]]
    """

    colour: ClassVar[str] = "#222222"
    """In figures."""
    law: ClassVar[str] = "nothing named"
    """What the steps leave invariant, in a few words."""
    step_passes: ClassVar[str] = "not stated"
    """Passes of a step with T free tokens, in a few words, for tables."""
    verdict: ClassVar[str] = (
        "Nothing is known about the law of this kernel but what its author says. R-hat shows"
        " whether the chains agree with each other."
    )
    """The law of its texts, in a sentence that may name {energy} and the options."""
    uses_terms: ClassVar[bool] = False
    """Whether terms that the user adds to the energy are part of that law."""
    decodes: ClassVar[bool] = False
    """A decoder's texts are independent of each other; a kernel's are not."""
    conditionals: ClassVar[int | None] = None
    """Conditionals of a text that are drawn from at once; None: those of all redrawn sites."""

    proposal_temperature: Annotated[float, Interval(gt=0, le=HOTTEST)] = 1.0
    scan: Scan = "permutation"

    @property
    def sites_per_step(self) -> int:
        """How many neighbouring sites one step redraws."""
        return 1

    def conditionals_at_once(self, sites: int) -> int:
        """Conditionals of one text of `sites` free tokens that are drawn from at once."""
        return self.conditionals or self.sites_per_step

    def on(self, target: Any, passes: Passes | None = None) -> KernelOnTarget:
        """The kernel on a target, with `init` and `step`.

        target   an `unmask.Target`
        passes   how the model is run; by default in calls of its own
        """
        from unmask.sampling.on_target import KernelOnTarget, refuse_misfit

        refuse_misfit(self, target)
        return KernelOnTarget(self, target, passes)

    def prepare(self, on: KernelOnTarget) -> Any:
        """Called once when the kernel is put on a target: what it returns is `on.prepared`."""
        return None

    def init(
        self, on: KernelOnTarget, ids: Int[Tensor, "n T"]
    ) -> tuple[ChainState, Int[Tensor, " n"]]:
        """The state of chains that start at the texts `ids`, and the passes that each took: here
        none, since conditionals are looked up when they are needed.
        """
        no_passes = torch.zeros(len(ids), dtype=torch.long, device=on.target.device)
        return ChainState.at(on.target, ids), no_passes

    @abstractmethod
    def step(
        self, on: KernelOnTarget, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]
    ) -> tuple[ChainState, StepInfo]:
        """Redraw the sites `sites` of each chain; which sites must not depend on the tokens there.

        Changes `state` in place and returns it; `state.take(state.rows)` is a copy.
        """

    def log_law(self, on: KernelOnTarget, ids: Int[Tensor, "N T"]) -> Float[Tensor, " N"] | None:
        """The logarithm of the law that the steps leave invariant, up to a constant, at each of
        the texts; None if the kernel promises nothing.
        """
        return None
