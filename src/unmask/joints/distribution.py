"""Probabilities of one blank: a tensor that also knows the token of each number."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from annotated_types import Interval
from torch import Tensor
from torch._C import _disabled_torch_function_impl

from unmask.common.border.calls import checked

if TYPE_CHECKING:
    import pandas

MOST_ROWS = 10**9  # Of one call of `top`


class Distribution(Tensor):
    """The probability of each candidate of a blank, in the order of the candidates.

    It is a tensor that also knows its tokens. Tensors computed from it, slices too, are plain
    tensors and know none.

    >>> joint = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint
    >>> joint.marginal(0).top(3).columns.tolist(), round(float(joint.marginal(0).sum()), 6)
    (['token', 'prob'], 1.0)
    """

    # With this function of torch, operations on a subclass give plain tensors.
    __torch_function__ = _disabled_torch_function_impl  # type: ignore[assignment]
    _tokens: Callable[[], list[str]]

    @classmethod
    def of(cls, probabilities: Tensor, tokens: Callable[[], list[str]]) -> Distribution:
        """These probabilities, labelled by `tokens`, which returns the token of each.

        `tokens` is called each time that the tokens are read, and not before.
        """
        labelled = probabilities.as_subclass(cls)
        labelled._tokens = tokens
        return labelled

    @property
    def tokens(self) -> list[str]:
        """The token of each candidate, as it is spelled."""
        return self._tokens()

    def to_frame(self) -> pandas.DataFrame:
        """One row per candidate, in their order: token, prob."""
        from unmask.common.lazy import pandas

        return pandas.DataFrame({"token": self.tokens, "prob": self.tolist()})

    @checked
    def top(self, n: Annotated[int, Interval(ge=1, le=MOST_ROWS)] = 10) -> pandas.DataFrame:
        """The n most probable candidates, best first: token, prob."""
        best_first = self.to_frame().sort_values(
            "prob",
            ascending=False,
            kind="stable",  # candidates of one probability keep their order
            ignore_index=True,
        )
        return best_first.head(n)
