"""Any function from ids to logits is a model; diffusion language models load."""

from __future__ import annotations

import itertools
import json
import math
from types import SimpleNamespace

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import nn
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

import unmask
from support.small_models import SPECIAL
from unmask.common.errors import InputError, ModelError, UnmaskError
from unmask.models.masked_lm import MaskedLM

WORDS = ["red", "green", "blue", "sky"]
MASK = len(SPECIAL) - 1


def word_tokenizer(mask: bool = True) -> PreTrainedTokenizerFast:
    """A word each, [CLS] and [SEP] around; `mask`: whether it names its mask token, which is
    <|hidden|> otherwise.
    """
    tokens = [*SPECIAL[:-1], "[MASK]" if mask else "<|hidden|>", *WORDS]
    core = Tokenizer(
        models.WordLevel({token: i for i, token in enumerate(tokens)}, unk_token="[UNK]")
    )
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {f"{name[1:-1].lower()}_token": name for name in SPECIAL if mask or name != "[MASK]"}
    return PreTrainedTokenizerFast(tokenizer_object=core, **names)


class Bidirectional(nn.Module):
    """A tiny transformer without a causal mask, as MDLM and LLaDA are."""

    def __init__(self, tokens: int = 9, outputs: int = 9, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.words, self.places = nn.Embedding(tokens, 16), nn.Embedding(32, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.out = nn.Linear(16, outputs)
        for weight in self.parameters():
            nn.init.normal_(weight, std=0.6)

    def forward(self, ids: torch.Tensor) -> SimpleNamespace:
        states = self.words(ids) + self.places.weight[: ids.shape[1]]
        return SimpleNamespace(logits=self.out(self.layer(states)))


@pytest.fixture(scope="module")
def network() -> Bidirectional:
    return Bidirectional().eval()


def test_a_module_and_a_function_are_models(network):
    """Both give the network's own numbers, on any rows and positions, in the forms that rooms
    ask for.
    """
    ids, where = torch.tensor([[2, 4, 6, 4, 3], [2, 8, 4, 5, 3]]), torch.tensor([[1, 3], [2, 3]])
    with torch.no_grad():
        expected = network(ids).logits.gather(1, where.unsqueeze(-1).expand(-1, -1, 9))
    for function in (network, lambda ids: network(ids).logits):
        model = MaskedLM.of(function, word_tokenizer())
        torch.testing.assert_close(model.logits(ids, where), expected)
        assert (model.vocab_size, model.mask_id, model.special_ids) == (9, MASK, (0, 1, 2, 3, 4))
        (_, rows), *_ = model.substitutions(ids[0].tolist(), [1], torch.tensor([[5], [7]]), 3)
        by_hand = ids[:1].repeat(2, 1)
        by_hand[:, 1] = torch.tensor([5, 7])
        torch.testing.assert_close(rows, network(by_hand).logits[:, 3].detach())


def one_before(network):
    """Logits moved by one position."""

    def function(ids):
        f = network(ids).logits
        return torch.cat([f[:, :1], f[:, :-1]], 1)

    return function


def test_a_function_may_read_the_position_before(network):
    """As docs/bring-your-own-model.md says it: the prediction of position t is the network's
    row t - 1.
    """
    shifted, plain = (
        MaskedLM.of(one_before(network), word_tokenizer()),
        MaskedLM.of(network, word_tokenizer()),
    )
    ids = torch.tensor([[2, 4, 6, 4, 3]])
    torch.testing.assert_close(
        shifted.logits(ids, torch.tensor([[0, 1, 3]])), plain.logits(ids, torch.tensor([[0, 0, 2]]))
    )
    assert not torch.allclose(
        shifted.logits(ids, torch.tensor([[3]])), plain.logits(ids, torch.tensor([[3]]))
    )
    (_, rows), *_ = shifted.substitutions(ids[0].tolist(), [1], torch.tensor([[5]]), 3)
    torch.testing.assert_close(
        rows, plain.logits(torch.tensor([[2, 5, 6, 4, 3]]), torch.tensor([[2]]))[0]
    )
    assert shifted.fingerprint != plain.fingerprint


def test_verbs_take_it(network):
    """Joints, scores, decoders and checks; the chain rule's law sums to 1 over all texts."""
    model = MaskedLM.of(one_before(network), word_tokenizer())
    filling = unmask.fill("red [MASK] [MASK] sky", model=model, candidates="all")
    assert len(filling.completions) == 10
    assert math.isclose(filling.joint.dense().exp().sum(), 1, abs_tol=1e-5)
    texts = [" ".join(words) for words in itertools.product(WORDS, repeat=3)]
    total = sum(
        math.exp(row["any_order"]) for row in unmask.score(texts, model=model, score="any_order")
    )
    assert math.isclose(total, 1, abs_tol=1e-5)
    generation = unmask.generate(length=4, model=model, decoder="entropy-bound", n_texts=2)
    assert len(generation.texts) == 2
    facts = dict(unmask.check(model=model).to_frame().itertuples(index=False))
    assert "a function" in facts["computed by"]


def test_a_mask_that_the_tokenizer_does_not_name():
    """LLaDA's mask is a token without a role; MDLM's is one id past the vocabulary, which no
    logit predicts.
    """
    tokenizer = word_tokenizer(mask=False)
    with pytest.raises(ModelError, match="has no mask token: .*mask_id"):
        MaskedLM.of(Bidirectional(), tokenizer)
    named = MaskedLM.of(Bidirectional(), tokenizer, mask_id=MASK)
    assert named.mask_id == MASK
    assert MASK in named.special_ids
    assert tokenizer.mask_token is None
    assert named.cloze("red [MASK] sky").ids == (2, 5, MASK, 8, 3)
    past = MaskedLM.of(Bidirectional(tokens=12), tokenizer, mask_id=11)
    assert past.mask_id == 11
    assert past.vocab_size == 9
    assert past.input_size == 12
    assert past.cloze("red [MASK] sky").ids == (2, 5, 11, 8, 3)
    assert past.text([2, 5, 11, 8, 3]) == "red [MASK] sky"
    with pytest.raises(InputError, match="mask_id -1"):
        MaskedLM.of(Bidirectional(), tokenizer, mask_id=-1)


def test_functions_that_are_no_models(network):
    tokenizer = word_tokenizer()
    refused = {
        "gave shape \\(1, 9\\) for ids of shape \\(1, 3\\): return logits": (
            lambda ids: network(ids).logits[:, 0]
        ),
        "gave .* for ids of shape": lambda ids: "no tensor",
        "failed on ids of shape \\(1, 3\\) on cpu \\(no such thing\\)": (
            lambda ids: (_ for _ in ()).throw(ValueError("no such thing"))
        ),
    }
    for message, function in refused.items():
        with pytest.raises(ModelError, match=message) as caught:
            MaskedLM.of(function, tokenizer)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="tokenizer .* is not one of transformers"):
        MaskedLM.of(network, "bert")
    with pytest.raises(
        InputError, match="function .bert-base-cased. is not valid: give a function"
    ):
        MaskedLM.of("bert-base-cased", tokenizer)


def test_integer_and_nan_logits_are_refused_in_one_line(network):
    with pytest.raises(
        ModelError, match="'<lambda>' gave logits in int64: return floating-point numbers"
    ):
        MaskedLM.of(lambda ids: torch.zeros((*ids.shape, 9), dtype=torch.long), word_tokenizer())
    with pytest.raises(ModelError, match="gave NaN logits: return finite logits, or -inf"):
        MaskedLM.of(lambda ids: torch.full((*ids.shape, 9), torch.nan), word_tokenizer())
    later = MaskedLM.of(
        lambda ids: network(ids).logits + (torch.nan if ids.shape[1] > 6 else 0.0), word_tokenizer()
    )
    with pytest.raises(
        ModelError, match="logits of the function are not finite: return finite logits"
    ) as caught:
        later.logits(torch.zeros((1, 7), dtype=torch.long), torch.tensor([[1]]))
    assert "\n" not in str(caught.value)


def test_a_causal_function_is_refused_and_one_without_context_is_not():
    torch.manual_seed(0)
    words, out = torch.randn(9, 16), torch.randn(16, 9)
    with pytest.raises(
        ModelError,
        match="is causal \\(no token changes the logits before it\\): give a network in which",
    ):
        MaskedLM.of(lambda ids: words[ids].cumsum(1) @ out, word_tokenizer())
    MaskedLM.of(lambda ids: torch.zeros(*ids.shape, 9) + out[0], word_tokenizer())


def test_fingerprints_tell_functions_apart(network):
    """A function without parameters is known by its logits."""
    first, second = Bidirectional(seed=0).eval(), Bidirectional(seed=1).eval()
    prints = [
        MaskedLM.of(lambda ids, f=f: f(ids), word_tokenizer()).fingerprint
        for f in (first, first, second)
    ]
    assert prints[0] == prints[1] != prints[2]


@pytest.fixture(scope="module")
def diffusion_folder(tmp_path_factory):
    """A Llama or Qwen2 whose config says that it is not causal, with a tokenizer that does not
    name its mask.
    """

    def make(kind: str, **more: object):
        folder = tmp_path_factory.mktemp("diffusion") / kind
        config, network = {
            "llama": (LlamaConfig, LlamaForCausalLM),
            "qwen2": (Qwen2Config, Qwen2ForCausalLM),
        }[kind]
        shape = {
            "hidden_size": 16,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
        }
        torch.manual_seed(0)
        made = network(
            config(vocab_size=9, num_key_value_heads=2, initializer_range=0.5, **shape, **more)
        )
        made.save_pretrained(folder)
        word_tokenizer(mask=False).save_pretrained(folder)
        return folder, made.eval()

    return make


def name_mask(folder, token):
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"mask_token": token}))


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_networks_of_causal_architectures_that_see_all_tokens_load(diffusion_folder, kind):
    folder, network = diffusion_folder(kind, is_causal=False)
    with pytest.raises(
        ModelError, match="has no mask token.*: .*as mask_token in its tokenizer_config.json"
    ):
        MaskedLM.load(folder)
    name_mask(folder, "<m>")
    with pytest.raises(
        UnmaskError, match="has no mask token|is not in the vocabulary file|unknown to the model"
    ):
        MaskedLM.load(folder)
    name_mask(folder, "<|hidden|>")
    model = MaskedLM.load(folder)
    ids = torch.tensor([[2, 4, 6, 4, 3]])
    with torch.no_grad():
        expected = network(ids).logits[:, [1, 3]]
    torch.testing.assert_close(
        model.logits(ids, torch.tensor([[1, 3]])), expected, atol=1e-5, rtol=0
    )
    torch.testing.assert_close(
        model.logits(ids, torch.tensor([[1]])), expected[:, :1], atol=1e-5, rtol=0
    )


def test_a_causal_checkpoint_is_refused(diffusion_folder):
    folder, _ = diffusion_folder("llama")
    with pytest.raises(
        ModelError, match='is a causal model \\(llama\\): .*"is_causal": false'
    ) as caught:
        MaskedLM.load(folder)
    assert "\n" not in str(caught.value)


def test_outputs_between_the_last_token_and_the_mask_never_fill_a_blank():
    tokenizer = word_tokenizer(mask=False)
    size = len(tokenizer)
    model = MaskedLM.of(
        Bidirectional(tokens=size + 4, outputs=size + 4), tokenizer, mask_id=size + 3
    )
    assert model.regular_ids == tuple(range(4, size))
    assert set(range(size, size + 4)) <= set(model.special_ids)
    filling = unmask.fill("red [MASK] sky", model=model)
    assert not any("UNUSED" in completion.text for completion in filling.completions)
