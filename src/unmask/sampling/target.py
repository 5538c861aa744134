"""Energies of whole texts under a masked language model (Goyal, Dyer & Berg-Kirkpatrick 2022),
and the targets of chains.

    E_raw(x)  = - sum_t f_t(x_t | x_{-t})            f_t: logits at position t, masked alone
    E_norm(x) = - sum_t log q_t(x_t | x_{-t})        q_t = softmax f_t over the whole vocabulary

The sum runs over the positions that hold no special token. A kernel at temperature T samples
pi(x), which is proportional to exp(-E(x) / T) over the texts of one length. exp(-E_norm) is the
product of the unary conditionals; -E_norm is the pseudo-log- likelihood. One energy costs one
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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.common.errors import InputError
from unmask.common.signature import checked, settings
from unmask.models.conditional_model import ConditionalModel
from unmask.models.text.text_tokenizer import refuse_too_long
from unmask.sampling.engine.token_draw import Drawn
from unmask.sampling.registry import EnergyKind

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
    """

    kind: EnergyKind = "norm"
    user_terms: tuple[UserTerm, ...] = ()
    text_terms: tuple[Callable[[str], float], ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of the terms that were added."""
        return [
            getattr(term, "__qualname__", repr(term))
            for term in (*self.user_terms, *self.text_terms)
        ]

    def on(self, model: ConditionalModel) -> Energy:
        """The energy for a model: terms of texts become terms of token ids, which the model
        spells.
        """

        def of_ids(term: Callable[[str], float], ids: Int[Tensor, "n T"]) -> Float[Tensor, " n"]:
            texts = [model.text(row) for row in ids.tolist()]  # type: ignore[attr-defined]
            return torch.tensor([float(term(text)) for text in texts], dtype=torch.float64)

        return replace(
            self,
            user_terms=(*self.user_terms, *(partial(of_ids, term) for term in self.text_terms)),
            text_terms=(),
        )

    def term(self, logits: Float[Tensor, "n V"], tokens: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """The energy's terms of `tokens`, whose positions have these logits, in float64; those
        of the norm are never negative.
        """
        raw = -logits.gather(-1, tokens.unsqueeze(-1)).squeeze(-1).double()
        return log_normaliser(logits) + raw if self.kind == "norm" else raw

    def term_of(self, drawn: Drawn) -> Float[Tensor, " n"]:
        """The energy's terms of tokens that were drawn, from what their conditionals said of
        them.
        """
        return (drawn.log_all if self.kind == "norm" else 0.0) - drawn.logit

    def from_user(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, " n"]:
        """The sum of the user's terms."""
        total = torch.zeros(len(ids), dtype=torch.float64, device=ids.device)
        if not self.user_terms:
            return total
        for function in self.user_terms:
            try:
                value = function(ids)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                why = str(error).partition("\n")[0]
                raise InputError(
                    f"a term of your own fails ({why}): user_terms map token ids to numbers,"
                    " text_terms one text to one number"
                ) from None
            if not isinstance(value, Tensor) or value.shape != (len(ids),):
                returned = (
                    f"shape {tuple(value.shape)}"
                    if isinstance(value, Tensor)
                    else f"a {type(value).__name__}"
                )
                raise InputError(
                    f"a user term returned {returned}: return a tensor with one number for each of"
                    f" {len(ids)} texts"
                )
            total = total + value.to(total)
        if bool((total.isnan() | (total == -torch.inf)).any()):
            raise InputError(
                "a user term returned nan or -inf: return finite numbers, or inf for a text that is"
                " forbidden"
            )
        return total


def scored_positions(ids: Sequence[int], model: ConditionalModel) -> tuple[int, ...]:
    """Positions with a term: all that hold no special token, and the blanks."""
    special = set(model.special_ids) - {model.mask_id}
    return tuple(t for t, token in enumerate(ids) if token not in special)


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
        self.model, self.device = model, model.device
        self.template = tuple(template)
        self.energy = (energy or Energy()).on(model)
        refuse_too_long(len(self.template), model.max_length)
        tokens = [*template, *(i for ids in (allowed or {}).values() for i in ids)]
        if unknown := [i for i in tokens if not 0 <= i < model.input_size]:
            raise InputError(
                f"token id {unknown[0]} is not the model's: give ids from 0 to"
                f" {model.input_size - 1}"
            )
        if outside := [t for t in given if not 0 <= t < len(template)]:
            raise InputError(
                f"given {outside[0]} is outside of the template: give positions from 0 to"
                f" {len(template) - 1}"
            )
        scored = [t for t in scored_positions(self.template, model) if t not in set(given)]
        free = [column for column, t in enumerate(scored) if self.template[t] == model.mask_id]
        if not free:
            raise InputError("the template has no blank: put [MASK] where tokens should be sampled")
        self.sites, self.columns = len(free), len(scored)
        self.template_ids, self.given = self._tensor(self.template), self._tensor(given)
        self.positions, self.free = self._tensor(scored), self._tensor(free)
        self.free_positions = self.positions[self.free]
        self.site_of_column = torch.full((self.columns,), -1, device=self.device)
        self.site_of_column[self.free] = torch.arange(self.sites, device=self.device)
        self.support = self._support(dict(allowed or {}))

    def _tensor(self, values: Sequence[int]) -> Int[Tensor, " n"]:
        return torch.tensor(values, dtype=torch.long, device=self.device)

    def _support(self, allowed: dict[int, Sequence[int]]) -> Bool[Tensor, "F V"]:
        vocabulary = self.model.vocab_size
        regular = torch.ones(vocabulary, dtype=torch.bool, device=self.device)
        regular[[i for i in {*self.model.special_ids, self.model.mask_id} if i < vocabulary]] = (
            False
        )
        support = regular.repeat(self.sites, 1)
        places = {int(t): site for site, t in enumerate(self.free_positions)}
        for position, tokens in allowed.items():
            if position not in places:
                free = ", ".join(map(str, places))
                raise InputError(
                    f"allowed tokens were given for position {position}, which is not free: the"
                    f" blanks are at {free}"
                )
            keep = torch.zeros(vocabulary, dtype=torch.bool, device=self.device)
            keep[[i for i in tokens if i < vocabulary]] = True
            support[places[position]] &= keep
            if not support[places[position]].any():
                raise InputError(
                    f"no token satisfies the constraint at position {position}: its"
                    f" {len(list(tokens))} allowed tokens are all special or unknown to the model;"
                    " allow at least one regular token"
                )
        return support

    def check(self, ids: Int[Tensor, "n T"]) -> None:
        """Refuse texts outside the support, where pi is zero and a chain cannot start."""
        if ids.shape[1] != len(self.template):
            raise InputError(
                f"a start of {ids.shape[1]} tokens for a template of {len(self.template)}: give"
                " texts of one length"
            )
        fixed = self.template_ids != self.model.mask_id
        fixed[self.given] = False
        if bool((ids[:, fixed] != self.template_ids[fixed]).any()):
            raise InputError(
                "a start differs from the template where tokens are fixed: start from the"
                " template's own tokens"
            )
        values = ids[:, self.free_positions]
        inside = (values >= 0) & (values < self.model.vocab_size)
        inside &= self.support[
            torch.arange(self.sites, device=self.device), values.clamp(0, self.model.vocab_size - 1)
        ]
        if not bool(inside.all()):
            row, site = (~inside).nonzero()[0].tolist()
            raise InputError(
                f"start {row} has token {int(values[row, site])} at position"
                f" {int(self.free_positions[site])}, which is special or not allowed there: a chain"
                " cannot start where its target is zero"
            )


def blank_template(model: ConditionalModel, length: int) -> tuple[int, ...]:
    """`length` blanks between the special tokens that the model puts around a text."""
    if length < 1:
        raise InputError(f"length {length}: ask for at least one token")
    before, after = model.around()
    return (*before, *[model.mask_id] * length, *after)
