"""A scorer with the method names of minicons, for scripts that have them: only the import changes.

    from unmask.integrations import minicons as scorer
    scorer.MaskedLMScorer("bert-base-cased", "cpu").sequence_score(["The keys are here."])

`PLL_metric` is "original" (`pll`), "within_word_l2r" (`pll_word`), or the name of any other score of `unmask` that is a sum over
tokens, "left_to_right" for one. `reduction` gets the tokens' terms as a tensor; by default it is their mean, as in minicons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log
from typing import Any

import torch
from torch import Tensor

from unmask.checks import one_of
from unmask.errors import InputError
from unmask.models.masked_lm import MaskedLM, as_model
from unmask.scoring.registry import SCORES, share_column
from unmask.scoring.score import score

METRICS = {entry.in_minicons: name for name, entry in SCORES.items() if entry.in_minicons} | {
    name: name for name, entry in SCORES.items() if entry.by_token and entry.better > 0
}
Reduction = Callable[[Tensor], Any]


def mean(terms: Tensor) -> float:
    """The mean per token."""
    return float(terms.mean(0))


class MaskedLMScorer:
    """Scores per token, per text, and per text after a prefix; `model` is a name, a folder, a MaskedLM, or a network with
    its `tokenizer`."""

    def __init__(
        self, model: Any = None, device: str = "cpu", tokenizer: Any = None, PLL_metric: str = "original", dtype: str = "auto"
    ) -> None:
        self.model = as_model(model, device, dtype) if tokenizer is None else MaskedLM(model, tokenizer)
        self.metric = one_of("PLL_metric", PLL_metric, METRICS)

    def sequence_score(
        self,
        batch: str | Sequence[str],
        reduction: Reduction = mean,
        prob: bool = False,
        base_two: bool = False,
        PLL_metric: str | None = None,
    ) -> list[Any]:
        """`reduction` of the terms of each text."""
        return [reduction(terms) for _, terms in self._terms(_listed(batch), PLL_metric, prob, base_two)]

    def token_score(
        self,
        batch: str | Sequence[str],
        surprisal: bool = False,
        prob: bool = False,
        base_two: bool = False,
        rank: bool = False,
        PLL_metric: str | None = None,
    ) -> list[list[tuple[str, float]]]:
        """(token, term) for each token of each text."""
        if rank:
            raise InputError("rank was asked for, which this scorer does not have: use unmask.conditionals")
        if surprisal and prob:
            raise InputError("surprisal and prob were both asked for: choose one")
        sign = -1.0 if surprisal else 1.0
        found = self._terms(_listed(batch), PLL_metric, prob, base_two)
        return [list(zip(tokens, (sign * terms).tolist(), strict=True)) for tokens, terms in found]

    def conditional_score(
        self,
        prefix: str | Sequence[str],
        stimuli: str | Sequence[str],
        suffix: str | Sequence[str] | None = None,
        separator: str = " ",
        reduction: Reduction = mean,
        prob: bool = False,
        base_two: bool = False,
        PLL_metric: str | None = None,
    ) -> list[Any]:
        """`reduction` of the terms of each stimulus, between its prefix and its suffix."""
        before, middle = _listed(prefix), _listed(stimuli)
        after = [None] * len(middle) if suffix is None else _listed(suffix)
        if not len(before) == len(middle) == len(after):
            raise InputError(f"{len(before)} prefixes, {len(middle)} stimuli and {len(after)} suffixes: give as many of each")
        items = [
            {"before": left + separator, "target": text, "after": "" if right is None else separator + right}
            for left, text, right in zip(before, middle, after, strict=True)
        ]
        return [reduction(terms) for _, terms in self._terms(items, PLL_metric, prob, base_two)]

    def _terms(
        self, items: Sequence[str | Mapping[str, str]], metric: str | None, prob: bool, base_two: bool
    ) -> list[tuple[list[str], Tensor]]:
        """The tokens of each text and their terms: log-probabilities, in bits with `base_two`, or probabilities."""
        if prob and base_two:
            raise InputError("prob and base_two were both asked for: choose one")
        name = METRICS[one_of("PLL_metric", metric or self.metric, METRICS)]
        found = []
        for number, row in enumerate(score(items, name, model=self.model, tokens=True).rows, 1):
            if row["reason"] is not None:
                raise InputError(f"text {number}: {row['reason']}")
            terms = -torch.tensor([token[share_column(name)] for token in row["tokens"]], dtype=torch.float64)
            found.append(
                ([token["token"] for token in row["tokens"]], terms.exp() if prob else terms / log(2) if base_two else terms)
            )
        return found


def _listed(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)
