"""The targets of chains: an energy over the texts of one length (see `energies`), with some tokens
fixed and the others restricted to allowed sets.

    pi(x) proportional to exp(-E(x) / temperature)   if x has the fixed tokens and every free
                                                     token is allowed, else 0

Special tokens are never allowed. The energy keeps its terms at the fixed positions, and its
normalisers run over the whole vocabulary, so that pi is the unconstrained model *given* the
constraints. Tokens that a text is conditioned on (`given`: the source of a translation) are
fixed as well, may differ from text to text, and have no term.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from unmask.common.border.calls import checked, trusted
from unmask.common.errors import InputError
from unmask.models.conditional_model import ConditionalModel
from unmask.models.text.text_tokenizer import refuse_too_long
from unmask.sampling.energies.with_terms import Energy


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


NORM = trusted(Energy)
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
