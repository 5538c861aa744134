"""Exact analysis of masked samplers and masked losses on spaces small enough to enumerate.

Models (`space`, `model`, `spins`), masks (`mask_law`), samplers (`dynamics`, `spectrum`, `schedules`), dependence
(`correlation`, `tensorisation`), estimators (`information`, `losses`, `fitting`), and the studies built on them.

Each study is a function with the name and the options of its command (`options`):

>>> from unmask import lab
>>> lab.dependence(sites=3, couplings=[0, 0.3], table_couplings=[0.3], k=1).to_frame()["coupling"].tolist()
['0.3']

`lab.all(out="lab-report")` makes them all, with figures and a report.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

from unmask import checks
from unmask.arguments import checked
from unmask.lab.options import STUDIES
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    from unmask.lab.report import Report
    from unmask.lab.studies.study import Study

__all__ = ["STUDIES", "all", "dependence", "dictionary", "masking", "parallel", "schedule", "study", "stutter"]  # noqa: F822


@checked
def study(name: str, *, out: str | os.PathLike[str] | None = None, progress: Progress | None = None, **options: Any) -> Study:
    """Compute the study `name`, one of STUDIES, with its own `options`; with `out`, leave figure and numbers in that folder."""
    kind = STUDIES[checks.one_of("study", name, STUDIES)]
    for option in options:
        checks.one_of(f"option of {name}", option, (field.name for field in fields(kind)))
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

    given = {"fits": checks.whole("fits", fits, 2, 100_000), "seed": checks.whole("seed", seed, 0, 2**63 - 1)}
    folder = None if out is None else report.refuse_other_folders(out)
    studies = []
    for name, kind in STUDIES.items():
        taken = {field.name for field in fields(kind)}
        studies.append(study(name, out=folder, progress=progress, **{k: v for k, v in given.items() if k in taken}))
    usual = {"fits": 300, "seed": 0}
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
    given = [Parameter("out", Parameter.KEYWORD_ONLY, default=None, annotation="str | os.PathLike[str] | None")]
    given += [Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default) for one in fields(kind)]
    given.append(Parameter("progress", Parameter.KEYWORD_ONLY, default=None, annotation="Progress | None"))
    call.__name__ = call.__qualname__ = name
    call.__signature__ = Signature(given)  # type: ignore[attr-defined]
    listed = "\n".join(f"    {field.name}: {field.metadata['help']}" for field in fields(kind))
    call.__doc__ = f"{kind.__doc__}\n\n{listed}\n    out: Folder for figure and numbers; none are written if left out."
    return call


def __getattr__(name: str) -> object:
    if name == "all":
        return all_studies
    if name not in STUDIES:
        raise AttributeError(f"module 'unmask.lab' has no attribute {name!r}")
    globals()[name] = made = _function(name)
    return made
