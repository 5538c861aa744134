"""The processes of workers, for tests that kill them."""

import os
import random
from pathlib import Path


def workers() -> list[int]:
    """Processes of workers, of Ray or of this machine, that descend from this one."""
    parents, names = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
                )
                names[int(entry.name)] = (entry / "cmdline").read_bytes()
            except OSError:
                continue

    def ours(process: int) -> bool:
        return process == os.getpid() or (process in parents and ours(parents[process]))

    return [
        process
        for process, name in names.items()
        if (b"ray::Worker" in name or b"unmask.runs.processes" in name) and ours(process)
    ]


class Losing:
    """`runs.engine.each` in this process: an item has its own worker, and a quarter of the
    results is lost with it.
    """

    def __init__(self) -> None:
        self.luck, self.deaths = random.Random(4), 0

    def __call__(self, function, items, workers=None, setup=None, rest=None):
        unread, read, going = iter(items), 0, []
        while True:
            while (item := next(unread, None)) is not None:
                going.append((read, item, setup()))
                read += 1
            if not going:
                return
            index, item, begun = going.pop(self.luck.randrange(len(going)))
            result = function(begun, item)
            if self.luck.random() < 0.25:
                self.deaths += 1
                going.append((index, item, setup()))
                continue
            left = rest(item, result) if rest else None
            if left is not None:
                going.append((index, left, begun))
            yield index, result
