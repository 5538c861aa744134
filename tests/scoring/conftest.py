"""Small models whose words are several tokens, and the command as a user calls it."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def pieces_folder(tmp_path_factory):
    """A random BERT whose WordPiece vocabulary splits "unplayed" into un ##play ##ed; texts of at most 12 tokens."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

    words = "the a dog dogs cat ran sat un ##play ##ed ##ing walk ##s don ' t . ,".split()
    vocabulary = {token: i for i, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])}
    core = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return _saved(
        tmp_path_factory.mktemp("pieces"),
        BertForMaskedLM(_config(BertConfig, torch, len(vocabulary), 12)),
        PreTrainedTokenizerFast(tokenizer_object=core, **names),
    )


@pytest.fixture(scope="session")
def roberta_folder(tmp_path_factory):
    """A random RoBERTa with a byte-level vocabulary, whose tokens carry the space before them."""
    import torch
    from tokenizers.processors import RobertaProcessing
    from transformers import RobertaConfig, RobertaForMaskedLM

    from small_models import byte_tokenizer

    around = RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    tokenizer = byte_tokenizer(["The old dog sat on a mat.", "A dog ran to the old house."], 320, around)
    network = RobertaForMaskedLM(_config(RobertaConfig, torch, len(tokenizer), 42, pad_token_id=1))
    return _saved(tmp_path_factory.mktemp("roberta"), network, tokenizer)


@pytest.fixture(scope="session")
def pieces(pieces_folder):
    from unmask.models.masked_lm import MaskedLM

    return MaskedLM.load(pieces_folder, device="cpu")


@pytest.fixture(scope="session")
def roberta(roberta_folder):
    from unmask.models.masked_lm import MaskedLM

    return MaskedLM.load(roberta_folder, device="cpu")


@pytest.fixture
def unmask_score(pieces_folder):
    """Runs `unmask score ...` with the model of `pieces_folder`: exit code, standard output, standard error."""
    from command_runner import invoke

    def run(*words, stdin=None, model=pieces_folder):
        done = invoke(["score", *words, "--model", model, "--device", "cpu"], stdin)
        return done.exit_code, done.stdout, done.stderr

    return run


def _config(kind, torch, vocabulary, positions, **more):
    torch.manual_seed(11)
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    return kind(vocab_size=vocabulary, max_position_embeddings=positions, initializer_range=0.6, **shape, **more)


def _saved(folder, network, tokenizer):
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
