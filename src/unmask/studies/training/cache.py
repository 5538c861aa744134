"""Results that are computed once and kept in the user's cache, a folder for each."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from unmask.common.files import user_path, writing

DIGITS = 24  # hexadecimal digits of a folder's name: 96 bits of the hash of its inputs


def cached(kind: str, inputs: object, make: Callable[[Path], None]) -> Path:
    """The folder of the result of `kind` for `inputs` (plain values).

    If there is none, `make` fills a new folder, which moves there when it is whole. So other
    processes, also on other machines, see either no folder or a whole one.
    """
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    cache = user_path(base, "cache") / "unmask"
    digest = hashlib.sha256(json.dumps(inputs).encode()).hexdigest()
    folder = cache / f"{kind}-{digest[:DIGITS]}"
    if folder.is_dir():
        return folder
    # Not named by the process id: machines that share a cache have equal ones.
    temporary = folder.with_name(f".{folder.name}.{uuid4().hex}.tmp")
    with writing(folder, "free some space, or name another folder in XDG_CACHE_HOME"):
        try:
            temporary.mkdir(parents=True)
            make(temporary)
            temporary.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process made it meanwhile
                raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return folder
