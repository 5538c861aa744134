"""Any-order ancestral sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from unmask.common.lazy import torch
from unmask.common.methods.method import method
from unmask.sampling.decoders.decoder import Decoder, DecodeState

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from unmask.sampling.engine.randomness import Randomness
    from unmask.sampling.engine.token_draw import Categoricals
    from unmask.sampling.on_target import DecoderOnTarget

Order = Literal["random", "left-to-right", "right-to-left"]


@method
class Ancestral(Decoder):
    """A new text: blanks filled one by one.

        p(x | order s_1 ... s_F) = prod_j q(x_{s_j} | x_{s_<j}; the rest masked)

    Each blank is filled given all that is filled. This is a proper distribution over the texts,
    whose log-probability comes with each draw: F independent samples cost F^2 passes and need no
    chain. It depends on the order, because no joint has all of these conditionals. The order is
    random, drawn for each text, or a fixed one.

    Parameters:
        order: In which blanks are filled.

    >>> decoder = unmask.Ancestral(order="random")
    >>> generation = unmask.generate("A [MASK] [MASK] sat.", decoder=decoder, n_texts=2)
    >>> generation.settings.decoder.name, len(generation.texts)
    ('ancestral', 2)
    """

    name = "ancestral"
    label = "ancestral sampling"
    colour = "#117733"
    place = 5
    step_passes = "T per text"
    law = "an explicit distribution, with log_prob"
    verdict = (
        "Independent draws with exact log-probabilities, given each text's order; no chain, so"
        " nothing has to mix."
    )
    conditionals = 1
    order: Order = "random"

    @property
    def exact(self) -> bool:
        """False at temperature 0, where the law is a point mass."""
        return self.token_temperature > 0

    def is_random(self, sites: int) -> bool:
        """At temperature 0 only if there is an order to draw."""
        draws_order = self.order == "random" and sites > 1
        return draws_order or super().is_random(sites)

    def steps(self, on: DecoderOnTarget) -> int:
        """One for each free position."""
        return on.target.sites

    def init(self, on: DecoderOnTarget, n: int, rng: Randomness) -> DecodeState:
        """n blank texts and their orders."""
        state = DecodeState.blank(on.target, n)
        if self.order == "random":
            state.order = rng.permutation(state.rows, on.target.sites)
        elif self.order == "right-to-left":
            state.order = state.order.flip(1)
        return state

    def step(
        self, on: DecoderOnTarget, state: DecodeState, rng: Randomness
    ) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """Fill the next site of each text's order; one pass per text."""
        site = state.order[:, state.steps]
        drawn = rng.tokens(state.rows, self._next(on, state.ids, site))
        state.write(on.target, state.rows, site, drawn)
        state.log_prob = state.log_prob + drawn.log_density
        state.steps += 1
        return state, torch.ones_like(site)

    def _next(
        self, on: DecoderOnTarget, ids: Int[Tensor, "m T"], site: Int[Tensor, " m"]
    ) -> Categoricals:
        """The distribution at one site of each text; one pass each."""
        outputs = on.passes.alone(ids, on.target.free_positions[site])
        return self.categoricals(on, outputs, site)

    def log_law(
        self, on: DecoderOnTarget, ids: Int[Tensor, "n T"], rng: Randomness
    ) -> Float[Tensor, " n"]:
        """log p(x | the order that `init` draws)."""
        return self.log_prob(on, ids, self.init(on, len(ids), rng).order)

    def log_prob(
        self, on: DecoderOnTarget, ids: Int[Tensor, "n T"], order: Int[Tensor, "n F"]
    ) -> Float[Tensor, " n"]:
        """log p(x | order) of given texts; F passes per text."""
        target = on.target
        rows = torch.arange(len(ids), device=ids.device)
        visible = ids.index_fill(1, target.free_positions, target.model.mask_id)
        total = torch.zeros(len(ids), dtype=torch.float64, device=ids.device)
        for site in order.T:
            position = target.free_positions[site]
            tokens = ids[rows, position]
            total += self._next(on, visible, site).at(tokens).log_density
            visible[rows, position] = tokens
        return total
