"""The LM Evaluation Harness, the real package, on tasks from local files: the numbers of
`unmask score`, laws that sum to 1.
"""

import json
import sys
import tomllib
from importlib.metadata import EntryPoint
from itertools import product
from math import exp, log
from pathlib import Path

import lm_eval
import pytest
from lm_eval.api.instance import Instance
from lm_eval.api.model import CachingLM
from lm_eval.api.registry import Registry, get_model
from lm_eval.tasks import TaskManager
from tokenizers import pre_tokenizers

import unmask
from support.small_models import save_bert
from unmask.common.border.options import options
from unmask.common.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.surfaces.cli.lm_eval import MODEL, NAME, main, register
from unmask.surfaces.integrations.harness import UnmaskLM, model_args

ROOT = Path(__file__).parents[3]
WORDS = ["red", "green", "blue"]
LAW = "decoder:interleaved@1"
PAIRS = [
    ("The two brothers were tired.", "The two brothers was tired."),
    ("A girl lost her shoe.", "A girl lost their shoe."),
    ("These houses are old.", "These houses is old."),
]
CLOZES = [
    ("He drank a cup of [MASK] before work.", ["coffee", "paper", "gravel"]),
    ("The [MASK] barked at the postman.", ["dog", "lemonade", "table"]),
]
TEXTS = ["The train left the station at noon.", "Nobody in the village had seen the letter."]
QUESTIONS = ["The children went to the", "It is cold in the"]


@pytest.fixture(scope="module")
def model():
    return MaskedLM.load(device="cpu")


@pytest.fixture(scope="module")
def colours(tmp_path_factory):
    """Three words, texts of at most four of them."""
    folder = save_bert(
        tmp_path_factory.mktemp("colours"),
        WORDS,
        pre_tokenizers.WhitespaceSplit(),
        6,
        seed=3,
        spread=1.0,
    )
    return MaskedLM.load(folder, device="cpu", dtype="float64")


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """Four tasks as a user writes them: a YAML file and JSON Lines each."""
    folder = tmp_path_factory.mktemp("tasks")
    rows = {
        "pairs": [{"sentence_good": good, "sentence_bad": bad} for good, bad in PAIRS],
        "cloze": [{"text": text, "answers": answers} for text, answers in CLOZES],
        "rolling": [{"text": text} for text in TEXTS],
        "writing": [{"text": text} for text in QUESTIONS],
    }
    lines = {
        "pairs": (
            'output_type: multiple_choice\ndoc_to_text: ""\ntarget_delimiter: ""\ndoc_to_target:'
            ' 0\ndoc_to_choice: "{{[sentence_good, sentence_bad]}}"\nmetric_list: [{metric: acc}]'
        ),
        "cloze": (
            'output_type: multiple_choice\ndoc_to_text: "{{text}}"\ndoc_to_target: 0\n'
            'doc_to_choice: "{{answers}}"\nmetric_list: [{metric: acc}]'
        ),
        "rolling": (
            'output_type: loglikelihood_rolling\ndoc_to_text: ""\ndoc_to_target: "{{text}}"\n'
            "metric_list: [{metric: bits_per_byte}]"
        ),
        "writing": (
            'output_type: generate_until\ndoc_to_text: "{{text}}"\ndoc_to_target:'
            ' ""\ngeneration_kwargs: {until: ["."], max_gen_toks: 3, do_sample:'
            " false}\nmetric_list: [{metric: exact_match}]"
        ),
    }
    for name, settings in lines.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[name]))
        data = f"{{data_files: {folder / name}.jsonl, cache_dir: {folder / 'cache'}}}"
        head = f"task: our_{name}\ndataset_path: json\ndataset_kwargs: {data}\ntest_split: train\n"
        (folder / f"{name}.yaml").write_text(f"{head}{settings}\n")
    return TaskManager(include_path=str(folder), include_defaults=False)


def evaluated(tasks, *names, **more):
    register()
    names = [f"our_{name}" for name in names]
    return lm_eval.simple_evaluate(
        model="unmask",
        tasks=names,
        task_manager=tasks,
        bootstrap_iters=0,
        batch_size="auto",
        **more,
    )


def asked(*args):
    return Instance(request_type="loglikelihood", doc={}, arguments=args, idx=0)


def test_tasks_have_the_numbers_of_score(tasks, model):
    options = {"pretrained": model, "score": "any_order", "orders": 2, "exact_tokens": 5}
    evaluation = evaluated(tasks, "pairs", "cloze", "rolling", "writing", model_args=options)
    mean = unmask.AnyOrder(orders=2, exact_tokens=5)
    responses = {
        name: [one["resps"] for one in samples] for name, samples in evaluation["samples"].items()
    }

    pairs = unmask.score([text for pair in PAIRS for text in pair], mean, model=model)
    values = [resp[0][0] for one in responses["our_pairs"] for resp in one]
    assert values == pytest.approx([row["any_order"] for row in pairs], abs=1e-4)
    right = [values[2 * n] > values[2 * n + 1] for n in range(len(PAIRS))]
    assert evaluation["results"]["our_pairs"]["acc,none"] == sum(right) / len(PAIRS)

    around = [text.split("[MASK]") for text, _ in CLOZES]
    items = [
        {"before": before, "target": answer, "after": after}
        for (before, after), (_, answers) in zip(around, CLOZES, strict=True)
        for answer in answers
    ]
    clozes = [row["any_order"] for row in unmask.score(items, mean, model=model)]
    assert [resp[0][0] for one in responses["our_cloze"] for resp in one] == pytest.approx(
        clozes, abs=1e-4
    )
    assert evaluation["results"]["our_cloze"]["acc,none"] == 1

    texts = [row["any_order"] for row in unmask.score(TEXTS, mean, model=model)]
    bits = -sum(texts) / log(2) / sum(len(text.encode()) for text in TEXTS)
    assert evaluation["results"]["our_rolling"]["bits_per_byte,none"] == pytest.approx(
        bits, rel=1e-4
    )

    greedy = unmask.Confidence(passes=3, temperature=0)
    filled = unmask.generate(
        f"{QUESTIONS[0]} [MASK] [MASK] [MASK]", model=model, decoder=greedy, n_texts=1
    )
    written = [one[0][0] for one in responses["our_writing"]]
    assert f"{QUESTIONS[0]} {written[0]}" == filled.texts[0].split(".")[0].strip()
    assert len(written) == 2
    assert all("." not in text for text in written)
    assert evaluation["config"]["score"] == "any_order"
    assert evaluation["config"]["model_sha"] == model.fingerprint


@pytest.mark.parametrize("score", ["any_order", "left_to_right", "right_to_left", LAW])
@pytest.mark.parametrize("context", ["green", "", "blue [MASK] red"])
def test_answers_of_one_length_sum_to_one(colours, score, context):
    answers = [" " + " ".join(words) for words in product(WORDS, repeat=2)]
    scored = UnmaskLM(colours, score=score).loglikelihood(
        [asked(context, answer) for answer in answers], disable_tqdm=True
    )
    assert sum(exp(value) for value, _ in scored) == pytest.approx(1, abs=1e-9)
    assert sum(greedy for _, greedy in scored) == 1


def test_texts_longer_than_the_model_sum_to_one(colours):
    """Six tokens, the model takes four."""
    texts = [" ".join(words) for words in product(WORDS, repeat=6)]
    lm = UnmaskLM(colours, score="left_to_right", batch_size="auto")
    answers = lm.loglikelihood_rolling([asked(text) for text in texts], disable_tqdm=True)
    assert sum(map(exp, answers)) == pytest.approx(1, abs=1e-9)
    scored = unmask.score(texts[5], "left_to_right", model=colours, long="windows")
    assert answers[5] == pytest.approx(scored[0]["left_to_right"], abs=1e-9)
    with pytest.raises(
        InputError,
        match=(
            "6 tokens are to be scored and the model takes 6: give shorter ones, or score=left_to"
        ),
    ):
        UnmaskLM(colours).loglikelihood_rolling([asked(texts[5])], disable_tqdm=True)


def test_tokens_that_carry_their_space(roberta_folder):
    """RoBERTa: the space between context and answer belongs to the answer's first token,
    wherever the task writes it.
    """
    model = MaskedLM.load(roberta_folder, device="cpu")
    contexts = [("The old", " dog"), ("The old ", "dog"), ("The old [MASK] sat.", " dog")]
    answers = UnmaskLM(model).loglikelihood([asked(*one) for one in contexts], disable_tqdm=True)
    items = [{"before": "The old", "target": "dog", "after": after} for after in ("", "", "sat.")]
    scored = [row["any_order"] for row in unmask.score(items, "any_order", model=model)]
    assert [value for value, _ in answers] == pytest.approx(scored, abs=1e-5)


def test_a_long_context_loses_its_left(colours):
    lm = UnmaskLM(colours)
    long, short = lm.loglikelihood(
        [asked("red red blue green", " blue"), asked("red blue green", " blue")], disable_tqdm=True
    )
    assert long == short


@pytest.mark.parametrize("context", ["green", "", "blue [MASK] [MASK]"])
def test_greedy_is_what_is_generated(colours, context):
    lm = UnmaskLM(colours)
    [text] = lm.generate_until(
        [asked(context, {"until": [], "max_gen_toks": 2})], disable_tqdm=True
    )
    before = context.split(" [MASK]")[0]
    answers = [" " + " ".join(words) for words in product(WORDS, repeat=2)]
    scored = lm.loglikelihood([asked(before, answer) for answer in answers], disable_tqdm=True)
    assert [
        answer.strip() for answer, (_, greedy) in zip(answers, scored, strict=True) if greedy
    ] == [text]


def test_what_is_generated(colours):
    lm = UnmaskLM(colours)
    [whole] = lm.generate_until([asked("red", {"max_gen_toks": 3})], disable_tqdm=True)
    last = whole.split()[-1]
    [cut] = lm.generate_until(
        [asked("red", {"max_gen_toks": 3, "until": ["", last]})], disable_tqdm=True
    )
    assert cut == whole.split(last)[0].strip()
    sampling = {"max_gen_toks": 3, "do_sample": True, "temperature": 5.0}
    drawn = lm.generate_until([asked("red", sampling)] * 20, disable_tqdm=True)
    assert len(set(drawn)) > 3
    assert drawn == UnmaskLM(colours, batch_size="auto").generate_until(
        [asked("red", sampling)] * 20, disable_tqdm=True
    )
    assert drawn != lm.generate_until(
        [asked("red", sampling | {"seed": 100})] * 20, disable_tqdm=True
    )


OWN = """
import unmask
from unmask.sampling.decoders.confidence import Confidence


@unmask.method
class Mine(Confidence):
    'Confidence by another name.'
"""


def test_a_decoder_is_named_an_object_or_ones_own(colours, tmp_path):
    (tmp_path / "mine.py").write_text(OWN)
    request = [asked("red", {"max_gen_toks": 3})]

    def written(**options):
        return UnmaskLM(colours, **options).generate_until(request, disable_tqdm=True)

    assert written(decoder="confidence") == written(decoder=f"{tmp_path / 'mine.py'}:Mine")
    in_one = written(decoder="interleaved", passes=1)
    assert written(decoder=unmask.Interleaved(passes=1)) == in_one


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"decoder": "ancestral"}, "decoder ancestral takes no number of passes: use one of"),
        ({"decoder": "mh"}, "decoder mh is a kernel, and no decoder"),
        ({"decoder": unmask.Confidence(temperature=0.5)}, "confidence has a temperature, which"),
        ({"decoder": unmask.Confidence(), "passes": 3}, "passes was given beside a decoder that"),
        ({"decoder": "confidence", "sets": 3}, "sets is not used by decoder confidence: give pas"),
    ],
)
def test_decoders_that_cannot_write(colours, more, message):
    with pytest.raises(InputError, match=message):
        UnmaskLM(colours, **more)


def test_batches_do_not_matter_and_a_killed_run_continues(colours, tmp_path, monkeypatch):
    answers = [
        asked("red", " ".join(("", *words)))
        for n in (1, 2, 3)
        for words in product(WORDS, repeat=n)
    ]
    expected = UnmaskLM(colours, batch_size=100).loglikelihood(answers, disable_tqdm=True)
    lm = UnmaskLM(colours, batch_size=7)
    inner, calls = UnmaskLM._scores, []

    def dies(self, texts):
        calls.append(len(texts))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return inner(self, texts)

    monkeypatch.setattr(UnmaskLM, "_scores", dies)
    with pytest.raises(KeyboardInterrupt):
        CachingLM(lm, str(tmp_path / "cache.db")).loglikelihood(answers)
    resumed = CachingLM(UnmaskLM(colours, batch_size=7), str(tmp_path / "cache.db")).loglikelihood(
        answers
    )
    assert [value for value, _ in resumed] == pytest.approx(
        [value for value, _ in expected], abs=1e-12
    )
    assert [greedy for _, greedy in resumed] == [greedy for _, greedy in expected]
    assert sum(calls[4:]) == len(answers) - 3 * 7


@pytest.mark.parametrize(
    ("method", "args", "message"),
    [
        (
            "loglikelihood",
            ("red", " "),
            "request 1 of 1 .*continuation of 'red' is empty: give a task whose answers have words",
        ),
        (
            "loglikelihood",
            ("a [MASK] or [MASK]", "red"),
            r"has 2 blanks: put one \[MASK\] where the answer goes",
        ),
        (
            "loglikelihood",
            ("red", " red blue green red blue"),
            "5 tokens are to be scored and the model takes 6: give shorter",
        ),
        ("loglikelihood", ("red", " purple"), "all words of ' purple' are unknown to the model"),
        (
            "loglikelihood",
            ("red", " red purple"),
            "outside the support of any_order: give score=pll, or unscored=zero",
        ),
        (
            "generate_until",
            ("red", {"max_gen_toks": 400}),
            "max_gen_toks=400 .* the model takes 6: give --gen_kwargs max_gen",
        ),
        (
            "generate_until",
            ("red", {"max_gen_toks": 2, "do_sample": True, "temperature": 1, "top_p": 0.9}),
            "top_p=0.9, which",
        ),
        (
            "generate_until",
            ("red red red red [MASK]", {}),
            "has 7 tokens and the model takes 6: shorten it",
        ),
    ],
)
def test_what_a_masked_model_cannot_give(colours, method, args, message):
    with pytest.raises(InputError, match=message) as error:
        getattr(UnmaskLM(colours), method)([asked(*args)], disable_tqdm=True)
    assert "\n" not in str(error.value)


def test_texts_without_a_score_can_have_probability_zero(colours):
    lm = UnmaskLM(colours, unscored="zero")
    answers = lm.loglikelihood(
        [asked("red", " red purple"), asked("red", " red blue")], disable_tqdm=True
    )
    assert answers[0] == (-float("inf"), False)
    assert answers[1][0] > -float("inf")


def test_a_chat_is_refused_before_any_pass(tasks, colours):
    with pytest.raises(InputError, match="leave out --apply_chat_template"):
        evaluated(tasks, "pairs", model_args={"pretrained": colours}, apply_chat_template=True)


def test_the_package_declares_the_model():
    """As `lm_eval` does that reads entry points: a placeholder, loaded when the model is asked
    for.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["lm_eval.models"] == {NAME: MODEL}
    registry: Registry = Registry("model")
    registry.register(NAME, target=EntryPoint(NAME, MODEL, "lm_eval.models"))
    assert registry.get(NAME) is UnmaskLM
    register()
    register()
    assert get_model("unmask") is UnmaskLM


def test_errors_of_the_command_are_one_line(monkeypatch, capsys):
    """The command looks the model up by name, as `lm_eval` does, and its errors do not come out
    as tracebacks.
    """
    monkeypatch.setattr("unmask.surfaces.cli.process.listen", lambda: None)
    monkeypatch.setattr(
        "lm_eval.__main__.cli_evaluate",
        lambda: get_model("unmask").create_from_arg_string("score=guess"),
    )
    with pytest.raises(SystemExit) as end:
        main()
    [line] = capsys.readouterr().err.splitlines()
    assert end.value.code == 2
    assert line.startswith("error: score 'guess'")


def test_without_the_harness_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "lm_eval.api.registry", None)
    with pytest.raises(
        InputError, match=r"which is not installed: pip install 'unmask\[lm-eval\]'"
    ):
        register()


def test_the_page_names_every_setting():
    page = (ROOT / "docs" / "lm-eval.md").read_text()
    assert [option.name for option in options(model_args) if f"`{option.name}`" not in page] == []
