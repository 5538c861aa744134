"""A watcher sees every step, and changes no number."""

import pytest

import unmask
from unmask.common.errors import InputError
from unmask.runs.progress import Enough
from unmask.sampling.chains import drawing

TEMPLATE = "the [MASK] [MASK] on the [MASK] ."


class Seen:
    """Notes what it is called with, and asks for energies at every step."""

    def __init__(self, at_step=lambda number: None):
        self.calls = []
        self.texts = []
        self.at_step = at_step

    def begun(self, run):
        run.watched_energies()
        self.texts.append(run.texts().tolist())
        self.calls.append(("begun", run.done, tuple(run.group.chains)))

    def stepped(self, run, step):
        run.watched_energies()
        self.texts.append(run.texts().tolist())
        self.calls.append(("stepped", run.done, tuple(run.group.chains)))
        self.at_step(sum(name == "stepped" for name, *_ in self.calls))

    def swept(self, run, samples):
        kept = [rows.sweep for rows in samples]
        assert all(rows.ids.tolist() == self.texts[-1] for rows in samples)
        self.calls.append(("swept", run.done, kept))


@pytest.mark.parametrize("kernel", ["mh", "gibbs", "block"])
@pytest.mark.parametrize("energy", ["norm", "raw"])
def test_samples_with_and_without_a_watcher_are_equal(tiny, kernel, energy):
    asked = {"model": tiny, "kernel": kernel, "energy": energy, "chains": 3, "sweeps": 4, "seed": 5}
    seen = Seen()
    watched = unmask.sample(TEMPLATE, **asked, watcher=seen)
    alone = unmask.sample(TEMPLATE, **asked)
    assert watched.rows == alone.rows, "ids, energies and passes"
    assert watched.rates == alone.rates, "scoring passes, too"
    assert watched.starts == alone.starts
    steps = {"mh": 3, "gibbs": 3, "block": 2}[kernel]
    of_a_sweep = ["stepped"] * steps + ["swept"]
    assert [name for name, *_ in seen.calls] == ["begun", *of_a_sweep * 4]
    assert seen.texts[0] == [row["ids"] for row in alone.starts]
    assert seen.texts[-1] == [row["ids"] for row in alone.rows if row["sweep"] == 4]


@pytest.mark.parametrize("decoder", ["ancestral", "verified", "mask-predict"])
def test_texts_with_and_without_a_watcher_are_equal(tiny, decoder):
    seen = Seen()
    watched = unmask.generate(TEMPLATE, tiny, decoder=decoder, n_texts=3, watcher=seen)
    alone = unmask.generate(TEMPLATE, tiny, decoder=decoder, n_texts=3)
    assert (watched.rows, watched.ids) == (alone.rows, alone.ids)
    assert seen.texts[-1] == alone.ids
    assert seen.calls[-1] == ("swept", 1, [1])


def test_a_watcher_learns_which_sweeps_are_kept(tiny):
    seen = Seen()
    unmask.sample(TEMPLATE, tiny, chains=1, sweeps=6, burn_in=2, thin=2, watcher=seen)
    swept = [(done, kept) for name, done, kept in seen.calls if name == "swept"]
    assert swept == [(1, []), (2, []), (3, []), (4, [4]), (5, []), (6, [6])]


def test_groups_are_watched_one_after_the_other(tiny):
    """Chains of two lengths have two targets."""
    seen = Seen()
    unmask.sample(model=tiny, length=[2, 3], chains=4, sweeps=2, watcher=seen)
    begun = [chains for name, _, chains in seen.calls if name == "begun"]
    assert begun == [(0, 2), (1, 3)]
    second = seen.calls.index(("begun", 0, (1, 3)))
    assert seen.calls[second - 1] == ("swept", 2, [2])


def test_a_run_in_a_folder_is_watched_from_where_it_stood(tiny, tmp_path):
    def interrupt(number):
        if number == 8:  # in the third of six sweeps
            raise KeyboardInterrupt

    asked = {"model": tiny, "chains": 2, "sweeps": 6, "out": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt):
        unmask.sample(TEMPLATE, **asked, watcher=Seen(interrupt))
    seen = Seen()
    run = unmask.sample(TEMPLATE, **asked, watcher=seen)
    assert seen.calls[0] == ("begun", 2, (0, 1))
    assert [done for name, done, _ in seen.calls if name == "swept"] == [3, 4, 5, 6]
    assert run.rows == unmask.sample(TEMPLATE, tiny, chains=2, sweeps=6).rows


def enough_at(step):
    """A watcher in whose step the user has had enough."""

    def stop(number):
        if number == step:
            raise Enough

    return Seen(stop)


@pytest.mark.parametrize("step", [4, 6, 7, 11])
def test_stopped_chains_give_their_whole_sweeps(tiny, step):
    """Three steps are a sweep."""
    run = unmask.sample(TEMPLATE, tiny, chains=2, sweeps=8, watcher=enough_at(step))
    sweeps = (step - 1) // 3
    shorter = unmask.sample(TEMPLATE, tiny, chains=2, sweeps=sweeps)
    assert run.rows == shorter.rows
    assert run.rates == shorter.rates
    assert run.diagnosis.draws == sweeps


def test_chains_stopped_before_a_sample_are_just_stopped(tiny):
    with pytest.raises(Enough):
        unmask.sample(TEMPLATE, tiny, chains=2, sweeps=8, watcher=enough_at(3))
    with pytest.raises(Enough):
        unmask.generate(TEMPLATE, tiny, watcher=enough_at(2))


def test_a_stopped_group_does_not_lose_the_one_before(tiny):
    """The chains of the first length are done, those of the second are not."""
    run = unmask.sample(
        model=tiny, length=[2, 3], chains=2, sweeps=2, watcher=enough_at(2 * 2 + 3 + 1)
    )
    assert [(row["length"], row["sweep"]) for row in run.rows] == [(2, 1), (2, 2), (3, 1)]


def test_a_stopped_run_in_a_folder_goes_on_there(tiny, tmp_path):
    asked = {"model": tiny, "chains": 2, "sweeps": 6, "out": tmp_path / "run"}
    with pytest.raises(Enough):
        unmask.sample(TEMPLATE, **asked, watcher=enough_at(8))
    seen = Seen()
    run = unmask.sample(TEMPLATE, **asked, watcher=seen)
    assert seen.calls[0] == ("begun", 2, (0, 1))
    assert run.rows == unmask.sample(TEMPLATE, tiny, chains=2, sweeps=6).rows


def test_without_a_watcher_nothing_is_computed_for_one(tiny, monkeypatch):
    def refuse(*_):
        raise AssertionError

    monkeypatch.setattr(drawing.GroupRun, "watched_energies", refuse)
    assert unmask.sample(TEMPLATE, tiny, chains=2, sweeps=2).rows


@pytest.mark.parametrize("verb", [unmask.sample, unmask.generate])
def test_workers_cannot_be_watched(tiny_folder, verb):
    pytest.importorskip("ray")
    with pytest.raises(InputError, match="watcher"):
        verb(TEMPLATE, str(tiny_folder), engine="ray:2", watcher=Seen())


@pytest.mark.parametrize("verb", [unmask.sample, unmask.generate])
def test_a_watcher_has_its_three_methods(tiny, verb):
    with pytest.raises(InputError, match="watcher"):
        verb(TEMPLATE, tiny, watcher=print)
