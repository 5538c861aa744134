"""Small models whose words are several tokens, and the command as a user calls it."""

import pytest


@pytest.fixture(scope="session")
def pieces_folder(tmp_path_factory):
    """A random BERT whose WordPiece vocabulary splits "unplayed" into un ##play ##ed; texts of
    at most 12 tokens.
    """
    from support.small_models import save_bert

    words = "the a dog dogs cat ran sat un ##play ##ed ##ing walk ##s don ' t . ,".split()
    return save_bert(
        tmp_path_factory.mktemp("pieces"),
        words,
        None,
        positions=12,
        seed=11,
        spread=0.6,
        lowercase=True,
    )


@pytest.fixture(scope="session")
def pieces(pieces_folder):
    from unmask.models.masked_lm import MaskedLM

    return MaskedLM.load(pieces_folder, device="cpu")


@pytest.fixture(scope="session")
def roberta(roberta_folder):
    from unmask.models.masked_lm import MaskedLM

    return MaskedLM.load(roberta_folder, device="cpu")


@pytest.fixture
def unmask_score(pieces_folder):
    """Runs `unmask score ...`, or another command, with the model of `pieces_folder`: exit code,
    standard output, standard error.
    """
    from support.command_runner import invoke

    def run(*words, stdin=None, model=pieces_folder, command="score"):
        done = invoke([command, *words, "--model", model, "--device", "cpu"], stdin)
        return done.exit_code, done.stdout, done.stderr

    return run
