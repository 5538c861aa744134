"""A causal model as judge: its score by hand, and what it refuses."""

import json
import shutil

import numpy as np
import pytest
import torch

import unmask as unmask_library
from sampling.test_sample_command import unmask
from support.sampling_cases import settings_of
from unmask.common.errors import InputError, ModelError
from unmask.sampling.chains.drawing import draw_samples
from unmask.sampling.chains.judge import CausalJudge, judge_run
from unmask.sampling.chains.sample_folder import load_run


@pytest.fixture(scope="module")
def causal_folder(tiny, tmp_path_factory):
    from transformers import GPT2Config, GPT2LMHeadModel

    folder = tmp_path_factory.mktemp("causal")
    torch.manual_seed(0)
    shape = {
        "n_embd": 16,
        "n_layer": 2,
        "n_head": 2,
        "n_positions": 32,
        "bos_token_id": 2,
        "eos_token_id": 3,
    }
    GPT2LMHeadModel(
        GPT2Config(vocab_size=tiny.vocab_size, initializer_range=0.5, **shape)
    ).save_pretrained(folder)
    tiny.tokenizer.save_pretrained(folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(
        json.dumps({**settings, "bos_token": "[CLS]", "eos_token": "[SEP]"})
    )
    return folder


def test_the_score_is_the_mean_of_the_conditionals(causal_folder, tiny):
    judge = CausalJudge(str(causal_folder), "cpu")
    ids = tiny.words.encode("the cat sat on the mat")
    total = 0.0
    for t in range(1, len(ids)):
        with torch.no_grad():
            total -= float(
                judge.network(input_ids=torch.tensor([ids[:t]]))
                .logits[0, -1]
                .double()
                .log_softmax(-1)[ids[t]]
            )
    assert judge(["the cat sat on the mat"])[0] == pytest.approx(total / (len(ids) - 1), abs=1e-5)
    assert judge(["the mat sat on the cat"])[0] != pytest.approx(total / (len(ids) - 1), abs=1e-3)


def test_a_judge_that_looks_ahead_is_refused(tiny_folder):
    with pytest.raises(InputError, match="looks ahead"):
        CausalJudge(str(tiny_folder), "cpu")
    with pytest.raises(ModelError, match="does not exist") as caught:
        CausalJudge("/nowhere/at/all", "cpu")
    assert "\n" not in str(caught.value)


def test_a_judge_with_a_foreign_tokenizer_is_refused_or_reported(causal_folder, tiny, tmp_path):
    """Texts of which it knows no word, of which the tokenizer leaves nothing, and tokens that
    mean others.
    """
    draw_samples(settings_of(chains=2, sweeps=2, length=(6,)), tiny, tmp_path / "run")
    folder, file = (
        shutil.copytree(causal_folder, tmp_path / "judge"),
        tmp_path / "judge" / "tokenizer.json",
    )
    own = json.loads(file.read_text())

    def judged(rule):
        file.write_text(json.dumps(rule))
        return unmask("diagnose", tmp_path / "run", "--judge", folder)

    unknown = own | {
        "model": (
            own["model"]
            | {"vocab": {f"{t}x" if i > 4 else t: i for t, i in own["model"]["vocab"].items()}}
        )
    }
    nothing = own | {"normalizer": {"type": "Replace", "pattern": {"Regex": "."}, "content": ""}}
    for rule, told in ((unknown, "tokens are unknown"), (nothing, "they have no token")):
        refused = judged(rule)
        assert refused.exit_code == 2
        assert refused.output.count("\n") == 1
        assert "cannot read the texts" in refused.output
        assert told in refused.output
    assert (
        not (tmp_path / "run" / "diagnostics.json").exists()
        or "judge" not in (tmp_path / "run" / "diagnostics.json").read_text()
    )


def test_runs_are_judged_by_their_last_texts_and_starts(causal_folder, tiny, tiny_folder, tmp_path):
    run = draw_samples(settings_of(chains=3, sweeps=4, length=(5,)), tiny, tmp_path / "run")
    judge = CausalJudge(str(causal_folder), "cpu")
    told = judge_run(judge, load_run(tmp_path / "run"))
    last = [run.samples.of(run.samples.chain == chain).text[-1] for chain in range(3)]
    assert told["samples"] == pytest.approx(float(np.mean(judge(last))))
    assert told["starts"] == pytest.approx(
        float(np.mean(judge([row["text"] for row in run.starts])))
    )
    shown = unmask("diagnose", tmp_path / "run", "--judge", causal_folder)
    assert shown.exit_code == 0
    assert "nats per token for the last texts" in " ".join(shown.output.split())
    assert json.loads((tmp_path / "run" / "diagnostics.json").read_text())["judge"][
        "samples"
    ] == pytest.approx(told["samples"])
    refused = unmask("diagnose", tmp_path / "run", "--judge", tiny_folder)
    assert refused.exit_code == 2
    assert "looks ahead" in refused.output
    assert refused.output.count("\n") == 1
    drawn = unmask_library.generate(length=5, n_texts=3, model=tiny, judge=str(causal_folder))
    assert drawn.judge["texts"] == pytest.approx(float(np.mean(judge(drawn.texts))))


def test_texts_longer_than_the_judge_takes_are_refused(causal_folder):
    judge = CausalJudge(str(causal_folder), "cpu")
    assert np.isfinite(judge([" ".join(["the"] * 30)])).all(), "32 tokens with start and end"
    with pytest.raises(InputError, match=r"takes texts of at most 30 tokens, and one has 31: "):
        judge(["the cat", " ".join(["the"] * 31)])
