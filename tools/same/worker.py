"""The process that makes the calls of one checkout, whose src is on PYTHONPATH.

    python -m same.worker JOB.json

The job says which calls, how many threads, where the materials are, and which fault is planted
(`faults.py`). Calls are made in their order, one after the other. For each call the worker writes
one JSON line: the call's name, and its values:

    result/...   of its result
    files/...    of the files that it wrote into the folder `out`
    rows/...     of the rows of a run's folder
    warnings     the kinds of its warnings, and whether each points at the caller
    raised       the kind of its error, and at which step
"""

from __future__ import annotations

import io
import json
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from same.adapters import Names57, adapter_of_checkout, clear
from same.values import Value, below, message, named_values, text

MEMORY_FILE = "/proc/meminfo"
READ_AS_TABLES = (".csv", ".tsv")


def run_job(job: Mapping[str, Any]) -> None:
    """Make all calls of a job."""
    fix_machine(job["threads"], job["memory_kb"])
    import torch

    import unmask

    repeat_least_squares()
    source = Path(job["checkout"]).resolve() / "src"
    if source not in Path(unmask.__file__).resolve().parents:
        raise SystemExit(f"unmask is imported from {unmask.__file__}, not from {source}")
    torch.set_num_threads(job["threads"])
    adapter = adapter_of_checkout()
    if job["fault"]:
        from same.faults import FAULTS

        FAULTS[job["fault"]].plant(adapter)
    work = Path(job["work"])
    os.chdir(work)
    with open(job["output"], "w", encoding="utf-8") as output:
        for call in job["calls"]:
            (work / "out").mkdir()
            values = values_of_call(adapter, call, work)
            stored = {name: value.to_json() for name, value in values.items()}
            output.write(json.dumps({"call": call["name"], "values": stored}) + "\n")
            output.flush()
            clear(work)


def fix_machine(threads: int, memory_kb: int) -> None:
    """Give every worker the same threads, and let every worker read the same free memory."""
    import builtins

    os.environ["OMP_NUM_THREADS"] = str(threads)
    opened = builtins.open
    content = "".join(
        f"{name}: {memory_kb} kB\n" for name in ("MemTotal", "MemFree", "MemAvailable")
    )

    def open_fixed(file: Any, *arguments: Any, **options: Any) -> Any:
        if file == MEMORY_FILE:
            return io.StringIO(content)
        return opened(file, *arguments, **options)

    builtins.open = open_fixed  # type: ignore[assignment]


def repeat_least_squares() -> None:
    """Solve least squares by numpy: torch.linalg.lstsq changes its last bits from call to call."""
    import numpy
    import torch

    class Solved(NamedTuple):
        solution: torch.Tensor

    def lstsq(equations: torch.Tensor, right: torch.Tensor) -> Solved:
        solution, *_ = numpy.linalg.lstsq(equations.numpy(), right.numpy(), rcond=None)
        return Solved(torch.from_numpy(solution))

    torch.linalg.lstsq = lstsq  # type: ignore[assignment]


def values_of_call(adapter: Names57, call: Mapping[str, Any], work: Path) -> dict[str, Value]:
    """All values of one call, by name."""
    values: dict[str, Value] = {}
    step = "call"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = adapter.call(call["verb"], call["arguments"])
            step = "result"
            values.update(renamed(adapter, named_values(result, adapter.parts, "result")))
            step = "files"
        except Exception as error:  # of every kind: which one is a value
            values["raised"] = text(f"{adapter.kind_of(error)} at {step}")
            values["raised/message"] = message(str(error).replace(str(work), "."))
            values["raised/where"] = message(function_of(error))
        values.update(renamed(adapter, file_values(adapter, work / "out")))
    kinds = []
    for warning in caught:
        if is_ours(warning):
            kinds.append(f"{adapter.kind_of(warning.category)} at {place_of(warning.filename)}")
    values["warnings"] = text(json.dumps(kinds))
    values["warnings/messages"] = message(
        json.dumps([str(warning.message) for warning in caught if is_ours(warning)])
    )
    return values


def function_of(error: BaseException) -> str:
    """The function that raised, without the names of files and numbers of lines."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.name} in {Path(last.filename).name}"


def renamed(adapter: Names57, values: Iterator[tuple[str, Value]]) -> Iterator[tuple[str, Value]]:
    """The values, with the names of the end of issue 57."""
    for name, value in values:
        yield adapter.key(name), value


def is_ours(warning: warnings.WarningMessage) -> bool:
    """Whether a warning is one of unmask's; a library warns once per process, wherever it is
    met.
    """
    return (
        warning.category.__module__.partition(".")[0] == "unmask"
        or place_of(warning.filename) == "unmask"
    )


def place_of(file: str) -> str:
    """Where a warning points: at unmask itself, at the code that called it, or at a library."""
    parts = Path(file).parts
    if "site-packages" in parts:
        return "a library"
    if "unmask" in parts and "src" in parts:
        return "unmask"
    return "the caller"


def file_values(adapter: Names57, folder: Path) -> Iterator[tuple[str, Value]]:
    """What a call wrote: rows of a run's parts, and the contents of files of numbers and texts."""
    listed = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        if path.parent.name == "parts" or path.name.startswith(".") or path.suffix == ".pt":
            continue  # parts are joined below; locks and snapshots are no results
        listed.append(name)
        yield from named_values(content_of(path), adapter.parts, below("files", name))
    yield "files", text(json.dumps(listed))
    for run in sorted({path.parent.parent for path in folder.rglob("parts/*.parquet")}):
        yield from named_values(
            adapter.stored_rows(run),
            adapter.parts,
            below("rows", run.relative_to(folder).as_posix()),
        )


def content_of(path: Path) -> Any:
    """What a file holds; nothing of figures and prose, and of weights, which their calls return."""
    import pandas

    if path.suffix == ".parquet":
        return pandas.read_parquet(path)
    if path.suffix in READ_AS_TABLES:
        return path.read_text(encoding="utf-8").splitlines()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if path.suffix == ".json" and not path.name.startswith(("tokenizer", "config")):
        return json.loads(path.read_text(encoding="utf-8"))
    return {}


if __name__ == "__main__":
    run_job(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
