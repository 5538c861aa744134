"""Turns a masked language model into an explicit probability model over the blanks of a text.

>>> import unmask
>>> unmask.fill("She drank a cup of [MASK] [MASK].").completions[0].text  # doctest: +SKIP

The public names are those of `__init__.pyi`. They are loaded when first used, so that `import unmask` itself costs nothing.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module

__version__ = "0.1.0"

with open(f"{__file__}i", encoding="utf-8") as _stub:
    _HOMES = {name: module for module, name in re.findall(r"^from (\S+) import (\w+) as", _stub.read(), re.MULTILINE)}
__all__ = sorted(["__version__", *_HOMES])


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'unmask' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    value = import_module(f"unmask.{name}") if _HOMES[name] == "unmask" else getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
