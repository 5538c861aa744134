"""Turns a masked language model into an explicit probability model over the blanks of a text.

>>> import unmask
>>> unmask.fill("She drank a cup of [MASK] [MASK].").completions[0].text  # doctest: +SKIP

The names below are loaded when first used, so that `import unmask` itself costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from unmask import lab
    from unmask.answers.chain_filling import ChainFilling
    from unmask.answers.checking import Check, check
    from unmask.answers.comparison import Comparison, compare
    from unmask.answers.completion import Completion
    from unmask.answers.conditionals import conditionals
    from unmask.answers.dependence import Dependence, dependence
    from unmask.answers.filling import Filling, fill
    from unmask.cloze import Cloze
    from unmask.errors import InputError, ModelError, UnmaskError
    from unmask.evaluation.evaluate import evaluate
    from unmask.evaluation.frontier import Frontier, frontier
    from unmask.evaluation.table import Evaluation
    from unmask.integrations.pipeline import pipeline
    from unmask.joints.deriving import derive, derive_all
    from unmask.joints.joint import Joint
    from unmask.joints.metrics import block_metrics
    from unmask.joints.registry import CONSTRUCTIONS
    from unmask.models.masked_lm import MaskedLM
    from unmask.sampling.run.diagnostics import Diagnosis, diagnose
    from unmask.sampling.run.result import SampleRun
    from unmask.sampling.sample import sample
    from unmask.scoring.results import PairScores, Scores
    from unmask.scoring.score import score
    from unmask.serving.server import serve
    from unmask.tables.profile import Profile
    from unmask.tables.unary import Tables, unary_tables
    from unmask.training.loop import TrainingRun
    from unmask.training.run import train
    from unmask.translation.translate import Translations, translate
    from unmask.variants.measured import Measured
    from unmask.variants.mutants import Mutants, mutants

_HOME = {
    "CONSTRUCTIONS": "unmask.joints.registry",
    "ChainFilling": "unmask.answers.chain_filling",
    "Check": "unmask.answers.checking",
    "Cloze": "unmask.cloze",
    "Comparison": "unmask.answers.comparison",
    "Completion": "unmask.answers.completion",
    "Dependence": "unmask.answers.dependence",
    "Diagnosis": "unmask.sampling.run.diagnostics",
    "Evaluation": "unmask.evaluation.table",
    "Filling": "unmask.answers.filling",
    "Frontier": "unmask.evaluation.frontier",
    "InputError": "unmask.errors",
    "Joint": "unmask.joints.joint",
    "MaskedLM": "unmask.models.masked_lm",
    "Measured": "unmask.variants.measured",
    "ModelError": "unmask.errors",
    "Mutants": "unmask.variants.mutants",
    "PairScores": "unmask.scoring.results",
    "Profile": "unmask.tables.profile",
    "SampleRun": "unmask.sampling.run.result",
    "Scores": "unmask.scoring.results",
    "Tables": "unmask.tables.unary",
    "TrainingRun": "unmask.training.loop",
    "Translations": "unmask.translation.translate",
    "UnmaskError": "unmask.errors",
    "block_metrics": "unmask.joints.metrics",
    "check": "unmask.answers.checking",
    "compare": "unmask.answers.comparison",
    "conditionals": "unmask.answers.conditionals",
    "dependence": "unmask.answers.dependence",
    "derive": "unmask.joints.deriving",
    "derive_all": "unmask.joints.deriving",
    "diagnose": "unmask.sampling.run.diagnostics",
    "evaluate": "unmask.evaluation.evaluate",
    "fill": "unmask.answers.filling",
    "frontier": "unmask.evaluation.frontier",
    "lab": "unmask.lab",
    "mutants": "unmask.variants.mutants",
    "pipeline": "unmask.integrations.pipeline",
    "sample": "unmask.sampling.sample",
    "score": "unmask.scoring.score",
    "serve": "unmask.serving.server",
    "train": "unmask.training.run",
    "translate": "unmask.translation.translate",
    "unary_tables": "unmask.tables.unary",
}

__all__ = [
    "CONSTRUCTIONS",
    "ChainFilling",
    "Check",
    "Cloze",
    "Comparison",
    "Completion",
    "Dependence",
    "Diagnosis",
    "Evaluation",
    "Filling",
    "Frontier",
    "InputError",
    "Joint",
    "MaskedLM",
    "Measured",
    "ModelError",
    "Mutants",
    "PairScores",
    "Profile",
    "SampleRun",
    "Scores",
    "Tables",
    "TrainingRun",
    "Translations",
    "UnmaskError",
    "__version__",
    "block_metrics",
    "check",
    "compare",
    "conditionals",
    "dependence",
    "derive",
    "derive_all",
    "diagnose",
    "evaluate",
    "fill",
    "frontier",
    "lab",
    "mutants",
    "pipeline",
    "sample",
    "score",
    "serve",
    "train",
    "translate",
    "unary_tables",
]


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
    from unmask.options.elsewhere import command_for

    found = command_for(name, _HOME)
    return f": use unmask.{found.split()[0]}" if found else ""


def __dir__() -> list[str]:
    return sorted(__all__)
