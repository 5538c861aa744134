"""Samples of every kernel and decoder, and their diagnosis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from same.calls import Call, call, method, model, out

TEMPLATE = "the [MASK] [MASK] on the [MASK] ."
KERNELS: dict[str, dict[str, Any]] = {
    "mh": method("MH"),
    "mh-hot": method("MH", temperature=2.0, proposal_temperature=1.5),
    "mh-fixed": method("MH", scan="fixed"),
    "mh-random": method("MH", scan="random"),
    "gibbs": method("Gibbs"),
    "gibbs-fixed": method("Gibbs", scan="fixed", proposal_temperature=0.8),
    "block": method("Block", block_size=2),
    "block-three": method("Block", block_size=3, scan="random"),
    "sequential-block": method("SequentialBlock", block_size=2),
    "sequential-block-three": method("SequentialBlock", block_size=3, temperature=1.3),
}
DECODERS: dict[str, dict[str, Any]] = {
    "ancestral": method("Ancestral"),
    "ancestral-left": method("Ancestral", order="left-to-right", proposal_temperature=0.7),
    "ancestral-right": method("Ancestral", order="right-to-left"),
    "mask-predict": method("MaskPredict", passes=3),
    "mask-predict-cold": method("MaskPredict", passes=3, decoding_temperature=0.0),
    "confidence": method("Confidence", passes=3),
    "confidence-hot": method("Confidence", passes=2, decoding_temperature=1.5),
    "revise": method("Revise", passes=3),
    "entropy-bound": method("EntropyBound"),
    "entropy-bound-half": method("EntropyBound", gamma=0.5),
    "entropy-bound-passes": method("EntropyBound", passes=2),
    "lowest-entropy": method("LowestEntropy", passes=3),
    "random": method("RandomSets", passes=3),
    "interleaved": method("Interleaved", passes=2),
    "interleaved-cold": method("Interleaved", passes=3, decoding_temperature=0.0),
    "verified": method("Verified", passes=2, profile={"$profile": "words"}),
    "verified-hot": method(
        "Verified", passes=3, decoding_temperature=1.4, profile={"$profile": "words"}
    ),
    "least-dependent": method("LeastDependent", profile={"$profile": "words"}),
    "least-dependent-passes": method("LeastDependent", passes=2, profile={"$profile": "words"}),
    "least-dependent-loose": method("LeastDependent", gamma=1.0, profile={"$profile": "words"}),
}
SMALL = {"chains": 3, "sweeps": 4}


def calls() -> list[Call]:
    """All calls of this file."""
    return [
        *of_kernels(),
        *of_decoders(),
        *of_options(),
        *of_folders(),
        *of_judges(),
        *of_several(),
        *refused(),
    ]


def of_kernels() -> Iterator[Call]:
    """Markov chains, with both energies."""
    for name, kernel in KERNELS.items():
        for energy in ("norm", "raw"):
            for seed in (0, 1):
                where = f"sample/template/{name}/{energy}/{seed}"
                options = {"kernel": kernel, "energy": energy, "seed": seed, **SMALL}
                yield call(where, "sample", template=TEMPLATE, model=model("words"), **options)
        for seed in (2, 3):
            options = {"kernel": kernel, "length": [5, 7], "seed": seed, **SMALL}
            yield call(f"sample/length/{name}/{seed}", "sample", model=model("sure"), **options)


def of_decoders() -> Iterator[Call]:
    """Decoded texts."""
    for name, kernel in DECODERS.items():
        for seed in (0, 1):
            options = {"kernel": kernel, "seed": seed, "n_texts": 4}
            yield call(
                f"generated/template/{name}/{seed}",
                "generated",
                template=TEMPLATE,
                model=model("words"),
                **options,
            )
            yield call(
                f"generated/length/{name}/{seed}",
                "generated",
                length=8,
                model=model("words"),
                **options,
            )
    for name in ("distilbert", "electra", "roberta"):
        options = {"kernel": KERNELS["mh"], "seed": 4, "length": 5, **SMALL}
        yield call(f"sample/{name}/mh", "sample", model=model(name), **options)
        for decoder in ("ancestral", "mask-predict", "lowest-entropy"):
            options = {"kernel": DECODERS[decoder], "seed": 4, "length": 5, "n_texts": 4}
            yield call(f"generated/{name}/{decoder}", "generated", model=model(name), **options)


def of_options() -> Iterator[Call]:
    """Starts, allowed tokens, burn-in, thinning, terms of one's own, dtypes."""
    starts = {
        "init": method("Start", init=["the cat sat on the mat .", "a dog ran on the bed ."]),
        "random": method("Start", random_start=True),
    }
    for name, start in starts.items():
        for kernel in ("mh", "gibbs", "block", "sequential-block"):
            options = {"kernel": KERNELS[kernel], "start": start, "seed": 5, **SMALL}
            if name == "random":
                options["length"] = 6
            yield call(f"sample/start/{name}/{kernel}", "sample", model=model("words"), **options)
    limits = {
        "alphabet": method("Start", alphabet="cat,dog,man,sat,ran"),
        "allow": method("Start", allow={"$numbers": {"2": ["cat", "dog"]}}),
    }
    for name, start in limits.items():
        for decoder in ("ancestral", "confidence", "verified", "lowest-entropy"):
            options = {"kernel": DECODERS[decoder], "start": start, "seed": 6, "n_texts": 4}
            yield call(
                f"generated/limit/{name}/{decoder}",
                "generated",
                template=TEMPLATE,
                model=model("words"),
                **options,
            )
        for kernel in ("mh", "block"):
            options = {"kernel": KERNELS[kernel], "start": start, "seed": 6, **SMALL}
            yield call(
                f"sample/limit/{name}/{kernel}",
                "sample",
                template=TEMPLATE,
                model=model("words"),
                **options,
            )
    for burn_in, thin in ((2, 1), (0, 2), (3, 3)):
        options = {
            "kernel": "mh",
            "burn_in": burn_in,
            "thin": thin,
            "chains": 2,
            "sweeps": 9,
            "seed": 7,
        }
        yield call(
            f"sample/kept/{burn_in}-{thin}",
            "sample",
            template=TEMPLATE,
            model=model("words"),
            **options,
        )
    for kind in ("norm", "raw"):
        for term in ("letters", "first"):
            options = {"energy": {"$energy": kind, "term": term}, "seed": 8, **SMALL}
            for kernel in ("mh", "block"):
                where = f"sample/energy/{kind}/{term}/{kernel}"
                yield call(
                    where,
                    "sample",
                    template=TEMPLATE,
                    kernel=KERNELS[kernel],
                    model=model("words"),
                    **options,
                )
    for dtype in ("float64", "bfloat16"):
        loaded = model("words", dtype=dtype)
        for decoder in ("ancestral", "entropy-bound"):
            options = {"kernel": DECODERS[decoder], "seed": 9, "n_texts": 4}
            yield call(
                f"generated/{dtype}/{decoder}",
                "generated",
                template=TEMPLATE,
                model=loaded,
                **options,
            )
        for kernel in ("mh", "gibbs"):
            options = {"kernel": KERNELS[kernel], "seed": 9, **SMALL}
            yield call(
                f"sample/{dtype}/{kernel}", "sample", template=TEMPLATE, model=loaded, **options
            )
    options = {"kernel": "mh", "template": TEMPLATE, "chains": 4, "sweeps": 120, "seed": 11}
    yield call("sample/long-run", "sample", model=model("words"), **options)


def of_folders() -> Iterator[Call]:
    """Runs that are kept, and go on."""
    for kernel in ("mh", "gibbs", "block", "sequential-block"):
        options = {
            "kernel": KERNELS[kernel],
            "template": TEMPLATE,
            "chains": 3,
            "seed": 12,
        }
        yield call(
            f"sample/again/{kernel}", "sample_again", model=model("words"), sweeps=[2, 5], **options
        )
    options = {"length": [4, 6], "chains": 4, "sweeps": 3, "seed": 13, "out": out("run")}
    yield call("sample/out/lengths", "sample", model=model("words"), kernel="mh", **options)


def of_judges() -> Iterator[Call]:
    """Samples with the numbers of a causal model."""
    for kernel in ("mh", "gibbs"):
        options = {
            "kernel": KERNELS[kernel],
            "template": TEMPLATE,
            "seed": 14,
            **SMALL,
        }
        yield call(f"judged/{kernel}", "judged", model=model("words"), judge="causal", **options)


def of_several() -> Iterator[Call]:
    """Runs side by side."""
    for kernels in (("mh", "gibbs"), ("block", "sequential-block")):
        chosen = [KERNELS[kernel] for kernel in kernels]
        options = {"template": TEMPLATE, "seed": 15, "chains": 2, "sweeps": 30}
        yield call(
            f"diagnose/{'+'.join(kernels)}",
            "several_runs",
            model=model("words"),
            kernels=chosen,
            **options,
        )


def refused() -> Iterator[Call]:
    """Samples that cannot be drawn: the kind of error is the result."""
    loaded = model("words")
    yield call(
        "refused/sample/kernel", "sample", template=TEMPLATE, kernel="metropolis", model=loaded
    )
    yield call("refused/sample/energy", "sample", template=TEMPLATE, energy="low", model=loaded)
    yield call("refused/sample/length", "sample", template=TEMPLATE, length=5, model=loaded)
    yield call("refused/sample/no-blank", "sample", template="the cat sat .", model=loaded)
    yield call("refused/sample/too-long", "sample", length=500, model=loaded)
    yield call(
        "refused/sample/burn-in", "sample", template=TEMPLATE, burn_in=20, sweeps=20, model=loaded
    )
    yield call("refused/sample/chains", "sample", template=TEMPLATE, chains=0, model=loaded)
    yield call("refused/sample/seed", "sample", template=TEMPLATE, seed=-1, model=loaded)
    yield call(
        "refused/sample/temperature",
        "sample",
        template=TEMPLATE,
        kernel=method("MH", temperature=0.0),
        model=loaded,
    )
    yield call(
        "refused/generated/both",
        "generated",
        n_texts=4,
        template=TEMPLATE,
        kernel=method("EntropyBound", passes=2, gamma=1.0),
        model=loaded,
    )
    yield call(
        "generated/without-profile",
        "generated",
        n_texts=4,
        template=TEMPLATE,
        kernel="least-dependent",
        model=loaded,
    )
    yield call(
        "refused/sample/term",
        "sample",
        template=TEMPLATE,
        kernel="gibbs",
        energy={"$energy": "norm", "term": "letters"},
        model=loaded,
    )
    start = method("Start", random_start=True)
    yield call(
        "refused/sample/start",
        "sample",
        template=TEMPLATE,
        kernel="confidence",
        start=start,
        model=loaded,
    )
    yield call("refused/diagnose/folder", "diagnose", run="materials")
    yield call("refused/diagnose/nowhere", "diagnose", run="materials/nowhere")
