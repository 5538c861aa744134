"""Exact analysis of masked samplers and masked losses on spaces small enough to enumerate.

Models (`model`), masked samplers (`dynamics`), dependence and unmasking (`schedules`),
estimators (`estimation`), and the `studies` built on them. Each study is a function with the
name and the options of its command:

>>> from unmask import lab
>>> lab.parallel(lab.SpinModel(sites=3, coupling=0.3)).to_frame()["k"].tolist()
[1, 2, 3]

`lab.all(out="lab-report")` computes them all, with figures.
"""

from unmask.studies.lab.studies import (
    STUDIES,
    SpinModel,
    decoding,
    dependence,
    dictionary,
    masking,
    parallel,
    schedule,
    stutter,
)
from unmask.studies.lab.studies import all_studies as all

__all__ = [
    "STUDIES",
    "SpinModel",
    "all",
    "decoding",
    "dependence",
    "dictionary",
    "masking",
    "parallel",
    "schedule",
    "stutter",
]


def __dir__() -> list[str]:
    return __all__
