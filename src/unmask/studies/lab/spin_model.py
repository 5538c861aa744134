"""The model of the studies, as users give it: Ising spins on a graph.

    p(x) proportional to exp( coupling sum_{i~j} x_i x_j + sum_i h_i x_i ),     x_i in {-1, +1}

`coupling` is that of each pair of joined sites, and `fields` gives h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Interval

from unmask.common.border.calls import settings, trusted
from unmask.common.border.marks import Written
from unmask.common.errors import InputError

# The signatures of the studies are read when the command line starts, and these modules need
# numpy and scipy: functions import them.
if TYPE_CHECKING:
    import numpy as np

    from unmask.studies.lab.model import LabModel

Numbers = Annotated[str | float | Sequence[float], Written(metavar="NUMBERS")]
Strength = Annotated[float, Interval(ge=-10_000, le=10_000)]
"""Some models need a smaller limit; they raise when they are built."""


@settings
class SpinModel:
    """The model: Ising spins on a graph.

    A study takes what is left out from its own default model, which its signature shows, in
    Python and on the command line alike. A model that is built by itself takes it from
    `CURIE_WEISS`.

    Parameters:
        sites: Sites N of the model.
        coupling: Coupling of each pair of joined sites.
        fields: Fields: one number, one per site with commas, FIRST:LAST evenly, or normal:SD:SEED.
        graph: Which sites are joined.

    >>> unmask.SpinModel(sites=3, coupling=0.3).build().p.shape
    (8,)
    """

    sites: Annotated[int, Interval(ge=2, le=10)] | None = None
    coupling: Strength | None = None
    fields: Numbers | None = None
    graph: Literal["complete", "cycle", "path"] | None = None

    def filled(self, default: SpinModel) -> SpinModel:
        """This model, with the values of `default` where it has none."""
        own_values = {name: value for name, value in asdict(self).items() if value is not None}
        return replace(default, **own_values)

    def build(self) -> LabModel:
        """Enumerate the model."""
        from unmask.studies.lab.model import ising

        whole = self.filled(CURIE_WEISS)
        assert whole.sites is not None  # CURIE_WEISS has all four values
        assert whole.coupling is not None
        assert whole.fields is not None
        assert whole.graph is not None
        return ising(whole.coupling, read_fields(whole.fields, whole.sites), whole.graph)

    def at(self, coupling: float) -> LabModel:
        """Enumerate the same model with another coupling."""
        return replace(self, coupling=coupling).build()

    def describe(self) -> str:
        """One line for tables and captions, without the coupling of a model that has none."""
        coupling = ""
        if self.coupling is not None:
            coupling = f", coupling {self.coupling:g}"
        return f"Ising, {self.graph} graph, N={self.sites}{coupling}, fields {self.fields}"

    def options(self, **others: Any) -> dict[str, Any]:
        """The origin of a study's numbers, for JSON: these fields, `others`, which are the
        study's own options, and the line of `describe`.
        """
        return {**asdict(self), **others, "model": self.describe()}


# Models of our own are not checked: the check would load pydantic for the help of the studies.
CURIE_WEISS = trusted(SpinModel, sites=6, coupling=0.25, fields="0", graph="complete")


def read_fields(value: Numbers, sites: int) -> np.ndarray:
    """The fields h, (N,), from one number for all sites, N numbers in a sequence or with commas,
    `FIRST:LAST`, or `normal:SD:SEED`.
    """
    import numpy as np

    usage = f"use one number, {sites} numbers with commas, FIRST:LAST, or normal:SD:SEED"
    try:
        if not isinstance(value, str):
            numbers = np.atleast_1d(np.asarray(value, dtype=np.float64))
        elif value.startswith("normal:"):
            _, sd, seed = value.split(":")
            standard_normal = np.random.default_rng(int(seed)).normal(size=sites)
            numbers = float(sd) * standard_normal
        elif ":" in value:
            first, last = value.split(":")
            numbers = np.linspace(float(first), float(last), sites)
        else:
            numbers = np.array([float(part) for part in value.split(",")])
    except (TypeError, ValueError):
        raise InputError(f"{value!r} is not understood", argument="fields", use=usage) from None
    if numbers.shape not in ((1,), (sites,)) or not np.isfinite(numbers).all():
        raise InputError(
            f"{value!r} are {numbers.size} numbers for {sites} sites, or not all finite",
            argument="fields",
            use=usage,
        )
    return np.broadcast_to(numbers, (sites,)).copy()
