"""Logs of training runs, and the statistics of their curves: areas, steps to a level, exact tests over seeds."""
import gzip
import json
import math
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from stats import random_stream
from tables import significant

ROOT = Path(__file__).parent.parent
LOGS = ROOT / "lab/grpo/logs"
# accuracies between that of the weak policy and plain GRPO's final one, by the density of the task
LEVELS = {"sparse": [0.65, 0.7, 0.75], "dense": [0.8, 0.85, 0.9], "minus": [0.76, 0.78, 0.8], "single": [0.75, 0.8, 0.85]}
RESAMPLES = 2000
# hand-rounded quantiles of Student's t, as the published tables were made with
QUANTILES = [round(x, 3) for x in student.ppf(0.975, np.arange(1, 31))]


def read_log(text):
    records = [json.loads(line) for line in text.split("\n") if line]
    return {
        "arguments": records[0]["arguments"],
        "looks": [each for each in records if "held_out" in each],
        "steps": [each for each in records if "reward" in each],
    }


def runs_of(sweep):
    """The runs of one sweep: a folder of compressed logs."""
    return [read_log(gzip.decompress(path.read_bytes()).decode()) for path in sorted((LOGS / sweep).glob("*.jsonl.gz"))]


def mean(values):
    return sum(values) / len(values)


def whole_looks(looks):
    """Looks at all held-out problems: at 70 % of the steps, and at the end."""
    return [each["held_out"] for each in looks if each["of"] == looks[-1]["of"]]


def smoothed(looks):
    """
    Accuracy over steps. A look samples one quarter of the problems, in turn; a window of five looks whose ends count
    half holds every quarter once. The last point is the look at all problems.
    """
    parts, last = [each for each in looks if each["of"] < looks[-1]["of"]], looks[-1]
    curve = []
    for n, each in enumerate(parts):
        reach = min(2, n, len(parts) - 1 - n)
        total = weight = 0
        for k in range(n - reach, n + reach + 1):
            w = 0.5 if reach > 0 and abs(k - n) == reach else 1
            total += w * parts[k]["held_out"]
            weight += w
        curve.append({"step": each["step"], "tokens": each["tokens"], "accuracy": total / weight})
    return [*curve, {"step": last["step"], "tokens": last["tokens"], "accuracy": last["held_out"]}]


def area(curve, by="step"):
    """Mean height of a curve, by trapezoids."""
    total = sum((b["accuracy"] + a["accuracy"]) / 2 * (b[by] - a[by]) for a, b in zip(curve, curve[1:]))
    return total / (curve[-1][by] - curve[0][by])


def reaches(curve, level, by="step"):
    """Where the curve first reaches the level; infinity where it never does."""
    if curve[0]["accuracy"] >= level:
        return curve[0][by]
    for a, b in zip(curve, curve[1:]):
        if b["accuracy"] >= level:
            return a[by] + (level - a["accuracy"]) / (b["accuracy"] - a["accuracy"]) * (b[by] - a[by])
    return math.inf


def mean_curve(curves):
    return [
        {"step": points[0]["step"], **{name: mean([each[name] for each in points]) for name in ("tokens", "accuracy")}}
        for points in zip(*curves)
    ]


def over_seeds(seeds, of):
    """A figure of all seeds, and 2.5 and 97.5 % of it over drawings of as many seeds with replacement."""
    if len(seeds) < 2:
        return {"value": of(seeds), "low": math.nan, "high": math.nan}
    draws = (random_stream(1, RESAMPLES * len(seeds)) / 2**32 * len(seeds)).astype(int).reshape(RESAMPLES, -1)
    values = sorted(of([seeds[i] for i in draw]) for draw in draws)
    at = lambda share: values[round(share * (RESAMPLES - 1))]
    return {"value": of(seeds), "low": at(0.025), "high": at(0.975)}


def sign_flip(differences):
    """Exact two-sided test: the share of all 2^n choices of signs whose sum is at least as far from 0."""
    sums = np.zeros(1)
    for each in differences:
        sums = np.concatenate([sums + each, sums - each])
    return float((np.abs(sums) >= abs(sum(differences)) * (1 - 1e-12)).mean())


def exchange(pairs, figure):
    """Exact two-sided test of the ratio of a figure of two arms, which change places in some seeds."""

    def distance(swapped):
        arms = [figure([pair[1 - which if swapped >> i & 1 else which] for i, pair in enumerate(pairs)]) for which in (0, 1)]
        return abs(math.log(arms[0] / arms[1]))

    seen = distance(0)
    return mean([distance(swapped) >= seen - 1e-12 for swapped in range(2 ** len(pairs))])


def interval(values):
    """Mean and the half width of its 95 % interval."""
    n, m = len(values), mean(values)
    if n < 2:
        return m, math.nan
    deviation = math.sqrt(sum((v - m) ** 2 for v in values) / (n - 1))
    return m, (QUANTILES[n - 2] if n - 2 < len(QUANTILES) else 1.96) * deviation / math.sqrt(n)


def by_arm(logs):
    """Runs of each arm by seed, plain GRPO first; early is at 70 % of the steps."""
    found = {}
    for log in logs:
        looks = whole_looks(log["looks"])
        run = {"curve": smoothed(log["looks"]), "early": looks[0], "final": looks[-1], "steps": log["steps"]}
        found.setdefault(log["arguments"]["arm"], {})[log["arguments"]["seed"]] = run
    return dict(sorted(found.items(), key=lambda each: each[0] != "uniform"))


def comparison(logs):
    """Accuracy at 70 % of the steps and at the end, and the area, less plain GRPO's; paired by seed."""
    arms = by_arm(logs)
    if "uniform" not in arms or len(arms) == 1:
        return
    plain = arms["uniform"]
    early = lambda a, b: a["early"] - b["final"]
    others = {
        "early_less_end": early,
        "early_less_early": lambda a, b: a["early"] - b["early"],
        "end_less_end": lambda a, b: a["final"] - b["final"],
        "area_less_area": lambda a, b: area(a["curve"]) - area(b["curve"]),
    }
    for arm, runs in arms.items():
        for figure, measure in {"early_less_end": early}.items() if arm == "uniform" else others.items():
            differences = [measure(run, plain[seed]) for seed, run in runs.items() if seed in plain]
            if len(differences) > 1:
                yield {"arm": arm, "figure": figure, **mean_of(differences), "p": sign_flip(differences)}


def mean_of(values):
    value, half = interval(values)
    return {"value": value, "low": value - half, "high": value + half}


def summary(logs):
    """Of each arm: its end, its area, how long its last traces are, how many have no σ, the tool's share of a step."""
    size = logs[0]["arguments"]["problems"] * logs[0]["arguments"]["copies"]
    last = 10
    for arm, by_seed in by_arm(logs).items():
        runs = list(by_seed.values())
        steps = [step for run in runs for step in run["steps"]]
        lengths = []
        for run in runs:
            own = run["steps"]
            before = own[-last - 1]["tokens"] if len(own) > last else 0
            lengths.append((own[-1]["tokens"] - before) / min(last, len(own)) / size)
        statuses = [item for step in steps for item in step["statuses"].items()]
        total = sum(n for _, n in statuses)
        uniform = sum(n for code, n in statuses if code.startswith("uniform:") or code == "rejected")
        of = lambda figure, value: {"arm": arm, "figure": figure, **(value if isinstance(value, dict) else {"value": value})}
        yield of("seeds", len(runs))
        yield of("end", mean_of([run["final"] for run in runs]))
        yield of("area", mean_of([area(run["curve"]) for run in runs]))
        yield of("last_tokens", mean(lengths))
        if total > 0:
            yield of("uniform", uniform / total)
        yield of("tool_share", mean([step["seconds"]["tool"] / step["seconds"]["all"] for step in steps]))


def levels(logs):
    """When the mean curve gets to levels of accuracy, also as a share of what plain GRPO takes, paired by seed."""
    arms = by_arm(logs)
    plain = arms.get("uniform")
    if plain is None:
        return
    own = LEVELS[logs[0]["arguments"]["density"]]
    for arm, runs in arms.items():
        seeds = [seed for seed in runs if seed in plain]
        curve_of = lambda of, drawn: mean_curve([of[seed]["curve"] for seed in drawn])
        final_of = lambda drawn: mean([plain[seed]["final"] for seed in drawn])
        steps_to = lambda level: over_seeds(seeds, lambda drawn: reaches(curve_of(runs, drawn), level(drawn)))
        # who never gets there takes all its steps at least
        at_least = lambda curve, level, by: min(reaches(curve, level, by), curve[-1][by])

        def share_of(level, by):
            if any(of[seed]["curve"][0]["accuracy"] >= level for of in (runs, plain) for seed in seeds):
                # nothing is a share of the 0 steps of who starts there
                return {"value": math.nan, "low": math.nan, "high": math.nan}
            ratio = lambda drawn: reaches(curve_of(runs, drawn), level, by) / at_least(curve_of(plain, drawn), level, by)
            share = over_seeds(seeds, ratio)
            if arm == "uniform" or len(seeds) < 2:
                return share
            pairs = [(runs[seed]["curve"], plain[seed]["curve"]) for seed in seeds]
            return {**share, "p": exchange(pairs, lambda curves: at_least(mean_curve(curves), level, by))}

        for level in own:
            yield {"arm": arm, "figure": f"steps_to_{level:.2f}", **steps_to(lambda _: level)}
            yield {"arm": arm, "figure": f"steps_to_{level:.2f}_share", **share_of(level, "step")}
        yield {"arm": arm, "figure": f"tokens_to_{own[-1]:.2f}_share", **share_of(own[-1], "tokens")}
        yield {"arm": arm, "figure": "steps_to_plain_end", **steps_to(final_of)}


def sweep_figures(logs):
    return [*comparison(logs), *levels(logs), *summary(logs)]


def csv_of(figures, first=()):
    """What is not known is empty, what is never reached inf."""

    def cell(x):
        if x is None or isinstance(x, str):
            return f'"{x}"' if x and "," in x else x or ""
        if math.isnan(x):
            return ""
        return "inf" if x == math.inf else significant(x)

    columns = [*first, "arm", "figure", "value", "low", "high", "p"]
    lines = [columns, *([cell(each.get(name)) for name in columns] for each in figures)]
    return "".join(f"{','.join(line)}\n" for line in lines)
