"""Benchmarks begin with their default options."""

from pathlib import Path

import pytest
import torch

BENCH = Path(__file__).parents[2] / "bench"


def test_a_random_model_of_bert_base_is_on_the_default_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    import gpu_pair
    import sampler_throughput

    network, tokenizer = gpu_pair.network_of("tiny", 64, 8.0), gpu_pair.tokenizer_of(64)
    monkeypatch.setattr(gpu_pair, "network_of", lambda shape, vocabulary, peak: network)
    monkeypatch.setattr(gpu_pair, "tokenizer_of", lambda vocabulary: tokenizer)
    model = sampler_throughput.model_of("base", "auto", "float32")
    assert model.vocab_size == 64 and model.device.type == ("cuda" if torch.cuda.is_available() else "cpu")
