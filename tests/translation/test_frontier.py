"""The frontier of translations: laws given the source, the profile of targets, and lines that are not computed twice."""

from __future__ import annotations

import json
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_up_language import pairs

import flat
from unmask.errors import UnmaskWarning
from unmask.sampling.decoders.decoder import Ancestral
from unmask.sampling.registry import KERNELS
from unmask.tables.profile import FILE, Profile
from unmask.translation.translators import PairModel

SOURCES, TARGETS = pairs(16, seed=9, words=6)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "bench"))
    import translation_frontier

    return translation_frontier


@pytest.fixture(scope="module")
def model(masked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, which gets a profile."""
    return Path(shutil.copytree(masked, tmp_path_factory.mktemp("profiled") / "model"))


def test_laws_are_given_the_source(bench: Any, masked: Path) -> None:
    """Left to right by the chain rule of ancestral sampling, everything at once by one pass per text, in float64."""
    pair = PairModel.load(masked, "cpu", "float64")
    here = bench.Pairs(pair, [*SOURCES, "Kazoo 5%"], [*TARGETS, "unspeakable"])
    assert here.skipped == 1 and len(here.kept) == len(SOURCES)
    chain = bench.law_of(here, bench.Case("left to right"), 0)["each"]
    once = bench.law_of(here, bench.Case("interleaved", 1), 0)["each"]
    for number, (source, target) in enumerate(here.kept):
        room, size = pair.layout.source_length, len(target)
        text = torch.tensor([[*pair.layout.room(source), *target, pair.layout.end]])
        blank = torch.tensor([pair.layout.template(source, size)])
        logits = pair.model.logits(blank, torch.arange(room, room + size).unsqueeze(0))[0]
        log_q = logits.index_fill(1, torch.tensor(pair.model.special_ids), -torch.inf).log_softmax(1)
        assert once["nats"][number] == pytest.approx(-float(log_q[range(size), target].mean()), abs=2e-5)
        assert once["entropy"][number] == pytest.approx(float(torch.special.entr(log_q.exp()).sum(1).mean()), abs=2e-5)
        for places, goal, _, passes in here.groups():
            if number in places:
                found = Ancestral(goal, passes).log_prob(_in_room(text, room, goal), torch.arange(size).unsqueeze(0))
        assert chain["nats"][number] == pytest.approx(-float(found) / size, abs=2e-5)
        assert (chain["passes"][number], once["passes"][number]) == (size, 1)


def _in_room(text: torch.Tensor, room: int, goal: Any) -> torch.Tensor:
    """The text with the padding cut that the target's room lacks."""
    kept = len(goal.template) - (text.shape[1] - room)
    return torch.cat([text[:, :kept], text[:, room:]], 1)


def test_the_command_measures_the_profile_and_every_case_once(
    bench: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "BOUNDS", {"gamma": (2.0,)})
    for name, texts in (("de", SOURCES), ("en", TARGETS)):
        (tmp_path / name).write_text("\n".join(texts) + "\n")
    valid = pairs(40, seed=11, words=6)
    for name, texts in zip(("val.de", "val.en"), valid, strict=True):
        (tmp_path / name).write_text("\n".join(texts) + "\n")
    with pytest.warns(UnmaskWarning, match="has no dependence profile"):
        flat.translate(SOURCES, model=model, kernel="least-dependent", passes=2, lengths=1, device="cpu")
    words = ["bench", model, tmp_path / "de", tmp_path / "en", "--out", tmp_path / "out", "--device", "cpu", "--passes", "1,2"]
    valid_words = ["--valid", tmp_path / "val.de", tmp_path / "val.en"]
    monkeypatch.setattr(sys, "argv", list(map(str, [*words, *valid_words])))
    bench.main()
    profile = Profile.load(model / FILE)
    assert profile == Profile.load(tmp_path / "out" / FILE) and profile.texts == 40
    assert len(profile.by_distance) == PairModel.load(model, "cpu").layout.longest_target
    assert profile.about["measured_distances"] <= max(len(text.split()) * 4 for text in TARGETS)
    found = [json.loads(line) for line in (tmp_path / "out" / "law-0.jsonl").read_text().splitlines()]
    assert [(line["decoder"], line["asked"]) for line in found] == [(c.decoder, c.asked) for c in bench.laws([1, 2])]
    once = {line["decoder"]: line["nats"] for line in found if line["asked"] == "1"}
    assert set(once) == {name for name, entry in KERNELS.items() if entry.law}
    assert np.ptp([nats for name, nats in once.items() if name != "verified"]) < 1e-5  # which verifies one token per pass
    table = (tmp_path / "out" / "law.md").read_text()
    best = min((line for line in found if line["asked"] is None), key=lambda line: line["nats"])
    assert f"minus {best['decoder']}" in table and "| entropy-bound | gamma 2 |" in table
    capsys.readouterr()
    bench.main()
    assert capsys.readouterr().out.startswith("16 texts") and len((tmp_path / "out/law-0.jsonl").read_text().splitlines()) == len(
        found
    )
    for share in ("0/2", "1/2"):
        monkeypatch.setattr(sys, "argv", list(map(str, [*words, "--bleu", "--sentences", "4", "--share", share])))
        with warnings.catch_warnings():
            warnings.simplefilter("error", UnmaskWarning)
            bench.main()
    lines = [json.loads(line) for i in (0, 1) for line in (tmp_path / f"out/bleu-{i}.jsonl").read_text().splitlines()]
    by_case = {(line["decoder"], line["asked"]): line for line in lines}
    assert len(by_case) == len(lines) == len(bench.translations([1, 2]))
    assert by_case["lowest-entropy", "2"]["passes"] == 2 and by_case["mask-predict", "10"]["bleu"] > 90
    assert by_case["surest first", None]["passes"] > by_case["entropy-bound", "gamma 2"]["passes"] >= 1
    assert "minus mask-predict 10" in (tmp_path / "out" / "bleu.md").read_text()
