"""The look at a model's first text: its number by a plain loop, one warning per model, silence
for models that are read right.
"""

import shutil
import warnings
from math import log

import pytest
import torch

import unmask
from support.small_models import SPECIAL, shuffle_vocabulary, tokenizer_of
from unmask.common.errors import UnmaskWarning
from unmask.models.checkpoint_files import english_model_path
from unmask.models.first_look import LOOKED_ROWS as ROWS
from unmask.models.first_look import _surprise, is_sequence, look_at_first
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.text_tokenizer import TextTokenizer

TEXT = "The old man is walking with his [MASK] along the river."
OTHERS = [
    "She drank a cup of [MASK] in the morning.",
    "Der alte Mann ging mit seinem [MASK] am Fluss entlang.",
    "def square(x): return [MASK] * x  # of a number",
    "WHY IS THE [MASK] ON THE TABLE ?",
]


@pytest.fixture
def shuffled(tmp_path):
    """The bundled model with another model's tokenizer: the same tokens, other ids."""
    folder = shutil.copytree(english_model_path(), tmp_path / "english")
    shuffle_vocabulary(folder)
    return folder


def warned(call, of="worse than a uniform") -> list[str]:
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", UnmaskWarning)
        call()
    return [str(warning.message) for warning in raised if of in str(warning.message)]


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: unmask.fill(TEXT, model=model),
        lambda model: unmask.score(TEXT.replace("[MASK]", "dog"), model=model),
        lambda model: unmask.sample(
            model=model,
            start=[TEXT.replace("[MASK]", "dog")],
            chains=1,
            sweeps=1,
            kernel="gibbs",
        ),
        lambda model: unmask.sample(TEXT, model=model, chains=1, sweeps=1),
        lambda model: unmask.evaluate(
            [TEXT.replace("[MASK]", "dog")] * 2,
            model=model,
            pairs=1,
            alphabet=["man", "dog", "old"],
        ),
        lambda model: unmask.dependence(
            TEXT.replace("[MASK]", "dog"), model=model, positions=[2, 3], candidates=8
        ),
        lambda model: unmask.mutants(
            TEXT.replace("[MASK]", "dog"),
            model=model,
            positions=[3],
            alphabet=["man", "dog", "cat"],
            force=True,
        ),
    ],
    ids=["fill", "score", "sample", "template", "evaluate", "dependence", "mutants"],
)
def test_another_models_tokenizer_is_reported_once(shuffled, ask):
    model = MaskedLM.load(shuffled)
    (told,) = warned(lambda: ask(model))
    assert "uniform 9.0" in told
    assert "tokenizer" in told
    assert "check with your own texts" in told
    assert "\n" not in told
    assert warned(lambda: ask(model)) == []


@pytest.mark.parametrize(
    ("verb", "options"),
    [("score", {}), ("evaluate", {"pairs": 1, "alphabet": ["man", "dog", "old"]})],
)
def test_the_warning_of_workers_is_printed_here_once(shuffled, tmp_path, verb, options):
    model = unmask.ModelSpec(shuffled, device="cpu,cpu")
    texts = [TEXT.replace("[MASK]", "dog")] * 2
    assert (
        len(
            warned(
                lambda: getattr(unmask, verb)(texts, model=model, out=tmp_path / "run", **options)
            )
        )
        == 1
    )


@pytest.mark.parametrize("text", [TEXT, *OTHERS])
def test_a_model_that_is_read_right_says_nothing(text):
    assert warned(lambda: look_at_first(model := MaskedLM.load(), [model.cloze(text).ids])) == []


@pytest.mark.parametrize(
    "protein", ["CASSLG[MASK]YEQYF", "E V Q L V E S G G G [MASK] V Q P G G S L R L"]
)
def test_a_protein_given_to_a_model_of_words_is_reported_by_every_verb(protein):
    for ask in [
        lambda model: unmask.fill([TEXT, TEXT], model=model) and unmask.fill(protein, model=model),
        lambda model: unmask.score(protein.replace("[MASK]", "G"), model=model),
        lambda model: unmask.sample(protein, model=model, chains=1, sweeps=1),
        lambda model: unmask.evaluate(
            [protein.replace("[MASK]", "G")] * 2,
            model=model,
            pairs=1,
            alphabet=["##S", "##L", "S", "L"],
        ),
        lambda model: unmask.dependence(
            protein.replace("[MASK]", "G"), model=model, positions=[2, 3], candidates=8
        ),
    ]:
        model = MaskedLM.load()
        (told,) = warned(lambda ask=ask, model=model: ask(model), "amino acids")
        assert "it reads words" in told
        assert warned(lambda ask=ask, model=model: ask(model), "amino acids") == []


NO_SEQUENCES = """NEW YORK POLICE|PHILADELPHIA [MASK]|MISSISSIPPI|
H A P P Y C H R I S T M A S|A B C D E F G H I J K L|HAHAHAHAHAHA|AAAARGHHHH|NHS RSPCA NSPCC MRSA|
GESCHWINDIGKEIT|SIVARAMAKRISHNAN|METHYLPHENIDATE|READ THE FIRST LINE AGAIN|
WWW.GITHUB.COM/ACDEFGHIK"""


def test_words_in_capitals_and_models_of_letters_are_silent(english):
    letters = tokenizer_of([*SPECIAL, *"ACDEFGHIKLMNPQRSTVWY"])
    assert not [
        text
        for text in NO_SEQUENCES.replace("\n", "").split("|")
        if is_sequence(english.words, text)
    ]
    assert not is_sequence(TextTokenizer(letters, 25), "CASSLGQYEQYF")


def test_a_text_that_shows_little_is_left_to_the_next(shuffled):
    model = MaskedLM.load(shuffled)
    assert warned(lambda: unmask.fill("A [MASK].", model=model)) == []
    assert len(warned(lambda: unmask.fill(["A [MASK].", TEXT], model=model, candidates=4))) == 1


def test_the_number_is_that_of_plain_passes(english):
    ids = english.cloze(TEXT).ids
    shown = [place for place, i in enumerate(ids) if i not in english.special_ids]
    expected = []
    for first in range(ROWS):
        masked = shown[: len(shown) // ROWS * ROWS][first::ROWS]
        row = torch.tensor(
            [[english.mask_id if place in masked else i for place, i in enumerate(ids)]]
        )
        with torch.no_grad():
            log_q = english.network(input_ids=row).logits[0].double().log_softmax(-1)
        expected += [-float(log_q[place, ids[place]]) for place in masked]
    surprises = _surprise(english, ids, shown)
    assert surprises == pytest.approx(expected, abs=1e-4)
    assert sum(surprises) / len(surprises) < log(8187) / 2
