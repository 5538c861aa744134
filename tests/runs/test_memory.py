"""The memory of the machine, where Linux states it and where Windows does."""

import ctypes
import os
from types import SimpleNamespace

import pytest

from unmask.runs import memory


def test_linux_states_both_numbers():
    assert (
        0
        < memory.free_memory()
        < memory.whole_memory()
        == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    )


@pytest.fixture
def without_linux(monkeypatch):
    def no_file(*args, **options):
        raise FileNotFoundError

    monkeypatch.setattr(memory, "open", no_file, raising=False)


def test_macos_has_half_of_its_memory_free(without_linux, monkeypatch):
    monkeypatch.setattr(memory, "whole_memory", lambda: 6 * 2**30)
    assert memory.free_memory() == 3 * 2**30
    monkeypatch.setattr(memory, "whole_memory", lambda: 64 * 2**30)
    assert memory.free_memory() == memory.UNKNOWN


@pytest.mark.parametrize(
    ("answers", "whole", "free"),
    [(1, 12 * 2**30, 5 * 2**30), (0, memory.UNKNOWN, memory.UNKNOWN // 2)],
)
def test_windows_is_asked_by_its_own_call(without_linux, monkeypatch, answers, whole, free):
    def fill(reference):
        status = reference._obj
        assert status.length == ctypes.sizeof(status) == 64  # of MEMORYSTATUSEX
        status.total, status.available = 12 * 2**30, 5 * 2**30
        return answers

    monkeypatch.setattr(
        ctypes,
        "windll",
        SimpleNamespace(kernel32=SimpleNamespace(GlobalMemoryStatusEx=fill)),
        raising=False,
    )
    monkeypatch.delattr(os, "sysconf")
    assert (memory.whole_memory(), memory.free_memory()) == (whole, free)
