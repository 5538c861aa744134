"""Small models of the kinds that strangers bring: each is read right, or refused with what is
wrong and what to do.

Letters with a cased vocabulary; special tokens in angle brackets; a vocabulary file that the
architecture's own tokenizer does not read; word levels cut by a regular expression; output
columns that are not tokens; code of their own. A head under other names is in test_loading.
"""

import io
import json
import shutil
import sys
import warnings

import pytest
import torch
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer, BertTokenizer, PreTrainedTokenizerFast

import unmask
from support.small_models import refusal
from unmask.common.errors import InputError, UnmaskWarning
from unmask.models.encoder.bert import BertMaskedLM
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.vocabulary import tokenizer_from_vocabulary

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
RESIDUES = list("ACDEFGHIKLMNPQRSTVWY")
SMILES = r"\[[^\]]+\]|Br|Cl|[BCNOPSFIbcnops]|[()=#+\-/\\.%]|\d"
CHEMISTRY = [
    "<pad>",
    "<unk>",
    "<s>",
    "</s>",
    "<mask>",
    "C",
    "O",
    "N",
    "Cl",
    "Br",
    "c",
    "(",
    ")",
    "=",
    "1",
    "2",
    "[nH]",
]


@pytest.fixture
def folder_of(make_network, tmp_path):
    """folder_of(kind, tokens, **config): a random network, and vocab.txt with the tokens."""

    def make(kind, tokens, vocab_size=None, **changes):
        folder = tmp_path / f"{kind}{len(list(tmp_path.iterdir()))}"
        make_network(kind, vocab_size=vocab_size or len(tokens), **changes).save_pretrained(folder)
        (folder / "vocab.txt").write_text("\n".join(tokens))
        return folder

    return make


def write_config(folder, **config):
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("kind", ["bert", "albert", "roberta"])
@pytest.mark.parametrize(
    "config",
    [
        None,
        {},
        {"do_lower_case": True},
        {"do_lower_case": False},
        {"tokenizer_class": "BertTokenizer"},
    ],
)
def test_letters_are_read_as_letters_whatever_the_configuration(folder_of, kind, config):
    """A T-cell receptor: upper case in the vocabulary, nothing said of it in
    tokenizer_config.json.
    """
    folder = folder_of(kind, [*SPECIAL, *RESIDUES])
    if config is not None:
        write_config(folder, **config)
    model = MaskedLM.load(folder)
    cloze = model.cloze("CASSLG[MASK][MASK]YEQYF")
    assert model.decode(cloze.ids) == ["[CLS]", *"CASSLG", "[MASK]", "[MASK]", *"YEQYF", "[SEP]"]
    assert [model.token(i) for i in model.regular_ids] == RESIDUES
    with pytest.raises(InputError, match="'c' at place 1 is not in the model's alphabet"):
        model.cloze("cassl[MASK]")


def test_a_vocabulary_that_the_architecture_does_not_read_is_refused(folder_of):
    """transformers makes an ALBERT tokenizer of five tokens of it, with another mask."""
    folder = folder_of("albert", [*SPECIAL, "C", "O", "Cl", "[nH]", "(", ")", "="])
    write_config(folder)
    assert len(AutoTokenizer.from_pretrained(folder)) == 5, "the trap is there"
    message = refusal(folder)
    assert "is not that of its vocabulary file" in message
    assert "Bring your own model" in message


def test_special_tokens_in_angle_brackets(folder_of):
    """[MASK] would be put after the vocabulary, on a row of the embeddings that was never
    trained.
    """
    tokens = ["<pad>", "<unk>", "<cls>", "<sep>", "<mask>", "the", "cat", "sat"]
    folder = folder_of("bert", tokens, vocab_size=64)
    assert BertTokenizer.from_pretrained(folder).mask_token_id > 7, "the trap is there"
    model = MaskedLM.load(folder)
    cloze = model.cloze("the [MASK] sat")
    assert cloze.ids == (2, 5, 4, 7, 3)
    assert model.mask_id == 4
    assert model.special_ids[:5] == (0, 1, 2, 3, 4)
    write_config(folder, mask_token="[MASK]")
    assert "'[MASK]' is not in the vocabulary file" in refusal(folder)
    (folder / "vocab.txt").write_text("\n".join([*tokens[:4], "the", "cat", "sat"]))
    assert "'[MASK]' is not in" in refusal(folder)
    (folder / "tokenizer_config.json").unlink()
    assert "no mask token" in refusal(folder)


def test_a_mask_beside_the_vocabularys_own_is_refused(folder_of):
    folder = folder_of("bert", [*SPECIAL, "the", "cat"], vocab_size=20)
    core = Tokenizer(
        models.WordLevel(
            {t: i for i, t in enumerate(["<pad>", "<unk>", "<mask>", "the", "cat"])},
            unk_token="<unk>",
        )
    )
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=core, mask_token="[MASK]", unk_token="<unk>"
    ).save_pretrained(folder)
    (folder / "vocab.txt").unlink()
    message = refusal(folder)
    assert "'[MASK]' (id 5)" in message
    assert "'<mask>' (id 2)" in message
    assert "mask_token" in message


@pytest.mark.parametrize("kind", ["bert", "distilbert"])
def test_a_tokenizer_that_is_not_the_vocabulary_files_is_refused(checkpoint, tmp_path, kind):
    folder = shutil.copytree(checkpoint(kind), tmp_path / kind)
    tokens = sorted(
        AutoTokenizer.from_pretrained(folder).get_vocab().items(), key=lambda item: item[1]
    )
    (folder / "vocab.txt").write_text("\n".join(token for token, _ in tokens))
    MaskedLM.load(folder)
    (folder / "vocab.txt").write_text(
        "\n".join(token for token, _ in [*tokens[:6], tokens[7], tokens[6], *tokens[8:]])
    )
    message = refusal(folder)
    assert "not that of its vocabulary file, for 2 of" in message
    assert repr(tokens[7][0]) in message


@pytest.mark.parametrize("longest", ["24", {"a": 1}, [24], True])
def test_a_longest_text_that_is_not_a_number_is_refused(tiny_folder, tmp_path, longest):
    folder = shutil.copytree(tiny_folder, tmp_path / "model")
    write_config(folder, model_max_length=longest)
    assert "model_max_length" in (message := refusal(folder))
    assert "is not a number: correct it" in message
    write_config(folder, model_max_length=1000000000000000019884624838656)
    MaskedLM.load(folder)


def test_two_tokens_with_one_id_are_refused(tiny_folder, tmp_path):
    folder = shutil.copytree(tiny_folder, tmp_path / "model")
    rule = json.loads((folder / "tokenizer.json").read_text())
    rule["model"]["vocab"]["cat"] = rule["model"]["vocab"]["dog"]
    (folder / "tokenizer.json").write_text(json.dumps(rule))
    assert f"gives 'cat' and 'dog' one id, {rule['model']['vocab']['dog']}: correct" in refusal(
        folder
    )


def test_capitals_that_the_tokenizer_lowers_are_refused(checkpoint, tmp_path, make_network):
    words = [*SPECIAL, *"The the Cat cat Dog dog Sat sat On on Mat mat".split()]
    core = Tokenizer(models.WordPiece({t: i for i, t in enumerate(words)}, unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    core.add_special_tokens(SPECIAL)
    make_network("bert", vocab_size=len(words)).save_pretrained(tmp_path)
    core.save(str(tmp_path / "tokenizer.json"))
    write_config(tmp_path, tokenizer_class="BertTokenizer")
    message = refusal(tmp_path)
    assert "lowers the text, but 6 of 12 tokens have capitals" in message
    assert "do_lower_case" in message
    write_config(tmp_path, tokenizer_class="BertTokenizer", do_lower_case=False)
    model = MaskedLM.load(tmp_path)
    assert model.decode(model.words.encode("The cat")) == ["[CLS]", "The", "cat", "[SEP]"]


@pytest.mark.parametrize("lower", [None, True, False])
def test_word_pieces_of_a_vocabulary_file_are_those_of_transformers(folder_of, lower):
    tokens = [*SPECIAL, *"the The cat ##s un ##able don ' t , . ! cafe 東 京".split()]
    folder = folder_of("bert", tokens)
    if lower is not None:
        write_config(folder, do_lower_case=lower)
    model = MaskedLM.load(folder)
    theirs = BertTokenizer.from_pretrained(folder, do_lower_case=bool(lower))
    assert isinstance(model.network, BertMaskedLM)
    for text in ["the cats", "The Cats, unable! don't", "Café 東京 cats.", "x the"]:
        assert model.tokenizer(text)["input_ids"] == theirs(text)["input_ids"]
        ids = theirs(text)["input_ids"]
        assert model.tokenizer.decode(ids) == theirs.decode(ids)


@pytest.fixture
def chemistry(make_network, tmp_path):
    """An ALBERT of reactions: word levels cut by a regular expression, in a folder that names
    ALBERT's own tokenizer.
    """
    core = Tokenizer(
        models.WordLevel({token: i for i, token in enumerate(CHEMISTRY)}, unk_token="<unk>")
    )
    core.pre_tokenizer = pre_tokenizers.Split(Regex(SMILES), "isolated")
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    core.add_special_tokens(CHEMISTRY[:5])
    make_network("albert", vocab_size=len(CHEMISTRY)).save_pretrained(tmp_path)
    core.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


@pytest.mark.parametrize(
    "config",
    [None, {}, {"tokenizer_class": "AlbertTokenizer"}, {"tokenizer_class": "BertTokenizer"}],
)
def test_a_regular_expression_is_kept(chemistry, config):
    if config is not None:
        write_config(chemistry, **config)
    model = MaskedLM.load(chemistry)
    cloze = model.cloze("CC(=O)[MASK]Cl")
    assert model.decode(cloze.ids) == ["<s>", "C", "C", "(", "=", "O", ")", "[MASK]", "Cl", "</s>"]
    assert model.text(cloze.filled([CHEMISTRY.index("[nH]")])) == "CC(=O)[nH]Cl"
    filling = unmask.fill("CC(=O)[MASK]Cl", model=model)
    assert all(c.text.startswith("CC(=O)") and c.text.endswith("Cl") for c in filling.completions)


def test_a_tokenizer_of_a_pattern_made_from_a_vocabulary_file(chemistry, tmp_path):
    file = tmp_path / "tokens.txt"
    file.write_text("\n".join(CHEMISTRY) + "\n")
    made = tokenizer_from_vocabulary(file, pattern=SMILES)
    before = MaskedLM.load(chemistry)
    (chemistry / "tokenizer.json").unlink()
    made.save_pretrained(chemistry)
    after = MaskedLM.load(chemistry)
    for text in ["CC(=O)[MASK]Cl", "c1cc[nH]1[MASK]", "BrC[MASK]"]:
        assert after.cloze(text) == before.cloze(text)
        assert after.text(after.cloze(text).ids) == text
    with pytest.raises(InputError, match="not a regular expression"):
        tokenizer_from_vocabulary(file, pattern="[")


def test_unknown_words_are_told_once_and_a_text_of_them_is_refused(chemistry):
    model = MaskedLM.load(chemistry)
    with pytest.warns(UnmaskWarning, match="does not know 'Zz' and reads <unk> instead"):
        model.cloze("CC[MASK]Zz")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.cloze("CO[MASK]Zz")
    with (
        pytest.warns(UnmaskWarning, match="'Xe'"),
        pytest.raises(
            InputError,
            match=(
                "all words of 'Xe.MASK.' are unknown to the model, whose tokens look like 'C', 'O'"
            ),
        ),
    ):
        model.cloze("Xe[MASK]")


def test_a_model_without_regular_tokens_is_refused(folder_of):
    assert "only special tokens" in refusal(folder_of("bert", SPECIAL))


CODE = "raise SystemExit('code of the checkpoint was run')\n"


@pytest.mark.parametrize(
    ("kind", "loads"), [("bert", True), ("roberta", True), ("my-own-kind", False)]
)
def test_code_in_a_checkpoint_is_never_run_and_never_asked_for(
    checkpoint, tmp_path, monkeypatch, capfd, kind, loads
):
    folder = shutil.copytree(checkpoint("bert" if not loads else kind), tmp_path / "model")
    for name in ("modeling_own.py", "configuration_own.py", "tokenization_own.py"):
        (folder / name).write_text(CODE)
    config = json.loads((folder / "config.json").read_text())
    own = {"AutoConfig": "configuration_own.Config", "AutoModelForMaskedLM": "modeling_own.Model"}
    (folder / "config.json").write_text(json.dumps(config | {"model_type": kind, "auto_map": own}))
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    own = {"AutoTokenizer": [None, "tokenization_own.Words"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer | {"auto_map": own}))
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\ny\ny\ny\n"))
    if loads:
        assert (
            MaskedLM.load(folder)
            .logits(torch.tensor([[2, 5, 4, 3]]), torch.tensor([[2]]))
            .isfinite()
            .all()
        )
    else:
        message = refusal(folder)
        assert "code of its own" in message
        assert "never run" in message
    assert sys.stdin.read() == "y\ny\ny\ny\n", "nothing was read from standard input"
    assert "Do you wish to run" not in "".join(capfd.readouterr())
