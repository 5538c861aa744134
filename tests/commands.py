"""Commands as a user types them, run in this process."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest import mock

from unmask.cli.app import run


class Invoked(NamedTuple):
    """How a command ended, and what it printed."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


def invoke(*words: object, text: str | bytes | None = None, columns: int = 80, env: Mapping[str, str] | None = None) -> Invoked:
    """`unmask WORDS...`, with `text` on standard input."""
    typed = io.TextIOWrapper(io.BytesIO(text.encode() if isinstance(text, str) else text or b""), "utf-8")
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2)]
    names = {"COLUMNS": str(columns), **(env or {})}
    with mock.patch.object(sys, "stdin", typed), mock.patch.dict("os.environ", names):
        with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
            code = run([str(word) for word in words])
    printed = []
    for stream in streams:
        stream.flush()
        printed.append(stream.buffer.getvalue().decode())
    return Invoked(code, *printed)
