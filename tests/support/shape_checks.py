"""Shapes and types of the modules below are checked while the tests run, wherever beartype is
installed.

jaxtyping's import hook decorates every function of a module that it is given. Triton reads the
source and the globals of a decorated function's wrapper, and torch compiles the wrapper with
the function, which can move the last bits of a result: modules that hold Triton programs, or
functions that torch compiles, stay as they are.
"""

import ast
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import cache, partial, wraps
from importlib.util import find_spec
from pathlib import Path
from threading import RLock
from typing import Any, get_type_hints

import jaxtyping

JAXTYPED = jaxtyping.jaxtyped
"""The decorator itself, which `install` replaces."""

CHECKED = [
    "unmask.common.intervals",
    "unmask.models",
    "unmask.tables.unary",
    "unmask.tables.conditional_table",
    "unmask.tables.candidates",
    "unmask.tables.candidate_scores",
    "unmask.tables.named_tokens",
    "unmask.tables.exploration",
    "unmask.tables.lattice",
    "unmask.tables.profile_measurement",
    "unmask.tables.conditionals",
    "unmask.joints.kept_fillings",
    "unmask.joints.filling_search.text_search",
    "unmask.verbs.blanked_texts",
    "unmask.studies.evaluation.summary",
    *(
        f"unmask.studies.lab.{name}"
        for name in ("confidence", "dynamics", "entropies", "estimation", "fitting")
    ),
    *(
        f"unmask.studies.lab.{name}"
        for name in ("hidden_sites", "panels", "rules", "groupings", "studies", "toys")
    ),
    "unmask.sampling.decoders",
    *(f"unmask.sampling.{name}" for name in ("chains", "energies", "engine", "kernels", "target")),
    "unmask.scoring.scored_batch",
    "unmask.scoring.scores",
    "unmask.scoring.text_batch",
    "unmask.scoring.text_scores",
    "unmask.studies.training.batches",
    "unmask.studies.training.masking",
    "unmask.studies.training.objectives",
    "unmask.studies.training.optimisers",
    "unmask.studies.training.packed_text",
    "unmask.studies.training.packing",
    "unmask.studies.training.trainer",
    "unmask.studies.training.validation",
    "unmask.surfaces.serving.watch",
]
"""Where tensors of given shapes come in; checks in the solvers' inner loops would triple their
tests' time.
"""
PRIVATE_ONLY = ("unmask.studies.lab.studies.",)
"""Public functions and classes below these refuse wrong arguments in words of their own, so only
private ones are checked.
"""
EVALUATING = RLock()
"""CPython 3.11 cannot parse in two threads at once (SystemError: AST constructor recursion)."""
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
    return {
        ".".join(("unmask", *path.relative_to(top).with_suffix("").parts)): path.read_text("utf-8")
        for path in files
    }


def triton_modules() -> list[str]:
    """The modules that hold programs for Triton, or functions of these."""
    return sorted(name for name, source in sources().items() if "@triton.jit" in source)


def checked_modules() -> list[str]:
    """The modules of CHECKED, by their own names: the hook takes every module below a package
    that it is given.
    """
    below = tuple(f"{name}." for name in CHECKED)
    compiled = {name for name, source in sources().items() if "torch.compile(" in source}
    return sorted(
        name
        for name in sources().keys() - set(triton_modules()) - compiled
        if f"{name}.".startswith(below)
    )


def known_to_type_checkers(module: str) -> dict[str, Any]:
    """The names of a module, with those that stand under TYPE_CHECKING and do not exist where
    it runs.
    """
    names = dict(vars(sys.modules[module]))
    for node in ast.parse(sources()[module]).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), module, "exec"), names)
    return names


def evaluated(function: Callable[..., Any], owner: type | None) -> dict[str, Any]:
    """The types of a function's parameters and of what it returns; raises NameError where one
    cannot be evaluated.

    owner   the dataclass whose `__init__` it is: each field has the names of the module that
            declares it
    """
    modules = {function.__module__}
    if owner is not None:
        modules |= {base.__module__ for base in owner.__mro__} & sources().keys()
    names = {}
    for module in sorted(modules):
        names |= known_to_type_checkers(module)
    return get_type_hints(function, names, include_extras=True)


def check_later(given: Any, typechecker: Callable[[Any], Any], owner: type | None = None) -> Any:
    """A function, or a dataclass's `__init__`, whose types are checked; they are evaluated at
    its first call.

    jaxtyping evaluates them where the function is defined, and drops the check of one that it
    cannot evaluate, without a word: names under TYPE_CHECKING, and classes that the module
    defines further down.
    """
    if isinstance(given, type):
        if is_dataclass(given) and not hasattr(given.__init__, "checks_types"):
            given.__init__ = check_later(given.__init__, typechecker, owner=given)
        return given
    if given.__module__.startswith(PRIVATE_ONLY) and not given.__qualname__.startswith("_"):
        return given
    checking: list[Any] = []  # empty until the first call

    @wraps(given)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if not checking:
            with EVALUATING:
                written = given.__annotations__
                given.__annotations__ = evaluated(given, owner)
                checking.append(JAXTYPED(given, typechecker=typechecker))
                given.__annotations__ = written
        return checking[0](*args, **kwargs)

    checked.checks_types = True
    return checked


def in_place_of_jaxtyped(*given: Any, **settings: Any) -> Any:
    """jaxtyping's decorator. The import hook gives no function to it; `jaxtyped("context")` is
    something else.
    """
    if given:
        return JAXTYPED(*given, **settings)
    return partial(check_later, **settings)


def typechecker(given: Any) -> Any:
    """beartype, for which a whole number is a number, as it is for other type checkers."""
    from beartype import BeartypeConf, beartype

    return beartype(conf=BeartypeConf(is_pep484_tower=True))(given)


def install() -> None:
    """Check what is imported from here on."""
    if find_spec("beartype") is not None:
        jaxtyping.config.__class__ = FirstCalls
        jaxtyping.jaxtyped = in_place_of_jaxtyped
        jaxtyping.install_import_hook(checked_modules(), "support.shape_checks.typechecker")
