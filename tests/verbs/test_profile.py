"""`profile`: texts and files, and what is refused."""

import json
from pathlib import Path

import pytest

import unmask
from support.command_runner import invoke, refused
from unmask.common.errors import InputError
from unmask.verbs.profile import Profile


@pytest.fixture(scope="module")
def texts():
    return [
        f"The {a} {b} the {c} near the old house."
        for a in ("dog", "cat", "boy", "girl")
        for b in ("saw", "found", "ate")
        for c in ("ball", "bird", "tree")
    ] * 2


def test_function_and_command_write_the_same_file(texts, tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(texts) + "\n")
    words = ["profile", file, "--candidates", "4", "--limit", "60"]
    command = invoke([*map(str, words), "--save", str(tmp_path / "command.json")])
    assert command.exit_code == 0, command.output
    assert "60 texts, 4 tokens tried" in command.output, command.output
    profile = unmask.profile(file, candidates=4, limit=60, save=tmp_path / "function.json")
    assert (tmp_path / "function.json").read_bytes() == (tmp_path / "command.json").read_bytes()
    assert Profile.load(tmp_path / "command.json") == profile
    assert profile.n_texts == 60
    stored = json.loads((tmp_path / "command.json").read_text())
    assert stored["fingerprint"] == unmask.MaskedLM.load().fingerprint
    assert {"measured", "data", "candidates", "seed", "pairs"} <= set(stored["measurement"])
    assert len(stored["by_distance"]) == len(stored["measurement"]["pairs"])
    assert stored["measurement"]["data"] == "texts.txt"
    assert profile.by_distance[0] > profile.by_distance[-1] > 0, "neighbours depend most"
    again = unmask.profile(texts[:60], candidates=4)
    assert again.by_distance == profile.by_distance


def test_texts_come_from_standard_input_and_numbers_go_to_json(texts):
    lines = "\n".join(texts) + "\n"
    done = invoke(["profile", "-", "--candidates", "2", "--limit", "40", "--json"], input=lines)
    profile = unmask.profile(texts[:40], candidates=2)
    stored = json.loads(done.stdout)
    assert stored["by_distance"] == list(profile.by_distance)
    assert stored["n_texts"] == 40
    assert profile.measurement["candidates"] == 2


def test_what_a_person_sees(texts):
    found = unmask.profile(texts[:60], candidates=4)
    (table,) = found.tables()
    assert found.about()[0].startswith("dependence of two blanks by distance, 60 texts, 4 tokens")
    assert [row[0] for row in table.rows] == list(range(1, len(table.rows) + 1))
    assert [row[3] for row in table.rows] == list(found.by_distance[: len(table.rows)])
    frame = found.to_frame()
    ratios = frame["information"] / frame["smaller_entropy"]
    kept = frame["pairs"] >= 100  # of fewer pairs, those of near distances are taken in
    assert ratios[kept].tolist() == pytest.approx(frame["ratio"][kept].tolist(), rel=1e-3)
    by_hand = Profile((0.5, 0.25), "", 9)
    assert by_hand.summary() == (
        "dependence of two blanks by distance, 9 texts; information and entropy in nats"
    )
    assert by_hand.tables()[0].shown() == [
        ["1", "-", "-", "0.500", "-"],
        ["2", "-", "-", "0.250", "-"],
    ]
    single = Profile((0.5,), "", 1, {"mass_of_candidates": 0.25})
    assert single.summary().startswith("dependence of two blanks by distance, 1 text; ")
    many = Profile((0.5,), "", 2_000, {"candidates": 4096, "mass_of_candidates": 0.25})
    assert ", 2,000 texts, 4,096 tokens tried at a site, which hold 25% of" in many.summary()
    assert single.tables()[0].notes == ["1 distance in all"]
    long = Profile(tuple(1 / d for d in range(1, 70)), "", 9)
    assert [row[0] for row in long.tables()[0].rows] == [*range(1, 9), 16, 32, 64]


def test_usual_candidates_and_limit(texts):
    profile = unmask.profile(texts[:30])
    assert profile.measurement["candidates"] == 16
    many = unmask.profile(["The dog saw."] * 2_001, candidates=2)
    assert many.n_texts == 2_000


def test_what_is_refused(texts, tmp_path):
    for message, options in {
        r"no text has two known tokens \(2 texts given\): give texts": {"data": ["  ", "a"]},
        r"no text has two known tokens \(1 text given\): give texts": {"data": ["a"]},
        r"fewer than 20 pairs of hidden neighbours in 2 texts \(2 texts given\): give more": {
            "data": texts[:2]
        },
        "candidates 1 is out of range: .* equal to 2": {"data": texts, "candidates": 1},
        "limit 0 is out of range": {"data": texts, "limit": 0},
        "profile: missing a required argument: 'data': give data": {},
        "sentences is not an argument of profile: did you mean limit": {
            "data": texts,
            "sentences": 60,
        },
        "'no/such/file.txt' does not exist": {"data": "no/such/file.txt"},
    }.items():
        with pytest.raises(InputError, match=message) as caught:
            unmask.profile(**options)
        assert "\n" not in str(caught.value)
    (tmp_path / "texts.txt").write_text("a text\n")
    with pytest.raises(InputError, match="is read by this very command"):
        unmask.profile(Path(tmp_path / "texts.txt"), save=tmp_path / "texts.txt")


@pytest.mark.parametrize(
    ("measurement", "said"),
    [
        ({"pairs": [30]}, "does not have one number for each distance in 'pairs'"),
        ({"information": 0.5}, "does not have one number for each distance in 'information'"),
        ([0.5], r"the measurement of profile '.*' is \[0.5\], not an object"),
    ],
)
def test_a_file_with_a_measurement_of_another_form_is_refused(tmp_path, measurement, said):
    file = tmp_path / "profile.json"
    stored = {"by_distance": [0.5, 0.25], "fingerprint": "", "n_texts": 9}
    file.write_text(json.dumps(stored))
    assert Profile.load(file).rows[1]["pairs"] is None
    file.write_text(json.dumps({**stored, "measurement": measurement}))
    with pytest.raises(InputError, match=f"{said}: measure one"):
        Profile.load(file)


def test_the_command_names_its_own_options():
    assert "DATA is missing: give DATA" in refused(["profile"])
    assert "did you mean --limit?" in refused(["profile", "texts.txt", "--sentences", "60"])
    assert "no/such.txt" in refused(["profile", "no/such.txt"])
