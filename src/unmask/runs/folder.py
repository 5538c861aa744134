"""One run folder: settings, a lock, and parts of the result. Safe against a kill at any moment.

    settings.json    the settings of the command ("kind"), the model's fingerprint among them, and their provenance ("begun")
    .lock            held while a run writes; it dies with its process
    parts/           Parquet files that appear as the run goes: their rows are what is done

The folder is looked at before anything is written: one that holds something else, or a run with other settings, is refused
and left as it was.

    with RunFolder(out, "evaluate", settings, model=fingerprint, same_content={"model": "weights"}) as folder:
        done = folder.rows(columns)          # an Arrow table of what earlier runs stored, empty at first
        folder.store(rows, columns)          # the next part; when this returns, the rows are on the disk
        write_json(folder.path / "table.json", {...})       # all further files by the writers of `runs.files`

Settings are plain values. They must be those of the stored run, with two exceptions: a setting in `same_content` may be
written differently as long as the setting that it points to (a hash) is the same, and a number in `may_grow` may be larger
than before. While settings.json is the only file, new settings take its place.

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
from unmask.runs.files import (
    TEMPORARY,
    plain,
    read_object,
    read_table,
    refuse_unmakeable,
    user_path,
    write_json,
    write_table,
    writing,
)
from unmask.runs.fingerprint import provenance

if TYPE_CHECKING:
    import pyarrow

FORMAT = 3
"""Of the folder. Runs with another are of an earlier unmask: readable, not continued."""
FOLDERS_OWN = ("kind", "format", "begun")
"""Entries of settings.json that are not the user's."""
ANOTHER = "choose another --out folder"
DELETE_PART = "delete it and give the same command again"


class RunFolder:
    """The folder of one run, held for writing between `with` and its end."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        kind: str,
        settings: Mapping[str, Any],
        *,
        model: str = "",
        same_content: Mapping[str, str] | None = None,
        may_grow: Collection[str] = (),
        inside: str = "",
        remedy: str = DELETE_PART,
    ) -> None:
        """`path` is where results go; settings, lock and parts lie there too, or in its subfolder `inside`.

        kind     the command, such as `evaluate`
        model    the fingerprint of the model: the setting `weights`
        remedy   what the user can do about a damaged part
        """
        self.path = user_path(path, "out")
        self.own = self.path / inside
        self.kind, self.remedy = kind, remedy
        self.settings: dict[str, Any] = plain({**settings, "weights": model} if model else settings)
        self._same_content, self._may_grow = dict(same_content or {}), frozenset(may_grow)
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
        self._release()

    def store(
        self, rows: Sequence[Mapping[str, Any]] | pyarrow.Table, columns: pyarrow.Schema | None = None, name: str | None = None
    ) -> None:
        """Keep rows as the part `name`, or as the next of the series `part`."""
        if name is None:
            numbers = [int(part.stem.rpartition("-")[2]) for part in self.parts("part")]
            name = f"part-{max(numbers, default=-1) + 1:06d}"
        write_table(self.own / "parts" / f"{name}.parquet", rows, columns, remedy=ANOTHER)

    def parts(self, series: str | None = None) -> list[Path]:
        """The parts of one series, or all, in the order of their names."""
        return [part for part in read_parts(self.own) if series is None or part.stem.rpartition("-")[0] == series]

    def rows(self, columns: pyarrow.Schema, series: str | None = None) -> pyarrow.Table:
        """The rows of all parts of one series, or of all."""
        return read_rows(self.parts(series), columns, self.remedy)

    def drop(self, part: Path) -> None:
        """Delete a part; its rows will be computed again."""
        with writing(part):
            part.unlink(missing_ok=True)

    def _look(self) -> dict[str, Any] | None:
        """The stored settings if that run may continue; None if there is no run and one may begin. Writes nothing."""
        inside = self.own.relative_to(self.path).as_posix()
        stored = refuse_foreign(self.path, self.kind, inside)
        if stored is None:
            return None
        if not _other_files(self.path, self.own / "settings.json"):
            return {**{name: stored[name] for name in FOLDERS_OWN}, **self.settings}
        self._refuse_other_settings(stored)
        return stored

    def _refuse_other_settings(self, stored: Mapping[str, Any]) -> None:
        """Setting by setting, in the order given; a hash is compared through the setting that it identifies, if that is set."""
        stands_for = {content: name for name, content in self._same_content.items()}
        for name in dict.fromkeys([*self.settings, *stored]):
            before, now = stored.get(name), self.settings.get(name)
            if name in FOLDERS_OWN or (name in self._may_grow and _has_grown(before, now)):
                continue
            if name in stands_for and self.settings.get(stands_for[name]) is not None:
                continue
            if (content := self._same_content.get(name)) and before is not None and now is not None:
                if stored.get(content) == self.settings.get(content):
                    continue
                before, now = f"{before} ({stored.get(content)})", f"{now} ({self.settings.get(content)})"
            while isinstance(before, dict) and isinstance(now, dict) and before != now:  # the first option that differs
                option = next(one for one in [*now, *before] if before.get(one) != now.get(one))
                name, before, now = f"{name}_{option}" if option == "name" else option, before.get(option), now.get(option)
            if before != now:
                shown = name if name.isidentifier() else repr(name)
                raise InputError(
                    f"{str(self.path)!r} holds a run with {shown} {_show(before)}, not {_show(now)}: "
                    "give the same settings to continue it, or another --out folder"
                )

    def _settle(self, stored: dict[str, Any] | None) -> None:
        """Under the lock: settings written where they are new or have grown, leftovers of a kill removed."""
        new = {"kind": self.kind, "format": FORMAT, "begun": provenance()}
        grown = {name: self.settings[name] for name in self._may_grow if name in self.settings}
        settings = {**new, **self.settings} if stored is None else {**stored, **grown}
        if settings != (read_object(self.own / "settings.json") if stored else None):
            write_json(self.own / "settings.json", settings, ANOTHER)
        with writing(self.path, ANOTHER):
            for folder in {self.path, self.own, self.own / "parts"}:
                for stale in folder.glob(TEMPORARY):
                    stale.unlink(missing_ok=True)

    def _take_lock(self) -> None:
        import fcntl

        self._made = [folder for folder in (self.own, *self.own.parents) if not os.path.lexists(folder)]
        with writing(self.own / ".lock", ANOTHER):
            self.own.mkdir(parents=True, exist_ok=True)
            self._lock = open(self.own / ".lock", "ab")
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._release()
                raise InputError(f"another run is writing to {str(self.path)!r}: wait for it, or {ANOTHER}") from None

    def _release(self) -> None:
        if self._lock:
            self._lock.close()
            self._lock = None


def refuse_foreign(path: Path, kind: str, inside: str = "") -> dict[str, Any] | None:
    """The stored settings of the run in a folder, None where one may begin; a folder of anything else is refused.

    Needs no model, and writes nothing: to be called before one is loaded.
    """
    refuse_unmakeable(path, ANOTHER)
    settings = path / inside / "settings.json"
    with writing(path, ANOTHER):
        if path.exists() and not path.is_dir():
            raise InputError(f"{str(path)!r} is a file: {ANOTHER}")
        there = settings.is_file()
        more = _other_files(path, settings)
    if not there:
        if more:
            raise InputError(f"folder {str(path)!r} is not empty and holds no run: {ANOTHER}")
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
    stored = read_object(file, remedy="start again in another --out folder")
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
        table = read_table(part, remedy=remedy)
        if not table.schema.equals(columns):
            raise InputError(f"{str(part)!r} is damaged (it has other columns): {remedy}")
        tables.append(table.replace_schema_metadata(columns.metadata))
    return pyarrow.concat_tables(tables)


@contextmanager
def on_a_thread() -> Iterator[Callable[..., None]]:
    """A function that calls another on a thread while the caller goes on, for writing parts.

    Each call waits for the one before, as does the end of the block; what went wrong in a call is raised there.
    """
    pending: list[Future[Any]] = []

    def finish() -> None:
        while pending:
            pending.pop().result()

    def call(function: Callable[..., Any], *arguments: Any) -> None:
        finish()
        pending.append(thread.submit(function, *arguments))

    with ThreadPoolExecutor(1) as thread:
        try:
            yield call
        finally:
            finish()


def _has_grown(before: object, now: object) -> bool:
    return type(before) in (int, float) and type(now) in (int, float) and before < now  # type: ignore[operator]


def _show(value: object) -> str:
    if value is None or value == []:
        return "unset"
    text = " ".join((",".join(map(str, value)) if isinstance(value, list) else str(value)).split())
    return text if len(text) <= 80 else text[:77] + "..."
