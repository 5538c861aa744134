"""Compiles the GPU programs of pairs ahead of time, side by side: each takes Triton about a
second, without Python's lock (GIL).

Each program is launched once on small random tables whose line lengths have the same divisors
as the real ones, since a program is compiled for these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import partial
from threading import Thread

import torch

from unmask.joints.members import Members, Site, flat, start
from unmask.joints.newton import inverses
from unmask.joints.registry import Member
from unmask.joints.rules import ALIGNED, Linear, PairForm, Stack
from unmask.joints.strips import LIKELY, taken_whole
from unmask.models.batching import release_memory
from unmask.tables.unary import Tables

Launch = Callable[[], object]
FEW = (
    16 * ALIGNED
)  # Tokens of the small tables, besides the remainder of the real number over ALIGNED
AT_ONCE = 12  # Threads that compile


def precompile(
    tokens: int, device: torch.device, others: Callable[[], Iterable[Launch]] = tuple
) -> Thread:
    """Start to compile the programs for pairs over `tokens` tokens, and those of `others`; the
    thread ends when all are compiled.

    A process that ends earlier waits for those under way and skips the rest.
    """

    def run() -> None:
        with suppress(Exception), ThreadPoolExecutor(AT_ONCE) as pool:
            for launches_of in (others, partial(launches, tokens, device)):
                for launch in launches_of():
                    pool.submit(_quietly, launch, device)
        release_memory()

    thread = Thread(target=run)
    thread.start()
    return thread


def launches(tokens: int, device: torch.device) -> list[Launch]:
    """One of each program, and of the operations whose library is loaded when it is first
    needed.
    """
    from unmask.joints.triton_programs import column_flows, pair_sums, row_flows, table_sums

    tables = random_pair(FEW + tokens % ALIGNED, device)
    a, b, (v, u) = _members(tables)
    # The columns of likely tokens have lines as long as there are places for these tokens: all
    # tokens, or a padded number.
    strip_a, strip_b, (strip_v, strip_u) = _members(
        tables if taken_whole(tokens) else random_pair(FEW, device)
    )
    f, e, shift = (
        tables.log_masked[0][None],
        tables.log_masked[1][None],
        torch.zeros(1, device=device),
    )
    one, two = PairForm(Linear(1, 0, f, e)), PairForm(Linear(1, 0, e=e), Linear(0, 1, f))
    return [
        partial(row_flows, a, b, u, v),
        partial(column_flows, a, b, u, v),
        partial(row_flows, a, b, u, v, logs=False),
        partial(column_flows, strip_a, strip_b, strip_u, strip_v, logs=False),
        partial(table_sums, [tables]),
        partial(pair_sums, a, b, PairForm(two.first, two.second, (f, e)), shift, cross=True),
        partial(pair_sums, a, b, two, shift, cross=True),
        partial(pair_sums, a, b, one, shift, cross=True),
        partial(pair_sums, a, b, one, square=True),
        partial(inverses, torch.eye(LIKELY, dtype=torch.float64, device=device).repeat(2, 1, 1)),
    ]


def random_pair(tokens: int, device: torch.device) -> Tables:
    """The tables of a pair over this many tokens."""
    f, e = torch.randn(2, tokens, tokens, generator=torch.Generator().manual_seed(0)).to(device)
    every, log_q = torch.arange(tokens, device=device), (f.log_softmax(0), e.log_softmax(1))
    nothing, masked = (
        (torch.zeros_like(f[:1]), torch.zeros_like(e[:, :1])),
        (f[0].log_softmax(0), e[0].log_softmax(0)),
    )
    return Tables((every, every), log_q, nothing, nothing, masked, (0.0, 0.0))


def _members(tables: Tables) -> tuple[Stack, Stack, list[Site]]:
    """Both tables of a pair as a member reads them, and the member's sites."""
    members = Members.of([tables], [Member(0.5, 0.25)])
    sites, _ = members.sites_at(flat(start(tables))[None], tables.log_q[0].dtype)
    return (*members.stacks, sites)


@torch.inference_mode()
def _quietly(launch: Launch, device: torch.device) -> None:
    """A failure here would happen again in the real launch, and be reported there."""
    with suppress(Exception), torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        if device.type == "cuda":
            torch.cuda.synchronize()
        launch()
