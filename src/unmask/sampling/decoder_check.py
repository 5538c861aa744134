"""`check_decoder`: the laws that every decoder keeps, tested on models with few texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.common.border.calls import checked
from unmask.common.border.marks import TakesMethod
from unmask.models.tabular import TabularMLM
from unmask.sampling.decoders.decoder import Decoder, DecodeState
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.enumeration import all_texts
from unmask.sampling.on_target import DecoderOnTarget
from unmask.sampling.own_steps import decoder_step
from unmask.sampling.target import Target

EXACT = 1e-9
"""The largest error of a sum of probabilities, and of a log-probability, that rounding explains."""
TOKENS = 3
LENGTH = 3
SEEDS = (1, 2)
DRAWS = 1000
ROWS_OF_A_CALL = 4096
"""Many texts go through a table in one call: what takes time is the calls, not their rows."""
MOST_DEVIATIONS = 6.0
"""Standard deviations by which the count of a text may differ from what the law says."""


@checked
def check_decoder(
    decoder: Annotated[Decoder | str, TakesMethod("unmask.sampling.decoders.decoder:DECODERS")],
) -> None:
    """Test that a decoder keeps the laws of decoders, on random tables that can be enumerated.

    - It fills all blanks within the steps that it states, with tokens of the support.
    - It draws by the given randomness alone.
    - The passes that it states are those that it made, and not more than its option says.
    - If it has a law: it sums to 1 over all texts, the texts that it draws have the frequencies of
      that law, and `log_prob` of a draw is its logarithm.

    Raises AssertionError with a sentence that says what is broken.

    Parameters:
        decoder: The decoder with its options, or a name, also of own code: my.py:Mine.

    >>> unmask.testing.check_decoder(unmask.Interleaved(passes=2))
    """
    assert isinstance(decoder, Decoder)  # `checked` turned a name into an object
    for target in _small_targets():
        made = decoder.on(target, Passes(target.model, ROWS_OF_A_CALL))
        state, passes = _drawn(made)
        _check_texts(made, state)
        _check_passes(made, passes)
        again, _passes = _drawn(made)
        if not torch.equal(state.ids, again.ids):
            raise AssertionError(
                f"{decoder.name} draws outside of the given randomness: the same rng gave other"
                " texts; draw all numbers by rng"
            )
        if decoder.exact:
            _check_sum(made)
            _check_log_probs(made, state)
            _check_frequencies(made, state)


def _small_targets() -> Iterator[Target]:
    """Targets with few texts: whole ones, and one with a fixed token and a restricted site."""
    for seed in SEEDS:
        model = TabularMLM.random(TOKENS, LENGTH, seed)
        yield Target(model, [model.mask_id] * LENGTH)
    model = TabularMLM.random(TOKENS, LENGTH + 1, 3)
    yield Target(model, [1, *[model.mask_id] * LENGTH], allowed={1: [0, 2]})


def _streams(target: Target, n: int) -> ChainStreams:
    return ChainStreams(0, range(n), target.device)


def _drawn(made: DecoderOnTarget) -> tuple[DecodeState, Int[Tensor, " n"]]:
    """Texts, and the passes of each; raises if the passes were not those that were made."""
    method = made.method
    rng = _streams(made.target, DRAWS).of(0, 0)
    state = method.init(made, DRAWS, rng)
    total = torch.zeros_like(state.rows)
    for number in range(method.steps(made)):
        before = made.passes.count
        state, spent = decoder_step(made, state, rng)
        total += spent
        counted = made.passes.count - before
        if int(spent.sum()) != counted:
            raise AssertionError(
                f"{method.name} says that step {number + 1} took {int(spent.sum())} passes for"
                f" {DRAWS} texts, and it made {counted}"
            )
    return state, total


def _check_texts(made: DecoderOnTarget, state: DecodeState) -> None:
    """The texts are whole, in the support, and keep the fixed tokens."""
    target = made.target
    name = made.method.name
    blank = state.ids[:, target.free_positions] == target.model.mask_id
    if bool(blank.any()):
        raise AssertionError(
            f"{name} states {made.steps} steps, and after them {int(blank.any(1).sum())} of"
            f" {DRAWS} texts have blanks"
        )
    known = {tuple(text) for text in all_texts(target).tolist()}
    strange = [text for text in state.ids.tolist() if tuple(text) not in known]
    if strange:
        raise AssertionError(
            f"{name} made the text {strange[0]}, which is not in the support of the target: it"
            " changes fixed tokens, or draws tokens that are not allowed"
        )


def _check_passes(made: DecoderOnTarget, passes: Int[Tensor, " n"]) -> None:
    """No text takes more passes than the option says."""
    method = made.method
    if method.parts != "passes" or method.number is None:
        return
    most = int(passes.max())
    if most > method.number:
        raise AssertionError(
            f"{method.name} was given {method.number} passes and made {most} for a text"
        )


def _check_sum(made: DecoderOnTarget) -> None:
    """The law sums to 1 over all texts, given the random choices of one chain."""
    texts = all_texts(made.target)
    same_chain = ChainStreams(0, [0] * len(texts), made.target.device).of(0, 0)
    total = float(_law(made, texts, same_chain).exp().sum())
    if not abs(total - 1) <= EXACT:
        raise AssertionError(
            f"the law of {made.method.name} sums to {total:.9g} over all texts, not to 1: does the"
            " choice of positions depend on tokens that are not revealed yet?"
        )


def _check_log_probs(made: DecoderOnTarget, state: DecodeState) -> None:
    """`log_prob` of a draw is the logarithm of its law."""
    rng = _streams(made.target, DRAWS).of(0, 0)
    apart = float((state.log_prob - _law(made, state.ids, rng)).abs().max())
    if not apart <= EXACT:
        raise AssertionError(
            f"log_prob of texts that {made.method.name} draws differs by up to {apart:.2g} from"
            " log_law of the same texts"
        )


def _check_frequencies(made: DecoderOnTarget, state: DecodeState) -> None:
    """Every text is drawn as often as the law says: its count has mean sum_i p_i(x) and variance
    sum_i p_i(x) (1 - p_i(x)), p_i the law given the random choices of draw i.
    """
    texts = all_texts(made.target)
    # Every text with the random choices of every draw, in one call
    chains = list(range(DRAWS)) * len(texts)
    rng = ChainStreams(0, chains, made.target.device).of(0, 0)
    laws = _law(made, texts.repeat_interleave(DRAWS, 0), rng).exp().reshape(len(texts), DRAWS)
    for text, law in zip(texts, laws, strict=True):
        count = int((state.ids == text).all(1).sum())
        mean = float(law.sum())
        deviation = float((law * (1 - law)).sum().clamp(min=1).sqrt())
        if abs(count - mean) > MOST_DEVIATIONS * deviation:
            raise AssertionError(
                f"{made.method.name} drew the text {text.tolist()} {count} times of {DRAWS}, and"
                f" its law says {mean:.0f}"
            )


def _law(made: DecoderOnTarget, ids: Int[Tensor, "n T"], rng: object) -> Float[Tensor, " n"]:
    log_law = made.method.log_law(made, ids, rng)  # type: ignore[arg-type]
    if log_law is None:
        raise AssertionError(
            f"{made.method.name} says by exact that its texts have a law, and log_law returns None:"
            " compute it, or let exact be false"
        )
    return log_law
