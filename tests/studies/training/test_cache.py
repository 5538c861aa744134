"""Folders of the cache."""

from __future__ import annotations

from unmask.studies.training.cache import cached


def test_what_another_process_made_meanwhile_stays(tmp_path, monkeypatch):
    """A process with the same number on another machine, too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def ours(folder):
        (folder / "numbers").write_text("ours")
        cached("rows", {"seed": 0}, theirs)

    def theirs(folder):
        (folder / "numbers").write_text("theirs")

    folder = cached("rows", {"seed": 0}, ours)
    assert (folder / "numbers").read_text() == "theirs"
    assert [path.name for path in (tmp_path / "cache" / "unmask").iterdir()] == [folder.name]
