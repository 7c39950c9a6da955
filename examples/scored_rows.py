"""The rows of a scored Parquet file, each with `prompt` and `completion` under these names. Shared by the examples beside it."""
import json


def scored_rows(path):
    """The traces with a known reward, as dicts. `prompt` is text, or the messages that the input had.

    Where a column of the input holds a text, `rredcot score` does not write it again, and the file's metadata name it.
    """
    import pyarrow.parquet as pq

    places = json.loads((pq.read_metadata(path).metadata or {}).get(b"rredcot.text", b"{}"))
    missing = sorted({"prompt", "completion"} - set(places))
    if missing:
        raise SystemExit(f"{path}: has no text of {' and '.join(missing)}: score it without --no-text and --columns")
    rows = [{**row, **{name: row[column] for name, column in places.items()}} for row in pq.read_table(path).to_pylist()]
    known = [row for row in rows if row["reward"] is not None]
    if not known:
        raise SystemExit(f"{path}: no trace has a known reward: score it with --map reward=<column>")
    return known
