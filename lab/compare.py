"""
Every figure of how credits agree, as CSV: `compare.py scored.parquet [more.parquet] [--truth mc]
[--values mc=path] [--credit name=path] [--label column] [--seed 0]`.
"""
import argparse
import sys
from itertools import combinations

import pandas as pd

from credits import table
from stats import LASTS, OUTCOMES, correlate, first_wrong, sign_of_large, worst_segment


def figures(table, truth=None, seed=0):
    """A row a figure. Correlations are over the last quarter, half, three quarters and all of a trace."""
    told = []

    def put(measure, of, credit, traces, last, figure):
        place = {"measure": measure, "of": of, "credit": credit, "traces": traces, "last": last}
        found = figure.told(table.groups, seed)
        found.update({"chance": figure.chance})
        told.append({**place, **found})

    names = list(table.credits)
    pairs = combinations(names, 2) if truth is None else [(truth, name) for name in names if name != truth]
    for of, credit in pairs:
        by_last = {last: correlate(table, of, credit, last) for last in LASTS}
        for outcome in OUTCOMES:
            for last, found in by_last.items():
                for (measure, traces), figure in found.items():
                    if traces == outcome:
                        put(measure, of, credit, traces, last, figure)
    for credit in names:
        if truth is not None and credit != truth:
            put("sign_of_large", truth, credit, "all", 1, sign_of_large(table, truth, credit))
            put("worst_segment", truth, credit, "wrong", 1, worst_segment(table, truth, credit))
    if (table.first_wrong >= 0).any():
        for credit in names:
            for measure, figure in first_wrong(table, credit).items():
                put(measure, "first_wrong", credit, "all", 1, figure)
    order = ["measure", "of", "credit", "traces", "last", "value", "low", "high", "p", "chance"]
    return pd.DataFrame(told)[[*order, "n_traces", "n_segments", "notes"]]


def named(text, is_values):
    name, _, path = text.partition("=")
    return name, path, is_values


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--truth")
    parser.add_argument("--values", action="append", default=[])
    parser.add_argument("--credit", action="append", default=[])
    parser.add_argument("--label")
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()
    columns = [named(each, True) for each in flags.values] + [named(each, False) for each in flags.credit]
    figures(table(flags.files, columns, flags.label), flags.truth, flags.seed).to_csv(sys.stdout, index=False)
