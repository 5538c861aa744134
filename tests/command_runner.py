"""Runs a command line in this process, with streams of its own."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from unittest.mock import patch

from unmask.cli import app


@dataclass(frozen=True)
class Done:
    """What a command printed, and how it ended."""

    exit_code: int
    stdout: str
    stderr: str
    exception: BaseException | None = None

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


def invoke(
    words: Sequence[str], input: str | bytes | None = None, env: Mapping[str, str] | None = None, catch_exceptions: bool = True
) -> Done:
    """`unmask WORDS`; a defect of ours is raised, or (by default) returned as `exception` with exit code 1."""
    given = input.encode() if isinstance(input, str) else input or b""
    streams = {name: io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for name in ("stdout", "stderr")}
    streams["stdin"] = io.TextIOWrapper(io.BytesIO(given), "utf-8")
    error = None
    with patch.multiple(sys, **streams), patch.dict(os.environ, dict(env or {})):
        try:
            code = app.run([str(word) for word in words])
        except Exception as raised:
            if not catch_exceptions:
                raise
            code, error = 1, raised
    printed = [streams[name].buffer.getvalue().decode() for name in ("stdout", "stderr")]
    return Done(code, printed[0], printed[1], error)
