"""Commands in several processes at once, as torchrun starts them: numbered, with a store that
outlives each of them.
"""

import multiprocessing
import os
import sys
import time
from contextlib import contextmanager
from typing import NamedTuple

from torch.distributed import TCPStore

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    ["torch.nn.parallel", "torch._dynamo", "unmask.studies.training.run"]
)
SECONDS = 600.0
"""A run that takes longer hangs."""


class Ended(NamedTuple):
    """Exit codes, standard output and standard error of the processes, in their order."""

    codes: list[int | None]
    printed: list[str]
    told: list[str]

    @property
    def lines(self):
        """All lines on standard error."""
        return [line for text in self.told for line in text.splitlines()]


class Started:
    """Processes that run; `end` waits for them."""

    def __init__(self, commands, folder, places=()):
        folder.mkdir(exist_ok=True)
        self.store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        size = len(commands)
        self.files = [(folder / f"{rank}.out", folder / f"{rank}.err") for rank in range(size)]
        self.processes = []
        for rank, command in enumerate(commands):
            environment = {
                "RANK": rank,
                "LOCAL_RANK": rank,
                "WORLD_SIZE": size,
                "LOCAL_WORLD_SIZE": size,
                "OMP_NUM_THREADS": 1,
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": self.store.port,
                "TORCHELASTIC_USE_AGENT_STORE": True,
            }
            words = [str(word) for word in command]
            place = str(places[rank] if places else ".")
            args = (
                {name: str(value) for name, value in environment.items()},
                words,
                *map(str, self.files[rank]),
                place,
            )
            self.processes.append(_CONTEXT.Process(target=_command, args=args))
            self.processes[-1].start()

    def end(self):
        """What came of them; one that is still there after SECONDS is an error."""
        deadline = time.monotonic() + SECONDS
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
        printed, told = (
            [path.read_text() for path in paths] for paths in zip(*self.files, strict=True)
        )
        assert not any(process.is_alive() for process in self.processes), f"the run hangs: {told}"
        return Ended([process.exitcode for process in self.processes], printed, told)


@contextmanager
def started(commands, folder, places=()):
    """One process for each command, in a working directory each if `places` names them; none is
    left behind.
    """
    run = Started(commands, folder, places)
    try:
        yield run
    finally:
        for process in run.processes:
            process.kill()
            process.join()


def together(commands, folder, places=()):
    """Run one process for each command, and wait for them."""
    with started(commands, folder, places) as run:
        return run.end()


def _command(environment, words, out, err, place):
    """`unmask` with these words, or a program after `-c`, in a process of its own."""
    os.chdir(place)
    os.environ.update(environment)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))
    if words[0] == "-c":
        exec(words[1], {})
        return
    sys.argv = ["unmask", *words]
    from unmask.__main__ import main

    main()
