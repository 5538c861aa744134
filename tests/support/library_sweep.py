"""Every public function and method with every hostile value for every parameter, from their
signatures.

Run as a program, it prints as JSON what broke the law: a call works, or it raises an
UnmaskError of one line that begins with what was given; a value works only where the annotation
names its kind. Work that begins is cut short by `progress`. A process of its own: while the
tests run, types are checked by beartype, which would speak first.
"""

import inspect
import json
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np  # noqa: F401
import torch
from torch import nn
from uvicorn import Server

import unmask
from support import flat
from unmask.common.border.declarations import hints
from unmask.common.border.options import arguments
from unmask.models import masked_lm
from unmask.models.tabular import TabularMLM

VALUES = """None; 5; -1; 10**30; True; float("nan"); 0.5; ''; b'x'; []; [None]; [[]]; [7]; [-1];
{}; {1: 2}; np.int64(3); object(); np.float64("nan"); np.array(5); np.array([1.5, 2]);
torch.tensor(3); torch.empty(0); torch.tensor([[99]])"""
HOSTILE: dict[str, Any] = {name.strip(): eval(name.strip()) for name in VALUES.split(";")}
HOSTILE |= {"a network": nn.Linear(2, 2), "a tabular model": TabularMLM.random(2, 2, 0)}
WORKS_AS = {
    "None": r"None|Optional|Model|Alphabet|Candidates|Any|object",
    "5": r"\bint\b|float|Candidates|Any|object",
    "-1": r"\bint\b|float|Any|object",
    "10**30": r"\bint\b|float|Any|object",
    "True": r"bool|Any|object",
    'float("nan")': r"Any|object",
    "0.5": r"float|Any|object",
    "''": r"\bstr\b|Texts|Given|Name|Model|Alphabet|Any|object",
    "b'x'": r"Any|object",
    "object()": r"Any|object",
    "a network": r"Callable|Progress|UserTerm|Any|object",
    "a tabular model": r"ConditionalModel|Any|object",
}
"""What the annotation of a parameter that takes the value must say; arrays, lists and mappings
are as good as their items.
"""
SECONDS = 600
"""A call that takes longer hangs."""
LONG = ("lab.all", "progress")
"""Without a progress that ends it, this call takes minutes."""

SMALL_STUDY: dict[str, Any] = {"model": unmask.SpinModel(sites=3), "fits": 2}


class BegunError(Exception):
    """The arguments were taken, and work began."""


def begun(*args: object, **options: object) -> None:
    raise BegunError


def late(*args: object) -> None:
    raise TimeoutError(f"not refused after {SECONDS} seconds")


def bases(model: str, folder: Path) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Every function and method with arguments that are right, by the name of the parameter."""
    lm, texts = unmask.MaskedLM.load(model, device="cpu"), folder / "texts.txt"
    texts.write_text("the cat sat on the mat .\na dog ran under the tree .\n" * 20)
    two = "the [MASK] [MASK]"
    filling, comparison = (
        unmask.fill(two, lm),
        unmask.compare(two, lm, constructions="product,chain"),
    )
    scores = unmask.score(["the cat sat", "the dog sat"], rows="nested", model=lm)
    mutants = unmask.mutants("the cat sat", positions=[2], alphabet=["cat", "dog"], model=lm)
    listed = [
        {"mutant": f"cat2{word}", "y": y} for word, y in (("dog", 1), ("mat", 2), ("tree", 4))
    ]
    against = {
        "sequence": "the cat sat",
        "measured": listed,
        "alphabet": ["cat", "dog", "mat", "tree"],
    }
    against["score"] = "singles"
    assay = unmask.assay(**against, model=lm)
    run = unmask.sample(model=lm, chains=2, sweeps=2, length=3)
    evaluation = unmask.evaluate(
        ["the cat sat on the mat ."], model=lm, pairs=2, constructions="product"
    )
    joint, tables, cloze = filling.joint, filling.joint.tables, filling.cloze
    gold = [int(c[0]) for c in tables.candidates]
    pairs = {"data": None, "parallel": [["the cat", "a dog"] * 20] * 2, "max_length": 32}
    small = {"layers": 1, "width": 16, "heads": 1, "vocab": 80, "max_length": 16}
    trains = {
        **small,
        "data": [str(texts)],
        "batch_tokens": 128,
        "valid_share": 0.2,
        "device": "cpu",
    }
    pair_model = flat.train(**{**trains, **pairs, "steps": 1, "out": folder / "pairs"}).out
    translated = unmask.translate(["the cat"], model=pair_model, length_beam=1)
    profile = folder / "profile.json"
    profile.write_text('{"by_distance": [0.2, 0.1], "fingerprint": "x", "n_texts": 9}')
    held_out = {
        "data": ["the cat sat", "a dog sat"],
        "model": lm,
        "length": 3,
        "decoders": ["random-sets"],
    }
    work = {"model": lm, "progress": begun}
    asks = {"text": two, **work}
    calls: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "fill": (unmask.fill, {**asks, "top": 2}),
        "fill of three": (unmask.fill, {**asks, "text": "the [MASK] [MASK] [MASK]", "top": 2}),
        "fill.each": (each, {**asks, "text": [two]}),
        "compare": (unmask.compare, {**asks, "constructions": "product,chain"}),
        "dependence": (unmask.dependence, asks),
        "profile": (unmask.profile, {"data": ["the cat sat"] * 40, "candidates": 2, **work}),
        "mutants": (
            unmask.mutants,
            {"sequence": "the cat sat", "positions": [2], "alphabet": ["cat", "dog"], **work},
        ),
        "assay": (unmask.assay, {**against, **work}),
        "check": (unmask.check, work),
        "score": (unmask.score, {"texts": ["the cat sat"], **work}),
        "score any_order": (
            unmask.score,
            {"texts": ["the cat"], "score": unmask.AnyOrder(orders=2), **work},
        ),
        "minimal_pairs": (
            unmask.minimal_pairs,
            {
                "data": [{"sentence_good": "the cat", "sentence_bad": "cat the"}],
                "model": lm,
            },
        ),
        "sample": (
            unmask.sample,
            {"model": lm, "chains": 2, "sweeps": 2, "length": 3, "progress": begun},
        ),
        "diagnose": (unmask.diagnose, {"run": run}),
        "evaluate": (
            unmask.evaluate,
            {
                "data": str(texts),
                "model": lm,
                "pairs": 2,
                "constructions": "product",
                "progress": begun,
            },
        ),
        "frontier": (unmask.frontier, {**held_out, "passes": [2], "progress": begun}),
        "Frontier.save": (
            unmask.frontier(**held_out, passes=[2]).save,
            {"path": folder / "frontier.parquet"},
        ),
        "Profile.load": (unmask.Profile.load, {"path": profile}),
        "Profile.of": (unmask.Profile.of, {"model": lm}),
        "Profile.save": (
            unmask.Profile.load(profile).save,
            {"path": folder / "profile-again.json"},
        ),
        "train": (
            unmask.train,
            {
                **arguments(unmask.train, {**trains, "steps": 2, "out": folder / "new"}),
                "progress": begun,
            },
        ),
        "translate": (
            unmask.translate,
            {"data": ["the cat"], "model": pair_model, "progress": begun},
        ),
        "serve": (unmask.serve, {"model": lm, "port": 0, "ready": begun}),
        "derive": (unmask.derive, {"tables": tables}),
        "Tables.from_conditionals": (
            unmask.Tables.from_conditionals,
            {"first": [[0.5] * 2] * 2, "second": [[0.5] * 2] * 2},
        ),
        "derive chain": (unmask.derive, {"tables": tables, "construction": "chain"}),
        "derive_all": (
            unmask.derive_all,
            {"tables": tables, "constructions": ["product", "chain"]},
        ),
        "block_metrics": (unmask.block_metrics, {"joints": [joint], "gold": gold}),
        "unary_tables": (unmask.unary_tables, {"model": lm, "cloze": cloze}),
        "Cloze": (unmask.Cloze, {"ids": (2, 4, 6, 3), "block": (1,)}),
        "Cloze.filled": (cloze.filled, {"values": gold}),
        "MaskedLM": (unmask.MaskedLM, {"network": lm.network, "tokenizer": lm.tokenizer}),
        "MaskedLM.of": (
            unmask.MaskedLM.of,
            {"function": lm.network, "tokenizer": lm.tokenizer, "mask_id": lm.mask_id},
        ),
        "MaskedLM.load": (unmask.MaskedLM.load, {"name": model}),
        "MaskedLM.cloze": (lm.cloze, {"text": two}),
        "MaskedLM.cloze at positions": (lm.cloze, {"text": "the cat sat", "positions": [2]}),
        "MaskedLM.decode": (lm.decode, {"ids": [6, 7]}),
        "MaskedLM.text": (lm.text, {"ids": [6, 7]}),
        "MaskedLM.token": (lm.token, {"token_id": 6}),
        "MaskedLM.logits": (
            lm.logits,
            {"ids": torch.tensor([[2, 6, 3]]), "positions": torch.tensor([[1]])},
        ),
        "Joint.log_prob": (joint.log_prob, {"values": gold}),
        "Joint.conditional": (joint.conditional, {"site": 0, "given": gold[1:]}),
        "Joint.topk": (joint.topk, {"n": 2}),
        "Joint.sample": (joint.sample, {"n": 2, "seed": 0}),
        "Joint.mutual_information": (joint.mutual_information, {}),
        "Joint.to_frame": (joint.to_frame, {}),
        "Scores.difference": (scores.difference, {}),
        "Mutants.save": (mutants.save, {"path": folder / "mutants.parquet"}),
        "Assay.save": (assay.save, {"path": folder / "assay.parquet"}),
        "Evaluation.save": (evaluation.save, {"path": folder / "table.md"}),
        "SpinModel": (unmask.SpinModel, {}),
        "lab.SpinModel": (unmask.lab.SpinModel, {}),
        "lab.all": (unmask.lab.all, {"progress": begun}),
    }
    for name, study in unmask.lab.STUDIES.items():
        small = {
            option: value
            for option, value in SMALL_STUDY.items()
            if option in inspect.signature(study).parameters
        }
        calls[f"lab.{name}"] = (study, small | {"progress": begun})
    for answer in (filling, comparison, mutants, assay, run, evaluation, translated):
        for name in ("to_dict", "to_frame", "_repr_html_", "__repr__"):
            getattr(answer, name)()
    return calls


@wraps(unmask.fill.each)
def each(**options: Any) -> Any:
    return list(unmask.fill.each(**options))


def _parameters(call: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters with annotations as types, not as names."""
    plain = inspect.unwrap(call)
    try:
        types = hints(call if isinstance(call, type) else plain)
    except (AttributeError, NameError, TypeError):
        types = {}
    listed = inspect.signature(call).parameters
    return {
        name: one.replace(annotation=types.get(name, one.annotation))
        for name, one in listed.items()
        if name != "self"
    }


def broken(
    call: Callable[..., Any], options: dict[str, Any], parameter: inspect.Parameter, value: str
) -> str | None:
    """How the call with this value breaks the law; None where it does not."""
    signal.alarm(SECONDS)
    try:
        call(**{**options, parameter.name: HOSTILE[value]})
    except BegunError:
        pass
    except unmask.UnmaskError as error:
        line = str(error)
        return None if "\n" not in line and len(line) < 600 and ":" in line else f"says {line!r}"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:120]}"
    finally:
        signal.alarm(0)
    annotation = str(parameter.annotation)
    if annotation != str(inspect.Parameter.empty) and not re.search(
        WORKS_AS.get(value, ""), annotation
    ):
        return f"takes {value} as {annotation}"
    return None


def refusal_of(call: Callable[..., Any], good: dict[str, Any]) -> str | None:
    """Why a call whose arguments are right is refused; None if it is not, as it must be for the
    sweep to see anything.
    """
    try:
        call(**good)
    except BegunError:
        pass
    except unmask.UnmaskError as error:
        return str(error)
    return None


def control() -> list[str]:
    """Functions that break the law, of which the sweep must see each."""

    def crashes(text: str) -> None:
        text.lower()

    def lines(text: str) -> None:
        raise unmask.InputError("one line:\nand another")

    def takes(text: str) -> None:
        pass

    named = {"crashes": crashes, "says two lines": lines, "takes a number for a text": takes}
    return [
        name for name, call in named.items() if broken(call, {}, _parameters(call)["text"], "5")
    ]


def sweep(model: str, folder: Path, only: str) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    Server.run = begun  # type: ignore[assignment, method-assign]
    masked_lm.english_model_path = lambda: Path(model)
    signal.signal(signal.SIGALRM, late)
    calls = bases(model, folder)
    refused = {
        name: why
        for name, (call, good) in calls.items()
        if (why := refusal_of(call, good)) is not None
    }
    before = sorted(path.name for path in folder.iterdir())
    wrong, tried = {}, 0
    for name, (call, good) in calls.items():
        if not re.fullmatch(only, name):
            continue
        for parameter in _parameters(call).values():
            if (
                parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
                or (name, parameter.name) == LONG
            ):
                continue
            for value in HOSTILE:
                if value == "a network" and re.search(WORKS_AS[value], str(parameter.annotation)):
                    continue  # a function of other arguments, whose own error it is
                tried += 1
                why = broken(call, good, parameter, value)
                if why is not None:
                    wrong[f"{name}({parameter.name}={value})"] = why
    left = sorted(path.name for path in folder.iterdir())
    return {
        "wrong": wrong,
        "tried": tried,
        "before": before,
        "left": left,
        "control": control(),
        "refused": refused,
    }


if __name__ == "__main__":
    where = Path(mkdtemp()) if len(sys.argv) < 3 else Path(sys.argv[2])
    os.chdir(where)
    print(json.dumps(sweep(sys.argv[1], where, sys.argv[3] if len(sys.argv) > 3 else ".*")))
