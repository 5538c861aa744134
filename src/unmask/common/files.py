"""Files that survive a kill: written whole or not at all, read whole or refused in one line.

When a file is written, its parents are made, a link keeps pointing where it did, and a folder
or a device is never replaced. A damaged file is an `InputError` that ends with `remedy`: what
the user can do about it. A path that a user gave comes in through `user_path`; a file that a
command writes through `output_file`.
"""

from __future__ import annotations

import errno
import io
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_native_id
from typing import TYPE_CHECKING, Any

from unmask.common.checks import shown
from unmask.common.errors import InputError, argument_name
from unmask.common.plain import in_json

if TYPE_CHECKING:
    import pandas
    import pyarrow

ELSEWHERE = "choose another folder"
AGAIN = "make the file again"
FREE = "free some and give the same command again"
OPEN_ELSEWHERE, LONGEST_WAIT = (5, 32), 2.0
"""Errors of Windows for a file that another program has open (access denied, sharing
violation); seconds to wait for it.
"""
ABOUT = b"unmask"
"""The key in the metadata of a Parquet file under which it says what it holds."""
TEMPORARY = ".*.[0-9]*.tmp"
"""Names of files that a kill left half written; a run may delete them in its own folder."""


class DiskFull(InputError):
    """There is no space left, or the user's quota is used up: the same command goes on once
    there is.
    """


def first_line(error: BaseException) -> str:
    """The first line of an error of another library, cut to fit inside a message of one line."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:160]


def user_path(value: str | os.PathLike[str], name: str = "path") -> Path:
    """The path that a user gave under the argument `name`, with `~` replaced by the home folder."""
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"{shown(value)} is not a path", argument=name, use="give one as text")
    text = os.fsdecode(value)
    if not text.strip() or "\0" in text:
        raise InputError(f"{text!r} names no file", argument=name, use="give a path")
    try:
        path = Path(text).expanduser()
    except RuntimeError:
        raise InputError(
            f"{text!r} starts with ~, and there is no such home folder",
            argument=name,
            use="write the path out",
        ) from None
    try:
        path.lstat()
    except UnicodeEncodeError as error:
        wrong = text[error.start : error.start + 1]
        raise InputError(
            f"{shown(text)} has {wrong!r}, which no path can hold here",
            argument=name,
            use="name another",
        ) from None
    except OSError as error:  # a path that does not exist may be one to write
        if error.errno == errno.ENAMETOOLONG:
            raise InputError(
                f"{shown(text)} is longer than a path can be",
                argument=name,
                use="give a shorter one",
            ) from None
    return path


@contextmanager
def writing(path: Path, remedy: str = ELSEWHERE) -> Iterator[None]:
    """Turns an error of writing into one line."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"no space left on the disk of {str(path)!r}: {FREE}") from None
        raise InputError(
            f"{str(path)!r} cannot be written ({error.strerror or error}): {remedy}"
        ) from None


@contextmanager
def reading(path: Path, remedy: str = AGAIN) -> Iterator[None]:
    """Turns an error of reading, and any error of a format's reader, into one line."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        is_folder = isinstance(error, IsADirectoryError)
        if isinstance(error, PermissionError):  # Windows has no error of its own for a folder
            with suppress(OSError):
                is_folder = path.is_dir() and os.access(path, os.R_OK)
        if is_folder:
            raise InputError(f"{str(path)!r} is a folder: give a file") from None
        if isinstance(error, OSError) and error.strerror:
            why = (
                "does not exist"
                if isinstance(error, FileNotFoundError)
                else f"cannot be read ({error.strerror})"
            )
            raise InputError(
                f"file {str(path)!r} {why}: check the path and its permissions"
            ) from None
        raise InputError(f"{str(path)!r} is damaged ({first_line(error)}): {remedy}") from None


def refuse_unmakeable(path: Path) -> None:
    """Raises if no folder can be at `path`: the nearest of its parents that exists is not a
    folder, or may not be written.
    """
    with writing(path):
        with suppress(FileNotFoundError, NotADirectoryError):
            path.lstat()  # a name that is too long, for example
        there = (folder for folder in (path, *path.absolute().parents) if os.path.lexists(folder))
        nearest = next(there, None)
        if nearest is None:  # a drive of Windows
            raise FileNotFoundError(f"there is no {path.absolute().anchor!r}")
        if not nearest.is_dir():
            raise NotADirectoryError(f"{str(nearest)!r} is a file")
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise PermissionError("Permission denied")


def writable_file(path: Path) -> Path:
    """The path that a file will have, links followed; raises if it cannot be written. Makes
    nothing.
    """
    with writing(path):
        target = Path(os.path.realpath(path))
        if target.exists() and not target.is_file():
            raise InputError(
                f"{str(path)!r} is {'a folder' if target.is_dir() else 'not a regular file'}: name"
                " a file"
            )
    refuse_unmakeable(target.parent)
    return target


def output_file(
    name: str,
    value: str | os.PathLike[str],
    reads: Iterable[object] = (),
    formats: Mapping[str, tuple[bytes, ...]] | None = None,
    texts: int = 1,
) -> Path:
    """The path of the option `name`, if a file may be written there, before any work is done.

    reads     arguments that name what the command reads: files, lists of them, texts, None
    formats   endings of the files that the command writes ("": any), and how these begin; other
              files are not replaced
    texts     how many texts there are: each would need its own file
    """
    path = user_path(value, name)
    target, known = writable_file(path), formats or {"": ()}
    beginnings = known.get(path.suffix.lower(), known.get(""))
    if beginnings is None:
        raise InputError(
            f"{str(path)!r} has no known ending",
            argument=name,
            use=f"name a file that ends in {', '.join(known)}",
        )
    if not target.parent.is_dir():
        raise InputError(
            f"folder {str(target.parent)!r} of {argument_name(name)} does not exist: make it"
            " first, or name another"
        )
    if texts > 1:
        raise InputError(
            f"{texts} texts and one {argument_name(name)} {str(path)!r} were given: give one text,"
            f" or leave {argument_name(name)} out"
        )
    for read in (
        file for one in reads for file in (one if isinstance(one, list | tuple) else [one])
    ):
        with suppress(OSError, ValueError):
            if isinstance(read, str | os.PathLike) and target.samefile(os.path.expanduser(read)):
                raise InputError(
                    f"{str(path)!r} is read by this very command",
                    argument=name,
                    use="name another file",
                )
    if beginnings and target.is_file() and target.stat().st_size:
        with target.open("rb") as stream:
            if not stream.read(max(map(len, beginnings))).startswith(beginnings):
                raise InputError(
                    f"{str(path)!r} is a file that this command did not write",
                    argument=name,
                    use="name another file",
                )
    return path


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path to write to; it takes the place of `path`, synced to the disk, if the
    block ends without an error.
    """
    target = writable_file(path)
    with writing(path):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{get_native_id()}.tmp")
        try:
            yield temporary
            _sync(temporary, os.O_RDWR)
            _replace(temporary, target)
            if hasattr(
                os, "O_DIRECTORY"
            ):  # Windows opens no folder, and writes its entries by itself
                _sync(target.parent, os.O_RDONLY)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def _replace(temporary: Path, target: Path) -> None:
    """Let a file take the place of another; on Windows, wait for a program that has it open,
    such as a virus scanner.
    """
    last_try = time.monotonic() + LONGEST_WAIT
    while True:
        try:
            os.replace(temporary, target)
            return
        except PermissionError as error:
            is_open_elsewhere = getattr(error, "winerror", None) in OPEN_ELSEWHERE
            if not is_open_elsewhere or time.monotonic() > last_try:
                raise
        time.sleep(0.02)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, content: bytes | memoryview | str) -> None:
    """The file appears whole or not at all, also after a crash of the machine; text is written
    as UTF-8.
    """
    try:
        data = content.encode() if isinstance(content, str) else content
    except UnicodeEncodeError as error:
        raise InputError(
            f"{str(path)!r} cannot hold a lone surrogate (character {error.start}): correct the"
            " text"
        ) from None
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def write_json(path: Path, value: object) -> None:
    """A value as indented JSON."""
    write_atomically(path, as_json(value) + "\n")


def as_json(value: object, indent: int | None = 2, ascii: bool = False) -> str:
    """JSON that every parser reads, indented, or in one line; see `plain.in_json`. `ascii`: other
    characters are \\u escapes.
    """
    return json.dumps(in_json(value), indent=indent, ensure_ascii=ascii, allow_nan=False)


def write_table(
    path: Path,
    rows: Sequence[Mapping[str, Any]] | pandas.DataFrame | pyarrow.Table,
    columns: pyarrow.Schema | None = None,
    about: Mapping[str, Any] | None = None,
) -> None:
    """Rows as Parquet with checksums; `about` is kept in the file, as JSON under the key
    `unmask`.
    """
    from unmask.common.lazy import parquet
    from unmask.common.lazy import pyarrow as pa

    if isinstance(rows, Sequence):
        rows = pa.Table.from_pylist(list(rows), schema=columns)
    table = (
        rows
        if isinstance(rows, pa.Table)
        else pa.Table.from_pandas(rows, schema=columns, preserve_index=False)
    )
    if about is not None:
        table = table.replace_schema_metadata(
            {**(table.schema.metadata or {}), ABOUT: json.dumps(in_json(about))}
        )
    buffer = pa.BufferOutputStream()
    parquet.write_table(table, buffer, write_page_checksum=True)
    write_atomically(path, memoryview(buffer.getvalue()))


def read_bytes(path: Path) -> bytes:
    """The content of a file."""
    with reading(path):
        return path.read_bytes()


def read_object(path: Path, keys: Sequence[str] = (), remedy: str = AGAIN) -> dict[str, Any]:
    """The JSON object of a file in UTF-8, which must have `keys`; a byte-order mark is dropped."""
    with reading(path, remedy):
        value = parse_json(path.read_bytes().decode("utf-8-sig"))
        if not isinstance(value, dict):
            raise ValueError(f"it holds a JSON {type(value).__name__}, not an object")
        if missing := [key for key in keys if key not in value]:
            raise ValueError(f"it lacks {missing[0]!r}")
    return value


def parse_json(text: str) -> Any:
    """The value that JSON `text` states, if it can be written again; a `ValueError` says in a
    few words what is wrong.
    """
    try:
        value = json.loads(text, object_pairs_hook=_object)
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except KeyError as error:
        raise ValueError(f"an object with the key {error.args[0]!r} twice") from None
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair, which is not a character") from None
    except ValueError as error:
        raise ValueError(f"not JSON: {first_line(error)}") from None
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these keys and values; raises for a key that comes twice, where the last
    would win without a word.
    """
    value = dict(pairs)
    if len(value) < len(pairs):
        earlier: set[str] = set()  # not a list: a request of 1 MB may have 100,000 keys
        for name, _ in pairs:
            if name in earlier:
                raise KeyError(name)
            earlier.add(name)
    return value


def read_table(path: Path, remedy: str = AGAIN) -> pyarrow.Table:
    """The rows of a Parquet file."""
    from unmask.common.lazy import parquet

    with reading(path, remedy):
        return parquet.ParquetFile(
            io.BytesIO(path.read_bytes()), page_checksum_verification=True
        ).read()
