"""`unmask.check`: its figures by a plain loop, and each thing that looks wrong, on a right
model and on wrong ones.
"""

import json
import shutil
import warnings
from copy import copy
from dataclasses import replace
from math import inf, log

import pytest
import torch
from tokenizers.pre_tokenizers import Metaspace

import unmask
from support.command_runner import invoke
from support.small_models import save_bert, shuffle_vocabulary
from unmask.common.errors import InputError
from unmask.models.checkpoint_files import english_model_path
from unmask.models.masked_accuracy import masked_entropy, measure
from unmask.verbs.check import concerns

TEXTS = [
    "A man in a blue shirt is playing the guitar on the street.",
    "Two dogs are running through the snow.",
    "A woman is sitting at a table and reading a book.",
    "The children are playing with a ball in the park.",
    "A boy is riding his bike down the road.",
    "People are standing in line outside of a building.",
    "A girl in a red dress is dancing.",
    "The man is wearing a black hat and a white shirt.",
]


@pytest.fixture
def copied(tmp_path):
    return shutil.copytree(english_model_path(), tmp_path / "english")


def test_what_was_understood_of_the_bundled_model(english):
    check = unmask.check(english)
    assert check.architecture.startswith("bert, 5 layers")
    assert check.n_parameters == sum(p.numel() for p in english.network.parameters())
    assert (check.mask, check.mask_id, check.n_outputs, check.n_regular, check.n_unused) == (
        "[MASK]",
        4,
        8192,
        8187,
        0,
    )
    assert check.around == (("[CLS]",), ("[SEP]",))
    assert check.longest == 128
    assert check.tokenizer == "word pieces"
    assert check.cased
    assert set(check.special) == {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    assert check.on_texts is None
    assert check.concerns == ()
    assert json.loads(json.dumps(check.to_dict()))["mask_id"] == 4
    assert dict(check.to_frame().itertuples(index=False))["mask token"] == "[MASK] (id 4)"
    assert "nothing looks wrong" in check._repr_html_()
    assert "mask token" in repr(check)


def test_figures_on_texts_are_those_of_a_plain_loop(english):
    healthy = unmask.check(english, data=TEXTS)
    assert healthy.concerns == ()
    assert healthy.notes == ()
    on_texts = healthy.on_texts
    right = nats = mass = count = 0
    for text in TEXTS:
        ids = english.words.encode(text)
        for place in range(1, len(ids) - 1):
            row = torch.tensor([[*ids[:place], english.mask_id, *ids[place + 1 :]]])
            with torch.no_grad():
                log_q = english.network(input_ids=row).logits[0, place].double().log_softmax(-1)
            right += int(log_q.argmax()) == ids[place]
            nats -= float(log_q[ids[place]])
            mass += float(log_q[list(english.special_ids)].exp().sum())
            count += 1
    assert (
        on_texts.n_texts,
        on_texts.n_refused,
        on_texts.n_too_long,
        on_texts.n_positions,
        on_texts.n_tokens,
    ) == (
        len(TEXTS),
        0,
        0,
        count,
        count,
    )
    assert on_texts.accuracy == pytest.approx(right / count)
    assert on_texts.nats == pytest.approx(nats / count, abs=1e-4)
    assert on_texts.special_mass == pytest.approx(mass / count, abs=1e-6)
    tokens = [i for text in TEXTS for i in english.words.encode(text)[1:-1]]
    assert on_texts.frequent == pytest.approx(max(tokens.count(i) for i in tokens) / count)
    assert on_texts.accuracy > 0.4 > on_texts.frequent


def test_a_tokenizer_of_other_ids_shows_in_the_accuracy(copied):
    shuffle_vocabulary(copied)
    told = " ".join(unmask.check(copied, data=TEXTS[:4]).concerns)
    assert "it is right in" in told
    assert "always saying" in told


def test_an_untrained_head_texts_of_another_kind_and_what_loading_told(
    tiny_folder, copied, english, tmp_path
):
    odd = unmask.check(
        english, data=["Ω Ψ Ж cat", "Ω Ψ dog", *["x" * 1000 + " the"] * 2, "a\x07b"]
    ).concerns
    assert any("are unknown" in told for told in odd)
    assert any(told.startswith("1 text cannot be read: the text has") for told in odd)
    two = unmask.check(english, data=["the cat sat", "a\x07b", "b\x07c"]).concerns
    assert any(told.startswith("2 texts cannot be read, the first because") for told in two)
    from transformers import BertConfig, BertForMaskedLM

    folder = shutil.copytree(tiny_folder, tmp_path / "flat")
    network = BertForMaskedLM(BertConfig.from_pretrained(tiny_folder))
    with torch.no_grad():
        network.cls.predictions.transform.LayerNorm.weight.zero_()
        network.cls.predictions.bias.zero_()
    network.save_pretrained(folder)
    from safetensors.torch import load_file, save_file

    extra = load_file(folder / "model.safetensors") | {"cls.species.weight": torch.ones(2, 16)}
    save_file(extra, folder / "model.safetensors", metadata={"format": "pt"})
    told = unmask.check(folder).concerns
    assert any("nearly uniform" in line for line in told)
    assert not any("other heads" in line for line in told)
    ((note,),) = [[row["found"] for row in unmask.check(folder).rows if row["item"] == "noted"]]
    assert "cls.species.weight" in note
    assert unmask.check(folder).notes == (note,)


def test_warnings_of_others_are_shown_and_those_of_loading_are_noted_once(english, copied):
    from safetensors.torch import load_file, save_file

    extra = load_file(copied / "model.safetensors") | {"cls.species.weight": torch.ones(2, 16)}
    save_file(extra, copied / "model.safetensors", metadata={"format": "pt"})

    def two_models_of_one_folder():
        warnings.warn("an old name", FutureWarning, stacklevel=1)
        unmask.load(copied, dtype="float64")
        return unmask.load(copied)

    with pytest.warns(FutureWarning, match="^an old name$") as shown:
        checked = unmask.check(two_models_of_one_folder)
    assert [str(warning.message) for warning in shown] == ["an old name"]
    assert checked.concerns == ()
    (note,) = checked.notes
    assert "cls.species.weight" in note


def test_a_tokenizer_above_is_in_doubt_until_texts_show_that_it_is_the_model_s(copied):
    tokens = json.loads((copied / "tokenizer.json").read_text())["model"]["vocab"]
    for file in copied.glob("tokenizer*"):
        file.unlink()
    (copied / "tokenizer_config.json").write_text(
        json.dumps({"do_lower_case": False, "model_max_length": 128})
    )
    (copied.parent / "vocab.txt").write_text(
        "\n".join(sorted(tokens, key=tokens.__getitem__)) + "\n"
    )
    (doubt,) = unmask.check(copied).concerns
    assert "has no tokenizer, and" in doubt
    shown = unmask.check(copied, data=TEXTS)
    assert shown.concerns == ()
    assert shown.notes == (doubt,)
    strange = unmask.check(copied, data=["qx zv kj wq xz vk", "zz xq kv jq wz"])
    assert doubt in strange.concerns
    assert len(strange.concerns) > 1
    assert strange.notes == ()


def test_worse_than_uniform_is_told_although_the_accuracy_is_right(copied):
    """Logits thirty times as large: the same first choices, and certainty where they are wrong."""
    odd = [
        "The old violin whispered to seven green umbrellas about taxes.",
        "My uncle is a quiet lawyer and sells used boats.",
    ]
    from safetensors.torch import load_file, save_file

    tensors = load_file(copied / "model.safetensors")
    for name in ("transform.LayerNorm.weight", "transform.LayerNorm.bias", "bias"):
        tensors[f"cls.predictions.{name}"] *= 30
    save_file(tensors, copied / "model.safetensors", {"format": "pt"})
    checked = unmask.check(copied, data=odd)
    assert checked.on_texts.accuracy > checked.on_texts.frequent
    assert checked.on_texts.nats > checked.on_texts.uniform == pytest.approx(log(8187))
    (told,) = [concern for concern in checked.concerns if "worse than a uniform" in concern]
    assert f"{checked.on_texts.nats:.1f} nats, uniform 9.0" in told


def test_excluded_tokens_do_not_hide_a_uniform_distribution(english):
    """A model may give tokens that cannot be a logit of -inf."""
    model = copy(english)

    def logits_at(ids, places):
        logits = torch.zeros(*places.shape, model.vocab_size)
        logits[..., model.mask_id] = -inf
        return logits

    model.logits_at = logits_at
    assert masked_entropy(model) == pytest.approx(log(model.vocab_size - 1))
    assert any("nearly uniform" in concern for concern in concerns(model, None))


def test_a_token_of_spaces_is_seen_among_the_examples(tmp_path):
    folder = save_bert(tmp_path, ["▁the", "▁"], Metaspace(), positions=16, seed=3, spread=0.5)
    assert unmask.check(folder).examples == ("the", "' '")


def test_one_position_has_no_standard_error(english):
    single = unmask.check(english, data=["the"])
    assert single.on_texts.n_positions == 1
    assert single.on_texts.nats_error == inf
    assert not any("uniform" in concern for concern in single.concerns)


def test_texts_longer_than_the_model_and_nothing_around(tiny, tiny_folder, tmp_path):
    on_texts = unmask.check(tiny, data=["the cat sat on the mat . " * 4, "the cat sat"]).on_texts
    assert on_texts.n_too_long == 1
    assert on_texts.n_texts == 2
    folder = shutil.copytree(tiny_folder, tmp_path / "bare")
    rule = json.loads((folder / "tokenizer.json").read_text())
    rule["post_processor"] = None
    (folder / "tokenizer.json").write_text(json.dumps(rule))
    assert any("start and an end token" in told for told in unmask.check(folder).concerns)


def test_data_that_are_no_texts(tiny, tmp_path):
    (tmp_path / "empty.txt").write_text("\n\n")
    for data, told in (
        ([], "^data holds no text: give a list of texts, or a file"),
        (["the", 3], "^data .'the', 3. is not valid: give a text as item 2"),
        ([" "], "^data holds no text"),
        (tmp_path / "none.txt", "does not exist"),
        (tmp_path / "empty.txt", "holds no text"),
        (
            ["Ω"],
            "none of the 1 texts has a token that the model knows: give texts of its own kind$",
        ),
    ):
        with pytest.raises(InputError, match=told):
            unmask.check(tiny, data=data)


def test_the_command_says_what_the_function_says(tiny_folder, tmp_path):
    (tmp_path / "lines.txt").write_text("the cat sat on the mat .\nthe dog ran .\n")
    told = invoke(
        ["check", "--model", str(tiny_folder), "--data", str(tmp_path / "lines.txt"), "--json"]
    )
    printed, checked = (
        json.loads(told.stdout),
        unmask.check(tiny_folder, data=tmp_path / "lines.txt").to_dict(),
    )
    assert printed == json.loads(json.dumps(checked))
    assert printed["on_texts"]["n_texts"] == 2
    shown = invoke(["check", "--model", str(tiny_folder), "--data", str(tmp_path / "lines.txt")])
    assert shown.exit_code == 0
    assert "mask token" in shown.stdout
    assert "looks wrong: it is right in" in shown.stdout


def test_a_model_that_is_mostly_right_does_not_look_wrong(english):
    figures = measure(english, ["The cat sat on the mat."] * 3)
    often = replace(
        figures,
        n_positions=500,
        accuracy=0.84,
        frequent=0.85,
        nats=0.6,
        nats_error=0.01,
        special_mass=0.0,
    )
    assert not [concern for concern in concerns(english, often) if "is right in" in concern]
    seldom = replace(often, accuracy=0.04, frequent=0.05, nats=4.0)
    assert [
        concern
        for concern in concerns(english, seldom)
        if "is right in 4.0% of the cases" in concern
    ]
