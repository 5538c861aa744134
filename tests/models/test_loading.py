"""Checkpoints that load, and each kind that is refused, with its one line."""

from __future__ import annotations

import json
import re
import shutil
import socket

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, BertForTokenClassification

import unmask
from support.small_models import reconfigure, refusal
from unmask.common.errors import ModelError, UnmaskWarning
from unmask.models.checkpoint import load_network
from unmask.models.checkpoint_files import Source, english_model_path
from unmask.models.masked_lm import MaskedLM


def test_bundled_model_loads_without_a_network(monkeypatch):
    def no_network(*_, **__):
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    monkeypatch.setattr(socket.socket, "connect", no_network)
    model = MaskedLM.load()
    assert (english_model_path() / "README.md").is_file()
    assert model.dtype == torch.float32
    assert model.vocab_size == 8192
    assert model.max_length == 128
    cloze = model.cloze("A man is [MASK] a guitar on the street.")
    logits = model.logits(torch.tensor([cloze.ids]), torch.tensor([cloze.block]))[0, 0]
    assert model.token(int(logits.argmax())) == "playing"


def test_a_folder_below_the_home_folder(copied, monkeypatch):
    monkeypatch.setenv("HOME", str(copied.parent))
    assert MaskedLM.load(f"~/{copied.name}").folder == copied


DAMAGED = [
    ("config.json", lambda content: b'{"model_type": "bert"', "not valid JSON"),
    ("config.json", lambda content: b'{"model_type": "no-such-type"}', "not understood"),
    ("config.json", lambda content: b"[]", r"not valid JSON \(it holds no JSON object\)"),
    ("config.json", lambda content: None, "no config.json"),
    (
        "config.json",
        lambda content: b'{"model_type": ["bert"]}',
        r"has model_type \['bert'\], which is not a text",
    ),
    ("config.json", lambda content: b'{"model_type": {"bert": 1}}', "which is not a text"),
    (
        "config.json",
        lambda content: content.replace(b'"intermediate_size": 48', b'"intermediate_size": 40'),
        "the shapes",
    ),
    ("config.json", lambda content: b'{"model_type": "bart", "d_model": 16}', "encoder-decoder"),
    ("model.safetensors", lambda content: content[: len(content) // 2], "truncated or corrupt"),
    ("model.safetensors", lambda content: content[:4], "truncated or corrupt"),
    ("model.safetensors", lambda content: b"\x00" * 100, "truncated or corrupt"),
    ("model.safetensors", lambda content: None, "has no weights"),
    ("model.safetensors.index.json", lambda content: b"{", "weights of .* cannot be read"),
    (
        "model.safetensors.index.json",
        lambda content: b'{"weight_map": 3}',
        "weights of .* cannot be read",
    ),
]


@pytest.mark.parametrize(("name", "damage", "message"), DAMAGED)
def test_a_damaged_file_is_named(copied, name, damage, message):
    path = copied / name
    content = damage(
        path.read_bytes() if path.exists() else (copied / "model.safetensors").unlink()
    )
    path.unlink(missing_ok=True) if content is None else path.write_bytes(content)
    assert re.search(message, refusal(copied))


POINTER = (
    b"version https://git-lfs.github.com/spec/v1\noid"
    b" sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1\nsize 440473133\n"
)


@pytest.mark.parametrize(
    "name",
    ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt"],
)
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_a_pointer_of_git_lfs_is_called_one(checkpoint, tmp_path, kind, name):
    folder = shutil.copytree(checkpoint(kind), tmp_path / "copy")
    if name == "vocab.txt":
        (folder / "tokenizer.json").unlink()
    (folder / name).write_bytes(POINTER)
    message = refusal(folder)
    assert f"{str(folder / name)!r} is a pointer of git-lfs" in message
    assert f"run `git lfs pull` in {str(folder)!r}" in message
    assert "corrupt" not in message
    assert "JSON" not in message


def test_a_pointer_that_is_not_read_is_no_matter(copied):
    (copied / "pytorch_model.bin").write_bytes(POINTER)
    (copied / "model.fp16.safetensors").write_bytes(POINTER)
    (copied / "tf_model.h5").write_bytes(POINTER)
    MaskedLM.load(copied)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_link_to_itself_is_named(copied, name):
    (copied / name).unlink()
    (copied / name).symlink_to(copied / name)
    with pytest.raises(
        ModelError,
        match=re.escape(
            f"{str(copied / name)!r} cannot be read (Too many levels of symbolic links)"
        ),
    ):
        unmask.load(copied)


def test_weights_of_eight_bits_are_read(copied):
    tensors = load_file(copied / "model.safetensors")
    name = "bert.embeddings.word_embeddings.weight"
    tensors[name] = tensors[name].to(torch.float8_e4m3fn)
    save_file(tensors, copied / "model.safetensors", {"format": "pt"})
    words = MaskedLM.load(copied).network.get_input_embeddings().weight
    assert torch.equal(words.detach(), tensors[name].float())


@pytest.mark.parametrize("stated", [None, False])
def test_capitals_are_as_tokenizer_json_says(copied, stated):
    """transformers lowers the texts of a BERT, if tokenizer_config.json does not say how its
    tokenizer works.
    """
    rule = json.loads((copied / "tokenizer.json").read_text())
    rule["normalizer"] = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
    }
    rule["normalizer"] |= {"strip_accents": False, "lowercase": False}
    rule["model"]["vocab"]["The"] = len(rule["model"]["vocab"])
    last = max(
        rule["model"]["vocab"],
        key=lambda token: rule["model"]["vocab"][token] if token != "The" else -1,
    )
    rule["model"]["vocab"]["The"] = rule["model"]["vocab"].pop(last)
    (copied / "tokenizer.json").write_text(json.dumps(rule))
    config = {} if stated is None else {"do_lower_case": stated, "tokenizer_class": "BertTokenizer"}
    (copied / "tokenizer_config.json").write_text(json.dumps(config))
    model = MaskedLM.load(copied)
    first = model.words.tokens_of("The cat").ids[1]
    assert model.token(first) == "The"


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_weights_with_an_adapter_are_refused_and_not_called_other_heads(checkpoint, tmp_path, kind):
    folder = shutil.copytree(checkpoint(kind), tmp_path / "copy")
    tensors = load_file(folder / "model.safetensors")
    low_rank = {
        f"{kind}.encoder.layer.{layer}.attention.self.query.lora_{side}.default.weight": (
            torch.zeros(2, 2)
        )
        for layer in range(2)
        for side in "AB"
    }
    save_file(tensors | low_rank, folder / "model.safetensors", {"format": "pt"})
    message = refusal(folder)
    assert "4 tensors of" in message
    assert "are those of an adapter" in message
    assert "merge_and_unload" in message


@pytest.mark.parametrize("with_model", [True, False])
def test_a_folder_with_an_adapter_is_refused(copied, with_model):
    """Weights beside which an adapter lies are not what the user means."""
    (copied / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    if not with_model:
        (copied / "config.json").unlink()
    assert "adapter_config.json" in refusal(copied)
    assert "merge it into the weights" in refusal(copied)


def test_missing_head_and_missing_encoder_tensors(copied, make_network):
    network = make_network("bert")
    encoder = AutoModel.from_config(network.config, add_pooling_layer=False)
    encoder.load_state_dict(network.bert.state_dict())
    encoder.save_pretrained(copied)
    message = refusal(copied)
    assert "head" in message
    assert "cls.predictions.* (6)" in message
    BertForTokenClassification(network.config).save_pretrained(copied)
    assert "language-model head" in refusal(copied)
    network.save_pretrained(copied)
    weights = load_file(copied / "model.safetensors")
    del weights["bert.encoder.layer.1.output.dense.weight"]
    save_file(weights, copied / "model.safetensors", metadata={"format": "pt"})
    message = refusal(copied)
    assert "encoder" in message
    assert "bert.encoder.layer.1.output.dense.weight" in message


def rewrite(folder, change):
    """Change the tensors of a folder's safetensors file."""
    weights = load_file(folder / "model.safetensors")
    changed = change(weights)
    save_file(
        {n: t.contiguous() for n, t in changed.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )


@pytest.mark.parametrize(
    ("kind", "layers"),
    [("bert", "num_hidden_layers"), ("roberta", "num_hidden_layers"), ("distilbert", "n_layers")],
)
def test_layers_that_config_does_not_state_are_refused_and_listed(
    checkpoint, tmp_path, kind, layers
):
    folder = shutil.copytree(checkpoint(kind), tmp_path / "model")
    reconfigure(folder, **{layers: 2})
    message = refusal(folder)
    assert "16 tensors" in message
    assert "have no place" in message
    assert "layer.2.* (16)" in message
    reconfigure(folder, **{layers: 4})
    message = refusal(folder)
    assert "missing" in message
    assert "layer.3.* (16)" in message


@pytest.mark.parametrize(
    "name",
    ["hidden_size", "num_attention_heads", "num_hidden_layers", "vocab_size", "intermediate_size"],
)
@pytest.mark.parametrize("kind", ["bert", "roberta"])
@pytest.mark.parametrize("value", [0, "many"])
def test_nonsense_in_the_config_is_refused(checkpoint, tmp_path, kind, name, value):
    folder = shutil.copytree(checkpoint(kind), tmp_path / "model")
    reconfigure(folder, **{name: value})
    assert refusal(folder)


def test_networks_that_transformers_had_once_are_refused_by_their_tensors(copied):
    """Relative positions have tensors of their own, and pruned heads have smaller ones."""
    first = "bert.encoder.layer.0.attention.self."
    weights = load_file(copied / "model.safetensors")
    rewrite(
        copied, lambda weights: weights | {f"{first}distance_embedding.weight": torch.ones(47, 16)}
    )
    reconfigure(copied, position_embedding_type="relative_key")
    assert f"{first}distance_embedding.weight" in refusal(copied)
    rewrite(
        copied,
        lambda _: weights | {f"{first}query.weight": weights[f"{first}query.weight"][:16].clone()},
    )
    reconfigure(copied, position_embedding_type="absolute", pruned_heads={"0": [1]})
    assert f"{first}query.weight" in refusal(copied)


@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_a_head_under_other_names_is_refused_with_the_names(checkpoint, tmp_path, kind):
    folder = shutil.copytree(checkpoint(kind), tmp_path / "model")
    head = ("cls.predictions", "predictions")[kind == "albert"]
    rewrite(
        folder,
        lambda weights: {
            n.replace(head, "mlm.top") if n.startswith(head) else n: t for n, t in weights.items()
        },
    )
    message = refusal(folder)
    assert "missing" in message
    assert head in message
    assert "mlm.top.* (5)" in message
    assert "rename its tensors" in message


def test_other_heads_beside_are_left_out_with_a_warning(copied):
    rewrite(
        copied,
        lambda weights: (
            weights | {"cls.species.weight": torch.ones(3, 32), "cls.species.bias": torch.ones(3)}
        ),
    )
    with pytest.warns(UnmaskWarning, match="2 tensors .* other heads .*cls.species"):
        MaskedLM.load(copied)


@pytest.mark.parametrize("kind", ["bert", "modernbert"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_named(checkpoint, tmp_path, kind, value):
    folder = shutil.copytree(checkpoint(kind), tmp_path / "model")
    name = sorted(n for n in load_file(folder / "model.safetensors") if "norm" in n.lower())[0]

    def spoil(weights):
        weights[name][3] = value
        return weights

    rewrite(folder, spoil)
    message = refusal(folder)
    assert name in message
    assert "1 of the 32 numbers" in message
    assert "not finite" in message


def as_integers(weights, dtype, one=False):
    """All weights as whole numbers, or one of them."""
    names = (
        [sorted(name for name in weights if name.endswith("weight"))[-1]] if one else list(weights)
    )
    return {
        name: (100 * tensor).to(dtype) if name in names else tensor
        for name, tensor in weights.items()
    }


@pytest.mark.parametrize("one", [True, False], ids=["one", "all"])
@pytest.mark.parametrize("dtype", [torch.int8, torch.bool], ids=str)
@pytest.mark.parametrize("kind", ["bert", "esm"])
def test_whole_numbers_are_no_weights(checkpoint, tmp_path, kind, dtype, one):
    folder = shutil.copytree(checkpoint(kind), tmp_path / "model")
    rewrite(folder, lambda weights: as_integers(weights, dtype, one))
    message = refusal(folder)
    assert str(dtype).removeprefix("torch.") in message
    assert "save them as float32" in message
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert refusal(folder) == message


@pytest.mark.parametrize("local", [True, False], ids=["folder", "hub"])
@pytest.mark.parametrize("name", ["attn_implementation", "_attn_implementation"])
def test_code_from_the_hub_is_never_asked_for(copied, name, local):
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(config | {name: "somebody/kernel"}))
    source = Source(str(copied))
    source.local, source.files_only = local, True
    with pytest.raises(
        ModelError, match="code from the hub .attn_implementation 'somebody/kernel'"
    ):
        load_network(source, torch.device("cpu"), torch.float32)


def test_logits_that_are_not_finite_are_refused(copied):
    def spoil(weights):
        weights["cls.predictions.bias"][:] = 3e38
        weights["bert.embeddings.word_embeddings.weight"] *= 1e38
        return weights

    rewrite(copied, spoil)
    model = MaskedLM.load(copied)
    with pytest.raises(ModelError, match="not finite"):
        model.logits(torch.tensor([[2, 5, 4, 3]]), torch.tensor([[2]]))
    with pytest.raises(ModelError, match="not finite"):
        unmask.unary_tables(model, unmask.Cloze((2, 4, 4, 3), (1, 2)), [torch.tensor([7, 8])] * 2)


def test_causal_models_are_refused(copied):
    config = AutoConfig.from_pretrained(copied)
    config.is_decoder = True
    AutoModelForCausalLM.from_config(config).save_pretrained(copied)
    assert "causal" in refusal(copied)
    gpt = AutoConfig.for_model("gpt2", vocab_size=50, n_embd=16, n_layer=1, n_head=2)
    AutoModelForCausalLM.from_config(gpt).save_pretrained(copied)
    message = refusal(copied)
    assert "gpt2" in message
    assert "masked language model" in message


def test_tokenizer_without_mask_token(copied, make_word_tokenizer):
    tokenizer = make_word_tokenizer()
    tokenizer.mask_token = None
    tokenizer.save_pretrained(copied)
    assert "no mask token" in refusal(copied)


def test_tokenizer_missing_broken_or_of_another_model(copied, make_byte_tokenizer):
    make_byte_tokenizer().save_pretrained(copied)
    message = refusal(copied)
    assert "unknown to the model" in message
    (copied / "tokenizer.json").write_text("{}")
    assert "tokenizer" in refusal(copied)
    assert "cannot be read" in refusal(copied)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (copied / name).unlink()
    assert "has no tokenizer" in refusal(copied)


def test_pickle_loads_only_as_weights(copied, make_network):
    (copied / "model.safetensors").unlink()
    state = make_network("bert").state_dict()
    torch.save(state, copied / "pytorch_model.bin")
    assert (
        MaskedLM.load(copied).vocab_size == state["bert.embeddings.word_embeddings.weight"].shape[0]
    )
    torch.save(state | {"extra": _Arbitrary()}, copied / "pytorch_model.bin")
    assert "pickle" in refusal(copied)
    assert "safetensors" in refusal(copied)
    (copied / "pytorch_model.bin").write_bytes(b"no pickle at all")
    assert "weights" in refusal(copied)


class _Arbitrary:
    """What a pickle may hold and a safetensors file may not."""


def test_bare_vocabulary_beside_or_above_the_weights(make_network, tmp_path):
    alphabet = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"ACDEFGHIKLMNPQRSTVWY"]
    folder = tmp_path / "family" / "weights"
    make_network("bert", vocab_size=25).save_pretrained(folder)
    (folder.parent / "vocab.txt").write_text("\n".join(alphabet))
    with pytest.warns(
        UnmaskWarning,
        match="has no tokenizer, and '.*family/vocab.txt' is used: .* copy it beside the weights",
    ):
        model = MaskedLM.load(folder)
    cloze = model.cloze("EVQL[MASK]ESGG")
    assert model.decode(cloze.ids) == [
        "[CLS]",
        *"EVQL",
        "[MASK]",
        *"ESGG",
        "[SEP]",
    ]
    assert cloze.block == (5,)
    shutil.move(folder.parent / "vocab.txt", folder / "vocab.txt")
    assert MaskedLM.load(folder).cloze("EVQL[MASK]ESGG") == cloze


def test_protein_vocabulary_of_esm(make_network, tmp_path):
    names = [
        "<cls>",
        "<pad>",
        "<eos>",
        "<unk>",
        *"LAGVSERTIDPKQNFYMHWCXBUZO.-",
        "<null_1>",
        "<mask>",
    ]
    make_network("esm", vocab_size=33, pad_token_id=1, mask_token_id=32).save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(names))
    model = MaskedLM.load(tmp_path)
    cloze = model.cloze("MKT[MASK]LL", targets=["G"])
    assert model.decode(cloze.ids) == ["<cls>", *"MKT", "[MASK]", *"LL", "<eos>"]
    assert cloze.ids[4] == 32
    assert model.text(cloze.filled(cloze.gold)) == "MKTGLL"
    assert "<null_1>" in [model.token(i) for i in model.regular_ids]


def test_hub_name_without_a_network_is_refused_at_once(monkeypatch):
    hosts = []

    def no_address(host, *_, **__):
        hosts.append(host)
        raise socket.gaierror("Name or service not known")

    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(
        "huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True
    )  # which asks the hub once, for itself
    monkeypatch.setattr(socket, "getaddrinfo", no_address)
    assert "neither a folder here nor reachable on the hub" in refusal("somebody/no-such-model")
    assert len(hosts) == 1


def test_more_logits_than_tokens(make_network, make_word_tokenizer):
    tokenizer = make_word_tokenizer()
    model = MaskedLM(make_network("bert", vocab_size=len(tokenizer) + 7), tokenizer)
    assert model.vocab_size == len(tokenizer) + 7
    nameless = range(len(tokenizer), len(tokenizer) + 7)
    assert model.special_ids == (0, 1, 2, 3, 4, *nameless)
    assert model.regular_ids == tuple(range(5, len(tokenizer)))


def test_cuda_asked_for_where_there_is_none(copied, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "no CUDA device" in refusal(copied, device="cuda")
