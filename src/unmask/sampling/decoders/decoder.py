"""Decoders: texts that begin all blank and are filled in a few steps.

Any-order ancestral sampling fills one blank after the other, each given all that is filled, the
rest masked:

    p(x | order s_1 ... s_F) = prod_j q(x_{s_j} | x_{s_<j}; the rest masked)

A proper distribution over the texts, whose log-probability comes with each draw: F independent
samples cost F^2 passes and need no chain. It depends on the order, because no joint has all of
these conditionals.

The others here look at the tokens they drew: they predict all blanks at once, keep some, and
repeat.

Mask-predict (Ghazvininejad et al. 2019) masks the least confident again:

    step s = 1 ... S:  fill every blank from the present text;
            mask the F (1 - s/S) sites of lowest confidence, rounded down

A site's confidence is the probability of its token when it was last predicted. Tokens are the
likeliest (temperature 0) or drawn.

Confidence-ordered unmasking masks the least confident among those that were blank, so that it
never looks back. With as many steps as blanks this is easy-first decoding.

Revision (Savinov et al. 2022) predicts every token again from the whole text:

    step 1:           y_i = argmax q_i(. | all blank)                    for every site i
    step s = 2 ... S: y_i = argmax q_i(. | y, with y_i itself in sight)
            for every site i, all from the same y

Nothing is masked after the first step: the model is asked for the right token where it sees one
that may be wrong, which `unmask train --refinement` teaches (`studies/training/objectives.py`) and
plain masked training does not. At temperature 0 a text that a step does not change is final,
and takes no further passes.

What happens next depends on the tokens that are drawn, so these texts have no tractable
probability.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from inspect import unwrap
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.common.border.calls import checked
from unmask.sampling import registry
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import Number, Randomness
from unmask.sampling.engine.token_draw import Categoricals, Drawn
from unmask.sampling.kernels.kernel import refuse_nan
from unmask.sampling.target import Target


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


@dataclass(frozen=True)
class Decoder(ABC):
    """A rule that fills the blanks of a target; see `unmask.sampling.registry` for its options."""

    target: Target
    passes: Passes
    options: Any = registry.Method()

    def __init_subclass__(cls) -> None:
        for name in {"init", "step"} & vars(cls).keys():
            setattr(cls, name, checked(getattr(cls, name)))

    @property
    def exact(self) -> bool:
        """Whether `log_prob` is the probability with which the text is drawn, given the order."""
        return False

    @property
    @abstractmethod
    def steps(self) -> int:
        """Steps to a whole text."""

    @checked
    def init(self, n: Number, rng: Randomness) -> DecodeState:
        """n blank texts."""
        return DecodeState.blank(self.target, n)

    @abstractmethod
    def step(self, state: DecodeState, rng: Randomness) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """Fill some blanks of the state, in place; the state, and the passes that it took for
        each text.
        """

    def categoricals(self, outputs: Float[Tensor, "m W"], sites: Int[Tensor, " m"]) -> Categoricals:
        """The distributions that tokens are drawn from at `sites`, from the network's outputs
        there.
        """
        return self.passes.categoricals(outputs, self.target, self.options.token_temperature, sites)

    def blank(self, state: DecodeState) -> Bool[Tensor, "n F"]:
        """Which sites are blank."""
        return state.ids[:, self.target.free_positions] == self.target.model.mask_id


def decode(
    decoder: Decoder, n: int, rng: Randomness, texts: Int[Tensor, "n T"] | None = None
) -> tuple[DecodeState, Int[Tensor, " n"]]:
    """n whole texts, and the passes each took; `texts` bring the tokens that the target's texts
    are conditioned on.
    """
    *_, last = decoding(decoder, n, rng, texts)
    return last


def decoding(
    decoder: Decoder, n: int, rng: Randomness, texts: Int[Tensor, "n T"] | None = None
) -> Iterator[tuple[DecodeState, Int[Tensor, " n"]]]:
    """The state of `decode` at its beginning and after each step, the same object, and the
    passes so far.
    """
    state = decoder.init(n, rng)
    if texts is not None:
        state.ids[:, decoder.target.given] = texts[:, decoder.target.given]
    passes = torch.zeros_like(state.rows)
    yield state, passes
    step = partial(unwrap(type(decoder).step), decoder)  # without the check of its arguments
    for _ in range(decoder.steps):
        state, spent = step(state, rng)
        passes += spent
        yield state, passes
    refuse_nan(state.confidence)


def lowest(
    values: Float[Tensor, "#n F"], among: Bool[Tensor, "n F"], count: Int[Tensor, "n 1"] | int
) -> Bool[Tensor, "n F"]:
    """Marks the `count` sites of lowest value `among` those of each row; earlier sites first
    among equals.
    """
    ranks = torch.where(among, values, torch.inf).argsort(dim=1, stable=True).argsort(dim=1)
    return among & (ranks < count)


@dataclass(frozen=True)
class Ancestral(Decoder):
    """One blank per step: the chain rule in a random order that is drawn for each text, or in a
    fixed one.
    """

    options: registry.Ancestral = registry.Ancestral()

    @property
    def exact(self) -> bool:
        """False at temperature 0, where the law is a point mass."""
        return float(self.options.token_temperature) > 0

    @property
    def steps(self) -> int:
        """One for each free position."""
        return self.target.sites

    def init(self, n: Number, rng: Randomness) -> DecodeState:
        """n blank texts and their orders."""
        state = super().init(n, rng)
        if self.options.order == "random":
            state.order = rng.permutation(state.rows, self.target.sites)
        elif self.options.order == "right-to-left":
            state.order = state.order.flip(1)
        return state

    def step(self, state: DecodeState, rng: Randomness) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """Fill the next site of each text's order; one pass per text."""
        site = state.order[:, state.steps]
        drawn = rng.tokens(state.rows, self._next(state.ids, site))
        state.write(self.target, state.rows, site, drawn)
        state.log_prob = state.log_prob + drawn.log_density
        state.steps += 1
        return state, torch.ones_like(site)

    def _next(self, ids: Int[Tensor, "m T"], site: Int[Tensor, " m"]) -> Categoricals:
        """The distribution at one site of each text; one pass each."""
        return self.categoricals(self.passes.alone(ids, self.target.free_positions[site]), site)

    def log_prob(self, ids: Int[Tensor, "n T"], order: Int[Tensor, "n F"]) -> Float[Tensor, " n"]:
        """log p(x | order) of given texts; F passes per text."""
        self.target.check(ids)
        rows = torch.arange(len(ids), device=ids.device)
        visible = ids.index_fill(1, self.target.free_positions, self.target.model.mask_id)
        total = torch.zeros(len(ids), dtype=torch.float64, device=ids.device)
        for site in order.T:
            position = self.target.free_positions[site]
            tokens = ids[rows, position]
            total += self._next(visible, site).at(tokens).log_density
            visible[rows, position] = tokens
        return total


def blanks_left(sites: int, step: int, steps: int) -> int:
    """The number of blanks after step `step` of `steps`, counted from 1: floor(sites (1 - step
    / steps)).
    """
    return 0 if step >= steps else int(sites * (1 - step / steps) + 1e-9)


@dataclass(frozen=True)
class ScheduledDecoder(Decoder):
    """A decoder of a given number of steps, which predict sites of all texts at once and leave
    fewer and fewer blanks.
    """

    options: registry.InSteps = registry.MaskPredict()

    @property
    def steps(self) -> int:
        """`passes`."""
        return self.options.passes

    def predict(
        self,
        state: DecodeState,
        texts: Int[Tensor, " m"],
        sites: Int[Tensor, "m c"],
        rng: Randomness,
    ) -> None:
        """Predict the sites `sites` of the texts `texts` from one pass over each; writes ids
        and confidence.

        As states, those of all sites are computed, so that the calls of all steps have one
        shape and are recorded once.
        """
        target, site, row = self.target, sites.flatten(), texts.repeat_interleave(sites.shape[1])
        ids = state.ids[texts]
        if self.passes.as_states(ids):
            everywhere = self.passes.outputs(ids, target.free_positions.expand(len(ids), -1))
            outputs = everywhere.gather(
                1, sites.unsqueeze(-1).expand(-1, -1, everywhere.shape[-1])
            ).flatten(0, 1)
        else:
            outputs = self.passes.outputs(ids, target.free_positions[sites]).flatten(0, 1)
        state.write(target, row, site, rng.tokens(row, self.categoricals(outputs, site), site))

    def blanks_after(self, state: DecodeState) -> int:
        """The number of sites of every text that stay blank after the current step."""
        return blanks_left(self.target.sites, state.steps + 1, self.steps)

    def fill(self, state: DecodeState, rng: Randomness) -> Bool[Tensor, "n F"]:
        """Predict every blank site of every text from one pass, and say which sites.

        The number of blanks follows from the step, so the GPU need not be asked for it.
        """
        blank = self.blank(state)
        count = blanks_left(self.target.sites, state.steps, self.steps)
        if count:
            self.predict(
                state, state.rows, (~blank).byte().argsort(dim=1, stable=True)[:, :count], rng
            )
        return blank

    def end(
        self, state: DecodeState, filled: Bool[Tensor, "n F"], again: Bool[Tensor, "n F"]
    ) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """Mask the sites `again`; the state, and the passes of the step: one for each text in
        which it `filled` any.
        """
        values = state.ids[:, self.target.free_positions]
        state.ids[:, self.target.free_positions] = torch.where(
            again, self.target.model.mask_id, values
        )
        state.steps += 1
        return state, filled.any(1).long()


@dataclass(frozen=True)
class MaskPredict(ScheduledDecoder):
    """Every site may be predicted again, as long as it is among the least confident."""

    def step(self, state: DecodeState, rng: Randomness) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """Fill all blanks, then mask the least confident sites."""
        filled = self.fill(state, rng)
        return self.end(
            state,
            filled,
            lowest(state.confidence, torch.ones_like(filled), self.blanks_after(state)),
        )


@dataclass(frozen=True)
class ConfidenceOrder(ScheduledDecoder):
    """A site that was kept once is never predicted again."""

    options: registry.InSteps = registry.Confidence()

    def step(self, state: DecodeState, rng: Randomness) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """Fill all blanks, then mask the least confident of them."""
        filled = self.fill(state, rng)
        return self.end(state, filled, lowest(state.confidence, filled, self.blanks_after(state)))


@dataclass(frozen=True)
class Revise(ScheduledDecoder):
    """Every site is predicted at every step."""

    options: registry.InSteps = registry.Revise()

    def step(self, state: DecodeState, rng: Randomness) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """Predict all sites of the texts that are not settled; one pass for each of them."""
        before, going = state.ids.clone(), ~state.settled
        texts = going.nonzero().squeeze(1)
        if len(texts):
            self.predict(
                state,
                texts,
                torch.arange(self.target.sites, device=texts.device).expand(len(texts), -1),
                rng,
            )
        if self.options.token_temperature == 0:
            state.settled |= (state.ids == before).all(1)
        state.steps += 1
        return state, going.long()
