"""Energies of whole texts under a masked language model (Goyal, Dyer & Berg-Kirkpatrick 2022),
and the targets of chains.

    E_raw(x)  = - sum_t f_t(x_t | x_{-t})            f_t: logits at position t, masked alone
    E_norm(x) = - sum_t log q_t(x_t | x_{-t})        q_t = softmax f_t over the whole vocabulary

The sum runs over the positions that hold no special token. A kernel at temperature T samples
pi(x), which is proportional to exp(-E(x) / T) over the texts of one length. exp(-E_norm) is the
product of the unary conditionals; -E_norm is the pseudo-log-likelihood. One energy costs one
forward pass per term.

A target is an energy over the texts of one length, with some tokens fixed and the others
restricted to allowed sets:

    pi(x) proportional to exp(-E(x) / temperature)   if x has the fixed tokens and every free
                                                     token is allowed, else 0

Special tokens are never allowed. The energy keeps its terms at the fixed positions, and its
normalisers run over the whole vocabulary, so that pi is the unconstrained model *given* the
constraints. Tokens that a text is conditioned on (`given`: the source of a translation) are
fixed as well, may differ from text to text, and have no term.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.common.border.calls import changed, checked, settings, trusted
from unmask.common.checks import one_of, shown
from unmask.common.errors import InputError
from unmask.common.methods.own_code import (
    OwnCode,
    code_spelled,
    first_line_of,
    names_code,
    place_in,
)
from unmask.models.batching import is_out_of_memory
from unmask.models.conditional_model import ConditionalModel
from unmask.models.text.text_tokenizer import refuse_too_long
from unmask.runs.progress import Enough
from unmask.sampling.engine.token_draw import Drawn
from unmask.sampling.settings import EnergyKind

KINDS = get_args(EnergyKind)
UserTerm = Callable[[Tensor], Tensor]
"""From token ids (n, T), special tokens included, to n numbers that are added to the energy;
inf forbids a text.
"""


def log_normaliser(logits: Float[Tensor, "n V"]) -> Float[Tensor, " n"]:
    """log sum exp of each row, in float64."""
    if logits.is_cuda:
        from unmask.sampling.engine.triton_programs import log_normaliser_on_gpu

        return log_normaliser_on_gpu(logits)
    return logits.double().logsumexp(-1)


@settings
class Energy:
    """Which energy, and the user's own terms, which are added to it.

    Parameters:
        kind: norm or raw.
        user_terms: Functions from token ids (n, T), special tokens included, to n numbers; inf
            forbids a text.
        text_terms: Functions from a text to a number; inf forbids it.

    >>> energy = unmask.Energy("raw", text_terms=(len,))
    >>> run = unmask.sample("A [MASK] sat.", chains=2, sweeps=2, energy=energy)
    >>> run.settings.energy
    'raw'
    """

    kind: EnergyKind = "norm"
    user_terms: tuple[UserTerm, ...] = ()
    text_terms: tuple[Callable[[str], float], ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of the terms that were added."""
        terms: list[Callable[..., Any]] = [*self.user_terms, *self.text_terms]
        return [_name_of(term) for term in terms]

    @classmethod
    def taken(cls, argument: str, value: Any) -> Energy:
        """The energy that a user gives: an object, raw or norm, a function of token ids that is
        added to the norm energy, or my.py:function.
        """
        if isinstance(value, Energy):
            return value
        if callable(value):
            return trusted(cls, user_terms=(value,))
        if isinstance(value, str) and names_code(value):
            code = code_spelled(argument, value)
            function = code.load(argument)
            if isinstance(function, Energy):
                return function
            if not callable(function):
                raise InputError(
                    f"{value} is {shown(function)}, and no function of token ids",
                    argument=argument,
                    use="name a function",
                )
            return trusted(cls, user_terms=(OwnTerm(function, code),))
        if isinstance(value, str) and value in KINDS:
            return trusted(cls, kind=value)
        return cls(one_of(argument, value, KINDS))  # type: ignore[arg-type]  # raises

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
        """The energy's terms of `tokens`, whose positions have these logits, in float64; those
        of the norm are never negative.
        """
        logit = logits.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        raw = -logit.double()
        if self.kind == "raw":
            return raw
        return log_normaliser(logits) + raw

    def term_of(self, drawn: Drawn) -> Float[Tensor, " n"]:
        """The energy's terms of tokens that were drawn, from what their conditionals said of
        them.
        """
        if self.kind == "raw":
            return 0.0 - drawn.logit  # of a logit of 0 the term is 0, not -0
        return drawn.log_all - drawn.logit

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


@dataclass(frozen=True)
class OwnTerm:
    """A term that the user named as my.py:function. Another process gets its source."""

    function: UserTerm
    code: OwnCode

    def __call__(self, ids: Tensor) -> Tensor:
        return self.function(ids)

    def __reduce__(self) -> tuple[Any, ...]:
        return _sent_term, (self.code,)

    @property
    def stored_name(self) -> str:
        """For settings.json: the function, its file and the hash."""
        stored = self.code.stored
        return f"{stored['code']} {stored['sha256']}"


def _name_of(term: Callable[..., Any]) -> str:
    """A term as settings.json names it."""
    if isinstance(term, OwnTerm):
        return term.stored_name
    return getattr(term, "__qualname__", repr(term))


def _sent_term(code: OwnCode) -> OwnTerm:
    """The term, in a process that was sent its source."""
    return OwnTerm(code.load_sent(), code)


def _function_of(term: UserTerm) -> Any:
    """The function that the user wrote."""
    if isinstance(term, OwnTerm):
        return term.function
    if isinstance(term, partial) and term.args:  # a term of texts, see `Energy.on`
        return term.args[0]
    return term


def _values_of(term: UserTerm, ids: Int[Tensor, "n T"]) -> Tensor:
    """A user's term of n texts; raises unless it is a tensor of n numbers."""
    try:
        values: Any = term(ids)
    except Enough:  # it asked a model that gives no more passes
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        where = place_in(_function_of(term), error)
        raise InputError(
            f"a term of your own fails ({where}: {first_line_of(error)}): user_terms map token ids"
            " to numbers, text_terms one text to one number"
        ) from None
    if isinstance(values, Tensor):
        if values.shape == (len(ids),):
            return values
        returned = f"shape {tuple(values.shape)}"
    else:
        returned = f"a {type(values).__name__}"
    raise InputError(
        f"a user term returned {returned}: return a tensor with one number for each of"
        f" {len(ids)} texts"
    )


def scored_positions(ids: Sequence[int], model: ConditionalModel) -> tuple[int, ...]:
    """Positions with a term: all that hold no special token, and the blanks."""
    without_term = set(model.special_ids) - {model.mask_id}
    return tuple(t for t, token in enumerate(ids) if token not in without_term)


def masked_alone(
    ids: Int[Tensor, "n T"], positions: Int[Tensor, " n"], mask_id: int
) -> Int[Tensor, "n T"]:
    """Each row with its one position masked."""
    return ids.scatter(1, positions.unsqueeze(1), mask_id)


class Target:
    """An energy and its support; see the module's text.

    model      a `MaskedLM`, or another `ConditionalModel`
    template   token ids, special ones included: the mask token at the free positions, fixed
               tokens elsewhere
    energy     by default the norm energy
    allowed    for a free position of the template, the token ids that are allowed there
    given      positions at which each text has its own tokens, whatever the template has there

    Its attributes, tensors on the model's device:

    positions        positions in the text with an energy term, S of them ("columns" count along
                     these)
    free             the F columns that are free ("sites" count along these)
    free_positions   the position of each site
    site_of_column   the site of each column, -1 where it is fixed
    support          which tokens are allowed at each site

    In `[CLS] the [MASK] sat [SEP]`, for example, positions are 1, 2, 3; free is 1, free_positions
    2; site_of_column is -1, 0, -1.

    >>> model = unmask.load()
    >>> target = unmask.Target(model, model.cloze("The [MASK] sat on the [MASK].").ids)
    >>> target.sites, target.free_positions.tolist()
    (2, [2, 6])
    """

    @checked
    def __init__(
        self,
        model: ConditionalModel,
        template: Sequence[int],
        energy: Energy | None = None,
        allowed: Mapping[int, Sequence[int]] | None = None,
        given: Sequence[int] = (),
    ) -> None:
        self._set(model, template, energy or Energy(), dict(allowed or {}), given)

    def _set(
        self,
        model: ConditionalModel,
        template: Sequence[int],
        energy: Energy,
        allowed: Mapping[int, Sequence[int]],
        given: Sequence[int],
    ) -> None:
        self.model = model
        self.device: torch.device = model.device
        self.template: tuple[int, ...] = tuple(template)
        self.energy: Energy = energy.on(model)
        refuse_too_long(len(self.template), model.max_length)
        for ids in (self.template, *allowed.values()):
            _refuse_unknown_ids(ids, model)
        self._refuse_outside(given)
        without_term = set(given)
        scored = [t for t in scored_positions(self.template, model) if t not in without_term]
        free = [column for column, t in enumerate(scored) if self.template[t] == model.mask_id]
        if not free:
            raise InputError("the template has no blank: put [MASK] where tokens should be sampled")
        self.sites: int = len(free)
        self.columns: int = len(scored)
        self.template_ids: Tensor = self._tensor(self.template)
        self.given: Tensor = self._tensor(given)
        self.positions: Tensor = self._tensor(scored)
        self.free: Tensor = self._tensor(free)
        self.free_positions: Tensor = self.positions[self.free]
        self.site_of_column: Tensor = torch.full((self.columns,), -1, device=self.device)
        self.site_of_column[self.free] = torch.arange(self.sites, device=self.device)
        self.support: Tensor = self._support(allowed)

    def _refuse_outside(self, given: Sequence[int]) -> None:
        tokens = len(self.template)
        outside = [t for t in given if not 0 <= t < tokens]
        if outside:
            raise InputError(
                f"given {outside[0]} is outside of the template: give positions from 0 to"
                f" {tokens - 1}"
            )

    def _tensor(self, values: Sequence[int]) -> Int[Tensor, " n"]:
        return torch.tensor(values, dtype=torch.long, device=self.device)

    def _support(self, allowed: Mapping[int, Sequence[int]]) -> Bool[Tensor, "F V"]:
        """Which tokens are allowed at each site: regular ones, of those in `allowed`."""
        special = {*self.model.special_ids, self.model.mask_id}
        regular = ~self._marked(special)
        support = regular.repeat(self.sites, 1)
        site_of_position = {int(t): site for site, t in enumerate(self.free_positions)}
        for position, tokens in allowed.items():
            if position not in site_of_position:
                blanks = ", ".join(map(str, site_of_position))
                raise InputError(
                    f"allowed tokens were given for position {position}, which is not free: the"
                    f" blanks are at {blanks}"
                )
            site = site_of_position[position]
            support[site] &= self._marked(tokens)
            if not support[site].any():
                raise InputError(
                    f"no token satisfies the constraint at position {position}: its"
                    f" {len(tokens)} allowed tokens are all special or unknown to the model;"
                    " allow at least one regular token"
                )
        return support

    def _marked(self, tokens: Iterable[int]) -> Bool[Tensor, " V"]:
        """Marks tokens in the vocabulary; the mask's id may lie beyond it."""
        vocabulary = self.model.vocab_size
        marks = torch.zeros(vocabulary, dtype=torch.bool, device=self.device)
        within = [token for token in tokens if token < vocabulary]
        marks[within] = True
        return marks

    def check(self, ids: Int[Tensor, "n T"]) -> None:
        """Refuse texts outside the support, where pi is zero and a chain cannot start."""
        if ids.shape[1] != len(self.template):
            raise InputError(
                f"a start of {ids.shape[1]} tokens for a template of {len(self.template)}: give"
                " texts of one length"
            )
        fixed = self.template_ids != self.model.mask_id  # a mark for each position
        fixed[self.given] = False  # each text has its own tokens there
        differs = ids[:, fixed] != self.template_ids[fixed]
        if bool(differs.any()):
            raise InputError(
                "a start differs from the template where tokens are fixed: start from the"
                " template's own tokens"
            )
        tokens = ids[:, self.free_positions]
        last = self.model.vocab_size - 1
        in_vocabulary = (tokens >= 0) & (tokens <= last)
        sites = torch.arange(self.sites, device=self.device)
        in_support = self.support[sites, tokens.clamp(0, last)]  # clamped, since ids index it
        inside = in_vocabulary & in_support
        if not bool(inside.all()):
            row, site = (~inside).nonzero()[0].tolist()
            raise InputError(
                f"start {row} has token {int(tokens[row, site])} at position"
                f" {int(self.free_positions[site])}, which is special or not allowed there: a chain"
                " cannot start where its target is zero"
            )


NORM = Energy()
"""The norm energy, with no terms of a user."""


def target_of(
    model: ConditionalModel,
    template: Sequence[int],
    energy: Energy = NORM,
    allowed: Mapping[int, Sequence[int]] | None = None,
    given: Sequence[int] = (),
) -> Target:
    """A `Target` of ids that this process made itself: their types are not checked again."""
    target = object.__new__(Target)
    target._set(model, template, energy, allowed or {}, given)
    return target


def _refuse_unknown_ids(ids: Iterable[int], model: ConditionalModel) -> None:
    unknown = [i for i in ids if not 0 <= i < model.input_size]
    if unknown:
        raise InputError(
            f"token id {unknown[0]} is not the model's: give ids from 0 to {model.input_size - 1}"
        )


def blank_template(model: ConditionalModel, length: int) -> tuple[int, ...]:
    """`length` blanks between the special tokens that the model puts around a text."""
    if length < 1:
        raise InputError(f"length {length}: ask for at least one token")
    before, after = model.around()
    blanks = [model.mask_id] * length
    return (*before, *blanks, *after)
