"""How long a pass of a model takes, measured so that the answer does not change from run to run.

A measurement varies with the load of the machine, and a default that follows it would give other numbers on a busy day. So a
pass is first estimated from the model's size, at SPEED multiplications per second. It is measured too, in processor time of one
thread, which other programs hardly change; and only where measurement and estimate are more than FAR times apart (a GPU, many
cores, a slow machine) does the measurement count.
"""

from __future__ import annotations

import threading
import time

import torch

from unmask.models.conditional_model import ConditionalModel
from unmask.tables.kept import kept_with_first

SPEED = 50e9
"""Multiplications per second of two ordinary cores."""
FAR = 4.0
ROWS = {"cpu": 8, "cuda": 64}
REPEATS = 3
_measuring = threading.Lock()


def seconds_per_pass(model: ConditionalModel, tokens: int) -> float:
    """Seconds that one pass of a text of `tokens` tokens takes, in batches."""
    count = model.multiplications(tokens)
    with _measuring:
        return _seconds(model, tokens, None if count is None else count / SPEED)


@kept_with_first
def _seconds(model: ConditionalModel, tokens: int, estimate: float | None) -> float:
    fastest = float("inf")
    for _ in range(REPEATS):
        fastest = min(fastest, _measured(model, tokens))
        if estimate is not None and estimate / FAR < fastest < estimate * FAR:
            return estimate
    return fastest


def _measured(model: ConditionalModel, tokens: int) -> float:
    """Seconds per pass of one small batch; one core is counted as two, so that one thread and two give the same answers."""
    kind, threads = model.device.type, torch.get_num_threads()
    rows = ROWS.get(kind, ROWS["cuda"])
    ids = torch.full((rows, tokens), model.mask_id, device=model.device)
    where = torch.zeros((rows, 1), dtype=torch.long, device=model.device)
    if kind != "cpu":
        start = time.perf_counter()
        model.logits(ids, where).sum().item()
        return (time.perf_counter() - start) / rows
    torch.set_num_threads(1)
    try:
        start = time.thread_time()
        model.logits(ids, where)
        return (time.thread_time() - start) / rows / max(2, threads)
    finally:
        torch.set_num_threads(threads)
