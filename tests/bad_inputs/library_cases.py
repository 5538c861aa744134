"""Calls of the library with what it cannot take. Run as a program, it prints what each call raised, as JSON.

A process of its own: while the tests run, types are checked by beartype, which would speak first.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import torch

import unmask

MODEL, FOLDER = sys.argv[1], Path(mkdtemp()) if len(sys.argv) < 3 else Path(sys.argv[2])
TEXT = "the [MASK] [MASK]"
DEVICES = ("meta", "mps", "xpu", "vulkan", "cpu:7", "")
NAN, INF = float("nan"), float("inf")
TEXTS = FOLDER / "texts.txt"


def fill(text=TEXT, **options):
    return unmask.fill(text, model=MODEL, **options)


def compare(text=TEXT, **options):
    return unmask.compare(text, model=MODEL, **options)


def dependence(text=TEXT, **options):
    return unmask.dependence(text, model=MODEL, **options)


def mutants(text="the cat sat", **options):
    return unmask.mutants(text, **{"model": MODEL, "alphabet": ["the", "cat", "dog", "sat"], "positions": [2], **options})


def sample(**options):
    return unmask.sample(**{"model": MODEL, "chains": 2, "sweeps": 1, "length": 3, **options})


def evaluate(**options):
    return unmask.evaluate(**{"model": MODEL, "data": str(TEXTS), "pairs": 2, "out": str(FOLDER / "new"), **options})


def train(**options):
    return unmask.train(**{"corpus": [str(TEXTS)], "out": str(FOLDER / "new"), "device": "cpu", "steps": 1, **options})


BAD_WHOLE = [0, -1, 1.5, NAN, INF, True, "3", None, 10**40, np.float64(2), [3]]
BAD_REAL = [NAN, INF, -INF, "1", True, 1e300, -1e300, [1.0]]
CASES = {
    **{f"fill top={v!r}": (lambda v=v: fill(top=v), "top") for v in BAD_WHOLE},
    **{f"fill candidates={v!r}": (lambda v=v: fill(candidates=v), "candidate") for v in BAD_WHOLE if v is not None},
    **{f"compare top={v!r}": (lambda v=v: compare(top=v), "top") for v in BAD_WHOLE},
    **{f"dependence candidates={v!r}": (lambda v=v: dependence(candidates=v), "candidate") for v in BAD_WHOLE if v is not None},
    **{f"mutants changes={v!r}": (lambda v=v: mutants(changes=v), "changes") for v in BAD_WHOLE},
    **{f"mutants positions=[{v!r}]": (lambda v=v: mutants(positions=[v]), "position") for v in BAD_WHOLE},
    **{f"sample chains={v!r}": (lambda v=v: sample(chains=v), "chains") for v in BAD_WHOLE if v is not None},
    **{f"sample temperature={v!r}": (lambda v=v: sample(temperature=v), "temperature") for v in BAD_REAL},
    **{f"evaluate pairs={v!r}": (lambda v=v: evaluate(pairs=v), "pairs") for v in BAD_WHOLE},
    **{f"train layers={v!r}": (lambda v=v: train(layers=v), "layers") for v in BAD_WHOLE if v is not None},
    **{f"train lr={v!r}": (lambda v=v: train(lr=v), "lr") for v in BAD_REAL},
    **{f"fill text={v!r}": (lambda v=v: fill(v), "text") for v in ([], "", " ", "the cat", 5, None, [TEXT, 5], [TEXT, ""])},
    "fill joint=3": (lambda: fill(joint=3), "joint"),
    "fill positions=2": (lambda: fill("the cat sat", positions=2), "positions"),
    "fill positions=[1.5]": (lambda: fill("the cat sat", positions=[1.5]), "position"),
    "fill positions=['2']": (lambda: fill("the cat sat", positions=["2"]), "position"),
    "fill positions=[]": (lambda: fill("the cat sat", positions=[]), "blank"),
    "fill targets=str": (lambda: fill(targets="cat"), "one string"),
    "fill targets=[3]": (lambda: fill(targets=[3, 4]), "target"),
    "fill candidates=sets": (lambda: fill(candidates=[[1], [2], [3]]), "candidate sets"),
    "fill candidates=text": (lambda: fill(candidates="ten"), "candidates 'ten' is not a whole number"),
    "fill candidates=words": (lambda: fill(candidates=["the", "cat"]), "candidates of blank 1 'the' is not a list of whole"),
    "fill allow=text": (lambda: fill(allow="1=the"), "does not say which blank: give a mapping such as"),
    "fill allow=named": (lambda: fill(allow={"x": ["the"]}), "the blank of allow 'x' is not a whole number"),
    "fill match=list": (lambda: fill(match=["the"]), "does not say which blank: give a mapping such as"),
    "fill match=number": (lambda: fill(match={1: 3}), "match 3 is not a regular expression"),
    "fill candidates=far": (lambda: fill(candidates=[[6], [10**9]]), "regular token"),
    "fill alphabet=[]": (lambda: fill(alphabet=[]), "alphabet"),
    "fill alphabet=3": (lambda: fill(alphabet=3), "alphabet"),
    "fill model=3": (lambda: unmask.fill(TEXT, model=3), "model"),
    "fill model=none": (lambda: unmask.fill(TEXT, model="/nowhere"), "/nowhere"),
    "fill device=3": (lambda: fill(device=3), "device"),
    "fill device=tpu": (lambda: fill(device="tpu"), "tpu"),
    **{f"fill device={v!r}": (lambda v=v: fill(device=v), "device") for v in (*DEVICES, None, [1], torch.device("meta"))},
    **{f"train device={v!r}": (lambda v=v: train(device=v), "device") for v in DEVICES},
    **{f"load device={v!r}": (lambda v=v: unmask.MaskedLM.load(MODEL, device=v), "device") for v in DEVICES},
    "diagnose device": (lambda: unmask.diagnose("/nowhere", device="cpu"), "device"),
    "fill forbid=['']": (lambda: fill(forbid=[""]), "forbid"),
    "mutants alphabet=one": (lambda: mutants(alphabet=["cat"]), "names one token"),
    "sample restart": (lambda: sample(kernel="refined", restart=1e-9), "1e+09 passes per text"),
    "sample memory=1B": (lambda: sample(memory="1B"), "1 bytes is too little"),
    "fill model=NUL": (lambda: unmask.fill(TEXT, model="a\0b"), "a\\x00b"),
    "fill dtype=int8": (lambda: fill(dtype="int8"), "int8"),
    "fill rename=x": (lambda: fill(rename={"x": "y"}), "x"),
    "compare joints=[]": (lambda: compare(joints=[]), "joints"),
    "compare joints=3": (lambda: compare(joints=3), "joints"),
    "compare figure=3": (lambda: compare(figure=3), "figure"),
    "compare figure=''": (lambda: compare(figure=""), "figure"),
    "compare figure=gif": (lambda: compare(figure=FOLDER / "x.gif"), "x.gif"),
    "dependence others=x": (lambda: dependence(others="x"), "others"),
    "mutants out=csv": (lambda: mutants(out="x.csv"), "parquet"),
    "mutants mutations=[3]": (lambda: mutants(positions=None, mutations=[3]), "not understood"),
    "sample kernel=x": (lambda: sample(kernel="x"), "kernel"),
    "sample out=file": (lambda: sample(out=str(TEXTS)), "texts.txt"),
    "evaluate data=none": (lambda: evaluate(data="/nowhere.txt"), "/nowhere.txt"),
    "train corpus=[]": (lambda: train(corpus=[]), "corpus"),
    "diagnose none": (lambda: unmask.diagnose("/nowhere"), "/nowhere"),
    "score none": (lambda: unmask.score([], model=MODEL), "text"),
    "score ~nobody": (lambda: unmask.score(Path("~nobody-here/x"), model=MODEL), "no such home folder"),
    "score pairs=~nobody": (lambda: unmask.score(pairs="~nobody-here/x", model=MODEL), "no such home folder"),
    "score unknown": (lambda: unmask.score(["the cat"], "magic", model=MODEL), "magic"),
    "Cloze block": (lambda: unmask.Cloze((1, 2), (5,)), "outside"),
    "derive unknown": (lambda: unmask.derive(fill().joint.tables, "magic"), "magic"),
    "lab sites": (lambda: unmask.lab.dependence(sites=10**9), "sites"),
    "lab couplings": (lambda: unmask.lab.dependence(couplings=[NAN]), "couplings"),
    "lab k": (lambda: unmask.lab.dependence(k=99), "k"),
}
FINE = {
    "NumPy's integers are integers": lambda: fill(top=np.int64(2), candidates=np.int32(3)).completions,
    "NumPy's positions": lambda: fill("the cat sat", positions=np.array([2, 3])).completions,
    "a path": lambda: unmask.fill(TEXT, model=Path(MODEL), top=1).completions,
    "a tuple of texts": lambda: fill((TEXT, "a [MASK]")),
}


def raised(call) -> tuple[str, str]:
    try:
        call()
    except unmask.UnmaskError as error:
        return "UnmaskError", str(error)
    except BaseException as error:
        return type(error).__name__, str(error)
    return "", ""


if __name__ == "__main__":
    TEXTS.write_text("the cat sat on the mat .\na dog ran under the tree .\n")
    found = {name: [*raised(call), word] for name, (call, word) in CASES.items()}
    fine = {name: [*raised(call), ""] for name, call in FINE.items()}
    print(json.dumps({"bad": found, "fine": fine, "left": sorted(path.name for path in FOLDER.iterdir())}))
