"""A scored table, or file, in the forms that others read."""
import logging

from rredcot._rows import pyarrow
from rredcot._scored import NEEDED, by_group, scored_rows


def verl(scored):
    """Rows for verl's replay (rredcot.verl), ordered by group: a pyarrow.Table for pyarrow.parquet.write_table(table, "replay.parquet")."""
    rows = [
        {
            "data_source": row.get("data_source") or "rredcot",
            # the policy reads the ids; verl requires messages
            "prompt": [{"role": "user", "content": row["prompt"]}] if isinstance(row["prompt"], str) else row["prompt"],
            "group": group,
            **{name: row[name] for name in NEEDED},
        }
        for group, own in by_group(scored_rows(scored)).items()
        for row in own
    ]
    return pyarrow().Table.from_pylist(rows)


def prm(scored):
    """Steps for TRL's PRMTrainer (step_separator=""), each labeled by the sign of its share of the return: rows of --sigma rudder or signed. A trace
    whose sigma is uniform is left out; where sigma is negative nowhere, as by other rules, all labels of a trace are its outcome: ValueError."""
    rows = [
        row
        for row in _credited(scored)
        if _return(row) != 0 and not any(code.startswith("uniform:") for code in row["status"].split(";"))
    ]
    has_signs = any(each["sigma"] < 0 for row in rows for each in row["segments"])
    return _table({**_steps(row), "labels": [_return(row) * each["sigma"] > 0 for each in _segments(row)]} for row in rows if has_signs)


def progress(scored):
    """Steps with the change of value over each; 0 for the answer."""
    return _table({**_steps(row), "progress": [each["delta"] or 0.0 for each in _segments(row)]} for row in scored_rows(scored))


def vineppo(scored):
    """Episodes for VinePPO and SPO, whose PPO loss is a mean over tokens: the mean of `advantages` (T) is the return, reward - baseline."""
    return _table(
        {
            "query_token_ids": row["prompt_ids"],
            "response_token_ids": row["completion_ids"],
            "scores": row["reward"],
            "advantages": [_return(row) * sigma * _own(row) for sigma in row["sigma"]],
        }
        for row in _credited(scored)
    )


def tinker(scored, loss="importance_sampling"):
    """tinker.Datum of each trace, for a loss that sums over tokens: `advantages` are the return times sigma. With loss="cross_entropy" `weights` are
    sigma T. Position i reads token i of prompt and completion and predicts the next; what it says of prompt tokens is 0."""
    from tinker import Datum, ModelInput, TensorData

    data = []
    for row in _credited(scored):
        ids, before = [*row["prompt_ids"], *row["completion_ids"]], [0.0] * len(row["prompt_ids"])
        lists = {
            "logprobs": row["logprobs"],
            "advantages": [_return(row) * sigma for sigma in row["sigma"]],
            "weights": [sigma * _own(row) for sigma in row["sigma"]],
        }
        read = ("weights",) if loss == "cross_entropy" else ("logprobs", "advantages")
        inputs = {name: TensorData(data=(before + lists[name])[1:], dtype="float32", shape=[len(ids) - 1]) for name in read}
        inputs["target_tokens"] = TensorData(data=ids[1:], dtype="int64", shape=[len(ids) - 1])
        data.append(Datum(model_input=ModelInput.from_ints(ids[:-1]), loss_fn_inputs=inputs))
    return data


def _credited(scored):
    """The rows with a return. Raises ValueError where none has."""
    rows = scored_rows(scored)
    found = [row for row in rows if row.get("baseline") is not None]
    if not found:
        raise ValueError("no trace has a baseline: rredcot.redistribute(table, baseline=...) gives one")
    if len(found) < len(rows):
        logging.getLogger("rredcot").warning("%d of %d rows have no baseline and are left out", len(rows) - len(found), len(rows))
    return found


def _table(rows):
    found = list(rows)
    if not found:
        raise ValueError("sigma tells no step from another in any trace: score with sigma='rudder' or 'signed'")
    return pyarrow().Table.from_pylist(found)


def _return(row):
    return row["reward"] - row["baseline"]


def _own(row):
    """Tokens that the policy wrote."""
    return sum(row.get("completion_mask") or [1] * len(row["sigma"]))


def _segments(row):
    """The segments that are steps: not what the policy was shown, nor an end token without text."""
    if any(each["char_end"] is None for each in row["segments"]):
        raise ValueError(f"id {row['id']!r}: its segments have no places in its text (status {row['status']})")
    return [each for each in row["segments"] if each["kind"] != "shown" and each["char_start"] != each["char_end"]]


def _steps(row):
    """The steps' texts, which together are the completion; what the policy was shown belongs to the step before it."""
    starts = [each["char_start"] for each in _segments(row)][1:]
    ends = [*starts, row["segments"][-1]["char_end"]]
    return {"id": row.get("id"), "prompt": row["prompt"], "completions": [row["completion"][start:end] for start, end in zip([0, *starts], ends)]}
