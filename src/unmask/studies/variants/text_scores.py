"""Scores of texts for variants: each variant's whole text, as `score` scores it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from unmask.common.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.runs.progress import Progress
from unmask.scoring.encoding import Encoded, encode
from unmask.scoring.items import Item
from unmask.scoring.scores.score import Score
from unmask.scoring.text_scores import begin

MEAN_LOG = "mean_log"
"""The further column that is a score, too; a standard error, such as any_order_se, is none."""


class VariantTexts:
    """The texts of variants of one sequence.

    names      of the variants, for messages
    parent     the sequence as tokens
    encoded    the variants as tokens, in the order of their names
    """

    def __init__(
        self,
        model: MaskedLM,
        sequence: str,
        names: Sequence[str],
        positions: Sequence[int],
        tokens: Int[Tensor, "n k"],
    ) -> None:
        """tokens   the token id of each variant at each of the positions"""
        self.model = model
        self.names = names
        self.parent = encode(model.words, Item(sequence))
        self.encoded: list[Encoded] = []
        for of_variant in tokens.tolist():
            ids = list(self.parent.ids)
            for position, token in zip(positions, of_variant, strict=True):
                ids[position] = token
            self.encoded.append(self.parent._replace(ids=tuple(ids)))

    def pass_count(self, scores: Sequence[Score]) -> int:
        """About how many passes the scores of these texts take."""
        distinct = len({text.ids for text in self.encoded})
        return distinct * sum(score.cost(len(self.parent.sites)) for score in scores)

    def scores(
        self, scores: Sequence[Score], progress: Progress | None
    ) -> dict[str, Float[np.ndarray, " n"]]:
        """The scores of each text by name, in nats, and of any_order the mean of the logs.

        Larger is better in each: a score where lower is better, such as an energy, is negated.
        """
        numbers = begin(self.model, self.encoded, scores, progress=progress)()
        if numbers.reasons:
            place, reason = next(iter(numbers.reasons.items()))
            raise InputError(
                f"{self.names[place]} has not every score ({reason})",
                argument="score",
                use="leave the score out, or the variant",
            )
        columns = {}
        for score in scores:
            names = [score.name]
            if MEAN_LOG in score.extra:
                names.append(f"{score.name}_{MEAN_LOG}")
            for name in names:
                columns[name] = score.better * numbers.values[name]
        return columns
