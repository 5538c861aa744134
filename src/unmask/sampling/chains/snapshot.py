"""Snapshots: the arrays from which the chains of a group go on.

    done             sweeps done, a number
    chains           the numbers of the group's n chains in the whole run, shape (n,)
    positions        the position in the text of each of the F sites, shape (F,)
    starts           the texts that the chains started from, shape (n, T)
    spent            passes of each chain so far, shape (n,)
    counts           what happened at each site, shape (4, F): a row for each of COUNTS
    scoring_passes   passes that only the energies of the samples took, a number

A Markov chain has more: `ids` (n, T), its text; `fresh` (n, S), which columns of the energy are
known; `user` (n,), the sum of the user's terms. A decoder begins every sweep with blank texts and
needs nothing else.

A checkpoint is a file that holds a snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from unmask.common.errors import InputError

COUNTS = ("steps", "accepted", "proposed", "changed")
"""For each site: redrawn in a step; such steps accepted; proposed another token; holding
another token after the step.
"""
OF_ALL_RUNS = ("done", "chains", "positions", "starts", "spent", "counts", "scoring_passes")
"""The arrays of every snapshot."""

Snapshot = dict[str, NDArray[Any]]
"""A snapshot in this process's memory."""
DeviceSnapshot = Mapping[str, Tensor | NDArray[Any]]
"""A snapshot whose tensors are still on the device, so that taking it does not wait."""


def on_host(snapshot: DeviceSnapshot) -> Snapshot:
    """The snapshot in this process's memory; waits for the device."""
    arrays = {}
    for name, value in snapshot.items():
        arrays[name] = value.cpu().numpy() if isinstance(value, Tensor) else value
    return arrays


class OtherTerms(InputError):
    """The user's terms are not those of the run that left a snapshot."""
