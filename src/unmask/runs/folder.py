"""One run folder: settings, a lock, and parts of the result. Safe against a kill at any moment.

    settings.json    the settings of the command ("kind"), the model's fingerprint among them, and their provenance ("begun")
    .lock            held while a run writes; it dies with its process
    parts/           Parquet files that appear as the run goes: their rows are what is done

    with RunFolder(out, "evaluate", settings) as folder:
        done = folder.rows(columns)          # an Arrow table of what earlier runs stored, empty at first
        folder.store(rows, columns)          # the next part; when this returns, the rows are on the disk

A folder that holds something else, or a run with other settings, is refused and left as it was. Settings must be those of the
stored run, with two exceptions: a setting that HASHED names may be written differently as long as its hash, which is a setting
too, is the same, and a number in `may_grow` may be larger than before. While settings.json is the only file, new settings take
its place. A part's name is its series and a number: `part-000003`, `group-0002-00000150`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from unmask.errors import InputError
from unmask.runs import files
from unmask.runs.fingerprint import provenance

if TYPE_CHECKING:
    import pyarrow

HASHED = {"weights": "model", "pairs_sha256": "data", "data_sha256": "data"}
"""Hashes, and the settings whose content they are."""
DELETE_PART = "delete it and give the same command again"
DATA_FILES = (".parquet", ".csv", ".tsv", ".json", ".jsonl")


class RunFolder:
    """The folder of one run, held for writing between `with` and its end.

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
        remedy: str = DELETE_PART,
    ) -> None:
        self.path, self.kind, self.remedy = files.user_path(path, "out"), kind, remedy
        self.settings: dict[str, Any] = files.plain(settings)
        self._may_grow = frozenset(may_grow)
        self._lock: IO[bytes] | None = None
        self._new: Path | None = None

    def __enter__(self) -> Self:
        self._look()
        self._take_lock()
        try:
            stored = self._look()
            begun = {"kind": self.kind, "begun": (stored or {}).get("begun") or provenance()}
            if stored is None or not _other_files(self.path):
                settings = {**begun, **self.settings}
            else:
                settings = {**stored, **{name: self.settings[name] for name in self._may_grow if name in self.settings}}
            if settings != stored:
                files.write_json(self.path / "settings.json", settings)
            with files.writing(self.path):
                for left_by_a_kill in (*self.path.glob(files.TEMPORARY), *self.path.glob(f"parts/{files.TEMPORARY}")):
                    left_by_a_kill.unlink(missing_ok=True)
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """After a failure that left nothing but settings, leave no folder that was not there; an interrupt may be continued."""
        if isinstance(error, Exception) and self._new and not _other_files(self._new, self.path):
            shutil.rmtree(self._new, ignore_errors=True)
        if self._lock:
            self._lock.close()

    def store(
        self, rows: Sequence[Mapping[str, Any]] | pyarrow.Table, columns: pyarrow.Schema | None = None, name: str | None = None
    ) -> None:
        """Keep rows as the part `name`, or as the next of the series `part`."""
        if name is None:
            numbers = [int(part.stem.rpartition("-")[2]) for part in self.parts("part")]
            name = f"part-{max(numbers, default=-1) + 1:06d}"
        files.write_table(self.path / "parts" / f"{name}.parquet", rows, columns)

    def parts(self, series: str | None = None) -> list[Path]:
        """The parts of one series, or all, in the order of their names."""
        return [part for part in read_parts(self.path) if series is None or part.stem.rpartition("-")[0] == series]

    def rows(self, columns: pyarrow.Schema, series: str | None = None) -> pyarrow.Table:
        """The rows of all parts of one series, or of all."""
        return read_rows(self.parts(series), columns, self.remedy)

    def _look(self) -> dict[str, Any] | None:
        """The stored settings if that run may continue; None if there is no run and one may begin. Writes nothing."""
        stored = refuse_foreign(self.path, self.kind)
        if stored is None or not _other_files(self.path):
            return stored
        hashed = {name for hash, name in HASHED.items() if hash in self.settings}
        for name in dict.fromkeys([*self.settings, *stored]):
            before, now = stored.get(name), self.settings.get(name)
            if name in ("kind", "begun", *hashed) or before == now or (name in self._may_grow and _has_grown(before, now)):
                continue
            if name in HASHED:
                before, now = (f"{run.get(HASHED[name])} ({run.get(name)})" for run in (stored, self.settings))
                name = HASHED[name]
            while isinstance(before, dict) and isinstance(now, dict):  # the first option that differs
                option = next(one for one in [*now, *before] if before.get(one) != now.get(one))
                name, before, now = f"{name}_{option}" if option == "name" else option, before.get(option), now.get(option)
            different = f"{name if name.isidentifier() else repr(name)} {_show(before)}, not {_show(now)}"
            use = "give the same settings to continue it, or another --out folder"
            raise InputError(f"{str(self.path)!r} holds a run with {different}: {use}")
        return stored

    def _take_lock(self) -> None:
        import fcntl

        self._new = next((one for one in (*reversed(self.path.parents), self.path) if not os.path.lexists(one)), None)
        with files.writing(self.path / ".lock"):
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = open(self.path / ".lock", "ab")
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._lock.close()
                use = f"wait for it, or {files.ELSEWHERE}"
                raise InputError(f"another run is writing to {str(self.path)!r}: {use}") from None


def output_folder(out: str | os.PathLike[str]) -> Path:
    """The path of the option `out`, if a folder is there or can be made; its content is not looked at."""
    path = files.user_path(out, "out")
    if path.suffix.lower() in DATA_FILES and not path.exists():
        raise InputError(f"out {str(path)!r} is named like a file, and out is a folder: name it without {path.suffix}")
    files.refuse_unmakeable(path)
    return path


def run_output(kind: str, out: str | os.PathLike[str] | None) -> Path | None:
    """The folder of a run of the command `kind`, if one may begin or continue there; None without `out`. Needs no model."""
    folder = None if out is None else output_folder(out)
    if folder is not None:
        refuse_foreign(folder, kind)
    return folder


def refuse_foreign(path: Path, kind: str) -> dict[str, Any] | None:
    """The stored settings of the run in a folder, None where one may begin; a folder of anything else is refused."""
    files.refuse_unmakeable(path)
    with files.writing(path):
        there, more = (path / "settings.json").is_file(), _other_files(path)
    if not there and more:
        raise InputError(f"folder {str(path)!r} is not empty and holds no run: {files.ELSEWHERE}")
    return read_settings(path, kind) if there else None


def _other_files(folder: Path, run: Path | None = None) -> bool:
    """Whether a folder holds more than the settings of the run in it, or in `run` below it; hidden files aside."""
    settings = (run or folder) / "settings.json"
    return any(file != settings and file.is_file() and not file.name.startswith(".") for file in folder.rglob("*"))


def read_settings(path: Path, kind: str) -> dict[str, Any]:
    """settings.json of the run in folder `path`, which must be of the command `kind` (a run that states none is taken)."""
    if not (file := path / "settings.json").is_file():
        raise InputError(f"folder {str(path)!r} holds no run: give the --out folder of an `unmask {kind}` run")
    stored = files.read_object(file, remedy="start again in another --out folder")
    if (other := stored.get("kind", kind)) != kind:
        run = f"a run of `unmask {_show(other)}`, not of `unmask {kind}`"
        raise InputError(f"folder {str(path)!r} holds {run}: {files.ELSEWHERE}")
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
