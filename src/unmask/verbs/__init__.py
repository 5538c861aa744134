"""The verbs: one file each, named like it, with the public function, its signature and docstring.

A signature is the only declaration of a verb (`unmask.signature`). The files load nothing heavy before their function runs.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

VERBS = (
    *("fill", "compare", "dependence", "mutants", "evaluate", "frontier", "score"),
    *("sample", "diagnose", "train", "translate", "check", "serve"),
)
"""In the order in which the help lists them; `lab` has commands of its own."""


def verb(name: str) -> Callable[..., Any]:
    """The function of this name."""
    function: Callable[..., Any] = getattr(import_module(f"{__name__}.{name}"), name)
    return function
