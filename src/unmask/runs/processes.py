"""Workers that are processes of this machine, one for each device.

A process reads pickled messages from its standard input and writes pickled answers to its standard
output. It ends when its standard input closes, and so with the process that started it.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple

from unmask.runs.worker import Worker

PROGRAM = "from unmask.runs.processes import serve; serve()"


class Running(NamedTuple):
    """A process, and the number of its GPU as the system counts it."""

    process: subprocess.Popen[bytes]
    gpu: str


class Processes:
    """A process of this machine for each device, such as ("cuda:0", "cuda:1"); each sees its
    own GPU only, as `cuda`.

    free   GPUs without a process
    """

    def __init__(self, devices: tuple[str, ...]) -> None:
        self.count: int = len(devices)
        self.device: str = devices[0].partition(":")[0]
        numbers = [device.partition(":")[2] or "0" for device in devices]
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible:  # torch counts the visible ones alone
            names = visible.split(",")
            self.free: list[str] = [names[int(number)] for number in numbers]
        else:
            self.free = numbers
        self._threads = ThreadPoolExecutor(self.count)

    def start(self) -> Running:
        """A new worker, in a Python of its own; an interrupt of the terminal does not reach it."""
        gpu = self.free.pop()
        threads = max(1, (os.cpu_count() or 1) // self.count)
        environment = {
            "OMP_NUM_THREADS": str(threads),  # unless the user has set another number
            **os.environ,
            "PYTHONWARNINGS": "ignore",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        if self.device == "cuda":
            environment["CUDA_VISIBLE_DEVICES"] = gpu
        apart: dict[str, Any] = {"start_new_session": True}
        if hasattr(subprocess, "CREATE_NEW_PROCESS_GROUP"):  # Windows, which has no sessions
            apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            **apart,
        )
        return Running(process, gpu)

    def send(self, worker: Running, message: Any) -> Future[Any]:
        """The answer to a message; an exception if the worker dies."""
        data = pickle.dumps(message)  # here, so that the caller gets the error of what cannot be
        process: Any = worker.process

        def ask() -> Any:
            with suppress(EOFError, OSError, pickle.UnpicklingError):
                process.stdin.write(data)
                process.stdin.flush()
                return pickle.load(process.stdout)
            raise ChildProcessError("its process has ended")

        return self._threads.submit(ask)

    def stop(self, worker: Running) -> None:
        """End a worker."""
        worker.process.kill()
        worker.process.wait()
        self.free.append(worker.gpu)


def serve() -> None:
    """Answers the messages on standard input, in a process of `Processes`; what its function
    prints is dropped.
    """
    answers = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # from here on, what is printed does not get among the answers
    worker = Worker()
    with suppress(EOFError, OSError):
        while True:
            message = pickle.load(sys.stdin.buffer)
            answer = worker.answer(message)
            answers.write(pickle.dumps(answer))
            answers.flush()
