"""How far credits follow the truth of a set: Pearson of changes of value inside traces, 95 % intervals by question.

    python table.py words --half judge probe=probe.parquet features=features.parquet pr=pr.parquet

Each NAME=FILE is scored by rredcot, cut at the set's lines. Beside them: what needs no policy, values bridged to the own outcome, and
completions: M of the one half of an exit's against the other half, alone, and as binomial counts behind a prior of weight 2 at the first
file's value. Every row is compared with the first file's, with the same resamples of questions.

Named before the half `judge` was looked at: the probe beats outcome x tokens; it beats its own features without states; it reaches half
of the ceiling on words; one completion beside it reaches .65 of it; the bridge (w = .75) adds to it. What refutes each: an interval of
the difference that holds 0, or a smaller share. Of code nothing was chosen, so both halves are judged; named before any of it was seen:
the probe beats outcome x tokens, and its own features.
"""
import argparse
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

SETS = Path(__file__).resolve().parent.parent / "sets"
RESAMPLES, DRAWS, PRIOR, BRIDGE = 2000, 20, 2, 0.75


def read_values(path, traces):
    """(K + 1) values of each trace of a set, by id; None where the file has none."""
    found = {}
    for row in pq.read_table(path, columns=["id", "value_start", "segments"]).to_pylist():
        thoughts = [each for each in row["segments"] if each["kind"] == "thought"]
        at = {0: row["value_start"], **{each["end"]: each["value"] for each in thoughts}}
        trace = traces.get(row["id"])
        if trace and all(end in at for end in trace["ends"]):
            found[row["id"]] = np.array([at[end] for end in trace["ends"]], dtype=float)
    return found


def moments(values, truth):
    """Σ uv, Σ u², Σ v² of the changes of a trace, each less its mean."""
    u, v = np.diff(values), np.diff(truth)
    u, v = u - u.mean(), v - v.mean()
    return u @ v, u @ u, v @ v


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("set")
    flags.add_argument("--half", choices=["choose", "judge", "both"], default="choose", help="look at judge once")
    flags.add_argument("rows", nargs="+", metavar="NAME=FILE")
    asked = flags.parse_args()
    traces = {}
    for row in pq.read_table(SETS / f"{asked.set}.parquet").to_pylist():
        if asked.half in (row["half"], "both") and len(row["segment_ends"]) > 1:
            halves = np.array([row["wins_first"], row["wins_second"]]) / row["completions_a_half"]
            traces[row["id"]] = {**row, "ends": [0, *row["segment_ends"]], "T": len(row["completion_ids"]), "halves": halves, "truth": halves.mean(0)}
    named = {name: read_values(path, traces) for name, path in (row.split("=") for row in asked.rows)}
    ids = [id for id in traces if all(id in values for values in named.values())]
    groups = sorted({traces[id]["group"] for id in ids})
    of_group = np.array([groups.index(traces[id]["group"]) for id in ids])
    draw = np.random.default_rng(1)
    weights = np.array([np.bincount(draw.integers(0, len(groups), len(groups)), minlength=len(groups)) for _ in range(RESAMPLES)])

    def sums(pairs):
        """(groups, 3) of (values, truth) of each trace."""
        found = np.zeros((len(groups), 3))
        np.add.at(found, of_group, [moments(*pair) for pair in pairs])
        return found

    value = lambda terms: np.moveaxis(terms, -1, 0)[0] / np.sqrt(np.moveaxis(terms, -1, 0)[1] * np.moveaxis(terms, -1, 0)[2])
    rows, first = {}, next(iter(named))
    of = lambda credit: sums([(credit(traces[id], id), traces[id]["truth"]) for id in ids])
    share = lambda trace: np.array(trace["ends"]) / trace["T"]
    bridged = lambda values, trace: (1 - BRIDGE * share(trace)) * values + BRIDGE * share(trace) * trace["reward"]
    rows["outcome x tokens"] = of(lambda trace, _: (2 * trace["reward"] - 1) * np.array(trace["ends"], dtype=float))
    for name, values in named.items():
        rows[name] = of(lambda _, id: values[id])
        rows[f"{name}, bridged"] = of(lambda trace, id: bridged(values[id], trace))
    for m in (1, 2, 4):
        plain, shrunk = [], []
        for _ in range(DRAWS):
            for half in (0, 1):
                pairs = []
                for id in ids:
                    trace, n = traces[id], traces[id]["completions_a_half"]
                    wins = np.rint(trace["halves"][half] * n).astype(int)
                    pairs.append((id, draw.hypergeometric(wins, n - wins, m), trace["halves"][1 - half]))
                plain.append(sums([(own / m, truth) for _, own, truth in pairs]))
                shrunk.append(sums([((own + PRIOR * named[first][id]) / (m + PRIOR), truth) for id, own, truth in pairs]))
        rows[f"M = {m}"], rows[f"M = {m} behind {first}"] = np.mean(plain, 0), np.mean(shrunk, 0)
    between = sums([tuple(traces[id]["halves"]) for id in ids])
    ceiling = np.sqrt(2 * value(between.sum(0)) / (1 + value(between.sum(0))))
    print(f"{asked.set}, {asked.half}: {len(ids)} traces, {len(groups)} questions, {sum(len(traces[id]['ends']) - 1 for id in ids)} changes, ceiling {ceiling:.3f}")
    print("| credit | r | share of the ceiling | less that of the first | level error |\n|---|---|---|---|---|")
    of_first = value(np.einsum("rg,gk->rk", weights, rows[first]))
    for name, terms in rows.items():
        r, drawn = value(terms.sum(0)), value(np.einsum("rg,gk->rk", weights, terms))
        low, high = np.quantile(drawn, [0.025, 0.975])
        less = np.quantile(drawn - of_first, [0.025, 0.975])
        off = np.mean([np.abs(named[name][id] - traces[id]["truth"]).mean() for id in ids]) if name in named else np.nan
        print(f"| {name} | {r:.3f} [{low:.2f}, {high:.2f}] | {r / ceiling:.2f} | {r - value(rows[first].sum(0)):+.3f} [{less[0]:+.3f}, {less[1]:+.3f}] | {off:.3f} |")


if __name__ == "__main__":
    main()
