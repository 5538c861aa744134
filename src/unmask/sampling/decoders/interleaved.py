"""Interleaved sets of blanks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.common.lazy import torch
from unmask.common.methods.method import method
from unmask.sampling.decoders.revealing import Observed, RevealingInSteps

if TYPE_CHECKING:
    from jaxtyping import Bool
    from torch import Tensor

    from unmask.sampling.on_target import DecoderOnTarget


@method
class Interleaved(RevealingInSteps):
    """A new text: every m-th blank filled, m the number of steps.

        pass r = 0 ... m-1 fills the sites i with  i mod m = o_r,
                o: the numbers 0 ... m-1 in the order of their reversed bits

    The choice does not use the model. For m a power of two, every site that is left after half of
    the passes has revealed neighbours on both sides (at the ends: on one).

    >>> decoder = unmask.Interleaved(passes=2)
    >>> generation = unmask.generate("A [MASK] [MASK] sat.", decoder=decoder, n_texts=2)
    >>> generation.settings.decoder.name, len(generation.texts)
    ('interleaved', 2)
    """

    name = "interleaved"
    label = "interleaved"
    colour = "#88CCEE"
    place = 12
    step_passes = "`passes` per text"
    chooses = "every m-th blank, m the number of passes, in bit-reversed order"

    def choose(self, on: DecoderOnTarget, observed: Observed) -> Bool[Tensor, "n F"]:
        """The blanks of one offset."""
        filled = every_nth(on.target.sites, self.steps(on), observed.step)
        return observed.blank & filled.to(observed.blank.device)


def every_nth(sites: int, passes: int, step: int) -> Bool[Tensor, " F"]:
    """The sites that pass `step` of `passes` fills."""
    return torch.arange(sites) % passes == offsets(passes)[step]


def offsets(passes: int) -> list[int]:
    """0 ... passes - 1 in the order of their reversed bits, each written with as many bits as
    passes - 1 has.
    """
    bits = (passes - 1).bit_length()
    if bits == 0:  # of a single pass
        return [0]
    reversed_bits = [int(f"{number:0{bits}b}"[::-1], 2) for number in range(2**bits)]
    return [offset for offset in reversed_bits if offset < passes]
