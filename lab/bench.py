"""
Compares credits with the known changes of value of a set: `bench.py embedded scored.parquet --half judge`.
Prints the figures as CSV, beside what length, outcome, surprise, entropy and chance give.
"""
import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from credits import LEVELS, by_segment, floats, name_of, of_row, read
from stats import (
    OUTCOMES, Figure, Table, ceiling, correlate, few_groups, first_wrong, random_stream,
    share_of_ceiling, sign_of_large, worst_segment,
)

SETS = Path(__file__).parent / "sets"


def read_set(name, half="all"):
    """Rows of a set, each with the values at its exits and their two halves where they were sampled."""
    path = SETS / f"{name}.parquet"
    rows = [row for row in read(path if path.exists() else name)[0] if half in ("all", row["half"])]
    for row in rows:
        row["ends"] = row.get("segment_ends") or row["segment_char_ends"]
        row["T"] = len(row["completion_ids"] if row.get("segment_ends") else row["completion"])
        if row.get("wins_first"):
            wins = (np.array(row["wins_first"]), np.array(row["wins_second"]))
            row["halves"] = [own / row["completions_a_half"] for own in wins]
            row["values"] = sum(row["halves"]) / 2
        elif row.get("values"):
            row["values"] = floats(row["values"])
    return rows


def credit_of(row, trace, config):
    """(K) credits and, where they are values, (K+1): of a scored row, or of a column credit, values or tokens."""
    if row.get("segments"):
        own = of_row(row, config)
        assert own["ends"] == trace["ends"], f"{row['id']}: is cut at other places: score it with --segmenter given"
        has_level = config.get("estimator") in LEVELS
        return own["credits"]["delta"], own["values"] if has_level else None
    if row.get("credit"):
        credit, values = floats(row["credit"]), None
    elif row.get("values"):
        values = floats(row["values"])
        credit = np.diff(values)
    else:
        assert len(row["tokens"]) == trace["T"], f"{row['id']}: has {len(row['tokens'])} numbers, not one a token"
        credit, values = by_segment(trace["ends"], row["tokens"]), None
    assert len(credit) == len(trace["ends"]), f"{row['id']}: has {len(credit)} numbers, not one a segment"
    return credit, values


def beside(trace, baseline):
    """What follows from the set alone."""
    weight, ends = trace["reward"] - baseline, trace["ends"]
    found = {
        "uniform": by_segment(ends, np.full(trace["T"], weight / trace["T"])),
        "outcome": np.full(len(ends), np.sign(weight)),
    }
    if trace.get("logprobs"):
        least = [-min([0, *trace["logprobs"][a:b]]) for a, b in zip([0, *ends], ends)]
        found["surprise"] = np.sign(weight) * np.array(least)
    if trace.get("entropies"):
        found["entropy"] = by_segment(ends, weight * np.array(trace["entropies"]) / sum(trace["entropies"]))
    return found


def shuffled(credits, seed):
    """The same credits at other segments of their trace."""
    draws = iter(random_stream(seed, sum(len(x) for x in credits)) / 2**32)
    found = []
    for credit in credits:
        credit = credit.copy()
        for k in range(len(credit) - 1, 0, -1):
            other = int(next(draws) * (k + 1))
            credit[[k, other]] = credit[[other, k]]
        found.append(credit)
    return found


def figures(traces, path, seed=0):
    """The name of the credits, and all figures of them."""
    rows, config = read(path)
    known = {row["id"]: row for row in rows}
    given = [credit_of(known[t["id"]], t, config) if t["id"] in known else None for t in traces]
    missing = sum(each is None for each in given)
    if missing:
        print(f"{missing} of {len(traces)} traces have no credit", file=sys.stderr)
    own = [np.full(len(t["ends"]), np.nan) if each is None else each[0] for t, each in zip(traces, given)]
    rewards = pd.DataFrame({"group": [t["group"] for t in traces], "reward": [t["reward"] for t in traces]})
    of_group = rewards.groupby("group")["reward"]
    baselines = np.where(of_group.transform("count") < 2, 0.5, of_group.transform("mean"))
    others = [beside(trace, baseline) for trace, baseline in zip(traces, baselines)]
    flat = np.concatenate
    changes = lambda of: flat([np.diff(of(trace)) for trace in traces])
    has_values = all(trace.get("values") is not None for trace in traces)
    has_halves = all("halves" in trace for trace in traces)
    is_exact = all(trace.get("exact") for trace in traces)
    credits = {
        "row": flat(own),
        **{name: flat([each[name] for each in others]) for name in others[0]},
        "shuffled": flat(shuffled(own, seed)),
    }
    truths = {"truth": changes(lambda t: t["values"])} if has_values else {}
    halves = {f"half {i}": changes(lambda t: t["halves"][i]) for i in (0, 1)} if has_halves else {}
    table = Table(
        offsets=np.cumsum([0, *(len(t["ends"]) for t in traces)]),
        rewards=rewards["reward"].to_numpy(dtype=float),
        groups=pd.factorize(rewards["group"])[0],
        first_wrong=np.array([-2 if "first_wrong" not in t else -1 if t["first_wrong"] is None else t["first_wrong"] for t in traces]),
        credits={**credits, **truths, **halves},
    )
    told = []
    put = lambda measure, credit, outcome, figure: told.append(
        {"measure": measure, "credit": credit, "traces": outcome, **figure.told(table.groups, seed), "chance": figure.chance}
    )
    between = correlate(table, "half 0", "half 1") if has_halves else {}
    for outcome in OUTCOMES if has_halves else []:
        put("ceiling", "truth", outcome, ceiling(between["pearson", outcome]))
    for name in credits if has_values else []:
        found = correlate(table, "truth", name)
        for outcome in OUTCOMES:
            put("pearson", name, outcome, found["pearson", outcome])
            if has_halves or is_exact:
                put("share", name, outcome, share_of_ceiling(found["pearson", outcome], between.get(("pearson", outcome))))
    for name in credits if has_values else []:
        put("sign_of_large", name, "all", sign_of_large(table, "truth", name))
        put("worst_segment", name, "wrong", worst_segment(table, "truth", name))
    for name in [*credits, *truths] if (table.first_wrong >= 0).any() else []:
        for measure, figure in first_wrong(table, name).items():
            put(measure, name, "all", figure)
    off = [np.nan if each is None or each[1] is None or not has_values else np.abs(each[1] - t["values"]).mean() for t, each in zip(traces, given)]
    known = np.isfinite(off)
    if known.any():
        terms = np.stack([np.where(known, off, 0), known], 1)
        notes = tuple(few_groups(table.groups[known]))
        put("level_error", "row", "all", Figure(terms, lambda s: s[..., 0] / s[..., 1], n_traces=int(known.sum()), notes=notes))
    columns = ["measure", "credit", "traces", "value", "low", "high", "chance", "n_traces", "n_segments", "notes"]
    return name_of(config, path), pd.DataFrame(told)[columns]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", help="embedded, puzzles, bifurcation, reach, or a file of another set")
    parser.add_argument("credits", help="rows with id and credit, values or tokens, or scored with --segmenter given")
    parser.add_argument("--half", choices=["choose", "judge", "all"], default="choose", help="look at judge once")
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()
    name, found = figures(read_set(flags.set, flags.half), flags.credits, flags.seed)
    found.to_csv(sys.stdout, index=False, float_format="%.6g")
