"""The studies by name, and all of them in one report."""

from __future__ import annotations

from collections.abc import Callable

from unmask.studies.lab.studies.decoding import decoding
from unmask.studies.lab.studies.dependence import dependence
from unmask.studies.lab.studies.dictionary import dictionary
from unmask.studies.lab.studies.masking import masking
from unmask.studies.lab.studies.parallel import parallel
from unmask.studies.lab.studies.schedule import schedule
from unmask.studies.lab.studies.stutter import stutter
from unmask.studies.lab.study import Fits, Out, Report, Study, Watch, study

STUDIES: dict[str, Callable[..., Study]] = {
    "dictionary": dictionary,
    "masking": masking,
    "dependence": dependence,
    "parallel": parallel,
    "stutter": stutter,
    "schedule": schedule,
    "decoding": decoding,
}


@study
def all_studies(*, fits: Fits = 300, out: Out = None, progress: Watch = None) -> Report:
    """Every study with its defaults."""
    studies = []
    for name, function in STUDIES.items():
        if name == "masking":  # the only study that fits
            studies.append(function(fits=fits, out=out, progress=progress))
        else:
            studies.append(function(out=out, progress=progress))
    return Report(studies)
