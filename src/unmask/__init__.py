"""Turns a masked language model into an explicit probability model over the blanks of a text.

>>> import unmask
>>> unmask.fill("She drank a cup of [MASK] [MASK].").completions[0].text  # doctest: +SKIP

The public names are those of `__init__.pyi`. They are loaded when first used, so that `import
unmask` itself costs nothing.
"""

from __future__ import annotations

import os
import sys

if sys.orig_argv[1:3] == ["-m", "unmask"] or os.path.basename(sys.argv[0]) in (
    "unmask",
    "unmask.exe",
):
    # The command, which hears Ctrl-C from its first moment; `surfaces/cli/process.py` takes over.
    # The module `signal` would take longer.
    import _signal  # type: ignore[import-not-found]

    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, lambda number, frame: os._exit(130))

import re
from importlib import import_module

__version__ = "0.1.0"

with open(f"{__file__}i", encoding="utf-8") as _stub:
    _HOMES = {
        name: module
        for module, name in re.findall(r"^from (\S+) import (\w+) as", _stub.read(), re.MULTILINE)
    }
__all__ = sorted(["__version__", *_HOMES])


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(
            f"module 'unmask' has no attribute {name!r}", name=name, obj=sys.modules[__name__]
        )
    if name == "lab":  # the one public name that is a module
        value: object = import_module(f"{_HOMES[name]}.{name}")
    else:
        value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
