"""
Scores the sets by every method, writes docs/benchmark.csv, and the table of docs/benchmark.md from it.
`benchmark.py` writes the table alone; `benchmark.py --rows embedded puzzles --work work` scores these sets first (minutes).
Rows of methods that are not named below stay: their estimators are Python examples now, or ask an engine.
"""
import argparse
import json
import shlex
import subprocess
from pathlib import Path

import pandas as pd

from bench import figures, read_set
from tables import number, replace_part, table, with_interval

ROOT = Path(__file__).parent.parent
CSV, PAGE = ROOT / "docs/benchmark.csv", ROOT / "docs/benchmark.md"
SETS = ["puzzles", "embedded", "reach"]
BESIDE = ["uniform", "surprise", "entropy", "shuffled"]

# name, flags, sets: {…} is a file or a policy folder in the work folder
METHODS = [
    ("pr", "", "puzzles embedded"),
    ("pr scaled", "--steps scaled", "puzzles embedded"),
    ("pr smoothed", "--steps smoothed", "puzzles embedded"),
    ("pr-geo", "--estimator pr-geo", "puzzles embedded"),
    ("snis", "--estimator snis --references group", "puzzles embedded"),
    ("calibrated", "--estimator calibrated --calibration {calibration.json}", "puzzles embedded"),
    ("calibrated scaled", "--estimator calibrated --calibration {calibration.json} --steps scaled", "puzzles embedded"),
    ("calibrated elsewhere", "--estimator calibrated --calibration {elsewhere.json}", "puzzles embedded"),
    ("siblings", "--estimator siblings --calibration {calibration.json}", "puzzles embedded"),
    ("loo", "--estimator loo", "puzzles embedded"),
    ("progress", "--estimator progress --prover {prover}", "embedded"),
    ("distill", "--estimator distill --teacher {prover}", "embedded"),
    ("posterior", "--estimator posterior --hint-policy {hint}", "embedded"),
    ("posterior contrast", "--estimator posterior --contrast wrong --hint-policy {hint}", "embedded"),
    ("posterior peer", "--estimator posterior --hint peer --hint-template {peer.json}", "puzzles embedded reach"),
    ("posterior peer contrast", "--estimator posterior --hint peer --contrast wrong --hint-template {peer.json}", "puzzles embedded reach"),
    ("calibrated thought", "--estimator calibrated --calibration {thought.json}", "puzzles embedded reach"),
    ("calibrated thought scaled", "--estimator calibrated --calibration {thought.json} --steps scaled", "puzzles embedded reach"),
    ("siblings outcomes", "--estimator siblings --calibration none", "puzzles embedded reach"),
    ("siblings outcomes scaled", "--estimator siblings --calibration none --steps scaled", "reach"),
    ("siblings thought", "--estimator siblings --calibration {thought.json}", "puzzles embedded reach"),
    ("ask", "--estimator ask", "reach"),
    ("ask scaled", "--estimator ask --steps scaled", "reach"),
    ("calibrated asked", "--estimator calibrated --calibration {asked.json}", "reach"),
    ("calibrated asked scaled", "--estimator calibrated --calibration {asked.json} --steps scaled", "reach"),
    ("siblings asked", "--estimator siblings --calibration {asked.json}", "reach"),
]


def rredcot(*args):
    subprocess.run(["node", ROOT / "bin/rredcot.js", *map(str, args)], check=True)


def policy(name, work):
    """The folder of a checkpoint of `models`, built where it is none."""
    if name == "embedded":
        return ROOT / "models/embedded"
    folder, template = work / name, ROOT / "models" / name / "exit_template.json"
    if not (folder / "policy.json").exists():
        flags = ["--exit-template", template] if template.exists() else []
        rredcot("policy", "build", ROOT / "models" / name, "-o", folder, *flags)
    return folder


def calibrations(name, work, how):
    """Fits calibrations to traces that share no group with the set."""
    if name == "reach":
        fit = work / "fit.jsonl"
        if not fit.exists():
            recipe = ROOT / "models/recipe"
            model = ROOT / "models/reach/model.safetensors"
            subprocess.run(["python3", "sample.py", "--task", "reach", "--model", model, "--problems", "300", "--out", fit.absolute()], cwd=recipe, check=True)
            taken = {row["prompt"] for row in read_set("reach")}
            rows = [line for line in fit.read_text().splitlines() if json.loads(line)["prompt"] not in taken]
            fit.write_text("\n".join(rows) + "\n")
        sources = {"thought": "surprise", "asked": "ask"}
    else:
        fit = ROOT / f"fixtures/{'puzzles' if name == 'puzzles' else 'chains'}.jsonl"
        sources = {"calibration": "pr", "thought": "surprise"}
    for made, estimator in sources.items():
        scored = work / f"fit-{made}.parquet"
        rredcot("score", fit, "-o", scored, "--estimator", estimator, "--segmenter", "newline", *how)
        rredcot("calibrate", scored, "-o", work / f"{made}.json")


def score(name, work):
    """All rows of a set's judged half."""
    work = work / name
    work.mkdir(parents=True, exist_ok=True)
    how = ["--policy", policy(name, work), "--overwrite", "--quiet"]
    calibrations(name, work, how)
    other = work.parent / {"puzzles": "embedded", "embedded": "puzzles"}.get(name, name) / "calibration.json"
    if other.exists():
        (work / "elsewhere.json").write_text(other.read_text())
    # the policies have never read a hint; models/hint has, and of answers alone
    (work / "peer.json").write_text(json.dumps({"text": "{peer}\n"}))
    traces, rows = read_set(name, "judge"), []
    for title, flags, sets in METHODS:
        if name not in sets.split():
            continue
        for model in ("prover", "hint"):
            if "{" + model + "}" in flags:
                policy(model, work)
        given = [str(work / each[1:-1]) if each.startswith("{") else each for each in shlex.split(flags)]
        if any(each.endswith("elsewhere.json") for each in given) and not (work / "elsewhere.json").exists():
            continue
        scored = work / f"{title.replace(' ', '-')}.parquet"
        rredcot("score", ROOT / f"lab/sets/{name}.parquet", "-o", scored, "--segmenter", "given", *given, *how)
        found = figures(traces, scored)[1]
        rows.append(named(name, title, found[found["credit"] == "row"]))
        # what needs no file, and a set's ceiling, stand once
        if title == "siblings outcomes":
            rows += [named(name, credit, own) for credit, own in found[found["credit"] != "row"].groupby("credit", sort=False)]
    return pd.concat(rows)


def named(name, title, found):
    found = found.drop(columns="credit")
    found.insert(0, "set", name)
    found.insert(1, "name", title)
    return found


def page_part(rows):
    """A row a method, then what needs no file, by their best share of the ceiling."""
    get = rows.set_index(["set", "name", "measure", "traces"])
    find = lambda *key: get.loc[key].to_dict() if key in get.index else {}
    sizes = []
    for name in SETS:
        every, wrong = find(name, "uniform", "pearson", "all"), find(name, "uniform", "pearson", "wrong")
        groups = len({trace["group"] for trace in read_set(name, "judge")})
        sizes.append(
            f"`{name}`: {every['n_traces']:.0f} traces ({wrong['n_traces']:.0f} wrong) of {groups} groups, "
            f"{every['n_segments']:.0f} segments, ceiling {with_interval(find(name, 'truth', 'ceiling', 'all'))}."
        )
    lines = []
    for name in dict.fromkeys(rows["name"]):
        shares = [find(of, name, "share", "all") for of in SETS]
        # what no set tells from nothing stands in the CSV alone
        is_told = any(number(share.get("low")) > 0.01 for share in shares)
        if name in BESIDE or (is_told and name != "outcome"):
            title = f"*{name}*" if name in BESIDE else f"`{name}`"
            lines.append((max(number(share.get("value")) for share in shares), [title, *map(with_interval, shares)]))
    lines.sort(key=lambda line: -line[0])
    return " ".join(sizes) + "\n\n" + table(["", "share, puzzles", *SETS[1:]], [cells for _, cells in lines])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", default=[], choices=SETS)
    parser.add_argument("--work", type=Path, default=Path("work"))
    flags = parser.parse_args()
    rows = pd.read_csv(CSV)
    for name in flags.rows:
        found = score(name, flags.work)
        old = rows[~((rows["set"] == name) & rows["name"].isin(found["name"]))]
        rows = pd.concat([old, found]).sort_values(["set", "name"], kind="stable")
    if flags.rows:
        rows = rows.astype({"n_traces": "Int64", "n_segments": "Int64"})
        rows.to_csv(CSV, index=False, float_format="%.6g")
    replace_part(PAGE, "rows: lab/benchmark.py", page_part(rows))
