"""Tiles that threads share: the same sums as those of one thread, and no thread is left with
another number.
"""

from collections.abc import Iterator
from threading import Thread

import pytest
import torch

from support.joint_cases import distance, large_tables
from unmask.joints.deriving import derive_all
from unmask.joints.metrics import block_metrics
from unmask.joints.tiles import by_threads, tiles


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_parts_follow_each_other_and_threads_keep_their_number(
    threads: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("unmask.joints.tiles.CELLS_ON_CPU", 4)
    table, of_new = torch.zeros(10, 4), []
    parts = by_threads(table, lambda part: (torch.get_num_threads(), list(part)))
    assert [tile for _, part in parts for tile in part] == list(tiles(torch.empty(10, 4)))
    assert len(parts) == threads
    assert {number for number, _ in parts} == {1}
    new = Thread(target=lambda: of_new.append(torch.get_num_threads()))
    new.start()
    new.join()
    assert torch.get_num_threads() == threads
    assert of_new == [threads]


def test_an_error_in_a_part_is_raised(threads: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("unmask.joints.tiles.CELLS_ON_CPU", 4)
    with pytest.raises(ZeroDivisionError):
        by_threads(torch.zeros(10, 4), lambda part: 1 // 0)
    assert torch.get_num_threads() == threads


def test_joints_and_metrics_do_not_depend_on_the_number_of_threads():
    tables, before = large_tables((600, 450), seed=5, scale=0.7), torch.get_num_threads()
    by_number = []
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            joints = derive_all(tables, ["mrf", "balanced", "restarted"])
            by_number.append((joints, block_metrics(joints, (3, 4))))
    finally:
        torch.set_num_threads(before)
    (alone, by_one), (shared, by_two) = by_number
    assert len(list(tiles(tables.log_q[0]))) > 1
    for joint, other in zip(alone, shared, strict=True):
        assert distance(joint.dense().exp(), other.dense().exp()) < 1e-10
    assert by_two.incompatibility == pytest.approx(by_one.incompatibility, rel=1e-12)
    for mine, theirs in zip(by_one.joints, by_two.joints, strict=True):
        assert mine.a_kl == pytest.approx(theirs.a_kl, rel=1e-8)
        assert mine.g_kl == pytest.approx(theirs.g_kl, rel=1e-8, abs=1e-12)
