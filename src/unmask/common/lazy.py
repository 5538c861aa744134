"""Modules that are imported when they are first used, so that help stays quick.

    from unmask.common.lazy import torch

A method's file says what the method is, and is read for the help of a command; torch is needed
only once the method runs. Libraries of studies are needed only for frames, files, figures and
diagnoses; where one of them is missing, the error says which extra has it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unmask.common.errors import MissingLibrary

STUDIES = "studies"  # the extra that has the libraries of frames, files, figures and diagnoses


class LazyModule:
    """Stands for a module, and imports it when one of its names is asked for.

    extra   of unmask, which has the module; "" if unmask does not run without it
    """

    def __init__(self, name: str, extra: str = "") -> None:
        self._name = name
        self._extra = extra

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._module(), attribute)

    def _module(self) -> Any:
        try:
            return import_module(self._name)
        except ModuleNotFoundError as error:
            library = self._name.partition(".")[0]
            is_itself_missing = error.name is not None and error.name.partition(".")[0] == library
            if self._extra and is_itself_missing:
                raise MissingLibrary(library, self._extra) from None
            raise

    def __repr__(self) -> str:
        return f"<{self._name}, imported when it is used>"


if TYPE_CHECKING:
    import pandas as pandas
    import pyarrow as pyarrow
    import torch as torch
    from pyarrow import parquet as parquet
else:
    torch = LazyModule("torch")
    pandas = LazyModule("pandas", extra=STUDIES)
    pyarrow = LazyModule("pyarrow", extra=STUDIES)
    parquet = LazyModule("pyarrow.parquet", extra=STUDIES)

arviz_base: Any = LazyModule("arviz_stats.base", extra=STUDIES)
