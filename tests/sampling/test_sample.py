"""`unmask.sample` and `unmask.diagnose` from Python: what they return, and that they leave what
the commands leave.
"""

import json

import pytest

import unmask
from sampling.test_sample_command import unmask as command
from unmask.common.errors import InputError
from unmask.common.files import in_json
from unmask.sampling.kernels.kernel import KERNELS
from unmask.sampling.settings import starts_of


def contents(folder):
    """Every file of a run, without what tells when and where it ran."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != ".lock":
            files[str(path.relative_to(folder))] = path.read_bytes()
    settings = json.loads(files["settings.json"])
    files["settings.json"] = {k: v for k, v in settings.items() if k not in ("run", "begun")}
    return {
        name: content for name, content in files.items() if not name.startswith("parts/")
    }, sorted(files)


def test_the_function_leaves_exactly_what_the_command_leaves(tiny_folder, tmp_path):
    ran = command(
        *(
            "sample",
            "the [MASK] [MASK] on .",
            "--allow",
            "1=cat",
            "--allow",
            "1=dog,mat",
            "--chains",
            3,
        ),
        *("--sweeps", 6, "--burn-in", 1, "--energy-temperature", 1.5),
        *("--model", tiny_folder, "--device", "cpu", "--out", tmp_path / "a"),
    )
    assert ran.exit_code == 0, ran.output
    run = unmask.sample(
        "the [MASK] [MASK] on .",
        allow={1: ["cat", "dog", "mat"]},
        chains=3,
        sweeps=6,
        burn_in=1,
        kernel=unmask.MH(energy_temperature=1.5),
        model=unmask.ModelSpec(tiny_folder, device="cpu"),
        out=tmp_path / "b",
    )
    one, other = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert one == other
    assert {
        "samples.parquet",
        "starts.parquet",
        "rates.parquet",
        "diagnostics.json",
        "figures/chains.png",
    } <= set(one[1])
    assert len({row["ids"][2] for row in run.rows}) > 1
    assert run.folder == tmp_path / "b"


def test_what_a_run_shows(tiny):
    run = unmask.sample(chains=3, sweeps=5, length=4, model=tiny)
    frame = run.to_frame()
    assert list(frame.columns) == list(run.rows[0])
    assert frame["text"].tolist() == run.texts == [row["text"] for row in run.rows]
    assert len(run.rows) == len(run.samples) == 15
    assert run.folder is None
    told = run.to_dict()
    written = in_json(told)
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    assert len(told["samples"]) == 3
    assert told["diagnosis"]["verdict"] == run.diagnosis.verdict()
    html = run._repr_html_()
    assert "invariant" in html
    assert run.texts[-1] in html
    assert "Metropolis-Hastings" in repr(run)
    assert len(repr(run)) < 120


def test_what_a_diagnosis_shows(tiny, tmp_path):
    run = unmask.sample(chains=3, sweeps=6, length=[4, 5], model=tiny, out=tmp_path)
    diagnoses = unmask.diagnose(tmp_path)
    (diagnosis,) = diagnoses.runs
    assert (
        in_json(diagnosis.to_dict())
        == json.loads((tmp_path / "diagnostics.json").read_text())
        == in_json(unmask.diagnose(run)[0].to_dict())
    )
    assert diagnosis.to_frame()["name"].tolist() == ["energy", "unchanged", "stutter"] * 2
    assert diagnosis.verdict()[0][:20] in diagnoses._repr_html_()
    assert diagnoses.view()["tables"] == diagnosis.view()["tables"]
    assert "mh" in repr(diagnosis)


def test_chains_start_from_texts_or_a_file(tiny, tmp_path):
    (tmp_path / "starts.txt").write_text("the cat sat\na dog ran under the tree\n")
    one = unmask.sample(
        start=["the cat sat", "a dog ran under the tree"],
        chains=3,
        sweeps=2,
        model=tiny,
    )
    other = unmask.sample(start=tmp_path / "starts.txt", chains=3, sweeps=2, model=tiny)
    assert (
        [row["text"] for row in one.starts]
        == [row["text"] for row in other.starts]
        == ["the cat sat", "a dog ran under the tree", "the cat sat"]
    )
    assert one.texts == other.texts


def test_an_alphabet_restricts_every_site(tiny, tmp_path):
    (tmp_path / "words.txt").write_text("cat\ndog\nmat\n")
    for alphabet in (
        ["cat", "dog", "mat"],
        "cat,dog,mat",
        tmp_path / "words.txt",
        str(tmp_path / "words.txt"),
    ):
        run = unmask.sample(alphabet=alphabet, length=4, chains=4, sweeps=5, model=tiny)
        assert {word for text in run.texts for word in text.split()} == {
            "cat",
            "dog",
            "mat",
        }
        assert run.settings.alphabet == ("cat", "dog", "mat")
    options = {"alphabet": "cat,dog", "chains": 2, "sweeps": 3, "model": tiny}
    both = unmask.sample("the [MASK] [MASK]", allow={1: ["dog", "tree"]}, **options)
    assert {text.split()[1] for text in both.texts} == {"dog"}


def test_user_terms_are_added_and_forbid(tiny):
    cat = tiny.words.encode("cat")[1]

    def no_cats(ids):
        return torch_inf(ids == cat)

    def torch_inf(where):
        return where.any(-1).double().masked_fill(where.any(-1), float("inf"))

    cats_forbidden = unmask.Energy(user_terms=[no_cats])
    run = unmask.sample(
        start=["the dog sat"],
        chains=8,
        sweeps=10,
        energy=cats_forbidden,
        model=tiny,
    )
    assert not any("cat" in text.split() for text in run.texts)
    with pytest.raises(
        InputError,
        match="forbidden by a user term, where the target is zero: give starts that it allows",
    ):
        unmask.sample(
            start=["the cat sat"],
            chains=2,
            sweeps=2,
            energy=cats_forbidden,
            model=tiny,
        )
    with pytest.raises(InputError, match="returned a float: return a tensor"):
        unmask.sample(
            chains=2, sweeps=2, energy=unmask.Energy(user_terms=[lambda ids: 1.0]), model=tiny
        )
    with pytest.raises(InputError, match="nan or -inf"):
        unmask.sample(
            chains=2,
            sweeps=2,
            energy=unmask.Energy(user_terms=[lambda ids: ids[:, 0] * float("nan")]),
            model=tiny,
        )


@pytest.mark.parametrize(
    "kernel", [name for name, method in KERNELS.items() if not method.uses_terms]
)
def test_a_kernel_whose_law_does_not_have_the_term_refuses_it(tiny, kernel):
    for energy in (
        unmask.Energy(user_terms=[lambda ids: ids[:, 0]]),
        unmask.Energy(text_terms=(len,)),
    ):
        with pytest.raises(
            InputError,
            match=f"^kernel {kernel} does not use terms of your own: leave them out, or use one of",
        ):
            unmask.sample(
                "the [MASK]", kernel=kernel, chains=2, sweeps=2, energy=energy, model=tiny
            )


def test_terms_of_texts_are_those_of_their_tokens(tiny):
    dog = tiny.words.encode("dog")[1]
    options = {"chains": 6, "sweeps": 6, "length": 4, "model": tiny}
    of_ids = unmask.Energy(user_terms=[lambda ids: -5.0 * (ids == dog).sum(-1)])
    of_texts = unmask.Energy(text_terms=(lambda text: -5.0 * text.split().count("dog"),))
    plain, one, other = (
        unmask.sample(energy=energy, **options).to_frame() for energy in ("norm", of_ids, of_texts)
    )
    assert one.equals(other)
    assert list(one["text"]) != list(plain["text"])
    with pytest.raises(
        InputError,
        match=(
            "a term of your own fails .*: user_terms map token ids to numbers, text_terms one text"
            " to one number"
        ),
    ):
        unmask.sample(energy=unmask.Energy(user_terms=[lambda text: text.split("cat")]), **options)
    with pytest.raises(InputError, match="text_terms one text to one number"):
        unmask.sample(
            energy=unmask.Energy(text_terms=[lambda texts: [len(text) for text in texts]]),
            **options,
        )


def test_starts_of_a_fasta_file_are_its_sequences(tmp_path):
    (tmp_path / "starts.fa").write_text(">one of two\nMKT\nLL\n>two\nEVQL\n")
    assert starts_of(tmp_path / "starts.fa") == ("MKTLL", "EVQL")


def test_partial_has_the_run_so_far(tiny, tmp_path, stop_at):
    """After 4 sweeps of all groups together, 8 and so on, also of a run that goes on."""
    options = {"length": [4, 5], "chains": 4, "sweeps": 6, "burn_in": 1, "seed": 3, "model": tiny}
    whole = unmask.sample(**options)
    looks = []
    again = unmask.sample(**options, partial=looks.append)
    assert again.texts == whole.texts
    # Two groups of six sweeps, one after the other: the second has begun at the second look.
    assert [len(look.rows) for look in looks] == [3 * 2, 5 * 2 + 1 * 2]
    for look in looks:
        known = {(row["chain"], row["sweep"]): row for row in whole.rows}
        assert all(known[row["chain"], row["sweep"]] == row for row in look.rows)
        assert look.about()
    with pytest.raises(KeyboardInterrupt):
        unmask.sample(**options, out=tmp_path, progress=stop_at(5))
    later = []
    resumed = unmask.sample(**options, out=tmp_path, partial=later.append)
    assert resumed.texts == whole.texts
    assert [len(look.rows) for look in later] == [4 * 2, 5 * 2 + 3 * 2]
    known = {(row["chain"], row["sweep"]): row for row in whole.rows}
    assert all(known[row["chain"], row["sweep"]] == row for look in later for row in look.rows)
