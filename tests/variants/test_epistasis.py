"""Interactions against simulated landscapes: additive behind a sigmoid, with one pair that interacts, and complete ones."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest

import unmask
from command_runner import invoke
from unmask.errors import InputError
from unmask.variants.epistasis import MEASURED, aligned, distances, interactions
from unmask.variants.interactions import Design, by_order, curve

SITES = 7
CELLS = np.array(list(product([0, 1], repeat=SITES)))
WILD = np.zeros(SITES, dtype=int)
NAMES = [f"A{t + 1}" for t in range(SITES)]
SIZES = np.array([1.5, -1.2, 0.9, 1.8, -0.7, 1.1, 1.4])


def sigmoid(u):
    return 1 / (1 + np.exp(-u))


def saturated(latent):
    """A curve with two plateaus."""
    return 2 + 5 * sigmoid(1.5 * latent)


def strengths(found, name=MEASURED):
    return {(row["first"], row["second"]): row[name] for row in found.table}


def asked(values, scores=None, **options):
    return interactions(CELLS, WILD, values, scores or {}, NAMES, "AC", **options)


def test_changes_that_add_up_behind_a_curve_do_not_interact():
    values = saturated(CELLS @ SIZES - 2)
    bent, straight = asked(values), asked(values, monotone=False)
    assert bent.monotone > 0.9999
    assert straight.monotone < 0.96
    at = curve(CELLS, values)
    assert np.corrcoef(at.latent, CELLS @ SIZES)[0, 1] > 0.999
    assert (np.diff(at.fitted[np.argsort(at.latent)]) >= -1e-9).all()
    largest = max(strengths(bent).values()) * np.sqrt((at.slope**2).mean())
    assert largest < 0.02
    assert max(strengths(straight).values()) > 10 * largest, "without the curve there seem to be interactions"


def test_one_pair_that_interacts_is_found_behind_the_curve():
    latent = CELLS @ SIZES - 2 + 2.0 * CELLS[:, 1] * CELLS[:, 4]
    noise = np.random.default_rng(0).normal(0, 0.02, len(CELLS))
    found = strengths(asked(saturated(latent) + noise))
    ranked = sorted(found, key=found.__getitem__)
    assert ranked[-1] == ("A2", "A5")
    assert found[ranked[-1]] > 3 * found[ranked[-2]]


def test_a_score_with_the_same_interactions_agrees_and_a_shuffled_one_does_not():
    draw = np.random.default_rng(1)
    both = [(s, t) for s in range(SITES) for t in range(s + 1, SITES)]
    sizes = draw.normal(0, 1, len(both))
    sizes[0] = 6.0
    latent = CELLS @ SIZES + sum(size * CELLS[:, s] * CELLS[:, t] for size, (s, t) in zip(sizes, both, strict=True)) * 0.3
    same = 0.5 * latent + 3 * CELLS[:, 0]
    other = CELLS @ SIZES + sum(size * CELLS[:, s] * CELLS[:, t] for size, (s, t) in zip(sizes[::-1], both, strict=True))
    found = asked(saturated(0.4 * latent - 1), {"same": same, "other": other, "additive": CELLS @ SIZES})
    rows = {row["score"]: row for row in found.rows}
    assert set(rows) == {"same", "other"}
    assert rows["same"]["strength"] > 0.8 and rows["same"]["strength_low"] > 0.5
    assert rows["same"]["signed"] > 0.9
    assert rows["other"]["signed_high"] < 0.6
    assert found.rows[0]["score"] == "same"
    assert ". Of 2 scores, same agrees best with the measured strengths (rho " in found.sentence
    assert ", of that score alone, not corrected for the choice; two halves" in found.sentence
    alone = asked(saturated(0.4 * latent - 1), {"same": same}).sentence
    assert ". same is compared with the measured strengths (rho " in alone and "choice" not in alone
    assert "significantly" not in found.sentence + alone


def test_least_squares_are_those_of_a_dense_solver():
    draw = np.random.default_rng(2)
    cells = draw.integers(0, 3, (300, 3))
    values, slope = draw.normal(size=300), draw.uniform(0.2, 2, 300)
    design = Design(cells)
    x = np.zeros((300, design.columns))
    for column in range(design.places.shape[1]):
        x[np.arange(300), design.places[:, column]] = 1
    scale = (slope**2).mean()
    ridge = np.diag(np.where(np.arange(design.columns) < design.singles, 1e-6, 2.0))
    expected = np.linalg.solve((x * slope[:, None] ** 2).T @ x / scale + ridge, x.T @ (slope * values) / scale)
    found = design.solve(values, slope, 2.0)
    assert design.times(found) == pytest.approx(x @ expected, abs=1e-6)
    for mine, dense in zip(design.tables(found), design.tables(expected), strict=True):
        assert mine == pytest.approx(dense, abs=1e-6)
        assert np.abs(mine).max() > 1e-3


def test_orders_of_a_complete_landscape():
    signs = 1 - 2 * CELLS
    values = 3 * signs[:, 0] + 2 * signs[:, 1] * signs[:, 2] + signs[:, 3] * signs[:, 4] * signs[:, 5]
    shuffled = np.random.default_rng(0).permutation(len(CELLS))
    shares = by_order(CELLS[shuffled], WILD, [values[shuffled].astype(float)])
    assert shares[0] == pytest.approx([9 / 14, 4 / 14, 1 / 14, 0, 0, 0, 0], abs=1e-12)
    assert by_order(CELLS[:-1], WILD, [values[:-1].astype(float)]) is None


def test_too_few_sites():
    with pytest.raises(InputError, match="2 residues vary: give variants of 3 residues or more"):
        interactions(CELLS[:, :2], WILD[:2], np.arange(len(CELLS)) * 1.0, {}, NAMES[:2], "AC")


def write_pdb(path, sequence, where, chain="H", first=1):
    names = dict(zip("ACDGWY", "ALA CYS ASP GLY TRP TYR".split(), strict=True))
    lines = []
    for n, (letter, (x, y, z)) in enumerate(zip(sequence, where, strict=True)):
        for atom, shift in (("CA", 1.0), ("CB", 0.0)) if letter != "G" else (("CA", 0.0),):
            start = f"ATOM  {n + 1:5d}  {atom:<3s} {names[letter]} {chain}{n + first:4d}    "
            lines.append(f"{start}{x + shift:8.3f}{y:8.3f}{z:8.3f}  1.00  0.00")
    path.write_text("\n".join([*lines, "TER", "END"]) + "\n")


PARENT = "ACDGWYACDGWYAC"
LINE = [(5.0 * n, 0.0, 0.0) for n in range(len(PARENT))]


def test_distances_of_a_chain_that_is_longer_and_lacks_residues(tmp_path):
    path = tmp_path / "chain.pdb"
    sequence = "WW" + PARENT[:5] + PARENT[7:] + "YY"
    where = [(-100.0, 0, 0)] * 2 + LINE[:5] + LINE[7:] + [(500.0, 0, 0)] * 2
    write_pdb(path, sequence, where)
    apart = distances(path, "H", PARENT, [1, 2, 4, 6, 9])
    assert apart[0, 1] == pytest.approx(5.0)
    assert apart[0, 2] == pytest.approx(15.0)
    assert apart[0, 4] == pytest.approx(40.0)
    assert np.isnan(apart[0, 3])


def test_contacts_are_enriched_among_the_pairs_that_interact(tmp_path):
    path = tmp_path / "chain.pdb"
    write_pdb(path, PARENT, LINE)
    apart = distances(path, None, PARENT, range(1, SITES + 1))
    latent = CELLS @ SIZES * 0.3 + sum(CELLS[:, t] * CELLS[:, t + 1] for t in range(SITES - 1))
    far = CELLS @ SIZES * 0.3 + sum(CELLS[:, t] * CELLS[:, t - 3] for t in range(3, SITES))
    found = asked(latent, {"far": far}, apart=apart)
    by_name = {row["score"]: row for row in found.contacts}
    assert by_name[MEASURED]["contacts"] == by_name[MEASURED]["among_top"] == 6
    assert by_name[MEASURED]["area"] == 1
    assert by_name["far"]["area"] < 0.6


@pytest.mark.parametrize(
    ("sequence", "chain", "said"),
    [
        ("WYWYWYGGCCDD", "H", "does not match the sequence"),
        (PARENT, "L", "has no chain 'L': choose one of H"),
    ],
)
def test_structures_that_are_refused(tmp_path, sequence, chain, said):
    path = tmp_path / "chain.pdb"
    write_pdb(path, sequence, LINE[: len(sequence)])
    with pytest.raises(InputError, match=said):
        distances(path, chain, PARENT, [1, 2])


def test_files_that_are_no_structures(tmp_path):
    path = tmp_path / "chain.pdb"
    path.write_text("data_1ABC\n_entry.id 1ABC\n")
    with pytest.raises(InputError, match="no ATOM lines of residues"):
        distances(path, "H", PARENT, [1])
    path.write_text("ATOM      1  CA  ALA H   1      here   there   nowhere\n")
    with pytest.raises(InputError, match="line 1 has no coordinates"):
        distances(path, "H", PARENT, [1])
    write_pdb(path, PARENT, LINE)
    path.write_text(path.read_text() + path.read_text().replace(" H", " L"))
    with pytest.raises(InputError, match="has the chains H, L: choose one with --chain"):
        distances(path, None, PARENT, [1])


def test_an_alignment_with_a_gap():
    assert aligned("ACDWY", "ACWY") == {0: 0, 1: 1, 3: 2, 4: 3}
    assert aligned("CDW", "AACDWYY") == {0: 2, 1: 3, 2: 4}


def test_the_command_and_the_function_compare_interactions(letters_folder, letters, tmp_path):
    draw = np.random.default_rng(3)
    sequence, changed = "ACDEGACD", "CDEGACDE"
    rows, seen = [], list(product([0, 1], repeat=4))
    for cells in seen:
        residues = [changed[t] if t < 4 and cells[t] else letter for t, letter in enumerate(sequence)]
        rows.append({"variant": "".join(residues), "y": float(np.dot(cells, [1.0, -0.5, 0.8, 0.3]) + draw.normal(0, 0.1))})
    options = {"measured": rows, "scores": "pll,any_order,product", "positions": [1, 2, 3, 4]}
    write = tmp_path / "table.csv"
    write.write_text("variant,y\n" + "".join(f"{row['variant']},{row['y']}\n" for row in rows))
    found = unmask.mutants(sequence, model=letters, epistasis=tmp_path / "pairs.png", **options)
    assert (tmp_path / "pairs.png").read_bytes().startswith(b"\x89PNG")
    assert {row["score"] for row in found.interactions.rows} == {"pll", "any_order", "any_order_mean_log"}
    assert found.interactions.to_frame().shape[0] == 6
    assert sum(found.interactions.orders["pll"]) == pytest.approx(1)
    assert found.interactions.orders["product"][0] == pytest.approx(1)
    words = [sequence, "--model", letters_folder, "--measured", write, "--scores", "pll,any_order,product", "--positions", "1-4"]
    told = invoke(["mutants", *map(str, words), "--epistasis", str(tmp_path / "pairs.pdf"), "--json"])
    assert told.exit_code == 0, told.output
    said = json.loads(told.stdout)["interactions"]
    assert said["rows"][0]["score"] == found.interactions.rows[0]["score"]
    shown = invoke(["mutants", *map(str, words), "--epistasis", str(tmp_path / "pairs.png")])
    assert "Interactions of 6 pairs of residues" in shown.output
    assert "Share of variance by number of residues that interact" in shown.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pdb": "x.pdb"}, "pdb was given without epistasis"),
        ({"chain": "H"}, "chain 'H' was given without pdb"),
        ({"epistasis": "pairs.txt"}, "epistasis 'pairs.txt' has no known ending"),
        ({"epistasis": "pairs.png"}, "2 residues vary: give variants of 3 residues or more"),
        ({"epistasis": "pairs.png", "measured": None, "scores": None, "positions": [1, 2]}, "epistasis was given, which"),
    ],
)
def test_bad_input(letters, tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    rows = [{"variant": name, "y": value} for name, value in (("A1C", 1.0), ("C2D", 2.0), ("A1C+C2D", 2.5))]
    with pytest.raises(InputError, match=said):
        unmask.mutants("ACDEG", model=letters, **({"measured": rows, "scores": "pll"} | options))
    assert not list(tmp_path.iterdir())
