"""The processes of Ray workers, for tests that kill them."""

from __future__ import annotations

import os
from pathlib import Path


def workers() -> list[int]:
    """Processes of Ray actors that descend from this one."""
    parents, names = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                names[int(entry.name)] = (entry / "cmdline").read_bytes()
            except OSError:
                continue

    def ours(process: int) -> bool:
        return process == os.getpid() or (process in parents and ours(parents[process]))

    return [process for process, name in names.items() if b"_Worker" in name and ours(process)]
