"""With what each verb's options are tried: see `Witnesses`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.every_option import NEW, Witnesses

MODEL = {"model": "tiny"}
LOADING = {"model": ["other"], "dtype": ["bfloat16"]}
"""Witnesses of how a model is loaded."""
ELSEWHERE = {
    "device": "there is one device here",
    "engine": "workers give the numbers of one process",
}
"""Options that choose where the work is done, and must change no number."""

WORDS = {"alphabet": "cat,sat,dog,on,mat,ran"}
PAIR = {"text": "the [MASK] [MASK] sat ."}
OF_CONSTRUCTIONS: dict[str, Any] = {
    "pivot": [1],
    "steps": [1],
    "tolerance": [1e-12, 0.5],
    "alpha": [0.9],
    "restart": [0.5],
}
SPELLED = {"family": "family:0.7,0.2", "decoder:NAME@PASSES": "decoder:mask-predict@2"}

WITNESSES = {
    "generate": Witnesses(
        inputs=[
            {"template": "the [MASK] [MASK] on [MASK] [MASK]", "n_texts": 6, **MODEL},
            {"n_texts": 6, "length": 5, **MODEL},
        ],
        values={
            **LOADING,
            "template": ["a [MASK] [MASK] the [MASK]"],
            "temperature": [0.3, 3.0],
            "passes": [2, 3],
            "gamma": [5.0, 1e-6],
            "profile": ["profile.json"],
            "sets": [2],
            "n_texts": [5],
            "length": [6],
            "allow": [{2: ["cat", "dog"]}],
            "alphabet": ["cat,dog,mat,ran"],
            "seed": [1, 2],
            "judge": ["judge"],
            "out": [f"{NEW}/run"],
        },
        keys=["judge"],
        exempt=ELSEWHERE,
    ),
    "sample": Witnesses(
        inputs=[
            {"template": "the [MASK] [MASK] on [MASK]", "chains": 2, "sweeps": 3, **MODEL},
            {"chains": 2, "sweeps": 4, "length": 5, **MODEL},
            {"chains": 2, "sweeps": 3, **MODEL},
        ],
        values={
            **LOADING,
            "template": ["a [MASK] [MASK] the [MASK]"],
            "proposal_temperature": [0.3],
            "energy_temperature": [0.3],
            "block_size": [3],
            "length": [6],
            "chains": [3],
            "sweeps": [5],
            "seed": [1],
            "burn_in": [1],
            "thin": [2],
            "init": ["start.txt"],
            "allow": [{2: ["cat", "dog"]}],
            "alphabet": ["cat,dog,mat"],
            "out": [f"{NEW}/run"],
        },
        exempt=ELSEWHERE,
    ),
    "dependence": Witnesses(
        inputs=[{"text": "the [MASK] [MASK] on [MASK]", **MODEL}, {"text": "the cat sat on", **MODEL}],
        values={
            **LOADING,
            **OF_CONSTRUCTIONS,
            "text": ["a [MASK] [MASK] the [MASK]", "a cat ran the"],
            "positions": [[1, 2, 3], [2, 3]],
            "candidates": [3],
            "alphabet": ["cat,dog,mat,ran"],
            "figure": [f"{NEW}/map.png"],
        },
        spelled=SPELLED,
        tight=["force"],
        exempt=ELSEWHERE,
    ),
    "profile": Witnesses(
        inputs=[{"data": "many.txt", **MODEL}],
        values={
            **LOADING,
            "data": ["others.txt"],
            "candidates": [3],
            "limit": [60],
            "save": [f"{NEW}/profile.json"],
        },
        exempt=ELSEWHERE,
    ),
    "mutants": Witnesses(
        inputs=[
            {"sequence": "the cat sat on", "mutations": "cat2dog,cat2dog+sat3ran,on4mat", **WORDS, **MODEL},
            {"sequence": "the cat sat on", "positions": "2,3", **WORDS, **MODEL},
            {"sequence": "the cat sat on", "positions": "2,3", "changes": 2, **WORDS, **MODEL},
        ],
        values={
            **LOADING,
            **OF_CONSTRUCTIONS,
            "sequence": ["a cat sat on"],
            "mutations": ["cat2mat,cat2mat+sat3ran"],
            "positions": ["2,4"],
            "changes": [2, 1],
            "alphabet": ["cat,sat,dog,on,mat,ran,the"],
            "top": [2],
            "save": [f"{NEW}/mutants.csv"],
            "figure": [f"{NEW}/map.png"],
        },
        spelled=SPELLED,
        tight=["force"],
        exempt=ELSEWHERE,
    ),
    "score": Witnesses(
        inputs=[{"texts": ["the cat sat on", "a dog ran"], **MODEL}, {"texts": Path("rows.jsonl"), **MODEL}],
        values={
            **LOADING,
            "texts": [["the cat ran on", "a dog ran"]],
            "right": [1, 2],
            "exact_tokens": [2],
            "orders": [3],
            "seed": [1],
            "field": ["body"],
            "long": ["windows"],
            "out": [f"{NEW}/run"],
        },
        spelled=SPELLED,
        beside={"orders": {"exact_tokens": 2}},
        exempt=ELSEWHERE,
    ),
}
