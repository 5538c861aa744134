"""Shapes and types of the modules below are checked while the tests run, wherever beartype is installed.

Without a GPU, Triton interprets its kernels; it must be told so before anything imports it. In CI, Hypothesis draws
the same cases every time. No test has a deadline: a busy machine is no failure. A shell that runs the tests in the background has
interrupts ignored, in every process that they start too; here they are heard again.
"""

from __future__ import annotations

import os
import shutil
import signal
from importlib.util import find_spec

import jaxtyping
import pytest
from hypothesis import settings

settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

if shutil.which("nvidia-smi") is None:
    os.environ["TRITON_INTERPRET"] = "1"

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

CHECKED = [
    "unmask.models",
    "unmask.tables.unary",
    "unmask.tables.candidates",
    "unmask.tables.lattice",
    "unmask.tables.revealing",
    "unmask.tables.support",
    "unmask.answers.filling",
    "unmask.answers.comparison",
    "unmask.evaluation.table",
    *(f"unmask.lab.{name}" for name in ("correlation", "dynamics", "information", "mask_law", "schedules", "spectrum")),
    *(f"unmask.sampling.{name}" for name in ("acceptance", "decoders", "decoder_run", "dependence_blocks", "energy")),
    *(f"unmask.sampling.{name}" for name in ("enumeration", "group_run", "groups", "kernels", "markov_run", "memory", "passes")),
    *(f"unmask.sampling.{name}" for name in ("proposal", "randomness", "scan", "starts", "state", "target")),
    *(
        f"unmask.scoring.{name}"
        for name in ("batch", "masked_ranges", "adaptive_orders", "all_orders", "pair_joints", "log_prob")
    ),
    *(
        f"unmask.training.{name}"
        for name in ("batches", "compatibility", "encoder", "layout", "loop", "losses", "masking", "objectives", "optimiser")
    ),
    *(f"unmask.training.{name}" for name in ("packing", "token_store", "validation")),
]
"""Where tensors of given shapes come in; checks in the solvers' inner loops would triple their tests' time."""
CHECKS = 2000
"""So many calls are checked in each test: in long chains the checks would take longer than the steps."""


class FirstCalls(type(jaxtyping.config)):
    """jaxtyping's settings, by which it asks at each call whether checks are off."""

    calls = 0

    @property
    def jaxtyping_disable(self):
        self.calls += 1
        return self.calls > CHECKS

    @jaxtyping_disable.setter
    def jaxtyping_disable(self, off):
        self.calls = CHECKS if off else 0


if find_spec("beartype") is not None:
    jaxtyping.config.__class__ = FirstCalls
    jaxtyping.install_import_hook(CHECKED, "beartype.beartype")


def pytest_runtest_setup():
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def english():
    """The bundled English model."""
    from unmask.models.masked_lm import MaskedLM

    return MaskedLM.load(device="cpu")


WORDS = "the a cat dog sat ran on under mat tree . s".split()


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """A saved BERT of 12 regular and 5 special tokens with random weights, and texts of at most 16 tokens."""
    from tokenizers.pre_tokenizers import BertPreTokenizer

    from small_models import save_bert

    folder = tmp_path_factory.mktemp("tiny")
    return save_bert(folder, WORDS, BertPreTokenizer(), positions=16, seed=3, spread=0.5, model_max_length=16)


@pytest.fixture(scope="session")
def tiny(tiny_folder):
    """The model of `tiny_folder`."""
    from unmask.models.masked_lm import MaskedLM

    return MaskedLM.load(tiny_folder, device="cpu")


@pytest.fixture(scope="session")
def ray_here():
    """Ray on this machine with two CPUs, whose workers find what these tests can import."""
    import sys

    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        ray.init(
            num_cpus=2,
            num_gpus=0,
            object_store_memory=100 * 2**20,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
        )
        yield ray
        ray.shutdown()
