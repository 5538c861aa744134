"""The dependence profile: informations by enumeration, texts and files, and what is refused."""

import itertools
import json
import math
import shutil

import pytest
import torch

import unmask
from support.command_runner import invoke
from unmask.common.errors import InputError
from unmask.models.tabular import TabularMLM
from unmask.tables.profile import FILE, Profile
from unmask.verbs.answers.dependence import ENOUGH, Sums, add_pairs, hidden_sites

V, T = 3, 4


def enumerated(model, ids, hidden, i, j, tokens):
    """I_ij and both entropies, token by token."""
    text = [model.mask_id if hidden[t] else int(ids[t]) for t in range(T)]

    def q(at, site=None, token=None):
        row = [token if t == site else text[t] for t in range(T)]
        return model.logits(torch.tensor([row]), torch.tensor([[at]]))[0, 0].softmax(0).tolist()

    own, other = q(i), q(j)
    likeliest = sorted(range(V), key=lambda a: -own[a])[:tokens]
    share = {a: own[a] / sum(own[b] for b in likeliest) for a in likeliest}
    given = {a: q(j, i, a) for a in likeliest}
    mean = [sum(share[a] * given[a][v] for a in likeliest) for v in range(V)]
    information = sum(
        share[a] * given[a][v] * math.log(given[a][v] / mean[v])
        for a in likeliest
        for v in range(V)
    )
    entropies = [-sum(p * math.log(p) for p in law) for law in (own, other)]
    return information, min(entropies)


@pytest.mark.parametrize("tokens", [2, V])
def test_sums_are_those_of_plain_loops(tokens):
    """Of several texts with different hidden sets at once; in float64, to 1e-12."""
    model = TabularMLM.random(V, T, seed=1)
    ids = torch.tensor(list(itertools.product(range(V), repeat=T)))[::7]
    hidden, site, chance = hidden_sites(
        ids, torch.ones_like(ids, dtype=torch.bool), torch.Generator().manual_seed(2)
    )
    assert hidden.sum(1).min() >= 2
    assert hidden.sum(1).max() == T
    sums, expected = (Sums(torch.zeros((3, T), dtype=torch.float64)) for _ in range(2))
    add_pairs(sums, model, ids, hidden, site, chance, tokens)
    for text, mask, i in zip(ids.tolist(), hidden.tolist(), site.tolist(), strict=True):
        for j in range(T):
            if mask[j] and j != i:
                information, entropy = enumerated(model, text, mask, i, j, tokens)
                numbers = torch.tensor([[information], [entropy]], dtype=torch.float64)
                expected.add(torch.tensor([abs(i - j)]), *numbers)
    torch.testing.assert_close(sums.totals, expected.totals, atol=1e-12, rtol=0)
    assert sums.totals[2, 1:].min() > 0
    assert sums.texts == len(ids)


def test_conditionals_of_one_joint_give_its_mutual_information():
    """Everything hidden: I_ij is that of p. Independent sites have none."""
    draw = torch.Generator().manual_seed(0)
    joint = torch.rand((V,) * 3, generator=draw, dtype=torch.float64)
    joint /= joint.sum()
    everything = torch.ones((1, 3), dtype=torch.bool)
    for table, independent in (
        (joint, False),
        (torch.einsum("a,b,c->abc", *[joint.sum((1, 2))] * 3), True),
    ):
        sums = Sums(torch.zeros((3, 3), dtype=torch.float64))
        model, ids = TabularMLM.from_joint(table), torch.zeros((1, 3), dtype=torch.long)
        add_pairs(sums, model, ids, everything, torch.tensor([0]), torch.rand((1, 3)), V)
        pairs = [table.sum(2), table.sum(1)]
        true = [float((p * (p / (p.sum(1, keepdim=True) * p.sum(0))).log()).sum()) for p in pairs]
        assert sums.totals[0, 1:].tolist() == pytest.approx(true, abs=1e-12)
        assert independent == (max(true) < 1e-12)


def test_hidden_sites_are_free_ones():
    free = torch.tensor(
        [[False, True, True, True, False], [False, True, True, False, False]]
    ).repeat(200, 1)
    hidden, site, _ = hidden_sites(
        torch.zeros(free.shape, dtype=torch.long), free, torch.Generator().manual_seed(0)
    )
    assert not (hidden & ~free).any()
    assert hidden.gather(1, site.unsqueeze(1)).all()
    assert set(hidden.sum(1)[::2].tolist()) == {2, 3}
    assert set(hidden.sum(1)[1::2].tolist()) == {2}


def test_a_distance_with_few_pairs_takes_its_neighbours_in():
    """f is a ratio of sums: at distance 3 of the pairs at 2, 3 and 4, at 5 of those at 3 to 7;
    it ends with the last pair.
    """
    sums = Sums(torch.zeros((3, 9), dtype=torch.float64))
    for distance, pairs, information in (
        (1, ENOUGH, 1.0),
        (2, ENOUGH, 0.5),
        (3, ENOUGH - 1, 0.3),
        (4, 1, 0.2),
        (6, 2, 0.1),
    ):
        sums.add(
            torch.full((pairs,), distance),
            torch.full((pairs,), information),
            torch.full((pairs,), 2.0),
        )
    found = sums.by_distance()
    third = (ENOUGH * 0.5 + (ENOUGH - 1) * 0.3 + 0.2) / (2 * 2 * ENOUGH)
    fifth = ((ENOUGH - 1) * 0.3 + 0.2 + 2 * 0.1) / (2 * (ENOUGH + 2))
    assert len(found) == 6
    assert found[:3] == (0.5, 0.25, pytest.approx(third, abs=1e-6))
    assert found[4] == pytest.approx(fifth, abs=1e-6)


@pytest.fixture(scope="module")
def texts():
    return [
        f"The {a} {b} the {c} near the old house."
        for a in ("dog", "cat", "boy", "girl")
        for b in ("saw", "found", "ate")
        for c in ("ball", "bird", "tree")
    ] * 2


def test_function_and_command_write_the_same_file(texts, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    words = ["--profile", tmp_path / "texts.txt", "--candidates", "4", "--sentences", "60"]
    made = invoke(["dependence", *map(str, words), "--save", str(tmp_path / "command.json")])
    assert made.exit_code == 0, made.output
    assert "60 texts, 4 tokens tried" in made.output, made.output
    found = unmask.dependence(
        profile=tmp_path / "texts.txt", candidates=4, sentences=60, save=tmp_path / "function.json"
    )
    assert (tmp_path / "function.json").read_bytes() == (tmp_path / "command.json").read_bytes()
    assert Profile.load(tmp_path / "command.json") == found
    assert found.texts == 60
    stored = json.loads((tmp_path / "command.json").read_text())
    assert stored["fingerprint"] == unmask.MaskedLM.load().fingerprint
    assert {"measured", "data", "candidates", "seed", "pairs"} <= set(stored["about"])
    assert len(stored["by_distance"]) == len(stored["about"]["pairs"])
    assert stored["about"]["data"] == "texts.txt"
    assert found.by_distance[0] > found.by_distance[-1] > 0, "neighbours depend most"
    again = unmask.dependence(profile=texts[:60], candidates=4)
    assert again.by_distance == found.by_distance


def test_what_is_refused(texts, tmp_path):
    for message, given in {
        "positions was given, which profile does not use": {"profile": texts, "positions": [1, 2]},
        "text was given, which profile does not use": {
            "profile": texts,
            "text": "A [MASK] [MASK].",
        },
        "no text was given: give a text": {},
        "sentences and save are about a profile": {"text": "A [MASK] [MASK].", "sentences": 3},
        "has no text of two known tokens": {"profile": ["  ", "a"]},
        "fewer than 20 pairs of hidden neighbours": {"profile": texts[:2]},
        "candidates 1 is out of range: .* equal to 2": {"profile": texts, "candidates": 1},
        "one token lets nothing vary": {"text": "A [MASK] [MASK].", "alphabet": ["dog"]},
        "candidates 1 is out of range: give .* equal to 2": {
            "text": "A [MASK] [MASK].",
            "candidates": 1,
        },
    }.items():
        with pytest.raises(InputError, match=message) as caught:
            unmask.dependence(**given)
        assert "\n" not in str(caught.value)
    (tmp_path / "texts.txt").write_text("a text\n")
    with pytest.raises(InputError, match="is read by this very command"):
        unmask.dependence(profile=tmp_path / "texts.txt", save=tmp_path / "texts.txt")


def test_a_profile_of_other_weights_in_the_folder_is_refused(tiny_folder, tmp_path):
    """It was used by `score` and `sample` without a word."""
    folder = tmp_path / "model"
    shutil.copytree(tiny_folder, folder)
    (folder / FILE).write_text(
        json.dumps({"by_distance": [0.5, 0.2], "fingerprint": "other", "texts": 3})
    )
    model = unmask.MaskedLM.load(folder, device="cpu")
    with pytest.raises(InputError, match="the profile was measured on model other"):
        unmask.Profile.of(model)
