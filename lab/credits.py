"""Reads scored Parquet files, or anybody's columns, as credits of thought segments."""
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from stats import Table

# differences of these have no sign of their own, and take that of the return
MAGNITUDES = {"surprise", "gradient", "attention", "posterior"}
# values of the policy's own states on the reward's scale: their level can be wrong
LEVELS = {"pr", "pr-mean", "pr-geo", "joint", "snis", "calibrated", "siblings", "ask", "given", "mc"}


def read(path):
    """Rows of a Parquet file, a folder of them, or JSON lines, and the run's configuration."""
    path = Path(path)
    if path.suffix in (".jsonl", ".json"):
        return [json.loads(line) for line in path.read_text().splitlines() if line], {}
    parts = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    rows = [row for part in parts for row in pq.read_table(part).to_pylist()]
    metadata = pq.read_metadata(parts[0]).metadata or {}
    return rows, json.loads(metadata.get(b"rredcot.config", b"{}"))


def name_of(config, path):
    """What a file's differences are called: its estimator, and how they follow from the values."""
    steps = config.get("steps", "free")
    return config.get("estimator", Path(path).stem) + ("" if steps == "free" else f"_{steps}")


def floats(values):
    return np.array([np.nan if x is None else x for x in values], dtype=float)


def by_segment(ends, tokens):
    return np.array([sum(tokens[a:b]) for a, b in zip([0, *ends], ends)])


def of_row(row, config):
    """The credits of one scored row by name, its ends, and its values."""
    segments = row["segments"]
    unit = "char_end" if segments[0].get("end") is None else "end"
    thoughts = [each for each in segments if each["kind"] == "thought"]
    ends = [each[unit] for each in thoughts]
    reward = np.nan if row.get("reward") is None else float(row["reward"])
    baseline = row.get("baseline")
    weight = reward - (0.5 if baseline is None else baseline)
    deltas = floats([each.get("delta") for each in thoughts])
    if config.get("estimator") in MAGNITUDES:
        deltas = np.abs(deltas) * np.sign(weight)
    lengths = np.diff([0, *ends])
    credits = {
        "uniform": weight * lengths / segments[-1][unit],
        "delta": deltas,
        "sigma": weight * floats([each.get("sigma") for each in thoughts]),
    }
    for name, tokens in row.items():
        if name.startswith("sigma_") and isinstance(tokens, list):
            credits[name] = by_segment(ends, [weight * x for x in tokens])
    credits = {name: x for name, x in credits.items() if name == "uniform" or np.isfinite(x).any()}
    values = floats([row.get("value_start"), *(each.get("value") for each in thoughts)])
    return {"credits": credits, "ends": ends, "reward": reward, "values": values}


def of_column(row, path, is_values, K):
    """K credits at a path; of K + 1 values, or K before each segment, the changes. None where there are none."""
    name, _, field = path.partition("[].")
    found = row.get(name)
    if found is None:
        return None
    found = floats([each[field] for each in found] if field else found)
    if not is_values:
        assert len(found) == K, f"{row['id']}: {path} has {len(found)} numbers, expected {K}"
        return found
    assert len(found) in (K, K + 1), f"{row['id']}: {path} has {len(found)} numbers, expected {K} or {K + 1}"
    return np.append(np.diff(found), [np.nan] * (K + 1 - len(found)))


def table(paths, columns=(), label=None):
    """
    One table of the traces of the first file; others are matched by id, and must cut at the same places.
    columns: (name, path, is_values) of further credits of any file; label: column with the first wrong segment.
    """
    traces, taken, left_out = {}, [], 0
    for n, path in enumerate(paths):
        rows, config = read(path)
        made, names = name_of(config, path), {}
        rule = config.get("rule")
        own = {"delta": made, "sigma": f"sigma_{rule[0] if isinstance(rule, list) else rule or 'share'}"}
        for row in rows:
            found = of_row(row, config)
            if n == 0:
                wrong = row.get(label) if label else -2
                traces[row["id"]] = {
                    **found, "group": row.get("group") or row["id"],
                    "first_wrong": -1 if wrong is None else wrong, "named": {"uniform": found["credits"]["uniform"]},
                }
            trace = traces.get(row["id"])
            if trace is None or trace["ends"] != found["ends"]:
                left_out += 1
                continue
            for name, given, is_values in columns:
                credit = of_column(row, given, is_values, len(found["ends"]))
                if credit is not None:
                    found["credits"][name] = credit
            for name, credit in found["credits"].items():
                if name == "uniform":
                    continue
                title = own.get(name, name)
                names[title] = f"{Path(path).stem}:{title}" if title in taken else title
                trace["named"][names[title]] = credit
        taken += names.values()
    if left_out:
        print(f"{left_out} rows left out: in no other file, or cut at other places")
    titles = list(dict.fromkeys(name for trace in traces.values() for name in trace["named"]))
    column = lambda name: np.concatenate(
        [trace["named"].get(name, np.full(len(trace["ends"]), np.nan)) for trace in traces.values()]
    )
    return Table(
        offsets=np.cumsum([0, *(len(trace["ends"]) for trace in traces.values())]),
        rewards=np.array([trace["reward"] for trace in traces.values()]),
        groups=pd.factorize(np.array([trace["group"] for trace in traces.values()]))[0],
        first_wrong=np.array([trace["first_wrong"] for trace in traces.values()]),
        credits={name: column(name) for name in titles},
    )
