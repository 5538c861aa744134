"""Studies of corpora and theory: evaluate, frontier, train, translate, lab."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from same.calls import Call, call, file, method, model, out
from same.materials import SENTENCES, corpus

SHAPE = method("Shape", layers=2, width=16, heads=2, vocab=80, max_length=32)
FEW_STEPS: dict[str, Any] = {"steps": 3, "batch_tokens": 256, "warmup": 2, "lr": 0.01}


def calls() -> list[Call]:
    """All calls of this file."""
    return [
        *of_evaluation(),
        *of_frontiers(),
        *of_training(),
        *of_translation(),
        *of_lab(),
        *refused(),
    ]


def of_evaluation() -> Iterator[Call]:
    """Constructions on pairs of tokens."""
    texts = list(SENTENCES)
    for name in ("words", "sure", "electra"):
        for scheme in ("random", "contiguous"):
            for seed in (0, 1):
                options = {"scheme": scheme, "seed": seed, "pairs": 5, "model": model(name)}
                yield call(f"evaluate/{name}/{scheme}/{seed}", "evaluate", data=texts, **options)
        for support in ("regular", "all"):
            options = {
                "support": support,
                "pairs": 3,
                "joints": "product,mrf,chain",
                "model": model(name),
            }
            yield call(f"evaluate/{name}/support/{support}", "evaluate", data=texts, **options)
        yield call(
            f"evaluate/{name}/paper", "evaluate", data=texts, pairs=4, paper=True, model=model(name)
        )
        options = {
            "alphabet": "cat,dog,man,mat,tree,bed,sat,ran,the,a,on",
            "pairs": 2,
            "model": model(name),
        }
        yield call(
            f"evaluate/{name}/alphabet",
            "evaluate",
            data=["the cat sat on the bed", "a dog ran on the mat"],
            **options,
        )
    yield call("evaluate/blocks", "evaluate", data=file("blocks.jsonl"), model=model("words"))
    options = {
        "pairs": 4,
        "joints": "product,restarted,family:0.5,0.5",
        "out": out("table"),
        "model": model("words"),
    }
    yield call("evaluate/out", "evaluate", data=file("sentences.txt"), **options)


def of_frontiers() -> Iterator[Call]:
    """Nats per token against passes."""
    texts = list(SENTENCES)
    for name in ("words", "sure"):
        for decoder in (
            "entropy-bound",
            "lowest-entropy",
            "random",
            "interleaved",
            "verified",
            "least-dependent",
        ):
            options = {
                "decoders": [decoder],
                "passes": [2, 3],
                "length": 6,
                "first": True,
                "sentences": 5,
                "seed": 1,
            }
            yield call(
                f"frontier/{name}/{decoder}", "frontier", data=texts, model=model(name), **options
            )
        options = {
            "decoders": ["interleaved", "random"],
            "passes": [2],
            "length": 8,
            "sentences": 3,
            "seed": 2,
        }
        yield call(f"frontier/{name}/whole", "frontier", data=texts, model=model(name), **options)
    options = {
        "decoders": ["interleaved"],
        "passes": [2],
        "length": 6,
        "first": True,
        "out": out("frontier"),
    }
    yield call(
        "frontier/out", "frontier", data=file("sentences.txt"), model=model("words"), **options
    )


def of_training() -> Iterator[Call]:
    """A few steps of every way to train; the weights are values."""
    texts, valid = corpus(160, seed=1), corpus(20, seed=2)
    held_out = method("HeldOut", valid=valid)
    common = {"shape": SHAPE, "held_out": held_out, "seed": 1}
    steps = method("Optimisation", dropout=0.0, **FEW_STEPS)
    for masking in ("fixed:0.15", "fixed:0.5", "uniform:0.05-0.45", "uniform:0-1", "k:1", "k:3"):
        for loss in ("factorised", "block"):
            objective = method("Masked", masking=masking, loss=loss)
            yield call(
                f"train/{masking}/{loss}",
                "train_weights",
                corpus=texts,
                objective=objective,
                optimisation=steps,
                **common,
            )
    changes: dict[str, dict[str, Any]] = {
        "adamw": {"optimiser": "adamw"},
        "dropout": {"dropout": 0.2},
        "smoothing": {"label_smoothing": 0.1},
        "slow": {"lr": 0.001},
        "large-batch": {"batch_tokens": 512},
    }
    for name, change in changes.items():
        optimisation = method("Optimisation", **{"dropout": 0.0, **FEW_STEPS, **change})
        for objective in ("masked", "causal"):
            options = {"objective": objective, "optimisation": optimisation, **common}
            yield call(f"train/{name}/{objective}", "train_weights", corpus=texts, **options)
    for seed in (2, 3):
        for objective in ("masked", "causal"):
            options = {**common, "seed": seed, "objective": objective, "optimisation": steps}
            yield call(f"train/seed/{seed}/{objective}", "train_weights", corpus=texts, **options)
    for length in (16, 24):
        shape = method("Shape", layers=1, width=16, heads=4, vocab=70, max_length=length)
        yield call(
            f"train/length/{length}",
            "train_weights",
            corpus=texts,
            **{**common, "shape": shape, "optimisation": steps},
        )
    yield call(
        "train/files",
        "train_weights",
        corpus=file("corpus.txt"),
        **{**common, "optimisation": steps},
    )
    words = {
        "corpus": file("many.txt"),
        "held_out": method("HeldOut", valid_share=0.1),
        "seed": 1,
        "optimisation": steps,
    }
    for name in ("words", "sure"):
        yield call(
            f"train/init/{name}",
            "train_weights",
            init=f"materials/{name}",
            shape=method("Shape", max_length=16),
            **words,
        )
        shape = method(
            "Shape", layers=1, width=16, heads=2, max_length=24, tokenizer=f"materials/{name}"
        )
        yield call(f"train/tokenizer/{name}", "train_weights", shape=shape, **words)
    for objective in ("masked", "causal"):
        whole = method("Optimisation", dropout=0.0, epochs=1, batch_tokens=512, warmup=1, lr=0.01)
        options = {**common, "objective": objective, "optimisation": whole}
        yield call(f"train/epochs/{objective}", "train_weights", corpus=texts, **options)
    shape = method("Shape", layers=1, width=16, heads=2, max_length=32)
    yield call(
        "train/own-vocabulary",
        "train_weights",
        corpus=texts,
        **{**common, "shape": shape, "optimisation": steps},
    )
    weighted = {
        "corpus": [file("corpus.txt"), file("valid.txt")],
        "weight": [1, 3],
        **common,
        "optimisation": steps,
    }
    yield call("train/weights", "train_weights", **weighted)
    share = {**common, "held_out": method("HeldOut", valid_share=0.1), "optimisation": steps}
    yield call("train/share", "train_weights", corpus=texts, **share)
    sides = [file("sources.txt"), file("targets.txt")]
    of_pairs = method("Shape", layers=2, width=16, heads=2, vocab=96, max_length=48)
    for name, objective in {
        "masked": method("Masked"),
        "source": method("Masked", mask_source=0.2),
        "refined": method("Masked", refinement=0.5),
        "block": method("Masked", loss="block"),
        "causal": method("Causal"),
    }.items():
        options = {
            "parallel": sides,
            "objective": objective,
            "shape": of_pairs,
            "optimisation": steps,
            "seed": 4,
        }
        yield call(f"train/parallel/{name}", "train_weights", **options)


def of_translation() -> Iterator[Call]:
    """Translations of every kind, by models that each checkout trains."""
    masked = {"$trained": "masked-pairs"}
    kernels = {
        "auto": "auto",
        "mask-predict": method("MaskPredict", passes=3),
        "confidence": method("Confidence", passes=3),
        "entropy-bound": method("EntropyBound", gamma=1.0),
        "lowest-entropy": method("LowestEntropy", passes=2),
        "random": method("RandomSets", passes=2),
        "interleaved": method("Interleaved", passes=2),
        "ancestral": method("Ancestral", order="left-to-right"),
        "hot": method("MaskPredict", passes=2, decoding_temperature=1.0),
        "verified": method("Verified", passes=2),
        "least-dependent": method("LeastDependent", passes=2),
        "revise": method("Revise", passes=2),
    }
    for name, kernel in kernels.items():
        for seed in (0, 1):
            options = {"model": masked, "kernel": kernel, "seed": seed, "lengths": 2}
            yield call(
                f"translate/{name}/{seed}", "translate", data=file("few_sources.txt"), **options
            )
    for name in ("mh", "gibbs", "block", "sequential-block"):
        for start in ("mask-predict@2", "random"):
            for energy in ("norm", "raw"):
                options = {
                    "model": masked,
                    "kernel": name,
                    "start": start,
                    "sweeps": 2,
                    "lengths": 2,
                    "energy": energy,
                }
                yield call(
                    f"translate/{name}/{start}/{energy}",
                    "translate",
                    data=file("few_sources.txt"),
                    seed=3,
                    **options,
                )
    for beam in (1, 3):
        options = {"model": {"$trained": "causal-pairs"}, "kernel": method("Beam", beam=beam)}
        yield call(f"translate/beam/{beam}", "translate", data=file("few_sources.txt"), **options)
    options = {
        "model": masked,
        "kernel": method("MaskPredict", passes=2),
        "out": out("run"),
        "lengths": 3,
    }
    yield call(
        "translate/out",
        "translate",
        data=file("few_sources.txt"),
        reference=file("few_targets.txt"),
        **options,
    )
    yield call(
        "translate/lists",
        "translate",
        data=["kalo miru", "", "nipa"],
        model=masked,
        kernel="auto",
        lengths=1,
    )


def of_lab() -> Iterator[Call]:
    """Every study of the lab; the model is given, since defaults are not what is compared."""
    models = {
        "complete": {"sites": 4, "coupling": 0.3, "fields": "0", "graph": "complete"},
        "path": {"sites": 5, "coupling": 0.6, "fields": "0.2", "graph": "path"},
        "cycle": {"sites": 4, "coupling": 0.4, "fields": "-0.5:0.5", "graph": "cycle"},
        "normal": {"sites": 4, "coupling": -0.2, "fields": "normal:0.5:3", "graph": "complete"},
    }
    for name, spins in models.items():
        chosen = method("SpinModel", **spins)
        for study in ("dictionary", "dependence", "parallel", "schedule", "decoding"):
            yield call(f"lab/{study}/{name}", f"lab.{study}", model=chosen)
    for name in ("complete", "cycle"):
        for fits in (2, 8):
            yield call(
                f"lab/masking/{name}/{fits}",
                "lab.masking",
                model=method("SpinModel", **models[name]),
                fits=fits,
            )
    yield call("lab/stutter", "lab.stutter")
    yield call("lab/stutter/out", "lab.stutter", out=out("lab"))
    for fits in (2, 3):
        yield call(f"lab/all/{fits}", "lab.all", fits=fits)
    yield call(
        "lab/out", "lab.parallel", model=method("SpinModel", **models["complete"]), out=out("lab")
    )


def refused() -> Iterator[Call]:
    """Studies that cannot be made: the kind of error is the result."""
    texts = corpus(20, seed=1)
    loaded = model("words")
    yield call(
        "refused/evaluate/no-data", "evaluate", data=file("nofile.txt"), pairs=2, model=loaded
    )
    yield call(
        "refused/evaluate/joints",
        "evaluate",
        data=list(SENTENCES),
        joints="product,product",
        pairs=2,
        model=loaded,
    )
    yield call(
        "refused/evaluate/paper",
        "evaluate",
        data=list(SENTENCES),
        joints="chain",
        paper=True,
        pairs=2,
        model=loaded,
    )
    yield call(
        "refused/frontier/decoder",
        "frontier",
        data=list(SENTENCES),
        decoders=["mask-predict"],
        length=6,
        model=loaded,
    )
    yield call(
        "refused/frontier/passes",
        "frontier",
        data=list(SENTENCES),
        passes=[9],
        length=6,
        model=loaded,
    )
    yield call("refused/train/nothing", "train", out=out("model"))
    yield call(
        "refused/train/masking",
        "train",
        corpus=texts,
        out=out("model"),
        objective=method("Masked", masking="half"),
    )
    yield call(
        "refused/train/width",
        "train",
        corpus=texts,
        out=out("model"),
        shape=method("Shape", width=15, heads=2, vocab=70),
    )
    yield call(
        "refused/train/empty", "train", corpus=file("empty.txt"), out=out("model"), shape=SHAPE
    )
    yield call("refused/translate/model", "translate", data=["kalo"], model="materials/words")
    yield call("refused/lab/sites", "lab.parallel", model=method("SpinModel", sites=40))
    yield call(
        "refused/lab/fields", "lab.parallel", model=method("SpinModel", sites=4, fields="1,2")
    )
    yield call(
        "refused/lab/coupling", "lab.parallel", model=method("SpinModel", sites=4, coupling=1e5)
    )
