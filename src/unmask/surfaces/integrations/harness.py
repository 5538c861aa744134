"""A masked language model in the LM Evaluation Harness: `lm_eval --model unmask --model_args
pretrained=...,score=any_order`.

    loglikelihood          log p(continuation | context, its number of tokens): the score's
                           sites are the continuation's tokens, which follow the context or
                           replace its [MASK]; the context is held fixed
    loglikelihood_rolling  the score of the text; of one longer than the model in windows
                           (`unmask.scoring.scores.masked_range`)
    generate_until         `max_gen_toks` blanks after the context, or the [MASK]s in it, filled
                           by a decoder; cut at `until`

"Greedy" is the harness's word for a continuation that `generate_until` would write, given its
number of tokens.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import inf, isnan
from typing import Annotated, Any, Literal, TypeVar

import torch
from annotated_types import Interval
from lm_eval.api.model import LM
from lm_eval.models.utils import normalize_gen_kwargs
from tqdm import tqdm

from unmask.common.border.calls import checked
from unmask.common.border.marks import TakesMethod
from unmask.common.border.options import arguments
from unmask.common.checks import whole
from unmask.common.cloze import blanked
from unmask.common.errors import InputError, argument_name
from unmask.models.load import Model, as_model
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.text_tokenizer import BLANK, Tokens, WordsAndSpans, shortened
from unmask.sampling.decoders.decoder import DECODERS, Decoder, Steps
from unmask.sampling.methods import decoder_class
from unmask.scoring.encoding import Encoded, encode
from unmask.scoring.items import Item
from unmask.scoring.registry import DEFAULT, DEFAULT_OF_HARNESS, SCORE
from unmask.scoring.scores.fixed_orders import LeftToRight
from unmask.scoring.scores.score import Score
from unmask.scoring.text_scores import begin
from unmask.surfaces.integrations.blanks import Blanks, Writer, blanks_of, written_text

logger: logging.Logger = logging.getLogger(__name__)
AUTO = 512
"""Requests at once with `--batch_size auto`: they are sorted by length, so most of them share
their passes.
"""
HARNESS_DEVICE = "cuda:0"
"""The default device of `lm_eval`; on a machine without a GPU it means the CPU."""
Answer = TypeVar("Answer")


@checked
def model_args(
    pretrained: Model = None,
    *,
    score: Annotated[str | Score, SCORE] = DEFAULT_OF_HARNESS,
    unscored: Literal["refuse", "zero"] = "refuse",
    decoder: Annotated[
        Decoder | str, TakesMethod("unmask.sampling.decoders.decoder:DECODERS", options=False)
    ] = "confidence",
    passes: Steps | None = None,
    sets: Steps | None = None,
    max_gen_toks: Annotated[int, Interval(ge=1, le=10**5)] = 32,
) -> tuple[Score, str, Decoder, int | None, int]:
    """Arguments of `lm_eval --model_args`, beside those that load the model and the options of
    the score.

    Parameters:
        pretrained: Folder or hub name of a masked language model [default: the bundled English
            model].
        score: Name of a score of texts.
        unscored: A text without a score: refuse (one line), or zero (probability 0).
        decoder: What fills the blanks of generated texts: a name, or a decoder of your own such as
            my.py:Mine. In Python also an object.
        passes: Steps of the decoder [default: one per blank, or by the decoder's bound].
        sets: Of verified: its sets [default: one per blank].
        max_gen_toks: Blanks of a generated text, if the task does not say.
    """
    assert isinstance(score, Score)  # `checked` reads a name as the score itself
    assert isinstance(decoder, Decoder)
    parts = decoder.parts
    given = {"passes": passes, "sets": sets}
    if parts not in given:
        able = [name for name in DECODERS if decoder_class(name).parts]
        raise InputError(
            f"{decoder.name} takes no number of passes",
            argument="decoder",
            use=f"use one of {', '.join(able)}",
        )
    if decoder.temperature is not None:
        raise InputError(
            f"{decoder.name} has a temperature, which comes from the task",
            argument="decoder",
            use="leave its temperature out",
        )
    for name, number in given.items():
        if number is not None and name != parts:
            raise InputError(
                f"is not used by decoder {decoder.name}",
                argument=name,
                use=f"give {argument_name(parts)}",
            )
    return score, unscored, decoder, given[parts], max_gen_toks


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
        is_default = str(options.get("device")) == HARNESS_DEVICE
        is_absent = is_default and not torch.cuda.is_available()
        is_loaded = not isinstance(pretrained, str | None)  # a model that has its device already
        if is_absent or is_loaded:
            options.pop("device", None)
        typed = arguments(model_args, {"pretrained": pretrained, **options})
        score, unscored, decoder, number, most_blanks = model_args(**typed)
        if isinstance(options.get("decoder"), Decoder):  # it has a number of its own
            if number is not None:
                raise InputError(
                    f"was given beside a {argument_name('decoder')} that has its own",
                    argument=decoder.parts,
                    use="leave it out",
                )
            number = decoder.number
        self.score = score
        self.unscored = unscored
        self.most_blanks = most_blanks
        if str(batch_size).startswith("auto"):
            self.at_once: int = max_batch_size or AUTO
        else:
            self.at_once = whole("batch_size", int(batch_size), 1, 10**9)
        self.model: MaskedLM = as_model(typed["pretrained"])
        self._device = self.model.device  # where the harness's base class looks for it
        self.writer: Writer = Writer(self.model, decoder, number)

    @property
    def tokenizer_name(self) -> str:
        """The model's name: requests are cached by it."""
        return self.model.name

    def get_model_info(self) -> dict[str, Any]:
        """For the harness's record of results."""
        return {
            "model_num_parameters": sum(w.numel() for w in self.model.network.parameters()),
            "model_dtype": str(self.model.dtype),
            "model_sha": self.model.fingerprint,
            "score": self.score.name,
            "score_definition": self.score.definition,
        }

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """Raises: masked models have none."""
        raise InputError(
            "a chat was given, and a masked model has no chat template: leave out"
            " --apply_chat_template"
        )

    # ---- the three kinds of request ----

    def loglikelihood(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """The score of each continuation, and whether `generate_until` would write it."""

        def answers(texts: Sequence[Encoded]) -> list[tuple[float, bool]]:
            masked = [blanked(text.ids, text.sites, self.model.mask_id) for text in texts]
            written = self.writer.write([Blanks(cloze.ids, cloze.block) for cloze in masked])
            greedy = [tokens == cloze.gold for tokens, cloze in zip(written, masked, strict=True)]
            scores = self._scores(texts)
            return list(zip(scores, greedy, strict=True))

        return self._in_parts(
            "loglikelihood",
            requests,
            prepare=self.continuation,
            answers=answers,
            impossible=(-inf, False),
            quiet=disable_tqdm,
        )

    def loglikelihood_rolling(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[float]:
        """The score of each text."""
        return self._in_parts(
            "loglikelihood_rolling",
            requests,
            prepare=self.text,
            answers=self._scores,
            impossible=-inf,
            quiet=disable_tqdm,
        )

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """The words that a decoder writes, up to the first of the texts `until`."""

        def answers(texts: Sequence[Blanks]) -> list[str]:
            written = self.writer.write(texts)
            return [
                written_text(self.model, blanks, tokens)
                for blanks, tokens in zip(texts, written, strict=True)
            ]

        seen: Counter[Blanks] = Counter()

        def prepare(context: str, gen_kwargs: Mapping[str, Any]) -> Blanks:
            blanks = self.blanks(context, gen_kwargs)
            seen_before = seen[blanks]
            seen[blanks] += 1
            if blanks.temperature:  # a request that is repeated is another draw
                return blanks._replace(seed=blanks.seed + seen_before)
            return blanks

        return self._in_parts(
            "generate_until",
            requests,
            prepare=prepare,
            answers=answers,
            impossible=None,
            quiet=disable_tqdm,
        )

    # ---- what a request asks for ----

    def continuation(self, context: str, continuation: str) -> Encoded:
        """The continuation's tokens as sites: after the context, or in place of its [MASK];
        what is too long loses its left.
        """
        count = context.count(BLANK)
        if count > 1:
            raise InputError(
                f"the context {shortened(context)} has {count} blanks: put one {BLANK} where the"
                " answer goes"
            )
        if not continuation.strip():
            raise InputError(
                f"the continuation of {shortened(context)} is empty: give a task whose answers have"
                " words"
            )
        before, _, after = context.partition(BLANK)  # without a blank all is before
        if count == 1:
            continuation = continuation.strip()
        target = (len(before), len(before) + len(continuation))
        text = encode(self.model.words, Item(before + continuation + after, target))
        fitted = _fitted(text, self.model.max_length)
        return self._scorable(fitted)

    def text(self, text: str) -> Encoded:
        """The whole text."""
        encoded = encode(self.model.words, Item(text))
        return self._scorable(encoded)

    def blanks(self, context: str, gen_kwargs: Mapping[str, Any]) -> Blanks:
        """The text that a decoder fills: the context with its own blanks, or with
        `max_gen_toks` blanks after it.
        """
        generation = normalize_gen_kwargs(dict(gen_kwargs), self.most_blanks)
        return blanks_of(self.model, context, dict(generation))

    def _scorable(self, text: Encoded) -> Encoded:
        """The text; raises if its score cannot exist."""
        limit = self.model.max_length
        if limit is not None and len(text.ids) > limit and not self.score.windows:
            raise InputError(
                f"{len(text.sites)} tokens are to be scored and the model takes {limit}",
                use=f"give shorter ones, or {argument_name('score', LeftToRight.name)}",
            )
        if text.unknown and not self.score.unknown:
            raise InputError(
                "it has a word that the model does not know, which is outside the support of"
                f" {self.score.name}",
                use=f"give {argument_name('score', DEFAULT)}, or"
                f" {argument_name('unscored', 'zero')}",
            )
        return text

    # ---- answers ----

    def _in_parts(
        self,
        name: str,
        requests: Sequence[Any],
        prepare: Callable[..., Any],
        answers: Callable[[Sequence[Any]], list[Answer]],
        impossible: Answer | None,
        quiet: bool,
    ) -> list[Answer]:
        """The answers in the requests' order. All requests are read before the first pass. The
        answers of each part go to the cache.

        prepare      a request's arguments as a text to score or to decode
        answers      of some of these texts
        impossible   the answer to a request that cannot be prepared; None: such a request is an
                     error
        quiet        no bar of the progress
        """
        answer_to: dict[int, Answer] = {}
        ready: dict[int, Any] = {}
        reasons: list[str] = []
        for place, request in enumerate(requests):
            try:
                ready[place] = prepare(*request.args)
            except InputError as error:
                task = getattr(request, "task_name", None) or name
                reasons.append(f"request {place + 1} of {len(requests)} ({task}): {error}")
                if impossible is None or self.unscored == "refuse":
                    raise InputError(reasons[0]) from None
                answer_to[place] = impossible
        if reasons:
            logger.warning(
                "%d of %d requests have no score and count as impossible: %s",
                len(reasons),
                len(requests),
                reasons[0],
            )

        def lengths(place: int) -> tuple[int, int]:
            return len(ready[place].ids), len(ready[place].sites)

        order = sorted(ready, key=lengths)  # neighbours of one length share their passes
        with tqdm(total=len(ready), desc=f"unmask {name}", disable=quiet) as bar:
            for start in range(0, len(order), self.at_once):
                part = order[start : start + self.at_once]
                of_part = answers([ready[place] for place in part])
                for place, answer in zip(part, of_part, strict=True):
                    answer_to[place] = answer
                    self.cache_hook.add_partial(name, requests[place].args, answer)
                bar.update(len(part))
        return [answer_to[place] for place in range(len(requests))]

    def _scores(self, texts: Sequence[Encoded]) -> list[float]:
        """The score of each text, such that larger is better; -inf where it has none."""
        wait = begin(self.model, texts, [self.score], windows=True)
        scored = wait()
        values = scored.values[self.score.name].tolist()
        missing = [place for place, value in enumerate(values) if isnan(value)]
        if missing and self.unscored == "refuse":
            reason = scored.reasons.get(missing[0])
            raise InputError(
                f"a text has no score ({reason})",
                use=f"give {argument_name('unscored', 'zero')}, or another score",
            )
        return [-inf if isnan(value) else self.score.better * value for value in values]


def _fitted(text: Encoded, limit: int | None) -> Encoded:
    """The text, shortened to `limit` tokens.

    Tokens before the sites are left out first, from the left; then tokens after the sites, from
    the right. The sites stay, even if they are more than `limit`.
    """
    if limit is None or len(text.ids) <= limit:
        return text
    start, end = text.tokens.inside  # start and end tokens stay
    left = range(start, text.sites[0])
    right = range(end - 1, text.sites[-1], -1)
    droppable = [*left, *right]
    surplus = len(text.ids) - limit
    dropped = set(droppable[:surplus])
    return _part(text, [t for t in range(len(text.ids)) if t not in dropped])


def _part(text: Encoded, positions: Sequence[int]) -> Encoded:
    """The text with some of its positions only."""
    new_place = {t: place for place, t in enumerate(positions)}
    ids = tuple(text.ids[t] for t in positions)
    start, end = text.tokens.inside
    inside = [new_place[t] for t in positions if start <= t < end]
    source = WordsAndSpans(
        [text.tokens.words[t] for t in positions], [text.tokens.spans[t] for t in positions]
    )
    tokens = Tokens(ids, (inside[0], inside[-1] + 1), source)
    return Encoded(ids, tuple(new_place[t] for t in text.sites), text.unknown, tokens)
