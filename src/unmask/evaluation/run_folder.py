"""The folder of a run: what was asked, what is done, what failed. Safe against a kill at any moment.

Rows are kept in part files that appear by an atomic rename and hold whole pairs only, so a pair is either stored or not.
A lock that dies with its process keeps two runs from one folder.

    settings.json    what was asked; a run with other settings is refused
    pairs.jsonl      the chosen pairs, readable as a pairs file
    parts/*.parquet  rows, one a pair and construction, written as the run goes
    failures.jsonl   pairs that failed in the latest run, with the reason; they are tried again by the next
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from unmask.errors import InputError
from unmask.evaluation.results import as_table
from unmask.runs.files import begun, write_atomically, writing

if TYPE_CHECKING:
    import pandas
    import pyarrow

NAMED_BY_CONTENT = {"model": "weights", "data": "data_sha256", "pairs_file": "pairs_sha256"}
"""Settings that may be written differently as long as what they name is the same: setting, and the one that is compared."""


def content_hash(text: str) -> str:
    """Identifies a content."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class RunFolder:
    """One run's folder, held for writing between `with` and its end."""

    def __init__(self, path: Path | str, settings: Mapping[str, Any], pairs: str, columns: pyarrow.Schema) -> None:
        self.path = Path(path).expanduser()
        self.parts = self.path / "parts"
        self.failures = self.path / "failures.jsonl"
        self.settings = dict(settings)
        self.columns = columns
        self._pairs = pairs
        self._lock: IO[bytes] | None = None
        self._next_part = 0

    def __enter__(self) -> RunFolder:
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = open(self.path / ".lock", "wb")
        self._take_lock()
        try:
            self._settle()
        except BaseException:
            self._lock.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._lock:
            self._lock.close()

    def _take_lock(self) -> None:
        import fcntl

        assert self._lock
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise InputError(
                f"another run is writing to {str(self.path)!r}: wait for it, or choose another --out folder"
            ) from None

    def _settle(self) -> None:
        settings = self.path / "settings.json"
        if settings.exists():
            self._refuse_other_settings(settings)
        else:
            if any(not entry.name.startswith(".") for entry in self.path.iterdir()):
                raise InputError(f"folder {str(self.path)!r} is not empty and holds no run: choose a new --out folder")
            write_atomically(settings, _json_bytes({**self.settings, "begun": begun()}))
        if not (self.path / "pairs.jsonl").exists():
            write_atomically(self.path / "pairs.jsonl", self._pairs.encode())
        with writing(self.path):
            self.parts.mkdir(exist_ok=True)
            for stale in self.parts.glob(".*.tmp"):
                stale.unlink()
            self.failures.unlink(missing_ok=True)
        self._next_part = 1 + max((int(p.stem.removeprefix("part-")) for p in self._part_files()), default=-1)

    def _refuse_other_settings(self, path: Path) -> None:
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{str(path)!r} cannot be read ({error}): choose another --out folder") from None
        for name, now in self.settings.items():
            before = stored.get(name)
            content = NAMED_BY_CONTENT.get(name)
            if content and before is not None and now is not None:
                if stored.get(content) == self.settings.get(content):
                    continue
                before, now = f"{before} ({stored.get(content)})", f"{now} ({self.settings.get(content)})"
            if before != now:
                raise InputError(
                    f"{str(self.path)!r} holds a run with {name} {_show(before)}, not {_show(now)}: "
                    "give the same settings to continue it, or another --out folder"
                )

    def _part_files(self) -> list[Path]:
        return sorted(self.parts.glob("part-*.parquet"))

    def done(self) -> set[int]:
        """Indices of the pairs whose rows are stored."""
        return {int(i) for part in self._part_files() for i in self._read(part, ["pair"])["pair"].to_pylist()}

    def store(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep the rows of whole pairs; when this returns, they are on the disk."""
        import pyarrow
        from pyarrow import parquet

        buffer = pyarrow.BufferOutputStream()
        parquet.write_table(as_table(rows, self.columns), buffer)
        write_atomically(self.parts / f"part-{self._next_part:06d}.parquet", buffer.getvalue().to_pybytes())
        self._next_part += 1

    def record_failure(self, failure: Mapping[str, Any]) -> None:
        """Append one failed pair to failures.jsonl."""
        with writing(self.failures), open(self.failures, "a", encoding="utf-8") as file:
            file.write(json.dumps(failure, ensure_ascii=False) + "\n")

    def rows(self) -> pandas.DataFrame:
        """All stored rows, in the order of the pairs and, within a pair, of the constructions asked for."""
        import pyarrow

        parts = [self._read(part, None) for part in self._part_files()]
        frame: pandas.DataFrame = pyarrow.concat_tables([self.columns.empty_table(), *parts]).to_pandas()
        place = {name: i for i, name in enumerate(self.settings["constructions"])}
        order = frame["construction"].map(place)
        return (
            frame.assign(_order=order)
            .sort_values(["pair", "_order"], kind="stable")
            .drop(columns="_order")
            .reset_index(drop=True)
        )

    def _read(self, part: Path, columns: list[str] | None) -> pyarrow.Table:
        from pyarrow import parquet

        try:
            return parquet.read_table(part, columns=columns)
        except Exception as error:
            line = str(error).splitlines()[0]
            raise InputError(f"{str(part)!r} cannot be read ({line}): delete it and give the same command again") from None


def _json_bytes(value: object) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


def _show(value: object) -> str:
    return "unset" if value is None else str(value) if not isinstance(value, list) else ",".join(map(str, value))
