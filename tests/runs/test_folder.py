import json
import multiprocessing
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from unmask import __version__
from unmask.common.errors import InputError
from unmask.runs.folder import FORMAT, RunFolder, read_parts, read_rows, read_settings

COLUMNS = pa.schema([("n", pa.int64())])
SETTINGS = {"model": "m", "weights": "w1", "sweeps": 10, "names": ("a", "b"), "seed": None}


class CountFolder(RunFolder):
    MAY_GROW = ("sweeps",)


def opened(path, settings=None) -> RunFolder:
    return CountFolder(path, "count", SETTINGS if settings is None else settings)


def numbers(folder: RunFolder, series: str = "*") -> list[int]:
    return read_rows(read_parts(folder.path, series), COLUMNS)["n"].to_pylist()


@pytest.fixture
def run(tmp_path) -> Path:
    with opened(tmp_path / "run") as folder:
        for start in (0, 10, 20):
            folder.store([{"n": start}, {"n": start + 1}], COLUMNS)
    return tmp_path / "run"


def everything(folder: Path) -> dict[str, object]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        if path.is_file()
        else None
        for path in sorted(folder.rglob("*"))
    }


def test_parts_that_somebody_moved_copied_or_cut_are_refused(run):
    first, second, _ = read_parts(run)
    rows, whole = parquet.read_table(first), second.read_bytes()
    second.write_bytes(first.read_bytes())
    with pytest.raises(
        InputError,
        match="part-000001.parquet' is the part 'part-000000' under another name: delete it",
    ):
        numbers(opened(run))
    for changed in (rows.slice(0, 1), pa.concat_tables([rows, rows.slice(1)])):
        second.write_bytes(whole)
        parquet.write_table(changed, first)
        with pytest.raises(
            InputError, match=f"damaged .it has {len(changed)} rows of 2.: delete it"
        ):
            numbers(opened(run))
    parquet.write_table(rows.replace_schema_metadata(None), first)
    assert numbers(opened(run)) == [0, 1, 10, 11, 20, 21]


def test_a_run_goes_on_where_it_stopped(run):
    with opened(run) as folder:
        assert numbers(folder) == [0, 1, 10, 11, 20, 21]
        folder.store([{"n": 30}], COLUMNS)
        assert [part.stem for part in read_parts(folder.path)] == [
            f"part-00000{i}" for i in range(4)
        ]
    stored = read_settings(run, "count")
    assert stored["sweeps"] == 10
    assert stored["names"] == ["a", "b"]
    assert {"date", "command", "versions"} <= stored["begun"].keys()
    assert read_rows(read_parts(run), COLUMNS)["n"].to_pylist() == [0, 1, 10, 11, 20, 21, 30]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 1}, "seed None, not 1"),
        ({"sweeps": 9}, "sweeps 10, not 9"),
        ({"names": ["a"]}, r"names \['a', 'b'\], not \['a'\]"),
        ({"weights": "w2"}, r"model 'm \(w1\)', not 'm \(w2\)'"),
        ({"more": 3}, "more None, not 3"),
    ],
)
def test_other_settings_are_refused_by_name_and_nothing_is_touched(run, change, said):
    before = everything(run)
    with pytest.raises(InputError, match=f"holds a run with {said}: give the same settings"):
        opened(run, {**SETTINGS, **change}).__enter__()
    assert everything(run) == before


@pytest.mark.parametrize("other", [None, 0, FORMAT + 1, "1", {"a": 1}])
@pytest.mark.parametrize(
    ("begun", "release"),
    [
        ({"versions": {"unmask": "0.0.9"}}, "unmask 0.0.9"),
        ({"versions": {"unmask": __version__}}, f"another commit of unmask {__version__}"),
        ({}, "another release"),
        (None, "another release"),
        ("long ago", "another release"),
    ],
)
def test_a_run_of_another_format_is_refused_and_left_as_it_was(run, other, begun, release):
    stored = {**json.loads((run / "settings.json").read_text()), "format": other, "begun": begun}
    if other is None:  # as releases wrote it before there was a number
        del stored["format"]
    (run / "settings.json").write_text(json.dumps(stored))
    before, stated = everything(run), "no format" if other is None else "format "
    for use in (lambda: opened(run).__enter__(), lambda: read_settings(run, "count")):
        message = (
            f"holds a run of {release}, with {stated}.*, and this one writes format {FORMAT}: use"
        )
        with pytest.raises(InputError, match=message) as error:
            use()
        assert "\n" not in str(error.value)
        assert "start again in another folder" in str(error.value)
    assert everything(run) == before


def test_a_run_states_its_format(run):
    assert json.loads((run / "settings.json").read_text())["format"] == FORMAT


def test_settings_may_grow_and_be_written_differently(run):
    with opened(run, {**SETTINGS, "sweeps": 20, "model": "./m"}) as folder:
        assert len(numbers(folder)) == 6
    stored = json.loads((run / "settings.json").read_text())
    assert stored["sweeps"] == 20
    assert stored["model"] == "m"


def test_a_failure_before_any_part_leaves_no_new_folder(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(InputError, match="too early"), opened(tmp_path / "a" / "b" / "c" / "run"):
        (tmp_path / "a" / "b" / "mine").touch()
        raise InputError("too early")
    assert [path.name for path in (tmp_path / "a").rglob("*")] == ["b", "mine"]


def test_settings_alone_may_be_replaced(tmp_path):
    with opened(tmp_path / "run"):
        pass
    with opened(tmp_path / "run", {**SETTINGS, "seed": 7}) as folder:
        folder.store([{"n": 1}], COLUMNS)
    assert read_settings(tmp_path / "run", "count")["seed"] == 7
    with pytest.raises(InputError, match="seed 7, not None"):
        opened(tmp_path / "run").__enter__()


@pytest.mark.parametrize("there", ["thesis.txt", "figures/a.png", ".lock and thesis.txt"])
def test_a_folder_with_something_else_in_it_is_left_as_it_was(tmp_path, there):
    for name in there.split(" and "):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    before = everything(tmp_path)
    with pytest.raises(InputError, match="not empty and holds no run: choose another folder"):
        opened(tmp_path).__enter__()
    assert everything(tmp_path) == before


def test_a_run_of_another_command_is_refused(run):
    with pytest.raises(InputError, match="holds a run of 'count', not of 'sample'"):
        RunFolder(run, "sample", SETTINGS).__enter__()


def test_series_are_apart(tmp_path):
    with opened(tmp_path / "run") as folder:
        for name in (
            "group-0000-00000005",
            "group-0001-00000005",
            "group-0000-00000010",
            "group-0001-00000010",
        ):
            folder.store([{"n": len(read_parts(folder.path))}], COLUMNS, name)
        assert numbers(folder, "group-0000") == [0, 2]
        assert numbers(folder, "group-0001") == [1, 3]


def test_what_a_kill_left_is_removed_in_ones_own_folder_only(run, tmp_path):
    for place in (run / ".table.md.17.tmp", run / "parts" / ".part-000003.parquet.17.tmp"):
        place.write_text("half")
    with opened(run):
        pass
    assert not list(run.rglob("*.tmp"))
    (tmp_path / "strange").mkdir()
    for name in (".draft.tmp", "thesis.txt"):
        (tmp_path / "strange" / name).write_text("mine")
    with pytest.raises(InputError):
        opened(tmp_path / "strange").__enter__()
    assert (tmp_path / "strange" / ".draft.tmp").read_text() == "mine"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.dictionaries(
        st.sampled_from(["kind", "begun", "format", "model", "weights", "sweeps", "names", "seed"]),
        VALUES,
    )
    | VALUES
    | st.binary(max_size=60)
)
def test_any_settings_are_those_of_the_run_or_refused_in_one_line(change):
    """Entries of the stored settings replaced, the whole replaced, or bytes that are no JSON."""
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "run"
        with opened(run) as folder:
            folder.store([{"n": 1}], COLUMNS)
        stored = json.loads((run / "settings.json").read_text())
        if isinstance(change, bytes):
            (run / "settings.json").write_bytes(change)
        else:
            changed = {**stored, **change} if isinstance(change, dict) else change
            (run / "settings.json").write_text(json.dumps(changed), encoding="utf-8")
        before = everything(run)
        try:
            with opened(run) as folder:
                assert numbers(folder) == [1]
            now = read_settings(run, "count")
            assert {name: now[name] for name in ("weights", "sweeps", "names", "seed")} == {
                name: stored[name] for name in ("weights", "sweeps", "names", "seed")
            }
        except InputError as error:
            assert "\n" not in str(error)
            assert str(run) in str(error)
            assert everything(run) == before


def hold(path: str, ready: object, finish: object) -> None:
    with opened(path):
        ready.set()  # type: ignore[attr-defined]
        finish.wait(600)  # type: ignore[attr-defined]


def test_two_processes_cannot_share_a_folder_and_a_killed_one_gives_it_back(tmp_path):
    context = multiprocessing.get_context("fork")
    ready, finish = context.Event(), context.Event()
    other = context.Process(target=hold, args=(str(tmp_path / "run"), ready, finish))
    other.start()
    assert ready.wait(600)
    with pytest.raises(
        InputError, match="another run is writing to .*: wait for it, or choose another"
    ):
        opened(tmp_path / "run").__enter__()
    other.kill()
    other.join()
    with opened(tmp_path / "run") as folder:
        folder.store([{"n": 1}], COLUMNS)


@pytest.mark.parametrize("stored", [False, True])
def test_a_failure_before_anything_is_stored_leaves_no_folder(tmp_path, stored):
    with pytest.raises(ZeroDivisionError), opened(tmp_path / "new" / "run") as folder:
        (folder.path / "checkpoints").mkdir()
        if stored:
            folder.store([{"n": 0}], COLUMNS)
        raise ZeroDivisionError
    assert (tmp_path / "new" / "run").exists() == stored


def test_where_an_open_file_cannot_be_deleted_the_folder_goes_too(tmp_path, monkeypatch):
    """As on Windows: the lock is left until it is released."""
    delete = shutil.rmtree

    def all_but_the_lock(path, **options):
        for file in Path(path).iterdir():
            if file.name != ".lock":
                delete(file) if file.is_dir() else file.unlink()

    monkeypatch.setattr(shutil, "rmtree", all_but_the_lock)
    with pytest.raises(ZeroDivisionError), opened(tmp_path / "new" / "run"):
        raise ZeroDivisionError
    assert not (tmp_path / "new").exists()


def test_a_run_may_end_on_another_thread(tmp_path):
    folder = opened(tmp_path / "run").__enter__()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(folder.__exit__, None, None, None).result()
    with opened(tmp_path / "run"), pytest.raises(InputError, match="another run is writing to"):
        opened(tmp_path / "run").__enter__()


def test_a_failure_leaves_a_folder_that_was_there_and_an_interrupt_every_folder(tmp_path):
    (tmp_path / "mine").mkdir()
    for path, error in (
        (tmp_path / "mine", ZeroDivisionError),
        (tmp_path / "new", KeyboardInterrupt),
    ):
        with pytest.raises(error), opened(path):
            raise error
        assert path.is_dir()
    with opened(tmp_path / "new") as folder:
        assert numbers(folder) == []


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        ({"name": "a", "b": 1}, {"name": "a", "b": 2}, ("b", 1, 2)),
        ({"name": "a"}, {"name": "b"}, ("kernel_name", "a", "b")),
        (["x", {"name": "a", "b": 1}], ["x", {"name": "a", "b": 2}], ("b", 1, 2)),
        (["x", "y"], ["x", "z"], ("kernel", ["x", "y"], ["x", "z"])),
        (["x"], ["x", {"name": "a"}], ("kernel", ["x"], ["x", {"name": "a"}])),
        (1, 2, ("kernel", 1, 2)),
    ],
)
def test_the_first_difference_of_settings(before, now, found):
    from unmask.runs.folder import _first_difference

    assert _first_difference("kernel", before, now) == found
