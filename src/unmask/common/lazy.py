"""Modules that are imported when they are first used, so that help stays quick.

    from unmask.common.lazy import torch

A method's file says what the method is, and is read for the help of a command; torch is needed
only once the method runs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any


class LazyModule:
    """Stands for a module, and imports it when one of its names is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)

    def __repr__(self) -> str:
        return f"<{self._name}, imported when it is used>"


if TYPE_CHECKING:
    import torch as torch
else:
    torch = LazyModule("torch")
