"""Files that survive a kill: written whole or not at all, and a disk that refuses told in one line."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unmask import __version__
from unmask.errors import InputError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns a disk that refuses into a one-line error."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise InputError(f"no space left on the disk of {str(path)!r}: free some and give the same command again") from None
        raise InputError(f"{str(path)!r} cannot be written ({error.strerror or error}): choose another --out folder") from None


def write_atomically(path: Path, content: bytes) -> None:
    """The file appears whole or not at all, also after a crash of the machine."""
    temporary = path.with_name(f".{path.name}.tmp")
    with writing(path):
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def begun() -> dict[str, Any]:
    """Date, versions and hardware of what computes the numbers."""
    import platform
    from datetime import UTC, datetime

    import torch
    import transformers

    versions = {
        "unmask": __version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
    }
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {"date": datetime.now(UTC).isoformat(timespec="seconds"), "gpu": gpu, "versions": versions}
