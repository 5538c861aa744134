"""One run folder: settings, a lock, and parts of the result. Safe against a kill at any moment.

    settings.json    the settings of the command ("kind"), the model's fingerprint among them,
                     their provenance ("begun"), and the number of this form of folder
                     ("format")
    .lock            held while a run writes; it dies with its process
    parts/           Parquet files that appear as the run goes: their rows are what is done

    with RunFolder(out, "evaluate", settings) as folder:
        done = folder.rows(columns)  # an Arrow table of what earlier runs stored, empty at first
        folder.store(rows, columns)  # the next part; when this returns, the rows are on the disk

A folder that holds something else, or a run with other settings, is refused and left as it was.
Settings must be those of the stored run, with two exceptions: a setting that HASHED names may
be written differently as long as its hash, which is a setting too, is the same, and a number in
MAY_GROW may be larger than before. While settings.json is the only file, new settings take its
place. A part's name is its series and a number: `part-000003`, `group-0002-00000150`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from unmask import __version__
from unmask.common import files
from unmask.common.checks import shown
from unmask.common.errors import InputError, argument_name
from unmask.common.methods.own_code import is_stored_code
from unmask.common.plain import in_json
from unmask.runs.fingerprint import provenance

if TYPE_CHECKING:
    import pyarrow
    from filelock import BaseFileLock

FORMAT = 4
"""The format of run folders. Whoever renames a setting, or changes what a run computes from the
same settings, raises it: a folder of another format is refused, instead of one that holds rows
of two kinds of mathematics."""
OUT = argument_name("out")
OF_THE_FOLDER = ("kind", "format", "begun")
"""Entries of settings.json that are no settings of the command."""
HASHED = {
    "weights": "model",
    "pairs_sha256": "data",
    "data_sha256": "data",
    "blocks_sha256": "blocks",
}
"""Hashes, and the settings whose content they are."""
DELETE_PART = "delete it and give the same command again"
DATA_FILES = (".parquet", ".csv", ".tsv", ".json", ".jsonl")


def _first_difference(name: str, before: Any, now: Any) -> tuple[str, Any, Any]:
    """The first option of a method, or item of a list of methods, that differs, and its values."""
    while True:
        if isinstance(before, dict) and isinstance(now, dict):
            option = next(one for one in [*now, *before] if before.get(one) != now.get(one))
            name = f"{name}_name" if option == "name" else option
            before = before.get(option)
            now = now.get(option)
            continue
        are_methods = isinstance(before, list) and isinstance(now, list)
        if not are_methods or len(before) != len(now):
            return name, before, now
        old, new = next(pair for pair in zip(before, now, strict=True) if pair[0] != pair[1])
        if not isinstance(old, dict) or not isinstance(new, dict):
            return name, before, now  # a list of plain values is shown whole
        before = old
        now = new


class RunFolder:
    """The folder of one run, held for writing between `with` and its end.

    kind       the command, such as `evaluate`
    MAY_GROW   settings that may be larger than before
    REMEDY     what the user can do about a damaged part
    """

    MAY_GROW: ClassVar[tuple[str, ...]] = ()
    REMEDY = DELETE_PART

    def __init__(
        self, path: str | os.PathLike[str], kind: str, settings: Mapping[str, Any]
    ) -> None:
        self.path: Path = files.user_path(path, "out")
        self.kind: str = kind
        self.settings: dict[str, Any] = in_json(settings)
        self._lock: BaseFileLock | None = None
        self._new = [
            folder for folder in (self.path, *self.path.absolute().parents) if not folder.exists()
        ]

    def __enter__(self) -> Self:
        self._stored()  # a folder that is refused gets no lock
        self._take_lock()
        try:
            stored = self._stored()  # once more: another run may have begun before the lock
            if stored is None or not _other_files(self.path):
                begun = (stored or {}).get("begun") or provenance()
                settings = {"kind": self.kind, "format": FORMAT, "begun": begun, **self.settings}
            else:
                settings = {**stored, **{name: self.settings[name] for name in self.MAY_GROW}}
            if settings != stored:
                files.write_json(self.path / "settings.json", settings)
            with files.writing(self.path):
                of_settings = self.path.glob(files.TEMPORARY)
                of_parts = self.path.glob(f"parts/{files.TEMPORARY}")
                for half_written in [*of_settings, *of_parts]:
                    half_written.unlink(missing_ok=True)
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """A failure before any part leaves no folder that was not there; after an interrupt,
        the run may be continued.
        """
        lock = self.path / ".lock"
        is_removed = isinstance(error, Exception) and self._new and not _other_files(self.path)
        if is_removed:
            shutil.rmtree(self.path, ignore_errors=True)
        lock_is_left = lock.exists()  # Windows deletes no file that is open
        if self._lock:
            self._lock.release()
        if is_removed:
            with suppress(OSError):  # a parent that is not empty stays
                if lock_is_left:
                    lock.unlink(missing_ok=True)
                    self.path.rmdir()
                for parent in self._new[1:]:
                    parent.rmdir()

    def store(
        self,
        rows: Sequence[Mapping[str, Any]] | pyarrow.Table,
        columns: pyarrow.Schema | None = None,
        name: str | None = None,
    ) -> None:
        """Write rows as the part `name`, or as the next of the series `part`."""
        if name is None:
            numbers = [int(part.stem.rpartition("-")[2]) for part in read_parts(self.path, "part")]
            name = f"part-{max(numbers, default=-1) + 1:06d}"
        about = {"part": name, "rows": len(rows)}
        files.write_table(self.path / "parts" / f"{name}.parquet", rows, columns, about)

    def rows(self, columns: pyarrow.Schema) -> pyarrow.Table:
        """The rows of all parts."""
        return read_rows(read_parts(self.path), columns, self.REMEDY)

    def _stored(self) -> dict[str, Any] | None:
        """The stored settings if that run may continue; None if there is no run and one may
        begin. Writes nothing.

        Raises InputError, which names the first setting that is another.
        """
        stored = refuse_foreign(self.path, self.kind)
        if stored is None or not _other_files(self.path):
            return stored
        hashed = {name for hash, name in HASHED.items() if hash in self.settings}
        for name in dict.fromkeys([*self.settings, *stored]):
            before = stored.get(name)
            now = self.settings.get(name)
            has_grown = name in self.MAY_GROW and type(before) is type(now) is int and before < now
            # the weights tell which model it is, but not what own code does with them
            is_code = is_stored_code(before) or is_stored_code(now)
            is_told_by_hash = name in hashed and not is_code
            if name in OF_THE_FOLDER or is_told_by_hash or before == now or has_grown:
                continue
            if name in HASHED:  # the hash beside what it is the hash of
                content = HASHED[name]
                before = f"{stored.get(content)} ({before})"
                now = f"{self.settings.get(content)} ({now})"
                name = content
            name, before, now = _first_difference(name, before, now)
            written = argument_name(name) if name.isidentifier() else repr(name)
            different = f"{written} {shown(before)}, not {shown(now)}"
            use = f"give the same settings to continue it, or another folder for {OUT}"
            if name == "sha256":
                use = f"the file of your code, or one that it imports, has changed since: {use}"
            raise InputError(f"{str(self.path)!r} holds a run with {different}: {use}")
        return stored

    def _take_lock(self) -> None:
        from filelock import FileLock, Timeout

        with files.writing(self.path / ".lock"):
            self.path.mkdir(parents=True, exist_ok=True)
            # not of a thread: another one may end the run
            lock = FileLock(self.path / ".lock", timeout=0, thread_local=False)
            try:
                lock.acquire()
            except Timeout:
                raise InputError(
                    f"another run is writing to {str(self.path)!r}: wait for it, or"
                    f" {files.ELSEWHERE}"
                ) from None
        self._lock = lock


def output_folder(out: str | os.PathLike[str], kind: str | None = None) -> Path:
    """The path of the option `out`, if it can be a folder; if a run of the command `kind` may
    begin or continue there.
    """
    path = files.user_path(out, "out")
    if path.suffix.lower() in DATA_FILES and not path.exists():
        raise InputError(
            f"{str(path)!r} is named like a file, and {OUT} is a folder",
            argument="out",
            use=f"name it without {path.suffix}",
        )
    files.refuse_unmakeable(path)
    if kind is not None:
        refuse_foreign(path, kind)
    return path


def refuse_foreign(path: Path, kind: str) -> dict[str, Any] | None:
    """The stored settings of the run in a folder, None where one may begin; a folder of
    anything else is refused.
    """
    with files.writing(path):
        if (path / "settings.json").is_file():
            return read_settings(path, kind)
        if _other_files(path):
            raise InputError(
                f"folder {str(path)!r} is not empty and holds no run: {files.ELSEWHERE}"
            )
    return None


def _other_files(folder: Path) -> bool:
    """Whether a folder holds more than settings.json; hidden files aside."""
    names = (file for file in folder.rglob("*") if file.is_file() and not file.name.startswith("."))
    return any(file != folder / "settings.json" for file in names)


def read_settings(path: Path, kind: str) -> dict[str, Any]:
    """settings.json of the run in folder `path`, which must be of the command `kind` (a run
    that states none is taken).
    """
    file = path / "settings.json"
    if not file.is_file():
        raise InputError(f"folder {str(path)!r} holds no run: give the folder of a run of {kind}")
    stored = files.read_object(file, remedy="start again in another folder")
    other = stored.get("kind", kind)
    if other != kind:
        raise InputError(
            f"folder {str(path)!r} holds a run of {shown(other)}, not of {kind!r}:"
            f" {files.ELSEWHERE}"
        )
    number = stored.get("format")
    if number != FORMAT:
        stated = "no format" if number is None else f"format {shown(number)}"
        release = f"{_release_of(stored)}, with {stated}, and this one writes format {FORMAT}"
        use = "use that one for it, or start again in another folder"
        raise InputError(f"folder {str(path)!r} holds a run of {release}: {use}")
    return stored


def _release_of(stored: Mapping[str, Any]) -> str:
    """The release that began a run, as far as its provenance states it."""
    begun = stored.get("begun")
    versions = begun.get("versions") if isinstance(begun, dict) else None
    version = versions.get("unmask") if isinstance(versions, dict) else None
    if not isinstance(version, str):
        return "another release"
    if version == __version__:  # between releases the number stays while the format may change
        return f"another commit of unmask {version}"
    return f"unmask {version}"


def read_parts(folder: Path, series: str = "*") -> list[Path]:
    """The parts in `folder`/parts of one series, or all, by name."""
    return sorted((folder / "parts").glob(f"{series}-*.parquet"))


def read_rows(
    parts: Sequence[Path], columns: pyarrow.Schema, remedy: str = DELETE_PART
) -> pyarrow.Table:
    """The rows of the parts, which must have `columns`."""
    from unmask.common.lazy import pyarrow

    tables = [columns.empty_table()]
    for part in parts:
        table = files.read_table(part, remedy=remedy)
        if not table.schema.equals(columns):
            raise InputError(f"{str(part)!r} is damaged (it has other columns): {remedy}")
        _refuse_other_rows(part, table, remedy)
        tables.append(table.replace_schema_metadata(columns.metadata))
    return pyarrow.concat_tables(tables)


def _refuse_other_rows(part: Path, table: pyarrow.Table, remedy: str) -> None:
    """Raise for a part that was copied or renamed by hand, or has more or fewer rows than were
    stored.
    """
    stored = (table.schema.metadata or {}).get(files.ABOUT)
    if stored is None:  # rewritten by a program that keeps no metadata
        return
    about = json.loads(stored)
    if about.get("part", part.stem) != part.stem:
        raise InputError(
            f"{str(part)!r} is the part {shown(about['part'])} under another name: {remedy}"
        )
    if about.get("rows", len(table)) != len(table):
        raise InputError(
            f"{str(part)!r} is damaged (it has {len(table)} rows of {about['rows']}): {remedy}"
        )


@contextmanager
def on_a_thread() -> Iterator[Callable[..., None]]:
    """A function that calls another on a thread, to write parts while the caller computes.

    Each call, and the end of the block, waits for the call before and raises its exception.
    """
    with ThreadPoolExecutor(1) as thread:
        calls = [thread.submit(int)]  # in the place of the call before the first one

        def call(function: Callable[..., Any], *arguments: Any) -> None:
            before = calls.pop()
            before.result()
            calls.append(thread.submit(function, *arguments))

        try:
            yield call
        finally:
            calls.pop().result()
