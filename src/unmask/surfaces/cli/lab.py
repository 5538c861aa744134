"""`unmask lab STUDY`: a command for each study; without a study, what each computes and writes
where.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from cyclopts import App

from unmask.studies.lab import STUDIES
from unmask.studies.lab import all as all_studies
from unmask.surfaces.cli.command import APP, JSON, command

COMMANDS: dict[str, Callable[..., Any]] = {**STUDIES, "all": all_studies}
EXTRA = (JSON,)
"""Options that only the command line has."""
HELP = """The theory of generative masked language models, computed exactly on small models.

A study prints its findings. With --out FOLDER it also writes NAME.png and NAME.json there."""


def app() -> App:
    """`unmask lab`, with its commands."""
    group = App(name="lab", help=HELP, **APP)
    for name, function in COMMANDS.items():
        one = command(name, function, partial(_run, name), EXTRA, group="unmask lab")
        group.command(one)
    return group


def _run(name: str, options: dict[str, Any]) -> int:
    """Compute a study, or all of them, and print the findings; the exit code.

    options   the arguments of the study, and the values of EXTRA
    """
    from unmask.surfaces.cli.printing import one_result  # help prints no result

    return one_result(f"lab.{name}", options)
