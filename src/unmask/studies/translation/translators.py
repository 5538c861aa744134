"""Translation by a masked model, whose drafts are decoded or sampled, or by a causal one, with
its beam; here or on Ray.

A causal model of pairs reads the source once and then goes token by token, with a cache of keys
and values:

    p(y_1 ... y_n, end | s) = prod_t p(y_t | y_<t, s)
            position W + t sees the whole source, and the targets up to itself

Its network is our own BERT; training computes the same in one pass over a packed row, this step
by step. Beam search:

    keep the b likeliest beginnings of each source's translation;  a finished one stays as it is;
    when all are finished, or as long as the model allows, take the one with the highest log p /
        tokens

A beam of 1 is greedy decoding. The end token counts as a token.

The machinery of the masked one is that of `sampling`. A draft is a text of its source and
`length` free positions; its length decides its `Target`, in which the source is given. Drafts
of one length go side by side, whatever their sources; on a CPU, those whose sources have the
same room (`PairModel.in_room`). A draft's random choices depend on the seed and its own number
alone.

Figures against references are BLEU and chrF as sacrebleu computes them, and what references do
not show:

    stutter     share of neighbouring tokens that are equal; and of translations with such a pair
    accepted    share of a kernel's steps whose proposal was accepted (the same token again
                always is)
    novel       share of a kernel's steps that changed the text
"""

from __future__ import annotations

import os
import time
import warnings
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from zlib import crc32

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.common.errors import InputError, UnmaskWarning
from unmask.common.files import as_json, user_path
from unmask.common.results import Result
from unmask.models.bert_checkpoint import read_own_bert
from unmask.models.checkpoint import load_network, resolve_dtype
from unmask.models.checkpoint_files import Source as Folder
from unmask.models.encoder.bert import BertMaskedLM, KeyCache
from unmask.models.float32_logits import widen_output
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.text_tokenizer import refuse_hopeless
from unmask.models.text.word_pieces import UNKNOWN
from unmask.runs.devices import resolve_device
from unmask.runs.engine import Workers, each
from unmask.runs.fingerprint import fingerprint
from unmask.runs.folder import RunFolder
from unmask.runs.lines import source_name, text_lines
from unmask.runs.progress import Progress
from unmask.sampling.chains.functionals import stutter_rate, stutters
from unmask.sampling.chains.group_run import Group, group_run
from unmask.sampling.chains.snapshot import COUNTS
from unmask.sampling.chains.starts import random_texts
from unmask.sampling.decoders.decoder import Ancestral
from unmask.sampling.engine.passes import CPU_BYTES, Passes, chains_that_fit
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.kernels.kernel import ChainState
from unmask.sampling.registry import MH, Block, EnergyKind, Method
from unmask.sampling.settings import SampleSettings
from unmask.sampling.target import Energy, Target
from unmask.studies.translation.pairs import LengthHead, PairLayout, pooled_states, read_layout
from unmask.studies.translation.recipe import (
    Beam,
    PairTranslator,
    TranslateSettings,
    Translator,
    in_worker,
)
from unmask.studies.translation.spelling import Spelling

if TYPE_CHECKING:
    import pyarrow

GPU_ROWS, CPU_ROWS = 128, 4
"""Of a call: on a GPU drafts of one length are tens or hundreds, on a CPU a few; what a call
has too few of is computed for nothing."""
ROOMS = 8  # On a CPU the room of a source is cut to a multiple of this many tokens
SOURCES = {"cpu": 32, "cuda": 1024}
"""Sources of an item on Ray, by device: those of a worker that dies are translated again by
another.
"""
SHARES = 4
"""Items of each worker, at least; and how much larger the items of a single process are, which
are kept when they are done.
"""
ROWS = {
    "cuda": 4096,
    "cpu": 256,
}  # Beginnings of translations that beam search reads side by side, by device
STREAMS = 2**24  # Streams of random numbers
Source = tuple[int, ...]  # The tokens of a source, at least one
Row = dict[str, Any]
KIND = "translate"
BEGINNING = {"": (b'{"text": ',)}
"""How files of translations begin."""


@dataclass(frozen=True)
class PairModel(PairTranslator):
    """A folder of `unmask train --parallel`, loaded; `corrects`: it was trained to correct
    tokens that it sees.
    """

    model: MaskedLM
    layout: PairLayout
    spelling: Spelling
    lengths: LengthHead
    corrects: bool = False

    @classmethod
    def load(cls, folder: Path, device: str = "auto", dtype: str = "auto") -> PairModel:
        """Read a folder; `device` and `dtype` are those of `MaskedLM.load`."""
        on, kind = resolve_device(device), resolve_dtype(dtype)
        spelling = Spelling(folder)
        layout, objective, corrects = read_layout(folder, spelling.core.get_vocab())
        if objective != "masked":
            raise InputError(
                f"model {str(folder)!r} is a causal model, which fills no blanks: give a masked one"
            )
        network = load_network(Folder(str(folder)), on, kind)
        assert isinstance(network, BertMaskedLM)
        network.bert.unseen = layout.pad
        widen_output(network)
        model = MaskedLM(network, spelling.tokenizer, name=str(folder))
        model.folder = folder
        return cls(model, layout, spelling, LengthHead.load(folder).to(model.device), corrects)

    device = property(lambda self: self.model.device)
    fingerprint = property(lambda self: self.model.fingerprint)
    name = property(lambda self: self.model.name)

    @cached_property
    def passes(self) -> Passes:
        """How the model is run; calls recorded on a GPU for each length of texts are reused as
        long as the model is loaded.
        """
        return Passes(self.model, GPU_ROWS if self.model.device.type == "cuda" else CPU_ROWS)

    def in_room(self, source: Sequence[int]) -> PairModel:
        """This model for texts with a room of no more tokens than the source needs, rounded up;
        weights are shared.

        Nobody looks at the padding that is cut off, and every other token keeps its position,
        so that the conditionals are the same; a CPU is spared the padding. A GPU keeps to one
        room: it would rather have more texts side by side.
        """
        room = min(self.layout.source_length, -(-(len(source) + 2) // ROOMS) * ROOMS)
        if self.model.device.type == "cuda" or room == self.layout.source_length:
            return self
        if room not in self._rooms:
            network, cut = self.model.network, self.layout.source_length - room
            assert isinstance(network, BertMaskedLM)
            model = MaskedLM(
                network.without_positions(room, room + cut),
                self.model.tokenizer,
                name=self.model.name,
            )
            model.folder, model.fingerprint = (
                self.model.folder,
                self.model.fingerprint,
            )  # the same model, so its profile holds
            layout = replace(
                self.layout, source_length=room, max_length=self.layout.max_length - cut
            )
            self._rooms[room] = replace(self, model=model, layout=layout)
        return self._rooms[room]

    @cached_property
    def _rooms(self) -> dict[int, PairModel]:
        return {}

    def likely_lengths(
        self, sources: Sequence[Sequence[int]], k: int
    ) -> list[list[tuple[int, float]]]:
        """The k likeliest numbers of tokens of each source's translation, and their
        log-probabilities.
        """
        if not sources:
            return []
        network = self.model.network
        assert isinstance(network, BertMaskedLM)
        with torch.no_grad():
            likely = self.lengths(*pooled_states(network.bert, self.layout, sources)).topk(k, -1)
        both = zip(likely.indices.tolist(), likely.values.tolist(), strict=True)
        return [[(index + 1, value) for index, value in zip(*row, strict=True)] for row in both]


@dataclass(frozen=True)
class Draft:
    """A translation of `source` (tokens) into `length` tokens: `tokens`, or none yet; and the
    passes it has taken.

    `log_length`: log-probability of the length, given the source.
    """

    source: tuple[int, ...]
    length: int
    log_length: float = 0.0
    tokens: tuple[int, ...] = ()
    passes: int = 0

    @property
    def number(self) -> int:
        """Its stream of random numbers: by source and length, so that a draft is the same in
        any company.
        """
        return crc32(array("q", [*self.source, self.length]).tobytes()) % STREAMS


class Drafting:
    """Works on drafts with one model and one seed; `moves` counts what kernels did (see
    `COUNTS`).
    """

    def __init__(self, pair: PairModel, seed: int) -> None:
        self.pair, self.seed = pair, seed
        self.moves = dict.fromkeys(COUNTS, 0)

    def at_random(self, drafts: Sequence[Draft]) -> list[Draft]:
        """The drafts with tokens drawn uniformly from the vocabulary."""
        out = list(drafts)
        for places, group, _ in self._groups(drafts, MH(), "norm"):
            drawn = random_texts(
                group.target, len(places), ChainStreams(self.seed, group.chains).at(0, 0)
            )
            self._put(out, places, drawn[:, group.target.free_positions], [0] * len(places))
        return out

    def scores(
        self, drafts: Sequence[Draft], score: Literal["raw", "norm", "any-order"]
    ) -> list[float]:
        """Energies (lower is better), or log-probabilities in a random order (higher is better)."""
        out = [0.0] * len(drafts)
        for places, group, passes in self._groups(
            drafts, MH(), "raw" if score == "raw" else "norm"
        ):
            assert group.starts is not None
            if score == "any-order":
                rows = torch.arange(len(places), device=group.target.device)
                order = (
                    ChainStreams(self.seed, group.chains)
                    .at(0, 1)
                    .permutation(rows, group.target.sites)
                )
                values = Ancestral(group.target, passes).log_prob(group.starts, order)
            else:
                state = ChainState.at(group.target, group.starts)
                state.complete(group.target, passes)
                values = state.energy
            for place, value in zip(places, values.tolist(), strict=True):
                out[place] = value
        return out

    def run(
        self,
        drafts: Sequence[Draft],
        kernel: Method,
        energy: EnergyKind,
        sweeps: int = 1,
        later: int = 0,
    ) -> list[Draft]:
        """The drafts' blanks filled by a decoder, or the drafts after `sweeps` sweeps of a
        Markov kernel.

        `later` is added to the seed.
        """
        out = list(drafts)
        for places, group, passes in self._groups(drafts, kernel, energy):
            narrow = _narrowed(kernel, group.target.sites)
            settings = SampleSettings(
                kernel=narrow, energy=energy, seed=self.seed + later, sweeps=sweeps
            )
            run = group_run(settings, group, passes)
            run.begin()
            for _ in range(sweeps):
                run.sweep()
            for name, count in zip(COUNTS, run.counts.sum(1).tolist(), strict=True):
                self.moves[name] += count
            self._put(out, places, run.texts()[:, group.target.free_positions], run.spent.tolist())
        return out

    def _groups(
        self, drafts: Sequence[Draft], kernel: Method, kind: EnergyKind
    ) -> Iterator[tuple[list[int], Group, Passes]]:
        """The drafts of each length and room, by their places in `drafts`, as many at once as
        fit into memory; and how the model is run on them."""
        alike: dict[tuple[int, int], list[int]] = {}
        for place, draft in enumerate(drafts):
            room = self.pair.in_room(draft.source).layout.source_length
            alike.setdefault((draft.length, room), []).append(place)
        for (length, room), places in sorted(alike.items()):
            source = drafts[places[0]].source
            pair = self.pair.in_room(source)
            layout = pair.layout
            target = Target(
                pair.model, layout.template(source, length), Energy(kind), given=range(room)
            )
            size = chains_that_fit(kernel, target, "logits", CPU_BYTES)
            for first in range(0, len(places), size):
                some = [drafts[place] for place in places[first : first + size]]
                rows = [
                    (*layout.room(d.source), *(d.tokens or [layout.mask] * d.length), layout.end)
                    for d in some
                ]
                group = Group(
                    [draft.number for draft in some],
                    target,
                    torch.tensor(rows, device=target.device),
                )
                yield places[first : first + size], group, pair.passes

    @staticmethod
    def _put(
        out: list[Draft], places: Sequence[int], tokens: Int[Tensor, "n F"], passes: Sequence[int]
    ) -> None:
        for place, ids, spent in zip(places, tokens.tolist(), passes, strict=True):
            out[place] = replace(
                out[place], tokens=tuple(ids), passes=out[place].passes + int(spent)
            )


def _narrowed(kernel: Method, sites: int) -> Method:
    """The kernel for short texts: a block is at most as long as the text, and one site instead
    of a pair is moved by itself.
    """
    if kernel.decodes or kernel.sites_per_step <= sites:
        return kernel
    return replace(kernel, block_size=sites) if isinstance(kernel, Block) else MH()


class Translation(NamedTuple):
    """Tokens of a translation, its energy (of a masked model), its log-probability (of a causal
    one with its end), its passes.
    """

    tokens: tuple[int, ...]
    energy: float | None
    log_prob: float
    passes: int


class CausalPairs(PairTranslator):
    """Next-token log-probabilities of translations; special tokens except the end token are
    excluded.
    """

    def __init__(
        self,
        network: BertMaskedLM,
        layout: PairLayout,
        special: Int[Tensor, " s"],
        spelling: Any = None,
        name: str = "",
    ) -> None:
        self.network, self.layout, self.spelling, self.name = network.eval(), layout, spelling, name
        network.bert.unseen = layout.pad
        self.device = next(network.parameters()).device
        excluded = torch.zeros(network.config.vocab_size, dtype=torch.bool)
        excluded[special] = True
        excluded[layout.end] = False
        self.excluded = excluded.to(self.device)

    @classmethod
    def load(cls, folder: Path, device: str, dtype: str) -> CausalPairs:
        """Read a folder of `unmask train --parallel SOURCE TARGET --objective causal`."""
        spelling = Spelling(folder)
        layout, objective, _ = read_layout(folder, spelling.core.get_vocab())
        if objective != "causal":
            raise InputError(
                f"model {str(folder)!r} is a masked model: give one that was trained with"
                " --objective causal"
            )
        network = read_own_bert(Folder(str(folder)), resolve_dtype(dtype), decoder=True)
        if network is None:
            raise InputError(
                f"the weights in {str(folder)!r} are not those of its config.json: train the model"
                " again"
            )
        special = [
            i for i, token in spelling.core.get_added_tokens_decoder().items() if token.special
        ]
        return cls(
            network.to(resolve_device(device)), layout, torch.tensor(special), spelling, str(folder)
        )

    @property
    def fingerprint(self) -> str:
        """Of the weights."""
        return fingerprint(self.network.state_dict())

    @torch.no_grad()
    def read(self, rooms: Int[Tensor, "n W"]) -> tuple[KeyCache, Float[Tensor, "n V"]]:
        """Read sources in their rooms; log p(y_1 | s)."""
        cache = KeyCache()
        states = self.network.bert(rooms, cache=cache)
        last = (rooms != self.layout.pad).sum(1) - 1
        return cache, self._log_probs(states[torch.arange(len(rooms), device=self.device), last])

    @torch.no_grad()
    def step(self, cache: KeyCache, tokens: Int[Tensor, " n"], place: int) -> Float[Tensor, "n V"]:
        """Read one more token of each translation, its `place`-th from 0; log-probabilities of
        the one after it.
        """
        return self._log_probs(
            self.network.bert(tokens.unsqueeze(1), self.layout.source_length + place, cache)[:, 0]
        )

    def _log_probs(self, states: Float[Tensor, "n d"]) -> Float[Tensor, "n V"]:
        return (
            self.network.head(states).float().log_softmax(-1).masked_fill(self.excluded, -torch.inf)
        )


def beam_search(
    model: CausalPairs, sources: Sequence[Sequence[int]], width: int = 1
) -> list[Translation]:
    """One translation per source, of at most as many tokens as the model takes; all sources are
    searched together.
    """
    n, end, longest = len(sources), model.layout.end, model.layout.longest_target
    cache, log_probs = model.read(
        torch.tensor([model.layout.room(source) for source in sources], device=model.device)
    )
    spare = torch.full((n, max(0, width - log_probs.shape[1])), -torch.inf, device=model.device)
    scores, tokens = torch.cat([log_probs, spare], 1).topk(width)
    tokens = tokens.clamp(max=log_probs.shape[1] - 1)
    cache.take(torch.arange(n, device=model.device).repeat_interleave(width))
    texts, finished = tokens.unsqueeze(-1), (tokens == end) | scores.isinf()
    lengths = torch.ones_like(tokens)
    for place in range(longest):
        if bool(finished.all()):
            break
        following = model.step(cache, texts[..., -1].flatten(), place).view(n, width, -1)
        if place + 1 == longest:
            following = _only(following, end)
        following = torch.where(
            finished.unsqueeze(-1), _only(torch.zeros_like(following), end), following
        )
        scores, flat = (scores.unsqueeze(-1) + following).flatten(1).topk(width)
        before, tokens = flat // following.shape[-1], flat % following.shape[-1]
        texts = torch.cat(
            [
                texts.gather(1, before.unsqueeze(-1).expand(-1, -1, texts.shape[-1])),
                tokens.unsqueeze(-1),
            ],
            -1,
        )
        was_finished = finished.gather(1, before)
        lengths = lengths.gather(1, before) + ~was_finished
        finished = was_finished | (tokens == end) | scores.isinf()
        cache.take((torch.arange(n, device=model.device).unsqueeze(1) * width + before).flatten())
    best = (scores / lengths).argmax(1, keepdim=True)
    chosen = texts.gather(1, best.unsqueeze(-1).expand(-1, -1, texts.shape[-1]))[:, 0].tolist()
    log_prob = scores.gather(1, best)[:, 0].tolist()
    return [
        Translation(
            tuple(row[: row.index(end)] if end in row else row),
            None,
            score,
            texts.shape[-1] * width,
        )
        for row, score in zip(chosen, log_prob, strict=True)
    ]


def _only(log_probs: Float[Tensor, "n b V"], token: int) -> Float[Tensor, "n b V"]:
    """The same with every other token ruled out."""
    only = torch.full_like(log_probs, -torch.inf)
    only[..., token] = log_probs[..., token]
    return only


def translated(
    model: PairModel | CausalPairs, sources: Sequence[Source], settings: TranslateSettings
) -> list[Row]:
    """A row per source, all together, with what a `Translation` has; the first row has the
    seconds, and what a kernel did.
    """
    began, moves = time.monotonic(), dict.fromkeys(COUNTS, 0)
    if isinstance(model, CausalPairs):
        assert isinstance(settings.kernel, Beam)
        made = beam_search(model, sources, settings.kernel.beam)
        seconds = time.monotonic() - began
    else:
        drafting = Drafting(model, settings.seed)
        drafts = _drafts(drafting, settings, sources)
        if model.model.device.type == "cuda":
            torch.cuda.synchronize()
        seconds, moves = time.monotonic() - began, drafting.moves
        numbers = zip(
            drafting.scores(drafts, settings.energy),
            drafting.scores(drafts, "any-order"),
            strict=True,
        )
        made = [
            Translation(draft.tokens, *both, draft.passes)
            for draft, both in zip(drafts, numbers, strict=True)
        ]
    of_all = {"seconds": seconds, **moves}
    return [
        {**one._asdict(), **(dict.fromkeys(of_all, 0) if n else of_all)}
        for n, one in enumerate(made)
    ]


def refuse_misfit(model: PairModel | CausalPairs, settings: TranslateSettings) -> None:
    """Refuse more lengths than the model has; warn of a decoder that asks for what the model
    was not trained on.
    """
    if not isinstance(model, PairModel):
        return
    if settings.lengths > model.layout.longest_target:
        most = f"the {model.layout.longest_target} that the model takes"
        raise InputError(f"lengths {settings.lengths} is more than {most}: give fewer")
    if settings.first is not None and settings.first.corrects and not model.corrects:
        warnings.warn(
            f"{settings.first.name} asks the model to correct tokens that it sees, and"
            f" {model.model.name!r} was trained on blanks only: train one with --refinement, or"
            " take another decoder",
            UnmaskWarning,
            stacklevel=4,
        )


def _drafts(
    drafting: Drafting, settings: TranslateSettings, sources: Sequence[Source]
) -> list[Draft]:
    """One draft per source: decoded at its likeliest lengths, the best chosen, and moved by the
    kernel if it is a Markov one.
    """
    drafts = [
        Draft(source, length, log_length)
        for source, likely in zip(
            sources, drafting.pair.likely_lengths(sources, settings.lengths), strict=True
        )
        for length, log_length in likely
    ]
    if settings.first is None:
        drafts = drafting.at_random(drafts)
    else:
        drafts = drafting.run(drafts, settings.first, settings.energy, later=int(settings.moves))
    drafts = _best(drafting, settings, drafts)
    if not settings.moves:
        return drafts
    assert isinstance(settings.kernel, Method)
    return drafting.run(drafts, settings.kernel, settings.energy, settings.sweeps)


def _best(drafting: Drafting, settings: TranslateSettings, drafts: Sequence[Draft]) -> list[Draft]:
    """Of each source's drafts the one with the lowest E_raw(y | s, n) - log p(n | s) per token,
    with the passes of all.
    """
    k = settings.lengths
    if k == 1:
        return list(drafts)
    scored = [
        ((e - d.log_length) / d.length, d)
        for e, d in zip(drafting.scores(drafts, "raw"), drafts, strict=True)
    ]
    groups = [scored[first : first + k] for first in range(0, len(drafts), k)]
    spent = [sum(draft.passes + draft.length for _, draft in group) for group in groups]
    best = [min(group, key=lambda one: one[0])[1] for group in groups]
    return [replace(draft, passes=passes) for draft, passes in zip(best, spent, strict=True)]


def translations(
    model: Translator,
    loaded: PairModel | CausalPairs,
    settings: TranslateSettings,
    sources: Sequence[Source],
    workers: Workers | None = None,
    folder: RunFolder | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """A row per source, some sources at a time, here or by workers; those that the folder holds
    are not translated again.
    """
    columns = _columns()
    rows = {row["source"]: row for row in folder.rows(columns).to_pylist()} if folder else {}
    pending = [place for place in range(len(sources)) if place not in rows]
    device = workers.device if workers else loaded.device.type
    cuts = shares(
        settings, device, [sources[place] for place in pending], workers.count if workers else 0
    )
    items = [[pending[place] for place in cut] for cut in cuts]
    setup = in_worker(model, device) if workers else lambda: loaded
    work = each(
        partial(translated, settings=settings),
        ([sources[place] for place in item] for item in items),
        workers,
        setup,
    )
    for index, part in work:
        new = [{"source": place, **row} for place, row in zip(items[index], part, strict=True)]
        if folder:
            folder.store(new, columns)
        rows |= {row["source"]: row for row in new}
        if progress:
            progress(len(rows), len(sources), "translations")
    return [rows[place] for place in range(len(sources))]


def _columns() -> pyarrow.Schema:
    import pyarrow

    whole = dict.fromkeys(("source", "passes", *COUNTS), pyarrow.int64())
    real = dict.fromkeys(("energy", "log_prob", "seconds"), pyarrow.float64())
    return pyarrow.schema({**whole, **real, "tokens": pyarrow.list_(pyarrow.int32())})


def shares(
    settings: TranslateSettings, device: str, sources: Sequence[Source], workers: int
) -> list[list[int]]:
    """The places of each item's sources, which have similar lengths; without workers, items are
    larger.

    A beam search ends when all sources that are searched together have ended: an item is those
    that one process would search together, so that passes are the same, too.
    """
    order = sorted(range(len(sources)), key=lambda place: len(sources[place]))
    if isinstance(settings.kernel, Beam):
        size = max(1, ROWS[device] // settings.kernel.beam)
    else:
        size = (
            max(1, min(SOURCES[device], -(-len(order) // (SHARES * workers))))
            if workers
            else SHARES * SOURCES[device]
        )
    return [order[first : first + size] for first in range(0, len(order), size)]


@dataclass(frozen=True)
class Figures(Result):
    """Of a set of translations; None where a figure does not apply."""

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str
    stutter: float
    stuttering: float
    energy: float | None
    log_prob: float | None
    accepted: float | None
    novel: float | None
    passes: float
    seconds: float

    def __str__(self) -> str:
        lines = [
            f"BLEU {self.bleu:.2f}  {self.bleu_signature}",
            f"chrF {self.chrf:.2f}  {self.chrf_signature}",
            f"stutter {self.stutter:.2%} of neighbours, in {self.stuttering:.1%} of translations",
            f"{self.passes:.1f} passes and {self.seconds:.4f} seconds per sentence",
        ]
        if self.accepted is not None and self.novel is not None:
            lines.append(f"{self.accepted:.1%} of steps accepted, {self.novel:.1%} novel")
        return "\n".join(lines)


@dataclass(frozen=True, repr=False)
class Translations(Result):
    """Translations in the order of their sources.

    settings  what decided the translations
    rows      text, energy, log_prob, passes, stutter (equal neighbouring tokens), tokens,
              length (of the text, in tokens); an empty source has an empty text, and null for
              its numbers. Of a causal model log_prob is its own
    seconds   in all; on Ray, those of all workers together
    moves     of a kernel: steps, and how many were accepted, proposed another token, and
              changed the text
    figures   against the references
    """

    KEYS = ("settings", "translations=rows", "seconds", "moves", "figures")
    ROWS = "translations"
    settings: TranslateSettings
    rows: list[dict[str, Any]]
    seconds: float
    moves: dict[str, int]
    figures: Figures | None = None

    @property
    def texts(self) -> list[str]:
        """The translations."""
        return [row["text"] for row in self.rows]

    def lines(self) -> str:
        """JSON lines, one per source."""
        return "".join(as_json(row, indent=None) + "\n" for row in self.rows)

    @property
    def headline(self) -> str:
        """The number of translations, and their figures."""
        return f"{self!r} {self.figures or ''}".strip()

    def __repr__(self) -> str:
        return f"Translations({self.settings.kernel.name}, {len(self.rows):,} texts)"


def figures(
    rows: Sequence[Mapping[str, Any]],
    references: Sequence[str],
    seconds: float,
    moves: Mapping[str, int],
) -> Figures:
    """Figures of translations (the rows of `Translations`) against one reference each."""
    try:
        from sacrebleu.metrics import BLEU, CHRF
    except ImportError:
        raise InputError(
            "references need sacrebleu, which is not installed: pip install 'unmask[translate]'"
        ) from None
    bleu, chrf = BLEU(), CHRF()
    texts, known = [row["text"] for row in rows], [row for row in rows if row["text"]]
    tokens, steps = [row["tokens"] for row in known], moves.get("steps", 0)
    return Figures(
        bleu=bleu.corpus_score(texts, [list(references)]).score,
        bleu_signature=str(bleu.get_signature()),
        chrf=chrf.corpus_score(texts, [list(references)]).score,
        chrf_signature=str(chrf.get_signature()),
        stutter=stutter_rate(tokens) if tokens else 0.0,
        stuttering=sum(stutters(t) > 0 for t in tokens) / max(1, len(tokens)),
        energy=_mean([row["energy"] for row in known]),
        log_prob=_mean([row["log_prob"] for row in known]),
        accepted=moves["accepted"] / steps if steps else None,
        novel=moves["changed"] / steps if steps else None,
        passes=_mean([row["passes"] for row in known]) or 0.0,
        seconds=seconds / max(1, len(rows)),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def read_lines(texts: str | os.PathLike[str] | Sequence[str], name: str) -> list[str]:
    """Every line of a file that has a text, empty ones too; or the texts themselves."""
    if not isinstance(texts, str | os.PathLike):
        return [" ".join(text.split()) for text in texts]
    path = user_path(texts, name)
    lines = [" ".join(line.split()) for _, line in text_lines(path)]
    if not any(lines):
        raise InputError(f"{name} {source_name(path)!r} has no text: give one text per line")
    return lines


def encoded(
    spelling: Spelling, layout: PairLayout, sources: Sequence[str]
) -> list[tuple[int, ...]]:
    """The sources' tokens; one that has no room in the model is refused with its line."""
    for line, source in enumerate(sources, 1):
        refuse_hopeless(source, layout.longest_source, f"line {line}")
    tokens = spelling.encode(sources)
    unknown = [line for line, ids in enumerate(tokens, 1) if spelling.unknown in ids]
    if unknown:
        warnings.warn(
            f"{len(unknown):,} of {len(tokens):,} sources have words that the model cannot spell"
            f" and reads as {UNKNOWN}, the first in line {unknown[0]}",
            UnmaskWarning,
            stacklevel=4,
        )
    for line, ids in enumerate(tokens, 1):
        if len(ids) > layout.longest_source:
            raise InputError(
                f"line {line} has {len(ids)} tokens and the model takes sources of"
                f" {layout.longest_source}: shorten it, or train a model with a larger --max-length"
            )
    return [tuple(ids) for ids in tokens]


def collected(
    settings: TranslateSettings,
    spelling: Spelling,
    ids: Sequence[Source],
    made: Sequence[Row],
    references: Sequence[str] | None,
) -> Translations:
    """The translations of all sources: `made` has a row for each that is not empty."""
    waiting, rows = iter(made), []
    for source in ids:
        row = (
            next(waiting)
            if source
            else {"tokens": [], "energy": None, "log_prob": None, "passes": 0}
        )
        numbers, tokens = (
            {name: row[name] for name in ("energy", "log_prob", "passes")},
            list(row["tokens"]),
        )
        text = spelling.text(tokens) if source else ""
        rows.append(
            {
                "text": text,
                **numbers,
                "stutter": stutters(tokens),
                "tokens": tokens,
                "length": len(tokens),
            }
        )
    seconds = sum(row["seconds"] for row in made)
    moves = {name: sum(row[name] for row in made) for name in COUNTS} if settings.moves else {}
    measured = None if references is None else figures(rows, references, seconds, moves)
    return Translations(settings, rows, seconds, moves, measured)
