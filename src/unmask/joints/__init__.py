"""Constructions: rules from the unary conditionals of a block to a joint distribution over it.

The names below are loaded when first used; `unmask.joints.registry` lists the constructions without loading torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from unmask.joints.registry import CONSTRUCTIONS, DEFAULT

if TYPE_CHECKING:
    from unmask.joints.deriving import derive, derive_all
    from unmask.joints.joint import Joint

_HOME = {"Joint": "unmask.joints.joint", "derive": "unmask.joints.deriving", "derive_all": "unmask.joints.deriving"}

__all__ = ["CONSTRUCTIONS", "DEFAULT", "Joint", "derive", "derive_all"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'unmask.joints' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
