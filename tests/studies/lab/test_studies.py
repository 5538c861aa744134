"""The studies as functions: tables, figures, numbers, the report, and the folders that they may
write to.
"""

import json
import os

import pytest

from unmask import lab
from unmask.common.border.options import options
from unmask.common.errors import InputError
from unmask.studies.lab import SpinModel
from unmask.studies.lab.study import cell_text

THREE = SpinModel(sites=3)
SMALL = {
    "dictionary": {"model": THREE},
    "masking": {"model": THREE, "fits": 4},
    "dependence": {"model": THREE},
    "parallel": {"model": THREE},
    "stutter": {},
    "schedule": {"model": SpinModel(sites=4, graph="path")},
    "decoding": {"model": SpinModel(sites=4, graph="cycle")},
}


@pytest.mark.parametrize("name", SMALL)
def test_each_study_has_tables_and_writes_its_files(name, tmp_path):
    study = lab.STUDIES[name](**SMALL[name], out=tmp_path / "lab")
    assert (tmp_path / "lab" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "lab" / f"{name}.json").read_text()) == study.to_dict()
    assert study.to_dict()["study"] == name
    assert len(study.to_dict()) > 3
    assert json.loads((tmp_path / "lab" / "lab.json").read_text())["studies"] == [name]
    frame = study.to_frame()
    assert list(frame.columns) == list(study.columns)
    assert frame.to_dict("records") == study.rows != []
    assert study.summary() == "\n".join(study.findings)


def test_the_package_lists_the_studies():
    assert set(SMALL) | {"STUDIES", "SpinModel", "all"} == set(dir(lab))
    for study in (*lab.STUDIES.values(), lab.all):
        assert all(option.help for option in options(study))


def test_nothing_is_written_without_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ticks = []
    lab.parallel(THREE, progress=lambda done, total, what="": ticks.append((done, total)))
    assert ticks[-1] == (5, 5)
    assert os.listdir(tmp_path) == []


def test_independent_sites_and_single_sizes_are_no_mistake(tmp_path):
    free = SpinModel(sites=2, coupling=0)
    assert "sites are independent" in lab.parallel(free, out=tmp_path).findings[0]
    lab.dependence(free, out=tmp_path)
    lab.dictionary(free, out=tmp_path)
    lab.masking(free, fits=2, out=tmp_path)
    lab.schedule(free, out=tmp_path)
    assert "sites are independent" in lab.decoding(free, out=tmp_path).findings[1]


def test_all_makes_every_study(tmp_path):
    out = tmp_path / "report"
    report = lab.all(fits=3, out=out)
    assert set(report.to_dict()) == set(SMALL)
    assert set(report.to_frame()["study"]) == set(SMALL)
    shown = {table.title: [text for (text,) in table.rows] for table in report.tables()}
    assert shown == {one.title: [f"- {text}" for text in one.findings] for one in report.studies}
    assert len(report.notices()) == len(SMALL)
    assert all(
        (out / f"{study}.png").is_file() and (out / f"{study}.json").is_file() for study in SMALL
    )
    lab.stutter(out=out)
    assert json.loads((out / "lab.json").read_text())["studies"] == sorted(SMALL)


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match="not empty and holds no lab report"):
        lab.stutter(out=tmp_path)
    with pytest.raises(InputError, match="cannot be written"):
        lab.stutter(out=tmp_path / "thesis.tex")
    with pytest.raises(InputError, match="cannot be"):
        lab.stutter(out=tmp_path / "thesis.tex" / "lab")
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_figure_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "lab.json").write_text("damaged")
    (tmp_path / "stutter.png").symlink_to("/dev/full")
    with pytest.raises(InputError, match="not a regular file"):
        lab.stutter(out=tmp_path)
    assert os.path.islink(tmp_path / "stutter.png")


def test_mistakes_are_one_line_and_write_nothing(tmp_path):
    for model, message in (
        (SpinModel(fields="1,2"), "2 numbers for 6 sites"),
        (SpinModel(sites=3, coupling=99), "use weaker couplings"),
    ):
        with pytest.raises(InputError, match=message):
            lab.dictionary(model, out=tmp_path / "lab")
    assert not (tmp_path / "lab").exists()


def test_numbers_are_shown_to_four_digits():
    shown = [
        cell_text(v)
        for v in (
            0.018239,
            209.28,
            6908,
            0.00001,
            float("-inf"),
            0.0,
            0.99999999,
            123456.0,
            "k=1",
            1234.5,
        )
    ]
    assert shown == [
        "0.01824",
        "209.3",
        "6,908",
        "1e-05",
        "-∞",
        "0",
        "1",
        "1.235e+05",
        "k=1",
        "1,234",
    ]
