"""What an energy of a model is: a sum over positions, of terms that the network's logits give.

    E(x) = sum_t e(x_t; f_t)        f_t: logits at position t, masked alone
    pi(x) proportional to exp(-E(x) / T)

The sum runs over the positions that hold no special token; one energy costs one forward pass per
term. An energy is a class with `@method` above it, in a file of this folder, or in a file of
yours. Its fields are its options, `term` is e.

`check_energy` holds an energy to the laws that all of them keep.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, cast

from unmask.common.methods.method import Method, method
from unmask.common.methods.own_code import is_ours
from unmask.common.methods.registry import Registry
from unmask.common.methods.stored import from_stored, stored_form

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from unmask.sampling.engine.token_draw import Drawn

ENERGIES = Registry("energy", folders=("unmask.sampling.energies",))
"""The energies of unmask: their classes, by name."""


@method
class ModelEnergy(Method, ABC, registry=ENERGIES):
    """The energy of a text, a term for each position. Derive from this class to bring your own.

        E(x) = sum_t e(x_t; f_t)

    >>> @unmask.method
    ... class Halved(unmask.NormEnergy):
    ...     "Half of the norm energy."
    ...     factor: float = 0.5
    ...     def term(self, logits, tokens):
    ...         return self.factor * super().term(logits, tokens)
    ...     def term_of_draw(self, drawn, logits):
    ...         return self.factor * super().term_of_draw(drawn, logits)
    >>> unmask.testing.check_energy(Halved())
    >>> run = unmask.sample("A [MASK] sat.", chains=2, sweeps=2, energy=Halved(factor=0.7))
    >>> run.settings.energy.name
    'halved'
    """

    never_negative: ClassVar[bool] = False
    """Whether no term is ever below 0. The terms known so far then bound the energy from below, and
    a chain may reject a proposal before it knows the others.
    """

    @abstractmethod
    def term(self, logits: Float[Tensor, "n V"], tokens: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """e of each of `tokens`, whose positions have these logits, in float64.

        A row's term depends on that row alone.
        """

    def term_of_draw(
        self, drawn: Drawn, logits: Callable[[], Float[Tensor, "n V"]]
    ) -> Float[Tensor, " n"]:
        """The terms of tokens that were drawn.

        An energy that needs no more than the numbers of `drawn` defines this: the logits are not
        made then.

        drawn    the tokens, with their logits and the normalisers of their conditionals
        logits   makes the logits at their positions
        """
        return self.term(logits(), drawn.tokens)


# ---- in the settings of a run ----


@dataclass(frozen=True)
class OwnEnergy:
    """A user's own energy as settings.json names it: what is known of it without loading its code.

    stored   as in settings.json: its name, its file and the hash, its options
    """

    stored: Mapping[str, Any]

    @property
    def name(self) -> str:
        """What it is called."""
        return str(self.stored["name"])


def stored_energy(energy: ModelEnergy | OwnEnergy) -> Any:
    """An energy for settings.json: its name where that says all, else also its options, and of own
    code the file and the hash.
    """
    if isinstance(energy, OwnEnergy):
        return dict(energy.stored)
    usual = all(_is_usual(energy, one) for one in fields(cast(Any, energy)))
    if usual and is_ours(type(energy)):
        return energy.name
    return stored_form(energy)


def _is_usual(energy: ModelEnergy, option: Any) -> bool:
    """Whether an option has its default."""
    return option.default is not MISSING and getattr(energy, option.name) == option.default


def energy_of_stored(stored: Any) -> ModelEnergy | OwnEnergy:
    """The energy of settings.json. Code of a user is not loaded."""
    if isinstance(stored, Mapping) and "code" in stored:
        return OwnEnergy(dict(stored))
    named = {"name": stored} if isinstance(stored, str) else stored
    found: ModelEnergy = from_stored(ENERGIES, named)
    return found
