"""The frontier of translations: laws given the source, the profile of targets, and lines that
are not computed twice.
"""

from pathlib import Path
from typing import Any

import pytest
import torch

from support.made_up_language import pairs
from unmask.sampling.decoders.ancestral import Ancestral
from unmask.studies.translation.masked_pairs import PairModel

SOURCES, TARGETS = pairs(16, seed=9, words=6)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "bench"))
    import translation_frontier

    return translation_frontier


def test_laws_are_given_the_source(bench: Any, masked: Path) -> None:
    """Left to right by the chain rule of ancestral sampling, everything at once by one pass per
    text, in float64.
    """
    pair = PairModel.load(masked, "cpu", "float64")
    here = bench.Pairs(pair, [*SOURCES, "Kazoo 5%"], [*TARGETS, "unspeakable"])
    assert here.skipped == 1
    assert len(here.kept) == len(SOURCES)
    chain = bench.law_of(here, bench.Case("left to right"), 0)["each"]
    once = bench.law_of(here, bench.Case("interleaved", 1), 0)["each"]
    for number, (source, target) in enumerate(here.kept):
        room, size = pair.layout.source_length, len(target)
        text = torch.tensor([[*pair.layout.room(source), *target, pair.layout.end]])
        blank = torch.tensor([pair.layout.template(source, size)])
        logits = pair.model.logits(blank, torch.arange(room, room + size).unsqueeze(0))[0]
        log_q = logits.index_fill(1, torch.tensor(pair.model.special_ids), -torch.inf).log_softmax(
            1
        )
        assert once["nats"][number] == pytest.approx(
            -float(log_q[range(size), target].mean()), abs=2e-5
        )
        assert once["entropy"][number] == pytest.approx(
            float(torch.special.entr(log_q.exp()).sum(1).mean()), abs=2e-5
        )
        for places, goal, _, passes in here.groups():
            if number in places:
                on = Ancestral().on(goal, passes)
                order = torch.arange(size).unsqueeze(0)
                log_prob = on.method.log_prob(on, _in_room(text, room, goal), order)
        assert chain["nats"][number] == pytest.approx(-float(log_prob) / size, abs=2e-5)
        assert (chain["passes"][number], once["passes"][number]) == (size, 1)


def _in_room(text: torch.Tensor, room: int, goal: Any) -> torch.Tensor:
    """The text with the padding cut that the target's room lacks."""
    kept = len(goal.template) - (text.shape[1] - room)
    return torch.cat([text[:, :kept], text[:, room:]], 1)
