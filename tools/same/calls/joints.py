"""Tables and joints of models that are tables, and of tables of one's own."""

from __future__ import annotations

from collections.abc import Iterator

from same.calls import Call, call

CONSTRUCTIONS = (
    "product",
    "mrf_logit",
    "mrf",
    "hcb",
    "arnold_gokhale",
    "balanced",
    "pseudo_gibbs",
    "restarted",
    "chain",
)
MEMBERS = tuple(
    f"family:{alpha},{restart}" for alpha in (0, 0.3, 0.75, 1) for restart in (0, 0.1, 0.6)
)
SHAPES = {"3x3": (3, 2), "6x6": (6, 2), "2x2x2": (2, 3), "3x3x3": (3, 3), "2x2x2x2": (2, 4)}
"""Tokens and positions of a tabular model, all of whose positions are blanks."""


def block(shape: tuple[int, int], seed: int, scale: float = 1.5, ruled_out: float = 0.0) -> Call:
    """The arguments of tables of all positions of a tabular model; its mask follows its tokens."""
    tokens, length = shape
    tabular = {"$tabular": list(shape), "seed": seed, "scale": scale, "ruled_out": ruled_out}
    return {"model": tabular, "ids": [tokens] * length, "block": list(range(length))}


def calls() -> list[Call]:
    """All calls of this file."""
    return [*of_tables(), *of_joints(), *of_options(), *of_own_tables(), *of_incompatibility()]


def of_tables() -> Iterator[Call]:
    """Unary tables: all tokens, candidates, other dtypes, a part of the text in view."""
    for name, shape in SHAPES.items():
        for seed in range(2):
            yield call(f"tables/{name}/{seed}", "tables", **block(shape, seed))
    for dtype in ("float32", "float64"):
        for seed in range(3):
            sets = [[0, 2, 5], [1, 3, 4]]
            yield call(
                f"tables/candidates/{dtype}/{seed}",
                "tables",
                **block((6, 2), seed),
                candidates=sets,
                dtype=dtype,
            )
    for seed in range(4):
        in_view = {**block((4, 4), seed), "ids": [4, 1, 4, 2], "block": [0, 2]}
        yield call(f"tables/in-view/{seed}", "tables", **in_view)
        yield call(f"tables/turned/{seed}", "tables", **{**in_view, "block": [2, 0]})


def of_joints() -> Iterator[Call]:
    """Every construction over every shape, alone and together with the others."""
    for name, shape in SHAPES.items():
        for scale in (0.5, 3.0):
            for seed in range(3):
                tables = block(shape, seed, scale)
                gold = [seed % shape[0]] * shape[1]
                yield call(f"joints/{name}/scale-{scale}/{seed}", "joints", gold=gold, **tables)
                for construction in CONSTRUCTIONS:
                    where = f"joint/{name}/scale-{scale}/{seed}/{construction}"
                    yield call(where, "joint", construction=construction, **tables)
    for seed in range(4):
        tables = block((4, 2), seed, ruled_out=0.2)
        for construction in CONSTRUCTIONS:
            refused = "refused/" if (seed, construction) == (1, "hcb") else ""
            yield call(
                f"{refused}joint/ruled-out/{seed}/{construction}",
                "joint",
                construction=construction,
                **tables,
            )
    for construction in CONSTRUCTIONS:
        tables = {**block((5, 3), seed=1), "ids": [1, 5, 2], "block": [1]}
        yield call(f"joint/one-blank/{construction}", "joint", construction=construction, **tables)


def of_options() -> Iterator[Call]:
    """Members of the family, pivots, and numbers of steps."""
    for name in ("6x6", "2x2x2", "3x3x3"):
        for member in MEMBERS:
            where = f"joint/{name}/member/{member.removeprefix('family:')}"
            yield call(where, "joint", construction=member, **block(SHAPES[name], seed=1))
    for shape in ("3x3", "3x3x3"):
        for pivot in range(3):
            options = {"pivot": [pivot] * SHAPES[shape][1]}
            tables = block(SHAPES[shape], seed=2)
            yield call(
                f"joint/{shape}/pivot/{pivot}",
                "joint",
                construction="hcb",
                options=options,
                **tables,
            )
        for steps in (1, 5, 50):
            options = {"steps": steps}
            tables = block(SHAPES[shape], seed=2)
            yield call(
                f"joint/{shape}/steps/{steps}",
                "joint",
                construction="arnold_gokhale",
                options=options,
                **tables,
            )
        for tolerance in (1e-2, 1e-9):
            options = {"tolerance": tolerance}
            tables = block(SHAPES[shape], seed=2)
            for construction in ("arnold_gokhale", "balanced"):
                where = f"joint/{shape}/tolerance/{tolerance}/{construction}"
                yield call(where, "joint", construction=construction, options=options, **tables)


def of_own_tables() -> Iterator[Call]:
    """Joints of conditionals of one's own, some with zeros."""
    for rows, columns in ((2, 2), (3, 5)):
        for seed in range(2):
            for zeros in (False, True):
                numbers = {
                    "$conditionals": [rows, columns],
                    "seed": seed,
                    "scale": 1.0,
                    "zeros": zeros,
                }
                for construction in CONSTRUCTIONS:
                    end = "zeros" if zeros else "positive"
                    where = f"own-joint/{rows}x{columns}/{seed}/{end}/{construction}"
                    yield call(where, "own_joint", construction=construction, conditionals=numbers)
    pair = {"$conditionals": [2, 3], "seed": 5, "scale": 1.0}
    for construction in ("product", "arnold_gokhale"):
        labels = [["no", "yes"], ["low", "middle", "high"]]
        yield call(
            f"own-joint/labels/{construction}",
            "own_joint",
            construction=construction,
            conditionals=pair,
            labels=labels,
        )
    for construction in ("product", "chain", "restarted"):
        masked = [[0.3, 0.7], [0.2, 0.3, 0.5]]
        yield call(
            f"own-joint/masked/{construction}",
            "own_joint",
            construction=construction,
            conditionals=pair,
            masked=masked,
        )


def of_incompatibility() -> Iterator[Call]:
    """How far tables are from having a common joint."""
    for name, shape in SHAPES.items():
        for scale in (0.2, 2.0):
            for seed in range(2):
                yield call(
                    f"incompatibility/{name}/scale-{scale}/{seed}",
                    "incompatibility",
                    tables=block(shape, seed, scale),
                )
    for seed in range(4):
        for zeros in (False, True):
            numbers = {"$conditionals": [3, 4], "seed": seed, "scale": 1.0, "zeros": zeros}
            end = "zeros" if zeros else "positive"
            yield call(
                f"incompatibility/own/{end}/{seed}",
                "incompatibility",
                tables={"conditionals": numbers},
            )
