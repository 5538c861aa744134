"""The unary conditionals of a block, as k log-probability tables over the values of the block.

For a block of k positions and candidate sets C_1..C_k of tokens, table t holds log q_t(x_t |
x_{S\t}, rest) for all x in C_1 x ... x C_k, normalised along axis t *within* C_t. For a pair
these are A and B of Torroba Hennigen & Kim (2023). The model takes |C|^(k-1) passes per table, and
one with the whole block masked. For k > 2 it also takes those with some, but not all, of the other
positions revealed, which the chain rule needs (`log_between`).

The candidates are tokens of a support (`unmask.tables.conditionals`), which may have more of
them. q is normalised over the support; beside its cells a table has the mass that q puts on the
candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import inf, prod
from typing import Any

import torch
from torch import Tensor

from unmask.common import checks
from unmask.common.batches import grouped
from unmask.common.border.calls import checked
from unmask.common.cloze import Cloze
from unmask.common.errors import InputError
from unmask.models.batching import on_device
from unmask.models.conditional_model import ConditionalModel
from unmask.models.text.text_tokenizer import refuse_too_long
from unmask.runs.progress import Progress
from unmask.tables.conditional_table import (
    ENOUGH,
    Axis,
    ConditionalTable,
    enough_rows,
    fill_tables,
)
from unmask.tables.conditionals import lost_nats, regular_tokens, token_sets
from unmask.tables.own_conditionals import ArrayLike, read_conditionals, read_labels


@dataclass(frozen=True)
class Tables:
    """The tables that every construction is a rule over. Shapes: n_t = |C_t|; a tensor "without
    axis t" has size 1 there.

    candidates      k vectors of token ids: the values of each axis
    log_q           k tensors (n_1..n_k): log q_t, normalised along axis t within the
                    candidates; -inf in a context in which the model rules all of them out
    log_inside      k tensors without axis t: log of the mass that q_t puts on the candidates (0
                    if they are the support)
    log_total       k tensors without axis t: logsumexp of the logits over the candidates, so
                    logits = log_q + log_total
    log_masked      k vectors: log m_t, the whole block masked, normalised within the candidates
    log_masked_inside  k numbers: log of the mass that m_t puts on the candidates
    log_masked_support  k numbers: log of the mass that m_t, over the whole vocabulary, puts on
                        the support
    log_between     by (S, t): log q(x_t | x_S; the other positions masked), for S neither empty
                    nor all others. Its size is n_s at s in S and at t, else 1. q is normalised
                    over the support, not within the candidates. Empty for a pair
    label           how a token id is shown to people: as the model spells it, or the number itself
    labels          k lists of names, of the values of each blank from id 0 on, where these are
                    not tokens of a model; else empty

    >>> tables = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint.tables
    >>> sums = [table.exp().sum(axis) for axis, table in enumerate(tables.log_q)]
    >>> [bool(torch.allclose(one, torch.ones(16))) for one in sums]
    [True, True]
    """

    candidates: tuple[Tensor, ...]
    log_q: tuple[Tensor, ...]
    log_inside: tuple[Tensor, ...]
    log_total: tuple[Tensor, ...]
    log_masked: tuple[Tensor, ...]
    log_masked_inside: tuple[float, ...]
    log_masked_support: tuple[float, ...] = ()
    log_between: Mapping[tuple[tuple[int, ...], int], Tensor] = field(
        default_factory=dict, compare=False
    )
    label: Callable[[int], str] = str
    labels: tuple[tuple[str, ...], ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(c) for c in self.candidates)

    @cached_property
    def sites(self) -> int:
        return len(self.candidates)

    @cached_property
    def some_context_is_impossible(self) -> bool:
        """Whether the model rules out all candidates of a blank in some context; q is 0 there,
        and does not sum to 1.
        """
        return any(bool((inside == -inf).any()) for inside in self.log_inside)

    def __repr__(self) -> str:
        return f"Tables(shape={self.shape})"

    @classmethod
    @checked
    def from_conditionals(
        cls,
        first: ArrayLike,
        second: ArrayLike,
        masked: Sequence[ArrayLike] | None = None,
        labels: Sequence[Sequence[str]] | None = None,
    ) -> Tables:
        """Tables of a pair of your own.

        first    first[x, y] = q(x | y); its columns sum to 1
        second   second[x, y] = q(y | x); its rows sum to 1
        masked   the two distributions with both positions masked, which product, chain and
                 restarted use; by default the u and v with u = first v and v = second' u, so
                 that chain is pseudo_gibbs
        labels   how the values are shown, x's and y's; a value's id is its place, from 0 on,
                 with and without labels

        >>> q_a, q_b = [[0.9, 0.2], [0.1, 0.8]], [[0.7, 0.3], [0.1, 0.9]]
        >>> tables = unmask.Tables.from_conditionals(q_a, q_b)
        >>> unmask.derive(tables, "arnold_gokhale").shape
        (2, 2)
        """
        own = read_conditionals(first, second, masked)
        names = read_labels(labels, own.first.shape)
        n_x, n_y = own.first.shape
        nothing_outside = (
            torch.zeros(1, n_y, dtype=torch.float64),
            torch.zeros(n_x, 1, dtype=torch.float64),
        )
        return cls(
            candidates=(torch.arange(n_x), torch.arange(n_y)),
            log_q=(own.first.log(), own.second.log()),
            log_inside=nothing_outside,
            log_total=nothing_outside,  # the logits are the log-probabilities themselves
            log_masked=(own.masked[0].log(), own.masked[1].log()),
            log_masked_inside=(0.0, 0.0),
            log_masked_support=(0.0, 0.0),
            labels=names,
        )

    def spelled(self, site: int, token: int) -> str:
        """How a candidate of a blank is shown, given its id."""
        return self.labels[site][token] if self.labels else self.label(token)

    @checked
    def ids_of(self, tokens: Sequence[int] | Sequence[str], sites: Sequence[int]) -> list[int]:
        """The ids of tokens at these blanks, one for each; a text is a candidate as `spelled`
        shows it.
        """
        if len(tokens) != len(sites):
            raise InputError(
                f"are {len(tokens)} for {len(sites)} sites",
                argument="tokens",
                use="give one for each site",
            )
        for site in sites:
            checks.whole("sites", site, 0, self.sites - 1)
        return token_ids(self, tokens, sites)

    def _id_of(self, token: int | str, site: int) -> int:
        if not isinstance(token, str):
            return token
        ids = [i for i in self.candidates[site].tolist() if self.spelled(site, i) == token]
        if not ids:
            label = str if self.labels else self.label  # names of values are not tokens of a model
            raise InputError(not_a_candidate(label, token, site + 1))
        if len(ids) > 1:
            raise InputError(
                f"{token!r} is how {len(ids)} candidates of blank {site + 1} are spelled: give"
                " token ids"
            )
        return ids[0]

    @property
    def log_mass(self) -> float:
        """Log of the mass that the product joint over the whole vocabulary puts on the
        candidate sets.
        """
        return min(0.0, sum(self.log_masked_inside) + sum(self.log_masked_support))


def token_ids(
    tables: Tables, tokens: Sequence[int] | Sequence[str], sites: Sequence[int]
) -> list[int]:
    """The ids of tokens at these blanks, as `Tables.ids_of` has them."""
    ids_or_texts: Sequence[int | str] = tokens  # else mypy reads objects from zip
    return [tables._id_of(token, site) for token, site in zip(ids_or_texts, sites, strict=True)]


def not_a_candidate(label: Callable[[int], str], word: str, blank: int) -> str:
    """The message about a word that no candidate of a blank, counted from 1, is spelled as.

    label   how token ids are shown: the method `token` of a model, or str
    """
    missing = f"{word!r} is not among the candidates of blank {blank}"
    model = getattr(label, "__self__", None)  # of a method the object; str has none
    words = getattr(model, "words", None)  # the model's tokenizer
    if words is None or any(words.token(i) == word for i in words.regular_tokens.values()):
        return f"{missing}: give more candidates, or targets"
    try:
        pieces = [words.token(i) for i in words.encode_word(word, at_start=False, after_space=True)]
    except InputError:
        return f"{missing}: it is not a word of the model, so give another"
    if len(pieces) == 1:
        return f"{missing}: the model has no such token; it reads {pieces[0]!r}, so give that"
    shown = " ".join(repr(piece) for piece in pieces)
    return (
        f"{missing}: it is {len(pieces)} tokens of the model ({shown}), so use [WORD] or [GAP] in"
        " the text, and answers"
    )


@checked
def unary_tables(
    model: ConditionalModel,
    cloze: Cloze,
    candidates: Sequence[Tensor | Sequence[int]] | None = None,
    dtype: torch.dtype | None = None,
    progress: Progress | None = None,
    support: Sequence[Tensor | Sequence[int]] | None = None,
) -> Tables:
    """The tables of a cloze's block over candidates of each of its k blanks.

    model        a `MaskedLM`, or another `ConditionalModel`
    cloze        the text as token ids, and its block
    candidates   k vectors of token ids, the values of each axis [default: the whole vocabulary]
    dtype        of the tables, torch.float32 or torch.float64 [default: float32, or that of
                 finer logits]
    progress     called with (done, in all, what is counted)
    support      k vectors of token ids that q is normalised over [default: the regular tokens,
                 or the whole vocabulary where that is what the tables are over]

    Returns:
        The log-conditionals of each blank given the others, and with all of them masked.

    >>> model = unmask.MaskedLM.load()
    >>> cloze = model.cloze("A [MASK] [MASK] here.")
    >>> words = [model.words.encode("man dog")[1:3], model.words.encode("is was")[1:3]]
    >>> tables = unmask.unary_tables(model, cloze, [torch.tensor(ids) for ids in words])
    >>> [tuple(table.shape) for table in tables.log_q]
    [(2, 2), (2, 2)]
    """
    for token in cloze.ids:
        checks.whole("token id of the cloze", token, 0, model.input_size - 1)
    refuse_too_long(len(cloze.ids), model.max_length, "the cloze")
    if dtype is not None and (not dtype.is_floating_point or dtype.itemsize < 2):
        raise InputError(
            f"{dtype} does not hold log-probabilities",
            argument="dtype",
            use="give torch.float32 or torch.float64",
        )

    def read_sets(what: str, sets: Sequence[Tensor | Sequence[int]] | None) -> list[Tensor] | None:
        def check(blank: int, token: int) -> int:
            return checks.whole(f"the {what}s of blank {blank}", token, 0, model.vocab_size - 1)

        if sets is None:
            return None
        whole_numbers = [
            checks.wholes(f"the {what}s of blank {blank}", tokens)
            for blank, tokens in enumerate(sets, 1)
        ]
        return token_sets(what, whole_numbers, len(cloze.block), check)

    (tables,) = tables_of(
        model,
        [cloze],
        [read_sets("candidate", candidates)],
        dtype=dtype,
        progress=progress,
        supports=[read_sets("support", support)],
    )
    return tables


def tables_of(
    model: ConditionalModel,
    clozes: Sequence[Cloze],
    candidates: Sequence[Sequence[Tensor] | None],
    dtype: torch.dtype | None = None,
    progress: Progress | None = None,
    supports: Sequence[Sequence[Tensor] | None] | None = None,
) -> list[Tables]:
    """The tables of several blocks, whose passes run together. There is one entry of
    `candidates`, and of `supports`, per cloze; see `unary_tables` for what None is.
    """
    axes = _axes(model, clozes, candidates, supports or [None] * len(clozes))
    counts = [pass_count(_sizes(of_block)) for of_block in axes]

    def report(passes: int) -> None:
        if progress:
            progress(passes, sum(counts), "passes of the model")

    masked: list[Tensor] = []
    for logits in masked_logits(model, clozes, alone=[count >= ENOUGH for count in counts]):
        own = torch.promote_types(logits.dtype, torch.float32)  # float32, or that of finer logits
        masked.append(logits.to(dtype or own))

    def kind(i: int) -> object:
        """Blocks of one kind are filled as one; a large one is its own kind."""
        length = len(clozes[i].ids)
        sizes = _sizes(axes[i])
        most_rows = prod(sizes) // min(sizes)  # of the largest table, that of the smallest axis
        if most_rows >= enough_rows(model, length):
            return i
        same_axes = tuple(id(axis) for axis in axes[i])  # `_axes` makes equal ones one object
        return length, same_axes

    groups = grouped(range(len(clozes)), kind)
    stacks: list[_BlockStack] = []
    to_fill: list[ConditionalTable] = []
    for group in groups:
        logits = torch.stack([masked[i] for i in group])
        stack = _BlockStack([clozes[i] for i in group], axes[group[0]], logits)
        stacks.append(stack)
        to_fill += stack.conditionals
    done = len(clozes)  # the passes with the whole block masked
    report(done)
    for passes in fill_tables(model, to_fill):
        done += passes
        report(done)
    log_masses = _fetched([stack.log_masses for stack in stacks])
    tables: dict[int, Tables] = {}
    for group, stack, of_stack in zip(groups, stacks, log_masses, strict=True):
        for i, of_block in zip(group, stack.tables(of_stack, model.token_text), strict=True):
            tables[i] = of_block
    return [tables[i] for i in range(len(clozes))]


def _sizes(axes: Sequence[Axis]) -> list[int]:
    return [len(axis) for axis in axes]


def _axes(
    model: ConditionalModel,
    clozes: Sequence[Cloze],
    candidates: Sequence[Sequence[Tensor] | None],
    supports: Sequence[Sequence[Tensor] | None],
) -> list[tuple[Axis, ...]]:
    """The axes of each block. Blanks with the same two tensors, of candidates and of support,
    have the same axis: `tables_of` fills blocks with the same axes as one.
    """
    vocabulary = torch.arange(model.vocab_size)
    regular = regular_tokens(model)
    axis_of: dict[tuple[int, int], Axis] = {}
    axes: list[tuple[Axis, ...]] = []
    for cloze, own_sets, own_supports in zip(clozes, candidates, supports, strict=True):
        usual_support = regular if own_sets else vocabulary
        sets = own_sets or [vocabulary] * len(cloze.block)
        block_supports = own_supports or [usual_support] * len(cloze.block)
        of_block: list[Axis] = []
        for tokens, support in zip(sets, block_supports, strict=True):
            key = id(tokens), id(support)
            if key not in axis_of:
                axis_of[key] = Axis.of(model, tokens, support)
            of_block.append(axis_of[key])
        axes.append(tuple(of_block))
    return axes


def _fetched(tensors: Sequence[Tensor]) -> list[Any]:
    """The numbers of tensors as nested lists, fetched at once: a GPU is waited for once."""
    if not tensors:
        return []
    numbers = torch.cat([tensor.flatten() for tensor in tensors]).cpu()
    parts = numbers.split([tensor.numel() for tensor in tensors])
    return [
        part.reshape(tensor.shape).tolist() for part, tensor in zip(parts, tensors, strict=True)
    ]


def masked_logits(
    model: ConditionalModel, clozes: Sequence[Cloze], alone: Sequence[bool] = ()
) -> list[Tensor]:
    """For each cloze the logits (k, V) at its block, with all of it masked; texts and blocks of
    one size pass together.

    alone   for each cloze, whether it passes by itself, so that its last bits do not depend on
            the others [default: none does]
    """
    alone = alone or [False] * len(clozes)

    def batch(i: int) -> object:
        own = i if alone[i] else None  # a number that no other cloze has
        return len(clozes[i].ids), len(clozes[i].block), own

    of_cloze: dict[int, Tensor] = {}
    for members in grouped(range(len(clozes)), batch):
        ids = on_device([clozes[i].ids for i in members], model.device)
        block = on_device([clozes[i].block for i in members], model.device)
        of_cloze.update(zip(members, model.logits_at(ids, block), strict=True))
    return [of_cloze[i] for i in range(len(clozes))]


def pass_count(sizes: Sequence[int]) -> int:
    """Passes of the model that the tables of candidate sets of these sizes take.

    There is one pass with the whole block masked. For every set S of positions, neither empty nor
    all k of them, and every value of S there are k - |S| passes, one for each position that is
    predicted. With e_j the sum over sets of j positions of the product of their sizes, that is
    1 + sum_{j = 1..k-1} (k - j) e_j. A single position takes 2.
    """
    k = len(sizes)
    if k <= 1:
        return 2  # the pass with the block masked, and the one row of its table
    symmetric = [1, *[0] * k]  # e_0..e_k of the sizes so far
    for size in sizes:
        for j in range(k, 0, -1):  # falling: e_(j - 1) is still that without this size
            symmetric[j] += size * symmetric[j - 1]
    return 1 + sum((k - j) * symmetric[j] for j in range(1, k))


class _BlockStack:
    """n blocks of one length with the same candidates: the conditional tables that the model
    fills, and the `Tables` of each block.

    logits         (n, k, V) at the block, with all of it masked
    log_masses     (n, k, 2): log of the mass that m_t puts on the candidates, within the support,
                   and of the mass that m_t over the whole vocabulary puts on the support
    conditionals   the tables to fill
    """

    def __init__(self, clozes: Sequence[Cloze], axes: tuple[Axis, ...], logits: Tensor) -> None:
        k = len(axes)
        self.axes = axes
        self.log_masked: list[Tensor] = []
        log_masses: list[Tensor] = []
        for axis, of_blank in zip(axes, logits.unbind(1), strict=True):
            in_support = axis.inside(of_blank)
            of_candidates = in_support[:, axis.tokens]
            self.log_masked.append(of_candidates.log_softmax(-1))
            log_total = in_support.double().logsumexp(-1)
            if axis.is_support:  # the log mass is 0: a difference would be off by rounding
                log_on_candidates = torch.zeros_like(log_total)
            else:
                log_on_candidates = of_candidates.double().logsumexp(-1) - log_total
            exact = of_blank.double()
            log_on_support = -lost_nats(exact, axis.outside, exact.logsumexp(-1))
            log_masses.append(torch.stack([log_on_candidates.clamp(max=0), log_on_support], -1))
        self.log_masses = torch.stack(log_masses, 1)

        def table(t: int, revealed: Sequence[int]) -> ConditionalTable:
            return ConditionalTable(
                clozes=clozes, axes=axes, t=t, revealed=list(revealed), dtype=logits.dtype
            )

        self.unary = [table(t, [s for s in range(k) if s != t]) for t in range(k)]
        self.between: dict[tuple[tuple[int, ...], int], ConditionalTable] = {}
        for size in range(1, k - 1):
            for revealed in combinations(range(k), size):
                for t in range(k):
                    if t not in revealed:
                        self.between[revealed, t] = table(t, revealed)
        self.conditionals = [*self.unary, *self.between.values()]

    def tables(
        self, log_masses: Sequence[Sequence[Sequence[float]]], label: Callable[[int], str]
    ) -> Iterator[Tables]:
        """The tables of each block, once all are filled; `log_masses` has the numbers of
        `self.log_masses`.
        """
        unary = [table.by_cloze() for table in self.unary]  # by site, then by block
        between = {key: table.by_cloze() for key, table in self.between.items()}
        for i, of_block in enumerate(zip(*unary, strict=True)):  # a triple per site
            log_q, log_inside, log_total = zip(*of_block, strict=True)
            log_masked_inside, log_masked_support = zip(*log_masses[i], strict=True)
            for blank, log_mass in enumerate(log_masked_inside, 1):
                if log_mass == -inf:
                    raise InputError(
                        f"the model rules out every candidate of blank {blank}: give others"
                    )
            log_between: dict[tuple[tuple[int, ...], int], Tensor] = {}
            for key, of_cloze in between.items():
                log_q_between, log_inside_between, _ = of_cloze[i]
                log_between[key] = log_q_between + log_inside_between  # over the support
            yield Tables(
                candidates=tuple(axis.tokens for axis in self.axes),
                log_q=log_q,
                log_inside=log_inside,
                log_total=log_total,
                log_masked=tuple(rows[i] for rows in self.log_masked),
                log_masked_inside=log_masked_inside,
                log_masked_support=log_masked_support,
                log_between=log_between,
                label=label,
            )
