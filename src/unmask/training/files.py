"""Writing files that are either whole or absent, and saying so when the disk is full."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from unmask.errors import UnmaskError


class DiskFullError(UnmaskError):
    """No space left on the device; what was there before is untouched."""


@contextlib.contextmanager
def disk_space_errors(target: Path, remedy: str) -> Iterator[None]:
    """Turn "no space left" (or a quota) while writing `target` into one line for the user."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFullError(f"no space left while writing {target}: {remedy}") from None
        raise


@contextlib.contextmanager
def atomic_path(target: Path, remedy: str = "free some space and run the command again") -> Iterator[Path]:
    """A temporary path to write; it takes `target`'s place, synced to disk, when the block ends without an error."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with disk_space_errors(target, remedy):
            target.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            with temporary.open("rb+") as stream:
                os.fsync(stream.fileno())
            os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomic(
    target: Path, content: bytes | memoryview | str, remedy: str = "free some space and run the command again"
) -> None:
    """Write a whole file, or nothing."""
    with atomic_path(target, remedy) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
