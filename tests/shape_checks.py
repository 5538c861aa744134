"""Shapes and types of the modules below are checked while the tests run, wherever beartype is installed.

jaxtyping's import hook decorates every function of a module that it is given. Triton reads the source and the globals of a
decorated function's wrapper, and torch compiles the wrapper with the function, which can move the last bits of a result: modules
that hold Triton programs, or functions that torch compiles, stay as they are.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import jaxtyping

CHECKED = [
    "unmask.models",
    "unmask.tables.unary",
    "unmask.tables.candidates",
    "unmask.tables.lattice",
    "unmask.tables.conditionals",
    "unmask.answers.blanked_text",
    "unmask.answers.filling",
    "unmask.answers.comparison",
    "unmask.evaluation.table",
    *(f"unmask.lab.{name}" for name in ("dynamics", "estimation", "schedules")),
    "unmask.sampling.decoders",
    *(f"unmask.sampling.{name}" for name in ("engine.passes", "engine.randomness", "enumeration", "kernels", "target")),
    *(f"unmask.sampling.run.{name}" for name in ("advance", "chains")),
    *(f"unmask.scoring.{name}" for name in ("batch", "functions")),
    *(f"unmask.training.{name}" for name in ("encoder", "objectives", "packing", "trainer")),
]
"""Where tensors of given shapes come in; checks in the solvers' inner loops would triple their tests' time."""
CHECKS = 2000
"""Calls checked in each test: in long chains the checks would take longer than the steps."""


class FirstCalls(type(jaxtyping.config)):
    """jaxtyping's settings, by which it asks at each call whether checks are off."""

    calls = 0

    @property
    def jaxtyping_disable(self):
        self.calls += 1
        return self.calls > CHECKS

    @jaxtyping_disable.setter
    def jaxtyping_disable(self, off):
        self.calls = CHECKS if off else 0


@cache
def sources() -> dict[str, str]:
    """The source of each module of the library, by name, without those of packages."""
    (top,) = find_spec("unmask").submodule_search_locations
    files = (path for path in Path(top).rglob("*.py") if path.name != "__init__.py")
    return {".".join(("unmask", *path.relative_to(top).with_suffix("").parts)): path.read_text("utf-8") for path in files}


def triton_modules() -> list[str]:
    """The modules that hold programs for Triton, or functions of these."""
    return sorted(name for name, source in sources().items() if "@triton.jit" in source)


def checked_modules() -> list[str]:
    """The modules of CHECKED, by their own names: the hook takes every module below a package that it is given."""
    below = tuple(f"{name}." for name in CHECKED)
    compiled = {name for name, source in sources().items() if "torch.compile(" in source}
    return sorted(name for name in sources().keys() - set(triton_modules()) - compiled if f"{name}.".startswith(below))


def install() -> None:
    """Check what is imported from here on."""
    if find_spec("beartype") is not None:
        jaxtyping.config.__class__ = FirstCalls
        jaxtyping.install_import_hook(checked_modules(), "beartype.beartype")
