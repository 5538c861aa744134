"""What was computed once, kept in a folder named by a fingerprint of all that went in; made again if it is damaged.

A folder is whole if every file listed in its contents.json has the size and the checksum noted there.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

from unmask.errors import InputError
from unmask.runs.files import read_object, reading, user_path, write_json, writing
from unmask.runs.outputs import run_in

CONTENTS = "contents.json"
_BLOCK = 1 << 24


def cached(cache: Path, kind: str, inputs: object, make: Callable[[Path], None]) -> Path:
    """The folder of what follows from `inputs` (plain values); `make` fills a new one where there is no whole one yet."""
    folder = cache / f"{kind}-{hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:24]}"
    if _is_whole(folder):
        return folder
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    with writing(folder, "free some space, or name another folder with --cache"):
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            temporary.mkdir(parents=True)
            make(temporary)
            write_json(temporary / CONTENTS, {file.name: _summary(file) for file in sorted(temporary.iterdir())})
            if not _is_whole(folder):
                _put(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _put(temporary: Path, folder: Path) -> None:
    """Move a new folder to its place, over a damaged one; one that another process made meanwhile stays."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.is_file():
        folder.unlink()
    try:
        temporary.rename(folder)
    except OSError:
        if not _is_whole(folder):
            raise


def default_cache() -> Path:
    """Where caches lie unless the user says otherwise."""
    return user_path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "cache") / "unmask"


def cache_folder(path: Path) -> Path:
    """`path`, if it is new, or holds folders alone, as caches do; a model, a run or a project is left alone."""
    with reading(path):
        if path.exists() and not path.is_dir():
            raise InputError(f"cache {str(path)!r} is a file: name a folder")
        files = sorted(entry.name for entry in path.iterdir() if entry.is_file()) if path.is_dir() else []
    if files or run_in(path):
        what = repr(files[0]) if files else "a run"
        raise InputError(f"cache {str(path)!r} holds {what}, which is no part of a cache: name a new or empty folder")
    return path


def _is_whole(folder: Path) -> bool:
    try:
        contents = read_object(folder / CONTENTS)
        return bool(contents) and all(_summary(folder / name) == summary for name, summary in contents.items())
    except (InputError, OSError):
        return False


def _summary(file: Path) -> list[int]:
    """Size and CRC-32."""
    checksum = 0
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            checksum = zlib.crc32(block, checksum)
    return [file.stat().st_size, checksum]
