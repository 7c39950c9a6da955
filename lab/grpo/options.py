"""What shapes of σ gain that were tried as options, on the benchmark's sets against Monte Carlo.

Each option's best setting is chosen on the half `choose` and judged on the other, against its rule without it, against the best rule that
needs no option, and against `share` with the best `--mix`, which stays. The program lacks some of them, so all are made here, of stored values.
"""
import argparse
import csv
import json
import subprocess
import numpy as np
from tool import ROOT, Tool

PLAIN = ("share", "rudder", "signed")
RULES = (*PLAIN, "softmax", "abs")
DRAWS = 2000  # of the bootstrap
EVEN = ("share", "share, even 0.5", "share, even 0.8")
# by name: the option, its rule, and what shapes that
SHAPES = {
    **{rule: (None, rule, {}) for rule in PLAIN}, **{name: (None, "share", {"part": float(name[-3:])}) for name in EVEN[1:]},
    "abs": ("abs", "abs", {}), "softmax": ("softmax", "softmax", {}),
    **{f"softmax, tau {x}": ("softmax", "softmax", {"tau": x}) for x in (0.05, 0.2, 5)},
    **{f"{rule}, penalty {x}": ("penalty", rule, {"penalty": x}) for rule in RULES[1:] for x in (0, 0.5, 2)},
    **{f"{rule}, smooth {x}": ("smooth", rule, {"smooth": x}) for rule in RULES for x in (1, 2)},
}


def sigma(row, rule, tau=1, penalty=1, smooth=0, part=0.1):
    """σ of each segment of a scored row, the sum over its tokens."""
    ends = np.array([0, *(s["end"] for s in row["segments"])])
    n, even = np.diff(ends), np.diff(ends) / ends[-1]
    is_thought = np.array([s["kind"] == "thought" for s in row["segments"]])
    delta = np.array([s["delta"] if s["kind"] == "thought" else 0.0 for s in row["segments"]])
    value = [row["value_start"], *(s["value"] for s in row["segments"] if s["kind"] == "thought")][-1]
    reward, back = row["reward"], row["reward"] - row["baseline"]
    if np.all(np.abs(delta) < 1e-3) or (back == 0 and rule in ("share", "softmax")):
        return even
    read = delta if rule == "share" else np.where(delta < 0, penalty * delta, delta)
    if rule in ("rudder", "signed"):
        left = back - read.sum() if rule == "rudder" else reward - value
        total, where = (back, even) if rule == "rudder" else (read.sum() + left, even if is_thought.all() else ~is_thought)
        if abs(total) < 0.05:
            return even
        found = (read + left * where) / total
    else:
        towards = np.sign(back) * read
        weights = {"share": np.maximum(0, towards), "softmax": n * np.exp(towards / tau), "abs": np.abs(read)}[rule]
        if weights.sum() < 1e-6:
            return even
        found = weights / weights.sum()
    made = found / n
    for j in range(len(n)):
        for k in range(j + 1, min(len(n), j + smooth + 1)):
            window = max(ends[min(len(n), at + smooth + 1)] - ends[max(0, at - smooth)] for at in (j, k))
            flow = n[j] * n[k] / window * (made[k] - made[j])
            found[j], found[k] = found[j] + flow, found[k] - flow
    return (1 - part) * found + part * even if rule == "share" else found


def contests(chosen):
    """Of each option its best setting, its rule without it, and the best of what needs none. `chosen` has a figure a shape."""
    plain, even = max(PLAIN, key=chosen.get), max(EVEN, key=chosen.get)
    for option in ("softmax", "abs", "penalty", "smooth"):
        own = max((name for name in SHAPES if SHAPES[name][0] == option), key=chosen.get)
        rule = SHAPES[own][1]
        yield option, own, plain if rule == option else rule, plain, even


def shares(traces, rows, names, draws=0):
    """Of shapes the share of the ceiling, over all groups and drawn ones: {name: [1 + draws]}."""
    groups = sorted({t["group"] for t in traces})
    counts = np.vstack([np.ones(len(groups)), np.random.default_rng(1).multinomial(len(groups), [1 / len(groups)] * len(groups), draws)])
    traces = [t for t in traces if t["id"] in rows]
    member = np.array([[t["group"] == g for t in traces] for g in groups], float)

    def pearson(ofs, others):
        inside = [(a - a.mean(), b - b.mean()) for a, b in zip(ofs, others)]
        xy, xx, yy = (counts @ (member @ np.array(sums)) for sums in zip(*[(a @ b, a @ a, b @ b) for a, b in inside]))
        return xy / np.sqrt(np.maximum(xx * yy, 1e-300))

    first, second = ([np.diff(t[name]) / t["completions_a_half"] for t in traces] for name in ("wins_first", "wins_second"))
    halves = pearson(first, second)
    truth = [a + b for a, b in zip(first, second)]
    credit = {name: [sigma(r, SHAPES[name][1], **SHAPES[name][2])[:len(t["segment_ends"])] * (r["reward"] - r["baseline"]) for t in traces for r in [rows[t["id"]]]] for name in names}
    return {name: pearson(truth, credit[name]) / np.sqrt(2 * halves / (1 + halves)) for name in names}


def between(sample):
    return [sample[0], *np.nanquantile(sample[1:], [0.025, 0.975])]


def monte_carlo(folder):
    """A line an option, for both toys and three kinds of values."""
    tool = Tool(folder)
    for toy, fixtures, policy in (("puzzles", "puzzles", tool.path("puzzles")), ("embedded", "chains", ROOT / "models" / "embedded")):
        if toy == "puzzles":
            tool.run("policy", "build", ROOT / "models" / "puzzles", "-o", policy)
        how, source = ["--policy", policy, "--overwrite"], ROOT / "fixtures" / "bench" / f"{toy}.parquet"
        tool.run("score", ROOT / "fixtures" / f"{fixtures}.jsonl", "--segmenter", "newline", "-o", tool.path("fit.jsonl"), *how)
        calibration = tool.calibrate([tool.path("fit.jsonl")])
        told = subprocess.run(["node", ROOT / "bin" / "rredcot.js", "bench", source, "--half", "all"], capture_output=True, check=True)
        traces = [json.loads(line) for line in told.stdout.splitlines()]
        for values in ("pr", "calibrated", "siblings"):
            flags = ["--estimator", values, *(["--calibration", calibration] if values != "pr" else [])]
            tool.run("score", source, "--segmenter", "given", *flags, "-o", tool.path("values.jsonl"), *how)
            rows = {row["id"]: row for row in map(json.loads, tool.path("values.jsonl").read_text(encoding="utf-8").splitlines())}
            choose, judge = ([t for t in traces if t["half"] == half] for half in ("choose", "judge"))
            chosen = {name: each[0] for name, each in shares(choose, rows, SHAPES).items()}
            for option, own, *others in contests(chosen):
                found = shares(judge, rows, {own, *others}, DRAWS)
                yield [f"Monte Carlo, {toy}", values, option, own, *others, found[own][0], *(x for other in others for x in between(found[own] - found[other]))]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True, help="for the tool's files")
    parser.add_argument("--out", required=True, help=".csv")
    args = parser.parse_args()
    with open(args.out, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["by", "values", "option", "best", "without", "plain", "even", "figure", *(f"{mark}{of}" for of in ("without", "plain", "even") for mark in ("more_than_", "low_", "high_"))])
        for line in monte_carlo(args.folder):
            writer.writerow([f"{cell:.3f}" if isinstance(cell, float) else cell for cell in line])
            file.flush()


if __name__ == "__main__":
    main()
