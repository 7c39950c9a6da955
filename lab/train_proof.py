"""
Trains the weak policy of `lab/grpo` with each arm's credit, seed by seed, and prints the arms' figures against plain GRPO as CSV.
`train_proof.py --arms "uniform,share calibrated" --seeds 8`. Needs PyTorch. Runs that are done are kept in --work: the same
command goes on where it was.
"""
import argparse
import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from runs import LEVELS, ROOT, csv_of, read_log, sweep_figures

GRPO = ROOT / "lab/grpo"
NUMBERS = {"steps": 50, "problems": 8, "copies": 8, "look": 5, "held-out": 1000}


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = subprocess.run([sys.executable, GRPO / "train_arm.py", "--list"], capture_output=True, text=True, check=True)
    parser.add_argument("--arms", default="uniform,share calibrated")
    parser.add_argument("--density", default="sparse", choices=list(LEVELS))
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--first-seed", type=int, default=1)
    for name, default in NUMBERS.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rate", type=float, help="AdamW's learning rate (default: tuned for the arm)")
    parser.add_argument("--clip", type=float)
    parser.add_argument("--falling", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--work", type=Path, default=ROOT / ".train-proof")
    flags = parser.parse_args()
    flags.arms = [name.strip() for name in flags.arms.split(",")]
    unknown = [name for name in flags.arms if name not in known.stdout.split("\n")]
    if unknown:
        parser.error(f"no such arm: {unknown[0]}; try some of {', '.join(known.stdout.split(chr(10)))}")
    tuned = json.loads((GRPO / "rates.json").read_text()).get(flags.density)
    if flags.rate is None and tuned is None:
        parser.error(f"no learning rate was tuned for the {flags.density} task; try --rate 0.0006")
    flags.rate_of = lambda arm: flags.rate if flags.rate is not None else tuned.get(arm, tuned["uniform"])
    return flags


def is_done(flags, weights, arm, seed, log):
    """A run that is done, if it is one of this sweep: a folder of two sweeps would end in one set of figures."""
    if not log.exists():
        return False
    found = read_log(log.read_text())
    asked = {
        "arm": arm, "seed": seed, "density": flags.density, "rate": flags.rate_of(arm), "clip": flags.clip,
        "falling": flags.falling, "weights": weights, "scored_by": None,
        **{name.replace("-", "_"): getattr(flags, name.replace("-", "_")) for name in NUMBERS},
    }
    for name, value in asked.items():
        made = found["arguments"].get(name, False if name == "falling" else None)
        if made != value:
            sys.exit(f"{log}: {name} was {made}, and is {value}\n  try: --work with another folder")
    if not found["looks"] or found["looks"][-1]["step"] != flags.steps:
        sys.exit(f"{log}: has no look at step {flags.steps}, its last\n  try: remove it, to run it again")
    return True


def train(flags, arm, seed, log):
    command = [sys.executable, GRPO / "train_arm.py", "--arm", arm, "--seed", seed, "--density", flags.density]
    command += ["--model", GRPO / f"weak-{flags.density}.safetensors", "--folder", log.with_suffix(""), "--out", log]
    command += ["--rate", flags.rate_of(arm)]
    for name in NUMBERS:
        command += [f"--{name}", getattr(flags, name.replace("-", "_"))]
    command += ["--clip", flags.clip] if flags.clip else []
    command += [f"--{name}" for name in ("falling", "check") if getattr(flags, name)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    subprocess.run([str(each) for each in command], env=environment, check=True)
    print(f"{arm}, seed {seed}: done", file=sys.stderr)


def main():
    flags = parsed()
    weights = hashlib.sha256((GRPO / f"weak-{flags.density}.safetensors").read_bytes()).hexdigest()
    folder = flags.work / f"{flags.density}-{flags.rate or 'tuned'}"
    folder.mkdir(parents=True, exist_ok=True)
    # seed by seed, so that a sweep that is stopped has pairs
    jobs = [
        (arm, seed, folder / f"{arm.replace(' ', '-')}-{seed}.jsonl")
        for seed in range(flags.first_seed, flags.first_seed + flags.seeds)
        for arm in flags.arms
    ]
    waiting = [job for job in jobs if not is_done(flags, weights, *job)]
    with ThreadPoolExecutor(flags.jobs) as pool:
        runs = [pool.submit(train, flags, *job) for job in waiting]
    failed = [run.exception() for run in runs if run.exception()]
    if failed:
        # figures without the runs that died would favour what died less
        sys.exit(f"{len(failed)} of {len(jobs)} runs failed, no figures: {failed[0]}\n  try: the same command again")
    sys.stdout.write(csv_of(sweep_figures([read_log(log.read_text()) for *_, log in jobs])))


if __name__ == "__main__":
    main()
