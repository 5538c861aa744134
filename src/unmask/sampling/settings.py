"""Everything that decides which samples a run draws; two runs with equal settings draw the same ones."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, get_args

from unmask.errors import InputError
from unmask.sampling.decoders.ancestral import Order
from unmask.sampling.decoders.mask_predict import Schedule
from unmask.sampling.energy import EnergyKind
from unmask.sampling.scan import BlockShape, Scan

MARKOV_KERNELS = ("mh", "gibbs", "block", "sequential-block", "pair-joint", "tempering", "annealing")
DECODERS = ("ancestral", "mask-predict", "confidence")
BLOCK_KERNELS = ("block", "sequential-block", "pair-joint")
STARTS = ("mask", "random", "texts")
LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True)
class SampleSettings:
    """What `unmask sample` takes; see its help.

    lengths     free tokens of each text; chain c takes number c modulo how many there are
    sweeps      how many are run; the first `burn_in` are not kept, then every `thin`-th is
    texts       starts (`start="texts"`); chain c takes text c modulo how many there are
    template    a text with [MASK] where tokens are sampled; the others are held. Replaces `lengths`
    allowed     (position in the template's tokens, tokens that may stand there)
    candidates  tokens a position of the pair-joint kernel, and of the dependence that blocks go by; so is `construction`
    """

    kernel: str = "mh"
    energy: EnergyKind = "norm"
    temperature: float = 1.0
    lengths: tuple[int, ...] = (12,)
    chains: int = 64
    sweeps: int = 100
    seed: int = 0
    burn_in: int = 0
    thin: int = 1
    start: str = "mask"
    texts: tuple[str, ...] = ()
    template: str | None = None
    allowed: tuple[tuple[int, tuple[str, ...]], ...] = ()
    scan: Scan = "permutation"
    block: int = 2
    block_shape: BlockShape = "window"
    proposal_temperature: float = 1.0
    top_k: int | None = None
    nucleus: float | None = None
    delayed: tuple[int, ...] = ()
    ladder: tuple[float, ...] = (1.0, 1.5, 2.25)
    hot: float = 2.0
    cold: float = 0.1
    construction: str = "pseudo_gibbs"
    candidates: int = 16
    decoding_steps: int = 10
    schedule: Schedule = "linear"
    decoding_temperature: float = 1.0
    order: Order = "random"

    def __post_init__(self) -> None:
        known = (*MARKOV_KERNELS, *DECODERS)
        if self.kernel not in known:
            raise InputError(f"kernel {self.kernel!r} is unknown: use one of {', '.join(known)}")
        if self.energy not in get_args(EnergyKind):
            raise InputError(f"energy {self.energy!r} is unknown: use {' or '.join(get_args(EnergyKind))}")
        if self.start not in STARTS:
            raise InputError(f"start {self.start!r} is unknown: use one of {', '.join(STARTS)}")
        for name, value, least in (("chains", self.chains, 1), ("sweeps", self.sweeps, 1), ("thin", self.thin, 1)):
            if value < least:
                raise InputError(f"{value} {name}: give at least {least}")
        if not 0 <= self.burn_in < self.sweeps:
            raise InputError(f"burn-in of {self.burn_in} of {self.sweeps} sweeps leaves no sample: give fewer than the sweeps")
        if self.kept < 1:
            raise InputError(f"thinning to every {self.thin}th sweep leaves no sample of {self.sweeps - self.burn_in}: thin less")
        if not 0 <= self.seed <= LARGEST_SEED:
            raise InputError(f"seed {self.seed}: give a number from 0 to {LARGEST_SEED}")
        if self.start == "texts" and not self.texts:
            raise InputError("no text to start from: the file of starts is empty")
        if self.measures_dependence and self.kernel not in BLOCK_KERNELS:
            raise InputError(
                f"{self.block_shape} blocks with kernel {self.kernel}, which has no blocks: use one of {', '.join(BLOCK_KERNELS)}"
            )
        if not self.lengths or min(self.lengths) < 1:
            raise InputError(f"lengths {list(self.lengths)}: ask for at least one token")

    @property
    def decodes(self) -> bool:
        """Whether samples are independent decodings instead of states of a chain."""
        return self.kernel in DECODERS

    @property
    def measures_dependence(self) -> bool:
        """Whether blocks are chosen by a measured dependence."""
        return self.block_shape in ("dependent", "independent")

    @property
    def kept(self) -> int:
        """Samples a chain."""
        return (self.sweeps - self.burn_in) // self.thin

    @property
    def sites_a_step(self) -> int:
        """How many tokens one step redraws."""
        return 2 if self.kernel == "pair-joint" else self.block if self.kernel in ("block", "sequential-block") else 1

    def keeps(self, sweep: int) -> bool:
        """Whether the texts after sweep `sweep`, counted from 1, are kept."""
        return sweep > self.burn_in and (sweep - self.burn_in) % self.thin == 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: lists for tuples."""
        import json

        return dict(json.loads(json.dumps(asdict(self))))
