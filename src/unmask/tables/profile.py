"""The dependence profile of a model: how much two blanks depend on each other, by their distance.

    f(d) = (mean of I_ij at |i - j| = d) / (mean of min(H_i, H_j) at d)
            over texts and random revealed sets
    estimate: I_ij = f(|i - j|) min(H_i, H_j)

I_ij is the mutual information of two blanks, H_i the entropy of one, in nats. One pass gives
all entropies, so that the estimate makes no passes of its own. A model's own profile is the
file `FILE` in its folder. Nothing here imports torch before an estimate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from unmask.common import checks
from unmask.common.border.calls import checked
from unmask.common.errors import InputError
from unmask.common.files import read_object, user_path, write_json

if TYPE_CHECKING:
    from torch import Tensor

    from unmask.models.conditional_model import ConditionalModel

FILE = "dependence_profile.json"  # in the model's folder
KEYS = ("by_distance", "fingerprint", "n_texts")  # that a profile's file must have
LISTS = ("information", "smaller_entropy", "pairs")  # of a measurement: a number per distance
MEASURE = "measure one (unmask profile)"
USUAL_CANDIDATES = 16  # tokens that are put at a site when a profile is measured
LARGEST = 1e3  # value of f that a file may hold
MOST_TEXTS = 10**12


@dataclass(frozen=True)
class DependenceProfile:
    """How strongly blanks depend on each other, by their distance; see the module's text.

    by_distance   f at distance 1, 2, 3, ...
    fingerprint   of the model that it was measured on
    n_texts       how many it was measured on
    measurement   how and when it was measured
    """

    by_distance: tuple[float, ...]
    fingerprint: str
    n_texts: int
    measurement: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    @checked
    def load(cls, path: str | Path) -> Self:
        """Read a file."""
        stored = read_object(user_path(path), KEYS, MEASURE)
        return cls._of_values(stored, f"profile {str(path)!r}")

    @classmethod
    def _of_values(cls, stored: Mapping[str, Any], name: str) -> Self:
        """From what a file holds; `name` is what messages call it."""
        for key in KEYS:
            if key not in stored:
                raise InputError(f"{name} lacks {key!r}: {MEASURE}")
        by_distance = stored["by_distance"]
        is_list = isinstance(by_distance, Iterable) and not isinstance(by_distance, str)
        values = list(by_distance) if is_list else []
        if not values:
            raise InputError(f"{name} has no values by distance: {MEASURE}")
        return cls(
            by_distance=tuple(
                checks.real(f"a value of {name}", value, 0, LARGEST) for value in values
            ),
            fingerprint=str(stored["fingerprint"]),
            n_texts=checks.whole(
                f"the number of texts of {name}", stored["n_texts"], 1, MOST_TEXTS
            ),
            measurement=cls._measurement(stored, name, len(values)),
        )

    @staticmethod
    def _measurement(stored: Mapping[str, Any], name: str, distances: int) -> dict[str, Any]:
        """How a profile was measured; empty if its file does not say.

        name        what messages call the profile
        distances   how many it has
        """
        measurement = stored.get("measurement")
        if measurement is None:
            return {}
        if not isinstance(measurement, Mapping):
            raise InputError(
                f"the measurement of {name} is {checks.shown(measurement)}, not an object",
                use=MEASURE,
            )
        for key in LISTS:
            numbers = measurement.get(key)
            if numbers is None:
                continue
            is_list = isinstance(numbers, list | tuple)
            if not is_list or len(numbers) != distances:
                raise InputError(
                    f"{name} does not have one number for each distance in {key!r}", use=MEASURE
                )
        return dict(measurement)

    @classmethod
    def of(cls, model: ConditionalModel) -> Self | None:
        """The model's own, from its folder; None if it has none. One that was measured on other
        weights is refused.
        """
        from unmask.models.conditional_model import ConditionalModel

        if not isinstance(model, ConditionalModel):
            raise InputError(
                f"model {checks.shown(model)} is not a model: load one with unmask.MaskedLM.load"
            )
        if model.folder is None:
            return None
        path = model.folder / FILE
        if not path.is_file():
            return None
        profile = cls.load(path)
        profile.check(model)
        return profile

    @checked
    def save(self, path: str | Path) -> None:
        """Write a file."""
        write_json(user_path(path), self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """The JSON of its file."""
        return asdict(self)

    def check(self, model: ConditionalModel) -> None:
        """Refuse another model than the one it was measured on.

        The same weights in another number format have another fingerprint, so only those of one
        format are compared.
        """
        measured_in = self.measurement.get("dtype", "float32")
        if measured_in != str(model.dtype).removeprefix("torch."):
            return
        if model.fingerprint and model.fingerprint != self.fingerprint:
            raise InputError(
                f"the profile was measured on model {self.fingerprint}, and this is"
                f" {model.fingerprint}: {MEASURE} on this model"
            )

    def estimate(self, entropy: Tensor, positions: Tensor) -> Tensor:
        """I_ij (n, F, F) of sites at `positions` (F) with these entropies (n, F); 0 on the
        diagonal.
        """
        import torch

        distance = (positions.unsqueeze(0) - positions.unsqueeze(1)).abs()
        longest = int(distance.max())
        if longest > len(self.by_distance):
            raise InputError(
                f"the profile has {len(self.by_distance)} distances, and the text has blanks"
                f" {longest} tokens apart: {MEASURE} on longer texts, or give a shorter text"
            )
        of_distances = (0.0, *self.by_distance)  # 0 for a site and itself
        f = torch.tensor(of_distances, dtype=entropy.dtype, device=entropy.device)
        smaller_entropy = torch.minimum(entropy.unsqueeze(1), entropy.unsqueeze(2))
        return f[distance] * smaller_entropy


def as_profile(name: str, profile: object) -> DependenceProfile:
    """A profile, its file, or what its file holds."""
    if isinstance(profile, DependenceProfile):
        return profile
    if isinstance(profile, Mapping):
        return DependenceProfile._of_values(profile, name)
    if isinstance(profile, str | Path):
        return DependenceProfile.load(profile)
    raise InputError(f"{name} {checks.shown(profile)} is not a profile: give its file")
