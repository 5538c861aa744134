"""Both sides of a comparison: their sources, their workers, and the files that these write."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tarfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
SETTINGS = tomllib.loads((HERE / "settings.toml").read_text(encoding="utf-8"))
ALONE = ("train/", "translate/", "command/", "commands/", "check/", "page/", "refused/")
"""Calls that are made with one thread only: what they do with two is what others do with two."""

Call = dict[str, Any]


@dataclass(frozen=True)
class Worker:
    """A worker that was started: its process, and the files of its values and of what it
    printed.
    """

    process: subprocess.Popen[bytes]
    output: Path
    log: Path

    def finish(self) -> Path:
        """Wait for the end, which must be a good one; the file of its values."""
        if self.process.wait() != 0:
            end = self.log.read_text(encoding="utf-8", errors="replace")[-3000:]
            raise SystemExit(f"a worker ended with exit code {self.process.returncode}:\n{end}")
        return self.output


def checkout(name: str, scratch: Path) -> Path:
    """A folder with the sources of a checkout: that folder, or a new one with those of a
    revision.
    """
    if Path(name).is_dir():
        return Path(name).resolve()
    archive = subprocess.run(
        ["git", "-C", str(REPOSITORY), "archive", name, "src"], capture_output=True, check=False
    )
    if archive.returncode != 0:
        raise SystemExit(
            f"{name} is neither a folder nor a revision: {archive.stderr.decode().strip()}"
        )
    folder = scratch / "checkouts" / name.replace("/", "-")
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder


def commit_of_issue(issue: str) -> str:
    """The commit at the end of an issue, from the settings."""
    commit: str = SETTINGS["commits"].get(issue, "")
    if not commit:
        raise SystemExit(
            f"tools/same/settings.toml has no commit at the end of issue {issue}: fill it in under"
            " [commits]"
        )
    return commit


def with_two_threads(calls: Sequence[Call]) -> list[Call]:
    """The calls that are made again with two threads."""
    suited = [call for call in calls if not call["name"].startswith(ALONE)]
    return suited[:: SETTINGS["run"]["two_threads_every"]]


def start(
    source: Path,
    calls: Iterable[Call],
    scratch: Path,
    name: str,
    threads: int = 1,
    fault: str = "",
    python: str = sys.executable,
) -> Worker:
    """Start the worker of a checkout."""
    folder = scratch / name
    work = folder / "work"
    work.mkdir(parents=True)
    (work / "materials").symlink_to(scratch / "materials", target_is_directory=True)
    job = {
        "checkout": str(source),
        "calls": [*calls],
        "threads": threads,
        "fault": fault,
        "memory_kb": SETTINGS["run"]["memory_kb"],
        "work": str(work),
        "output": str(folder / "values.jsonl"),
    }
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    log = folder / "log.txt"
    with open(log, "wb") as stream:
        process = subprocess.Popen(
            [python, "-m", "same.worker", str(folder / "job.json")],
            env=environment(source, threads),
            stdout=stream,
            stderr=stream,
        )
    return Worker(process, folder / "values.jsonl", log)


def environment(source: Path, threads: int) -> dict[str, str]:
    """The environment of a worker: the same for both sides, besides where unmask is."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("UNMASK", "COLUMNS", "LINES", "PYTHON"))
    }
    fixed = {
        "PYTHONPATH": os.pathsep.join([str(source / "src"), str(HERE.parent)]),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",
        "MPLBACKEND": "agg",
        "CUDA_VISIBLE_DEVICES": "",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "COLUMNS": "100",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }
    return {**kept, **fixed}


def seconds_of_workers() -> float:
    """Processor time of all workers that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Clock:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self.began = time.monotonic()

    def __str__(self) -> str:
        return f"{time.monotonic() - self.began:.0f} s, {seconds_of_workers():.0f} s of processors"
