"""Exact analysis of masked samplers and masked losses on spaces small enough to enumerate.

Models (`model`), masked samplers (`dynamics`), dependence and unmasking (`schedules`), estimators (`estimation`), and the
studies built on them. Each study is a function with the name and the options of its command:

>>> from unmask import lab
>>> lab.dependence(lab.SpinModel(sites=3, coupling=0.3), couplings=[0.3], k=1).to_frame()["coupling"].tolist()
['0.3']

`lab.all(out="lab-report")` computes them all, with figures and a report.
"""

from __future__ import annotations

from typing import Annotated

from annotated_types import Interval

from unmask.lab.spins import Folder as _Folder
from unmask.lab.spins import Seed as _Seed
from unmask.lab.spins import SpinModel
from unmask.lab.studies.decoding import decoding
from unmask.lab.studies.dependence import dependence
from unmask.lab.studies.dictionary import dictionary
from unmask.lab.studies.masking import masking
from unmask.lab.studies.parallel import parallel
from unmask.lab.studies.schedule import schedule
from unmask.lab.studies.stutter import stutter
from unmask.lab.study import Report, lab_folder
from unmask.runs.progress import Progress as _Progress

STUDIES = {f.__name__: f for f in (dictionary, masking, dependence, parallel, stutter, schedule, decoding)}
__all__ = [*STUDIES, "STUDIES", "SpinModel", "all"]


def all(
    *,
    fits: Annotated[int, Interval(ge=2, le=100_000)] = 300,
    seed: _Seed = 0,
    out: _Folder | None = None,
    progress: _Progress | None = None,
) -> Report:
    """Compute every study with its defaults, and a report over them.

    Parameters
    ----------
    fits
        Fits to samples in `masking`, for each k and each loss.
    seed
        Seed of everything random.
    out
        Folder for the report, figures and numbers: new, empty, or an earlier lab's.
    progress
        Called with the parts done, their number, and what they are.
    """
    folder, own = lab_folder(out), {"fits": fits, "seed": seed}
    studies = []
    for name, study in STUDIES.items():
        taken = {option: value for option, value in own.items() if option in study.__annotations__}
        studies.append(study(out=folder, progress=progress, **taken))
    changed = {"fits": fits != 300, "seed": seed != 0}
    return Report(studies, "unmask lab all" + "".join(f" --{o} {own[o]}" for o in own if changed[o])).save(folder)


def __dir__() -> list[str]:
    return sorted(__all__)
