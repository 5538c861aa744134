"""Every type of masked language model of the installed transformers: six commands against
direct passes, or the refusal.

The reference is the same model with a head that passes each text alone through a copy of a
network that has seen no other: in float64 all answers agree to 1e-12, whatever texts came
before and whichever share the batch.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

import unmask
from support import tiny_types
from unmask.common.errors import InputError, ModelError, UnmaskWarning
from unmask.models.masked_lm import MaskedLM

pytestmark = pytest.mark.models

OUTCOME_OF = {
    kind: outcome for outcome, kinds in tiny_types.OUTCOMES.items() for kind in kinds.split()
}
WORKING = [kind for kind, outcome in OUTCOME_OF.items() if outcome.startswith("works")]
REFUSED = [kind for kind, outcome in OUTCOME_OF.items() if outcome.startswith("refused")]
CLOSE = 1e-12
TEXTS = [
    "the cat sat on the mat .",
    "a dog ran .",
    "a small bird sang in the old tree .",
    "the dog ran .",
]


class DirectHead:
    """Each text by itself through a new copy of a network of transformers that nothing has been
    passed through.
    """

    position_by_position = False

    def __init__(self, network: Any) -> None:
        self.network, self.base_model, self.kept = network, network.base_model, {}

    def __call__(self, ids: Tensor, positions: Tensor) -> Tensor:
        return torch.stack(
            [self.whole(row)[places] for row, places in zip(ids, positions, strict=True)]
        )

    def whole(self, row: Tensor) -> Tensor:
        key = tuple(row.tolist())
        if key not in self.kept:
            with torch.no_grad():
                self.kept[key] = copy.deepcopy(self.network)(input_ids=row[None]).logits[0]
        return self.kept[key]


@pytest.fixture(scope="module", params=WORKING)
def both(request, tmp_path_factory):
    """The model as a user has it, and the same model by direct passes."""
    kind = request.param
    folder = tiny_types.tiny_folder(kind, tmp_path_factory.mktemp(kind))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnmaskWarning)
        ours, reference = (MaskedLM.load(folder, dtype="float64", device="cpu") for _ in range(2))
    network = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float64).eval()
    reference.head, reference.encoder = DirectHead(network), None
    return kind, folder, ours, reference


def texts_of(model: MaskedLM, rows: int, tokens: int) -> Tensor:
    """Random texts of a length, start and end included, with two blanks."""
    some, (before, after) = torch.tensor(model.regular_ids), model.words.around()
    ids = some[
        torch.randint(len(some), (rows, tokens), generator=torch.Generator().manual_seed(tokens))
    ]
    ids[:, : len(before)], ids[:, tokens - len(after) :] = torch.tensor(before), torch.tensor(after)
    ids[:, [2, tokens // 2]] = model.mask_id
    return ids


def leaves(answer: Any) -> list[Any]:
    """All values of an answer's JSON, in order."""
    if isinstance(answer, dict):
        return [leaf for value in answer.values() for leaf in leaves(value)]
    return (
        [leaf for value in answer for leaf in leaves(value)]
        if isinstance(answer, list | tuple)
        else [answer]
    )


def assert_same(ours: Any, theirs: Any) -> None:
    for x, y in zip(leaves(ours), leaves(theirs), strict=True):
        both_nan = x != x and y != y  # differences from the product have no value for the product
        assert x == y or both_nan or abs(x - y) / (1 + abs(y)) < CLOSE


def test_every_type_of_the_installed_transformers_has_an_outcome():
    assert set(OUTCOME_OF) == set(MODEL_FOR_MASKED_LM_MAPPING_NAMES)


@pytest.mark.parametrize("kind", REFUSED)
def test_refused(kind, tmp_path):
    with pytest.raises(ModelError) as caught:
        MaskedLM.load(tiny_types.tiny_folder(kind, tmp_path))
    words = "encoder-decoder" if "encoder-decoder" in OUTCOME_OF[kind] else "CUDA kernel"
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_passes_of_all_lengths_in_any_order_and_company(both):
    """Short, long, short again; the longest, and one token more."""
    _, _, ours, reference = both
    longest = ours.max_length
    for tokens in (8, 40, 9, longest, 30):
        ids = texts_of(ours, 5, tokens)
        places = torch.tensor([[2, tokens // 2]] * 5)
        expected = reference.logits(ids, places).log_softmax(-1)
        assert float((ours.logits(ids, places).log_softmax(-1) - expected).abs().max()) < CLOSE
        alone = torch.cat(
            [ours.logits(ids[i : i + 1], places[i : i + 1]) for i in (3, 1)]
        ).log_softmax(-1)
        assert float((alone - expected[[3, 1]]).abs().max()) < CLOSE
        one = ours.logits(ids, places[:, :1]).log_softmax(-1)
        assert float((one - expected[:, :1]).abs().max()) < CLOSE
    with pytest.raises(
        InputError, match=f"has {longest + 1} tokens and the model takes {longest}: shorten"
    ):
        ours.logits(texts_of(ours, 1, longest + 1), torch.tensor([[2]]))


def test_conditionals_depend_on_the_text(both):
    """A network that does not read its text would agree with itself all the same."""
    _, _, ours, _ = both
    ids = texts_of(ours, 5, 12)
    log_q = ours.logits(ids, torch.tensor([[2]] * 5)).log_softmax(-1)
    assert float((log_q[1:] - log_q[0]).abs().max()) > 0.01


def evaluated(model: MaskedLM) -> list[dict[str, Any]]:
    some = sorted(
        {
            model.token(i)
            for text in TEXTS
            for i in model.words.encode(text)
            if model.token(i).isalpha()
        }
    )[:6]
    table = unmask.evaluate(
        TEXTS, model=model, pairs=2, constructions="product,chain,mrf,hcb", alphabet=some
    ).to_frame()
    columns = [
        name for name in table.columns if table[name].dtype.kind == "f" and "seconds" not in name
    ]
    assert len(table) == 4
    assert len(columns) > 4
    return table[columns].to_dict("records")


BLANKS = ("the [MASK] sat .", "the [MASK] sat [MASK] .")
ANSWERS: dict[str, Callable[[MaskedLM], Any]] = {
    "fill": lambda model: [
        filling.to_dict()
        for filling in unmask.fill(BLANKS, model, construction="chain", candidates=6, top=5)
    ],
    "score": lambda model: unmask.score(TEXTS, model=model).to_frame().to_dict("records"),
    "sample": lambda model: (
        unmask.sample(
            "the [MASK] [MASK] on the mat .", model=model, kernel="mh", chains=2, sweeps=2, seed=1
        )
        .to_frame()[["text", "energy"]]
        .to_dict("records")
    ),
    "dependence": (
        lambda model: unmask.dependence(
            "the cat sat .", model, positions=[1, 2, 3], candidates=4
        ).to_dict()
    ),
    "evaluate": evaluated,
}


@pytest.mark.parametrize("verb", ANSWERS)
def test_answers_are_those_of_direct_passes(both, verb):
    _, _, ours, reference = both
    answer, expected = (ANSWERS[verb](model) for model in (ours, reference))
    assert_same(answer, expected)
    if verb == "score":
        assert_same(
            unmask.score(TEXTS[1:2], model=ours).to_frame()["pll"].tolist(), [expected[1]["pll"]]
        )


def test_check(both):
    kind, folder, _, reference = both
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        check = unmask.check(unmask.ModelSpec(folder, dtype="float64", device="cpu"), data=TEXTS)
    expected = unmask.check(reference, data=TEXTS)
    assert_same(
        [check.on_texts.nats, check.on_texts.special_mass],
        [expected.on_texts.nats, expected.on_texts.special_mass],
    )
    assert any("and is given none" in line for line in check.concerns) == (
        "warning" in OUTCOME_OF[kind]
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(both, dtype):
    """Near the float64 numbers, or refused with what to do."""
    kind, folder, ours, _ = both
    ids, places = texts_of(ours, 2, 12), torch.tensor([[2, 6]] * 2)
    log_q = ours.logits(ids, places).log_softmax(-1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnmaskWarning)
        if "half precision" in OUTCOME_OF[kind]:
            with pytest.raises(
                ModelError, match=f"in {dtype}: .* load it with dtype float32"
            ) as caught:
                MaskedLM.load(folder, dtype=dtype, device="cpu")
            assert "\n" not in str(caught.value)
            return
        half = MaskedLM.load(folder, dtype=dtype, device="cpu").logits(ids, places)
    apart = (log_q.exp() * (half.double().log_softmax(-1) - log_q).abs()).sum(-1).max()
    assert half.dtype == torch.float32
    assert float(apart) < (0.5 if dtype == "bfloat16" else 0.1)
