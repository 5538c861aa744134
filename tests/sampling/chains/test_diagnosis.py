"""Statistics of texts by hand, R-hat and ESS through ArviZ, and what the verdict says."""

from dataclasses import replace

import numpy as np
import pytest

from support.sampling_cases import settings_of
from unmask import diagnose
from unmask.common.errors import InputError, MissingLibrary
from unmask.common.plain import in_json
from unmask.sampling.chains.chain_samples import ChainSamples
from unmask.sampling.chains.convergence import measure, stutter_rate
from unmask.sampling.chains.drawing import draw_samples
from unmask.sampling.chains.figure import chain_figure
from unmask.sampling.chains.samples import Samples
from unmask.sampling.chains.statistics import statistics_of
from unmask.verbs.diagnose import diagnosis_of


def made_up_run(energy, starts=None, tokens=None, **settings):
    """A run whose energies are given, (chains, draws), over texts of four tokens."""
    chains, draws = energy.shape
    rng = np.random.default_rng(0)
    tokens = rng.integers(5, 50, (chains, draws, 4)) if tokens is None else tokens
    ids = np.empty(chains * draws, dtype=object)
    ids[:] = [np.array([2, *text, 3], dtype=np.int32) for text in tokens.reshape(-1, 4)]
    samples = Samples(
        chain=np.repeat(np.arange(chains, dtype=np.int32), draws),
        sweep=np.tile(np.arange(draws, dtype=np.int32) + 1, chains),
        text=np.array([" ".join(map(str, text)) for text in ids], dtype=object),
        energy=energy.ravel(),
        passes=np.tile(10 * (np.arange(draws) + 1), chains),
        length=np.full(chains * draws, 4, dtype=np.int32),
        ids=ids,
    )
    starts = [[2, 60, 61, 62, 63, 3]] * chains if starts is None else starts
    counts = {"steps": 100, "accepted": 90, "proposed": 40, "changed": 11, "scoring_passes": 0}
    rates = [{"length": 4, "position": position, **counts} for position in (1, 2, 3, 4)]
    options = settings_of(**{"chains": chains, "sweeps": draws, "length": (4,), **settings})
    known = [{"chain": chain, "ids": start} for chain, start in enumerate(starts)]
    return ChainSamples(options, samples, known, rates)


def test_stutter_by_hand():
    assert stutter_rate([[1, 1, 2], [3, 3, 3]]) == pytest.approx(3 / 4)


def test_independent_draws_look_mixed_and_stuck_chains_do_not():
    rng = np.random.default_rng(1)
    good = measure("energy", 4, rng.normal(size=(8, 400)), 3200)
    assert good.r_hat < 1.01
    assert 2200 < good.ess_bulk < 4200
    assert good.ess_per_1000_passes == pytest.approx(good.ess_bulk / 3.2)
    stuck = measure("energy", 4, rng.normal(size=(8, 400)) + 5 * np.arange(8)[:, None], 3200)
    assert stuck.r_hat > 2
    assert np.isnan([stuck.ess_bulk, stuck.ess_tail, stuck.ess_per_1000_passes]).all()
    slow = np.cumsum(rng.normal(size=(4, 400)), 1)
    assert measure("energy", 4, slow, 1600).r_hat > 1.1
    correlated = np.zeros((8, 2000))
    for t in range(1, 2000):
        correlated[:, t] = 0.9 * correlated[:, t - 1] + rng.normal(size=8)
    expected = 16000 * (1 - 0.9) / (1 + 0.9)
    assert measure("energy", 4, correlated, 1).ess_bulk == pytest.approx(expected, rel=0.2)


def test_what_cannot_be_told_is_nan():
    for draws in (np.ones((4, 20)), np.random.default_rng(0).normal(size=(4, 3))):
        functional = measure("stutter", 4, draws, 10)
        assert np.isnan(functional.r_hat)
        assert np.isnan(functional.ess_bulk)
    assert np.isnan(measure("energy", 4, np.random.default_rng(0).normal(size=(1, 50)), 10).r_hat)


@pytest.mark.parametrize(("draws", "known"), [(30, False), (600, True)])
def test_more_independent_draws_than_draws_are_believed_of_many_only(draws, known):
    """Neighbouring draws on opposite sides of the mean, from chains that agree: the ESS is
    above their number.
    """
    signs = (-1.0) ** (np.arange(draws) + np.arange(4)[:, None])
    opposite = signs + np.random.default_rng(3).normal(size=(4, draws))
    functional = measure("energy", 4, opposite, 100)
    assert functional.r_hat < 1.05
    assert (functional.ess_bulk > opposite.size) if known else np.isnan(functional.ess_bulk)


def test_a_verdict_without_an_effective_sample_size():
    opposite = (-1.0) ** np.arange(12) + np.random.default_rng(3).normal(size=(2, 12))
    tokens = np.full((2, 12, 4), 9)  # the other functionals do not vary
    diagnosis = diagnosis_of(made_up_run(opposite, tokens=tokens))
    assert np.isnan(diagnosis.functionals[0].ess_bulk)
    assert diagnosis.functionals[0].r_hat < 1.05
    assert "are worth" not in " ".join(diagnosis.verdict())


def test_runs_side_by_side():
    rng = np.random.default_rng(2)
    mixed, stuck = rng.normal(size=(8, 300)), rng.normal(size=(8, 300)) + 4 * np.arange(8)[:, None]
    runs = [made_up_run(mixed), made_up_run(stuck), made_up_run(mixed, kernel="gibbs")]
    diagnoses = diagnose(runs)
    alone = [diagnosis_of(run) for run in runs]
    assert diagnoses.names == ["run 1", "run 2", "run 3"]
    named = zip(diagnoses.names, alone, strict=True)
    # As JSON: NaN is not equal to itself.
    assert in_json(diagnoses.to_dict()) == {
        "runs": [{"run": name, **in_json(one.to_dict())} for name, one in named]
    }
    frame = diagnoses.to_frame()
    assert frame["r_hat"][0] == max(f.r_hat for f in alone[0].functionals)
    assert frame["ess_bulk"][0] == min(f.ess_bulk for f in alone[0].functionals)
    assert frame["r_hat"][1] > 2
    assert np.isnan(frame["ess_bulk"][1])
    assert frame["kernel"].tolist() == ["mh", "mh", "gibbs"]
    assert not frame.isna()["r_hat"].any()
    with pytest.raises(InputError, match="run is empty"):
        diagnose([])
    with pytest.raises(InputError, match="run 2 of 2: folder '/nowhere' holds no run"):
        diagnose([runs[0], "/nowhere"])


def test_the_verdict_says_when_chains_have_not_mixed():
    rng = np.random.default_rng(2)
    mixed = diagnosis_of(made_up_run(rng.normal(size=(8, 300))))
    assert "No sign that the chains have not mixed" in " ".join(mixed.verdict())
    stuck = diagnosis_of(made_up_run(rng.normal(size=(8, 300)) + 4 * np.arange(8)[:, None]))
    assert any(
        line.startswith("The chains have NOT mixed: R-hat of the energy")
        for line in stuck.verdict()
    )
    assert "NOT mixed" in repr(stuck)
    assert "invariant" in stuck.verdict()[0]
    assert "only 11% of redrawn tokens changed" in " ".join(mixed.verdict())
    few = diagnosis_of(made_up_run(rng.normal(size=(8, 3))))
    assert few.verdict()[1].startswith("8 chains of 3 draws cannot tell whether chains mix: ")
    one = diagnosis_of(made_up_run(rng.normal(size=(1, 30))))
    assert one.verdict()[1].startswith("1 chain of 30 draws cannot tell whether chains mix: ")
    assert one.about()[0].startswith("1 chain of 30 draws, 300 passes; ")


def test_the_verdict_states_the_largest_r_hat():
    diagnosis = diagnosis_of(made_up_run(np.random.default_rng(2).normal(size=(8, 300))))
    worst = max(diagnosis.functionals, key=lambda f: np.nan_to_num(f.r_hat))
    (said,) = [line for line in diagnosis.verdict() if line.startswith("No sign")]
    name = {"energy": "energy", "unchanged": "number of unchanged tokens"}.get(
        worst.name, "number of equal neighbours"
    )
    assert said == (
        "No sign that the chains have not mixed: the largest R-hat, that of the"
        f" {name}, is {worst.r_hat:.3f}."
    )


def test_r_hat_at_its_limit_is_not_below_it():
    diagnosis = diagnosis_of(made_up_run(np.random.default_rng(2).normal(size=(8, 300))))
    at_limit = [replace(one, r_hat=1.01, ess_bulk=399.9) for one in diagnosis.functionals]
    said = " ".join(replace(diagnosis, functionals=at_limit).verdict())
    assert "have nearly mixed: R-hat of the energy is 1.010, which should be below 1.01" in said
    assert "2,400 draws are worth 399 independent ones for the energy; 400 are wanted" in said


def two_lengths(diagnosis, **of_second):
    """The functionals of a diagnosis, those of its length and the same of texts of 6 tokens."""
    of_six = [replace(one, length=6, **of_second) for one in diagnosis.functionals]
    return replace(diagnosis, functionals=[*diagnosis.functionals, *of_six])


def test_of_several_lengths_the_verdict_names_the_one_that_it_is_about():
    diagnosis = diagnosis_of(made_up_run(np.random.default_rng(2).normal(size=(8, 300))))
    slow = " ".join(two_lengths(diagnosis, r_hat=1.02, ess_bulk=70.0).verdict())
    assert "R-hat of the energy (texts of 6 tokens) is 1.020" in slow
    assert "The draws are worth 70 independent ones for the energy (texts of 6 tokens);" in slow
    unknown = two_lengths(diagnosis, r_hat=np.nan).verdict()
    assert any("No sign that the chains have not mixed" in line for line in unknown)
    assert any(line.startswith("Texts of 6 tokens have no R-hat,") for line in unknown)


@pytest.mark.parametrize(
    ("lengths", "said"),
    [([1], "1 token"), ([1, 3], "1 and 3 tokens"), ([3, 4, 5], "3, 4 and 5 tokens")],
)
def test_lengths_without_r_hat_are_listed(lengths, said):
    diagnosis = diagnosis_of(made_up_run(np.random.default_rng(2).normal(size=(8, 300))))
    energy = diagnosis.functionals[0]
    unknown = [replace(energy, length=length, r_hat=np.nan) for length in lengths]
    sentences = replace(diagnosis, functionals=unknown).verdict()
    assert any(line.startswith(f"Texts of {said} have no R-hat,") for line in sentences)


def test_one_chain_of_each_length_is_not_one_that_does_not_move(tiny):
    diagnosis = diagnosis_of(draw_samples(settings_of(chains=2, sweeps=12, length=(5, 7)), tiny))
    assert diagnosis.novelty > 0
    said = " ".join(diagnosis.verdict())
    assert "Texts of 5 and 7 tokens have no R-hat" in said
    assert "do not move" not in said
    assert "No functional varies" not in said


def test_equal_numbers_do_not_vary_although_their_mean_is_rounded():
    energy = np.full((4, 333), 1.1)
    assert energy.std() > 0
    diagnosis = diagnosis_of(made_up_run(energy))
    assert diagnosis.functionals[0].sd == 0.0
    assert np.isfinite(diagnosis.row()["ess_bulk"])  # of the functionals that vary
    constant = diagnosis_of(made_up_run(energy, tokens=np.full((4, 333, 4), 9)))
    assert constant.verdict()[1] == "No functional varies, so nothing can be said about mixing."
    still = replace(constant, novelty=0.0)
    assert still.verdict()[1].endswith("about mixing: the chains do not move.")


def test_nothing_is_written_before_all_runs_are_diagnosed(tmp_path, tiny, monkeypatch):
    for name in ("a", "b"):
        draw_samples(settings_of(chains=2, sweeps=4, length=(5,)), tiny, tmp_path / name)
    measured = []

    def statistics(run):
        measured.append(run)
        if len(measured) > 1:
            raise MissingLibrary("arviz-stats", "sample")
        return statistics_of(run)

    monkeypatch.setattr("unmask.sampling.chains.statistics.statistics_of", statistics)
    with pytest.raises(MissingLibrary):
        diagnose([tmp_path / "a", tmp_path / "b"])
    assert not list(tmp_path.glob("*/diagnostics.json"))


def test_where_the_files_of_several_runs_are(tmp_path, tiny):
    for name in ("a", "b"):
        draw_samples(settings_of(chains=2, sweeps=4, length=(5,)), tiny, tmp_path / name)
    in_memory = draw_samples(settings_of(chains=2, sweeps=4, length=(5,)), tiny)
    files = "diagnostics.json and figures/chains.png are in"
    assert diagnose(in_memory).notices() == []
    assert diagnose(tmp_path / "a").notices() == [f"{files} {tmp_path / 'a'}"]
    both = diagnose([tmp_path / "a", tmp_path / "b"])
    assert both.notices() == [f"{files} the folder of each run"]
    for name in ("a", "b"):
        assert (tmp_path / name / "diagnostics.json").is_file()
        assert (tmp_path / name / "figures" / "chains.png").is_file()
    mixed = diagnose([tmp_path / "a", tmp_path / "b", in_memory])
    assert mixed.notices() == [f"{files} the folder of each run that has one"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kernel": "gibbs"}, "not exp(-E)"),
        ({"energy_temperature": 0.8}, "norm energy and what was added to it, T = 0.8"),
    ],
)
def test_the_verdict_says_what_is_sampled(settings, said):
    diagnosis = diagnosis_of(made_up_run(np.random.default_rng(0).normal(size=(4, 50)), **settings))
    assert said in " ".join(diagnosis.verdict())
    assert diagnosis.functionals
    assert "mixed" in " ".join(diagnosis.verdict())


def test_repetition_stutter_and_starts_are_reported():
    tokens = np.full((4, 30, 4), 9)
    diagnosis = diagnosis_of(
        made_up_run(np.random.default_rng(0).normal(size=(4, 30)), tokens=tokens)
    )
    assert diagnosis.stutter == 1.0
    assert diagnosis.unique == pytest.approx(1 / 120)
    text = " ".join(diagnosis.verdict())
    assert "the texts stutter" in text
    assert "started from" not in text
    still = diagnosis_of(
        made_up_run(
            np.random.default_rng(0).normal(size=(4, 30)),
            tokens=tokens,
            starts=[[2, 9, 9, 9, 9, 3]] * 4,
        )
    )
    assert still.at_start == still.start_stutter == 1.0
    assert any("had left the text it started from" in line for line in still.verdict())
    assert next(f for f in still.functionals if f.name == "unchanged").mean == 4.0


def test_stutter_is_held_against_what_the_alphabet_gives_by_chance():
    """Half of the neighbours are equal: chance with two letters, a defect with fifty words."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 2, (64, 30, 4))
    letters, words = (
        [[2, *row, 3] for row in rng.integers(0, n, (64, 4)).tolist()] for n in (2, 50)
    )
    energy = rng.normal(size=(64, 30))
    fair, unfair = (
        diagnosis_of(made_up_run(energy, tokens=tokens, starts=texts)) for texts in (letters, words)
    )
    assert fair.stutter == unfair.stutter
    assert 0.4 < fair.start_stutter < 0.6
    assert unfair.start_stutter < 0.1
    assert not any("stutter" in line for line in fair.verdict())
    assert any("the texts stutter" in line and "in the starts" in line for line in unfair.verdict())


def test_coming_back_to_the_start_is_no_sign_of_standing_still():
    """Over two texts, half of the samples are the start's; what counts is whether the chain has
    left it.
    """
    rng = np.random.default_rng(0)
    tokens = np.stack([np.full((4, 100), 7)] * 3 + [rng.integers(5, 7, (4, 100))], -1)
    tokens[:, 0, 3], starts = 6, [[2, 7, 7, 7, 5, 3]] * 4
    diagnosis = diagnosis_of(made_up_run(rng.normal(size=(4, 100)), tokens=tokens, starts=starts))
    assert diagnosis.at_start == 0.0
    assert not any("started from" in line for line in diagnosis.verdict())
    tokens[:, :20, 3] = 5
    late = diagnosis_of(made_up_run(rng.normal(size=(4, 100)), tokens=tokens, starts=starts))
    assert late.at_start >= 0.2
    assert any("run longer, or burn in" in line for line in late.verdict())


def test_numbers_of_a_real_run(tiny):
    run = draw_samples(settings_of(chains=6, sweeps=12, length=(5, 7)), tiny)
    diagnosis = diagnosis_of(run)
    assert {f.length for f in diagnosis.functionals} == {5, 7}
    assert diagnosis.passes == run.samples.last_of_each_chain().passes.sum()
    assert diagnosis.acceptance == pytest.approx(run.rates_of("accepted") / (6 * 12 * 6))
    assert 0 < diagnosis.novelty <= diagnosis.acceptance <= 1
    assert diagnosis.passes_per_step == pytest.approx(diagnosis.passes / (6 * 12 * 6))
    assert diagnosis.to_dict()["functionals"][0]["name"] == "energy"


def test_figures_are_drawn(tiny, tmp_path):
    figure = chain_figure(draw_samples(settings_of(chains=3, sweeps=6, length=(4,)), tiny))
    figure.savefig(tmp_path / "chains.png")
    assert (tmp_path / "chains.png").stat().st_size > 8_000
    assert len(figure.axes) == 3
