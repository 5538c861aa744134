"""From settings to a kernel or decoder."""

from __future__ import annotations

from torch import Tensor

from unmask.sampling.decoders.ancestral import Ancestral
from unmask.sampling.decoders.confidence import ConfidenceOrder
from unmask.sampling.decoders.decoder import Decoder
from unmask.sampling.decoders.mask_predict import MaskPredict
from unmask.sampling.dependence_blocks import DependenceBlocks
from unmask.sampling.kernels import Kernel
from unmask.sampling.kernels.annealing import Annealing
from unmask.sampling.kernels.block import ProductBlock
from unmask.sampling.kernels.gibbs import PseudoGibbs
from unmask.sampling.kernels.metropolis import MetropolisHastings
from unmask.sampling.kernels.pair_joint import PairJoint
from unmask.sampling.kernels.sequential_block import SequentialBlock
from unmask.sampling.kernels.tempering import ParallelTempering
from unmask.sampling.passes import Passes
from unmask.sampling.proposal import Proposal
from unmask.sampling.scan import SweepPlan
from unmask.sampling.settings import SampleSettings
from unmask.sampling.target import Target


def sweep_plan(settings: SampleSettings, target: Target, dependence: Tensor | None = None) -> SweepPlan:
    """Which sites a sweep redraws; blocks by dependence are drawn once that has been measured."""
    if settings.measures_dependence:
        return DependenceBlocks(target.sites, settings.scan, settings.sites_a_step, settings.block_shape, dependence)
    return SweepPlan(target.sites, settings.scan, settings.sites_a_step, settings.block_shape)


def proposal_of(settings: SampleSettings) -> Proposal:
    """How tokens are proposed."""
    return Proposal(settings.proposal_temperature, settings.top_k, settings.nucleus)


def markov_kernel(settings: SampleSettings, target: Target, passes: Passes, proposal: Proposal) -> Kernel:
    """The kernel that the settings name."""
    metropolis = MetropolisHastings(target, passes, proposal, delayed=settings.delayed)
    match settings.kernel:
        case "gibbs":
            return PseudoGibbs(target, passes, proposal)
        case "block":
            return ProductBlock(target, passes, proposal, delayed=settings.delayed)
        case "sequential-block":
            return SequentialBlock(target, passes, proposal, delayed=settings.delayed)
        case "pair-joint":
            return PairJoint(
                target,
                passes,
                proposal,
                delayed=settings.delayed,
                construction=settings.construction,
                candidates=settings.candidates,
            )
        case "tempering":
            return ParallelTempering(metropolis, settings.ladder)
        case "annealing":
            steps = settings.sweeps * sweep_plan(settings, target).steps
            return Annealing(metropolis, steps, settings.hot, settings.cold)
    return metropolis


def decoder(settings: SampleSettings, target: Target, passes: Passes, proposal: Proposal) -> Decoder:
    """The decoder that the settings name."""
    if settings.kernel == "ancestral":
        return Ancestral(target, passes, proposal, settings.order)
    options = (settings.decoding_steps, settings.schedule, settings.decoding_temperature)
    return (
        MaskPredict(target, passes, *options) if settings.kernel == "mask-predict" else ConfidenceOrder(target, passes, *options)
    )
