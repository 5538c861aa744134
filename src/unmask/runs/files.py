"""Files that survive a kill: written whole or not at all, read whole or refused in one line.

When a file is written, its parents are made, a link keeps pointing where it did, and a folder or a device is never replaced.
Damage of a file that is read is an `InputError` that ends with `remedy`: what the user can do about it.
A path that a user gave comes in through `user_path`, which understands `~` and refuses what can name no file, and
`output_file`, which refuses to replace what the command reads, and what it did not write.
"""

from __future__ import annotations

import errno
import io
import json
import math
import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from threading import get_native_id
from typing import TYPE_CHECKING, Any

from unmask.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import pandas
    import pyarrow

ELSEWHERE = "choose another folder"
AGAIN = "make the file again"
TEMPORARY = ".*.[0-9]*.tmp"
"""Names of files that a kill left half written; a run may delete them in its own folder."""


def user_path(value: str | os.PathLike[str], name: str = "path") -> Path:
    """The path that a user gave under the argument `name`, with `~` replaced by the home folder."""
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"{name} {value!r} is not a path: give one as text")
    text = os.fspath(value)
    if not text.strip() or "\0" in text:
        raise InputError(f"{name} {text!r} names no file: give a path")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise InputError(f"{name} {text!r} starts with ~, and there is no such home folder: write the path out") from None


@contextmanager
def writing(path: Path, remedy: str = ELSEWHERE) -> Iterator[None]:
    """Turns an error of writing into one line."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise InputError(f"no space left on the disk of {str(path)!r}: free some and give the same command again") from None
        raise InputError(f"{str(path)!r} cannot be written ({error.strerror or error}): {remedy}") from None


@contextmanager
def reading(path: Path, remedy: str = "check the path and its permissions") -> Iterator[None]:
    """Turns an error of reading into one line."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"file {str(path)!r} does not exist: {remedy}") from None
    except IsADirectoryError:
        raise InputError(f"{str(path)!r} is a folder: give a file") from None
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read ({error.strerror or error}): {remedy}") from None


def refuse_unmakeable(path: Path) -> None:
    """Raises if no folder can be at `path`: the nearest of its parents that exists is not a folder, or may not be written."""
    with writing(path):
        with suppress(FileNotFoundError, NotADirectoryError):
            path.lstat()  # a name that is too long, for example
        there = next(folder for folder in (path, *path.absolute().parents) if os.path.lexists(folder))
        problem = errno.ENOTDIR if not there.is_dir() else errno.EACCES if not os.access(there, os.W_OK | os.X_OK) else None
        if problem is not None:
            raise OSError(problem, os.strerror(problem))


def writable_file(path: Path) -> Path:
    """The path that a file will have; raises if it cannot be written, before any work is done for it. Makes nothing."""
    with writing(path):
        target = Path(os.path.realpath(path))
        if target.exists() and not target.is_file():
            raise InputError(f"{str(path)!r} is {'a folder' if target.is_dir() else 'not a regular file'}: name a file")
    refuse_unmakeable(target.parent)
    return target


def output_file(name: str, value: str | os.PathLike[str], reads: Iterable[object] = (), replaces: tuple[bytes, ...] = ()) -> Path:
    """The path of the option `name`, if a file may be written there, before any work is done.

    reads      arguments that name what the command reads: files, lists of them, texts, None
    replaces   beginnings of the files that the command writes; any other file is not replaced
    """
    path = user_path(value, name)
    target = writable_file(path)
    if not target.parent.is_dir():
        raise InputError(f"folder {str(target.parent)!r} of {name} does not exist: make it first, or name another")
    for read in chain.from_iterable(one if isinstance(one, list | tuple) else [one] for one in reads):
        with suppress(OSError, ValueError):
            if isinstance(read, str | os.PathLike) and target.samefile(os.path.expanduser(read)):
                raise InputError(f"{name} {str(path)!r} is read by this very command: name another file")
    if replaces and target.is_file() and target.stat().st_size:
        with target.open("rb") as stream:
            if not stream.read(max(map(len, replaces))).startswith(replaces):
                raise InputError(f"{name} {str(path)!r} is a file that this command did not write: name another file")
    return path


def answer_file(
    name: str, value: str | os.PathLike[str], formats: Mapping[str, tuple[bytes, ...]], texts: int, reads: Iterable[object] = ()
) -> Path:
    """The file that something of one text goes to; `formats`: how the files of each ending begin."""
    path = user_path(value, name)
    if path.suffix.lower() not in formats:
        raise InputError(f"{name} {str(path)!r} has no known ending: name a file that ends in {', '.join(formats)}")
    if texts > 1:
        raise InputError(f"{texts} texts and one {name} {str(path)!r} were given: give one text, or leave {name} out")
    return output_file(name, path, reads, formats[path.suffix.lower()])


@contextmanager
def atomic_path(path: Path, remedy: str = ELSEWHERE) -> Iterator[Path]:
    """A temporary path to write to; it takes the place of `path`, synced to the disk, if the block ends without an error."""
    target = writable_file(path)
    with writing(path, remedy):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{get_native_id()}.tmp")
        try:
            yield temporary
            _sync(temporary, os.O_RDWR)
            os.replace(temporary, target)
            _sync(target.parent, os.O_RDONLY)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes | memoryview | str, remedy: str = ELSEWHERE) -> None:
    """The file appears whole or not at all, also after a crash of the machine; text is written as UTF-8."""
    try:
        data = content.encode() if isinstance(content, str) else content
    except UnicodeEncodeError as error:
        raise InputError(f"{str(path)!r} cannot hold a lone surrogate (character {error.start}): correct the text") from None
    with atomic_path(path, remedy) as temporary:
        temporary.write_bytes(data)


def write_json(path: Path, value: object, remedy: str = ELSEWHERE) -> None:
    """A value as indented JSON."""
    write_atomically(path, as_json(value) + "\n", remedy)


def as_json(value: object, indent: int | None = 2, ascii: bool = False) -> str:
    """JSON that every parser reads, indented, or in one line; see `plain`. `ascii`: other characters are \\u escapes."""
    return json.dumps(plain(value), indent=indent, ensure_ascii=ascii, allow_nan=False)


def write_table(
    path: Path,
    rows: Sequence[Mapping[str, Any]] | pandas.DataFrame | pyarrow.Table,
    columns: pyarrow.Schema | None = None,
    about: Mapping[str, Any] | None = None,
) -> None:
    """Rows as Parquet with checksums; `about` is kept in the file, as JSON under the key `unmask`."""
    import pyarrow as pa
    from pyarrow import parquet

    if isinstance(rows, Sequence):
        rows = pa.Table.from_pylist(list(rows), schema=columns)
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pandas(rows, schema=columns, preserve_index=False)
    if about is not None:
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), b"unmask": json.dumps(plain(about))})
    buffer = pa.BufferOutputStream()
    parquet.write_table(table, buffer, write_page_checksum=True)
    write_atomically(path, memoryview(buffer.getvalue()))


def write_arrays(path: Path, **arrays: np.ndarray) -> None:
    """Named NumPy arrays as .npz."""
    import numpy

    buffer = io.BytesIO()
    numpy.savez(buffer, allow_pickle=False, **arrays)
    write_atomically(path, buffer.getbuffer())


def read_bytes(path: Path, remedy: str = "check the path and its permissions") -> bytes:
    """The content of a file."""
    with reading(path, remedy):
        return path.read_bytes()


def read_json(path: Path, remedy: str = AGAIN) -> Any:
    """The value of a JSON file, in UTF-8; a byte-order mark is dropped."""
    try:
        return parse_json(read_bytes(path).decode("utf-8-sig"))
    except ValueError as error:
        raise InputError(f"{str(path)!r} is damaged ({error}): {remedy}") from None


def read_object(path: Path, keys: Sequence[str] = (), remedy: str = AGAIN) -> dict[str, Any]:
    """The JSON object of a file, which must have `keys`."""
    value = read_json(path, remedy)
    if not isinstance(value, dict):
        raise InputError(f"{str(path)!r} is damaged (it holds a JSON {type(value).__name__}, not an object): {remedy}")
    _refuse_missing(path, keys, value, remedy)
    return value


def _refuse_missing(path: Path, keys: Sequence[str], present: Container[str], remedy: str) -> None:
    for key in keys:
        if key not in present:
            raise InputError(f"{str(path)!r} is damaged (it lacks {key!r}): {remedy}")


def parse_json(text: str) -> Any:
    """The value that JSON `text` states, if it can be written again; a `ValueError` says in a few words what is wrong."""
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
        raise ValueError(f"not JSON: {str(error).splitlines()[0]}") from None
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these keys and values; raises for a key that comes twice, where the last would win without a word."""
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        raise KeyError(next(name for name in names if names.count(name) > 1))
    return value


def read_table(path: Path, columns: Sequence[str] | None = None, remedy: str = AGAIN) -> pyarrow.Table:
    """The rows of a Parquet file."""
    from pyarrow import parquet

    with _damage(path, remedy):
        return parquet.ParquetFile(io.BytesIO(read_bytes(path, remedy)), page_checksum_verification=True).read(columns)


def read_arrays(path: Path, names: Sequence[str] = (), remedy: str = AGAIN) -> dict[str, np.ndarray]:
    """The arrays of an .npz file, which must hold `names`; nothing in it is ever run."""
    import numpy

    with _damage(path, remedy), numpy.load(io.BytesIO(read_bytes(path, remedy)), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    _refuse_missing(path, names, arrays, remedy)
    return arrays


def plain(value: Any) -> Any:
    """Values that JSON can hold: tuples become lists, NumPy's numbers numbers, infinities and NaN words, other things text."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return str(value)


@contextmanager
def _damage(path: Path, remedy: str) -> Iterator[None]:
    """Turns any exception of a format's reader into one line: the file is damaged."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        line = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
        raise InputError(f"{str(path)!r} is damaged ({line}): {remedy}") from None


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
