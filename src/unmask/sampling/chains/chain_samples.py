"""What a run of chains has drawn. Imports no NumPy: the help of commands reads this file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.sampling.settings import SampleSettings

if TYPE_CHECKING:
    from unmask.sampling.chains.samples import Samples

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class ChainSamples:
    """What a run of chains has drawn.

    settings   what decided the samples: kernel, energy, temperature, seed, ...
    samples    the kept texts
    starts     a dict for each chain: its number (`chain`), the token ids that it started from
               (`ids`), and their `text` where it is known
    rates      a dict for each length and position: steps, accepted, proposed, changed, and
               scoring_passes
    folder     where the run is kept, if it is
    """

    settings: SampleSettings
    samples: Samples
    starts: list[Row]
    rates: list[Row]
    folder: Path | None = None

    def rates_of(self, name: str) -> int:
        """The sum of one of the rates over all lengths and positions."""
        return sum(row[name] for row in self.rates)
