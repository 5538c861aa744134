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

import lazy_loader

__version__ = "0.1.0"

__getattr__, _, _names = lazy_loader.attach_stub(__name__, __file__)
__all__ = sorted(["__version__", *_names])


def __dir__() -> list[str]:
    return __all__.copy()
