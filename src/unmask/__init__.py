"""Turns a masked language model into an explicit probability model over the blanks of a text.

>>> import unmask
>>> unmask.fill("She drank a cup of [MASK] [MASK].").completions[0].text  # doctest: +SKIP

The names below are loaded when first used, so that `import unmask` itself costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from unmask.verbs import VERBS

__version__ = "0.1.0"

if TYPE_CHECKING:
    from unmask import lab as lab
    from unmask.answers.blanked_text import Completion as Completion
    from unmask.answers.chain_filling import ChainFilling as ChainFilling
    from unmask.answers.checking import Check as Check
    from unmask.answers.comparison import Comparison as Comparison
    from unmask.answers.conditionals import conditionals as conditionals
    from unmask.answers.dependence import Dependence as Dependence
    from unmask.answers.filling import Filling as Filling
    from unmask.answers.search import Search as Search
    from unmask.cloze import Cloze as Cloze
    from unmask.errors import InputError as InputError
    from unmask.errors import ModelError as ModelError
    from unmask.errors import UnmaskError as UnmaskError
    from unmask.evaluation.frontier import Frontier as Frontier
    from unmask.evaluation.table import Evaluation as Evaluation
    from unmask.integrations.pipeline import pipeline as pipeline
    from unmask.joints.deriving import derive as derive
    from unmask.joints.deriving import derive_all as derive_all
    from unmask.joints.joint import Joint as Joint
    from unmask.joints.metrics import block_metrics as block_metrics
    from unmask.joints.registry import CONSTRUCTIONS as CONSTRUCTIONS
    from unmask.lab.spins import SpinModel as SpinModel
    from unmask.models.load import load as load
    from unmask.models.masked_lm import MaskedLM as MaskedLM
    from unmask.sampling.registry import MH as MH
    from unmask.sampling.registry import Ancestral as Ancestral
    from unmask.sampling.registry import Annealing as Annealing
    from unmask.sampling.registry import Block as Block
    from unmask.sampling.registry import Confidence as Confidence
    from unmask.sampling.registry import EntropyBound as EntropyBound
    from unmask.sampling.registry import Gibbs as Gibbs
    from unmask.sampling.registry import Interleaved as Interleaved
    from unmask.sampling.registry import LeastDependent as LeastDependent
    from unmask.sampling.registry import LowestEntropy as LowestEntropy
    from unmask.sampling.registry import MaskPredict as MaskPredict
    from unmask.sampling.registry import RandomSets as RandomSets
    from unmask.sampling.registry import Revise as Revise
    from unmask.sampling.registry import SequentialBlock as SequentialBlock
    from unmask.sampling.registry import Threshold as Threshold
    from unmask.sampling.registry import Verified as Verified
    from unmask.sampling.run.diagnostics import Diagnosis as Diagnosis
    from unmask.sampling.run.result import SampleRun as SampleRun
    from unmask.sampling.settings import Keep as Keep
    from unmask.sampling.settings import SampleSettings as SampleSettings
    from unmask.sampling.settings import Start as Start
    from unmask.sampling.target import Energy as Energy
    from unmask.scoring.registry import AdjacentPairs as AdjacentPairs
    from unmask.scoring.registry import AnyOrder as AnyOrder
    from unmask.scoring.registry import DecoderLaw as DecoderLaw
    from unmask.scoring.registry import LogProb as LogProb
    from unmask.scoring.registry import OrderBounds as OrderBounds
    from unmask.scoring.score import PairScores as PairScores
    from unmask.scoring.score import Scores as Scores
    from unmask.tables.profile import Profile as Profile
    from unmask.tables.unary import Tables as Tables
    from unmask.tables.unary import unary_tables as unary_tables
    from unmask.training.recipe import Causal as Causal
    from unmask.training.recipe import HeldOut as HeldOut
    from unmask.training.recipe import Masked as Masked
    from unmask.training.recipe import Optimisation as Optimisation
    from unmask.training.recipe import Shape as Shape
    from unmask.training.run import TrainingRun as TrainingRun
    from unmask.translation.recipe import Beam as Beam
    from unmask.translation.recipe import Greedy as Greedy
    from unmask.translation.recipe import load_translator as load_translator
    from unmask.translation.translate import Translations as Translations
    from unmask.variants.measured import Measured as Measured
    from unmask.variants.mutants import Mutants as Mutants
    from unmask.variants.ranking import Ranking as Ranking
    from unmask.verbs.check import check as check
    from unmask.verbs.compare import compare as compare
    from unmask.verbs.dependence import dependence as dependence
    from unmask.verbs.diagnose import diagnose as diagnose
    from unmask.verbs.evaluate import evaluate as evaluate
    from unmask.verbs.fill import fill as fill
    from unmask.verbs.frontier import frontier as frontier
    from unmask.verbs.mutants import mutants as mutants
    from unmask.verbs.sample import sample as sample
    from unmask.verbs.score import score as score
    from unmask.verbs.serve import serve as serve
    from unmask.verbs.train import train as train
    from unmask.verbs.translate import translate as translate

_NAMES = {
    "unmask.lab": "lab",
    "unmask.lab.spins": "SpinModel",
    "unmask.answers.chain_filling": "ChainFilling",
    "unmask.answers.checking": "Check",
    "unmask.answers.comparison": "Comparison",
    "unmask.answers.blanked_text": "Completion",
    "unmask.answers.conditionals": "conditionals",
    "unmask.answers.dependence": "Dependence",
    "unmask.answers.filling": "Filling",
    "unmask.answers.search": "Search",
    "unmask.models.load": "load",
    "unmask.cloze": "Cloze",
    "unmask.errors": "InputError ModelError UnmaskError",
    "unmask.evaluation.frontier": "Frontier",
    "unmask.evaluation.table": "Evaluation",
    "unmask.integrations.pipeline": "pipeline",
    "unmask.joints.deriving": "derive derive_all",
    "unmask.joints.joint": "Joint",
    "unmask.joints.metrics": "block_metrics",
    "unmask.joints.registry": "CONSTRUCTIONS",
    "unmask.models.masked_lm": "MaskedLM",
    "unmask.sampling.target": "Energy",
    "unmask.sampling.registry": (
        "MH Gibbs Block SequentialBlock Annealing Ancestral MaskPredict Confidence Revise "
        "EntropyBound Threshold LowestEntropy RandomSets Interleaved LeastDependent Verified"
    ),
    "unmask.sampling.run.diagnostics": "Diagnosis",
    "unmask.sampling.run.result": "SampleRun",
    "unmask.sampling.settings": "Keep SampleSettings Start",
    "unmask.scoring.registry": "AdjacentPairs AnyOrder DecoderLaw LogProb OrderBounds",
    "unmask.scoring.score": "PairScores Scores",
    "unmask.tables.profile": "Profile",
    "unmask.tables.unary": "Tables unary_tables",
    "unmask.training.recipe": "Causal HeldOut Masked Optimisation Shape",
    "unmask.training.run": "TrainingRun",
    "unmask.translation.recipe": "Beam Greedy load_translator",
    "unmask.translation.translate": "Translations",
    "unmask.variants.measured": "Measured",
    "unmask.variants.mutants": "Mutants",
    "unmask.variants.ranking": "Ranking",
}
"""The public names of each module, besides the verbs."""
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
_HOME |= {verb: f"unmask.verbs.{verb}" for verb in VERBS}
__all__ = sorted(["__version__", *_HOME])


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'unmask' has no attribute {name!r}{_meant(name)}")
    value = import_module(_HOME[name]) if _HOME[name] == f"unmask.{name}" else getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def _meant(name: str) -> str:
    """The public name that was meant; nothing for modules, whose import asks for the attribute first."""
    from importlib.util import find_spec

    if name.startswith("_") or find_spec(f"{__name__}.{name}"):
        return ""
    from difflib import get_close_matches

    near = get_close_matches(name, _HOME, n=1)
    return f": did you mean unmask.{near[0]}?" if near else ""


def __dir__() -> list[str]:
    return sorted(__all__)
