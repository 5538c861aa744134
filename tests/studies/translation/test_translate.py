"""`unmask train --parallel` and `unmask translate` from end to end, in a made-up language; and
what they refuse.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import unmask
from support import flat
from support.command_runner import invoke
from support.enumeration import energy_terms
from support.made_up_language import SMALL, pairs, share_right
from support.small_models import shuffle_vocabulary
from unmask.common.border.options import arguments
from unmask.common.errors import InputError, UnmaskError, UnmaskWarning
from unmask.models.encoder.bert import BertMaskedLM
from unmask.models.masked_lm import MaskedLM
from unmask.sampling.decoders.decoder import DECODERS
from unmask.sampling.decoders.revealing import Revealing
from unmask.sampling.decoders.verified import Verified, VerifiedState
from unmask.sampling.energies.norm import NormEnergy
from unmask.sampling.kernels.kernel import KERNELS
from unmask.studies.translation.drafts import Draft, Drafting
from unmask.studies.translation.masked_pairs import PairModel
from unmask.studies.translation.recipe import settle

SOURCES, TARGETS = pairs(24, seed=7, words=6)


def translated(model: Path | PairModel, **options: Any) -> unmask.Translations:
    return flat.translate(SOURCES, model=model, device="cpu", **options)


def test_a_small_model_learns_the_dictionary_and_the_order(masked: Path, causal: Path) -> None:
    result = translated(masked, reference=TARGETS)
    assert result.measures is not None
    assert result.measures.bleu > 95
    assert share_right(result.texts, TARGETS) > 0.9
    (table,) = result.tables()
    assert table.shown()[0][0] == f"{result.measures.bleu:.2f}"
    assert "tok:13a" in table.notes[0]
    assert "24 texts translated by mask-predict at temperature 0" in result.summary()
    for beam in (1, 5):
        assert share_right(translated(causal, beam=beam).texts, TARGETS) > 0.9
    assert translated(causal).settings.decoder == unmask.Beam(beam=5)


@pytest.mark.parametrize(
    "name", [*KERNELS, *(name for name, decoder in DECODERS.items() if not decoder.corrects)]
)
def test_every_decoder_and_kernel_translates(masked: Path, name: str) -> None:
    if name in KERNELS:
        options = {"kernel": name, "sweeps": 2, "passes": 1}
    elif DECODERS[name].parts == "passes":
        options = {"decoder": name, "passes": 2}
    else:
        options = {"decoder": name}
    result = translated(masked, **options, length_beam=2)
    assert share_right(result.texts, TARGETS) > 0.6
    assert bool(result.moves) == (name in KERNELS)
    assert all(row["passes"] > 0 and row["length"] == len(row["tokens"]) for row in result.rows)


def test_a_model_that_learned_to_correct_its_own_output_revises_it_and_one_that_did_not_is_lost(
    masked: Path, refined: Path
) -> None:
    with pytest.warns(UnmaskWarning, match="trained on blanks only"):
        lost = translated(masked, decoder="revise", passes=4, length_beam=2)
    revised = translated(refined, decoder="revise", passes=4, length_beam=2)
    assert share_right(revised.texts, TARGETS) > 0.9
    assert share_right(lost.texts, TARGETS) < 0.2
    assert share_right(translated(refined).texts, TARGETS) > 0.9


def test_what_stands_beside_a_translation_is_measured_on_it(masked: Path) -> None:
    pair = PairModel.load(masked, "cpu")
    row = translated(pair, length_beam=1).rows[0]
    source = pair.spelling.encode(SOURCES[:1])[0]
    text = torch.tensor([[*pair.layout.room(source), *row["tokens"], pair.layout.end]])
    places = range(pair.layout.source_length, pair.layout.source_length + row["length"])
    assert row["energy"] == pytest.approx(
        float(energy_terms(pair.model, text, "norm", places).sum()), abs=1e-6
    )
    again = [
        r["tokens"]
        for r in translated(pair, length_beam=1, kernel="gibbs", sweeps=1, start="random").rows
    ]
    alone = flat.translate(
        SOURCES[:3], model=pair, length_beam=1, kernel="gibbs", sweeps=1, start="random"
    )
    assert [r["tokens"] for r in alone.rows] == again[:3]


def test_the_fast_paths_do_not_look_at_padding_either(masked: Path) -> None:
    pair = PairModel.load(masked, "cpu")
    model, layout = pair.model, pair.layout
    full = [model.regular_ids[i % 9] for i in range(layout.longest_source)]
    rows = torch.tensor([layout.template(source, 4) for source in (full, full[:3], full[:7])])
    places = torch.tensor([[layout.source_length + i for i in (0, 2)]] * 3)
    slow = model.head(rows, places)
    assert model.offers_states(rows)
    assert model.encoder is not None
    for fast in (
        model.logits(rows, places[:, :1]),
        model.logits_of(model.states(rows, places[:, :1])[:, 0]).unsqueeze(1),
    ):
        assert (fast - slow[:, :1]).abs().max() < 1e-4
    both = model.states(rows, places)
    assert (model.logits_of(both.flatten(0, 1)).view_as(slow) - slow).abs().max() < 1e-4
    model.encoder = replace(model.encoder, unseen=None)
    assert (
        model.logits_of(model.states(rows, places[:, :1])[:, 0]) - slow[:, 0]
    ).abs().max() > 1e-2


def test_a_room_no_larger_than_the_source_needs_changes_no_conditional(masked: Path) -> None:
    """The padding that a CPU is spared is what nobody looks at; without the gap in the
    positions it would be another model.
    """
    pair = PairModel.load(masked, "cpu")
    source = pair.model.regular_ids[:4]
    small = pair.in_room(source)
    assert small.layout.source_length == 8 < pair.layout.source_length
    assert small is pair.in_room(source[:2])
    assert pair.in_room(pair.model.regular_ids[:14]) is pair
    logits = []
    for one in (pair, small):
        rows = torch.tensor([one.layout.template(source, 5)])
        places = torch.arange(one.layout.source_length, one.layout.source_length + 5).unsqueeze(0)
        by_one = torch.cat([one.model.logits(rows, places[:, i : i + 1]) for i in range(5)], 1)
        assert (by_one - one.model.logits(rows, places)).abs().max() < 1e-4
        logits.append(one.model.logits(rows, places))
    assert (logits[0] - logits[1]).abs().max() < 1e-4
    network = pair.model.network
    assert isinstance(network, BertMaskedLM)
    ungapped = MaskedLM(
        network.without_positions(small.layout.max_length, pair.layout.max_length),
        pair.model.tokenizer,
    )
    assert (ungapped.logits(rows, places) - logits[1]).abs().max() > 1e-2


@pytest.mark.parametrize(
    "options",
    [{"kernel": "mh", "sweeps": 2}, {"kernel": "block", "sweeps": 1}, {"decoder": "confidence"}],
)
def test_a_translation_does_not_depend_on_those_beside_it(
    masked: Path, options: dict[str, Any]
) -> None:
    pair = PairModel.load(masked, "cpu")
    some = [*SOURCES[:4], f"{SOURCES[4]} {SOURCES[5]}"]
    assert len({pair.in_room(ids).layout.source_length for ids in pair.spelling.encode(some)}) == 2
    together = flat.translate(some, model=pair, length_beam=1, **options).rows
    assert [
        row["tokens"] for row in flat.translate(some[:1], model=pair, length_beam=1, **options).rows
    ] == [together[0]["tokens"]]
    for part in (slice(0, 3), slice(3, None), slice(None, None, -1)):
        alone = flat.translate(some[part], model=pair, length_beam=1, **options).rows
        assert [(row["tokens"], row["energy"]) for row in alone] == [
            (row["tokens"], row["energy"]) for row in together[part]
        ]


@pytest.mark.parametrize("name", KERNELS)
def test_a_translation_of_one_token_is_no_reason_to_stop(masked: Path, name: str) -> None:
    pair = PairModel.load(masked, "cpu")
    source, tokens = tuple(pair.spelling.encode(SOURCES[:1])[0]), pair.model.regular_ids[-4:]
    drafts = [Draft(source, 1, 0.0, tokens[:1]), Draft(source, 4, 0.0, tokens)]
    moved = Drafting(pair, 0).run(drafts, KERNELS[name](), NormEnergy(), sweeps=2)
    assert [len(draft.tokens) for draft in moved] == [1, 4]
    assert all(draft.passes > 0 for draft in moved)


def test_another_seed_gives_other_translations(masked: Path) -> None:
    options = {"kernel": "gibbs", "sweeps": 1, "proposal_temperature": 3.0, "length_beam": 1}
    first, second = (translated(masked, seed=seed, **options).texts for seed in (0, 1))
    assert first != second
    assert first == translated(masked, **options).texts


def test_distillation_trains_on_what_the_teacher_saved(causal: Path, tmp_path: Path) -> None:
    from unmask.studies.training.parallel_corpus import prepare_parallel
    from unmask.studies.training.settings import TrainSettings
    from unmask.studies.training.text_sources import parallel_sides

    (tmp_path / "s.txt").write_text("\n".join([*SOURCES, "", ""]))
    saved = flat.translate(
        tmp_path / "s.txt", model=causal, device="cpu", save=tmp_path / "t.jsonl"
    )
    corpus, settings = (
        parallel_sides((tmp_path / "s.txt", tmp_path / "t.jsonl")),
        TrainSettings(parallel=True, max_length=32),
    )
    made = prepare_parallel(corpus, settings, 0.1, causal)
    assert made.pairs is not None
    assert len(made.pairs.targets) > 15
    assert {made.tokenizer.decode(ids) for ids in made.pairs.targets} <= set(saved.texts)


def test_options_of_training_change_the_model(tmp_path: Path) -> None:
    seen = []
    for number, change in enumerate(
        ({}, {"mask_source": 0.2}, {"refinement": 0.5}, {"dropout": 0.2}, {"label_smoothing": 0.1})
    ):
        options = {**SMALL, "steps": 2, "warmup": 1, **change}
        run = flat.train(parallel=pairs(200, words=6), out=tmp_path / str(number), **options)
        seen.append(
            load_file(run.out / "model.safetensors")["cls.predictions.transform.dense.weight"]
        )
        assert all(
            f"{name}: {value}" in (run.out / "README.md").read_text()
            for name, value in change.items()
        )
    assert not any(torch.equal(a, b) for i, a in enumerate(seen) for b in seen[:i])


def test_a_run_that_stopped_goes_on_with_the_same_numbers(tmp_path: Path) -> None:
    options = {**SMALL, "steps": 4, "warmup": 1, "dropout": 0.2, "refinement": 0.5}
    corpus = pairs(200, words=6)
    flat.train(parallel=corpus, out=tmp_path / "whole", **options)
    assert (
        flat.train(parallel=corpus, out=tmp_path / "parts", max_minutes=0.0, **options).status
        == "paused"
    )
    with pytest.raises(
        InputError, match="holds a run with data .*, not "
    ):  # other pairs would be held out
        flat.train(parallel=corpus, out=tmp_path / "parts", **{**options, "valid_share": 0.3})
    flat.train(parallel=corpus, out=tmp_path / "parts", **options)
    for file in ("model.safetensors", "length_head.safetensors"):
        whole, parts = (load_file(tmp_path / name / file) for name in ("whole", "parts"))
        assert whole.keys() == parts.keys()
        assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_the_command_writes_one_line_per_source_and_keeps_empty_ones(
    masked: Path, tmp_path: Path
) -> None:
    (tmp_path / "s.txt").write_text("\n".join([SOURCES[0], "", SOURCES[1]]) + "\n")
    (tmp_path / "t.txt").write_text("\n".join([TARGETS[0], "", TARGETS[1]]) + "\n")
    run = invoke(
        [
            "translate",
            str(tmp_path / "s.txt"),
            "--model",
            str(masked),
            "--reference",
            str(tmp_path / "t.txt"),
            "--save",
            str(tmp_path / "o.jsonl"),
            "--out",
            str(tmp_path / "run"),
            "--device",
            "cpu",
        ]
    )
    files = tmp_path / "o.jsonl", tmp_path / "run" / "translations.jsonl"
    assert run.stderr == f"translations are in {files[0]} and {files[1]}\n"
    assert files[0].read_bytes() == files[1].read_bytes()
    assert run.exit_code == 0, run.stderr
    rows = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [bool(row["text"]) for row in rows] == [True, False, True]
    assert rows[1]["energy"] is None
    assert {"text", "energy", "log_prob", "passes", "stutter"} <= set(rows[0])
    assert "BLEU" in run.stdout


def test_options_without_a_decoder_are_those_of_mask_predict_or_of_the_only_one() -> None:
    def decoder(**options: Any) -> Any:
        return arguments(unmask.translate, {"data": [], "model": "x", **options})["decoder"]

    four_steps = decoder(passes=4)
    assert settle(False, four_steps).decoder == unmask.MaskPredict(passes=4, temperature=0.0)
    with pytest.raises(InputError, match="mask-predict is not for this model, which is a causal"):
        settle(True, four_steps)
    assert decoder(beam=3) == unmask.Beam(beam=3)
    assert decoder(sets=2) == unmask.Verified(sets=2)
    with pytest.raises(InputError, match="gamma was given, and no method that uses it: give dec"):
        decoder(gamma=0.5)  # two decoders have a bound


@pytest.mark.parametrize(
    "given", [{"seed": 0}, {"length_beam": 5}, {"energy": NormEnergy()}, {"kernel": unmask.MH()}]
)
def test_what_a_causal_model_does_not_use_is_refused(given: dict[str, Any]) -> None:
    (name,) = given
    with pytest.raises(InputError, match=f"{name} has no effect, as the model is causal"):
        settle(True, unmask.Beam(), **given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sweeps": 10}, "sweeps is used only with kernel"),
        ({"start": "random"}, "start is used only with kernel"),
        ({"kernel": "mh", "start": "random", "decoder": "revise"}, "start is not used with decod"),
        ({"kernel": "mask-predict"}, "kernel mask-predict is a decoder: give decoder=mask-predict"),
        ({"decoder": "mh"}, "decoder mh is a kernel: give kernel=mh"),
        ({"decoder": unmask.MH()}, "decoder mh is a kernel: give kernel=mh"),
        ({"lengths": 3}, "did you mean length_beam"),
    ],
)
def test_calls_that_mean_nothing_are_refused_before_a_model_is_loaded(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        unmask.translate(["a"], "no such folder", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length_beam": 400}, "length_beam 400 is more than the 15 that the model takes"),
        ({"decoder": "beam"}, "decoder beam is not for this model, which is a masked model"),
        ({"reference": ["one"]}, "reference has 1 texts, and data 24"),
    ],
)
def test_what_cannot_be_is_refused(masked: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        translated(masked, **options)


def test_words_that_cannot_be_spelled_are_told(masked: Path) -> None:
    with pytest.warns(
        UnmaskWarning,
        match="1 of 2 sources have words that the model cannot spell .* the first in line 2",
    ):
        flat.translate(["kalo.", "kalo 😀."], model=masked, device="cpu")


def test_other_models_and_sources_without_room_are_refused(
    masked: Path, causal: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="for this model, which is a causal model"):
        translated(causal, decoder="mask-predict")
    with pytest.warns(UnmaskWarning, match="was trained to translate"):
        unmask.fill("ka [MASK] lo.", model=masked)
    with pytest.raises(InputError, match="does not translate"):
        flat.translate(["a"], model=unmask.models.checkpoint_files.english_model_path())
    with pytest.raises(InputError, match="line 2 has .* tokens and the model takes sources of 14"):
        flat.translate(["kalo.", "kalo " * 40], model=masked, device="cpu")
    with pytest.raises(InputError, match="does not exist"):
        flat.translate(tmp_path / "none.txt", model=masked)
    for texts, what in (
        (None, "data None"),
        (["kalo.", None], r"data \[.kalo"),
        ([3], r"data \[3"),
    ):
        with pytest.raises(InputError, match=what.split(":")[0]):
            flat.translate(texts, model=masked)  # type: ignore[arg-type]
    assert flat.translate([], model=masked, device="cpu").rows == []
    assert flat.translate(["", " "], model=masked, device="cpu").texts == ["", ""]


@pytest.mark.parametrize("kind", ["masked", "causal"])
def test_a_tokenizer_of_another_model_is_refused(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    folder = shutil.copytree(request.getfixturevalue(kind), tmp_path / "model")
    shuffle_vocabulary(folder)
    with pytest.raises(UnmaskError, match="tokenizer"):
        translated(folder)


@pytest.mark.parametrize("file", ["model.safetensors", "length_head.safetensors"])
def test_weights_of_another_model_of_the_same_shape_are_refused(
    masked: Path, refined: Path, tmp_path: Path, file: str
) -> None:
    folder = shutil.copytree(masked, tmp_path / "model")
    PairModel.load(folder, "cpu")
    shutil.copy(refined / file, folder / file)
    with pytest.raises(
        InputError, match=f"{file} in .* is not the file that the model was saved with"
    ) as caught:
        PairModel.load(folder, "cpu")
    assert "\n" not in str(caught.value)
    assert "translation.json" in str(caught.value)


def test_training_refuses_what_is_no_parallel_corpus(tmp_path: Path, masked: Path) -> None:
    (tmp_path / "s.de").write_text("eins\nzwei\ndrei\n")
    for name in ("t.en", "t.csv"):
        (tmp_path / name).write_text("one\ntwo\n")
    for options, message in (
        (
            {"parallel": (tmp_path / "s.de", tmp_path / "t.en")},
            "parallel has 3 lines in .*s.de and 2 in .*t.en",
        ),
        ({"parallel": (tmp_path / "s.de", tmp_path / "no.en")}, "is not a file"),
        ({}, "no text was given to train on: give data or parallel"),
        (
            {"data": ["a"], "mask_source": 0.1},
            "mask_source is used only with parallel: give parallel, or leave it out",
        ),
        ({"parallel": (tmp_path / "s.de", tmp_path / "t.csv")}, "t.csv holds .* by its name"),
        (
            {"parallel": (["a b"], ["c d"]), "weight": [1.0]},
            "weight is not used with parallel: leave one of the two out",
        ),
        (
            {"parallel": (["a b"], ["c \ud800"]), "tokenizer": masked, "vocab": None},
            "text 1: half of a surrogate pair",
        ),
        (
            {"parallel": (["a b"], ["c d"]), "valid_share": 1e-9},
            "give more pairs, or a larger valid_share",
        ),
    ):
        with pytest.raises(InputError, match=message):
            flat.train(**{**SMALL, "out": tmp_path / "model", "steps": 1, **options})
    assert not (tmp_path / "model").exists()
    long = ["ka lo mi " * 10] * 9
    with pytest.warns(UnmaskWarning, match="9 of 209 pairs are longer than 14 source tokens"):
        sources, targets = pairs(200, words=6)
        options = {**SMALL, "steps": 1}
        flat.train(parallel=(sources + long, targets + long), out=tmp_path / "some", **options)


def test_a_temperature_that_is_given_is_the_temperature(masked: Path) -> None:
    usual = translated(masked, length_beam=2, seed=1)
    assert usual.settings.to_dict()["decoder"]["temperature"] == 0.0
    hot = [
        translated(masked, decoder="mask-predict", temperature=t, length_beam=2, seed=1)
        for t in (0.0, 1.0, 3.0)
    ]
    assert [result.settings.to_dict()["decoder"]["temperature"] for result in hot] == [
        0.0,
        1.0,
        3.0,
    ]
    assert hot[0].rows == usual.rows
    assert hot[2].texts != usual.texts


@pytest.mark.filterwarnings("ignore:.*has no dependence profile")
def test_verified_drafts_translate_as_one_token_per_pass_does_in_fewer_rounds(
    masked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Temperature 0: a draft is accepted if it is the likeliest token given all before it, so
    that the texts are the same.
    """
    states: list[VerifiedState] = []

    def recorded(self: Verified, on: Any, n: int, rng: Any) -> VerifiedState:
        states.append(init(self, on, n, rng))
        return states[-1]

    init = Verified.init
    monkeypatch.setattr(Verified, "init", recorded)
    verified = translated(masked, decoder="verified", sets=2, length_beam=2)
    rounds, tokens = (
        sum(int(state.rounds.sum()) for state in states),
        sum(state.order.numel() for state in states),
    )
    monkeypatch.setattr(Verified, "step", Revealing.step)
    one_by_one = translated(masked, decoder="verified", sets=2, length_beam=2)
    assert verified.texts == one_by_one.texts
    assert share_right(verified.texts, TARGETS) > 0.6
    assert rounds < 0.8 * tokens, "one token per pass has as many rounds as tokens"


@pytest.mark.parametrize("options", [{"kernel": "mh", "sweeps": 2}, {"decoder": "beam"}])
def test_a_run_that_was_stopped_goes_on_from_its_folder(
    masked: Path,
    causal: Path,
    tmp_path: Path,
    options: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("unmask.studies.translation.translating.SOURCES_PER_ITEM", {"cpu": 2})
    monkeypatch.setattr("unmask.studies.translation.translating.BEAM_ROWS", {"cpu": 40})
    model, seen = causal if "beam" in options.values() else masked, []
    whole = translated(model, reference=TARGETS, **options)

    def stop(done: int, total: int, what: str = "") -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        translated(model, out=tmp_path / "run", progress=stop, **options)
    assert len(list((tmp_path / "run" / "parts").iterdir())) == 1
    report = lambda done, total, what="": seen.append(done)  # noqa: E731
    continued = translated(
        model, out=tmp_path / "run", reference=TARGETS, progress=report, **options
    )
    assert continued.rows == whole.rows
    assert continued.moves == whole.moves
    assert len(seen) == 2
    assert (tmp_path / "run" / "translations.jsonl").read_text() == whole.lines()
    with pytest.raises(InputError, match="holds a run with .* not "):
        translated(
            model,
            out=tmp_path / "run",
            **({"beam": 2} if model == causal else {"kernel": "gibbs"}),
        )


def test_the_lines_do_not_replace_a_file_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for name in ("settings.json", "translations.jsonl"):
        with pytest.raises(
            InputError,
            match="is in the folder out, whose translations.jsonl has the lines: leave it out",
        ):
            unmask.translate(
                ["a"], model=tmp_path / "model", save=tmp_path / "run" / name, out=tmp_path / "run"
            )


OWN = '''
import unmask
from unmask.sampling.decoders.confidence import Confidence
from unmask.sampling.kernels.gibbs import Gibbs


@unmask.method
class Mine(Confidence):
    """Confidence by another name."""


@unmask.method
class MyGibbs(Gibbs):
    """Gibbs by another name."""


@unmask.method
class Wide(MyGibbs):
    """Says that it redraws more tokens than a translation has."""

    @property
    def sites_per_step(self):
        return 1000
'''


def test_decoders_and_kernels_of_ones_own_translate(masked: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    sources = pairs(3, words=3)[0]

    def by(**options: Any) -> unmask.Translations:
        return flat.translate(sources, model=masked, length_beam=2, device="cpu", **options)

    own = by(decoder=f"{file}:Mine", passes=4)
    assert own.rows == by(decoder="confidence", passes=4).rows
    stored = own.settings.to_dict()["decoder"]
    assert (stored["name"], stored["code"]) == ("mine", "mine.py:Mine")
    assert len(stored["sha256"]) == 16
    ours = by(kernel="gibbs", sweeps=1, decoder="confidence", passes=4)
    moved = by(kernel=f"{file}:MyGibbs", sweeps=1, decoder=f"{file}:Mine", passes=4)
    assert moved.rows == ours.rows
    assert ours.settings.to_dict()["decoder"]["passes"] == 4
    assert moved.settings.to_dict()["kernel"]["code"] == "mine.py:MyGibbs"
    with pytest.raises(InputError, match="kernel wide redraws 1000 tokens in a step, and a trans"):
        by(kernel=f"{file}:Wide", sweeps=1)
    with pytest.raises(InputError, match="decoder '.*' is unknown"):
        by(decoder="mine")
    run = tmp_path / "run"
    by(decoder=f"{file}:Mine", out=run)
    file.write_text(OWN + "\n# another text\n")
    with pytest.raises(InputError, match="holds a run with .*sha256"):
        by(decoder=f"{file}:Mine", out=run)
