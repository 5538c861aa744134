"""An energy of the model with terms that the user adds to it: what a target has.

E(x) = sum_t e(x_t; f_t) + sum_j g_j(x)        e: a `ModelEnergy`;  g_j: functions of the user
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

from unmask.common.border.calls import changed, settings, trusted
from unmask.common.border.marks import TakesMethod
from unmask.common.checks import shown
from unmask.common.errors import InputError
from unmask.common.lazy import torch
from unmask.common.methods.own_code import (
    OwnCode,
    code_spelled,
    failure,
    first_line_of,
    is_ours,
    place_in,
)
from unmask.common.methods.registry import Together
from unmask.runs.progress import Enough
from unmask.sampling.energies.energy import ENERGIES, ModelEnergy
from unmask.sampling.energies.norm import NormEnergy

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from unmask.models.conditional_model import ConditionalModel
    from unmask.sampling.engine.token_draw import Drawn

    TermOfIds = Callable[[Tensor], Tensor]
    """From token ids (n, T), special tokens included, to n numbers that are added to the energy;
    inf forbids a text.
    """
    TermsOfIds = tuple[TermOfIds, ...]
else:
    TermsOfIds = tuple[Callable[[Any], Any], ...]  # at run time torch may not be loaded yet


@settings
class Energy:
    """An energy of the model, and the user's own terms, which are added to it.

    Parameters:
        kind: norm, raw, or another `ModelEnergy`.
        user_terms: Functions from token ids (n, T), special tokens included, to n numbers; inf
            forbids a text.
        text_terms: Functions from a text to a number; inf forbids it.

    >>> energy = unmask.Energy("raw", text_terms=(len,))
    >>> run = unmask.sample("A [MASK] sat.", chains=2, sweeps=2, energy=energy)
    >>> run.settings.energy
    RawEnergy()
    """

    kind: Annotated[ModelEnergy | str, TakesMethod("unmask.sampling.energies.energy:ENERGIES")] = (
        NormEnergy()
    )
    user_terms: TermsOfIds = ()
    text_terms: tuple[Callable[[str], float], ...] = ()

    @property
    def of_model(self) -> ModelEnergy:
        """The energy without the user's terms."""
        return cast(ModelEnergy, self.kind)  # a name became an object as this one was made

    @property
    def name(self) -> str:
        """What the model's part is called."""
        return self.of_model.name

    @property
    def names(self) -> list[str]:
        """The names of the terms that were added."""
        terms: list[Callable[..., Any]] = [*self.user_terms, *self.text_terms]
        return [_name_of(term) for term in terms]

    def on(self, model: ConditionalModel) -> Energy:
        """The energy for a model: terms of texts become terms of token ids, which the model
        spells.
        """

        def of_ids(term: Callable[[str], float], ids: Int[Tensor, "n T"]) -> Float[Tensor, " n"]:
            texts = [model.words.text(row) for row in ids.tolist()]  # type: ignore[attr-defined]
            return torch.tensor([float(term(text)) for text in texts], dtype=torch.float64)

        # `partial` binds each term now: a closure of the loop would see the last one only.
        terms_of_ids = [partial(of_ids, term) for term in self.text_terms]
        return changed(self, user_terms=(*self.user_terms, *terms_of_ids), text_terms=())

    def term(self, logits: Float[Tensor, "n V"], tokens: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """The model's terms of `tokens`, whose positions have these logits, in float64."""
        energy = self.of_model
        if is_ours(type(energy)):
            return energy.term(logits, tokens)
        return _checked_terms(energy, logits, lambda: energy.term(logits, tokens))

    def term_of_draw(
        self, drawn: Drawn, logits: Callable[[], Float[Tensor, "n V"]]
    ) -> Float[Tensor, " n"]:
        """The model's terms of tokens that were drawn; `logits` makes the logits at their
        positions, if they are needed.
        """
        energy = self.of_model
        if is_ours(type(energy)):
            return energy.term_of_draw(drawn, logits)
        return _checked_terms(energy, drawn.logit, lambda: energy.term_of_draw(drawn, logits))

    def from_user(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, " n"]:
        """The sum of the user's terms."""
        total = torch.zeros(len(ids), dtype=torch.float64, device=ids.device)
        if not self.user_terms:
            return total
        for term in self.user_terms:
            total = total + _values_of(term, ids).to(total)
        is_refused = total.isnan() | (total == -torch.inf)
        if bool(is_refused.any()):
            raise InputError(
                "a user term returned nan or -inf: return finite numbers, or inf for a text that is"
                " forbidden"
            )
        return total


# ---- how `sample` takes an energy ----


class _WithTerms(Together):
    """What `sample` takes: an energy of the model, an `Energy`, or a function of token ids, which
    becomes an `Energy`, the norm energy and that function.
    """

    def taken(self, argument: str, value: Any) -> ModelEnergy | Energy:
        if isinstance(value, Energy):
            return value
        is_function = callable(value) and not isinstance(value, type)
        if is_function and not self.is_method(value):
            return trusted(Energy, user_terms=(value,))
        found: ModelEnergy | Energy = super().taken(argument, value)
        return found

    def bring(self, argument: str, text: str) -> Any:
        """Load own code, such as my.py:function: a function of token ids, an energy or a class of
        one.
        """
        named = code_spelled(argument, text).load(argument)
        if isinstance(named, Energy):
            return named
        if isinstance(named, type) or self.is_method(named):
            return super().bring(argument, text)
        if not callable(named):
            raise InputError(
                f"{text} is {shown(named)}, and no function of token ids",
                argument=argument,
                use="name a function, or a class derived from unmask.ModelEnergy",
            )
        return trusted(Energy, user_terms=(OwnTerm(named, code_spelled(argument, text)),))


SAMPLED = _WithTerms(ENERGIES)
"""The energies that `sample` takes."""


# ---- terms of the user ----


@dataclass(frozen=True)
class OwnTerm:
    """A term that the user named as my.py:function. Another process gets its source."""

    function: Callable[[Tensor], Tensor]
    code: OwnCode

    def __call__(self, ids: Tensor) -> Tensor:
        return self.function(ids)

    def __reduce__(self) -> tuple[Any, ...]:
        return _sent_term, (self.code,)

    @property
    def stored_name(self) -> str:
        """For settings.json: the function, its file and the hash."""
        return self.code.stored_text


def _name_of(term: Callable[..., Any]) -> str:
    """A term as settings.json names it."""
    if isinstance(term, OwnTerm):
        return term.stored_name
    return getattr(term, "__qualname__", repr(term))


def _sent_term(code: OwnCode) -> OwnTerm:
    """The term, in a process that was sent its source."""
    return OwnTerm(code.load_sent(), code)


def _function_of(term: Callable[[Tensor], Tensor]) -> Any:
    """The function that the user wrote."""
    if isinstance(term, OwnTerm):
        return term.function
    if isinstance(term, partial) and term.args:  # a term of texts, see `Energy.on`
        return term.args[0]
    return term


def _values_of(term: Callable[[Tensor], Tensor], ids: Int[Tensor, "n T"]) -> Tensor:
    """A user's term of n texts; raises unless it is a tensor of n numbers."""
    from unmask.models.batching import is_out_of_memory

    try:
        values: Any = term(ids)
    except Enough:  # it asked a model that gives no more passes
        raise
    except Exception as error:
        if is_out_of_memory(error):  # the run goes on with fewer texts at once
            raise
        where = place_in(_function_of(term), error)
        raise InputError(
            f"a term of your own fails ({where}: {first_line_of(error)}): user_terms map token ids"
            " to numbers, text_terms one text to one number"
        ) from None
    if isinstance(values, torch.Tensor):
        if values.shape == (len(ids),):
            return values
        returned = f"shape {tuple(values.shape)}"
    else:
        returned = f"a {type(values).__name__}"
    raise InputError(
        f"a user term returned {returned}: return a tensor with one number for each of"
        f" {len(ids)} texts"
    )


def _checked_terms(
    energy: ModelEnergy, numbers: Tensor, terms: Callable[[], Any]
) -> Float[Tensor, " n"]:
    """What an energy of the user's own returns for n tokens; raises unless it is a tensor of n
    numbers that keep what its class says.

    numbers   from which the terms are computed, a row for each token: where these are NaN, the
              model is to blame and not the energy
    """
    try:
        values = terms()
    except InputError:
        raise
    except Exception as error:
        raise failure("energy", type(energy), error) from None
    tokens = len(numbers)
    shape_wanted = f"return a tensor with one number for each of {tokens} tokens"
    if not isinstance(values, torch.Tensor):
        raise _refused(f"the terms of {energy.name} are {shown(values)}", shape_wanted)
    if values.shape != (tokens,):
        shape = tuple(values.shape)
        raise _refused(f"the terms of {energy.name} have the shape {shape}", shape_wanted)
    if bool(values.isnan().any()) and not bool(numbers.isnan().any()):
        raise _refused(f"a term of {energy.name} is NaN", "return numbers")
    if bool((values == -torch.inf).any()):
        use = "return finite numbers, or inf for a token that is forbidden"
        raise _refused(f"a term of {energy.name} is -inf", use)
    if energy.never_negative and bool((values < 0).any()):
        lowest = float(values.min())
        raise _refused(
            f"{energy.name} says that it is never negative, and a term is {lowest:g}",
            "leave never_negative out of the class",
        )
    return values.double()


def _refused(problem: str, use: str) -> InputError:
    return InputError(problem, argument="energy", use=use)
