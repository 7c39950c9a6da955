"""`rredcot.sigma_weights`: σ·T where the trainer's tokens stand, or an error that names the row."""
import json

import numpy as np
import pyarrow as pa
import pytest

import rredcot
from rredcot._credit import Stored, of_environment

IDS = [[5, 6, 7], [8, 9]]
SIGMA = [[0.5, 0.25, 0.25], [0.9, 0.1]]


@pytest.fixture
def table():
    return pa.table({"id": ["a", "b"], "completion_ids": IDS, "sigma": SIGMA, "sigma_gain": [3.0, None]})


def batch(**more):
    """Behind a prompt, and padded at the end, in another order than the table."""
    return {
        "completion_ids": [[1, 8, 9, 0, 0], [2, 2, 5, 6, 7]],
        "completion_mask": [[0, 1, 1, 0, 0], [0, 0, 1, 1, 1]],
        **more,
    }


def test_weights_stand_where_the_tokens_do(table):
    expected = [[0, 1.8, 0.2, 0, 0], [0, 0, 1.5, 0.75, 0.75]]
    for given in (batch(), batch(id=["b", "a"])):
        found = rredcot.sigma_weights(table, given)
        assert found.dtype == np.float32 and found == pytest.approx(np.array(expected), rel=1e-6)
    # a trace without a gain counts as 1: the mean is 2
    assert rredcot.sigma_weights(table, batch(), by_gain=True) == pytest.approx(np.array(expected) / 2)


def test_uniform_sigma_is_exactly_the_trainer_s_own_loss():
    third = pa.array([[1 / 3] * 3], pa.list_(pa.float32()))
    table = pa.table({"completion_ids": [[1, 2, 3]], "sigma": third})
    found = rredcot.sigma_weights(table, {"responses": [[1, 2, 3]], "response_mask": [[1, 1, 1]]}, mask="response_mask", ids="responses")
    assert (found == 1).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": ["b", "c"]}, "row 1 of the batch, id 'c': is not among the scored rows"),
        ({"id": ["b", "b"]}, "row 1 of the batch, id 'b': its 3 tokens are not the 2 that were scored"),
        ({"completion_mask": [[0, 1, 0, 0, 0], [0, 0, 1, 1, 1]]}, "row 0 of the batch: is not among"),
        ({"completion_mask": [[0, 1, 1, 0]] * 2}, "expected the same"),
    ],
)
def test_what_does_not_fit_is_named(table, change, message):
    with pytest.raises(ValueError, match=message):
        rredcot.sigma_weights(table, batch(**change))


def test_a_sigma_that_is_none_is_refused(table):
    wrong = table.set_column(2, "sigma", pa.array([[0.5, 0.25, 0.5], SIGMA[1]]))
    no_number = table.set_column(2, "sigma", pa.array([[0.5, float("nan"), 0.5], SIGMA[1]]))
    with pytest.raises(ValueError, match="row 1 of the batch: σ sums to nan, expected 1"):
        rredcot.sigma_weights(no_number, batch())
    with pytest.raises(ValueError, match="row 1 of the batch: σ sums to 1.25, expected 1"):
        rredcot.sigma_weights(wrong, batch())
    twice = pa.concat_tables([table, table.set_column(2, "sigma", pa.array([SIGMA[0], [0.2, 0.8]]))])
    with pytest.raises(ValueError, match="row 0 of the batch: 2 scored rows are called so, with another σ"):
        rredcot.sigma_weights(twice, batch())
    with pytest.raises(ValueError, match="the table has no sigma"):
        rredcot.sigma_weights(table.drop_columns("sigma"), batch())


def test_tensors_give_tensors(table):
    torch = pytest.importorskip("torch")
    given = {name: torch.tensor(rows) for name, rows in batch().items()}
    assert rredcot.sigma_weights(table, given).tolist() == rredcot.sigma_weights(table, batch()).tolist()


def test_a_scored_batch_fits_itself(traces):
    table = rredcot.score(traces)
    longest = max(len(row["completion_ids"]) for row in traces)
    ids = [row["completion_ids"] + [0] * (longest - len(row["completion_ids"])) for row in traces]
    mask = [[1] * len(row["completion_ids"]) + [0] * (longest - len(row["completion_ids"])) for row in traces]
    found = rredcot.sigma_weights(table, {"id": [row["id"] for row in traces], "completion_ids": ids, "completion_mask": mask})
    assert found.sum(axis=1) == pytest.approx([len(row["completion_ids"]) for row in traces], rel=1e-5)


def test_a_batch_whose_groups_are_not_known_is_fitted_to_nothing():
    from conftest import CHECKOUT
    from rredcot._credit import Live

    rows = [json.loads(line) for line in (CHECKOUT / "fixtures/chains.jsonl").read_text().splitlines()[:96]]
    batch = [{**{name: row[name] for name in ("prompt_ids", "completion_ids")}, "reference": row["answer"], "advantage": row["reward"] - 0.7} for row in rows]
    for found, of_pr in zip(Live()(batch), Live(estimator="pr")(batch)):
        assert (found == of_pr).all()


@pytest.mark.parametrize("said", [None, "{}", '{"reference": "gold"}', '{"policy": null}', '{"policy": "a", "scored": "b"}', "./policy", "[]", ""])
def test_hooks_of_trainers_take_no_policy_that_nobody_named(said, monkeypatch):
    monkeypatch.delenv("RREDCOT", raising=False)
    if said is not None:
        monkeypatch.setenv("RREDCOT", said)
    with pytest.raises(ValueError, match="RREDCOT: found .*, expected"):
        of_environment.__wrapped__()


def test_what_was_scored_twice_with_another_sigma_is_refused(traces):
    scored = rredcot.score(traces[:1] + [{**traces[0], "id": "again"}, {**traces[0], "id": "other", "reward": 1 - traces[0]["reward"]}], baseline=0.5)
    assert len(Stored(scored.slice(0, 2))(scored.slice(0, 1).to_pylist())[0]) == len(traces[0]["completion_ids"])
    with pytest.raises(ValueError, match="other: the same tokens were scored before with another σ"):
        Stored(scored)
