"""The public names and where they are: the only list of them, which type checkers and `unmask`
itself read.
"""

from unmask.common.cloze import Cloze as Cloze
from unmask.common.errors import InputError as InputError
from unmask.common.errors import ModelError as ModelError
from unmask.common.errors import UnmaskError as UnmaskError
from unmask.joints.deriving import derive as derive
from unmask.joints.deriving import derive_all as derive_all
from unmask.joints.joint import Joint as Joint
from unmask.joints.metrics import block_metrics as block_metrics
from unmask.joints.registry import CONSTRUCTIONS as CONSTRUCTIONS
from unmask.models.load import ModelSpec as ModelSpec
from unmask.models.load import load as load
from unmask.models.masked_lm import MaskedLM as MaskedLM
from unmask.sampling.chains.diagnosis import Diagnoses as Diagnoses
from unmask.sampling.chains.diagnosis import Diagnosis as Diagnosis
from unmask.sampling.chains.sample_run import SampleRun as SampleRun
from unmask.sampling.engine.randomness import ChainStreams as ChainStreams
from unmask.sampling.registry import MH as MH
from unmask.sampling.registry import Ancestral as Ancestral
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
from unmask.sampling.registry import Verified as Verified
from unmask.sampling.settings import SampleSettings as SampleSettings
from unmask.sampling.settings import Start as Start
from unmask.sampling.target import Energy as Energy
from unmask.sampling.target import Target as Target
from unmask.scoring.registry import AnyOrder as AnyOrder
from unmask.scoring.registry import DecoderLaw as DecoderLaw
from unmask.scoring.registry import LeftToRight as LeftToRight
from unmask.scoring.score import PairScores as PairScores
from unmask.scoring.score import Scores as Scores
from unmask.studies import lab as lab
from unmask.studies.evaluation.frontier import Frontier as Frontier
from unmask.studies.evaluation.table import Evaluation as Evaluation
from unmask.studies.lab.spin_model import SpinModel as SpinModel
from unmask.studies.training.recipe import Causal as Causal
from unmask.studies.training.recipe import HeldOut as HeldOut
from unmask.studies.training.recipe import Masked as Masked
from unmask.studies.training.recipe import Optimisation as Optimisation
from unmask.studies.training.recipe import Shape as Shape
from unmask.studies.training.result import TrainingRun as TrainingRun
from unmask.studies.translation.recipe import Beam as Beam
from unmask.studies.translation.recipe import TranslatorSpec as TranslatorSpec
from unmask.studies.translation.recipe import load_translator as load_translator
from unmask.studies.translation.result import Translations as Translations
from unmask.studies.variants.measured import Measured as Measured
from unmask.studies.variants.mutants import Mutants as Mutants
from unmask.studies.variants.ranking import Ranking as Ranking
from unmask.tables.profile import Profile as Profile
from unmask.tables.unary import Tables as Tables
from unmask.tables.unary import unary_tables as unary_tables
from unmask.verbs.answers.blanked_text import Completion as Completion
from unmask.verbs.answers.blanked_text import Filling as Filling
from unmask.verbs.answers.checking import Check as Check
from unmask.verbs.answers.comparison import Comparison as Comparison
from unmask.verbs.answers.dependence import Dependence as Dependence
from unmask.verbs.answers.search import Search as Search
from unmask.verbs.corpora import check as check
from unmask.verbs.corpora import evaluate as evaluate
from unmask.verbs.corpora import frontier as frontier
from unmask.verbs.corpora import score as score
from unmask.verbs.sampling import diagnose as diagnose
from unmask.verbs.sampling import sample as sample
from unmask.verbs.sampling import translate as translate
from unmask.verbs.serve import serve as serve
from unmask.verbs.texts import compare as compare
from unmask.verbs.texts import dependence as dependence
from unmask.verbs.texts import fill as fill
from unmask.verbs.texts import mutants as mutants
from unmask.verbs.train import train as train

__version__: str
__all__: list[str]
_HOMES: dict[str, str]
