"""rredcot.exports: scored rows in the forms that others read."""
import pyarrow
import pytest

import rredcot
from rredcot import exports


@pytest.fixture(scope="module")
def table():
    from conftest import CHECKOUT

    return rredcot.score(CHECKOUT / "fixtures/chains.jsonl", limit=16, sigma="rudder", baseline="value")


def returns(table):
    return [row["reward"] - row["baseline"] for row in table.to_pylist()]


def test_steps_spell_the_completion_and_are_labeled_by_their_share_of_the_return(table):
    for form, name in (("prm", "labels"), ("progress", "progress")):
        rows = getattr(exports, form)(table).to_pylist()
        texts = [row["completion"] for row in table.to_pylist()]
        for row in rows:
            assert "".join(row["completions"]) in texts and len(row[name]) == len(row["completions"])
    scored = next(row for row in table.to_pylist() if row["status"] == "ok" and row["reward"] == 0)
    labels = next(row["labels"] for row in exports.prm(table).to_pylist() if "".join(row["completions"]) == scored["completion"])
    # R* is negative: what has more of it is wrong
    shares = [each["sigma"] for each in scored["segments"] if each["char_start"] != each["char_end"]]
    assert labels == [share < 0 for share in shares] and set(labels) == {True, False}


def test_vineppo_has_the_return_for_its_mean(table):
    for row, expected in zip(exports.vineppo(table).to_pylist(), returns(table)):
        assert sum(row["advantages"]) / len(row["response_token_ids"]) == pytest.approx(expected, abs=1e-5)


def test_tinker_takes_the_advantage_of_each_target(table):
    tinker = pytest.importorskip("tinker")
    weighted = exports.tinker(table, loss="cross_entropy")
    for datum, other, row, expected in zip(exports.tinker(table), weighted, table.to_pylist(), returns(table)):
        assert isinstance(datum, tinker.Datum)
        said = {name: list(value.data) for name, value in datum.loss_fn_inputs.items()}
        P, T, ids = len(row["prompt_ids"]), len(row["completion_ids"]), row["prompt_ids"] + row["completion_ids"]
        assert datum.model_input.to_ints() == ids[:-1] and said["target_tokens"] == ids[1:]
        assert said["logprobs"][P - 1 :] == pytest.approx(row["logprobs"]) and len(said["logprobs"]) == P + T - 1
        # a loss that is summed: all of the trace's return, once
        assert sum(said["advantages"]) == pytest.approx(expected, abs=1e-5) and not any(said["advantages"][: P - 1])
        assert set(other.loss_fn_inputs) == {"target_tokens", "weights"}
        assert sum(other.loss_fn_inputs["weights"].data) == pytest.approx(T, rel=1e-4)
    # nothing predicts the first token of a trace without a prompt
    [bare] = exports.tinker(pyarrow.Table.from_pylist([{**table.to_pylist()[0], "prompt_ids": []}]))
    assert {len(value.data) for value in bare.loss_fn_inputs.values()} == {bare.model_input.length}


def test_rows_that_cannot_be_told_apart_are_refused(table):
    rows = table.to_pylist()
    with pytest.raises(ValueError, match="no trace has a baseline"):
        exports.vineppo(pyarrow.Table.from_pylist([{**row, "baseline": None} for row in rows]))
    with pytest.raises(ValueError, match="tells no step from another"):
        exports.prm(pyarrow.Table.from_pylist([{**row, "status": "uniform:flat-values"} for row in rows]))
    # sigma of one sign, as of the default rule: labels would be outcomes
    signless = [{**row, "segments": [{**each, "sigma": abs(each["sigma"])} for each in row["segments"]]} for row in rows]
    with pytest.raises(ValueError, match="tells no step from another"):
        exports.prm(pyarrow.Table.from_pylist(signless))
    for each in rows[3]["segments"]:
        each["char_start"] = each["char_end"] = None
    with pytest.raises(ValueError, match=rows[3]["id"]):
        exports.progress(pyarrow.Table.from_pylist(rows))
