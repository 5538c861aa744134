"""The processes of Ray workers, for tests that kill them; and workers in this process, which die by themselves."""

from __future__ import annotations

import os
import random
from pathlib import Path

from unmask.runs.engines import Answer, OnRay


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


class Here(OnRay):
    """An engine like `OnRay` in this process: an item has its own worker, and a quarter of the answers is lost with it."""

    def __init__(self, make_work, workers=None, gpu=False, rest=None, most=None):
        self.make_work, self.rest, self.size, self.deaths = make_work, rest, workers or 3, 0
        self.luck = random.Random(4)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __call__(self, items):
        going = [(place, item, self.make_work()) for place, item in enumerate(items)]
        while going:
            place, item, work = going.pop(self.luck.randrange(len(going)))
            result = work(item)
            if self.luck.random() < 0.25:
                self.deaths += 1
                going.append((place, item, self.make_work()))
                continue
            rest = self.rest(item, result) if self.rest else None
            if rest is not None:
                going.append((place, rest, work))
            yield Answer(place, result, more=rest is not None)


class Losing:
    """`runs.engine.each` in this process: an item has its own worker, and a quarter of the results is lost with it."""

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
