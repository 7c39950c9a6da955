"""
Writes lab/grpo/logs/figures.csv, the tables of lab/grpo/within.md, and the measured part of docs/training.md with
its charts, all from the logs of training runs and of the gradients at fixed parameters.
"""
import hashlib
import json
import math

from runs import (
    LEVELS, LOGS, ROOT, area, by_arm, csv_of, interval, mean, mean_curve, reaches, runs_of, sign_flip,
    smoothed, sweep_figures, whole_looks,
)
from tables import fixed, replace_part, table, two

DENSITIES = ["sparse", "dense"]
SWEEPS = {"sparse": "sparse", "sparse-clipped": "sparse", "dense": "dense"}


def signal_to_noise(cosine):
    """Of a gradient with that cosine the square of the part along the reference over that of all beside it."""
    return max(0, cosine) ** 2 / (1 - cosine**2)


def fixed_figures(density, mark=""):
    """Figures at fixed parameters."""
    found = json.loads((LOGS / f"stage0-{density}{mark}.json").read_text())
    arms, plain = found["arms"], found["arms"]["uniform"]
    about = lambda figure, value: {"arm": "", "figure": figure, "value": value}
    yield about("groups", found["groups"])
    yield about("blocks", plain["blocks"])
    yield about("reference_groups", found["reference_groups"])
    yield about("halves_cosine", found["halves_cosine"])
    for operator, share in found["wrong"].items():
        yield about(f"wrong {operator}", share)
    # the variance of a block's gradient over the square of its mean
    variance = lambda f: None if f["limit"] is None or f["cosine"] <= 0 else (f["limit"] / f["cosine"]) ** 2 - 1
    for arm, own in arms.items():
        put = lambda figure, value, **more: {"arm": arm, "figure": figure, "value": value, **more}
        yield put("cosine", own["cosine"])
        if arm != "uniform":
            low, high = own["gain_interval"]
            yield put("gain", own["gain"], low=low, high=high)
        # a limit or an efficiency of fewer groups says nothing
        if found["groups"] < 100:
            continue
        yield put("efficiency", signal_to_noise(own["cosine"]) / signal_to_noise(plain["cosine"]))
        if variance(own) is not None:
            yield put("variance", variance(own) / variance(plain))
        if own["limit"] is not None:
            yield put("limit", own["limit"])
        by_return = (found.get("return") or {"arms": {}})["arms"].get(arm, {}).get("limit")
        if by_return is not None:
            yield put("limit_by_return", by_return)


def sweep(name):
    """Runs of the committed weak policy, whole, and alike but for arm, seed and rate; an arm has one rate."""
    logs, seen, rates = runs_of(name), set(), {}
    settings = lambda log: {k: v for k, v in log["arguments"].items() if k not in ("arm", "seed", "rate")}
    for log in logs:
        made = log["arguments"]
        run = f"{name}: {made['arm']}, seed {made['seed']}, rate {made['rate']}"
        weights = (ROOT / f"lab/grpo/weak-{made['density']}.safetensors").read_bytes()
        assert settings(log) == settings(logs[0]), f"{run}: has other settings than the sweep"
        assert made["weights"] == hashlib.sha256(weights).hexdigest(), f"{run}: is of another weak policy"
        assert log["looks"][-1]["step"] == made["steps"], f"{run}: has no look at its last step"
        assert run not in seen, f"{run}: is there twice"
        seen.add(run)
        known = rates.setdefault(made["arm"], made["rate"])
        assert name.startswith("tuning") or known == made["rate"], f"{run}: others have {known}"
    return logs


def tuning(density):
    """Accuracy by arm and learning rate, with seeds that no other run has."""
    logs = sweep(f"tuning-{density}")
    for arm in dict.fromkeys(log["arguments"]["arm"] for log in logs):
        own = [log for log in logs if log["arguments"]["arm"] == arm]
        for rate in sorted({log["arguments"]["rate"] for log in own}):
            looks = [mean(whole_looks(log["looks"])) for log in own if log["arguments"]["rate"] == rate]
            yield {"arm": arm, "figure": f"accuracy at {rate}", "value": mean(looks)}
            yield {"arm": arm, "figure": f"runs at {rate}", "value": len(looks)}


def rates(density):
    """Runs with a sweep's seeds at another rate beside the sweep's own, and both against plain GRPO at that rate."""
    rename = lambda logs, of: [{**log, "arguments": {**log["arguments"], "arm": of(log["arguments"])}} for log in logs]
    with_rate = lambda made: f"{made['arm']}, {made['rate']}"
    is_plain = lambda made: made["arm"] == "uniform"
    others = sweep(f"rates-{density}")
    own = [log for log in sweep(density) if log["arguments"]["arm"] in ("uniform", "share calibrated")]
    turned = rename(others, lambda made: made["arm"] if is_plain(made) else with_rate(made))
    turned += rename([log for log in own if not is_plain(log["arguments"])], with_rate)
    rate = others[0]["arguments"]["rate"]
    return {
        f"rates-{density}": sweep_figures(own + rename(others, with_rate)),
        f"rates-{density} against plain GRPO at {rate}": sweep_figures(turned),
    }


def faults():
    """What traces are made of after some steps, of single runs with the first seed of the tuning."""
    for line in (LOGS / "faults.jsonl").read_text().splitlines():
        row = json.loads(line)
        readable, operations = row["readable"], row["operations"]
        for figure, value in {
            "traces": row["traces"], "right": row["right"], "not_readable": row["traces"] - readable,
            "operations": operations / readable, "operations_wrong": row["wrong_operations"] / operations,
            "fillers": row["fillers"] / readable, "mistake_known": row["mistake_known"],
            "mistake_unknown": row["mistake_unknown"],
        }.items():
            yield {"arm": f"{row['arm']}, {row['rate']}, step {row['steps']}", "figure": figure, "value": value}


def foreign():
    """Runs whose traces another policy scored."""
    for log in sweep("foreign"):
        made, looks = log["arguments"], whole_looks(log["looks"])
        for figure, value in (("early", looks[0]), ("end", looks[-1])):
            yield {"arm": f"{made['arm']}, seed {made['seed']}", "figure": figure, "value": value}


def all_figures():
    found = {}
    for density in DENSITIES:
        found[f"fixed-{density}"] = list(fixed_figures(density))
        found[f"fixed-{density}-mc"] = list(fixed_figures(density, "-mc"))
    for name in SWEEPS:
        found[name] = sweep_figures(sweep(name))
    found["foreign"] = list(foreign())
    for density in DENSITIES:
        found.update(rates(density))
    for density in DENSITIES:
        found[f"tuning-{density}"] = list(tuning(density))
    found["faults"] = list(faults())
    return found


# arms of the page's tables; the CSV has all
AT_FIXED = (
    "oracle decisions; share exact; share calibrated; share pr; share siblings; segment calibrated; "
    "rudder calibrated, group; entropy; surprise; uniform; oracle; rudder pr, value; signed pr; shuffled calibrated"
).split("; ")


def page_part(found):
    get = {of: {(each["arm"], each["figure"]): each for each in own} for of, own in found.items()}
    signed = lambda x: f"{'−' if x < 0 else '+'}{two(abs(x), 3)}"

    def fixed_cells(arm, density):
        gain = get[f"fixed-{density}"].get((arm, "gain"))
        told = f"{signed(gain['value'])} [{signed(gain['low'])}, {signed(gain['high'])}]" if gain else ""
        return [told, f"{get[f'fixed-{density}'][arm, 'efficiency']['value']:.2f}"]

    head = "cosine less plain GRPO's"
    order = sorted(AT_FIXED, key=lambda arm: -get["fixed-sparse"][arm, "cosine"]["value"])
    at_fixed = table(
        ["arm", f"sparse: {head}", "efficiency", f"dense: {head}", "efficiency"],
        [["**plain GRPO**" if arm == "uniform" else arm, *fixed_cells(arm, "sparse"), *fixed_cells(arm, "dense")] for arm in order],
    )
    percent = lambda x: f"{100 * x:.0f} %" if math.isfinite(x) else "–"
    rows = []
    for name, density in SWEEPS.items():
        for arm in dict.fromkeys(arm for arm, _ in get[name] if arm != "uniform"):
            share = get[name][arm, f"steps_to_{LEVELS[density][1]:.2f}_share"]
            cells = [f"{percent(share['value'])} [{percent(share['low'])}, {percent(share['high'])}], p = {two(share['p'], 3)}"]
            for figure in ("area_less_area", "end_less_end"):
                own = get[name][arm, figure]
                cells.append(f"{signed(own['value'])} ± {two(own['high'] - own['value'], 3)}, p = {two(own['p'], 3)}")
            rows.append([name, arm, *cells])
    steps = f"steps to {two(LEVELS['sparse'][1])} (dense: {two(LEVELS['dense'][1])}), of plain GRPO's"
    in_training = table(["sweep", "arm", steps, "area under the curve", "accuracy at the end"], rows)
    return f"### At fixed parameters\n\n{at_fixed}\n\n### In training\n\n{in_training}"


# --- the tables of lab/grpo/within.md


def cell(x, digits=3):
    return "" if x is None or not math.isfinite(x) else fixed(x, digits)


def csv(heads, rows):
    quoted = lambda each: f'"{each}"' if "," in str(each) else str(each)
    return "".join(f"{','.join(map(quoted, line))}\n" for line in [heads.split(","), *rows])


def fixed_table(arms):
    """An arm a row, by cosine."""
    rows = []
    more = {"limit": 2, "norm": 2, "step_cosine": 3, "step_spread": 2, "gain_mean": 1, "gain_median": 1}
    for name, f in sorted(arms.items(), key=lambda each: -each[1]["cosine"]):
        worth = signal_to_noise(f["cosine"]) / signal_to_noise(arms["uniform"]["cosine"])
        spreads = [f.get("gain"), *f["gain_interval"], f.get("to_even"), *f["to_even_interval"]]
        rows.append([
            "plain GRPO" if name == "uniform" else name, f["blocks"], cell(f["cosine"]), *map(cell, spreads),
            cell(worth, 1), *(cell(f.get(name), digits) for name, digits in more.items()),
        ])
    return csv(
        "arm,blocks of 64 groups,cosine,less plain GRPO,low,high,less share calibrated,low,high,groups of plain GRPO,limit,norm (× plain GRPO),cosine of a step,norm of a large step (× median),sigma_gain mean,sigma_gain median",
        rows,
    )


def steps_to(log, level):
    """Steps to where the smoothed curve first reaches the level; all of them where it never does."""
    return max(1, min(reaches(smoothed(log["looks"]), level), log["arguments"]["steps"]))


def pair_of(log, plain, level):
    """A run beside plain GRPO's of the same seed: shares of its steps, to its own end and to a level; differences."""
    own, other = whole_looks(log["looks"]), whole_looks(plain["looks"])
    return {
        "share": steps_to(log, other[-1]) / steps_to(plain, other[-1]),
        "level": steps_to(log, level) / steps_to(plain, level),
        "early": own[0] - other[0],
        "end": own[-1] - other[-1],
        "area": area(smoothed(log["looks"])) - area(smoothed(plain["looks"])),
    }


def paired(logs):
    """Runs that have one of plain GRPO beside them."""
    plain = {log["arguments"]["seed"]: log for log in logs if log["arguments"]["arm"] == "uniform"}
    return [(log, plain[log["arguments"]["seed"]]) for log in logs if log["arguments"]["seed"] in plain]


def tested(values, is_share=False):
    """A mean of pairs and its p by an exact sign-flip test; of shares the geometric one."""
    measured = [math.log(x) for x in values] if is_share else values
    middle = math.exp(mean(measured)) if is_share else mean(measured)
    return [cell(middle), cell(sign_flip(measured)) if len(values) > 1 else ""]


def training_tables(logs):
    """A row a run, and a row an arm."""
    top = LEVELS[logs[0]["arguments"]["density"]][-1]
    rows, arms = [], {}
    for log, plain in paired(logs):
        made, looks = log["arguments"], whole_looks(log["looks"])
        entropies = [step["entropy"] for step in log["steps"] if "entropy" in step]
        at = lambda part: entropies[int(part * (len(entropies) - 1) + 0.5)] if entropies else None
        norms = [step["norm"] for step in log["steps"]]
        clip = made["clip"]
        gains = [step.get("sigma_gain") for step in log["steps"]]
        rows.append([
            "plain GRPO" if made["arm"] == "uniform" else made["arm"], made["seed"],
            cell(steps_to(log, whole_looks(plain["looks"])[-1]), 0), cell(pair_of(log, plain, top)["share"]),
            cell(steps_to(log, top), 0), cell(looks[0]), cell(looks[-1]), cell(area(smoothed(log["looks"]))),
            *(cell(at(part)) for part in (0, 0.5, 1)), cell(mean(norms)),
            cell(mean([clip is not None and norm > clip for norm in norms])),
            cell(None if None in gains else mean(gains), 1), log["looks"][-1]["tokens"],
        ])
        if made["arm"] != "uniform":
            arms.setdefault(made["arm"], []).append(pair_of(log, plain, top))
    summary = []
    for arm, pairs in arms.items():
        of = lambda name, is_share=False: tested([each[name] for each in pairs], is_share)
        summary.append([arm, len(pairs), *of("share", True), *of("level", True), *of("early"), *of("end"), *of("area")])
    return (
        csv(
            f"arm,seed,steps to plain GRPO’s end,share,steps to {top},accuracy at 70 % of the steps,at the end,area,entropy at first,at half,at the end,mean norm,steps cut,sigma_gain,tokens",
            rows,
        ),
        csv(
            f"arm,seeds,share of plain GRPO’s steps,p,share of its steps to {top},p,at 70 % of the steps less plain GRPO,p,at the end,p,area,p",
            summary,
        ),
    )


# every sweep with a task's weak policy, whatever its steps, its rate's course and its clipping
POOLED_SWEEPS = {
    "sparse": ["sparse", "sparse-clipped", "within-sparse", "within-falling", "within-again"],
    "dense": ["dense", "within-dense", "within-dense-falling", "within-dense-capped"],
}
POOLED = ["share calibrated", "share pr", "within calibrated", "within pr", "within calibrated capped"]


def pooled_table(task):
    """One figure over all pairs of a task that an arm has, so that no claim rests on the best sweep."""
    middle = LEVELS[task][1]
    pairs = [pair for name in POOLED_SWEEPS[task] for pair in paired(runs_of(name))]
    rows = []
    for name in POOLED:
        found = [pair_of(log, plain, middle) for log, plain in pairs if log["arguments"]["arm"] == name]
        if not found:
            continue

        def spread(values, turn=lambda x: x):
            value, half = interval(values)
            return [cell(turn(x)) for x in (value, value - half, value + half)] + [cell(sign_flip(values)) if len(values) > 1 else ""]

        shares = lambda of: spread([math.log(each[of]) for each in found], math.exp)
        less = lambda of: spread([each[of] for each in found])
        rows.append([name, len(found), *shares("level"), *shares("share"), *less("area"), *less("end")])
    return csv(
        f"arm,pairs,share of plain GRPO’s steps to {middle},low,high,p,to plain GRPO’s end,low,high,p,area less plain GRPO’s,low,high,p,accuracy at the end less,low,high,p",
        rows,
    )


def measure_table(sweeps):
    """What the comparison with plain GRPO's own end says, with the arms exchanged too, and of plain GRPO beside other seeds."""
    rows = []
    for name, logs in sweeps.items():
        share = lambda log, plain: pair_of(log, plain, 1)["share"]
        plain = [log for log in logs if log["arguments"]["arm"] == "uniform"]
        others = [(log, other) for log in plain for other in plain if other is not log]
        told = lambda pairs: tested([share(*pair) for pair in pairs], True)
        rows.append([name, "plain GRPO of other seeds", len(others), told(others)[0] if len(others) < 2 else cell(math.exp(mean([math.log(share(*pair)) for pair in others]))), "", "", ""])
        for arm in dict.fromkeys(log["arguments"]["arm"] for log in logs if log["arguments"]["arm"] != "uniform"):
            pairs = [pair for pair in paired(logs) if pair[0]["arguments"]["arm"] == arm]
            rows.append([name, arm, len(pairs), *told(pairs), *told([(b, a) for a, b in pairs])])
    return csv("sweep,arm,pairs,share of plain GRPO’s steps to its own end,p,the arms exchanged,p", rows)


TASKS = ["sparse", "dense", "minus", "reach", "falling", "again", "dense-falling", "dense-capped", "single"]


def within_tables():
    made, sweeps = {}, {}
    for task in TASKS:
        stage = LOGS / f"stage0-within-{task}.json"
        if stage.exists():
            made[f"stage0-within-{task}.csv"] = fixed_table(json.loads(stage.read_text())["arms"])
        if (LOGS / f"within-{task}").exists():
            sweeps[task] = runs_of(f"within-{task}")
            made[f"within-{task}-runs.csv"], made[f"within-{task}.csv"] = training_tables(sweeps[task])
    made["measure.csv"] = measure_table(sweeps)
    for task in POOLED_SWEEPS:
        made[f"pooled-{task}.csv"] = pooled_table(task)
    return made


# --- charts

COLOURS = "#4477aa #ee6677 #228833 #ccbb44 #66ccee #aa3377 #888888 #000000".split()


def chart(name):
    """Mean accuracy over seeds by steps, a line an arm, as SVG."""
    lines = {arm: mean_curve([run["curve"] for run in runs.values()]) for arm, runs in by_arm(sweep(name)).items()}
    steps = max(curve[-1]["step"] for curve in lines.values())
    x = lambda step: f"{60 + step / steps * 500:.1f}"
    y = lambda accuracy: f"{44 + (1 - min(1, max(0.5, accuracy))) / 0.5 * 304:.1f}"
    parts = []
    for tick in (0.5, 0.6, 0.7, 0.8, 0.9, 1):
        parts.append(f'<line x1="60" x2="560" y1="{y(tick)}" y2="{y(tick)}" stroke="#ddd"/><text x="52" y="{y(tick)}" dy="4" text-anchor="end">{tick}</text>')
    for tick in range(5):
        parts.append(f'<text x="{x(steps * tick / 4)}" y="366" text-anchor="middle">{steps * tick / 4:.0f}</text>')
    for n, (arm, curve) in enumerate(lines.items()):
        style = f'stroke="{COLOURS[n]}" stroke-width="2"' + (' stroke-dasharray="5 4"' if arm == "uniform" else "")
        points = " ".join(f"{x(each['step'])},{y(each['accuracy'])}" for each in curve)
        parts.append(f'<polyline points="{points}" fill="none" {style}/>')
        parts.append(f'<line x1="576" x2="600" y1="{52 + n * 20}" y2="{52 + n * 20}" {style}/><text x="606" y="{56 + n * 20}">{"plain GRPO" if arm == "uniform" else arm}</text>')
    title = f"{name}: accuracy on held-out problems by steps, mean over seeds"
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="400" font-family="sans-serif" font-size="12">\n<title>{title}</title>\n<rect width="100%" height="100%" fill="#fff"/>\n<text x="60" y="22" font-size="14">{title}</text>\n{body}\n</svg>\n'


if __name__ == "__main__":
    found = all_figures()
    figures = [{"from": of, **each} for of, own in found.items() for each in own]
    (LOGS / "figures.csv").write_text(csv_of(figures, ["from"]))
    for file, text in within_tables().items():
        (LOGS / file).write_text(text)
    for name in DENSITIES:
        (ROOT / f"docs/training-{name}-steps.svg").write_text(chart(name))
    replace_part(ROOT / "docs/training.md", "measured: lab/training.py", page_part(found))
