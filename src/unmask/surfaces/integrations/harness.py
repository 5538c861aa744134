"""A masked language model in the LM Evaluation Harness: `lm_eval --model unmask --model_args
pretrained=...,score=any_order`.

    loglikelihood          log p(continuation | context, its number of tokens): the
                           continuation's tokens are the sites of the score, the words before
                           it, and after it where the context has a [MASK], are held fixed
    loglikelihood_rolling  the score of the text; of one longer than the model in windows
                           (`unmask.scoring.batch`)
    generate_until         `max_gen_toks` blanks after the context, or the [MASK]s in it, filled
                           by a decoder; cut at `until`

"Greedy" is the harness's word for a continuation that `generate_until` would write, given its
number of tokens.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from math import inf, isnan
from typing import Annotated, Any, Literal, NamedTuple, TypeVar
from zlib import crc32

import torch
from annotated_types import Interval
from lm_eval.api.model import LM
from lm_eval.models.utils import normalize_gen_kwargs
from tqdm import tqdm

from unmask.common.checks import one_of, whole
from unmask.common.cloze import blanked
from unmask.common.errors import InputError
from unmask.common.signature import arguments, checked
from unmask.models.load import Model, as_model
from unmask.models.text.text_tokenizer import BLANK, Placed, Tokens, shortened
from unmask.sampling.decoders.decoder import decode
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.registry import KERNELS
from unmask.sampling.target import Target
from unmask.scoring.batch import GPU_LOGITS, begin
from unmask.scoring.registry import DEFAULT, DEFAULT_OF_HARNESS, SCORE, LeftToRight, Score
from unmask.scoring.texts import Encoded, Item, encode
from unmask.tables.conditionals import logit_rows

logger = logging.getLogger(__name__)
AUTO = 512
"""Requests at once with `--batch_size auto`: they are sorted by length, so most of them share
their passes.
"""
HARNESS_DEVICE = "cuda:0"
"""The default device of `lm_eval`; on a machine without a GPU it means the CPU."""
MOST_WRITTEN = 10_000
"""Decoded texts in memory: answers of one length to one question have the same blanks."""
UNREAD = ("top_p", "top_k", "num_beams", "min_p", "repetition_penalty")
"""Settings of samplers that change what a causal model writes, and that decoders of blanks do
not have.
"""
DECODERS = [name for name, entry in KERNELS.items() if hasattr(entry, "decoding_temperature")]
"""The decoders that can take the likeliest token, which the harness calls greedy."""
Answer = TypeVar("Answer")


class Blanks(NamedTuple):
    """A text to decode, the places that are filled, and how."""

    ids: tuple[int, ...]
    sites: tuple[int, ...]
    temperature: float = 0.0
    seed: int = 0
    until: tuple[str, ...] = ()


@checked
def model_args(
    pretrained: Model = None,
    *,
    score: Annotated[str | Score, SCORE] = DEFAULT_OF_HARNESS,
    unscored: Literal["refuse", "zero"] = "refuse",
    decoder: str = "confidence",
    passes: Annotated[int, Interval(ge=1, le=10**6)] | None = None,
    max_gen_toks: Annotated[int, Interval(ge=1, le=10**5)] = 32,
) -> tuple[Score, str, str, int | None, int]:
    """Arguments of `lm_eval --model_args`, beside those that load the model and the options of
    the score.

    Parameters:
        pretrained: Folder or hub name of a masked language model [default: the bundled English
            model].
        score: Name of a score of texts.
        unscored: A text without a score: refuse (one line), or zero (probability 0).
        decoder: What fills the blanks of generated texts.
        passes: Steps of the decoder [default: one per blank, or by the decoder's bound].
        max_gen_toks: Blanks of a generated text, if the task does not say.
    """
    one_of("decoder", decoder, DECODERS)
    assert isinstance(score, Score)
    return score, unscored, decoder, passes, max_gen_toks


class UnmaskLM(LM):
    """The model `unmask` of the harness; arguments are those of `model_args` and the harness's
    own.
    """

    def __init__(
        self,
        pretrained: Any = None,
        batch_size: Any = 1,
        max_batch_size: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        absent = str(options.get("device")) == HARNESS_DEVICE and not torch.cuda.is_available()
        if absent or not isinstance(pretrained, str | None):
            options.pop("device", None)
        typed = arguments(model_args, {"pretrained": pretrained, **options})
        self.score, self.unscored, self.decoder, self.steps, self.most_blanks = model_args(**typed)
        automatic = str(batch_size).startswith("auto")
        self.at_once = (
            max_batch_size or AUTO if automatic else whole("batch_size", int(batch_size), 1, 10**9)
        )
        self.model = as_model(typed["pretrained"])
        self._device = self.model.device
        self._written: dict[Blanks, tuple[int, ...]] = {}

    @property
    def tokenizer_name(self) -> str:
        """The model's name: requests are cached by it."""
        return self.model.name

    def get_model_info(self) -> dict[str, Any]:
        """For the harness's record of results."""
        size = sum(weight.numel() for weight in self.model.network.parameters())
        about = {
            "model_num_parameters": size,
            "model_dtype": str(self.model.dtype),
            "model_sha": self.model.fingerprint,
        }
        return {**about, "score": self.score.name, "score_definition": self.score.definition}

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """Raises: masked models have none."""
        raise InputError(
            "a chat was given, and a masked model has no chat template: leave out"
            " --apply_chat_template"
        )

    def loglikelihood(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """The score of each continuation, and whether `generate_until` would write it."""

        def answers(texts: Sequence[Encoded]) -> list[tuple[float, bool]]:
            masked = [blanked(text.ids, text.sites, self.model.mask_id) for text in texts]
            blanks = [Blanks(cloze.ids, cloze.block) for cloze in masked]
            written = [
                tokens == gold
                for tokens, gold in zip(
                    self._write(blanks), (cloze.gold for cloze in masked), strict=True
                )
            ]
            return list(zip(self._scores(texts), written, strict=True))

        return self._in_parts(
            "loglikelihood", requests, self.continuation, answers, (-inf, False), disable_tqdm
        )

    def loglikelihood_rolling(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[float]:
        """The score of each text."""
        return self._in_parts(
            "loglikelihood_rolling", requests, self.text, self._scores, -inf, disable_tqdm
        )

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """The words that a decoder writes, up to the first of the texts `until`."""

        def answers(texts: Sequence[Blanks]) -> list[str]:
            return [
                self._cut(blanks, tokens)
                for blanks, tokens in zip(texts, self._write(texts), strict=True)
            ]

        drawn: Counter[Blanks] = Counter()

        def prepare(context: str, gen_kwargs: Mapping[str, Any]) -> Blanks:
            blanks = self.blanks(context, gen_kwargs)
            drawn[blanks] += 1  # a request that is repeated is another draw
            return (
                blanks._replace(seed=blanks.seed + drawn[blanks] - 1)
                if blanks.temperature
                else blanks
            )

        return self._in_parts("generate_until", requests, prepare, answers, None, disable_tqdm)

    def continuation(self, context: str, continuation: str) -> Encoded:
        """The continuation's tokens as sites: after the context, or in place of its [MASK];
        what is too long loses its left.
        """
        if (count := context.count(BLANK)) > 1:
            raise InputError(
                f"the context {shortened(context)} has {count} blanks: put one {BLANK} where the"
                " answer goes"
            )
        if not continuation.strip():
            raise InputError(
                f"the continuation of {shortened(context)} is empty: give a task whose answers have"
                " words"
            )
        before, blank, after = context.partition(BLANK)
        if blank:
            continuation = continuation.strip()
        target = (len(before), len(before) + len(continuation))
        text = encode(self.model.words, Item(before + continuation + after, target))
        return self._checked(self._cut_context(text))

    def text(self, text: str) -> Encoded:
        """The whole text."""
        return self._checked(encode(self.model.words, Item(text)))

    def blanks(self, context: str, gen_kwargs: Mapping[str, Any]) -> Blanks:
        """The text that a decoder fills: the context with its own blanks, or with
        `max_gen_toks` blanks after it.
        """
        generation: dict[str, Any] = dict(normalize_gen_kwargs(dict(gen_kwargs), self.most_blanks))
        temperature = float(generation["temperature"]) if generation["do_sample"] else 0.0
        if unread := [
            name for name in UNREAD if temperature and generation.get(name) not in (None, 0, 1, 1.0)
        ]:
            setting = f"{unread[0]}={generation[unread[0]]}, which decoders of blanks do not have"
            raise InputError(
                f"the task samples with {setting}: give --gen_kwargs do_sample=False, or"
                f" {unread[0]}=1"
            )
        words, limit = self.model.words, self.model.max_length
        before, after = words.around()
        ids = words.encode(context)[len(before) :] if context.strip() else after
        held = ids[: len(ids) - len(after)]
        if words.mask_id not in held:
            count = generation["max_gen_toks"]
            room = len(held) if limit is None else limit - len(before) - len(after) - count
            if room < 0:
                asks = f"the task asks for max_gen_toks={count} tokens and the model takes {limit}"
                raise InputError(f"{asks}: give --gen_kwargs max_gen_toks=N")
            held = [*held[max(0, len(held) - room) :], *[words.mask_id] * count]
        ids = [*before, *held, *after]
        if limit is not None and len(ids) > limit:
            raise InputError(
                f"the text {shortened(context)} has {len(ids)} tokens and the model takes {limit}:"
                " shorten it"
            )
        sites = tuple(t for t, token in enumerate(ids) if token == words.mask_id)
        return Blanks(
            tuple(ids),
            sites,
            temperature,
            int(generation.get("seed", 0)),
            tuple(generation["until"]),
        )

    def _checked(self, text: Encoded) -> Encoded:
        """The text; raises if its score cannot exist."""
        limit, name = self.model.max_length, self.score.name
        if limit is not None and len(text.ids) > limit and not self.score.windows:
            tokens = f"{len(text.sites)} tokens are to be scored and the model takes {limit}"
            raise InputError(f"{tokens}: give shorter ones, or score={LeftToRight.name}")
        if text.unknown and not self.score.unknown:
            unknown = (
                "it has a word that the model does not know, which is outside the support of"
                f" {name}"
            )
            raise InputError(f"{unknown}: give score={DEFAULT}, or unscored=zero")
        return text

    def _cut_context(self, text: Encoded) -> Encoded:
        """The text without as many tokens as it is too long: those furthest left of the sites,
        then those furthest right.
        """
        limit = self.model.max_length
        if limit is None or len(text.ids) <= limit:
            return text
        start, after = text.tokens.inside
        left, right = range(start, text.sites[0]), range(after - 1, text.sites[-1], -1)
        dropped = set([*left, *right][: len(text.ids) - limit])
        return _part(text, [t for t in range(len(text.ids)) if t not in dropped])

    def _in_parts(
        self,
        name: str,
        requests: Sequence[Any],
        prepare: Callable[..., Any],
        answers: Callable[[Sequence[Any]], list[Answer]],
        unscored: Answer | None,
        quiet: bool,
    ) -> list[Answer]:
        """The answers in the requests' order; all are read before the first pass, and those of
        each part go to the cache.
        """
        answered, ready, reasons = dict[int, Answer](), dict[int, Any](), list[str]()
        for place, request in enumerate(requests):
            try:
                ready[place] = prepare(*request.args)
            except InputError as error:
                reasons.append(
                    f"request {place + 1} of {len(requests)}"
                    f" ({getattr(request, 'task_name', None) or name}): {error}"
                )
                if unscored is None or self.unscored == "refuse":
                    raise InputError(reasons[0]) from None
                answered[place] = unscored
        if reasons:
            logger.warning(
                "%d of %d requests have no score and count as impossible: %s",
                len(reasons),
                len(requests),
                reasons[0],
            )
        order = sorted(ready, key=lambda place: (len(ready[place].ids), len(ready[place].sites)))
        with tqdm(total=len(ready), desc=f"unmask {name}", disable=quiet) as bar:
            for first in range(0, len(order), self.at_once):
                part = order[first : first + self.at_once]
                for place, answer in zip(
                    part, answers([ready[place] for place in part]), strict=True
                ):
                    answered[place] = answer
                    self.cache_hook.add_partial(name, requests[place].args, answer)
                bar.update(len(part))
        return [answered[place] for place in range(len(requests))]

    def _scores(self, texts: Sequence[Encoded]) -> list[float]:
        scored = begin(self.model, texts, [self.score], windows=True)()
        values = scored.values[self.score.name].tolist()
        if self.unscored == "refuse" and (
            missing := [place for place, value in enumerate(values) if isnan(value)]
        ):
            reason = scored.reasons.get(missing[0])
            raise InputError(
                f"a text has no score ({reason}): give unscored=zero, or another score"
            )
        return [-inf if isnan(value) else self.score.better * value for value in values]

    def _write(self, texts: Sequence[Blanks]) -> list[tuple[int, ...]]:
        """The tokens that the decoder puts at the sites of each text; equal texts are decoded
        once.
        """
        if len(self._written) > MOST_WRITTEN:
            self._written.clear()
        alike: dict[Hashable, list[Blanks]] = {}
        for blanks in dict.fromkeys(texts):
            if blanks not in self._written:
                alike.setdefault(
                    (len(blanks.ids), blanks.sites, blanks.temperature, blanks.seed), []
                ).append(blanks)
        for group in alike.values():
            at_once = logit_rows(self.model, len(group[0].sites), GPU_LOGITS)
            for first in range(0, len(group), at_once):
                part = group[first : first + at_once]
                self._written.update(zip(part, self._decoded(part), strict=True))
        return [self._written[blanks] for blanks in texts]

    def _decoded(self, alike: Sequence[Blanks]) -> Iterable[tuple[int, ...]]:
        """The tokens of texts with blanks at the same sites; each text's random choices depend
        on itself and the seed alone.
        """
        first = alike[0]
        limit = self.model.max_length
        if limit is not None and len(first.ids) > limit:
            return [()] * len(alike)
        held = [t for t in range(len(first.ids)) if t not in set(first.sites)]
        target = Target(self.model, first.ids, given=held)
        steps = self.steps or (None if KERNELS[self.decoder].bound else len(first.sites))
        decoder = KERNELS[self.decoder](passes=steps, decoding_temperature=first.temperature)  # type: ignore[call-arg]
        numbers = [crc32(repr(blanks.ids).encode()) for blanks in alike]
        rng = ChainStreams(first.seed, numbers, self.model.device).at(0, 0)
        texts = torch.tensor([blanks.ids for blanks in alike], device=self.model.device)
        state, _ = decode(decoder.on(target, Passes(self.model)), len(alike), rng, texts)
        return map(tuple, state.ids[:, list(first.sites)].tolist())

    def _cut(self, blanks: Blanks, tokens: Sequence[int]) -> str:
        """The text of the tokens, without what stands before them, up to the first of `until`."""
        words = self.model.words
        filled = list(blanks.ids)
        for site, token in zip(blanks.sites, tokens, strict=True):
            filled[site] = token
        before, whole_text = (
            words.text(filled[: blanks.sites[0]]),
            words.text(filled[: blanks.sites[-1] + 1]),
        )
        together = blanks.sites[-1] - blanks.sites[0] + 1 == len(
            blanks.sites
        ) and whole_text.startswith(before)
        text = whole_text[len(before) :] if together else words.text(tokens)
        for stop in filter(None, blanks.until):
            text = text.split(stop)[0]
        return text.strip()


def _part(text: Encoded, positions: Sequence[int]) -> Encoded:
    """The text with some of its positions only."""
    place = {t: new for new, t in enumerate(positions)}
    ids, (first, after) = tuple(text.ids[t] for t in positions), text.tokens.inside
    inside = [place[t] for t in positions if first <= t < after]
    source = Placed(
        [text.tokens.words[t] for t in positions], [text.tokens.spans[t] for t in positions]
    )
    tokens = Tokens(ids, (inside[0], inside[-1] + 1), source)
    return Encoded(ids, tuple(place[t] for t in text.sites), text.unknown, tokens)
