"""Shapes are checked while the tests run, except in compiled code; Triton's programs compile as
the tests import them.
"""

import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path

import jaxtyping
import numpy as np
import pytest
import torch

from support import shape_checks
from unmask.common.cloze import Cloze
from unmask.sampling.decoders.decoder import DECODERS
from unmask.sampling.kernels.kernel import KERNELS
from unmask.sampling.on_target import DecoderOnTarget, KernelOnTarget
from unmask.scoring.scores.score import SCORES
from unmask.studies.training.masking.scheme import SCHEMES
from unmask.studies.training.packed_text import PackedText

ROOT = Path(__file__).parent.parent
VECTOR = np.zeros(3)
MATRIX = np.zeros((2, 3))
FLAT = torch.zeros(3)
TABLE = torch.zeros(2, 3)
BOX = torch.zeros(2, 3, 4)
IDS = torch.zeros(3, dtype=torch.long)
KERNEL = object.__new__(KernelOnTarget)
DECODER = object.__new__(DecoderOnTarget)
CLOZE = Cloze((0, 0), (0, 1))
WRONG = {
    "common.intervals": ("interval", "values", (VECTOR,)),
    "studies.evaluation.summary": ("with_intervals", "values", (VECTOR, 0, 9)),
    "studies.lab.confidence": ("greedy_law", "model", (MATRIX, 1, "sure site")),
    "studies.lab.dynamics": ("stationary_law", "transition", (VECTOR,)),
    "studies.lab.entropies": ("kl", "p", (MATRIX, MATRIX)),
    "studies.lab.estimation": ("worst_cost", "covariance", (VECTOR, VECTOR)),
    "studies.lab.fitting": ("_masses_and_means", "groups", (VECTOR, VECTOR, MATRIX)),
    "studies.lab.hidden_sites": ("law_of_texts", "model", (VECTOR, {})),
    "studies.lab.panels": ("shades", "count", (VECTOR,)),
    "studies.lab.rules": ("every", "m", (VECTOR,)),
    "studies.lab.groupings": ("unmasking_law", "model", (MATRIX, ())),
    "studies.lab.studies.decoding": ("_draw_decoding", "points", (VECTOR,)),
    "studies.lab.studies.dependence": ("_has_two_modes", "law", (MATRIX,)),
    "studies.lab.studies.dictionary": ("_both_sides", "model", (VECTOR, None)),
    "studies.lab.studies.masking": ("_relative_variances", "matrices", ([VECTOR], 1.0)),
    "studies.lab.studies.parallel": ("_finding", "points", (VECTOR, 0.0)),
    "studies.lab.studies.schedule": ("_steps_of_neighbours", "rows", (VECTOR,)),
    "studies.lab.studies.stutter": ("_draw_stutter", "pair", (MATRIX, MATRIX, None, None)),
    "studies.lab.toys": ("outcomes", "model", (VECTOR, VECTOR)),
    "models.batching": ("triton_wanted", "tensor", (MATRIX,)),
    "models.bert_checkpoint": ("read_own_bert", "source", (TABLE, None)),
    "models.checkpoint": ("is_pair_model", "folder", (TABLE,)),
    "models.checkpoint_files": ("read_tensors", "path", (TABLE,)),
    "models.conditional_model": ("ConditionalModel.offers_states", "ids", (None, IDS)),
    "models.encoder.agreement": ("agree", "fast", (7, TABLE, TABLE.dtype, "", None)),
    "models.encoder.architectures": ("layer_of", "described", (None, TABLE, 1)),
    "models.encoder.bert": ("Embeddings.forward", "input_ids", (None, IDS)),
    "models.encoder.encoder": ("Encoder.has_padding", "ids", (None, 7)),
    "models.encoder.layers": ("Layer.project", "normed", (None, TABLE)),
    "models.encoder.linear_maps": ("rows_of", "number", ((), TABLE)),
    "models.encoder.substitution": ("filled", "shared", (TABLE, BOX, IDS)),
    "models.first_look": ("is_sequence", "words", (TABLE, "")),
    "models.float32_logits": ("widened", "logits", (MATRIX,)),
    "models.fresh_pass": ("FreshPass.__call__", "tokens", (None, TABLE)),
    "models.function_network": ("FunctionNetwork.forward", "ids", (None, FLAT)),
    "models.heads": ("rows_at", "values", (TABLE, IDS)),
    "models.weight_checks": ("unused_by_logits", "name", (TABLE,)),
    "models.length_head": ("LengthHead.save", "folder", (None, TABLE)),
    "models.load": ("model_name", "model", (TABLE,)),
    "models.loading_spec": ("LoadingSpec.on", "self", (None, "cpu")),
    "models.model_types": ("refuse_type", "name", (None, TABLE)),
    "models.probes": ("probe_texts", "vocab_size", (TABLE,)),
    "joints.filling_search.text_search": ("TextSearch.state", "parts", (None, TABLE)),
    "joints.kept_fillings": ("log_mass_of", "joint", (TABLE, {})),
    "models.text.answers": ("_encoded", "tokenizer", (TABLE, "", None)),
    "models.text.constraints": ("Constraints.spelled", "b", (None, TABLE, ())),
    "models.text.filled_text": ("filled_text", "tokenizer", (TABLE, CLOZE, ())),
    "verbs.blanked_texts": ("mass_in_words", "tables", (TABLE,)),
    "models.masked_accuracy": ("_log_q", "model", (TABLE, None, None)),
    "models.masked_lm": ("MaskedLM.logits_of", "states", (None, FLAT)),
    "models.own_loader": ("stored_name", "name", (TABLE,)),
    "models.pair_layout": ("is_causal_pair_model", "folder", (TABLE,)),
    "models.sharing": ("is_shared", "engine", (None, TABLE)),
    "models.tabular": ("TabularMLM.logits_at", "ids", (None, IDS, IDS)),
    "models.text.alphabet": ("alphabet_tokens", "alphabet", (7,)),
    "models.text.blanks": ("no_blank", "text", (TABLE,)),
    "models.text.folder_tokenizer": ("FolderTokenizer.decode", "ids", (None, TABLE)),
    "models.text.mask_token": ("with_mask", "mask_id", (None, TABLE)),
    "models.text.text_tokenizer": ("shortened", "text", (TABLE,)),
    "models.text.tokenizer_checks": ("warn_of_few_tokens", "embeddings", (None, TABLE, "")),
    "models.text.tokenizer_config": ("given_special_tokens", "config", (TABLE,)),
    "models.text.tokenizer_files": ("load_tokenizer", "source", (TABLE,)),
    "models.text.vocabulary": ("read_vocabulary", "path", (TABLE,)),
    "models.text.word_marks": ("is_word", "text", (TABLE,)),
    "models.text.word_pieces": ("special_id", "tokenizer", (TABLE, "")),
    "sampling.decoders.decoder": ("lowest", "values", (FLAT, TABLE > 0, 1)),
    "sampling.decoders.entropy_bound": ("least_bound", "entropy", (FLAT, 2)),
    "sampling.decoders.in_steps": ("InSteps.blanks_after", "state", (None, DECODER, TABLE)),
    "sampling.decoders.interleaved": ("every_nth", "sites", (FLAT, 2, 0)),
    "sampling.decoders.least_dependent": (
        "set_under_bound",
        "entropy",
        (FLAT, TABLE > 0, BOX, 0.5),
    ),
    "sampling.decoders.revealing": ("law", "ids", (DECODER, FLAT, None)),
    "sampling.decoders.verified": ("_pairs", "wanted", (FLAT > 0, True)),
    "sampling.engine.calls": ("_filled_up", "value", (VECTOR, 3)),
    "sampling.engine.memory": ("free_bytes", "device", (TABLE,)),
    "sampling.engine.passes": ("Passes.as_states", "ids", (None, IDS)),
    "sampling.engine.randomness": ("Randomness.log_uniform", "rows", (None, TABLE)),
    "sampling.engine.token_draw": ("Categoricals.draw", "uniform", (None, TABLE)),
    "sampling.kernels.kernel": ("Kernel.init", "ids", (None, KERNEL, FLAT)),
    "sampling.kernels.state": ("refuse_nan", "terms", (FLAT,)),
    "sampling.kernels.sweep": ("SweepPlan", "sites", (TABLE,)),
    "sampling.kernels.metropolis": ("log_acceptance", "energy", (TABLE, TABLE)),
    "sampling.chains.figure": ("chain_figure", "run", (TABLE,)),
    "sampling.chains.statistics": ("statistics_of", "run", (TABLE,)),
    "sampling.chains.drawing": ("WholeRun", "settings", (TABLE, [], 1.0, None)),
    "sampling.chains.generating": ("_in_order", "numbered", (TABLE,)),
    "sampling.chains.chain_samples": ("ChainSamples.rates_of", "name", (None, TABLE)),
    "sampling.chains.chain_statistics": (
        "Functional",
        "name",
        (TABLE, 1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    ),
    "sampling.chains.convergence": ("stutters", "text", (TABLE,)),
    "sampling.chains.group_run": ("group_run", "settings", (TABLE, None, None)),
    "sampling.chains.groups": ("group_runs", "settings", (TABLE, None)),
    "sampling.chains.judge": ("judge_run", "judge", (TABLE, None)),
    "sampling.chains.keeper": ("Keeper.add", "samples", (None, TABLE, {})),
    "sampling.chains.sample_folder": ("read_checkpoint", "path", (TABLE,)),
    "sampling.chains.assembling": ("assemble", "settings", (TABLE, None, [])),
    "sampling.chains.samples": ("table_of", "sweeps", (TABLE, None)),
    "sampling.chains.sharing": ("SharedChains", "settings", (TABLE, None, None)),
    "sampling.chains.snapshot": ("on_host", "snapshot", (TABLE,)),
    "sampling.chains.starts": ("template_of_start", "ids", (TABLE, None, "")),
    "sampling.energies.energy": ("ModelEnergy.term", "logits", (None, FLAT, IDS)),
    "sampling.energies.norm": ("log_normaliser", "logits", (FLAT,)),
    "sampling.energies.raw": ("RawEnergy.term", "logits", (None, FLAT, IDS)),
    "sampling.energies.with_terms": ("_values_of", "ids", (len, FLAT)),
    "sampling.target": ("masked_alone", "ids", (FLAT, IDS, 0)),
    "scoring.scored_batch": ("_none_of", "batch", (TABLE, None, "")),
    "scoring.scores.any_order": ("AnyOrder._seed_of", "ids", (None, TABLE.long(), IDS)),
    "scoring.scores.decoder_law": ("_by_sites", "model", (TABLE, None)),
    "scoring.scores.energies": ("EnergyRaw.term", "read", (None, TABLE)),
    "scoring.scores.fixed_orders": ("_with_blanks_after", "right", (TABLE, None, None)),
    "scoring.scores.laws": ("_batch", "texts", (TABLE,)),
    "scoring.scores.masked_range": ("_read", "model", (TABLE, None, None, None)),
    "scoring.scores.pll": ("PLL.masked", "batch", (None, TABLE)),
    "scoring.scores.score": ("Scored", "values", (TABLE,)),
    "scoring.text_batch": ("TextBatch", "ids", (IDS, None, None, None)),
    "scoring.text_scores": ("_waiting", "device", (TABLE,)),
    "surfaces.serving.watch": ("of_logits", "model", (TABLE,)),
    "tables.candidate_scores": ("best_tokens", "score", (CLOZE, FLAT, IDS, 1)),
    "tables.candidates": ("CandidatePlan", "allowed", (CLOZE, FLAT, None, 1)),
    "tables.conditional_table": ("ConditionalTable.write", "logits", (None, slice(2), MATRIX)),
    "tables.conditionals": ("lost_nats", "outside", (TABLE, TABLE.long(), FLAT)),
    "tables.exploration": ("_probability", "log_q", (MATRIX,)),
    "tables.lattice": ("log_mean_of_sampled", "log_probs", (FLAT,)),
    "tables.named_tokens": ("alphabet_tokens", "regular", ([0], FLAT, CLOZE)),
    "tables.profile_measurement": ("random_sites", "free", (FLAT > 0, None)),
    "tables.unary": ("pass_count", "sizes", (TABLE,)),
    "studies.training.objectives": (
        "hide",
        "block",
        ("factorised", object.__new__(PackedText), FLAT > 0, None),
    ),
    "studies.training.masking.scheme": ("drawn_mask", "scheme", (TABLE, None, None)),
    "studies.training.masking.schemes": ("_binomial", "n", (TABLE, 0.5)),
    "studies.training.batches": ("BatchPlan", "packed", (MATRIX, 8, 0)),
    "studies.training.optimisers": ("orthogonalise", "matrices", (TABLE,)),
    "studies.training.packed_text": ("PackedText.count", "chosen", (None, FLAT > 0)),
    "studies.training.packing": ("validation_rows", "parts", (MATRIX, 8, 0)),
    "studies.training.trainer": ("_refuse_other_shapes", "moments", (TABLE, 0, TABLE.shape)),
    "studies.training.validation": ("log_unigram", "prepared", (TABLE, None, False)),
}
"""A function or class of each checked module, one of its parameters, and what to call it with
so that this one is wrong: an array with too few or too many axes, or of another kind where the
module takes none."""
WRONG_OF_METHODS = (
    (KERNELS, "propose", "state", (None, KERNEL, TABLE, None, None)),
    (KERNELS, "step", "state", (None, KERNEL, TABLE, None, None)),
    (DECODERS, "choose", "observed", (None, DECODER, TABLE)),
    (DECODERS, "step", "state", (None, DECODER, TABLE, None)),
    (SCORES, "compute", "model", (None, TABLE, None)),
    (SCHEMES, "draw", "text", (None, TABLE, None)),
)
"""The same of what methods of each kind define, so that the file of a new method is checked without
an entry.
"""
NOTHING_TO_REFUSE = {
    "unmask.models.input_limits",
    "unmask.models.loading_turns",
    "unmask.sampling.chains.watching",
}
"""Modules whose functions take objects of any type, or nothing, or are those of a protocol."""


def wrong_call(module):
    """The name of a function of a module, one of its parameters, and what to call it with."""
    listed = WRONG.get(module.removeprefix("unmask."))
    if listed is not None:
        return listed
    for registry, function, parameter, arguments in WRONG_OF_METHODS:
        for cls in registry.values():
            if cls.__module__ == module and function in vars(cls):
                return f"{cls.__qualname__}.{function}", parameter, arguments
    raise AssertionError(f"say in WRONG what a function of {module} is called with")


def test_shapes_are_checked_while_the_tests_run():
    pytest.importorskip("beartype")
    from unmask.studies.training.masking.scheme import capacity
    from unmask.studies.training.masking.schemes import FixedRate

    assert capacity(FixedRate(), 2, 32, 8.0) == 64
    with pytest.raises(jaxtyping.TypeCheckError, match="capacity"):
        capacity(FixedRate(), "2", 32, 8.0)


def test_every_listed_module_is_there_and_checked():
    checked = shape_checks.checked_modules()
    for name in shape_checks.CHECKED:
        assert any(f"{module}.".startswith(f"{name}.") for module in checked), (
            f"{name} is listed, but nothing of it is checked"
        )


@pytest.mark.parametrize(
    "module",
    sorted(
        (set(shape_checks.checked_modules()) | {f"unmask.{name}" for name in WRONG})
        - NOTHING_TO_REFUSE
    ),
)
def test_each_listed_module_refuses_a_wrong_shape(module):
    pytest.importorskip("beartype")
    name, parameter, arguments = wrong_call(module)
    with pytest.raises(jaxtyping.TypeCheckError) as refused:
        attrgetter(name)(import_module(module))(*arguments)
    function, wrong = re.findall(
        r"the parameters of (\S+)\.$|typechecking parameter '(\w+)'",
        str(refused.value),
        re.MULTILINE,
    )
    assert function[0].removesuffix(".__init__") == f"{module}.{name}"
    assert wrong[1] == parameter


def test_compiled_code_is_not_checked():
    from unmask.studies.training.encoder import _dropped

    assert "unmask.studies.training.encoder" not in shape_checks.checked_modules()
    assert "unmask.studies.training.objectives" in shape_checks.checked_modules()
    text = torch.arange(3)
    compiled = torch.compile(_dropped, backend="eager", fullgraph=True)
    assert torch.equal(compiled(text, 0.0), text)


def test_every_program_compiles_under_the_shape_checks(tmp_path):
    pytest.importorskip("triton")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "TRITON_CACHE_DIR": str(tmp_path),
    }
    environment["TRITON_ALWAYS_COMPILE"] = (
        "1"  # A decorated program may have the key of one that was compiled before.
    )
    script = [sys.executable, Path(__file__).parent / "support" / "compile_programs.py"]
    ended = subprocess.run(script, env=environment, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    lines = ["unreached:"]
    if find_spec("beartype") is not None:
        lines.append("decorated: NameError('tl is not defined')")
    assert ended.stdout.splitlines() == lines


def test_types_are_left_out_where_triton_reads_functions_itself():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mypy"]
    (listed,) = (
        one["module"] for one in settings["overrides"] if one.get("disallow_untyped_defs") is False
    )
    assert sorted(listed) == shape_checks.triton_modules()
