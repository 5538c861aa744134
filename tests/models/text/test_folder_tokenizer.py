"""tokenizer.json read by ourselves against transformers' tokenizer: the same ids, tokens,
places and texts.
"""

import json
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from unmask.models.checkpoint_files import english_model_path
from unmask.models.text.folder_tokenizer import FolderTokenizer
from unmask.models.text.text_tokenizer import TextTokenizer
from unmask.models.text.tokenizer_files import read_folder_tokenizer
from unmask.models.text.vocabulary import tokenizer_from_vocabulary

TEXTS = [
    "the cat sat on the mat.",
    "The Cat, the dog's playing; don't walk!",
    "unable [MASK] walked [SEP] on[MASK]s",
    "Café déjà-vu 東京 house ΩΩ 🦜 \t tab\nline",
    "   ",
    "",
    "[PAD] [UNK][CLS] x" + "y" * 150,
    "I 'm sure they 're n't , it 's ' quoted ' . ? !",
]
CLASS = "PreTrainedTokenizerFast"


def as_trained(source, folder):
    """A copy of a tokenizer with the settings that `unmask train` writes."""
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    (folder / "tokenizer.json").write_text((source / "tokenizer.json").read_text())
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": CLASS, "model_max_length": 24, **names})
    )
    (folder / "config.json").write_text('{"model_type": "bert"}')
    return folder


@pytest.fixture(scope="module", params=["plain", "cased", "bundled"])
def pair(request, tmp_path_factory, checkpoint):
    """(ours, transformers') of one folder."""
    if request.param == "bundled":
        folder = english_model_path()
    elif request.param == "plain":
        folder = as_trained(checkpoint("bert"), tmp_path_factory.mktemp("plain"))
    else:
        words = "the cat The Cat dog ##s sat cafe Café un ##able don ' t , . ! 's".split()
        folder = tmp_path_factory.mktemp(request.param)
        tokenizer_from_vocabulary(
            ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
        ).save_pretrained(folder)
    ours = read_folder_tokenizer(folder)
    assert isinstance(ours, FolderTokenizer)
    return ours, AutoTokenizer.from_pretrained(folder)


@cache
def text_tokenizer(tokenizer):
    return TextTokenizer(tokenizer, len(tokenizer))


def check_text(pair, text):
    ours, theirs = pair
    for special in (True, False):
        assert (
            ours(text, add_special_tokens=special)["input_ids"]
            == theirs(text, add_special_tokens=special)["input_ids"]
        )
    ids = ours(text)["input_ids"]
    assert ours.convert_ids_to_tokens(ids) == theirs.convert_ids_to_tokens(ids)
    for clean in (True, False):
        assert ours.decode(ids, clean_up_tokenization_spaces=clean) == theirs.decode(
            ids, clean_up_tokenization_spaces=clean
        )
    places = theirs(text, return_offsets_mapping=True)["offset_mapping"]
    assert ours.backend_tokenizer.encode(text).offsets == places
    words = text_tokenizer(ours), text_tokenizer(theirs)
    if text.strip():
        assert words[0].prepared(text) == words[1].prepared(text)
    assert words[0].text(ids) == words[1].text(ids)
    assert [words[0].token(i) for i in ids] == [words[1].token(i) for i in ids]


@pytest.mark.parametrize("text", TEXTS)
def test_texts_equal_transformers(pair, text):
    check_text(pair, text)


@given(st.text(st.sampled_from("the cat dogs.,!'? ÉéÉß東🦜[MASK]##\n"), max_size=40))
def test_drawn_texts_equal_transformers(pair, text):
    check_text(pair, text)


def test_names_and_vocabulary_equal_transformers(pair):
    ours, theirs = pair
    assert ours.get_vocab() == theirs.get_vocab()
    assert len(ours) == len(theirs)
    assert ours.all_special_tokens == theirs.all_special_tokens
    assert ours.all_special_ids == theirs.all_special_ids
    for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"):
        assert getattr(ours, f"{name}_token") == getattr(theirs, f"{name}_token")
        assert getattr(ours, f"{name}_token_id") == getattr(theirs, f"{name}_token_id")
    assert ours.model_max_length == theirs.model_max_length
    assert ours.convert_tokens_to_ids(["the", "no-such-token"]) == theirs.convert_tokens_to_ids(
        ["the", "no-such-token"]
    )
    assert ours(["the cat", "sat"])["input_ids"] == theirs(["the cat", "sat"])["input_ids"]


def test_a_saved_tokenizer_is_the_same(pair, tmp_path):
    ours, _ = pair
    ours.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert [again(text)["input_ids"] for text in TEXTS] == [
        ours(text)["input_ids"] for text in TEXTS
    ]


@pytest.fixture
def folder(checkpoint, tmp_path):
    return as_trained(checkpoint("bert"), tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"tokenizer_class": "BertTokenizer"},
        {"extra_special_tokens": ["the"]},
        {"a_setting": 1},
        {"mask_token": "the"},
    ],
    ids=str,
)
def test_what_is_not_understood_is_left_to_transformers(folder, changes):
    assert read_folder_tokenizer(folder) is not None
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | changes))
    assert read_folder_tokenizer(folder) is None


def test_files_that_disagree_or_are_broken_are_left_to_transformers(folder):
    (folder / "special_tokens_map.json").write_text('{"mask_token": "[UNK]"}')
    assert read_folder_tokenizer(folder) is None
    (folder / "special_tokens_map.json").unlink()
    assert read_folder_tokenizer(folder) is not None
    for broken in ("", "[]", "{}", '{"added_tokens": []}'):
        (folder / "tokenizer.json").write_text(broken)
        assert read_folder_tokenizer(folder) is None
