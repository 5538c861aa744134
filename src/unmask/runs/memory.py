"""The main memory of this machine, in bytes: Linux and macOS state it by sysconf and /proc,
Windows by a call of its own.
"""

from __future__ import annotations

import ctypes
import os

UNKNOWN = 8 * 2**30
"""Bytes that are taken to be there on a system that states no number."""


class _Status(ctypes.Structure):
    """MEMORYSTATUSEX of Windows: `length` is its own size, set by the caller; the call fills
    the rest.
    """

    _fields_ = [
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        ("total", ctypes.c_uint64),
        ("available", ctypes.c_uint64),
        ("total_page_file", ctypes.c_uint64),
        ("available_page_file", ctypes.c_uint64),
        ("total_virtual", ctypes.c_uint64),
        ("available_virtual", ctypes.c_uint64),
        ("available_extended_virtual", ctypes.c_uint64),
    ]


def whole_memory() -> int:
    """Bytes that the machine has."""
    if hasattr(os, "sysconf"):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    status = _of_windows()
    return UNKNOWN if status is None else status.total


def free_memory() -> int:
    """Bytes that programs may take now without swapping; macOS does not say, and half of its
    memory is taken to be free.
    """
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass  # not Linux
    status = _of_windows()
    if status is not None:
        return status.available
    return min(UNKNOWN, whole_memory() // 2)


def _of_windows() -> _Status | None:
    """The numbers of Windows; None on another system, or if the call fails."""
    windows = getattr(ctypes, "windll", None)
    if windows is None:
        return None
    status = _Status(length=ctypes.sizeof(_Status))
    filled = windows.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))
    return status if filled else None
