"""Rows of a scored table or file, as trainers replay them."""
import gzip
import json
import os

from rredcot._rows import arrow, is_path, pyarrow

NEEDED = ("prompt_ids", "completion_ids", "logprobs", "sigma", "reward")
TEXTS = ("prompt", "completion")


def scored_rows(data):
    """The traces of a scored table, Parquet, Arrow or JSONL file that have a reward, as dicts with both texts. Raises ValueError."""
    place = os.fspath(data) if is_path(data) else "the table"
    table = _read(place) if is_path(data) else arrow(data)
    # of a text that the input has under another name there is no second column
    said = {} if isinstance(table, list) else json.loads((table.schema.metadata or {}).get(b"rredcot.text", b"{}"))
    rows = table if isinstance(table, list) else table.to_pylist()
    known = []
    for n, row in enumerate(rows):
        row = {**row, **{name: row[column] for name, column in said.items() if column in row}}
        missing = [name for name in (*NEEDED, *TEXTS) if name not in row or (row[name] is None and name != "reward")]
        if missing:
            raise ValueError(f"{place}: row {n} has no {', '.join(missing)}, expected the columns of `rredcot score`, without --columns")
        if len(row["sigma"]) != len(row["completion_ids"]):
            raise ValueError(f"{place}: row {n} has {len(row['sigma'])} σ and {len(row['completion_ids'])} tokens, expected one each")
        if row["reward"] is not None:
            known.append(row)
    if not known:
        raise ValueError(f"{place}: no trace has a known reward: score it with map={{'reward': <column>}}")
    return known


def group_of(row):
    return str(row["id"] if row.get("group") is None else row["group"])


def by_group(rows, group_of=group_of):
    """Lists of rows by group, in the order of their first."""
    groups = {}
    for row in rows:
        groups.setdefault(group_of(row), []).append(row)
    return groups


def _read(path):
    pa = pyarrow()
    with open(path, "rb") as file:
        start = file.read(6)
    if start[:4] == b"PAR1":
        from pyarrow.parquet import read_table

        return read_table(path)
    if start == b"ARROW1":
        with pa.OSFile(path) as file:
            return pa.ipc.open_file(file).read_all()
    with gzip.open(path) if start[:2] == b"\x1f\x8b" else open(path, "rb") as lines:
        return [json.loads(line) for line in lines]
