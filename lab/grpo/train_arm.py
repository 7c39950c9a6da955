"""Stage 1: trains the weak policy by GRPO with one arm's credit, and writes a line of JSON for every step and every look at held-out problems."""
import argparse
import collections
import functools
import hashlib
import json
import math
import pathlib
import random
import sys
import time
import numpy as np
import torch
import arms
from gradient import accumulate, entropy
from groups import advantages, sample_groups
from setting import Density, LIMIT, MORE, RECIPE
from tool import Tool
import checkpoint
from model import Llama

EARLY = 0.7        # at this share of the steps all held-out problems are looked at, as at the end
CALIBRATED_ON = 4  # steps whose scored traces the calibrated value is fitted to
WITHIN = ["--within", "entropy", "--mix", "0.8"]  # credit inside a segment, as stage0_within.py found it best

# flags of `score` for arms that one call makes
ONE_CALL = {
    "share pr": [],
    "within pr": WITHIN,
    "within pr capped 8": [*WITHIN, "--cap", "8"],
    "surprise": ["--sigma", "surprise"],
    "entropy": ["--sigma", "entropy"],
    "share surprise": ["--estimator", "surprise"],
}
# flags for arms that need a calibration
CALIBRATED = {
    "share calibrated": ["--estimator", "calibrated"],
    "within calibrated": ["--estimator", "calibrated", *WITHIN],
    "within calibrated capped": ["--estimator", "calibrated", *WITHIN, "--cap", "4"],
    "within calibrated capped 8": ["--estimator", "calibrated", *WITHIN, "--cap", "8"],
    "within calibrated, even .1": ["--estimator", "calibrated", "--within", "entropy"],
    "rudder calibrated": ["--estimator", "calibrated", "--sigma", "rudder", "--baseline", "group"],
    "segment calibrated": ["--estimator", "calibrated", "--method", "segment"],
    "share siblings": ["--estimator", "siblings"],
    "shuffled": ["--estimator", "calibrated"],
    "shuffled within": ["--estimator", "calibrated"],
}
OF_THE_TASK = ("exact", "oracle", "oracle decisions", "oracle decisions within")
UNSURE, HIERARCHICAL = "share mc 8 unsure", "hierarchical"
ARMS = ("uniform", *ONE_CALL, *CALIBRATED, *OF_THE_TASK, UNSURE, HIERARCHICAL)
GIVEN = ["--estimator", "given", "--segmenter", "given"]
COLUMNS = ("sigma", "sigma_gain")


class Credit:
    """Token advantages of one arm for the rows of a step, by way of the tool; `uniform` is plain GRPO and runs no tool."""

    def __init__(self, arm, tool, weak, scored_by=None):
        self.arm, self.tool, self.weak, self.scored, self.calibration, self.is_foreign = arm, tool, weak, [], None, scored_by is not None
        if self.is_foreign:
            tool.build(checkpoint.load(Llama(), scored_by))
        if arm == HIERARCHICAL:
            tool.run("policy", "build", RECIPE.parent / "prover", "-o", tool.path("prover"))

    def of(self, step, model, problems, rows, copies):
        """Token advantages, the tool's seconds, how many traces have each status, and the mean `sigma_gain` of those with an advantage."""
        scale = [a / len(rows) for a in advantages(rows, copies)]
        if self.arm == "uniform":
            return arms.uniform(rows, scale), 0.0, {}, None
        started = self.tool.seconds
        if not self.is_foreign:
            self.tool.build(model)
        if self.arm in ONE_CALL:
            scored = self.tool.score(rows, ONE_CALL[self.arm], COLUMNS)
        elif self.arm == UNSURE:
            scored = self.tool.score(arms.monte_carlo_unsure(self.tool, model, rows, step), GIVEN, COLUMNS)
        elif self.arm == HIERARCHICAL:
            scored = self.tool.score(rows, ["--method", "hierarchical", "--prover", self.tool.path("prover")], ("token_advantage",))
        elif self.arm == "exact":
            scored = self.tool.score(arms.with_values(rows, arms.exact_values(problems, *arms.measured_odds(rows, self.weak))), GIVEN, COLUMNS)
        elif self.arm in OF_THE_TASK:
            known = arms.known_mistakes if self.arm == "oracle" else functools.partial(arms.known_decisions, weak=self.weak)
            scored = self.tool.score(arms.with_values(rows, known), self.given(), COLUMNS)
        else:
            scored = self.calibrated(step, rows)
        if self.arm == HIERARCHICAL or self.arm.startswith("segment"):
            found = arms.as_advantage(rows, scored)
        else:
            found = arms.weighted(rows, scored, scale)
        gains = [row["sigma_gain"] for row, a in zip(scored, scale) if a and row and row.get("sigma_gain") is not None]
        statuses = collections.Counter(row["status"].split(";")[0] if row else "rejected" for row in scored)
        return found, self.tool.seconds - started, statuses, float(np.mean(gains)) if gains else None

    def given(self):
        return [*GIVEN, *(WITHIN if self.arm.endswith("within") else [])]

    def calibrated(self, step, rows):
        """Values fitted to the rewards of the steps before; in the first step to its own, cross-fitted by group."""
        columns = ("token_advantage",) if self.arm.startswith("segment") else (*COLUMNS, "segments")
        here, flags = f"step-{step % CALIBRATED_ON}", CALIBRATED[self.arm]
        if not self.calibration:
            path, _ = self.tool.score_to(rows, [], here)
            self.calibration = self.tool.calibrate([path])
        path, scored = self.tool.score_to(rows, [*flags, "--calibration", self.calibration], here, columns)
        self.scored = [each for each in self.scored if each != path][-CALIBRATED_ON + 1:] + [path]
        self.calibration = self.tool.calibrate(self.scored)  # used in the next step
        if not self.arm.startswith("shuffled"):
            return scored
        return self.tool.score(arms.with_shuffled(rows, scored, step), self.given(), COLUMNS)


def accuracy(puzzle, model, problems, seed, limit=LIMIT):
    """Share of right answers, one completion a problem at temperature 1: the greedy one is right before any training."""
    with torch.no_grad():
        rows = sample_groups(puzzle, model, problems, 1, torch.Generator().manual_seed(seed), limit=limit)
    return float(np.mean([r["reward"] for r in rows]))


def train(args, say):
    puzzle, model = Density(args.density), checkpoint.load(Llama(), args.model)
    tested = puzzle.held_out(args.held_out)
    never = set() if puzzle.is_single else set(tested)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate, betas=(0.9, 0.95), weight_decay=0.0)
    tool = Tool(args.folder)
    credit = Credit(args.arm, tool, puzzle.weak, args.scored_by)
    # of all arms with this seed: the same problems, and the same random numbers for sampling
    rng, tokens = random.Random(f"train/{args.density}/{args.seed}"), 0
    quarter = args.held_out // 4

    def look(step, problems):
        right = accuracy(puzzle, model, problems, 1000 * args.seed + step)
        say({"step": step, "tokens": tokens, "held_out": right, "of": len(problems)})

    for step in range(args.steps + 1):
        if step in (round(EARLY * args.steps), args.steps):
            look(step, tested)
        if step == args.steps:
            few = args.held_out // 4  # does it hold where no step has trained?
            for kind, (problems, limit) in puzzle.farther(few).items():
                say({"step": step, kind: accuracy(puzzle, model, problems, 1000 * args.seed, limit), "of": few})
            say({"warnings": sorted(set(tool.warnings))[:5]})
            break
        if step % args.look == 0:
            part = step // args.look % 4
            look(step, tested[part * quarter:(part + 1) * quarter])
        started, drawn = time.time(), []
        while len(drawn) < args.problems:
            problem = puzzle.draw_problem(rng, rng.choice(puzzle.FAMILIES))
            if problem not in never:
                drawn.append(problem)
        rows = sample_groups(puzzle, model, drawn, args.copies, torch.Generator().manual_seed(args.seed * 100_003 + step), f"s{step}-")
        sampled = time.time()
        now = {"entropy": entropy(model, rows)} if step % args.look == 0 else {}
        found, tool_seconds, statuses, gain = credit.of(step, model, {f"s{step}-{i}": p for i, p in enumerate(drawn)}, rows, args.copies)
        loss = accumulate(model, rows, found)
        # where all groups agree there is no gradient at all
        moving = [p for p in model.parameters() if p.grad is not None]
        norm = float(torch.nn.utils.clip_grad_norm_(moving, args.clip or math.inf))  # as it was before
        for group in optimizer.param_groups:
            group["lr"] = args.rate * min(1, (step + 1) / 5) * (1 - step / args.steps if args.falling else 1)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        tokens += sum(len(r["completion_ids"]) for r in rows)
        seconds = {"sample": round(sampled - started, 2), "tool": round(tool_seconds, 2), "all": round(time.time() - started, 2)}
        after = {}
        if args.check:  # the loss of the same traces once more, which the step has to have lowered
            after = {"loss_after": accumulate(model, rows, found)}
            optimizer.zero_grad(set_to_none=True)
        say({
            "step": step + 1, "tokens": tokens, "reward": float(np.mean([r["reward"] for r in rows])), "loss": loss, "norm": norm, **now, "sigma_gain": gain, "statuses": statuses, **after, "seconds": seconds,
        })
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arm", choices=ARMS, required=True)
    parser.add_argument("--density", choices=MORE, default="sparse")
    parser.add_argument("--model", required=True, help="the weak checkpoint")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--problems", type=int, default=8, help="a step")
    parser.add_argument("--copies", type=int, default=8, help="completions a problem")
    parser.add_argument("--rate", type=float, default=3e-4, help="AdamW's, after five steps of warm-up")
    parser.add_argument("--falling", action="store_true", help="the rate falls linearly to 0 at the last step, as TRL's does by default")
    parser.add_argument("--clip", type=float, help="largest norm of a step's gradient, as TRL's max_grad_norm and verl's grad_clip (default: any)")
    parser.add_argument("--look", type=int, default=5, help="steps from one look at a quarter of the held-out problems to the next")
    parser.add_argument("--scored-by", help="weights of a policy that scores in place of the one that is trained and writes the traces: what not to do")
    parser.add_argument("--held-out", type=int, default=1000, help="problems that no step trains on")
    parser.add_argument("--check", action="store_true", help="compute each step's loss again behind it")
    parser.add_argument("--folder", required=True, help="for the tool's files")
    parser.add_argument("--out", required=True, help=".jsonl")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    unfinished = pathlib.Path(args.out + ".part")
    with unfinished.open("w", encoding="utf-8") as file:
        def say(record):
            file.write(json.dumps(record) + "\n")
            file.flush()
        weights = hashlib.sha256(pathlib.Path(args.model).read_bytes()).hexdigest()
        say({"arguments": {"weights": weights, "scored_by": args.scored_by and pathlib.Path(args.scored_by).parent.name, **{k: v for k, v in vars(args).items() if k not in ("model", "folder", "out", "check", "scored_by")}}})
        train(args, say)
    unfinished.rename(args.out)  # a log that has its name is whole


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print("\n".join(ARMS))
    else:
        main()
