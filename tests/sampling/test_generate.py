"""Texts by decoders: independent, each with its log-probability, and the same wherever a run was
stopped.
"""

import json
from copy import copy
from dataclasses import fields
from html import escape
from math import isclose

import pandas
import pytest
import torch

import unmask
from sampling.test_sample_command import unmask as command
from support.sampling_cases import settings_of
from unmask.common.errors import InputError
from unmask.sampling.chains.drawing import draw_samples
from unmask.sampling.chains.generating import draw_texts
from unmask.sampling.decoders.decoder import DECODERS
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.settings import GenerateSettings

TEMPLATE = "the [MASK] [MASK] on the [MASK] ."


@pytest.mark.parametrize("name", DECODERS)
def test_text_number_c_is_chain_c_of_the_first_sweep(tiny, name):
    """Token for token; another seed draws others."""
    generation = unmask.generate(TEMPLATE, tiny, decoder=name, n_texts=6, seed=5)
    run = draw_samples(
        settings_of(kernel=name, template=TEMPLATE, chains=6, sweeps=1, seed=5), tiny
    )
    assert generation.texts == run.samples.text.tolist()
    assert generation.ids == [ids.tolist() for ids in run.samples.ids]
    assert [row["passes"] for row in generation.rows] == run.samples.passes.tolist()
    assert generation.passes == sum(row["passes"] for row in generation.rows)
    other = unmask.generate(TEMPLATE, tiny, decoder=name, n_texts=6, seed=6)
    assert other.ids != generation.ids


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("name", DECODERS)
def test_a_log_prob_is_that_of_the_law_at_that_temperature(tiny, name, temperature):
    decoder = DECODERS[name](temperature=temperature)
    generation = unmask.generate(TEMPLATE, tiny, decoder=decoder, n_texts=4, seed=2)
    log_probs = [row["log_prob"] for row in generation.rows]
    if not decoder.exact:
        assert log_probs == [None] * 4
        assert "no named distribution" in generation.law
        assert generation.to_frame()["log_prob"].isna().all()
        return
    on_target = decoder.on(unmask.Target(tiny, tiny.cloze(TEMPLATE).ids))
    rng = ChainStreams(2, range(4)).at(1, 0)
    wanted = decoder.log_law(on_target, torch.tensor(generation.ids), rng)
    assert log_probs == pytest.approx(wanted.tolist(), abs=1e-4)
    assert "exact log-probabilities" in generation.law
    assert ("temperature 0.7" in generation.law) == (temperature == 0.7)
    heated = DECODERS[name](temperature=2.0).on(on_target.target)
    other_law = heated.method.log_law(heated, torch.tensor(generation.ids), rng)
    assert log_probs != pytest.approx(other_law.tolist(), abs=1e-4)


def test_at_temperature_0_there_is_no_log_prob_and_the_law_says_so(tiny):
    decoder = unmask.Ancestral(temperature=0, order="left-to-right")
    generation = unmask.generate(TEMPLATE, tiny, decoder=decoder, n_texts=3)
    assert len(set(generation.texts)) == 1
    assert generation.rows[0]["log_prob"] is None
    assert generation.law.startswith("At temperature 0")


@pytest.mark.parametrize(
    ("decoder", "options", "is_refused"),
    [
        (unmask.Ancestral(temperature=0, order="left-to-right"), {"length": 3}, True),
        (unmask.Ancestral(temperature=0), {"template": "the [MASK] sat"}, True),
        (unmask.Ancestral(temperature=0), {"length": [1, 3]}, False),  # three have an order
        (unmask.Ancestral(temperature=0), {"length": [1]}, True),
        (unmask.Ancestral(order="left-to-right"), {"length": 3}, False),
        (unmask.RandomSets(passes=1, temperature=0), {"length": 3}, True),
        (unmask.RandomSets(passes=2, temperature=0), {"length": 3}, False),
    ],
)
def test_a_seed_that_decides_nothing_is_refused(tiny, decoder, options, is_refused):
    usual = unmask.generate(model=tiny, decoder=decoder, n_texts=2, **options)
    assert usual.settings.seed == 0
    if not is_refused:
        assert unmask.generate(model=tiny, decoder=decoder, n_texts=2, seed=5, **options).texts
        return
    with pytest.raises(InputError, match="^seed does nothing: with temperature=0 "):
        unmask.generate(model=tiny, decoder=decoder, n_texts=2, seed=5, **options)


def test_a_text_is_the_same_however_many_there_are(tiny):
    some = unmask.generate(model=tiny, n_texts=3, length=(4, 6), seed=1)
    more = unmask.generate(model=tiny, n_texts=7, length=(4, 6), seed=1)
    assert more.rows[:3] == some.rows
    assert [row["length"] for row in more.rows] == [4, 6, 4, 6, 4, 6, 4]
    settings = GenerateSettings(decoder=unmask.Ancestral(), n_texts=7, length=(4, 6), seed=1)
    alone = draw_texts(settings, tiny, at_once=1)
    assert [draw.ids for draw in alone] == more.ids


def test_no_pass_is_spent_on_energies(tiny):
    """Ancestral sampling takes one pass per blank, and no more is asked of the model."""
    counted, rows = copy(tiny), []
    counted.logits_at = lambda ids, positions: rows.append(len(ids)) or tiny.logits(ids, positions)
    generation = unmask.generate(length=5, model=counted, n_texts=8)
    assert generation.passes == 40
    assert sum(rows) < 80  # with energies: 5 passes more for each of 8 texts


def test_tokens_that_are_not_allowed_are_not_drawn(tiny):
    generation = unmask.generate(
        "the [MASK] sat on [MASK] .", tiny, n_texts=20, allow={1: ["cat", "dog"]}
    )
    assert {text.split()[1] for text in generation.texts} == {"cat", "dog"}
    only = unmask.generate(length=3, model=tiny, n_texts=5, alphabet=["cat", "dog"])
    assert {word for text in only.texts for word in text.split()} <= {"cat", "dog"}


def test_a_run_that_was_stopped_goes_on(tiny, tmp_path, stop_at):
    options = {"decoder": "verified", "n_texts": 6, "length": (4, 6), "seed": 3, "model": tiny}
    whole = unmask.generate(**options)
    reports = []
    with pytest.raises(KeyboardInterrupt):
        unmask.generate(**options, out=tmp_path / "run", progress=stop_at(3))
    again = unmask.generate(
        **options,
        out=tmp_path / "run",
        progress=lambda done, total, unit: reports.append((done, total, unit)),
    )
    assert reports[0] == (0, 6, "texts")
    assert reports[-1] == (6, 6, "texts")
    assert again.rows == whole.rows
    assert again.ids == whole.ids
    assert again.folder == tmp_path / "run"
    kept = pandas.read_parquet(tmp_path / "run" / "texts.parquet")
    assert kept["text"].tolist() == whole.texts
    assert list(kept.columns) == ["text", "log_prob", "passes", "length", "ids"]
    assert unmask.generate(**options, out=tmp_path / "run").rows == whole.rows
    with pytest.raises(InputError, match="seed"):
        unmask.generate(**{**options, "seed": 4}, out=tmp_path / "run")
    with pytest.raises(InputError, match="holds a run of 'generate', not of 'sample'"):
        unmask.diagnose(tmp_path / "run")
    for part in (tmp_path / "run" / "parts").glob("*"):
        part.unlink()
    with pytest.raises(InputError, match="texts are gone from"):
        unmask.generate(**options, out=tmp_path / "run")


def test_a_generation_is_no_run_to_diagnose(tiny):
    generation = unmask.generate(TEMPLATE, tiny, n_texts=2)
    with pytest.raises(InputError, match="independent: there is no chain to diagnose"):
        unmask.diagnose(generation)


def test_json_frame_and_file(tiny, tmp_path):
    generation = unmask.generate(TEMPLATE, tiny, n_texts=3, seed=4)
    told = json.loads(json.dumps(generation.to_dict()))
    assert set(told) == {"settings", "law", "texts"}
    assert told["texts"] == generation.rows
    assert set(told["settings"]) == {field.name for field in fields(GenerateSettings)}
    frame = generation.to_frame()
    assert list(frame.columns) == ["text", "log_prob", "passes", "length"]
    path = generation.save(tmp_path / "texts.jsonl")
    assert [json.loads(line) for line in path.read_text().splitlines()] == generation.rows
    assert escape(generation.law) in generation._repr_html_()


def test_the_command_prints_the_law_and_the_texts(tiny_folder, tmp_path):
    words = ("generate", TEMPLATE, "--model", tiny_folder, "--device", "cpu", "--n-texts", 3)
    ran = command(*words, "--decoder", "interleaved", "--temperature", 0.7)
    assert ran.exit_code == 0
    told = json.loads(
        command(*words, "--decoder", "interleaved", "--temperature", 0.7, "--json").stdout
    )
    assert told["settings"]["decoder"]["temperature"] == 0.7
    law, _, table = ran.stdout.partition("\n\n")
    assert " ".join(law.split()) == told["law"]
    heads, _, *lines = table.splitlines()
    assert heads.split() == ["nats", "passes", "text"]
    for line, row in zip(lines, told["texts"], strict=True):
        nats, passes, text = line.split(maxsplit=2)
        assert isclose(float(nats), row["log_prob"], abs_tol=0.006)
        assert int(passes) == row["passes"]
        assert text == row["text"]
    assert "R-hat" not in ran.output
    without = command(*words, "--decoder", "mask-predict", "--out", tmp_path / "run")
    assert "\n   -  " in without.stdout
    assert "texts.parquet" in without.output
    for wrong in ("--sweeps", "--burn-in", "--thin", "--energy", "--kernel"):
        refused = command(*words, wrong, 2)
        assert refused.exit_code == 2
        assert f"{wrong} is not an option: use unmask sample" in refused.output
    assert command("generate", "--help").exit_code == 0
