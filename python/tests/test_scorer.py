"""`rredcot.Scorer`: the same rows as `score` gives, batch after batch, whatever became of the one before."""
import gc
import os
import pickle
import shutil
import signal
import threading
import time

import numpy as np
import pyarrow as pa
import pytest

import rredcot
from rredcot import _node


@pytest.fixture(scope="module")
def scorer():
    with rredcot.Scorer() as one:
        yield one


def pid(scorer):
    return scorer._process._program.pid


def test_a_batch_gives_what_score_gives(scorer, traces):
    for rows in (traces, traces[:1], traces[4:12]):
        assert scorer(rows).to_pylist() == rredcot.score(pa.Table.from_pylist(rows)).to_pylist()


def test_a_failed_batch_leaves_it_as_it_was(scorer, traces):
    scorer(traces[:1])
    before = pid(scorer)
    with pytest.raises(rredcot.Error, match="1 of 2 traces rejected") as caught:
        scorer([traces[0], {**traces[1], "completion": "", "completion_ids": []}])
    assert caught.value.code == 65 and caught.value.rejects["code"].to_pylist() == ["empty_completion"]
    with pytest.raises(rredcot.Error, match="no such folder"):
        scorer(traces[:1], policy="nowhere")
    assert scorer(traces[:1]).num_rows == 1
    assert pid(scorer) == before


def test_rejects_are_in_the_answer(traces):
    with rredcot.Scorer(max_rejects=1, threads=1) as one:
        table = one([{**traces[0], "completion": "", "completion_ids": []}, traces[1]])
        assert table["id"].to_pylist() == [traces[1]["id"]]
        assert rredcot.rejects(table)["id"].to_pylist() == [traces[0]["id"]]
        assert rredcot.rejects(one(traces[1:2])).num_rows == 0


def test_a_call_names_its_policy_which_is_read_again_when_it_has_changed(scorer, traces, folder):
    shutil.copytree(_node.PROGRAM / "models/embedded", folder / "policy")
    value = scorer(traces[:1])["value_start"]
    assert scorer(traces[:1], policy="policy")["value_start"].equals(value)
    manifest = folder / "policy/policy.json"
    manifest.write_text(manifest.read_text().replace("answer: ", "answer:"))
    changed = scorer(traces[:1], policy="policy")["value_start"]
    assert not changed.equals(value)
    assert changed.equals(rredcot.score(traces[:1], policy="policy")["value_start"])
    assert scorer(traces[:1])["value_start"].equals(value)


def test_columns_of_numpy_arrays_are_rows(scorer, traces):
    columns = {name: np.array([row[name] for row in traces[:2]]) for name in ("id", "prompt", "completion", "answer", "reward")}
    ids = np.empty(2, dtype=object)
    ids[:] = [np.array(row["completion_ids"]) for row in traces[:2]]
    table = scorer({**columns, "completion_ids": ids})
    assert table["completion_ids"].to_pylist() == [row["completion_ids"] for row in traces[:2]]


def test_threads_take_turns(scorer, traces):
    found = {}
    threads = [threading.Thread(target=lambda n=n: found.update({n: scorer(traces[n : n + 1])})) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {n: table["id"].to_pylist() for n, table in found.items()} == {n: [traces[n]["id"]] for n in range(4)}


def test_a_process_that_was_killed_is_an_error_and_then_another_one(traces):
    with rredcot.Scorer() as one:
        one(traces[:1])
        threading.Timer(0.3, lambda: os.kill(pid(one), signal.SIGKILL)).start()
        with pytest.raises(rredcot.Error, match="ended with -9"):
            for _ in range(1000):
                one(traces)
        assert one(traces[:1]).num_rows == 1


def test_flags_that_are_wrong_are_told_at_the_first_batch(traces):
    with rredcot.Scorer(estimator="none-such") as one, pytest.raises(rredcot.Error, match="none-such") as caught:
        one(traces[:1])
    assert caught.value.code == 2


def test_it_is_pickled_as_what_it_was_made_of(traces):
    with pickle.loads(pickle.dumps(rredcot.Scorer(sigma="uniform"))) as one:
        [sigma] = one(traces[:1])["sigma"].to_pylist()
    assert len(set(sigma)) == 1


def test_it_stays_warm(scorer, traces):
    """The first call starts a process and opens a policy; another one does neither."""
    with rredcot.Scorer() as one:
        began = time.perf_counter()
        one(traces[:1])
        cold = time.perf_counter() - began
        times = []
        for _ in range(5):
            began = time.perf_counter()
            one(traces[:1])
            times.append(time.perf_counter() - began)
    assert min(times) < cold / 4


@pytest.mark.parametrize("how", ["close", "del"])
def test_closing_ends_the_process_and_so_does_forgetting_it(traces, how):
    one = rredcot.Scorer()
    one(traces[:1])
    number = pid(one)
    if how == "close":
        one.close()
    else:
        del one
        gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)
