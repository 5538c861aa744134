"""One run folder: settings, a lock, and parts of the result. Safe against a kill at any moment.

    settings.json    the settings of the command ("kind"), the model's fingerprint among them, and their provenance ("begun")
    .lock            held while a run writes; it dies with its process
    parts/           Parquet files that appear as the run goes: their rows are what is done

The folder is looked at before anything is written: one that holds something else, or a run with other settings, is refused
and left as it was.

    with RunFolder(out, "evaluate", settings) as folder:
        done = folder.rows(columns)          # an Arrow table of what earlier runs stored, empty at first
        folder.store(rows, columns)          # the next part; when this returns, the rows are on the disk
        write_json(folder.path / "table.json", {...})       # all further files by the writers of `runs.files`

Settings are plain values. They must be those of the stored run, with two exceptions: a setting of HASHED may be written
differently as long as its hash, which is a setting too, is the same, and a number in `may_grow` may be larger than before. While
settings.json is the only file, new settings take its place.

A part's name is its series and a number: `part-000003`, `group-0002-00000150`. `read_settings` and `read_parts` are for readers,
during a run or after it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from unmask.errors import InputError
from unmask.runs import files
from unmask.runs.fingerprint import provenance

if TYPE_CHECKING:
    import pyarrow

FORMAT = 3
"""Of the folder. Runs with another are of an earlier unmask: readable, not continued."""
FOLDERS_OWN = ("kind", "format", "begun")
"""Entries of settings.json that are not the user's."""
HASHED = {"weights": "model", "pairs_sha256": "data", "data_sha256": "data"}
"""Hashes, and the settings whose content they are; of several, the last counts."""
ANOTHER = "choose another --out folder"
DELETE_PART = "delete it and give the same command again"
DATA_FILES = (".parquet", ".csv", ".tsv", ".json", ".jsonl")


class RunFolder:
    """The folder of one run, held for writing between `with` and its end.

    path     where results go; settings, lock and parts lie there too, or in its subfolder `inside`
    kind     the command, such as `evaluate`
    remedy   what the user can do about a damaged part
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        kind: str,
        settings: Mapping[str, Any],
        *,
        may_grow: Collection[str] = (),
        inside: str = "",
        remedy: str = DELETE_PART,
    ) -> None:
        self.path = files.user_path(path, "out")
        self.own = self.path / inside
        self.kind, self.inside, self.remedy = kind, inside, remedy
        self.settings: dict[str, Any] = files.plain(settings)
        self._may_grow = frozenset(may_grow)
        self._lock: IO[bytes] | None = None
        self._made: list[Path] = []

    def __enter__(self) -> Self:
        self._look()
        self._take_lock()
        try:
            self._settle(self._look())
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """After a failure that left nothing but settings, leave no folder that was not there; an interrupt may be continued."""
        if isinstance(error, Exception) and self._made and not _other_files(self.path, self.own / "settings.json"):
            shutil.rmtree(self.own, ignore_errors=True)
            with suppress(OSError):
                for folder in self._made[1:]:
                    folder.rmdir()
        if self._lock:
            self._lock.close()

    def store(
        self, rows: Sequence[Mapping[str, Any]] | pyarrow.Table, columns: pyarrow.Schema | None = None, name: str | None = None
    ) -> None:
        """Keep rows as the part `name`, or as the next of the series `part`."""
        if name is None:
            numbers = [int(part.stem.rpartition("-")[2]) for part in self.parts("part")]
            name = f"part-{max(numbers, default=-1) + 1:06d}"
        files.write_table(self.own / "parts" / f"{name}.parquet", rows, columns, remedy=ANOTHER)

    def parts(self, series: str | None = None) -> list[Path]:
        """The parts of one series, or all, in the order of their names."""
        return [part for part in read_parts(self.own) if series is None or part.stem.rpartition("-")[0] == series]

    def rows(self, columns: pyarrow.Schema, series: str | None = None) -> pyarrow.Table:
        """The rows of all parts of one series, or of all."""
        return read_rows(self.parts(series), columns, self.remedy)

    def drop(self, part: Path) -> None:
        """Delete a part; its rows will be computed again."""
        with files.writing(part):
            part.unlink(missing_ok=True)

    def _look(self) -> dict[str, Any] | None:
        """The stored settings if that run may continue; None if there is no run and one may begin. Writes nothing."""
        stored = refuse_foreign(self.path, self.kind, self.inside)
        if stored is not None and not _other_files(self.path, self.own / "settings.json"):
            return {**{name: stored[name] for name in FOLDERS_OWN}, **self.settings}
        if stored is not None:
            self._refuse_other_settings(stored)
        return stored

    def _refuse_other_settings(self, stored: Mapping[str, Any]) -> None:
        """Setting by setting, in the order given; a hash is compared through the setting that it identifies, if that is set."""
        hashes = {name: hash for hash, name in HASHED.items() if hash in self.settings and self.settings.get(name) is not None}
        for name in dict.fromkeys([*self.settings, *stored]):
            before, now = stored.get(name), self.settings.get(name)
            if name in (*FOLDERS_OWN, *hashes.values()) or (name in self._may_grow and _has_grown(before, now)):
                continue
            if name in hashes and before is not None:
                if stored.get(hashes[name]) == self.settings[hashes[name]]:
                    continue
                before, now = f"{before} ({stored.get(hashes[name])})", f"{now} ({self.settings[hashes[name]]})"
            while isinstance(before, dict) and isinstance(now, dict) and before != now:  # the first option that differs
                option = next(one for one in [*now, *before] if before.get(one) != now.get(one))
                name, before, now = f"{name}_{option}" if option == "name" else option, before.get(option), now.get(option)
            if before != now:
                different = f"{name if name.isidentifier() else repr(name)} {_show(before)}, not {_show(now)}"
                use = "give the same settings to continue it, or another --out folder"
                raise InputError(f"{str(self.path)!r} holds a run with {different}: {use}")

    def _settle(self, stored: dict[str, Any] | None) -> None:
        """Under the lock: settings written where they are new or have grown, leftovers of a kill removed."""
        new = {"kind": self.kind, "format": FORMAT, "begun": provenance()}
        grown = {name: self.settings[name] for name in self._may_grow if name in self.settings}
        settings = {**new, **self.settings} if stored is None else {**stored, **grown}
        if settings != (files.read_object(self.own / "settings.json") if stored else None):
            files.write_json(self.own / "settings.json", settings, ANOTHER)
        with files.writing(self.path, ANOTHER):
            for folder in {self.path, self.own, self.own / "parts"}:
                for stale in folder.glob(files.TEMPORARY):
                    stale.unlink(missing_ok=True)

    def _take_lock(self) -> None:
        import fcntl

        self._made = [folder for folder in (self.own, *self.own.parents) if not os.path.lexists(folder)]
        with files.writing(self.own / ".lock", ANOTHER):
            self.own.mkdir(parents=True, exist_ok=True)
            self._lock = open(self.own / ".lock", "ab")
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._lock.close()
                raise InputError(f"another run is writing to {str(self.path)!r}: wait for it, or {ANOTHER}") from None


def output_folder(out: str | os.PathLike[str]) -> Path:
    """The path of the option `out`, if a folder is there or can be made; its content is not looked at."""
    path = files.user_path(out, "out")
    if path.suffix.lower() in DATA_FILES and not path.exists():
        raise InputError(f"out {str(path)!r} is named like a file, and out is a folder: name it without {path.suffix}")
    files.refuse_unmakeable(path, ANOTHER)
    return path


def run_output(kind: str, out: str | os.PathLike[str] | None) -> Path | None:
    """The folder of a run of the command `kind`, if one may begin or continue there; None without `out`. Needs no model."""
    folder = None if out is None else output_folder(out)
    if folder is not None:
        refuse_foreign(folder, kind)
    return folder


def refuse_foreign(path: Path, kind: str, inside: str = "") -> dict[str, Any] | None:
    """The stored settings of the run in a folder, None where one may begin; a folder of anything else is refused."""
    files.refuse_unmakeable(path, ANOTHER)
    settings = path / inside / "settings.json"
    with files.writing(path, ANOTHER):
        there, more = settings.is_file(), _other_files(path, settings)
    if not there and more:
        raise InputError(f"folder {str(path)!r} is not empty and holds no run: {ANOTHER}")
    if not there:
        return None
    stored = read_settings(path, kind, inside)
    if stored.get("format") != FORMAT or any(name not in stored for name in FOLDERS_OWN):
        raise InputError(f"{str(path)!r} holds a run of an earlier unmask, which cannot be continued: {ANOTHER}")
    return stored


def _other_files(path: Path, settings: Path) -> bool:
    """Whether a folder holds more than the settings of a run; hidden files aside."""
    return any(file != settings and file.is_file() and not file.name.startswith(".") for file in path.rglob("*"))


def read_settings(path: Path, kind: str, inside: str = "") -> dict[str, Any]:
    """settings.json of the run in folder `path`, which must be of the command `kind` (a run that states none is taken)."""
    file = path / inside / "settings.json"
    if not file.is_file():
        raise InputError(f"folder {str(path)!r} holds no run: give the --out folder of an `unmask {kind}` run")
    stored = files.read_object(file, remedy="start again in another --out folder")
    if (other := stored.get("kind", kind)) != kind:
        raise InputError(f"folder {str(path)!r} holds a run of `unmask {_show(other)}`, not of `unmask {kind}`: {ANOTHER}")
    return stored


def read_parts(folder: Path) -> list[Path]:
    """The parts in `folder`/parts, by name."""
    return sorted((folder / "parts").glob("*.parquet"))


def read_rows(parts: Sequence[Path], columns: pyarrow.Schema, remedy: str = DELETE_PART) -> pyarrow.Table:
    """The rows of the parts, which must have `columns`."""
    import pyarrow

    tables = [columns.empty_table()]
    for part in parts:
        table = files.read_table(part, remedy=remedy)
        if not table.schema.equals(columns):
            raise InputError(f"{str(part)!r} is damaged (it has other columns): {remedy}")
        tables.append(table.replace_schema_metadata(columns.metadata))
    return pyarrow.concat_tables(tables)


@contextmanager
def on_a_thread() -> Iterator[Callable[..., None]]:
    """A function that calls another on a thread while the caller goes on, for writing parts.

    Each call waits for the one before, as does the end of the block; what went wrong in a call is raised there.
    """
    with ThreadPoolExecutor(1) as thread:
        pending: Future[Any] = thread.submit(int)

        def call(function: Callable[..., Any], *arguments: Any) -> None:
            nonlocal pending
            pending.result()
            pending = thread.submit(function, *arguments)

        try:
            yield call
        finally:
            pending.result()


def _has_grown(before: object, now: object) -> bool:
    return type(before) in (int, float) and type(now) in (int, float) and before < now  # type: ignore[operator]


def _show(value: object) -> str:
    if value is None or value == []:
        return "unset"
    text = " ".join((",".join(map(str, value)) if isinstance(value, list) else str(value)).split())
    return text if len(text) <= 80 else text[:77] + "..."
