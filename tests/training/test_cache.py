"""A cache that two processes fill at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from unmask.training.cache import cached


def test_what_another_process_made_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ours(folder: Path) -> None:
        (folder / "numbers").write_text("ours")
        monkeypatch.setattr(os, "getpid", lambda: 1)
        cached(tmp_path, "rows", {"seed": 0}, theirs)

    def theirs(folder: Path) -> None:
        (folder / "numbers").write_text("theirs")

    folder = cached(tmp_path, "rows", {"seed": 0}, ours)
    assert (folder / "numbers").read_text() == "theirs"
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
