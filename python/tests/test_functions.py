"""`rredcot.score` and its like: every kind of rows, errors, rejects, flags."""
import json
import logging
import os
import pathlib
import subprocess
import sys

import pyarrow as pa
import pytest
from pyarrow import parquet

import rredcot
from rredcot._rows import flag_words


def test_every_kind_of_rows_gives_the_same(folder, traces):
    import datasets
    import pandas
    import polars

    table = pa.Table.from_pylist(traces)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in traces))
    kinds = {
        "list": traces,
        "iterator": iter(traces),
        "table": table,
        "batch": table.to_batches()[0],
        "reader": pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=5)),
        "polars": polars.DataFrame(traces),
        "pandas": pandas.DataFrame(traces),
        "dataset": datasets.Dataset.from_list(traces),
        "streamed dataset": datasets.Dataset.from_list(traces).to_iterable_dataset(),
        "path": folder / "rows.jsonl",
        "paths": ["rows.jsonl"],
    }
    before = set(os.listdir())
    [first, *rest] = [rredcot.score(data, columns=["sigma", "baseline", "source_file"]) for data in kinds.values()]
    assert first["id"].to_pylist() == [row["id"] for row in traces]
    assert all(abs(sum(sigma) - 1) < 1e-5 for sigma in first["sigma"].to_pylist())
    for name, other in zip([*kinds][1:], rest):
        assert other["sigma"].to_pylist() == first["sigma"].to_pylist(), name
        assert {pathlib.Path(path).name for path in other["source_file"].to_pylist()} == {"rows.jsonl" if "path" in name else "-"}
    assert set(os.listdir()) == before


def test_a_selection_of_a_dataset_is_what_is_scored(traces):
    import datasets

    picked = datasets.Dataset.from_list(traces).select([3, 1])
    assert rredcot.score(picked, baseline="value")["id"].to_pylist() == [traces[3]["id"], traces[1]["id"]]


def test_rows_without_one_type_are_scored(traces):
    mixed = [{**traces[0], "extra": 1}, {**traces[1], "extra": ["a"]}]
    assert rredcot.score(mixed, columns="sigma", drop="extra").num_rows == 2


def test_an_error_has_code_text_hint_and_rejects(traces):
    with pytest.raises(rredcot.Error, match="1 of 3 traces rejected") as caught:
        rredcot.score([*traces[:2], {"id": "short", "prompt": "x"}])
    error = caught.value
    assert (error.code, error.rejects["code"].to_pylist(), error.rejects["row"].to_pylist()) == (65, ["map"], [2])
    reason = error.rejects["reason"][0].as_py()
    # no file that is gone, and no flag: the reason itself
    assert "completion" in reason and reason in error.text and "rejects.jsonl" not in str(error) and "--overwrite" not in error.hint
    with rredcot.Scorer() as scorer, pytest.raises(rredcot.Error) as caught:
        scorer([*traces[:2], {"id": "short", "prompt": "x"}])
    # a table has null where the dict had nothing
    assert caught.value.rejects["reason"][0].as_py() in caught.value.text and caught.value.hint == error.hint
    with pytest.raises(rredcot.Error, match="no such folder") as caught:
        rredcot.score(traces, policy="nowhere")
    assert caught.value.code == 2 and "rredcot policy build" in caught.value.hint and caught.value.rejects.num_rows == 0
    with pytest.raises(rredcot.Error, match="Did you mean --policy"):
        rredcot.score(traces, polcy="x")


def test_rejects_that_are_allowed_come_with_the_table(traces, caplog):
    table = rredcot.score([{"id": "short", "prompt": "x"}, *traces[:2]], max_rejects=1)
    assert table.num_rows == 2
    assert rredcot.rejects(table)["raw"].to_pylist() == ['{"id": "short", "prompt": "x"}']
    assert rredcot.rejects(rredcot.score(traces[:1])).num_rows == 0
    # what the program says is the logger's
    assert any("1 of 3 traces" in record.message for record in caplog.records if record.levelno == logging.WARNING)


def test_a_scored_table_goes_on_to_the_other_functions(folder, traces, caplog):
    scored = rredcot.score(traces)
    rudder = rredcot.redistribute(scored, sigma="rudder")
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []
    # as a file that the user has made of it, too
    parquet.write_table(scored, folder / "own.parquet")
    assert rredcot.redistribute("own.parquet", sigma="rudder")["sigma"].equals(rudder["sigma"])
    assert rudder["id"].equals(scored["id"]) and not rudder["sigma"].equals(scored["sigma"])
    fit = rredcot.calibrate(scored)
    assert fit["estimator"] == "pr"
    again = rredcot.score(traces, estimator="calibrated", calibration=fit)
    assert again.num_rows == len(traces)
    # of few groups the fit stands back, which the table says
    assert json.loads(again.schema.metadata[b"rredcot.config"])["estimator"] == "calibrated"


def test_segment_cuts_with_a_policy_and_without(traces):
    [cut] = rredcot.segment(traces[:1], policy=False, max_segments=3)["segments"].to_pylist()
    assert [part["kind"] for part in cut].count("thought") == 3
    assert cut[0]["entropy"] is None
    assert rredcot.segment(traces[:1])["segments"][0][0]["entropy"].as_py() > 0


def test_a_group_in_memory_is_seen_whole(traces):
    """Estimators that look for a trace's peers read rows twice, which a pipe could not give."""
    scored = rredcot.score(traces, baseline="rloo")
    own = [row for row in scored.to_pylist() if row["group"] == traces[0]["group"]]
    mean = (sum(row["reward"] for row in own) - own[0]["reward"]) / (len(own) - 1)
    assert own[0]["baseline"] == pytest.approx(mean)


def test_flags_become_words(tmp_path):
    flags = {"max_segments": 8, "map": {"prompt": "q", "reference": "a"}, "columns": ["a", "b"], "keep_states": True, "overwrite": False, "join": None}
    assert flag_words(flags, tmp_path) == ["--max-segments", "8", "--map", "prompt=q,reference=a", "--columns", "a,b", "--keep-states"]
    assert flag_words({"prover": pathlib.Path("p"), "chat_template_arg": {"enable_thinking": False}}, tmp_path) == (
        ["--prover", "p", "--chat-template-arg", "enable_thinking=false"]
    )


TYPED = """
import rredcot
from typing import reveal_type
good = rredcot.score([], policy="p", sigma="rudder", max_segments=8, map={"prompt": "q"}, within="entropy")
rredcot.score([], sigmma="rudder")
rredcot.score([], within="evenly")
rredcot.Scorer("p", estimator="siblings", peers=3)
rredcot.redistribute(good, peers=3)
"""


def test_flags_have_types(folder):
    (folder / "typed.py").write_text(TYPED)
    done = subprocess.run([sys.executable, "-m", "mypy", "typed.py"], capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("typed.py:") and "error" in line]
    assert [line.split(":")[1] for line in lines] == ["5", "6", "8"], done.stdout
    assert "sigmma" in lines[0] and "within" in lines[1] and "peers" in lines[2]


def test_importing_costs_nothing():
    code = "import sys, rredcot; assert not {'pyarrow', 'numpy'} & set(sys.modules), 'loaded at import'"
    subprocess.run([sys.executable, "-c", code], check=True)
