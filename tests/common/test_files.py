import errno
import json
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask.common import files
from unmask.common.errors import InputError


def one_line(error: pytest.ExceptionInfo[InputError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert ": " in text
    return text


def test_a_file_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    files.write_atomically(tmp_path / "deep" / "x", b"before")
    monkeypatch.setattr(
        os, "replace", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "Input/output error"))
    )
    with pytest.raises(InputError, match=r"cannot be written \(Input/output error\)"):
        files.write_atomically(tmp_path / "deep" / "x", b"after")
    assert (tmp_path / "deep" / "x").read_bytes() == b"before"
    assert os.listdir(tmp_path / "deep") == ["x"]


def test_a_full_disk_is_one_line(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="no space left on the disk of .*: free some") as error:
        files.write_json(tmp_path / "x.json", {})
    one_line(error)
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_device_is_not_replaced():
    with pytest.raises(InputError, match="'/dev/full' is not a regular file: name a file"):
        files.write_atomically(Path("/dev/full"), "text")
    assert Path("/dev/full").is_char_device()


def test_a_folder_or_a_path_through_a_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="is a folder: name a file"):
        files.write_atomically(tmp_path, "text")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match=r"cannot be written \(.*\): choose another folder"):
        files.write_atomically(tmp_path / "file" / "x", "text")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "real").write_text("before")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    files.write_atomically(tmp_path / "link", "after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "after"


def test_a_folder_without_permission_is_one_line():
    """As another user where the tests are run by root, whom permissions do not bind."""
    with tempfile.TemporaryDirectory() as locked:
        os.chmod(locked, 0o555)
        user = os.geteuid()
        try:
            if user == 0:
                os.seteuid(65534)
            with pytest.raises(InputError, match=r"cannot be written \(Permission denied\)"):
                files.write_atomically(Path(locked) / "x", "text")
        finally:
            os.seteuid(user)
            os.chmod(locked, 0o755)


def test_a_file_that_another_program_has_open_on_windows_is_waited_for(tmp_path, monkeypatch):
    replace, tries = os.replace, []

    def refusing(source, target):
        tries.append(source)
        if len(tries) < 3:
            error = PermissionError(errno.EACCES, "The process cannot access the file")
            error.winerror = 32
            raise error
        replace(source, target)

    monkeypatch.setattr(os, "replace", refusing)
    files.write_atomically(tmp_path / "x", "text")
    assert len(tries) == 3
    assert (tmp_path / "x").read_text() == "text"
    monkeypatch.setattr(files, "LONGEST_WAIT", 0.0)
    tries.clear()
    with pytest.raises(InputError, match="cannot be written"):
        files.write_atomically(tmp_path / "x", "other")
    assert (tmp_path / "x").read_text() == "text"
    assert len(tries) <= 2


def test_no_permission_elsewhere_is_said_at_once(tmp_path, monkeypatch):
    tries = []

    def refusing(source, target):
        tries.append(source)
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "replace", refusing)
    with pytest.raises(InputError, match="Permission denied"):
        files.write_atomically(tmp_path / "x", "text")
    assert len(tries) == 1


def test_a_drive_that_is_not_there_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(os.path, "lexists", lambda path: False)
    with pytest.raises(
        InputError, match=r"cannot be written \(there is no '/'\): choose another folder"
    ) as error:
        files.refuse_unmakeable(tmp_path / "new")
    one_line(error)


@pytest.mark.parametrize("path", ["x" * 256, "é" * 200, "x/" * 3000, "a\ud800b", "\udfff.json"])
def test_what_no_path_can_be_is_one_line(path):
    with pytest.raises(
        InputError,
        match="longer than a path can be: give a shorter one|which no path can hold here",
    ) as error:
        files.user_path(path, "out")
    assert len(one_line(error)) < 200
    assert one_line(error).isprintable()


def test_the_longest_name_and_bytes_that_are_no_utf8_are_paths(tmp_path):
    longest = tmp_path / ("x" * 255)
    assert files.user_path(longest) == longest
    strange = os.fsdecode(b"caf\xe9")
    assert files.user_path(strange).name == strange


def test_user_paths(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert files.user_path("~/runs") == tmp_path / "runs"
    for bad in ("", "a\0b", "~nobody-of-this-name/x"):
        with pytest.raises(InputError, match="out '") as error:
            files.user_path(bad, "out")
        one_line(error)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_json_comes_back_as_it_was(value):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.json"
        try:
            files.write_json(path, {"value": value})
        except InputError as error:
            assert "surrogate" in str(error)
            return
        assert files.read_object(path) == {"value": value}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "not JSON"),
        (b"", "not JSON"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (b'{"n": ' + b"9" * 5000 + b"}", "not JSON: Exceeds the limit"),
        (b'{"t": "\\ud800"}', "half of a surrogate pair"),
        (b'{"t": "\xff"}', "position 7: invalid start byte"),
        (b"[1]", "a JSON list, not an object"),
        (b"{}", "it lacks 'seed'"),
    ],
)
def test_a_damaged_json_file_is_one_line_with_the_remedy(tmp_path, content, said):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(InputError, match=rf"x.json' is .*{said}.*: start again") as error:
        files.read_object(tmp_path / "x.json", ["seed"], "start again")
    one_line(error)


def test_missing_files_and_folders_for_files_are_one_line(tmp_path):
    for read in (files.read_bytes, files.read_object, files.read_table):
        with pytest.raises(InputError, match="does not exist") as error:
            read(tmp_path / "nothing")
        one_line(error)
        with pytest.raises(InputError, match="is a folder: give a file") as error:
            read(tmp_path)
        one_line(error)


def test_tables_come_back_with_what_is_known_about_them(tmp_path):
    rows = [{"pair": 1, "text": "a"}, {"pair": 2, "text": "b"}]
    files.write_table(tmp_path / "a", rows, about={"model": "abc", "rows": 2})
    files.write_table(tmp_path / "b", pd.DataFrame(rows))
    assert (
        files.read_table(tmp_path / "a").to_pylist()
        == files.read_table(tmp_path / "b").to_pylist()
        == rows
    )
    assert json.loads(files.read_table(tmp_path / "a").schema.metadata[b"unmask"]) == {
        "model": "abc",
        "rows": 2,
    }


def test_a_table_cut_at_any_byte_or_with_any_byte_changed_is_not_read_wrong(tmp_path):
    rows = [{"pair": n, "x": n / 7} for n in range(20)]
    files.write_table(tmp_path / "a", rows, about={"rows": 20})
    whole = (tmp_path / "a").read_bytes()
    for cut in range(len(whole)):
        (tmp_path / "a").write_bytes(whole[:cut])
        with pytest.raises(InputError, match="damaged .*: make the file again") as error:
            files.read_table(tmp_path / "a")
        one_line(error)
    draw = np.random.default_rng(0)
    for place in draw.choice(len(whole), 200, replace=False):
        (tmp_path / "a").write_bytes(
            whole[:place] + bytes([whole[place] ^ 1 << draw.integers(8)]) + whole[place + 1 :]
        )
        try:
            assert files.read_table(tmp_path / "a")["x"].to_pylist() == [row["x"] for row in rows]
        except (InputError, KeyError):
            continue


@pytest.mark.parametrize(
    "name", ["a-file/x", "a-file/x/y", "loop", "loop/x", "dangling", "dangling/x", "x" * 300]
)
def test_where_no_folder_can_be_made_is_said_before_any_work(tmp_path, name):
    (tmp_path / "a-file").write_text("mine")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="cannot be written"):
        files.refuse_unmakeable(tmp_path / name)


def test_threads_that_write_one_file_leave_it_whole(tmp_path):
    texts = [str(number) * 10_000 for number in range(8)]

    def write(text):
        for _ in range(20):
            files.write_atomically(tmp_path / "file", text)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, texts))
    assert (tmp_path / "file").read_text() in texts
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
