"""Calls of the library with what it cannot take. Run as a program, it prints what each call
raised, as JSON.

A process of its own: while the tests run, types are checked by beartype, which would speak first.
"""

import json
import sys
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import torch
from torch import nn

import unmask
from unmask.common.border.options import arguments

MODEL, FOLDER = sys.argv[1], Path(mkdtemp()) if len(sys.argv) < 3 else Path(sys.argv[2])
TEXT = "the [MASK] [MASK]"
TEXTS = FOLDER / "texts.txt"


def fill(text=TEXT, **options):
    return unmask.fill(text, **arguments(unmask.fill, {"model": MODEL, **options}))


def tables(candidates, cloze=None, dtype=None):
    model = unmask.MaskedLM.load(MODEL)
    return unmask.unary_tables(model, cloze or model.cloze(TEXT), candidates, dtype)


def logits(ids, positions):
    return unmask.MaskedLM.load(MODEL).logits(torch.tensor(ids), torch.tensor(positions))


def scored(seed):
    return unmask.score(
        ["the cat sat"], unmask.AnyOrder(exact_tokens=0, orders=2, seed=seed), model=MODEL
    ).rows


def same(*answers):
    for one in answers[1:]:
        assert (
            torch.equal(one, answers[0]) if isinstance(one, torch.Tensor) else one == answers[0]
        ), answers


CASES = {
    **{
        f"fill text={v!r}": (lambda v=v: fill(v), "text")
        for v in ([], " ", "the cat", [TEXT, 5], [TEXT, ""])
    },
    "fill candidates=sets": (lambda: fill(candidates=[[1], [2], [3]]), "candidate sets"),
    "fill allow=text": (
        lambda: fill(allow="1=the"),
        "allow '1=the' is not valid: give a dictionary",
    ),
    "fill candidates=far": (lambda: fill(candidates=[[6], [10**9]]), "regular token"),
    "fill forbid=['']": (lambda: fill(forbid=[""]), "forbid"),
    "fill model=NUL": (lambda: unmask.fill(TEXT, model="a\0b"), "a\\x00b"),
    "score ~nobody": (
        lambda: unmask.score(Path("~nobody-here/x"), model=MODEL),
        "no such home folder",
    ),
    "fill network": (
        lambda: unmask.fill(TEXT, nn.Linear(2, 2)),
        "model Linear is a network without its tokenizer: give",
    ),
    "fill candidates=tensor": (
        lambda: fill(candidates=torch.empty(0)),
        "0 candidate sets for 2 blanks",
    ),
    "score model": (
        lambda: unmask.score(["the cat"], unmask.MaskedLM.load(MODEL)),
        "is a model: give it as model=",
    ),
    "log_prob short": (
        lambda: fill().joint.log_prob([7]),
        "values [7] are not token ids of 2 blanks: give 2 whole numbers",
    ),
    "mutual information": (
        lambda: fill().joint.mutual_information(1, 1),
        "site and other are both 1",
    ),
    "derive tolerance": (
        lambda: unmask.derive(fill().joint.tables, "balanced", tolerance=-1),
        "tolerance -1 is out of range",
    ),
    "derive_all options": (
        lambda: unmask.derive_all(fill().joint.tables, ["mrf"], {"hcb": {}}),
        "options of construction 'hcb'",
    ),
    "unary_tables far": (
        lambda: tables([[5, 99], [6]]),
        "the candidates of blank 1 99 is out of range",
    ),
    "unary_tables ids": (
        lambda: tables(None, unmask.Cloze((2, 99, 4, 3), (2,))),
        "token id of the cloze 99 is out of range",
    ),
    "logits far": (lambda: logits([[2, 99, 3]], [[1]]), "token id 99 is out of range"),
    "MaskedLM tokenizer": (
        lambda: unmask.MaskedLM(unmask.MaskedLM.load(MODEL).network, 5),
        "tokenizer 5 is not one of",
    ),
}
FINE = {
    "NumPy's seed": lambda: same(
        fill().joint.sample(4, seed=np.int64(1)), fill().joint.sample(4, seed=1)
    ),
    "NumPy's seed of a score": lambda: same(
        *(scored(seed) for seed in (np.int64(1), torch.tensor(1), 1))
    ),
    "NumPy's count without axes": lambda: same(
        *(fill(candidates=n).joint.shape for n in (np.array(5), torch.tensor(5), 5))
    ),
    "torch's candidates": lambda: same(
        *(fill(candidates=c).joint.shape for c in (torch.tensor([[5, 6]] * 2), [[5, 6]] * 2))
    ),
    "NumPy's integers are integers": lambda: (
        fill(top=np.int64(2), candidates=np.int32(3)).completions
    ),
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
    bad = {name: [*raised(call), word] for name, (call, word) in CASES.items()}
    fine = {name: [*raised(call), ""] for name, call in FINE.items()}
    print(
        json.dumps(
            {"bad": bad, "fine": fine, "left": sorted(path.name for path in FOLDER.iterdir())}
        )
    )
