"""Steps of a user's own kernels and decoders: what comes back is checked, and an error in them is
one line with its file and line. Our own methods are trusted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from unmask.common.checks import shown
from unmask.common.errors import InputError, UnmaskError
from unmask.common.lazy import torch
from unmask.common.methods.own_code import first_line_of, is_ours, place_in
from unmask.runs.progress import Enough

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor

    from unmask.sampling.decoders.decoder import DecodeState
    from unmask.sampling.engine.randomness import Randomness
    from unmask.sampling.kernels.metropolis import Proposed
    from unmask.sampling.kernels.state import ChainState, StepInfo
    from unmask.sampling.on_target import DecoderOnTarget, KernelOnTarget


class BrokenLaw(AssertionError):
    """What a check of `unmask.testing` finds while a user's own step runs; it is no error in the
    user's file.
    """


def kernel_step(
    on: KernelOnTarget, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]
) -> tuple[ChainState, StepInfo]:
    """A step of a kernel. After a user's own one the texts are in the support of the target, and
    the `StepInfo` has a row for each of them.
    """
    method = on.method
    if is_ours(type(method)):
        return method.step(on, state, rng, sites)
    shape = state.ids.shape
    with errors_in_one_line(method):
        returned: Any = method.step(on, state, rng, sites)
    problem = _wrong_step(returned, tuple(shape), tuple(sites.shape))
    if problem is None:
        problem = _outside(on, returned[0].ids, blanks=False)
    if problem is not None:
        raise _refused(method, f"step {problem}")
    after: tuple[ChainState, StepInfo] = returned
    return after


def decoder_step(
    on: DecoderOnTarget, state: DecodeState, rng: Randomness
) -> tuple[DecodeState, Int[Tensor, " n"]]:
    """A step of a decoder. After a user's own one the texts are blanks and allowed tokens, and
    each has a number of passes.
    """
    method = on.method
    if is_ours(type(method)):
        return method.step(on, state, rng)
    shape = tuple(state.ids.shape)
    with errors_in_one_line(method):
        returned: Any = method.step(on, state, rng)
    problem = _wrong_decoding(returned, shape)
    if problem is None:
        problem = _outside(on, returned[0].ids, blanks=True)
    if problem is not None:
        raise _refused(method, f"step {problem}")
    after: tuple[DecodeState, Int[Tensor, " n"]] = returned
    return after


def refuse_blanks(on: DecoderOnTarget, state: DecodeState) -> None:
    """Raise if the last step of a user's own decoder left blanks."""
    if is_ours(type(on.method)):
        return
    blank = state.ids[:, on.target.free_positions] == on.target.model.mask_id
    texts = int(blank.any(1).sum())
    if texts:
        raise _refused(on.method, f"leaves blanks in {texts} of {len(blank)} texts")


def refuse_wrong_proposal(
    on: KernelOnTarget, proposed: Proposed, sites: Int[Tensor, "n k"]
) -> None:
    """Raise if what `propose` of a user's own kernel returned is no proposal for `sites`."""
    if is_ours(type(on.method)):
        return
    problem = _wrong_proposal(proposed, sites, on.target.model.vocab_size)
    if problem is not None:
        raise _refused(on.method, f"propose {problem}")


@contextmanager
def errors_in_one_line(method: Any) -> Iterator[None]:
    """An error of a user's own class becomes an InputError with its file and line."""
    from unmask.models.batching import is_out_of_memory

    try:
        yield
    except (UnmaskError, Enough, BrokenLaw):
        raise
    except Exception as error:
        if is_out_of_memory(error):  # the run goes on with fewer texts at once
            raise
        where = place_in(type(method), error)
        raise InputError(f"{where}: {first_line_of(error)}", use="mend the file") from error


def _refused(method: Any, problem: str) -> InputError:
    return InputError(f"{method.name}: {problem}", use="mend it")


# ---- what is wrong with what a user's method returned; None if nothing is ----


def _wrong_step(returned: Any, shape: tuple[int, ...], sites: tuple[int, ...]) -> str | None:
    from unmask.sampling.kernels.state import ChainState, StepInfo

    is_pair = isinstance(returned, tuple) and len(returned) == 2
    if not is_pair or not isinstance(returned[0], ChainState):
        return f"returned {shown(returned)}: return the state and a StepInfo"
    state, info = returned
    if not isinstance(info, StepInfo):
        return f"returned {shown(info)} beside the state: return a StepInfo"
    n = (sites[0],)
    wanted = {"sites": sites, "accepted": n, "proposed": sites, "changed": sites, "passes": n}
    for name, shape_of_name in wanted.items():
        problem = _other_shape(name, getattr(info, name), shape_of_name)
        if problem is not None:
            return problem
    return _other_shape("ids", state.ids, shape)


def _wrong_decoding(returned: Any, shape: tuple[int, ...]) -> str | None:
    from unmask.sampling.decoders.decoder import DecodeState

    is_pair = isinstance(returned, tuple) and len(returned) == 2
    if not is_pair or not isinstance(returned[0], DecodeState):
        return f"returned {shown(returned)}: return the state and the passes of each text"
    state, passes = returned
    problem = _other_shape("passes", passes, shape[:1])
    if problem is None:
        problem = _other_shape("ids", state.ids, shape)
    return problem


def _wrong_proposal(proposed: Any, sites: Int[Tensor, "n k"], vocabulary: int) -> str | None:
    from unmask.sampling.kernels.metropolis import Proposed

    if not isinstance(proposed, Proposed):
        return f"returned {shown(proposed)}: return a Proposed"
    n = (len(sites),)
    wanted = {"tokens": tuple(sites.shape), "log_ratio": n, "passes": n}
    for name, shape in wanted.items():
        problem = _other_shape(name, getattr(proposed, name), shape)
        if problem is not None:
            return problem
    if bool(proposed.log_ratio.isnan().any()):
        return "returned a log_ratio that is NaN"
    is_token = (proposed.tokens >= 0) & (proposed.tokens < vocabulary)
    if not bool(is_token.all()):
        wrong = int(proposed.tokens[~is_token][0])
        return f"proposed token {wrong}, and the model has tokens 0 to {vocabulary - 1}"
    return None


def _other_shape(name: str, value: Any, shape: tuple[int, ...]) -> str | None:
    if not isinstance(value, torch.Tensor):
        return f"returned {name} {shown(value)}: return a tensor of shape {shape}"
    if tuple(value.shape) != shape:
        return f"returned {name} of shape {tuple(value.shape)}: return {shape}"
    return None


def _outside(on: Any, ids: Int[Tensor, "n T"], blanks: bool) -> str | None:
    """What a text has at a free position that is not allowed there.

    blanks   whether the mask token is
    """
    target = on.target
    tokens = ids[:, target.free_positions]
    vocabulary = target.support.shape[1]
    in_vocabulary = (tokens >= 0) & (tokens < vocabulary)
    sites = torch.arange(tokens.shape[1], device=tokens.device)
    allowed = in_vocabulary & target.support[sites, tokens.clamp(0, vocabulary - 1)]
    if blanks:
        allowed = allowed | (tokens == target.model.mask_id)
    if bool(allowed.all()):
        return None
    row, site = (~allowed).nonzero()[0].tolist()
    position = int(target.free_positions[site])
    return f"put token {int(tokens[row, site])} at position {position}, where it is not allowed"
