"""A model given as an object, a folder, a name, or not at all: the one place where each becomes a `MaskedLM`.

A model that is given by name is loaded once per process and shared, also between threads: the two that were used last are kept.
A folder whose files have changed is read again.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

from unmask.models.bundled import english_model_path
from unmask.models.loading import resolve_device, resolve_dtype
from unmask.models.masked_lm import MaskedLM
from unmask.models.processes import LOADING

KEPT = 2
_loaded: OrderedDict[object, MaskedLM] = OrderedDict()


def as_model(
    model: MaskedLM | str | Path | None = None,
    device: str = "auto",
    dtype: str = "auto",
    rename: Mapping[str, str] | None = None,
) -> MaskedLM:
    """The model itself, or the one that its name or folder leads to; None is the bundled English model.

    `device`, `dtype` and `rename` are those of `MaskedLM.load`, and do not touch a model that is given as an object.
    """
    if isinstance(model, MaskedLM):
        return model
    where = str(english_model_path() if model is None else model)
    with LOADING:
        key = (_state(where), resolve_device(device), resolve_dtype(dtype), tuple((rename or {}).items()))
        if key not in _loaded:
            _loaded[key] = MaskedLM.load(where, device=device, dtype=dtype, rename=rename)
            while len(_loaded) > KEPT:
                _loaded.popitem(last=False)
        _loaded.move_to_end(key)
        return _loaded[key]


def _state(where: str) -> tuple[object, ...]:
    """A hub name; or a folder, with the size and date of each of its files."""
    folder = os.path.expanduser(where)
    if not os.path.isdir(folder):
        return (where,)
    folder = os.path.realpath(folder)
    files = [entry for entry in os.scandir(folder) if entry.is_file()]
    above = Path(folder).parent / "vocab.txt"
    dates = sorted((entry.name, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in files)
    return (folder, *dates, above.stat().st_mtime_ns if above.is_file() else None)
