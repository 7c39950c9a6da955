"""A scored file with other values in it, for `rredcot redistribute` to share out by any rule, without a pass of the policy.

    python revalue.py probe.parquet pr pr.parquet
    python revalue.py probe.parquet truth truth.parquet --set words
    python revalue.py probe.parquet one one.parquet --set words

pr      of the answers that the file has: the probability of the reference
truth   of a set, from all completions of an exit; traces of the half `choose` alone
one     one completion an exit, as binomial counts behind a prior of weight 2 at the file's own value; the same traces
"""
import argparse
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from table import PRIOR, SETS


def values_of(row, how, trace, draw):
    """(K + 1) values of a scored row; None where there are none, or the trace is cut elsewhere."""
    if how == "pr":
        return [float(np.exp(each) @ np.array(row["reference_utilities"])) for each in np.array(row["reference_logprobs"])]
    thoughts = [each for each in row["segments"] if each["kind"] == "thought"]
    if trace is None or trace["segment_ends"] != [each["end"] for each in thoughts]:
        return None
    wins, n = np.add(trace["wins_first"], trace["wins_second"]), 2 * trace["completions_a_half"]
    own = np.array([row["value_start"], *(each["value"] for each in thoughts)])
    return (wins / n if how == "truth" else (draw.random(len(wins)) * n < wins) / (1 + PRIOR) + own * PRIOR / (1 + PRIOR)).tolist()


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("scored")
    flags.add_argument("how", choices=["pr", "truth", "one"])
    flags.add_argument("out")
    flags.add_argument("--set", default="words")
    asked = flags.parse_args()
    table, draw, rows = pq.read_table(asked.scored), np.random.default_rng(1), []
    traces = {row["id"]: row for row in pq.read_table(SETS / f"{asked.set}.parquet").to_pylist() if row["half"] == "choose"}
    for row in table.to_pylist():
        values = values_of(row, asked.how, traces.get(row["id"]), draw)
        if values is not None:
            thoughts = [each for each in row["segments"] if each["kind"] == "thought"]
            row.update(value_start=values[0], baseline=None)
            for each, value, before in zip(thoughts, values[1:], values):
                each.update(value=value, delta=value - before)
            rows.append(row)
    stored = {key: value for key, value in pq.read_metadata(asked.scored).metadata.items() if key not in (b"ARROW:schema", b"rredcot.facts")}
    config = json.loads(stored[b"rredcot.config"])
    config = {key: value for key, value in config.items() if key not in ("stateLayers", "calibration")}
    config.update(estimator="pr" if asked.how == "pr" else "given", steps="free", **({} if asked.how == "pr" else {"segmenter": "given"}))
    metadata = {**stored, b"rredcot.config": json.dumps(config).encode()}
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema).replace_schema_metadata(metadata), asked.out)
    print(f"{len(rows)} of {len(table)} traces")


if __name__ == "__main__":
    main()
