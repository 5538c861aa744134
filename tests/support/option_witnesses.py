"""With what each verb's options are tried: see `Witnesses`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.every_option import NEW, Witnesses

MODEL = {"model": "tiny"}
LOADING = {"model": ["other"], "dtype": ["bfloat16"]}
"""Witnesses of how a model is loaded."""
HERE = {
    "device": "there is one device here",
}
ELSEWHERE = {**HERE, "engine": "workers give the numbers of one process"}
"""Options that choose where the work is done, and must change no number."""
AGREE = "what decoders write at temperature 0 may be the same text"
ONE_SCAN = "of blocks, permuted and random sweeps are both random windows"
DEFAULT = "it is the default there"
FITS = "every text fits"
SOLVED = "it bounds an error that is far below it on tables of twelve tokens"
MEASURED = {
    "sequence": "the cat sat on mat",
    "column": "value",
    "alphabet": "the,cat,sat,dog,on,mat,ran",
    "save": f"{NEW}/assay.csv",
    **MODEL,
}
WITHIN_LIMITS = "the default number of candidates keeps within the limits"
LONG = "the cat sat on a mat under the tree and a dog ran on the mat"
WORDS = {"alphabet": "cat,sat,dog,on,mat,ran"}
OF_CONSTRUCTIONS: dict[str, Any] = {
    "pivot": [[7, 8], [9, 6], [8, 10]],
    "steps": [1],
    "tolerance": [1e-14, 0.9],
    "alpha": [0.9],
    "restart": [0.5],
}
SPELLED = {"family": "family:0.7,0.2", "decoder:NAME@PASSES": "decoder:random-sets@2"}
NEW_MODEL = {"out": f"{NEW}/model"}
UNHELD = {"batch_tokens": 128, "device": "cpu"}
FEW = {**UNHELD, "valid_share": 0.2}
SHAPE = {"layers": 1, "width": 16, "heads": 2, "vocab": 80, "max_length": 32}
SIDES = ["source.txt", "target.txt"]
SOURCES = [
    "kaka lolo mimi ruru.",
    "lolo mimi kalo.",
    "kami kate karu.",
    "loka kate lomi loso kapa.",
]
WHOLE_SHAPE = "the input states the whole shape"
PAUSED = "with no minute the run pauses after its first step"

WITNESSES = {
    "generate": Witnesses(
        inputs={
            "template": {"template": "the [MASK] [MASK] on [MASK] [MASK]", "n_texts": 6, **MODEL},
            "length": {"n_texts": 6, "length": 5, **MODEL},
            "cold": {
                "length": 10,
                "order": "left-to-right",
                "temperature": 0.0,
                "n_texts": 6,
                "model": "start",  # its likeliest tokens depend on the order
            },
        },
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
        beside={"gamma@least-dependent": {"profile": "profile.json"}},
        keys=["judge"],
        exempt={**ELSEWHERE, "dtype in cold": AGREE},
        idle={("dtype", "order=random"): AGREE},
    ),
    "sample": Witnesses(
        inputs={
            "template": {
                "template": "the [MASK] [MASK] on [MASK]",
                "chains": 2,
                "sweeps": 2,
                **MODEL,
            },
            "length": {"chains": 2, "sweeps": 2, "length": 3, **MODEL},
        },
        values={
            **LOADING,
            "template": ["a [MASK] [MASK] the [MASK]"],
            "proposal_temperature": [0.3],
            "energy_temperature": [0.3],
            "block_size": [3],
            "length": [4],
            "chains": [3],
            "sweeps": [3],
            "seed": [1],
            "burn_in": [1],
            "thin": [2],
            "start": ["random", "start.txt"],
            "allow": [{2: ["cat"]}, {2: ["dog"]}, {2: ["mat"]}],
            "alphabet": ["cat,dog,mat"],
            "out": [f"{NEW}/run"],
        },
        exempt={
            **ELSEWHERE,
            "scan=random (kernel=block)": ONE_SCAN,
            "scan=random (kernel=sequential-block)": ONE_SCAN,
        },
    ),
    "dependence": Witnesses(
        inputs={
            "blanks": {"text": "the [MASK] [MASK] on", **MODEL},
            "whole": {"text": "the cat sat on", **MODEL},
            "pair": {"text": "the cat", **MODEL},
        },
        values={
            **LOADING,
            **OF_CONSTRUCTIONS,
            "text": ["a [MASK] [MASK] the", "a cat ran"],
            "positions": [[2, 3, 4]],  # of two, there are no others
            "candidates": [3],
            "alphabet": ["cat,dog,mat,ran"],
            "figure": [f"{NEW}/map.png"],
        },
        spelled=SPELLED,
        tight=["force"],
        exempt={
            **HERE,
            "tolerance": SOLVED,
            "construction=pseudo_gibbs": DEFAULT,
            "others=text in whole": DEFAULT,
        },
    ),
    "profile": Witnesses(
        inputs={"file": {"data": "texts.txt", **MODEL}},
        values={
            **LOADING,
            "data": ["others.txt"],
            "candidates": [3],
            "limit": [60],
            "save": [f"{NEW}/profile.json"],
        },
        exempt=HERE,
    ),
    "mutants": Witnesses(
        inputs={
            "named": {
                "sequence": "the cat sat on",
                "mutations": "cat2dog,cat2dog+sat3ran,on4mat",
                **WORDS,
                **MODEL,
            },
            "scan": {"sequence": "the cat sat on", "positions": "2,3", **WORDS, **MODEL},
            "pairs": {
                "sequence": "the cat sat on",
                "positions": "2,3",
                "changes": 2,
                **WORDS,
                **MODEL,
            },
        },
        values={
            **LOADING,
            **OF_CONSTRUCTIONS,
            "sequence": ["a cat sat on"],
            "mutations": ["cat2mat,cat2mat+sat3ran,sat3dog,on4cat,cat2ran+on4dog"],
            "positions": ["2,4"],
            "changes": [2, 1],
            "alphabet": ["cat,sat,dog,on,mat,ran,the"],
            "top": [2],
            "save": [f"{NEW}/mutants.csv"],
            "figure": [f"{NEW}/map.png"],
        },
        spelled=SPELLED,
        tight=["force"],
        exempt={**HERE, "tolerance": SOLVED},
    ),
    "assay": Witnesses(
        inputs={
            "all": {**MEASURED, "measured": "measured.csv"},
            "bad": {**MEASURED, "measured": "measured-bad.csv"},
        },
        values={
            **LOADING,
            **OF_CONSTRUCTIONS,
            "sequence": ["the cat sat on tree"],
            "measured": ["measured-again.csv", "measured-bad-again.csv"],
            "orders": [3],
            "seed": [1],
            "right": [1],
            "exact_tokens": [2],
            "column": ["second"],
            "variant": ["other"],
            "positions": ["1-5"],
            "alphabet": ["the,a,cat,sat,dog,on,mat,ran,tree"],
            "save": [f"{NEW}/assay.csv"],
        },
        beside={"orders@any_order": {"exact_tokens": 2}, "seed@any_order": {"exact_tokens": 2}},
        spelled=SPELLED,
        tight=["force"],
        exempt={
            **HERE,
            "tolerance": SOLVED,
            "construction=balanced": DEFAULT,
            "skip_bad in all": "every row can be read",
        },
        idle={
            ("alphabet", f"score={name}"): "it says which variants can be read"
            for name in ("pll", "left_to_right", "any_order")
        },
    ),
    "score": Witnesses(
        inputs={
            "texts": {"texts": ["the cat sat on", "a dog ran", LONG], **MODEL},
            "file": {"texts": Path("rows.jsonl"), **MODEL},
            "kept": {"texts": ["the cat sat on", LONG], "out": f"{NEW}/run", **MODEL},
        },
        values={
            **LOADING,
            "texts": [["the cat ran on", "a dog ran"]],
            "right": [1],
            "exact_tokens": [2],
            "orders": [3],
            "seed": [1],
            "field": ["body"],
            "format": ["csv"],
            "out": [f"{NEW}/run"],
        },
        spelled=SPELLED,
        beside={"orders": {"exact_tokens": 2}, "seed@any_order": {"exact_tokens": 2}},
        keys=["rows"],
        exempt={
            **ELSEWHERE,
            "long=windows in file": FITS,
        },
    ),
    "minimal_pairs": Witnesses(
        inputs={
            "file": {"data": "pairs.jsonl", **MODEL},
            "kept": {"data": "pairs.jsonl", "out": f"{NEW}/run", **MODEL},
        },
        values={
            **LOADING,
            "data": ["pairs-again.jsonl"],
            "right": [1],
            "exact_tokens": [2],
            "orders": [3],
            "seed": [1],
            "format": ["csv"],
            "out": [f"{NEW}/run"],
        },
        spelled=SPELLED,
        beside={"orders": {"exact_tokens": 2}, "seed@any_order": {"exact_tokens": 2}},
        exempt={
            **ELSEWHERE,
        },
    ),
    "check": Witnesses(
        inputs={"model": MODEL, "texts": {"data": "texts.txt", **MODEL}},
        values={**LOADING, "data": ["others.txt"]},
        keys=["model"],
        exempt=HERE,
    ),
    "fill": Witnesses(
        inputs={
            "two": {"text": "the [MASK] [MASK] sat .", **MODEL},
            "three": {"text": "the [MASK] [MASK] [MASK] .", **MODEL},
            "one": {"text": "the [MASK] sat .", **MODEL},
            "whole": {"text": "the cat sat on", "positions": [2, 3], **MODEL},
        },
        values={
            **LOADING,
            **OF_CONSTRUCTIONS,
            "text": ["a [MASK] [MASK] ran .", "a dog ran on"],
            "candidates": [3, "all"],
            "max_passes": [3, 20],
            "mass": [0.1],
            "alphabet": ["cat,sat,dog,on,mat,ran"],
            "positions": [[1, 2]],
            "given": [{1: "dog"}],
            "answers": [["cat dog"], ["cat dog ran"], ["cat"]],
            "allow": [{1: ["cat", "dog"]}],
            "forbid": [["s", "cat"]],
            "top": [2],
        },
        spelled=SPELLED,
        tight=["force"],
        exempt={
            **HERE,
            "tolerance": SOLVED,
            "construction=restarted in two": DEFAULT,
            "construction=restarted in whole": DEFAULT,
        },
        keys=["answers"],
        idle={("force=True", "alphabet"): WITHIN_LIMITS},
    ),
    "compare": Witnesses(
        inputs={
            "blanks": {"text": "the [MASK] [MASK] sat .", "constructions": "product,mrf", **MODEL},
            "whole": {
                "text": "the cat sat on",
                "positions": [2, 3],
                "constructions": "product,mrf",
                **MODEL,
            },
        },
        values={
            **LOADING,
            **OF_CONSTRUCTIONS,
            "text": ["a [MASK] [MASK] ran .", "a dog ran on"],
            "rank_by": ["product"],
            "candidates": [3, "all"],
            "top": [2],
            "positions": [[1, 2]],
            "targets": [["cat", "dog"]],
            "alphabet": ["cat,sat,dog,on,mat,ran"],
            "figure": [f"{NEW}/map.png"],
        },
        spelled=SPELLED,
        tight=["force"],
        exempt={**HERE, "tolerance": SOLVED},
        idle={
            ("rank_by", "constructions"): "of one construction, it is the default",
            ("force=True", "alphabet"): WITHIN_LIMITS,
        },
    ),
    "diagnose": Witnesses(
        inputs={"run": {"run": "run-a"}},
        values={"run": ["run-b"], "judge": ["judge"]},
        keys=["judge"],
    ),
    "evaluate": Witnesses(
        inputs={
            "texts": {"data": "texts.txt", "pairs": 3, "constructions": "product,mrf", **MODEL},
            "blocks": {"blocks": "blocks.jsonl", "constructions": "product,mrf", **MODEL},
        },
        values={
            **LOADING,
            **OF_CONSTRUCTIONS,
            "data": ["others.txt"],
            "blocks": ["blocks-again.jsonl"],
            "pairs": [2],
            "seed": [1],
            "constructions": ["product,chain", "paper"],
            "alphabet": ["cat,sat,dog,on,mat,ran,the"],
            "out": [f"{NEW}/run"],
        },
        spelled=SPELLED,
        fine=["tolerance"],
        keys=["constructions", "pairs"],
        exempt={
            **ELSEWHERE,
            "support=regular": DEFAULT,
            "scheme=random": DEFAULT,
        },
    ),
    "frontier": Witnesses(
        inputs={
            "texts": {
                "data": "texts.txt",
                "decoders": "interleaved,verified",
                "passes": [2],
                "length": 4,
                "limit": 3,
                **MODEL,
            }
        },
        values={
            **LOADING,
            "data": ["others.txt"],
            "first": [True],
            "decoders": ["interleaved"],
            "passes": [[3]],
            "sets": [[3], [2]],
            "length": [7, 6],
            "limit": [4],
            "seed": [1],
            "out": [f"{NEW}/run"],
        },
        exempt=HERE,
    ),
    "train": Witnesses(
        inputs={
            "data": {"data": "source.txt", "steps": 12, **NEW_MODEL, **SHAPE, **FEW},
            "parallel": {"parallel": SIDES, "steps": 12, **NEW_MODEL, **SHAPE, **FEW},
            "init": {"data": "source.txt", "init": "start", "steps": 12, **NEW_MODEL, **FEW},
            "held": {"data": "source.txt", "steps": 12, **NEW_MODEL, **SHAPE, **UNHELD},
            "size": {"data": "source.txt", "layers": 1, "steps": 12, **NEW_MODEL, **FEW},
            "epochs": {"data": "source.txt", "epochs": 1.0, **NEW_MODEL, **SHAPE, **FEW},
        },
        values={
            "data": ["source-again.txt"],
            "out": [f"{NEW}/elsewhere"],
            "parallel": [["target.txt", "source.txt"]],
            "weight": [[2.0]],
            "init": ["start-again"],
            "masking": ["fixed:0.3"],
            "mask_source": [0.3],
            "refinement": [1.0],
            "size": ["tiny"],
            "layers": [2],
            "width": [32],
            "heads": [1],
            "vocab": [70],
            "max_length": [24],
            "tokenizer": ["start-again"],
            "lr": [0.1],
            "warmup": [0],
            "steps": [11],
            "epochs": [2.0],
            "batch_tokens": [256],
            "dropout": [0.5],
            "label_smoothing": [0.3],
            "valid": ["held.txt"],
            "valid_share": [0.4],
            "seed": [1],
            "max_minutes": [0.0],
        },
        fine=["heads"],
        exempt={
            **HERE,
            "size in data": WHOLE_SHAPE,
            "size in parallel": WHOLE_SHAPE,
            "size in epochs": WHOLE_SHAPE,
            "size in held": WHOLE_SHAPE,
        },
        idle={
            ("warmup", "max_minutes"): PAUSED,
            ("steps", "max_minutes"): PAUSED,
            ("epochs", "max_minutes"): PAUSED,
        },
    ),
    "translate": Witnesses(
        inputs={
            "masked": {"data": SOURCES, "model": "translator"},
            "causal": {"data": SOURCES, "model": "causal-translator"},
            "moved": {"data": SOURCES, "model": "translator", "kernel": "mh", "sweeps": 3},
        },
        values={
            "model": ["translator-again"],
            "dtype": ["bfloat16"],
            "data": [
                ["kaka lolo mimi.", "kalo mimi ruru.", "kate lomi.", "lolo kaka."],
                ["ruru kata loso kami.", "kaso lopa miru kate.", "rumi kalo kate lolo."],
            ],
            "proposal_temperature": [0.3],
            "energy_temperature": [0.3],
            "block_size": [3],
            "temperature": [0.7],
            "passes": [2],
            "gamma": [5.0],
            "profile": ["translator-profile.json"],
            "sets": [2],
            "beam": [1],
            "sweeps": [2],
            "start": ["random"],
            "length_beam": [1, 2, 3, 10],
            "seed": [1],
            "reference": [["a b", "c d", "e f", "g h"]],
            "save": [f"{NEW}/lines.jsonl"],
            "out": [f"{NEW}/run"],
        },
        beside={
            "sets": {"temperature": 0.7},
            "gamma@least-dependent": {"profile": "translator-profile.json"},
        },
        exempt={
            **ELSEWHERE,
            "energy=norm": DEFAULT,
            "decoder=mask-predict in masked": DEFAULT,
            "decoder=mask-predict in moved": DEFAULT,
            "decoder=beam in causal": DEFAULT,
            "decoder in moved": AGREE,
            "decoder=confidence in masked": AGREE,
            "passes in moved": AGREE,
            "scan=random (kernel=block)": ONE_SCAN,
            "scan=random (kernel=sequential-block)": ONE_SCAN,
        },
    ),
}
WITHOUT = {"serve": "it runs until it is stopped, and returns nothing"}
"""Verbs whose options have no answer to change."""
