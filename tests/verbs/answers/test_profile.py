"""`dependence` of a profile: texts and files, and what is refused."""

import json

import pytest

import unmask
from support.command_runner import invoke
from unmask.common.errors import InputError
from unmask.tables.profile import Profile


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
    command = invoke(["dependence", *map(str, words), "--save", str(tmp_path / "command.json")])
    assert command.exit_code == 0, command.output
    assert "60 texts, 4 tokens tried" in command.output, command.output
    profile = unmask.dependence(
        profile=tmp_path / "texts.txt", candidates=4, sentences=60, save=tmp_path / "function.json"
    )
    assert (tmp_path / "function.json").read_bytes() == (tmp_path / "command.json").read_bytes()
    assert Profile.load(tmp_path / "command.json") == profile
    assert profile.texts == 60
    stored = json.loads((tmp_path / "command.json").read_text())
    assert stored["fingerprint"] == unmask.MaskedLM.load().fingerprint
    assert {"measured", "data", "candidates", "seed", "pairs"} <= set(stored["about"])
    assert len(stored["by_distance"]) == len(stored["about"]["pairs"])
    assert stored["about"]["data"] == "texts.txt"
    assert profile.by_distance[0] > profile.by_distance[-1] > 0, "neighbours depend most"
    again = unmask.dependence(profile=texts[:60], candidates=4)
    assert again.by_distance == profile.by_distance


def test_what_is_refused(texts, tmp_path):
    for message, options in {
        "positions is not used with profile": {"profile": texts, "positions": [1, 2]},
        "text is not used with profile": {
            "profile": texts,
            "text": "A [MASK] [MASK].",
        },
        "no text was given: give a text": {},
        "sentences is used only with profile": {"text": "A [MASK] [MASK].", "sentences": 3},
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
            unmask.dependence(**options)
        assert "\n" not in str(caught.value)
    (tmp_path / "texts.txt").write_text("a text\n")
    with pytest.raises(InputError, match="is read by this very command"):
        unmask.dependence(profile=tmp_path / "texts.txt", save=tmp_path / "texts.txt")
