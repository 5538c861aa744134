"""Blocks of three blanks or more: the contexts that hold no mass at the fixed point.

Multiply the balance of a context of site t (`unmask.joints.sweeps`) by I_t. Without restarts it
says that the flows

    K W_s q_s I_t    from the context of x at site s to that at site t, through every cell x,

into a context add up to those out of it. A cell with q_s(x) > 0 therefore leads from its context
at s to those at all other sites. A context holds no mass at the fixed point if others are reached
from it that do not lead back. With restarts, a context holds mass if it is reached from contexts
to which the chain gives some.

A sweep would take the logarithms of contexts without mass to -inf a little at a time, for ever.
If it does not converge and alpha > 0, so that they count for nothing, they are set to LOWEST
(`unmask.joints.members`) at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def without_mass(
    log_q: Sequence[Tensor], log_chain: Float[Tensor, " n"] | None
) -> Bool[Tensor, " n"] | None:
    """The contexts that hold no mass at the fixed point; None if no cell is zero.

    log_chain   log c_t if there are restarts
    """
    positive = torch.stack([q.flatten() > -torch.inf for q in log_q]).cpu().numpy()
    if positive.all():
        return None
    flows = _Flows(context_numbers(log_q[0].shape).numpy(), positive)
    if log_chain is None:
        holds = flows.in_closed_classes()
    else:
        of_chain = np.flatnonzero((log_chain > -torch.inf).cpu().numpy())
        holds = flows.reached_from(of_chain)
    return torch.from_numpy(~holds).to(log_q[0].device)


def context_numbers(shape: Sequence[int]) -> Int[Tensor, "sites cells"]:
    """The number of the context of each cell at each site, in the order of `members.flat`."""
    numbers = []
    first = 0
    for site in range(len(shape)):
        of_contexts = list(shape)
        of_contexts[site] = 1
        count = prod(of_contexts)
        of_site = torch.arange(first, first + count).reshape(of_contexts)
        numbers.append(of_site.expand(tuple(shape)).flatten())
        first += count
    return torch.stack(numbers)


class _Flows:
    """The directed graph of the flows between the contexts of a block, through its cells.

    Its nodes are the contexts, then the cells, then one source. An edge leads from the context of
    a cell at site s to the cell if q_s > 0 there, and from every cell to its contexts at all
    sites.
    """

    def __init__(self, context_numbers: np.ndarray, positive: np.ndarray) -> None:
        """Both arguments have a row per site and a column per cell.

        context_numbers  the number of the cell's context
        positive         whether q is positive
        """
        self.context_numbers = context_numbers
        self.positive = positive
        self.contexts = int(context_numbers.max()) + 1
        cells = positive.shape[1]
        self.source = self.contexts + cells
        cell_numbers = np.broadcast_to(np.arange(self.contexts, self.source), positive.shape)
        self.begins = [context_numbers[positive], cell_numbers.ravel()]
        self.ends = [cell_numbers[positive], context_numbers.ravel()]

    def _matrix(self, begins: Sequence[np.ndarray], ends: Sequence[np.ndarray]) -> csr_matrix:
        """The graph of edges between nodes, as scipy reads it."""
        from scipy.sparse import coo_matrix

        begin = np.concatenate(begins)
        end = np.concatenate(ends)
        present = np.ones(len(begin), dtype=np.int8)
        nodes = self.source + 1
        return coo_matrix((present, (begin, end)), shape=(nodes, nodes)).tocsr()

    def reached_from(self, starts: np.ndarray) -> np.ndarray:
        """Whether each context is reached from these contexts, or is one of them."""
        from scipy.sparse.csgraph import breadth_first_order

        from_source = np.full(len(starts), self.source)
        graph = self._matrix([*self.begins, from_source], [*self.ends, starts])
        reached = np.zeros(self.source + 1, dtype=bool)
        reached[breadth_first_order(graph, self.source, return_predecessors=False)] = True
        return reached[: self.contexts]

    def in_closed_classes(self) -> np.ndarray:
        """Whether each context belongs to a class that no edge leaves.

        A class are nodes that all reach each other.
        """
        from scipy.sparse.csgraph import connected_components

        graph = self._matrix(self.begins, self.ends)
        classes, class_of = connected_components(graph, connection="strong")
        edges = graph.tocoo()
        leaves = class_of[edges.row] != class_of[edges.col]
        closed = np.ones(classes, dtype=bool)
        closed[class_of[edges.row[leaves]]] = False
        is_entered = np.zeros(self.contexts, dtype=bool)
        is_entered[self.context_numbers[:, self.positive.any(0)].ravel()] = True
        # A context that no flow enters holds no mass, though it may be a closed class of its own.
        return closed[class_of][: self.contexts] & is_entered
