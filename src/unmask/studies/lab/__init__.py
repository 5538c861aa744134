"""Exact analysis of masked samplers and masked losses on spaces small enough to enumerate.

Models (`model`, `toys`), masked samplers (`dynamics`), dependence (`entropies`), unmasking in
fixed groups (`schedules`), by confidence (`confidence`) and by rules (`rules`), estimators
(`estimation`, `fitting`), and the `studies` built on them. Each study is a function with the
name and the options of its command:

>>> from unmask import lab
>>> lab.parallel(lab.SpinModel(sites=3, coupling=0.3)).to_frame()["k"].tolist()
[1, 2, 3]

`lab.all(out="lab-report")` computes them all, with figures.
"""

from unmask.studies.lab.all_studies import STUDIES
from unmask.studies.lab.all_studies import all_studies as all
from unmask.studies.lab.spin_model import SpinModel
from unmask.studies.lab.studies.decoding import decoding
from unmask.studies.lab.studies.dependence import dependence
from unmask.studies.lab.studies.dictionary import dictionary
from unmask.studies.lab.studies.masking import masking
from unmask.studies.lab.studies.parallel import parallel
from unmask.studies.lab.studies.schedule import schedule
from unmask.studies.lab.studies.stutter import stutter

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
