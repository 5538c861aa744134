"""Compiles the GPU programs of pairs ahead of time, side by side.

Triton takes about a second for each program, without Python's lock (GIL).

Each program is launched once on small random tables. A program is compiled for the divisors of
the length of the tables' lines, so this length has the same divisors as the real one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Thread

import torch

from unmask.joints.constructions.arnold_gokhale import Member
from unmask.joints.members import Members, Site, flat, start
from unmask.joints.newton import inverses
from unmask.joints.rules import Linear, PairForm
from unmask.joints.stacks import ALIGNED, Stack
from unmask.joints.strips import LIKELY, taken_whole
from unmask.models.batching import release_memory
from unmask.tables.unary import Tables

Launch = Callable[[], object]
FEW = 16 * ALIGNED
"""Tokens of the small tables, before the remainder of the real number of tokens over ALIGNED."""
AT_ONCE = 12  # Threads that compile


def precompile(
    tokens: int, device: torch.device, others: Callable[[], Iterable[Launch]] = tuple
) -> Thread:
    """Start to compile the programs for pairs over `tokens` tokens, and those of `others`.

    The thread that comes back ends when all are compiled. If the process ends earlier, it waits
    for the programs under way and skips the rest.
    """

    def compile_all() -> None:
        # What fails here would fail again when pairs are read, and be reported there; `submit`
        # fails also once the process ends.
        with suppress(Exception), ThreadPoolExecutor(AT_ONCE) as pool:
            for launch in others():
                pool.submit(_launch_quietly, launch, device)
            for launch in launches(tokens, device):
                pool.submit(_launch_quietly, launch, device)
        release_memory()

    thread = Thread(target=compile_all)
    thread.start()
    return thread


def launches(tokens: int, device: torch.device) -> list[Launch]:
    """One launch of each program of pairs over `tokens` tokens.

    The last is an operation of torch, whose library is loaded when it is first needed.
    """
    from unmask.joints.triton_programs import column_flows, pair_sums, row_flows, table_sums

    tables = random_pair(FEW + tokens % ALIGNED, device)
    a, b, (v, u) = _as_members(tables)
    # The columns of likely tokens have lines as long as there are places for these tokens: all
    # tokens, or a padded number.
    strip_tables = tables if taken_whole(tokens) else random_pair(FEW, device)
    strip_a, strip_b, (strip_v, strip_u) = _as_members(strip_tables)

    # The kinds of forms that constructions have: one linear part, two, and two over a denominator.
    f = tables.log_masked[0][None]
    e = tables.log_masked[1][None]
    shift = torch.zeros(1, device=device)
    one = PairForm(Linear(a=1, b=0, f=f, e=e))
    over_a = Linear(a=1, b=0, e=e)
    over_b = Linear(a=0, b=1, f=f)
    two = PairForm(first=over_a, second=over_b)
    two_over_denominator = PairForm(first=over_a, second=over_b, below=(f, e))

    identities = torch.eye(LIKELY, dtype=torch.float64, device=device).repeat(2, 1, 1)
    return [
        partial(row_flows, a, b, u=u, v=v),
        partial(column_flows, a, b, u=u, v=v),
        partial(row_flows, a, b, u=u, v=v, logs=False),
        partial(column_flows, strip_a, strip_b, u=strip_u, v=strip_v, logs=False),
        partial(table_sums, [tables]),
        partial(pair_sums, a, b, form=two_over_denominator, shift=shift, cross=True),
        partial(pair_sums, a, b, form=two, shift=shift, cross=True),
        partial(pair_sums, a, b, form=one, shift=shift, cross=True),
        partial(pair_sums, a, b, form=one, square=True),
        partial(inverses, identities),
    ]


def random_pair(tokens: int, device: torch.device) -> Tables:
    """The tables of a pair over this many tokens."""
    generator = torch.Generator().manual_seed(0)  # of the CPU: one seed, one pair, on any device
    logits = torch.randn(2, tokens, tokens, generator=generator).to(device)
    first, second = logits
    ids = torch.arange(tokens, device=device)
    without_axis = (torch.zeros_like(first[:1]), torch.zeros_like(second[:, :1]))
    return Tables(
        candidates=(ids, ids),
        log_q=(first.log_softmax(0), second.log_softmax(1)),
        log_inside=without_axis,
        log_total=without_axis,
        log_masked=(first[0].log_softmax(0), second[0].log_softmax(0)),
        log_masked_inside=(0.0, 0.0),
    )


def _as_members(tables: Tables) -> tuple[Stack, Stack, list[Site]]:
    """Both tables of a pair as a member reads them, and the member's sites."""
    members = Members.of([tables], [Member(0.5, 0.25)])
    sites, _ = members.sites_at(flat(start(tables))[None], tables.log_q[0].dtype)
    return (*members.stacks, sites)


@torch.inference_mode()
def _launch_quietly(launch: Launch, device: torch.device) -> None:
    """Launch a program. A failure would happen again in the real launch, and be reported there."""
    with suppress(Exception):
        if device.type != "cuda":
            launch()
            return
        with torch.cuda.device(device):
            torch.cuda.synchronize()
            launch()
