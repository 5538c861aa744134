"""`train --push-to`: against a hub that is made up, without a network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from made_up import made_up_lines

import unmask
from command_runner import invoke
from unmask.errors import InputError, UnmaskError

pytestmark = pytest.mark.filterwarnings("ignore:.*has not learned|.*has learned little")
TINY: dict[str, Any] = {
    "layers": 1, "width": 8, "heads": 1, "vocab": 80, "max_length": 16, "segment_lengths": "16", "batch_tokens": 64, "steps": 2,
    "valid_share": 0.2, "device": "cpu", "licence": "cc0-1.0",
}  # fmt: skip


class Hub:
    """Notes what is asked of the hub; `error` is what an upload raises."""

    calls: list[tuple[str, dict[str, Any]]]
    error: Exception | None

    def create_repo(self, name: str, **options: Any) -> None:
        type(self).calls.append((name, options))

    def upload_folder(self, repo_id: str, folder_path: Path, ignore_patterns: list[str], **options: Any) -> None:
        if self.error:
            raise self.error
        type(self).calls.append((repo_id, {"folder": folder_path, "without": ignore_patterns}))


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch) -> type[Hub]:
    Hub.calls, Hub.error = [], None
    monkeypatch.setattr(huggingface_hub, "HfApi", Hub)
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: "hf_made_up")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    return Hub


def train(tmp_path: Path, **options: Any) -> unmask.TrainingRun:
    return unmask.train(made_up_lines(120), out=tmp_path / "model", cache=tmp_path / "cache", **{**TINY, **options})


@pytest.mark.parametrize("private", [False, True])
def test_a_finished_model_is_pushed_without_its_run(tmp_path: Path, hub: type[Hub], private: bool) -> None:
    made = train(tmp_path, push_to="someone/friends", private=private)
    (name, made_with), (again, uploaded) = hub.calls
    assert made.finished and name == again == "someone/friends"
    assert made_with == {"private": private or None, "exist_ok": True}
    assert uploaded == {"folder": tmp_path / "model", "without": ["training/*"]}
    card = (tmp_path / "model" / "README.md").read_text()
    assert "--push-to" not in card and "--private" not in card, "others repeat the command of the card"


def test_a_paused_run_is_pushed_when_it_finishes(tmp_path: Path, hub: type[Hub]) -> None:
    assert train(tmp_path, push_to="someone/friends", max_minutes=0.0).status == "paused" and not hub.calls
    assert train(tmp_path, push_to="someone/friends", resume=True).finished and len(hub.calls) == 2


def test_an_upload_that_fails_keeps_the_model_and_says_how_to_push_it(tmp_path: Path, hub: type[Hub]) -> None:
    hub.error = ConnectionError("[Errno -2] Name or service not known\nmore of it")
    with pytest.raises(UnmaskError, match=r"someone/friends was not pushed \(\[Errno -2\] Name or service not known\): ") as told:
        train(tmp_path, push_to="someone/friends")
    upload = f'`hf upload someone/friends {tmp_path / "model"} . --exclude "training/*"`'
    assert str(told.value).endswith(upload) and "\n" not in str(told.value)
    assert (tmp_path / "model" / "model.safetensors").exists() and (tmp_path / "model" / "training" / "finished.json").exists()


@pytest.mark.parametrize("name", ["friends", "a/b/c", "/friends", "someone/", "some one/it", "-a/b", "someone/i..t", ""])
def test_a_name_that_the_hub_has_not_is_refused_before_training(tmp_path: Path, hub: type[Hub], name: str) -> None:
    with pytest.raises(InputError, match="is not a name on the hub: give OWNER/NAME"):
        train(tmp_path, push_to=name)
    assert not (tmp_path / "model").exists() and not hub.calls


@pytest.mark.parametrize(
    ("what", "value", "message"),
    [
        ("get_token", lambda: None, "needs a token of the hub: run `hf auth login`, or set HF_TOKEN"),
        ("constants.HF_HUB_OFFLINE", True, "needs the network, and HF_HUB_OFFLINE forbids it: unset it"),
        (None, None, "needs huggingface_hub: pip install huggingface_hub"),
    ],
)
def test_what_cannot_work_is_refused_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str | None, value: object, message: str
) -> None:
    if what is None:
        monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    else:
        monkeypatch.setattr(f"huggingface_hub.{what}", value)
    with pytest.raises(InputError, match=f"push_to 'someone/friends' {message}"):
        train(tmp_path, push_to="someone/friends")
    assert not (tmp_path / "model").exists()


def test_the_command_says_where_the_model_is(corpus: Path, tmp_path: Path) -> None:
    words = [word for name, value in TINY.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    folders = ["--out", str(tmp_path / "model"), "--cache", str(tmp_path / "cache")]
    result = invoke(["train", str(corpus), *words, *folders, "--push-to", "someone/friends"])
    assert result.exit_code == 0 and result.stderr.endswith("pushed to someone/friends\n")


def test_private_without_push_to_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="private was given without push_to: give --push-to OWNER/NAME, or leave it out"):
        train(tmp_path, private=True)
