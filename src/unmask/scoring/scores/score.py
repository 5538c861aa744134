"""What a score is: a number in nats for every text, by a named definition.

Write q(x_i | x_S) for the model's probability of token x_i where the tokens of S are revealed
and all other sites masked. Sites are the positions that are scored: all tokens of a text, or
those of a target between given words.

"A probability" means that exp(score) sums to 1 over all texts of the same length in regular
tokens, so that scores of one length can be compared as odds and divided by log 2 to give bits;
any other score can rank texts, but its size has no such meaning.

A model gives some probability to special tokens, which cannot occur in a text. So q is
normalised over the regular tokens in all chain rules and joints, as in `fill`.
Pseudo-likelihoods and energies keep the whole vocabulary, as they are published and as other
tools compute them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

from annotated_types import Interval

from unmask.common.errors import InputError, UnmaskError
from unmask.common.lazy import torch
from unmask.common.methods.method import Method
from unmask.common.methods.own_code import failure, is_ours
from unmask.common.methods.registry import Registry
from unmask.runs.progress import Enough

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from unmask.models.conditional_model import ConditionalModel
    from unmask.runs.progress import Progress
    from unmask.scoring.text_batch import TextBatch

SCORES = Registry("score", folders=("unmask.scoring.scores",))
"""The scores by name. The law of a decoder is here once; its spelling has the decoder's name."""
Seed = Annotated[int, Interval(ge=0, le=2**63 - 1)]


@dataclass(frozen=True)
class Scored:
    """One score of n texts with k sites each, in nats.

    values    the scores; NaN for texts without one
    by_site   each site's share, if the score is a sum over sites
    extra     further columns, by suffix
    reasons   why a text has no value, by its row
    """

    values: Float[Tensor, " n"]
    by_site: Float[Tensor, "n k"] | None = None
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    reasons: Mapping[int, str] = field(default_factory=dict)


Computation: TypeAlias = Callable[
    [Sequence[Any], "ConditionalModel", "TextBatch", "Progress | None"], dict[str, Scored]
]
"""Computes some scores of a batch from shared passes; reports progress of work that is long
within a batch.
"""


class Score(Method, ABC, registry=SCORES):
    """A score of texts.

    A subclass is a score: its docstring's first paragraph is the definition, with its formula and
    what q is normalised over. `compute` is all that it must define. An object of it is the score
    with its options.

    >>> from unmask.tables.conditionals import Conditionals, regular_tokens
    >>> @unmask.method
    ... class Independent(unmask.Score):
    ...     "sum over t of log q(x_t | nothing revealed), q over the regular tokens"
    ...     name, probability, by_token = "independent", True, True
    ...     why = "a product of distributions"
    ...
    ...     def compute(self, model, batch, progress=None):
    ...         hidden = batch.ids.scatter(1, batch.sites, model.mask_id)
    ...         tokens = batch.ids.gather(1, batch.sites)
    ...         q = Conditionals(model, regular_tokens(model))
    ...         return q.log_q(hidden, batch.sites, tokens)
    >>> unmask.score("The cat sat.", ["pll", Independent()])[0]["independent"] < 0
    True
    >>> unmask.testing.check_score(Independent())
    """

    probability: ClassVar[bool] = False
    """Whether exp(score) sums to 1 over the texts of a length."""
    why: ClassVar[str] = "nothing says that it is one"
    """In a few words, why it is a probability or is none."""
    unknown: ClassVar[bool] = False
    """Whether texts with tokens that the model does not know have one."""
    by_token: ClassVar[bool] = False
    """Whether it is a sum over tokens, so that each token and word has its share."""
    by_word: ClassVar[bool] = False
    """Whether it needs the tokenizer's words."""
    windows: ClassVar[bool] = False
    """Whether texts longer than the model can be scored in windows."""
    better: ClassVar[int] = 1
    """1 if a higher value means a better text, -1 if a lower one does."""
    extra: ClassVar[tuple[str, ...]] = ()
    """Further columns of numbers that come with it, named NAME_suffix."""

    @abstractmethod
    def compute(
        self, model: ConditionalModel, batch: TextBatch, progress: Progress | None = None
    ) -> Scored | Tensor:
        """The score of every text of a batch, in nats.

        A tensor of shape (n, k) has the share of each site, and the score is their sum: so it is
        for a score `by_token`. One of shape (n,) has the scores.
        """

    def cost(self, sites: int) -> int:
        """About how many passes a text with this many sites takes, without what depends on its
        length alone.
        """
        return sites

    @property
    def computation(self) -> Computation:
        """The function that computes this score. Scores that have the same one share its passes."""
        return self.compute_alone

    def compute_alone(
        self,
        scores: Sequence[Score],
        model: ConditionalModel,
        batch: TextBatch,
        progress: Progress | None = None,
    ) -> dict[str, Scored]:
        """The computation of a score that shares no passes; `scores` has this one only."""
        if is_ours(type(self)):
            return {self.name: self._scored(self.compute(model, batch, progress), batch)}
        try:
            computed = self.compute(model, batch, progress)
        except (UnmaskError, Enough):
            raise
        except Exception as error:
            raise failure("score", type(self), error) from error
        scored = self._scored(computed, batch)
        return {self.name: self._with_reasons(scored)}

    def _with_reasons(self, scored: Scored) -> Scored:
        """The numbers of own code, with a reason for each that is NaN."""
        reasons = dict(scored.reasons)
        for row in scored.values.isnan().nonzero().flatten().tolist():
            reasons.setdefault(row, f"score {self.name} is NaN")
        return replace(scored, reasons=reasons)

    def _scored(self, computed: object, batch: TextBatch) -> Scored:
        """What `compute` returned; InputError if it has another shape than the score says."""
        n, k = batch.sites.shape
        if isinstance(computed, torch.Tensor):
            shape = (n, k) if self.by_token else (n,)
            self._refuse_shape(computed, shape)
            if not self.by_token:
                return Scored(computed)
            return Scored(computed.sum(1), computed)
        if not isinstance(computed, Scored):
            raise InputError(
                f"compute of score {self.name} returned a {type(computed).__name__}: return a"
                " tensor, or a Scored"
            )
        self._refuse_shape(computed.values, (n,))
        if self.by_token:
            self._refuse_shape(computed.by_site, (n, k))
        for suffix in self.extra:
            self._refuse_shape(computed.extra.get(suffix), (n,))
        return computed

    def _refuse_shape(self, numbers: Tensor | None, shape: tuple[int, ...]) -> None:
        """Raise for numbers that are not a tensor of this shape."""
        given = None if numbers is None else tuple(numbers.shape)
        if given != shape:
            raise InputError(
                f"compute of score {self.name} returned numbers of shape {given}: return {shape},"
                " texts by sites for a score by_token"
            )

    @property
    def definition(self) -> str:
        """A sentence with the formula, and what q is normalised over."""
        return self.meaning()

    @property
    def direction(self) -> str:
        """Which values are better, in words."""
        return "higher is better" if self.better > 0 else "lower is better"

    @property
    def columns(self) -> list[str]:
        """Its own column, and the further ones."""
        return [self.name, *(f"{self.name}_{suffix}" for suffix in self.extra)]

    @property
    def share_column(self) -> str:
        """The column of a token's or a word's share: minus its part of the score, or an
        energy's part itself.
        """
        if self.better < 0:
            return self.name
        return f"{self.name}_surprisal"
