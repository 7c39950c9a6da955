"""A scored table, or file, in the forms that others read."""
from rredcot._rows import pyarrow
from rredcot._scored import scored_rows


def verl(scored):
    """Rows for verl's replay (rredcot.verl), ordered by group: a pyarrow.Table for pyarrow.parquet.write_table(table, "replay.parquet")."""
    rows = [
        {
            "data_source": row.get("data_source") or "rredcot",
            # the policy reads the ids; verl requires messages
            "prompt": [{"role": "user", "content": row["prompt"]}] if isinstance(row["prompt"], str) else row["prompt"],
            "group": str(row["id"] if row.get("group") is None else row["group"]),
            **{name: row[name] for name in ("prompt_ids", "completion_ids", "logprobs", "sigma", "reward")},
        }
        for row in scored_rows(scored)
    ]
    order = {}
    for row in rows:
        order.setdefault(row["group"], len(order))
    return pyarrow().Table.from_pylist(sorted(rows, key=lambda row: order[row["group"]]))
