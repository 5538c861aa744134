"""Exact analysis of masked samplers and masked losses on spaces small enough to enumerate.

Models (`model`), masked samplers (`dynamics`, `schedules`), dependence (`correlation`), estimators (`estimation`), and the
studies built on them.

Each study is a function with the name and the options of its command (`unmask.options.lab`):

>>> from unmask import lab
>>> lab.dependence(sites=3, couplings=[0, 0.3], table_couplings=[0.3], k=1).to_frame()["coupling"].tolist()
['0.3']

`lab.all(out="lab-report")` makes them all, with figures and a report.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

from unmask import checks
from unmask.arguments import checked
from unmask.errors import InputError
from unmask.options.elsewhere import misnamed
from unmask.options.lab import STUDIES, AllOptions, with_output
from unmask.options.option import documented
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    from unmask.lab.report import Report
    from unmask.lab.studies.study import Study

__all__ = ["STUDIES", "all", "decoding", "dependence", "dictionary", "masking", "parallel", "schedule", "study", "stutter"]  # noqa: F822


@checked
def study(name: str, *, out: str | os.PathLike[str] | None = None, progress: Progress | None = None, **options: Any) -> Study:
    """Compute the study `name`, one of STUDIES, with its own `options`; with `out`, leave figure and numbers in that folder."""
    kind = STUDIES[checks.one_of("study", name, STUDIES)]
    for option in options:
        if option not in kind.signature():
            raise InputError(misnamed(f"lab {name}", with_output(kind, "None"), option, python=True))
    chosen = kind(**options)
    from unmask.lab import report

    folder = None if out is None else report.refuse_other_folders(out, options.get("table"))
    found: Study = import_module(f"unmask.lab.studies.{name}").run(chosen, progress)
    if folder is not None:
        report.save(found, folder)
    return found


@checked
def all_studies(
    *, out: str | os.PathLike[str] | None = None, fits: int = 300, seed: int = 0, progress: Progress | None = None
) -> Report:
    """Compute every study with its defaults; with `out`, leave them and a report over them in that folder.

    `fits` is the number of fits for each mask size and each loss in the Monte Carlo of `masking`.
    """
    from unmask.lab import report

    given = vars(AllOptions(fits=fits, seed=seed))
    folder = None if out is None else report.refuse_other_folders(out)
    studies = []
    for name, kind in STUDIES.items():
        taken = {name: value for name, value in given.items() if name in kind.signature()}
        studies.append(study(name, out=folder, progress=progress, **taken))
    usual = AllOptions.signature()
    command = "unmask lab all" + "".join(f" --{name} {value}" for name, value in given.items() if value != usual[name])
    made = report.Report(studies, command)
    if folder is not None:
        made.write(folder)
    return made


def _function(name: str) -> Callable[..., Study]:
    """`study(name, ...)` with the options of that study in its signature."""

    def call(**options: Any) -> Study:
        return study(name, **options)

    kind = STUDIES[name]
    given = {"out": None, **kind.signature(), "progress": None}
    hints = {"out": "str | os.PathLike[str] | None", "progress": "Progress | None"}
    by_name = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hints.get(name, Parameter.empty))
        for name, default in given.items()
    ]
    call.__name__ = call.__qualname__ = name
    call.__signature__ = Signature(by_name)  # type: ignore[attr-defined]
    call.__doc__ = f"{kind.__doc__} With `out`, leaves figure and numbers in that folder."
    return documented(kind)(call)


def __getattr__(name: str) -> object:
    if name == "all":
        return all_studies
    if name not in STUDIES:
        raise AttributeError(f"module 'unmask.lab' has no attribute {name!r}")
    globals()[name] = made = _function(name)
    return made
