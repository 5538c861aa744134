"""How scores are computed: texts that are scored together, and the function of each score.

Equal texts are scored once, and those of one length side by side, so that no padding is
computed. Sites are the positions that are scored: all tokens of a text, or those of a target
between given words. Other positions that are not start or end tokens are context. A GPU
computes asynchronously. So `begin` launches the passes of many texts, and their numbers are
read later. In between, the process can write the rows of the texts before and tokenise the
texts after.

`score_ranges`: every term masks one range of positions, which does not depend on what the model
says.

    pll, energy_norm   log q(x_t | rest), t masked alone          energy_raw
                       f_t(x_t), the logit instead
    pll_word           t and the later pieces of its word masked
    left_to_right      t and everything after it masked           right_to_left
                       t and everything before it
                       with right=N, N blanks in the place of everything after it

Pseudo-likelihoods and energies have q over the whole vocabulary, as they are published; the
fixed orders, which are probabilities, over the regular tokens (`unmask.tables.conditionals`).

One term is one pass: mask a range, read one position. Terms that several scores share (the last
piece of a word for pll and pll_word, the last token for pll and left_to_right) are passed once.

Windows, for texts of more tokens than the model takes: the term of t is computed in the stretch
of tokens that the model takes (its start and end tokens kept around it) with t in the middle,
moved inwards at the ends of the text. left_to_right and right_to_left stay probabilities, of a
chain rule with a bounded memory.

Chain rules in orders that are not fixed: chosen as tokens are revealed, or all orders together.

    decoder:NAME@N   log law(x) = sum_{t <= N} sum_{i in K_t} log q(x_i | x_{S_t}),
                     K_t chosen by NAME from x_{S_t}

q runs over the regular tokens, for the choice too. NAME sees distributions given x_S and never
a hidden token, so this is a probability. It reveals a text pass by pass as it would draw it
(`unmask.sampling.decoders.revealing`). A random order is drawn from the seed and is the same
for all texts of a length: an order that depended on the text would not give a probability.

    any_order   log (1/k!) sum over orders o of p_o(x);      any_order_mean_log
                (1/k!) sum over orders of log p_o(x), below it

These come from the lattice of revealed sets (`unmask.tables.lattice`), exact up to
`exact_tokens` sites (2^k - 1 passes). Beyond, `orders` orders are drawn per text: the mean of
p_o is unbiased and any_order_se is the standard error of its logarithm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.common.errors import InputError
from unmask.models.conditional_model import ConditionalModel
from unmask.runs.fingerprint import content_hash
from unmask.runs.progress import Enough, Progress
from unmask.sampling.decoders.revealing import law
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.registry import entry_of
from unmask.sampling.target import Target
from unmask.scoring.registry import SCORES, AnyOrder, DecoderLaw, MaskedRange, Score, sharing
from unmask.scoring.texts import Encoded
from unmask.tables.conditionals import Conditionals, logit_rows, lost_nats, outside, regular_tokens
from unmask.tables.lattice import along_orders, lattice, log_mean_of_sampled, random_orders

GPU_LOGITS = 2**31
"""Bytes of logits of one call on a GPU; rows are made call by call, so memory does not grow
with the text or their number.
"""
ROWS_TOGETHER = 2**16  # Revealed texts made at once, over all texts of a call
TEXTS, PASSES = "texts", "passes"  # The units of progress


@dataclass(frozen=True)
class TextBatch:
    """n texts of T tokens, k of which are scored.

    ids        token ids, start and end tokens included
    sites      positions that are scored, in rising order
    regular    which positions hold a token of the text, rather than a start or end token
    word_end   for each site the first position after its word
    """

    ids: Int[Tensor, "n T"]
    sites: Int[Tensor, "n k"]
    regular: Bool[Tensor, "n T"]
    word_end: Int[Tensor, "n k"]

    @classmethod
    def of(
        cls,
        ids: Int[Tensor, "n T"],
        sites: Int[Tensor, "n k"] | None = None,
        regular: Bool[Tensor, "n T"] | None = None,
        word_end: Int[Tensor, "n k"] | None = None,
    ) -> TextBatch:
        """By default every position is regular, every regular one a site, and every token its
        own word.
        """
        if regular is None:
            regular = torch.ones_like(ids, dtype=torch.bool)
        if sites is None:
            sites = regular.nonzero()[:, 1].reshape(len(ids), -1)
        return cls(ids, sites, regular, sites + 1 if word_end is None else word_end)

    def to(self, device: torch.device) -> TextBatch:
        """The same on another device; a GPU is not waited for."""
        parts = [self.ids, self.sites, self.regular, self.word_end]
        if device.type == "cuda":
            parts = [part if part.is_cuda else part.pin_memory() for part in parts]
        return TextBatch(*(part.to(device, non_blocking=True) for part in parts))

    def part(self, rows: slice | list[int]) -> TextBatch:
        """Some of the texts."""
        return TextBatch(self.ids[rows], self.sites[rows], self.regular[rows], self.word_end[rows])

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Scored:
    """One score of n texts, in nats.

    values    the scores; NaN for texts without one
    by_site   each site's share, if the score is a sum over sites
    extra     further columns, by suffix
    reasons   why a text has no value, by its row
    """

    values: Float[Tensor, " n"]
    by_site: Float[Tensor, "n k"] | None = None
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    reasons: Mapping[int, str] = field(default_factory=dict)


ScoreFunction = Callable[
    [ConditionalModel, TextBatch, Sequence[Any], Progress | None], dict[str, Scored]
]
"""Computes scores of equal options for a batch, from shared passes; reports progress of work
that is long within a batch.
"""


def score_batch(
    model: ConditionalModel,
    batch: TextBatch,
    scores: Sequence[Score],
    windows: bool = False,
    progress: Progress | None = None,
) -> dict[str, Scored]:
    """All scores by name, each group of `sharing` computed once; twice if texts have tokens
    that only some of its scores accept.

    With `windows`, scores that have windows score texts longer than the model. If the model
    raises `Enough`, the scores that are not computed yet are NaN, with that as the reason.
    """
    impossible = outside_support(model, batch)
    batch = batch.to(model.device)
    scored: dict[str, Scored] = {}
    every_row = range(len(batch))
    limit = model.max_length
    too_long = limit is not None and batch.ids.shape[1] > limit
    try:
        for group in sharing(scores):
            fitting = [score for score in group if not too_long or (score.windows and windows)]
            for score in (score for score in group if score not in fitting):
                advice = (
                    "shorten it, or ask for windows"
                    if score.windows
                    else "shorten it; this score has no windows"
                )
                reason = (
                    f"the text has {batch.ids.shape[1]} tokens and the model takes {limit}:"
                    f" {advice}"
                )
                scored[score.name] = _among(
                    batch, [], None, score, dict.fromkeys(every_row, reason)
                )
            of_some_rows = [score for score in fitting if impossible and not score.unknown]
            of_all_rows = [score for score in fitting if score not in of_some_rows]
            module, name = group[0].function.split(":")
            compute: ScoreFunction = getattr(import_module(module), name)
            if of_all_rows:
                scored.update(compute(model, batch, of_all_rows, progress))
            if of_some_rows:
                rows = [row for row in every_row if row not in impossible]
                part = compute(model, batch.part(rows), of_some_rows, progress) if rows else {}
                scored.update(
                    {
                        s.name: _among(batch, rows, part.get(s.name), s, impossible)
                        for s in of_some_rows
                    }
                )
    except Enough:
        reasons = dict.fromkeys(every_row, "the work was stopped before this score: ask again")
        scored |= {
            score.name: _among(batch, [], None, score, reasons)
            for score in scores
            if score.name not in scored
        }
    return {score.name: scored[score.name] for score in scores}


def outside_support(model: ConditionalModel, batch: TextBatch) -> dict[int, str]:
    """Texts with a special token among their sites, for example an unknown one: a law over
    regular tokens has none of them.
    """
    special = torch.tensor(sorted({*model.special_ids, model.mask_id}), device=batch.ids.device)
    rows = torch.isin(batch.ids.gather(1, batch.sites), special).any(1).nonzero().flatten().tolist()
    instead = next(name for name, score in SCORES.items() if score.unknown)
    return dict.fromkeys(
        rows,
        f"a token that the model does not know is outside the support of this score: use {instead}",
    )


def _among(
    batch: TextBatch, rows: list[int], part: Scored | None, score: Score, reasons: Mapping[int, str]
) -> Scored:
    """The score of `rows` among all texts of the batch; the others have none, for these reasons."""

    def spread(values: Tensor) -> Tensor:
        whole = torch.full(
            (len(batch), *values.shape[1:]), torch.nan, dtype=torch.float64, device=values.device
        )
        whole[rows] = values.double()
        return whole

    if part is None:
        none = torch.full((len(batch),), torch.nan, dtype=torch.float64)
        return Scored(none, None, {suffix: none.clone() for suffix in score.extra}, reasons)
    by_site = None if part.by_site is None else spread(part.by_site)
    return Scored(
        spread(part.values),
        by_site,
        {suffix: spread(values) for suffix, values in part.extra.items()},
        reasons,
    )


@dataclass(frozen=True)
class TextScores:
    """The numbers of n texts, in nats.

    values    by column: the scores, and their further columns; NaN if a text has no number
    shares    of the scores that are sums over sites, each text's share by site; empty where
              nobody asked for them
    reasons   why a text lacks a number, by its place
    """

    values: dict[str, Float[np.ndarray, " n"]]
    shares: dict[str, list[list[float]]]
    reasons: dict[int, str]


def begin(
    model: ConditionalModel,
    texts: Sequence[Encoded],
    scores: Sequence[Score],
    windows: bool = False,
    progress: Progress | None = None,
    shares: bool = False,
) -> Callable[[], TextScores]:
    """Asks for the passes of all texts, and returns a function that waits for their numbers.

    Equal texts have one number in `distinct`; `which` has that number for each text. `progress`
    gets how many passes are done, by the scores' costs, of those of all these texts.
    """
    distinct: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    which = np.array(
        [distinct.setdefault((text.ids, text.sites), len(distinct)) for text in texts],
        dtype=np.int64,
    )
    _, first = np.unique(which, return_index=True)
    shapes: dict[tuple[int, int], list[int]] = {}
    for index, (ids, sites) in enumerate(distinct):
        shapes.setdefault((len(ids), len(sites)), []).append(index)
    costs = {
        shape: len(members) * sum(score.cost(shape[1]) for score in scores)
        for shape, members in shapes.items()
    }
    all_passes = sum(costs.values())
    by_word = any(score.by_word for score in scores)
    columns: dict[str, list[Tensor]] = {}
    in_order: list[int] = []
    done = 0
    by_site: list[tuple[str, list[int], Tensor]] = []
    reasons: dict[int, str] = {}
    for shape, members in sorted(shapes.items()):
        batch = batch_of([texts[first[index]] for index in members], by_word)
        report = None if progress is None else _part_of(progress, done, costs[shape], all_passes)
        scored = score_batch(model, batch, scores, windows, report)
        for name, score in scored.items():
            for column, numbers in {
                name: score.values,
                **{f"{name}_{end}": more for end, more in score.extra.items()},
            }.items():
                columns.setdefault(column, []).append(numbers)
            if shares and score.by_site is not None:
                by_site.append((name, members, score.by_site))
        for row in {row for score in scored.values() for row in score.reasons}:
            why = dict.fromkeys(
                score.reasons[row] for score in scored.values() if row in score.reasons
            )
            reasons[members[row]] = "; ".join(why)
        in_order += members
        done += costs[shape]
        if progress:
            progress(done, all_passes, PASSES)
    # Copies come after all passes were asked for: one that waits for a GPU would hold back the
    # next batch.
    doubles = {
        name: [part.to(model.device, torch.float64) for part in parts]
        for name, parts in columns.items()
    }
    values = {
        name: torch.cat(parts).to("cpu", non_blocking=True) for name, parts in doubles.items()
    }
    by_site = [
        (name, members, numbers.to("cpu", non_blocking=True)) for name, members, numbers in by_site
    ]
    wait = _waiting(model.device)

    def read() -> TextScores:
        wait()
        place = np.empty(len(distinct), dtype=np.int64)
        place[in_order] = np.arange(len(distinct))
        lists: dict[str, list[list[float]]] = {name: [[]] * len(distinct) for name, _, _ in by_site}
        for name, members, numbers in by_site:
            for index, of_text in zip(members, numbers.tolist(), strict=True):
                lists[name][index] = of_text
        return TextScores(
            {name: column.numpy()[place[which]] for name, column in values.items()},
            {name: [of_texts[index] for index in which] for name, of_texts in lists.items()},
            (
                {at: reasons[index] for at, index in enumerate(which) if index in reasons}
                if reasons
                else {}
            ),
        )

    return read


def _part_of(progress: Progress, before: int, own: int, passes: int) -> Progress:
    """Reports the progress of one of several batches: `own` of all `passes`, after the `before`
    of those before it.
    """

    def report(done: int, total: int, what: str = PASSES) -> None:
        share = done / total if total else 0.0
        progress(before + int(own * min(share, 1.0)), passes, PASSES)

    return report


def _waiting(device: torch.device) -> Callable[[], object]:
    """A function that waits until the device has done everything that was asked of it before
    now.
    """
    if device.type != "cuda":
        return lambda: None
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(device))
    return event.synchronize


def batch_of(texts: Sequence[Encoded], words: bool = True) -> TextBatch:
    """Texts with equally many tokens and sites, side by side. Without `words` every token is
    its own.
    """
    places, inside = np.arange(len(texts[0].ids)), np.array([text.tokens.inside for text in texts])
    ids, sites = (
        torch.from_numpy(
            np.fromiter(chain.from_iterable(part), dtype=np.int64).reshape(len(texts), -1)
        )
        for part in ([text.ids for text in texts], [text.sites for text in texts])
    )
    return TextBatch.of(
        ids,
        sites,
        torch.from_numpy((places >= inside[:, :1]) & (places < inside[:, 1:])),
        _word_ends(texts).gather(1, sites) if words else None,
    )


def _word_ends(texts: Sequence[Encoded]) -> Int[Tensor, "n T"]:
    """For each position the first after its word."""
    words = np.array(
        [text.tokens.words for text in texts], dtype=np.float64
    )  # NaN for start and end tokens
    ends = np.tile(np.arange(1, words.shape[1] + 1), (len(texts), 1))
    for t in range(words.shape[1] - 2, -1, -1):
        ends[:, t] = np.where(words[:, t] == words[:, t + 1], ends[:, t + 1], ends[:, t])
    return torch.from_numpy(ends)


def score_ranges(
    model: ConditionalModel,
    batch: TextBatch,
    scores: Sequence[MaskedRange],
    progress: Progress | None = None,
) -> dict[str, Scored]:
    """The scores of every text; one pass per distinct term."""
    if (right := getattr(scores[0], "right", None)) is not None:
        return {scores[0].name: _with_fixed_right(model, batch, right)}
    n, k = batch.sites.shape
    text = torch.arange(n, device=batch.ids.device).unsqueeze(1).expand(n, k)
    ranges = [
        torch.stack([text, *masked_range(batch, score.masks), batch.sites], -1) for score in scores
    ]
    wanted = torch.stack(ranges).flatten(0, 2)
    if len(scores) > 1:
        terms, term_of = wanted.unique(dim=0, return_inverse=True)
    else:  # one score's terms differ; to sort them would wait for a GPU
        terms, term_of = wanted, torch.arange(len(wanted), device=wanted.device)
    special = (
        outside(model, regular_tokens(model))
        if any(score.probability for score in scores)
        else None
    )
    log_q, logit, lost = _read(model, batch, terms, special)
    scored = {}
    for part, score in zip(term_of.reshape(len(scores), n, k), scores, strict=True):
        by_site = score.better * (logit if score.reads == "logit" else log_q)[part]
        if score.probability:
            by_site = by_site + lost[part]
        scored[score.name] = Scored(by_site.sum(1), by_site)
    return scored


def _with_fixed_right(model: ConditionalModel, batch: TextBatch, right: int) -> Scored:
    """left_to_right with `right` blanks after each token, in the place of the later tokens.

    Where the model does not take the whole prefix, its first tokens are left out.
    """
    special = outside(model, regular_tokens(model))
    first, after = _stretch(batch)
    by_site = torch.zeros(batch.sites.shape, dtype=torch.float64, device=batch.ids.device)
    room = (
        batch.ids.shape[1]
        if model.max_length is None
        else model.max_length - (batch.ids.shape[1] - after) - first - 1 - right
    )
    if room < 1:
        raise InputError(
            f"{right} leaves no room for the text in the {model.max_length} tokens of the model",
            argument="right",
            use="give fewer",
        )
    for position in batch.sites.unique().tolist():
        for rows in (
            (batch.sites == position).any(1).nonzero()[:, 0].split(logit_rows(model, 1, GPU_LOGITS))
        ):
            ids = batch.ids[rows]
            before = torch.cat([ids[:, :first], ids[:, max(first, position - room) : position]], 1)
            blanks = ids.new_full((len(rows), 1 + right), model.mask_id)
            logits = model.logits_at(
                torch.cat([before, blanks, ids[:, after:]], 1),
                torch.full_like(rows, before.shape[1])[:, None],
            )
            lost = lost_nats(logits[:, 0], special, total := logits[:, 0].logsumexp(1)).double()
            token = logits[:, 0].gather(1, ids[:, position : position + 1])[:, 0]
            here = (batch.sites[rows] == position).nonzero()[:, 1]
            by_site[rows, here] = (token - total).double() + lost
    return Scored(by_site.sum(1), by_site)


def masked_range(batch: TextBatch, masks: str) -> tuple[Int[Tensor, "n k"], Int[Tensor, "n k"]]:
    """For each site the first position that is masked with it, and the first after those."""
    sites, length = batch.sites, batch.ids.shape[1]
    if masks == "after":
        return sites, torch.full_like(sites, length)
    if masks == "before":
        return torch.zeros_like(sites), sites + 1
    return sites, batch.word_end if masks == "word" else sites + 1


def _read(
    model: ConditionalModel,
    batch: TextBatch,
    terms: Int[Tensor, "m 4"],
    special: Int[Tensor, " s"] | None,
) -> Float[Tensor, "3 m"]:
    """log q and logit of the token at `position` of `text`, the regular positions from `first`
    to before `after` masked.

    q is over the whole vocabulary; the third row has the nats that the tokens `special` take of it.
    """
    log_q, logit, lost = numbers = torch.zeros(
        (3, len(terms)), dtype=torch.float64, device=terms.device
    )
    at_once = logit_rows(model, 1, GPU_LOGITS)
    for start in range(0, len(terms), at_once):
        text, first, after, position = terms[start : start + at_once].unbind(1)
        places = _places(model, batch, text, position)
        hidden = (
            batch.regular[text.unsqueeze(1), places]
            & (places >= first.unsqueeze(1))
            & (places < after.unsqueeze(1))
        )
        rows = batch.ids[text.unsqueeze(1), places].masked_fill(hidden, model.mask_id)
        column = (places == position.unsqueeze(1)).int().argmax(1, keepdim=True)
        logits = model.logits_at(rows, column)[:, 0]
        chosen = logits.gather(1, batch.ids[text, position].unsqueeze(1)).squeeze(1)
        logit[start : start + at_once] = chosen.double()
        total = logits.logsumexp(1)
        log_q[start : start + at_once] = (chosen - total).double()
        if special is not None:
            lost[start : start + at_once] = lost_nats(logits, special, total).double()
    return numbers


def _places(
    model: ConditionalModel, batch: TextBatch, text: Int[Tensor, " m"], position: Int[Tensor, " m"]
) -> Int[Tensor, "m L"]:
    """The positions of its text that each row holds: all, or the start and end tokens and a
    window around `position`.
    """
    length, limit = batch.ids.shape[1], model.max_length
    whole = torch.arange(length, device=text.device).expand(len(text), -1)
    if limit is None or length <= limit:
        return whole
    first, after = _stretch(batch)
    width = limit - first - (length - after)
    start = (position - width // 2).clamp(min=first, max=after - width)
    inside = start.unsqueeze(1) + torch.arange(width, device=text.device)
    return torch.cat([whole[:, :first], inside, whole[:, after:]], 1)


def _stretch(batch: TextBatch) -> tuple[int, int]:
    """Where the tokens of the texts begin and end; the start and end tokens of one model are
    the same for all texts.
    """
    columns = batch.regular.any(0).nonzero().flatten()
    return int(columns[0]), int(columns[-1]) + 1


def score_law(
    model: ConditionalModel,
    batch: TextBatch,
    scores: Sequence[DecoderLaw],
    progress: Progress | None = None,
) -> dict[str, Scored]:
    """The law of a decoder; as many passes per text as it makes."""
    (score,) = scores
    n, k = batch.sites.shape
    passes = Passes(model, form="logits")
    entry = entry_of(score.decoder)
    if score.parts is None:
        method = entry()
    else:
        method = entry.in_parts(score.parts)
    by_site = torch.zeros((n, k), dtype=torch.float64, device=model.device)
    for rows, target in _alike(model, batch):
        decoder = method.on(target, passes)
        for part in rows.split(logit_rows(model, k, GPU_LOGITS)):
            same = ChainStreams(score.seed, [0] * len(part), model.device).at(0, 0)
            by_site[part] = law(decoder, batch.ids[part], same).log_q
    return {score.name: Scored(by_site.sum(1), by_site)}


def _alike(model: ConditionalModel, batch: TextBatch) -> Iterator[tuple[Int[Tensor, " m"], Target]]:
    """The texts with the same sites, and their target, in which all other tokens are given."""
    each, which = batch.sites.unique(dim=0, return_inverse=True)
    for number, sites in enumerate(each):
        rows = (which == number).nonzero().flatten()
        template = batch.ids[rows[0]].index_fill(0, sites, model.mask_id)
        fixed = [t for t in range(len(template)) if t not in set(sites.tolist())]
        yield rows, Target(model, template.tolist(), given=fixed)


def score_orders(
    model: ConditionalModel,
    batch: TextBatch,
    scores: Sequence[AnyOrder],
    progress: Progress | None = None,
) -> dict[str, Scored]:
    """any_order, exact or from sampled orders."""
    (score,) = scores
    exact = batch.sites.shape[1] <= score.exact_tokens
    per_text = 2 ** batch.sites.shape[1] if exact else score.orders
    passes = len(batch) * (per_text - 1 if exact else per_text * batch.sites.shape[1])
    conditionals = Conditionals(model, regular_tokens(model), progress, passes)
    at_once = max(1, ROWS_TOGETHER // per_text)
    slices = [slice(start, start + at_once) for start in range(0, len(batch), at_once)]
    parts = [_any_order(conditionals, batch.part(rows), score, exact) for rows in slices]
    log_mean, *more = (torch.cat(column) for column in zip(*parts, strict=True))
    return {score.name: Scored(log_mean, extra=dict(zip(score.extra, more, strict=True)))}


def _any_order(
    conditionals: Conditionals, batch: TextBatch, score: AnyOrder, exact: bool
) -> tuple[Tensor, ...]:
    """any_order, and its further columns."""
    if exact:
        orders = lattice(conditionals, batch.ids, batch.sites)
        log_mean = orders.log_mean
        return log_mean, torch.zeros_like(log_mean), orders.mean_log
    drawn = []
    for ids, sites in zip(
        batch.ids, batch.sites, strict=True
    ):  # by a seed that depends on the text alone
        number = int(content_hash(f"{score.seed} {ids.tolist()} {sites.tolist()}"), 16) % (
            2**63 - 1
        )
        drawn.append(
            random_orders(
                1, score.orders, batch.sites.shape[1], torch.Generator().manual_seed(number)
            )
        )
    log_p = along_orders(
        conditionals, batch.ids, batch.sites, torch.cat(drawn).to(conditionals.model.device)
    )
    return *log_mean_of_sampled(log_p), log_p.mean(1)
