"""The settings of a run that decide its numbers: equal settings and data give equal weights on one kind of device."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from unmask import checks
from unmask.errors import InputError
from unmask.options.training import MASKED_ONLY, PAIRS_ONLY, Training
from unmask.training.masking import parse_replacement, parse_scheme


@dataclass(frozen=True)
class TrainSettings(Training):
    """Shape, data cut, objective and optimisation: the options of `unmask train` that decide the weights.

    parallel   whether texts are pairs of a source and its translation, each with half of max_length
    """

    parallel: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_scheme(self.masking)
        parse_replacement(self.replacement)
        if self.width % self.heads:
            raise InputError(f"width {self.width} is not a multiple of {self.heads} heads: change --width or --heads")
        self._check_lengths()

    def _check_lengths(self) -> None:
        if self.max_length % 8:
            near = 8 * (self.max_length // 8 + 1)
            raise InputError(f"max_length {self.max_length} is not a multiple of 8: give one, such as {near}")
        for name, least in (("segment_lengths", 4), ("buckets", 8)):
            values = tuple(checks.whole(name, value, least, self.max_length) for value in getattr(self, name))
            object.__setattr__(self, name, values)
            if not values:
                raise InputError(f"{name} is empty: give whole numbers from {least} to --max-length {self.max_length}")
        rising = list(self.buckets) == sorted(set(self.buckets)) and self.buckets[-1] == self.max_length
        if not rising or any(length % 8 for length in self.buckets):
            raise InputError(
                f"buckets {','.join(map(str, self.buckets))} cannot be: "
                f"give rising multiples of 8 that end with --max-length {self.max_length}"
            )

    @property
    def source_length(self) -> int:
        """Tokens of a source's room in a pair; 0 for plain text."""
        return self.max_length // 2 if self.parallel else 0

    @property
    def corrects(self) -> bool:
        """Whether the model is asked for tokens where it sees others, which may be wrong."""
        return self.refinement > 0 or parse_replacement(self.replacement).random > 0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and checkpoints."""
        given = {k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(self).items()}
        left_out = (*(() if self.objective == "masked" else MASKED_ONLY), *(() if self.parallel else ("parallel", *PAIRS_ONLY)))
        return {k: v for k, v in given.items() if k not in left_out}
