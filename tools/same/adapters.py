"""How a checkout is called, and which parts of its results are values.

Calls are written in the names of unmask at the end of issue 57 (`Names57`). A checkout with other
names has a subclass, which says what is called otherwise: where a module is, how an option or a key
of a result was renamed, which verb was split. It may rename, split and reorder. It never rounds,
drops or computes. The number of values of a call may not fall; the comparison counts.

To read a checkout with other names:

1. Add a subclass of the class before, with the names that changed.
2. Add it at the top of `GENERATIONS`, with a name that only such checkouts offer.

The adapter is chosen by what a checkout offers, so that the newest tool reads old checkouts.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Result = Any
MANY_CELLS = 200_000
"""Joints with more cells are recorded without their dense table."""


class Names57:
    """Names at the end of issue 57."""

    PLACES: Mapping[str, str] = {
        "choose_candidates": "unmask.tables.candidates:choose_candidates",
        "incompatibility": "unmask.joints.incompatibility:incompatibility",
        "TabularMLM": "unmask.models.tabular:TabularMLM",
        "command": "unmask.cli.app:run",
        "create_app": "unmask.serving.app:create_app",
        "Jobs": "unmask.serving.jobs:Jobs",
    }
    """Where what is not a public name of `unmask` is."""
    KEYS: Mapping[str, str] = {"construction": "joint", "constructions": "joints"}
    """Keys of results in this checkout, and what the comparison calls them. The name of a rule was
    `joint` in some results of issue 57 and `construction` in others; here it is `joint` in all.
    """
    ARGUMENTS: Mapping[str, str] = {}
    """Arguments of verbs at the end of issue 57 that this checkout has under other names."""
    ERRORS: Mapping[str, str] = {}
    """Names of errors and warnings in this checkout, and those of the end of issue 57."""
    ATTRIBUTES: Mapping[str, Sequence[str]] = {
        "Filling": ("to_dict", "to_frame", "completions", "table"),
        "Completion": ("to_dict", "spans", "ids"),
        "Comparison": ("to_dict", "to_frame", "joints"),
        "Dependence": ("to_dict", "to_frame", "matrix", "mass", "pairs"),
        "Profile": ("by_distance", "texts"),
        "SampleRun": ("to_dict", "samples", "starts", "rates"),
        "Diagnosis": ("to_dict", "to_frame"),
        "Diagnoses": ("to_dict", "to_frame"),
        "Scores": ("to_dict", "to_frame"),
        "PairScores": ("to_dict", "to_frame", "rows"),
        "Evaluation": ("to_dict", "to_frame", "summary", "rows", "pairs", "failed", "skipped"),
        "Frontier": ("to_dict", "to_frame", "rows", "points", "best", "texts"),
        "Mutants": ("to_dict", "to_frame", "numbers", "names", "wild_type", "alphabet", "changes"),
        "Measured": ("to_dict", "to_frame", "numbers", "names", "changes", "values", "places"),
        "Translations": ("to_dict", "to_frame", "texts", "moves"),
        "TrainingRun": ("to_dict", "to_frame"),
        "Check": ("to_dict",),
        "Study": ("to_dict", "to_frame", "rows"),
        "Report": ("to_dict", "to_frame"),
        "Tables": (
            "candidates",
            "log_q",
            "log_inside",
            "log_total",
            "log_masked",
            "log_masked_inside",
            "log_masked_support",
            "log_between",
            "log_mass",
        ),
        "BlockMetrics": ("to_frame", "joints"),
        "JointMetrics": (
            "construction",
            "unary_nll",
            "joint_nll",
            "a_kl",
            "g_kl",
            "objective",
            "u_ppl",
            "p_ppl",
        ),
    }
    """Attributes, and methods without arguments, of each class of results that are values."""

    # ---- calling ----

    def public(self, name: str) -> Any:
        """What has this name: a public name, with dots for parts of it, or one of `PLACES`."""
        if name in self.PLACES:
            module, _, attribute = self.PLACES[name].partition(":")
            return getattr(import_module(module), attribute)
        found: Any = import_module("unmask")
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def call(self, verb: str, arguments: Mapping[str, Any]) -> Result:
        """The result of a call: of a method `do_VERB` of this class, or of the public function."""
        filled = {
            self.ARGUMENTS.get(name, name): self.argument(value)
            for name, value in arguments.items()
        }
        method: Callable[..., Result] | None = getattr(self, f"do_{verb.replace('.', '_')}", None)
        if method is not None:
            return method(**filled)
        return self.public(verb)(**filled)

    def argument(self, value: Any) -> Any:
        """An argument as the checkout takes it: marks become the objects that they name."""
        if isinstance(value, Mapping):
            kind = next(
                (key for key in value if isinstance(key, str) and key.startswith("$")), None
            )
            if kind is not None:
                options = {
                    name: self.argument(option) for name, option in value.items() if name != kind
                }
                return getattr(self, f"mark_{kind[1:]}")(self.argument(value[kind]), **options)
            return {name: self.argument(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.argument(item) for item in value]
        return value

    def mark_model(self, name: str, **options: Any) -> Any:
        """A loaded model of the materials; `bundled` is the one that comes with unmask."""
        where = None if name == "bundled" else f"materials/{name}"
        return self.public("load")(where, **{"device": "cpu", **options})

    def mark_file(self, name: str) -> Path:
        """A file of the materials."""
        return Path("materials") / name

    def mark_out(self, name: str) -> str:
        """A path for what the call writes; what is there afterwards is part of its result."""
        return f"out/{name}"

    def mark_method(self, name: str, **options: Any) -> Any:
        """An object of a public class: a kernel, decoder, score, or group of options."""
        return self.public(name)(**options)

    def mark_numbers(self, keys: Mapping[str, Any]) -> dict[int, Any]:
        """A mapping whose keys are whole numbers, which JSON has not."""
        return {int(key): item for key, item in keys.items()}

    def mark_rows(self, name: str) -> Any:
        """A file of JSON lines as a data frame."""
        import pandas

        return pandas.read_json(Path("materials") / name, lines=True)

    def mark_tabular(
        self, shape: Sequence[int], seed: int, scale: float, ruled_out: float = 0.0
    ) -> Any:
        """A model that is a table of normal logits, a share of them minus infinity.

        `shape` is the number of tokens and the number of positions.
        """
        import numpy
        import torch

        tokens, length = shape
        draw = numpy.random.default_rng(seed)
        size = (length, *[tokens + 1] * length, tokens)
        table = torch.from_numpy(scale * draw.normal(size=size))
        if ruled_out:
            out = torch.from_numpy(draw.random(size=size) < ruled_out)
            out[..., 0] = False  # so that no distribution is empty
            table = table.masked_fill(out, -torch.inf)
        return self.public("TabularMLM")(table)

    def mark_conditionals(
        self, shape: Sequence[int], seed: int, scale: float, zeros: bool = False
    ) -> list[Any]:
        """Two random tables of conditionals of a pair."""
        import numpy

        draw = numpy.random.default_rng(seed)
        first, second = (numpy.exp(scale * draw.normal(size=shape)) for _ in range(2))
        if zeros:
            first[0, 1] = second[0, 1] = 0.0
        return [
            (first / first.sum(0, keepdims=True)).tolist(),
            (second / second.sum(1, keepdims=True)).tolist(),
        ]

    def mark_trained(self, name: str) -> str:
        """A translator that this checkout trained, once per worker."""
        return trained_translator(self, name)

    def mark_profile(self, model: str) -> str:
        """The dependence profile of a model, measured by this checkout, once per worker."""
        return measured_profile(self, model)

    def mark_energy(self, kind: str, term: str) -> Any:
        """An energy with a term of the user's own: a text's number of letters, or its first
        token.
        """
        if term == "letters":
            return self.public("Energy")(kind, text_terms=(lambda text: 0.1 * len(text),))
        return self.public("Energy")(kind, user_terms=(lambda ids: 0.01 * ids[:, 1].double(),))

    # ---- calls that are no verb ----

    def do_tables(
        self,
        model: Any,
        ids: Sequence[int],
        block: Sequence[int],
        candidates: Any = None,
        dtype: str | None = None,
        **options: Any,
    ) -> Result:
        """The unary tables of a block."""
        import torch

        if dtype is not None:
            options["dtype"] = getattr(torch, dtype)
        return self.public("unary_tables")(
            model, self.public("Cloze")(tuple(ids), tuple(block)), candidates, **options
        )

    def do_text_tables(self, model: Any, text: str, size: int, exact: bool = False) -> Result:
        """The candidates of a text with blanks, and its unary tables."""
        cloze = model.cloze(text)
        candidates = self.public("choose_candidates")(model, cloze, None if exact else size, exact)
        return {
            "candidates": list(candidates),
            "tables": self.public("unary_tables")(model, cloze, candidates),
        }

    def do_joint(
        self, construction: str, options: Mapping[str, Any] | None = None, **tables: Any
    ) -> Result:
        """The joint of one construction."""
        return self.public("derive")(self.do_tables(**tables), construction, **dict(options or {}))

    def do_joints(self, gold: Sequence[int] | None = None, **tables: Any) -> Result:
        """All constructions together, and their metrics."""
        joints = self.public("derive_all")(self.do_tables(**tables))
        result = {joint.name: joint for joint in joints}
        return (
            result
            if gold is None
            else {"joints": result, "metrics": self.public("block_metrics")(joints, list(gold))}
        )

    def own_tables(
        self, conditionals: Sequence[Any], masked: Any = None, labels: Any = None
    ) -> Any:
        """Tables of a pair of one's own."""
        return self.public("Tables").from_conditionals(*conditionals, masked=masked, labels=labels)

    def do_own_joint(
        self, construction: str, options: Mapping[str, Any] | None = None, **tables: Any
    ) -> Result:
        """The joint of one construction over tables of one's own."""
        return self.public("derive")(self.own_tables(**tables), construction, **dict(options or {}))

    def do_incompatibility(self, tables: Mapping[str, Any]) -> Result:
        """How far tables are from having a common joint."""
        own = "conditionals" in tables
        return self.public("incompatibility")(
            self.own_tables(**tables) if own else self.do_tables(**tables)
        )

    def do_logits(self, model: Any, texts: Sequence[str], places: Sequence[int]) -> Result:
        """Token ids of texts of one length, and the model's logits at some of their positions."""
        import torch

        ids = torch.tensor([list(model.words.encode(text)) for text in texts])
        positions = torch.tensor([list(places)] * len(texts))
        return {
            "ids": ids,
            "logits": model.logits(ids, positions),
            "texts": [model.text(row) for row in ids.tolist()],
        }

    def do_generated(
        self, model: Any, kernel: Any, n_texts: int, seed: int = 0, **options: Any
    ) -> Result:
        """Texts of a decoder, which were those of one sweep of `sample`."""
        from unmask import __all__ as public_names

        if "generate" not in public_names:
            options |= {"kernel": kernel, "chains": n_texts, "sweeps": 1}
            frame = self.public("sample")(model=model, seed=seed, **options).samples
            return {name: frame[name].tolist() for name in ("text", "passes", "length")} | {
                "log_prob": [None if value != value else value for value in frame["log_prob"]],
                "ids": [list(map(int, ids)) for ids in frame["ids"]],
            }
        start = options.pop("start", None)
        if start is not None:
            options |= {"allow": start.allow, "alphabet": start.alphabet or None}
        made = self.public("generate")(
            model=model, decoder=kernel, n_texts=n_texts, seed=seed, **options
        )
        columns = ("text", "passes", "length", "log_prob")
        return {name: [row[name] for row in made.rows] for name in columns} | {"ids": made.ids}

    def do_sample_again(self, model: Any, sweeps: Sequence[int], **options: Any) -> Result:
        """A run in a folder that is given more sweeps, and its diagnosis from the folder."""
        runs = [
            self.public("sample")(model=model, sweeps=number, out="out/run", **options)
            for number in sweeps
        ]
        return {"runs": runs, "diagnosis": self.public("diagnose")("out/run")}

    def do_judged(self, model: Any, judge: str, **options: Any) -> Result:
        """Samples, and their diagnosis with the numbers of a causal model."""
        run = self.public("sample")(model=model, **options)
        return self.public("diagnose")(run, f"materials/{judge}")

    def do_several_runs(self, model: Any, kernels: Sequence[Any], **options: Any) -> Result:
        """Samples of several kernels, and their diagnoses side by side."""
        return self.public("diagnose")(
            [self.public("sample")(model=model, kernel=kernel, **options) for kernel in kernels]
        )

    def do_difference(self, **options: Any) -> Result:
        """Where the scores of two texts differ, token by token."""
        return self.public("score")(**options).difference()

    def do_loaded_profile(self, path: str) -> Result:
        """A dependence profile that is read from its file."""
        return self.public("Profile").load(path)

    def do_page(self, model: Any, path: str, body: Mapping[str, Any] | None = None) -> Result:
        """What the server of the page answers: its status, and JSON or events; without a body,
        to GET.
        """
        import json

        from fastapi.testclient import TestClient

        if body is not None:
            body = {self.ARGUMENTS.get(name, name): value for name, value in body.items()}
        jobs = self.public("Jobs")()
        try:
            client = TestClient(
                self.public("create_app")(model, jobs), base_url="http://127.0.0.1:8000"
            )
            answer = (
                client.get(f"/api/{path}")
                if body is None
                else client.post(f"/api/{path}", json=body)
            )
        finally:
            jobs.close()
        if "event-stream" in answer.headers["content-type"]:
            data = [
                line.removeprefix("data: ")
                for line in answer.text.splitlines()
                if line.startswith("data: ")
            ]
            content: Any = [
                json.loads(line) for line in data[1:]
            ]  # the first is the name of the job, which is drawn
        else:
            content = answer.json()
        return {"status": answer.status_code, "answer": content}

    def do_train_weights(self, **options: Any) -> Result:
        """A short training, and the weights that it leaves."""
        from safetensors.torch import load_file

        run = self.public("train")(out="out/model", device="cpu", **options)
        return {"run": run, "weights": load_file(Path("out/model/model.safetensors"))}

    def do_command(
        self, words: Sequence[str], standard_input: str = "", process: bool = False
    ) -> Result:
        """A command: its exit code, and what it prints; `process`: in a process of its own."""
        words = [self.word(word) for word in words]
        if process:
            command = [sys.executable, "-m", "unmask", *words]
            done = subprocess.run(
                command, input=standard_input.encode(), capture_output=True, check=False
            )
            return printed(done.returncode, done.stdout.decode(), done.stderr.decode())
        streams = {
            name: io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
            for name in ("stdout", "stderr")
        }
        streams["stdin"] = io.TextIOWrapper(io.BytesIO(standard_input.encode()), "utf-8")
        kept = {name: getattr(sys, name) for name in streams}
        for name, stream in streams.items():
            setattr(sys, name, stream)
        try:
            code = self.public("command")(list(words))
        finally:
            for name, stream in kept.items():
                setattr(sys, name, stream)
        outputs = [streams[name].buffer.getvalue().decode() for name in ("stdout", "stderr")]  # type: ignore[attr-defined]
        return printed(code, *outputs)

    def word(self, word: str) -> str:
        """A word of a command line, with the option's name of this checkout."""
        if not word.startswith("--"):
            return word
        name = word.removeprefix("--").replace("-", "_")
        return "--" + self.ARGUMENTS.get(name, name).replace("_", "-")

    def do_commands(self, several: Sequence[Sequence[str]]) -> Result:
        """Commands one after the other, of which the later ones read what the earlier ones
        wrote.
        """
        return [self.do_command(words) for words in several]

    # ---- results ----

    def parts(self, result: Any) -> Mapping[str, Any] | None:
        """The parts of an object by name; None for an object that is none of unmask's."""
        kind = type(result).__name__
        if kind == "Joint":
            return joint_parts(result)
        if kind in self.ATTRIBUTES:
            return {name: value_of(result, name) for name in self.ATTRIBUTES[kind]}
        if hasattr(result, "_asdict"):
            return result._asdict()  # type: ignore[no-any-return]
        if hasattr(result, "as_py"):  # a number of Arrow
            return {"value": result.as_py()}
        return None

    def key(self, name: str) -> str:
        """The name of a value, in the names of the end of issue 57."""
        return "/".join(self.KEYS.get(part, part) for part in name.split("/"))

    def kind_of(self, error: BaseException | type) -> str:
        """The name of an error's or a warning's class."""
        name = (error if isinstance(error, type) else type(error)).__name__
        return self.ERRORS.get(name, name)

    def stored_rows(self, folder: Path) -> dict[str, Any]:
        """The rows of a run's folder: those of its parts, joined by series."""
        import pandas

        series: dict[str, list[Any]] = {}
        for part in sorted((folder / "parts").glob("*.parquet")):
            series.setdefault(part.stem.rpartition("-")[0], []).append(pandas.read_parquet(part))
        return {name: pandas.concat(frames, ignore_index=True) for name, frames in series.items()}


class Before57(Names57):
    """Names before issue 57: what is now `incompatibility` was called `compatibility`."""

    PLACES: Mapping[str, str] = {
        **Names57.PLACES,
        "incompatibility": "unmask.joints.metrics:compatibility",
    }
    KEYS: Mapping[str, str] = {**Names57.KEYS, "compatibility": "incompatibility"}


class Rooms58(Names57):
    """Names of issue 58, which moved the rooms."""

    PLACES: Mapping[str, str] = {
        **Names57.PLACES,
        "command": "unmask.surfaces.cli.app:run",
        "create_app": "unmask.surfaces.serving.app:create_app",
        "Jobs": "unmask.surfaces.serving.jobs:Jobs",
    }


class Methods60(Rooms58):
    """Names of issue 60, which renamed options of kernels and decoders, and one decoder."""

    OPTIONS: Mapping[str, Sequence[str]] = {
        "temperature": ("energy_temperature",),
        "proposal_temperature": ("temperature",),
        "decoding_temperature": ("temperature",),
        "passes": ("sets",),
    }
    """Options at the end of issue 57, and what a class that has not this one calls it."""
    KEYS: Mapping[str, str] = {
        **Rooms58.KEYS,
        "energy_temperature": "temperature",
        "temperature": "decoding_temperature",
    }

    def argument(self, value: Any) -> Any:
        """An argument; the law of the decoder `random` is that of `random-sets`."""
        if isinstance(value, str) and value.partition("@")[0] == "decoder:random":
            return value.replace("random", "random-sets")
        return super().argument(value)

    def key(self, name: str) -> str:
        """The name of a value; a number of sets was one of passes, and `random-sets` is the
        decoder `random`.
        """
        old = super().key(name.replace("decoder:random-sets", "decoder:random"))
        if old.endswith("/kernel/sets"):
            return f"{old.removesuffix('sets')}passes"
        return old

    def mark_method(self, name: str, **options: Any) -> Any:
        """An object of a public class, by the names that its options have now."""
        cls = self.public(name)
        known = set(vars(cls).get("__dataclass_fields__", ()))
        renamed = {}
        for option, value in options.items():
            now = [other for other in self.OPTIONS.get(option, ()) if other in known]
            is_known = option in known
            renamed[now[0] if now and not is_known else option] = value
        if renamed.get("decoder") == "random":
            renamed["decoder"] = "random-sets"
        return cls(**renamed)

    def do_frontier(self, decoders: Sequence[str] | None = None, **options: Any) -> Result:
        """The frontier of decoders by their names now."""
        if decoders is not None:
            decoders = ["random-sets" if name == "random" else name for name in decoders]
            if decoders == ["verified"]:
                options["sets"] = options.pop("passes")
        return self.public("frontier")(decoders=decoders, **options)

    def do_command(
        self, words: Sequence[str], standard_input: str = "", process: bool = False
    ) -> Result:
        """A command by the names of its options now."""
        now = list(words)
        for place, word in enumerate(words[:-1]):
            follows = words[place + 1]
            if word == "--kernel" and follows == "random":
                now[place + 1] = "random-sets"
            if word == "--passes" and "verified" in words:
                now[place] = "--sets"
        return super().do_command(now, standard_input, process)


class Constructions60(Methods60):
    """Names of issue 60: an argument that takes a rule is `construction`, `joint` a
    distribution.
    """

    ARGUMENTS: Mapping[str, str] = {"joint": "construction", "joints": "constructions"}


class Pairs61(Constructions60):
    """Names of issue 61: minimal pairs are a verb's, `minimal_pairs`."""

    def do_score(self, **options: Any) -> Result:
        """Scores of texts, or of minimal pairs."""
        if "minimal_pairs" in options and "texts" not in options:
            options["data"] = options.pop("minimal_pairs")
            return self.public("minimal_pairs")(**options)
        return self.public("score")(**options)

    def do_command(
        self, words: Sequence[str], standard_input: str = "", process: bool = False
    ) -> Result:
        """A command by its name now."""
        now = list(words)
        if "--minimal-pairs" in now:
            now.remove("--minimal-pairs")
            now[0] = "minimal-pairs"
        return super().do_command(now, standard_input, process)


class Profile61(Pairs61):
    """Names of issue 61: a dependence profile is a verb's, `profile`."""

    def do_dependence(self, **options: Any) -> Result:
        """The dependence of a text's positions, or a model's profile."""
        if "profile" not in options:
            return self.public("dependence")(**options)
        options["data"] = options.pop("profile")
        if "sentences" in options:
            options["limit"] = options.pop("sentences")
        return self.public("profile")(**options)

    def do_command(
        self, words: Sequence[str], standard_input: str = "", process: bool = False
    ) -> Result:
        """A command by its name now."""
        now = list(words)
        if "--profile" in now and now[0] == "dependence":
            now[0] = "profile"
            now.remove("--profile")  # its file has a place now
            now = ["--limit" if word == "--sentences" else word for word in now]
        return super().do_command(now, standard_input, process)


class Assay61(Profile61):
    """Names of issue 61: `mutants` with measured values is the verb `assay`.

    Its scores over the varying sites are called NAME_sites, for they are other numbers than the
    scores of texts; here they have their old names.
    """

    ATTRIBUTES: Mapping[str, Sequence[str]] = {
        **{name: parts for name, parts in Profile61.ATTRIBUTES.items() if name != "Measured"},
        "Assay": Profile61.ATTRIBUTES["Measured"],
    }
    OVER_SITES = ("pll", "left_to_right", "any_order")
    """Scores that are called NAME_sites now."""
    KEYS: Mapping[str, str] = {
        **Profile61.KEYS,
        "pll_sites": "pll",
        "left_to_right_sites": "left_to_right",
        "any_order_sites": "any_order",
        "any_order_sites_mean_log": "any_order_mean_log",
    }
    SCORES_OF_VARIANTS = ("singles", "product", *OVER_SITES, "epistasis", "pairs")

    def mark_method(self, name: str, **options: Any) -> Any:
        """An object of a public class; the former options of a ranking as they are."""
        if name == "Ranking":
            return options
        return super().mark_method(name, **options)

    def do_mutants(
        self,
        ranking: Mapping[str, Any] | None = None,
        top: int | None = None,
        by: str | None = None,
        **options: Any,
    ) -> Result:
        """Mutants, or measured variants. `top` and `by` were of print alone."""
        if "measured" not in options:
            return self.public("mutants")(**options)
        more = dict(ranking or {})
        scores = more.pop("scores", "all")
        orders = more.pop("orders", 8)
        score = self.scores_now(scores, orders)
        return self.public("assay")(score=score, **more, **options)

    def scores_now(self, scores: str, orders: int) -> list[Any]:
        """The scores of variants by their names now, any_order with its orders."""
        listed = self.SCORES_OF_VARIANTS if scores == "all" else scores.split(",")
        now: list[Any] = []
        for name in listed:
            if name == "any_order":
                now.append(self.public("AnyOrderSites")(orders=orders))
            elif name in self.OVER_SITES:
                now.append(f"{name}_sites")
            else:
                now.append(name)
        return now

    def do_command(
        self, words: Sequence[str], standard_input: str = "", process: bool = False
    ) -> Result:
        """A command by its name now, which prints the old names of scores."""
        now = list(words)
        if "--measured" not in now:
            return super().do_command(now, standard_input, process)
        place = now.index("--measured")
        _, measured = now[place : place + 2]
        del now[place : place + 2]
        now[:2] = ["assay", now[1], measured]
        if "--scores" in now:
            place = now.index("--scores")
            names = [
                f"{name}_sites" if name in self.OVER_SITES else name
                for name in now[place + 1].split(",")
            ]
            now[place : place + 2] = ["--score", ",".join(names)]
        return self.with_old_scores(super().do_command(now, standard_input, process))

    def parts(self, result: Any) -> Mapping[str, Any] | None:
        """The parts of an object by name."""
        parts = super().parts(result)
        if parts is None or type(result).__name__ != "Assay":
            return parts
        return {name: self.with_old_scores(value) for name, value in parts.items()}

    def with_old_scores(self, value: Any) -> Any:
        """The value with the old names of scores in all its texts."""
        if isinstance(value, str):
            return value.replace("_sites", "")
        if isinstance(value, Mapping):
            return {
                self.with_old_scores(key): self.with_old_scores(one) for key, one in value.items()
            }
        if isinstance(value, (list, tuple)):
            return type(value)(self.with_old_scores(one) for one in value)
        if hasattr(value, "columns"):  # a data frame
            return value.rename(columns=self.with_old_scores)
        return value


class Scores61(Assay61):
    """Names of issue 61: numbers of texts, pairs and tokens are called n_texts and so on; the rows
    of pairs are `rows`, as those of texts.
    """

    ATTRIBUTES: Mapping[str, Sequence[str]] = {
        **Assay61.ATTRIBUTES,
    }
    COUNTED = (
        *("outputs", "pairs", "parameters", "positions", "refused", "regular", "texts", "ties"),
        *("tokens", "too_long", "unscored", "unused"),
    )
    """What results of `check` and `minimal_pairs` count."""

    def parts(self, result: Any) -> Mapping[str, Any] | None:
        """The parts of an object by name."""
        parts = super().parts(result)
        kind = type(result).__name__
        if parts is None or kind not in ("Check", "PairScores"):
            return parts
        return {name: self.with_old_counts(value) for name, value in parts.items()}

    def with_old_counts(self, value: Any) -> Any:
        """The value with the old names of numbers."""
        if isinstance(value, Mapping):
            renamed = {self.old_count(name): one for name, one in value.items()}
            if "accuracy" in renamed and "rows" in renamed:  # of pairs
                renamed["pairs"] = renamed.pop("rows")
            return {name: self.with_old_counts(one) for name, one in renamed.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self.with_old_counts(one) for one in value)
        if hasattr(value, "columns"):  # a data frame
            return value.rename(columns=self.old_count)
        return value

    def old_count(self, name: str) -> str:
        """The old name of a number."""
        bare = name.removeprefix("n_")
        return bare if bare in self.COUNTED else name

    def do_command(
        self, words: Sequence[str], standard_input: str = "", process: bool = False
    ) -> Result:
        """A command whose JSON has the old names of numbers."""
        result = super().do_command(words, standard_input, process)
        if words[0] in ("check", "minimal-pairs") or "--minimal-pairs" in words:
            return self.with_old_counts(result)
        return result


class Variants61(Scores61):
    """Names of issue 61: the number of variants of an assay is called n_variants, and that of a
    profile's texts n_texts; how a profile was measured is its `measurement`.
    """

    KEYS: Mapping[str, str] = {**Scores61.KEYS, "n_variants": "variants", "measurement": "about"}

    def parts(self, result: Any) -> Mapping[str, Any] | None:
        """The parts of an object by name."""
        kind = type(result).__name__
        if kind == "Profile":
            return {"by_distance": result.by_distance, "texts": result.n_texts}
        parts = super().parts(result)
        if kind == "Assay" and parts is not None:
            return {**parts, "to_dict": self.with_old_sentence(parts["to_dict"])}
        return parts

    def with_old_sentence(self, value: Any) -> Any:
        """The JSON of an assay; the only sentence of its verdict was called `sentence`."""
        if not isinstance(value, Mapping) or "verdict" not in value:
            return value
        (sentence,) = value["verdict"]
        renamed = {name: one for name, one in value.items() if name != "verdict"}
        return {**renamed, "sentence": sentence}

    def do_command(
        self, words: Sequence[str], standard_input: str = "", process: bool = False
    ) -> Result:
        """A command whose JSON has the old names of numbers."""
        result = super().do_command(words, standard_input, process)
        if words[0] == "profile" or "--profile" in words:
            return self.with_old_counts(result)
        if "--measured" in words and "output" in result:
            return {**result, "output": self.with_old_sentence(result["output"])}
        return result

    def key(self, name: str) -> str:
        """The name of a value; in the file of a profile its texts were `texts`."""
        old = super().key(name)
        if old.endswith("profile.json/n_texts"):
            return f"{old.removesuffix('n_texts')}texts"
        return old


class Studies61(Variants61):
    """Names of issue 61: verbs of corpora take `data` by place, given blocks are no data, the table
    of the paper is `constructions="paper"`, and numbers of results are `n_pairs` and `n_texts`.
    """

    KEYS: Mapping[str, str] = {
        **Variants61.KEYS,
        "n_pairs": "pairs",
        "n_texts": "texts",
        "n_failed": "failed",
    }
    OF_CORPORA = ("evaluate", "frontier")
    """Verbs whose data have a place on the command line."""
    ATTRIBUTES: Mapping[str, Sequence[str]] = {
        **Variants61.ATTRIBUTES,
        "Evaluation": ("to_dict", "to_frame", "numbers", "rows", "n_pairs", "failed", "skipped"),
        "Frontier": ("to_dict", "to_frame", "rows", "points", "best", "n_texts"),
    }

    def key(self, name: str) -> str:
        """The name of a value; the most texts of a frontier were so many sentences."""
        old = super().key(name)
        if old.endswith(("settings/limit", "settings.json/limit")):
            return f"{old.removesuffix('limit')}sentences"
        return old

    def do_evaluate(self, data: Any, paper: bool = False, **options: Any) -> Result:
        """An evaluation; the table of the paper was of one scheme in Python."""
        if isinstance(data, Path) and data.suffix == ".jsonl":
            return self.public("evaluate")(blocks=data, **options)
        if paper and "constructions" in options:
            options["constructions"] = f"paper,{options['constructions']}"
        elif paper:
            options = {"constructions": "paper", "scheme": "random", **options}
        return self.public("evaluate")(data, **options)

    def do_frontier(self, decoders: Sequence[str] | None = None, **options: Any) -> Result:
        """A frontier of at most so many texts."""
        if "sentences" in options:
            options["limit"] = options.pop("sentences")
        return super().do_frontier(decoders, **options)

    def do_command(
        self, words: Sequence[str], standard_input: str = "", process: bool = False
    ) -> Result:
        """A command by its names now."""
        now = list(words)
        if now[0] in self.OF_CORPORA and "--data" in now:
            place = now.index("--data")
            del now[place]  # its file has a place
            if now[place].endswith(".jsonl"):
                now.insert(place, "--blocks")
            now = ["--limit" if word == "--sentences" else word for word in now]
        return super().do_command(now, standard_input, process)

    def parts(self, result: Any) -> Mapping[str, Any] | None:
        """The parts of an object by name; the rows of a study were a data frame."""
        parts = super().parts(result)
        if parts is None or type(result).__name__ not in ("Evaluation", "Frontier"):
            return parts
        import pandas

        named = {**parts, "rows": pandas.DataFrame(result.rows)}
        if "numbers" in named:
            named["summary"] = named.pop("numbers")
        return named


class Runs61(Studies61):
    """Names of issue 61: a run of chains holds arrays and lists of dicts, and `diagnose` always
    returns the diagnoses of runs side by side.
    """

    def parts(self, result: Any) -> Mapping[str, Any] | None:
        """The parts of an object by name."""
        if type(result).__name__ != "SampleRun":
            return super().parts(result)
        import pandas

        return {
            "to_dict": result.to_dict(),
            "samples": result.to_frame(),
            "starts": pandas.DataFrame(result.starts),
            "rates": pandas.DataFrame(result.rates),
        }

    def do_sample_again(self, model: Any, sweeps: Sequence[int], **options: Any) -> Result:
        """A run in a folder that is given more sweeps, and its diagnosis from the folder."""
        found = super().do_sample_again(model, sweeps, **options)
        return {**found, "diagnosis": found["diagnosis"].runs[0]}

    def do_judged(self, model: Any, judge: str, **options: Any) -> Result:
        """Samples, and their diagnosis with the numbers of a causal model."""
        return super().do_judged(model, judge, **options).runs[0]

    def do_command(
        self, words: Sequence[str], standard_input: str = "", process: bool = False
    ) -> Result:
        """A command; the JSON of diagnose is that of the one run."""
        result = super().do_command(words, standard_input, process)
        if words[0] != "diagnose" or not isinstance(result.get("output"), Mapping):
            return result
        first, *others = result["output"]["runs"]
        if others:
            return result
        return {**result, "output": {name: first[name] for name in first if name != "run"}}


class Training61(Runs61):
    """Names of issue 61: `train` takes `data` by place, and its numbers are n_parameters and
    n_tokens.
    """

    KEYS: Mapping[str, str] = {
        **Runs61.KEYS,
        "n_parameters": "parameters",
        "n_tokens": "tokens",
    }

    def key(self, name: str) -> str:
        """The name of a value; the hash of the data was that of the corpus."""
        old = super().key(name)
        if old.endswith("training/settings.json/data"):
            return f"{old.removesuffix('data')}corpus"
        return old

    def do_train(self, corpus: Any = None, **options: Any) -> Result:
        """A training, by the names of its arguments now."""
        return self.public("train")(corpus, **options)

    def do_train_weights(self, corpus: Any = None, **options: Any) -> Result:
        """A short training, and the weights that it leaves."""
        return super().do_train_weights(data=corpus, **options)


class Fillings61(Training61):
    """Names of issue 61: in `fill` and `compare` all candidates are `candidates="all"`, words have
    their lengths in the text, a search is asked for by itself, and what it found is one field.

    Before, answers and constraints asked for a search, too, and a single blank took options that
    did nothing.
    """

    FILTERS = ("answers", "allow", "forbid")
    FOUND = ("mass", "bound", "certain", "passes", "stopped")

    def mark_method(self, name: str, **options: Any) -> Any:
        """An object of a public class; the former options of a search as they are."""
        if name == "Search":
            return options
        return super().mark_method(name, **options)

    def do_fill(
        self,
        text: Any,
        construction: Any = None,
        candidates: Any = None,
        exact: bool = False,
        search: Mapping[str, Any] | None = None,
        targets: Any = None,
        **options: Any,
    ) -> Result:
        """Fillings by the same law."""
        if targets is not None:
            options["answers"] = [" / ".join(targets)]
        if exact:
            candidates = "all"
        if search is not None:
            own = dict(search)
            options |= {name: own.pop(name) for name in self.FILTERS if name in own}
            pieces = own.pop("pieces", None)
            if pieces is not None:
                text = text.replace("[WORD]", f"[WORD:1-{pieces}]")
            if "passes" in own:
                own["max_passes"] = own.pop("passes")
            return self.public("fill")(text=text, search=self.public("Search")(**own), **options)
        if self.has_one_blank(text, options.get("positions")):
            return self.public("fill")(text=text, **options)
        return self.public("fill")(
            text=text, construction=construction, candidates=candidates, **options
        )

    def has_one_blank(self, text: Any, positions: Any = None) -> bool:
        """Whether a text has one blank, which has no construction, and took all candidates."""
        if not isinstance(text, str):
            return False
        if positions is not None:
            return len(positions) == 1
        return text.count("[MASK]") + text.count("<mask>") == 1

    def do_compare(
        self, construction: Any = None, exact: bool = False, candidates: Any = None, **options: Any
    ) -> Result:
        """A comparison; `construction` said which one ranks completions."""
        if exact:
            candidates = "all"
        return self.public("compare")(rank_by=construction, candidates=candidates, **options)

    def do_text_tables(self, model: Any, text: str, size: int, exact: bool = False) -> Result:
        """The candidates of a text with blanks, and its unary tables."""
        cloze = model.cloze(text)
        takes_all = exact or len(cloze.block) == 1
        candidates = self.public("choose_candidates")(model, cloze, "all" if takes_all else size)
        return {
            "candidates": list(candidates),
            "tables": self.public("unary_tables")(model, cloze, candidates),
        }

    def do_page(self, model: Any, path: str, body: Mapping[str, Any] | None = None) -> Result:
        """What the server of the page answers."""
        if body is not None and "exact" in body:
            is_exact = body["exact"]
            body = {name: value for name, value in body.items() if name != "exact"}
            if is_exact:
                body["candidates"] = "all"
        return super().do_page(model, path, body)

    def do_command(
        self, words: Sequence[str], standard_input: str = "", process: bool = False
    ) -> Result:
        """A command by its names now, and its JSON as it was."""
        now = list(words)
        if now[0] == "fill" and "--passes" in now:
            now[now.index("--passes")] = "--max-passes"
        if now[0] in ("fill", "compare") and "--exact" in now:
            place = now.index("--exact")
            now[place : place + 1] = ["--candidates", "all"]
        text = now[1] if len(now) > 1 else None
        if now[0] == "fill" and self.has_one_blank(text) and "--candidates" in now:
            place = now.index("--candidates")
            del now[place : place + 2]
        return self.with_old_search(super().do_command(now, standard_input, process))

    def parts(self, result: Any) -> Mapping[str, Any] | None:
        """The parts of an object by name; what a search found stood beside the text."""
        parts = super().parts(result)
        if parts is None or type(result).__name__ != "Filling":
            return parts
        return {name: self.with_old_search(value) for name, value in parts.items()}

    def with_old_search(self, value: Any) -> Any:
        """The value with what a search found beside the text, and words without their lengths."""
        if isinstance(value, str):
            return re.sub(r"\[WORD:[0-9-]+\]", "[WORD]", value)
        if isinstance(value, Mapping):
            old = {name: self.with_old_search(one) for name, one in value.items()}
            search = old.pop("search", None)
            if isinstance(search, Mapping) and "bound" in search:
                return old | {name: search[name] for name in self.FOUND}
            if search is not None:
                old["search"] = search
            return old
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            return type(value)(self.with_old_search(one) for one in value)
        return value


class Starts61(Fillings61):
    """Names of issue 61: `sample` takes where chains start by `start`, and `allow` and `alphabet`
    beside it; `allow` numbers blanks from 1, not the positions of tokens.
    """

    def mark_method(self, name: str, **options: Any) -> Any:
        """An object of a public class; the former class Start is a group of options."""
        if name == "Start":
            return SimpleNamespace(**options)
        return super().mark_method(name, **options)

    def do_sample(self, model: Any, start: Any = None, **options: Any) -> Result:
        """Samples of chains."""
        given = {} if start is None else vars(start)
        if "init" in given:
            options["start"] = given["init"]
        elif given.get("random_start"):
            options["start"] = "random"
        template = options.get("template")
        options |= self.limits_of(model, template, given)
        return self.public("sample")(model=model, **options)

    def limits_of(self, model: Any, template: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        """The tokens that may stand in blanks; positions of tokens become numbers of blanks."""
        limits = {}
        if "alphabet" in given:
            limits["alphabet"] = given["alphabet"]
        if "allow" in given:
            blanks = list(model.cloze(template).block)
            limits["allow"] = {
                blanks.index(position) + 1: tokens for position, tokens in given["allow"].items()
            }
        return limits

    def do_generated(
        self, model: Any, kernel: Any, n_texts: int, seed: int = 0, **options: Any
    ) -> Result:
        """Texts of a decoder."""
        start = options.pop("start", None)
        if start is not None:
            options |= self.limits_of(model, options["template"], vars(start))
        return super().do_generated(model, kernel, n_texts, seed, **options)

    def parts(self, result: Any) -> Mapping[str, Any] | None:
        """The parts of an object by name; the settings of a run had a group of options."""
        parts = super().parts(result)
        if parts is None or type(result).__name__ != "SampleRun":
            return parts
        settings = dict(parts["to_dict"]["settings"])
        start = settings["start"]
        settings["start"] = {
            "init": [] if isinstance(start, str) else start,
            "random_start": start == "random",
            "allow": settings.pop("allow"),
            "alphabet": settings.pop("alphabet"),
        }
        return {**parts, "to_dict": {**parts["to_dict"], "settings": settings}}


class Translation61(Starts61):
    """Names of issue 61: `translate` has a decoder, and a kernel that moves what it wrote."""

    KEYS: Mapping[str, str] = {**Starts61.KEYS, "length_beam": "lengths", "measures": "figures"}
    ERRORS: Mapping[str, str] = {**Starts61.ERRORS, "OfOtherKind": "InputError"}
    WRITERS = ("beam", "confidence", "entropy-bound", "mask-predict", "revise")
    """Decoders that calls name; they were kernels."""

    def parts(self, result: Any) -> Mapping[str, Any] | None:
        """The parts of an object by name; the rows of a study of the lab were lists of values."""
        parts = super().parts(result)
        if parts is None or type(result).__name__ != "Study":
            return parts
        return {**parts, "rows": [list(row.values()) for row in parts["rows"]]}

    def do_translate(
        self, kernel: Any = "auto", start: str | None = None, **options: Any
    ) -> Result:
        """Translations; a decoder was a kernel, and what a kernel started from was its start."""
        if "lengths" in options:
            options["length_beam"] = options.pop("lengths")
        is_kernel = kernel in ("mh", "gibbs", "block", "sequential-block")
        if not is_kernel:
            decoder = None if kernel == "auto" else kernel
            return self.public("translate")(decoder=decoder, **options)
        if start == "random":
            return self.public("translate")(kernel=kernel, start=start, **options)
        name, _, steps = (start or "mask-predict").partition("@")
        assert name == "mask-predict"
        decoder = self.public("MaskPredict")(passes=int(steps or 10))
        return self.public("translate")(decoder=decoder, kernel=kernel, **options)

    def do_command(
        self, words: Sequence[str], standard_input: str = "", process: bool = False
    ) -> Result:
        """A command by its names now."""
        now = list(words)
        if now[0] == "translate":
            now = self.translate_words(now)
        return super().do_command(now, standard_input, process)

    def translate_words(self, words: Sequence[str]) -> list[str]:
        """The words of `translate` by their names now."""
        now = ["--length-beam" if word == "--lengths" else word for word in words]
        if "--kernel" in now:
            place = now.index("--kernel")
            if now[place + 1] == "auto":
                del now[place : place + 2]
            elif now[place + 1] in self.WRITERS:
                now[place] = "--decoder"
        if "--start" in now:
            place = now.index("--start")
            name, _, steps = now[place + 1].partition("@")
            if name != "random":
                now[place : place + 2] = ["--decoder", name, "--passes", steps or "10"]
        return now


GENERATIONS: Sequence[tuple[str, type[Names57]]] = (
    ("unmask.verbs.translate:Translations", Translation61),
    ("unmask.sampling.settings:starts_of", Starts61),
    ("unmask.verbs.fill:FoundBySearch", Fillings61),
    ("unmask.verbs.train:TrainingRun", Training61),
    ("unmask.verbs.sample:SampleRun", Runs61),
    ("unmask.verbs.frontier:Frontier", Studies61),
    ("unmask.verbs.assay:Assay", Variants61),
    ("unmask.verbs.check:Check", Scores61),
    ("unmask:assay", Assay61),
    ("unmask:profile", Profile61),
    ("unmask:minimal_pairs", Pairs61),
    ("unmask:Construction", Constructions60),
    ("unmask:Verified.sets", Methods60),
    ("unmask.surfaces.cli.app:run", Rooms58),
    ("unmask.joints.incompatibility:incompatibility", Names57),
    ("unmask.joints.metrics:compatibility", Before57),
)
"""A name that a checkout offers, and the adapter of those that do. The first that fits is taken."""


def adapter_of_checkout() -> Names57:
    """The adapter of the checkout that this process imports."""
    for offered, adapter in GENERATIONS:
        module, _, path = offered.partition(":")
        if not module_exists(module):
            continue
        found: Any = import_module(module)
        for name in path.split("."):
            found = getattr(found, name, None)
        if found is not None:
            return adapter()
    raise SystemExit(
        "no adapter reads this checkout: it offers none of"
        f" {', '.join(offered for offered, _ in GENERATIONS)}"
    )


def module_exists(module: str) -> bool:
    """Whether a module can be imported."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # nor can the package around it
        return False


def value_of(result: Any, name: str) -> Any:
    """An attribute, or what a method without arguments returns."""
    value = getattr(result, name)
    return value() if callable(value) else value


def joint_parts(joint: Any) -> dict[str, Any]:
    """All that a joint can be asked for."""
    sites = len(joint.shape)
    pairs = [(site, other) for site in range(sites) for other in range(site)]
    first = [int(tokens[0]) for tokens in joint.tables.candidates]
    parts = {
        "name": joint.name,
        "shape": list(joint.shape),
        "candidates": list(joint.tables.candidates),
        "log_z": joint.log_z,
        "report": dict(joint.report),
        "marginals": list(joint.marginals()),
        "topk": list(joint.topk(5)),
        "log_prob": joint.log_prob(joint.topk(5)[0]),
        "sample": joint.sample(16, seed=7),
        "entropy": joint.entropy(),
        "total_correlation": joint.total_correlation(),
        "mutual_information": [joint.mutual_information(site, other) for site, other in pairs],
        "conditional": [
            joint.conditional(site, first[:site] + first[site + 1 :]) for site in range(sites)
        ],
        "to_frame": joint.to_frame(5),
    }
    cells = 1
    for size in joint.shape:
        cells *= size
    if cells <= MANY_CELLS:
        parts["dense"] = joint.dense()
    return parts


def printed(code: int, output: str, errors: str) -> dict[str, Any]:
    """What a command printed: JSON as values, other output as text, errors as messages."""
    import json

    lines = output.splitlines()
    try:
        rows = json.loads(output) if output.lstrip().startswith(("{", "[")) else None
    except ValueError:
        try:
            rows = [json.loads(line) for line in lines]
        except ValueError:
            rows = None
    return {
        "exit_code": code,
        "output": lines if rows is None else rows,
        "errors": {"lines": errors.splitlines()},
    }


KEPT = Path("kept")
"""What a worker keeps for later calls, in its working directory."""


@cache
def trained_translator(adapter: Names57, name: str) -> str:
    """The folder of a translator that was trained for a few steps."""
    folder = KEPT / name
    objective = "causal" if name == "causal-pairs" else "masked"
    sides = [Path("materials/sources.txt"), Path("materials/targets.txt")]
    shape = adapter.public("Shape")(layers=2, width=16, heads=2, vocab=96, max_length=48)
    optimisation = adapter.public("Optimisation")(
        steps=12, batch_tokens=512, lr=0.01, warmup=2, dropout=0.0
    )
    options = {
        "objective": objective,
        "shape": shape,
        "optimisation": optimisation,
        "seed": 3,
        "device": "cpu",
    }
    adapter.public("train")(parallel=sides, out=str(folder), **options)
    return str(folder)


@cache
def measured_profile(adapter: Names57, model: str) -> str:
    """The file of a model's dependence profile."""
    file = KEPT / f"{model}-profile.json"
    file.parent.mkdir(exist_ok=True)
    texts = Path("materials/many.txt")
    options = {"model": adapter.mark_model(model), "candidates": 8, "save": str(file)}
    adapter.call("dependence", {"profile": texts, **options})
    return str(file)


def clear(folder: Path) -> None:
    """Remove what a call wrote into the working directory."""
    for entry in folder.iterdir():
        if entry.name in ("materials", KEPT.name):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            os.unlink(entry)
