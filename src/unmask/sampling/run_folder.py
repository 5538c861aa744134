"""The folder of a run, safe against a kill at any moment.

    settings.json        what was asked; a run with other settings is refused once there is a checkpoint, more sweeps are welcome
    starts.parquet       the texts that the chains started from
    parts/*.parquet      samples, written as the run goes; a part's name ends with its last sweep
    checkpoints/*.npz    where each group of chains is; written after the part that leads up to it
    samples.parquet      all samples, when the run is done
    rates.parquet        per position: steps, accepted, proposed, changed
    diagnostics.json, figures/

Files appear by an atomic rename. A part that is newer than its group's checkpoint is dropped when the run goes on: the
same sweeps are drawn again, and come out the same.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from unmask.errors import InputError
from unmask.runs.files import begun, write_atomically, writing
from unmask.sampling.markov_run import Snapshot

if TYPE_CHECKING:
    import pandas
    import pyarrow

MAY_GROW = "sweeps"
"""The setting that may be larger than before: the run then goes on to it."""


def sample_columns() -> pyarrow.Schema:
    """The columns of samples.parquet."""
    import pyarrow as pa

    return pa.schema(
        [
            ("chain", pa.int32()),
            ("sweep", pa.int32()),
            ("text", pa.string()),
            ("energy", pa.float64()),
            ("log_prob", pa.float64()),
            ("passes", pa.int64()),
            ("length", pa.int32()),
            ("ids", pa.list_(pa.int32())),
        ]
    )


class RunFolder:
    """Held for writing between `with` and its end."""

    def __init__(self, path: Path | str, settings: Mapping[str, Any]) -> None:
        self.path = Path(path).expanduser()
        self.settings = dict(settings)
        self._lock: IO[bytes] | None = None

    def __enter__(self) -> RunFolder:
        with writing(self.path):
            for folder in (self.path, self.path / "parts", self.path / "checkpoints"):
                folder.mkdir(parents=True, exist_ok=True)
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
        path = self.path / "settings.json"
        if path.exists() and any((self.path / "checkpoints").glob("*.npz")):
            stored = self._refuse_other_settings(path)
            if stored[MAY_GROW] < self.settings[MAY_GROW]:
                write_atomically(path, _json({**stored, MAY_GROW: self.settings[MAY_GROW]}))
            return
        ours = {"parts", "checkpoints"}
        if path.exists() and MAY_GROW in read_settings(self.path):
            ours.add("settings.json")
        if any(not entry.name.startswith(".") and entry.name not in ours for entry in self.path.iterdir()):
            raise InputError(f"folder {str(self.path)!r} is not empty and holds no run: choose a new --out folder")
        write_atomically(path, _json({**self.settings, "begun": begun()}))

    def _refuse_other_settings(self, path: Path) -> dict[str, Any]:
        stored = read_settings(path.parent)
        for name, now in self.settings.items():
            before = stored.get(name)
            grown = name == MAY_GROW and before is not None and before < now and self.settings["kernel"] != "annealing"
            if before != now and not grown and name != "model":
                raise InputError(
                    f"{str(self.path)!r} holds a run with {name} {_show(before)}, not {_show(now)}: "
                    "give the same settings to go on with it, or another --out folder"
                )
        return stored

    def checkpoint(self, group: int) -> Snapshot | None:
        """Where a group is; None before its first checkpoint. Parts beyond it are dropped."""
        path = self._checkpoint_path(group)
        saved = read_checkpoint(path) if path.exists() else None
        done = int(saved["done"]) if saved else 0
        for part in self._parts(group):
            if int(part.stem.rsplit("-", 1)[1]) > done:
                part.unlink()
        return saved

    def store(self, group: int, rows: Sequence[Mapping[str, Any]], snapshot: Snapshot) -> None:
        """Keep samples, then the state that follows them."""
        if rows:
            name = f"group-{group:04d}-{int(snapshot['done']):08d}.parquet"
            self._write_table(self.path / "parts" / name, list(rows), sample_columns())
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **snapshot)
        write_atomically(self._checkpoint_path(group), buffer.getvalue())

    def write_frame(self, name: str, frame: pandas.DataFrame) -> None:
        """A whole table as Parquet."""
        import pyarrow as pa

        self._write_table(self.path / name, pa.Table.from_pandas(frame, preserve_index=False), None)

    def write_json(self, name: str, value: object) -> None:
        """A whole value as JSON."""
        write_atomically(self.path / name, _json(value))

    def samples(self) -> pandas.DataFrame:
        """All samples so far, by chain and sweep."""
        return read_parts(self.path)

    def _parts(self, group: int) -> list[Path]:
        return sorted((self.path / "parts").glob(f"group-{group:04d}-*.parquet"))

    def _checkpoint_path(self, group: int) -> Path:
        return self.path / "checkpoints" / f"group-{group:04d}.npz"

    def _write_table(self, path: Path, rows: Any, columns: pyarrow.Schema | None) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        table = rows if columns is None else pa.Table.from_pylist(rows, schema=columns)
        buffer = pa.BufferOutputStream()
        parquet.write_table(table, buffer)
        write_atomically(path, buffer.getvalue().to_pybytes())


def frame_of(rows: Sequence[Mapping[str, Any]]) -> pandas.DataFrame:
    """Rows as they come back from samples.parquet."""
    import pyarrow as pa

    frame: pandas.DataFrame = pa.Table.from_pylist(list(rows), schema=sample_columns()).to_pandas()
    return frame


def read_checkpoint(path: Path) -> Snapshot:
    """One group's checkpoint."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except Exception as error:
        raise InputError(
            f"checkpoint {str(path)!r} cannot be read ({error}): delete it to run its chains again from the start"
        ) from None


def read_settings(path: Path) -> dict[str, Any]:
    """settings.json of the run in folder `path`."""
    file = path / "settings.json"
    if not file.is_file():
        raise InputError(f"folder {str(path)!r} holds no run: give the --out folder of an `unmask sample` run")
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{str(file)!r} cannot be read ({error}): choose another --out folder") from None


def read_parts(path: Path) -> pandas.DataFrame:
    """The samples of a run that may still be under way, by chain and sweep."""
    import pyarrow as pa

    tables = [_read_table(part) for part in sorted((path / "parts").glob("*.parquet"))]
    frame: pandas.DataFrame = pa.concat_tables([sample_columns().empty_table(), *tables]).to_pandas()
    return frame.sort_values(["chain", "sweep"], kind="stable").reset_index(drop=True)


def read_starts(path: Path, known: pandas.DataFrame) -> pandas.DataFrame:
    """The starts as starts.parquet has them, texts included; what is `known` of them while the run is under way."""
    file = path / "starts.parquet"
    if not file.is_file():
        return known
    frame: pandas.DataFrame = _read_table(file).to_pandas()
    return frame


def _read_table(path: Path) -> pyarrow.Table:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.read_table(path)
    except (OSError, pa.ArrowException) as error:
        why = str(error).splitlines()[0]
        raise InputError(f"{str(path)!r} is damaged ({why}): delete its run's folder and run again") from None


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def _show(value: object) -> str:
    if value is None or value == []:
        return "unset"
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
