"""How all tests run, and what many of them need.

Without a GPU, Triton interprets its kernels; it must be told so before anything imports it. In
CI, Hypothesis draws the same cases every time. No test has a deadline, and cases may be drawn
slowly: a busy machine is no failure. A shell that runs the tests in the background has
interrupts ignored, in every process that they start too; here they are heard again. Ray waits
longer for its own processes than it does by default, and its start is tried six times, each in
a folder of its own: on a busy machine they take minutes to appear, and another Ray that starts
beside it may take a port that it has chosen.
"""

import os
import shutil
import signal
from contextlib import ExitStack
from tempfile import TemporaryDirectory

import jaxtyping
import pytest
from hypothesis import HealthCheck, settings

from support import shape_checks

BUSY = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("here", **BUSY)
settings.register_profile("ci", **BUSY, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

for name in (
    "gcs_server_port_wait_time_s",
    "gcs_server_request_timeout_seconds",
    "worker_register_timeout_seconds",
):
    os.environ.setdefault(f"RAY_{name}", "300")

if shutil.which("nvidia-smi") is None:
    os.environ["TRITON_INTERPRET"] = "1"

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

shape_checks.install()


def pytest_collection_modifyitems(items):
    """Skip the tests that need a GPU where there is none."""
    if on_gpu := [item for item in items if item.get_closest_marker("gpu")]:
        import torch

        for item in on_gpu if not torch.cuda.is_available() else ():
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU"))


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
    """A saved BERT of 12 regular and 5 special tokens with random weights, and texts of at most
    16 tokens.
    """
    from tokenizers.pre_tokenizers import BertPreTokenizer

    from support.small_models import save_bert

    folder = tmp_path_factory.mktemp("tiny")
    return save_bert(
        folder, WORDS, BertPreTokenizer(), positions=16, seed=3, spread=0.5, model_max_length=16
    )


@pytest.fixture(scope="session")
def tiny(tiny_folder):
    """The model of `tiny_folder`."""
    from unmask.models.masked_lm import MaskedLM

    return MaskedLM.load(tiny_folder, device="cpu")


@pytest.fixture(scope="session")
def roberta_folder(tmp_path_factory):
    """A saved RoBERTa with random weights and a byte-level vocabulary, whose tokens carry the
    space before them.
    """
    import torch
    from tokenizers.processors import RobertaProcessing
    from transformers import RobertaConfig, RobertaForMaskedLM

    from support.small_models import SHAPE, byte_tokenizer

    around = RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    tokenizer = byte_tokenizer(
        ["The old dog sat on a mat.", "A dog ran to the old house."], 320, around
    )
    torch.manual_seed(11)
    size = {
        "vocab_size": len(tokenizer),
        "max_position_embeddings": 42,
        "pad_token_id": 1,
        "initializer_range": 0.6,
    }
    folder = tmp_path_factory.mktemp("roberta")
    RobertaForMaskedLM(RobertaConfig(**size, **SHAPE)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def ray_here():
    """A new Ray on this machine with two CPUs, whose workers find what these tests can import;
    it joins no other cluster.
    """
    import sys

    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch, ExitStack() as folders:
        patch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        patch.delenv("RAY_ADDRESS", raising=False)
        options = {
            "num_cpus": 2,
            "num_gpus": 0,
            "object_store_memory": 100 * 2**20,
            "include_dashboard": False,
        }
        for left in range(6)[::-1]:
            short = folders.enter_context(
                TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True)
            )
            try:
                ray.init(
                    "local",
                    **options,
                    namespace=short,
                    _temp_dir=short,
                    log_to_driver=False,
                    logging_level="ERROR",
                )
                break
            except (
                Exception,
                SystemExit,
            ):  # which kinds, Ray does not say: its processes did not appear in time
                ray.shutdown()
                if not left:
                    raise
        yield ray
        ray.shutdown()
