"""Types of transformers that need more than token ids, or cannot be right: one small model each
(all types: test_model_types).
"""

from __future__ import annotations

import re
import shutil
import warnings
from pathlib import Path

import pytest
import torch
from tokenizers import processors
from transformers import AutoModelForMaskedLM

import unmask
from support import tiny_types
from unmask.common.errors import InputError, ModelError, UnmaskWarning
from unmask.models.masked_lm import MaskedLM

PAGE = Path(__file__).parents[2] / "docs" / "bring-your-own-model.md"
LONG, SHORT = 40, 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """folder(kind): a tiny checkpoint, made once."""
    made = {}

    def make(kind):
        return made.setdefault(
            kind,
            (
                tiny_types.tiny_folder(kind, tmp_path_factory.mktemp(kind))
                if kind not in made
                else None
            ),
        )

    return make


def in_memory(kind, **changes) -> MaskedLM:
    return MaskedLM(
        tiny_types.tiny_network(kind, **changes).double(), tiny_types.tiny_tokenizer(kind)
    )


def text_of(tokens: int) -> torch.Tensor:
    ids = 5 + torch.arange(tokens)[None] % (len(tiny_types.VOCABULARY) - 5)
    ids[0, [0, 3, -1]] = torch.tensor([2, 4, 3])
    return ids


def log_q(model: MaskedLM, ids: torch.Tensor) -> torch.Tensor:
    return model.logits(ids, torch.tensor([[3]])).log_softmax(-1)


def direct(
    kind: str, ids: torch.Tensor, inputs: dict[str, torch.Tensor] | None = None, **changes
) -> torch.Tensor:
    """At the blank, by a network that has seen no other text."""
    with torch.no_grad():
        network = tiny_types.tiny_network(kind, **changes).double()
        return network(input_ids=ids, **(inputs or {})).logits[:, 3:4].log_softmax(-1)


@pytest.mark.parametrize(
    ("kind", "changes"), [("big_bird", {}), ("reformer", {"num_buckets": None})]
)
def test_a_pass_does_not_depend_on_those_before_it(kind, changes):
    """BigBird kept full attention after a short text, Reformer the number of buckets of its
    first one.
    """
    model = in_memory(kind, **changes)
    for tokens in (SHORT, LONG, SHORT, 30, LONG):
        torch.testing.assert_close(
            log_q(model, text_of(tokens)),
            direct(kind, text_of(tokens), **changes),
            atol=1e-12,
            rtol=0,
        )
    stale = tiny_types.tiny_network(kind, **changes).double()
    with torch.no_grad():
        for tokens in (SHORT, LONG):
            after = stale(input_ids=text_of(tokens)).logits[:, 3:4].log_softmax(-1)
    assert float((after - direct(kind, text_of(LONG), **changes)).abs().max()) > 1e-3, (
        "the trap is there"
    )


def test_reformer_without_a_seed_gives_one_answer_and_leaves_other_random_numbers_alone():
    model = in_memory("reformer", hash_seed=None)
    torch.manual_seed(7)
    first = log_q(model, text_of(LONG))
    drawn = torch.rand(3)
    torch.manual_seed(7)
    assert torch.equal(drawn, torch.rand(3))
    assert torch.equal(first, log_q(model, text_of(LONG)))
    torch.testing.assert_close(
        first, direct("reformer", text_of(LONG), hash_seed=0), atol=1e-12, rtol=0
    )
    apart = direct("reformer", text_of(LONG), hash_seed=None) - direct(
        "reformer", text_of(LONG), hash_seed=None
    )
    assert float(apart.abs().max()) > 0.1, "the trap is there"


def test_esm_with_token_dropout_is_checked_and_timed_on_texts(folder):
    """A row of masks only divides by zero there."""
    check = unmask.check(folder("esm"))
    assert not any("finite" in line for line in check.concerns)
    with pytest.raises(ModelError, match="not finite: leave a token unmasked .*token_dropout"):
        MaskedLM.load(folder("esm")).logits(torch.full((1, 6), 4), torch.tensor([[1]]))
    bare = tiny_types.tiny_tokenizer()
    bare.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A", special_tokens=[]
    )
    check = unmask.check(MaskedLM(tiny_types.tiny_network("esm"), bare))
    assert check.around == ((), ())


@pytest.mark.parametrize(
    ("kind", "longest"),
    [
        ("ibert", 47),
        ("nystromformer", 48),
        ("yoso", 48),
        ("roberta", 47),
        ("mpnet", 46),
        ("esm", 48),
        ("xlm", 48),
    ],
)
def test_the_longest_text(kind, longest):
    model = in_memory(kind)
    assert model.max_length == longest
    assert log_q(model, text_of(longest)).isfinite().all()
    with pytest.raises(InputError, match=f"{longest + 1} tokens and the model takes {longest}"):
        log_q(model, text_of(longest + 1))


def test_a_language_that_is_not_given_is_named(folder):
    with pytest.warns(
        UnmaskWarning, match=r"the language of each text \(langs\), and is given none"
    ):
        model = MaskedLM.load(folder("xlm"), dtype="float64")
    assert any("is given none" in line for line in unmask.check(model).concerns)
    with pytest.raises(ModelError, match="Input language unknown.*config.json"):
        in_memory("xmod", default_language=None)


def test_a_reformer_below_float64_says_how_far_off_it_is(folder):
    with pytest.warns(
        UnmaskWarning,
        match="0.8 nats from those in float64, in transformers too; load it with dtype float64",
    ):
        model = MaskedLM.load(folder("reformer"))
    assert any("0.8 nats" in line for line in unmask.check(model).concerns)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert MaskedLM.load(folder("reformer"), dtype="float64").caution is None


@pytest.mark.parametrize(
    ("kind", "what"), [("layoutlm", "bbox"), ("roc_bert", "pronunciation"), ("tapas", "table")]
)
def test_inputs_that_are_left_out_are_named(folder, kind, what):
    with pytest.warns(
        UnmaskWarning, match=rf"\({kind}\) was trained with .*{what}.*, and is given none"
    ):
        MaskedLM.load(folder(kind))
    concerns = unmask.check(folder(kind)).concerns
    assert sum(what in line for line in concerns) == 1


def test_what_transformers_cannot_compute_is_refused(folder):
    with pytest.raises(
        ModelError, match="only as a CUDA kernel .*, and gives zeros without it: use another model"
    ):
        MaskedLM.load(folder("mra"))


@pytest.mark.parametrize("named", tiny_types.REFUSED_SETTINGS)
def test_settings_that_are_refused(named, tmp_path):
    changes, words = tiny_types.REFUSED_SETTINGS[named]
    kind = re.match("`([^`]+)`", named[0])[1]
    with pytest.raises(ModelError) as caught:
        MaskedLM.load(tiny_types.tiny_folder(kind, tmp_path, **changes))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_half_precision_runs_or_says_what_to_do(folder):
    half, whole = (
        MaskedLM.load(folder("mobilebert"), dtype=dtype) for dtype in ("float16", "float32")
    )
    assert float((log_q(half, text_of(SHORT)) - log_q(whole, text_of(SHORT))).abs().max()) < 0.1
    with pytest.raises(
        ModelError,
        match="in bfloat16: transformers' FNetForMaskedLM fails .*; load it with dtype float32",
    ):
        MaskedLM.load(folder("fnet"), dtype="bfloat16")


def test_an_exception_of_a_pass_is_one_line_with_the_setting(tmp_path):
    folder = tiny_types.tiny_folder("fnet", tmp_path, use_tpu_fourier_optimizations=True)
    with pytest.raises(
        ModelError,
        match="3 tokens in float32: .* fails .*tpu_short_seq_length.*correct its config.json",
    ):
        MaskedLM.load(folder)


def test_bytes(folder):
    """Perceiver's tokenizer has no file but tokenizer_config.json."""
    model = MaskedLM.load(folder("perceiver"), dtype="float64")
    cloze = model.cloze("the c[MASK]t sat")
    assert model.decode(cloze.ids) == ["[CLS]", *"the c", "[MASK]", *"t sat", "[SEP]"]
    with torch.no_grad():
        network = AutoModelForMaskedLM.from_pretrained(
            folder("perceiver"), dtype=torch.float64
        ).eval()
        padded = torch.nn.functional.pad(
            torch.tensor([cloze.ids]), (0, tiny_types.POSITIONS - len(cloze.ids))
        )
        seen = (torch.arange(tiny_types.POSITIONS) < len(cloze.ids)).long()[None]
        expected = (
            network(input_ids=padded, attention_mask=seen)
            .logits[:, list(cloze.block)]
            .log_softmax(-1)
        )
    log_probs = model.logits(torch.tensor([cloze.ids]), torch.tensor([cloze.block])).log_softmax(-1)
    torch.testing.assert_close(log_probs, expected, atol=1e-12, rtol=0)
    assert unmask.check(model).tokenizer == "bytes"


def test_a_tokenizer_that_does_not_read_its_mask_is_refused(folder, tmp_path):
    """TAPAS's own class cuts [MASK] into three tokens."""
    copied = shutil.copytree(folder("tapas"), tmp_path / "tapas")
    (copied / "tokenizer.json").unlink()
    (copied / "tokenizer_config.json").unlink()
    (copied / "vocab.txt").write_text("\n".join(tiny_types.VOCABULARY))
    with pytest.raises(ModelError, match=r"does not read '\[MASK\]' as its mask token"):
        MaskedLM.load(copied)


def test_the_page_has_the_outcome_of_every_type():
    page = PAGE.read_text()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.splitlines()
        if line.startswith("| ")
    ]
    outcomes = {
        row[0]: sorted(row[1].replace("`", "").split(", "))
        for row in rows
        if row[0].startswith(("works", "refused:"))
    }
    assert outcomes == {
        outcome: sorted(kinds.split()) for outcome, kinds in tiny_types.OUTCOMES.items()
    }
    for setting, why in tiny_types.REFUSED_SETTINGS:
        assert [setting, why] in rows
