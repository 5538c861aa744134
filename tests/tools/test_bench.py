"""Benchmarks begin with their default options."""

from __future__ import annotations

import gzip
import json
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


def test_genotypes_become_residues_of_the_parents(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    import landscapes

    about = {"germline": "ACDEG", "mature": "AGDEC", "germline_residues": "CG", "mature_residues": "GC", "positions": [2, 5]}
    (tmp_path / "cr9114.json").write_text(json.dumps(about))
    (tmp_path / "trastuzumab.json").write_text(json.dumps({"parent": "ACDEG", "positions": [3]}))
    for name, lines in (("cr9114_h3", "genotype,h3_mean\n00,6\n01,7\n11,9\n"), ("trastuzumab_cdrh3", "cdrh3,binds\nA,1\n")):
        with gzip.open(tmp_path / f"{name}.csv.gz", "wt") as stream:
            stream.write(lines)
    binding, germline, mature = landscapes.landscapes(tmp_path, None)
    assert binding.sequence == "ACDEG" and binding.rows.to_dict("list") == {"cdrh3": ["A"], "binds": [1]}
    assert germline.rows.to_dict("list") == {"residues": ["CG", "CC", "GC"], "h3_mean": [6, 7, 9]}
    for one, residues in ((germline, "CG"), (mature, "GC")):
        assert "".join(one.sequence[place - 1] for place in one.positions) == residues
    assert [len(one.rows) for one in landscapes.landscapes(tmp_path, 2)] == [1, 2, 2]
