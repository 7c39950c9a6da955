"""Stage 0 of credit inside the segment: which tokens of a segment get its credit, how large the gradient becomes by it, and what a constant does to that."""
import argparse
import collections
import functools
import json
import pathlib
import time
import numpy as np
import torch
import arms
import truth
import without
from groups import advantages
from reference import BLOCK, COPIES
from setting import RECIPE, TASKS, puzzle_of
from stage0 import drawn_block, figures, gradients, products, reference_of
from tool import EMBEDDED, Tool
import checkpoint
from model import Llama

STEP = 8    # groups of a training step
AT_ONCE = 9  # arms whose gradients are in memory together
WITHIN = {"": "uniform", ", entropy": "entropy", ", unsure": "unsure"}
# arms whose steps are also divided by a constant of their own, and brought to norm 1
SIZED = ("uniform", "share calibrated", "share calibrated, entropy", "share calibrated, entropy, even .8", "share pr, entropy", "share pr, entropy, even .8")


def credits(tool, puzzle, problems, rows, seed):
    """Token advantages of every arm by name, and `sigma_gain` of every trace of those arms that have one (1 for a trace without)."""
    scale = [a / len(rows) for a in advantages(rows, COPIES)]
    found, gains = {"uniform": arms.uniform(rows, scale)}, {"uniform": np.ones(len(rows))}

    def keep(name, scored, column="sigma"):
        found[name] = arms.weighted(rows, scored, scale, column)
        if column == "sigma":
            gains[name] = np.array([row["sigma_gain"] if row and row["sigma_gain"] else 1.0 for row in scored])

    if hasattr(puzzle, "passes"):
        without.credits(tool, rows, problems, seed, keep)
        return found, gains, np.array(scale) != 0
    columns = ("sigma", "sigma_gain", "segments")

    def rules(name, path, flags):
        """`share` and `rudder` on one scored file, with each way to weigh tokens inside a segment."""
        for mark, within in WITHIN.items():
            own = tool.redistribute(rows, path, [*flags, "--sigma", "share,rudder", "--baseline", "group", "--within", within], ("sigma_rudder", *columns))
            keep(f"share {name}{mark}", own)
            keep(f"rudder {name}{mark}", own, "sigma_rudder")

    pr, _ = tool.score_to(rows, [], "pr")
    calibration = tool.calibrate([pr])  # cross-fitted: no trace's values saw a reward of its own group
    fitted = ["--estimator", "calibrated", "--calibration", calibration]
    rules("calibrated", pr, fitted)
    rules("pr", pr, [])
    for name, flags in {"calibrated": fitted, "pr": []}.items():
        for mark in (", entropy", ", unsure"):
            keep(f"share {name}{mark}, even .8", tool.redistribute(rows, pr, [*flags, "--within", WITHIN[mark], "--mix", "0.8"], columns))
    keep("entropy", tool.redistribute(rows, pr, ["--sigma", "entropy"], columns))
    scored = tool.redistribute(rows, pr, [*fitted, "--within", "entropy"], columns)
    keep("weights shuffled inside", arms.shuffled_inside(scored, seed))
    given = ["--estimator", "given", "--segmenter", "given", "--within", "entropy"]  # so that the policy reads the traces
    shuffled = arms.with_shuffled(rows, scored, seed)
    keep("values shuffled, entropy", tool.score(shuffled, given, columns))
    # one constant for each trace, its own
    for name in ("share calibrated, entropy", "share calibrated, entropy, even .8", "share pr, entropy"):
        found[f"{name}, by trace"] = [a / gain for a, gain in zip(found[name], gains[name])]
    exact = arms.with_values(rows, arms.exact_values(problems, *arms.measured_odds(rows, puzzle.weak)))
    rules("exact", tool.score_to(exact, given, "exact")[0], [])
    decisions, _ = tool.score_to(arms.with_values(rows, functools.partial(arms.known_decisions, weak=puzzle.weak)), given, "decisions")
    for mark in ("", ", entropy"):
        keep(f"oracle decisions{mark}", tool.redistribute(rows, decisions, ["--within", WITHIN[mark]], columns))
    siblings, _ = tool.score_to(rows, ["--estimator", "siblings", "--calibration", calibration], "siblings")
    rules("siblings", siblings, [])
    return found, gains, np.array(scale) != 0


def steps_of(values):
    return [slice(at, at + STEP) for at in range(0, len(values), STEP)]


def divided(product, by):
    """Products of groups whose gradients are divided by numbers, one a group."""
    along, among = product
    return along / by, among / np.outer(by, by)


def sized(block, gains, moving):
    """For arms of `SIZED` the products of steps divided by their mean `sigma_gain`, and by their own norm, as clipping below all norms does."""
    found = {}
    for name in filter(block.__contains__, SIZED):
        along, among = block[name]
        constant, norm = np.ones(len(along)), np.ones(len(along))
        for here in steps_of(along):
            traces = slice(here.start * COPIES, here.stop * COPIES)
            constant[here] = np.mean(gains[name][traces][moving[traces]]) if any(moving[traces]) else 1
            norm[here] = max(1e-12, np.sqrt(among[here, here].sum()))
        if name != "uniform":
            found[f"{name}, a constant a step"] = divided((along, among), constant)
        found[f"{name}, norm 1 a step"] = divided((along, among), norm)
    return found


def step_blocks(blocks):
    """The same products in blocks of a training step's size."""
    return [{arm: (along[here], among[here, here]) for arm, (along, among) in block.items()} for block in blocks for here in steps_of(block["uniform"][0])]


def sizes(blocks, gains, moving):
    """Of each arm: the norm of a block and of a step over plain GRPO's (medians), how far a large step's norm (90th percentile) is above the median one, and `sigma_gain`."""
    parts, found = step_blocks(blocks), {}

    def norms(pieces, arm):
        return np.sqrt([max(0.0, piece[arm][1].sum()) for piece in pieces])

    for arm in blocks[0]:
        step = norms(parts, arm)
        found[arm] = {"norm": float(np.median(norms(blocks, arm) / norms(blocks, "uniform"))), "step_norm": float(np.median(step)), "step_spread": float(np.quantile(step, 0.9) / np.median(step))}
        if arm in gains[0]:
            values = np.concatenate([gain[arm][moves] for gain, moves in zip(gains, moving)])
            found[arm].update(gain_mean=float(np.mean(values)), gain_median=float(np.median(values)), gain_highest=float(np.max(values)))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--density", choices=TASKS, default="sparse")
    parser.add_argument("--model", required=True)
    parser.add_argument("--reference", required=True, help=".npy of reference.py")
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--skip", default="", help="arms with one of these in their names are left out, to save time; separated by ;")
    parser.add_argument("--folder", required=True, help="for the tool's files")
    parser.add_argument("--out", required=True, help=".json")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    puzzle, model = puzzle_of(args.density), checkpoint.load(Llama(), args.model)
    groups, halves, direction = reference_of(args.reference, args.density, args.model, "grpo")
    tool = Tool(args.folder, RECIPE.parent / "reach" if args.density == "reach" else EMBEDDED)
    tool.build(model)
    blocks, gains, moving, counted, started = [], [], [], collections.Counter(), time.time()
    for number in range(args.blocks):
        drawn, rows = drawn_block(puzzle, model, BLOCK, f"stage0/{args.density}/{number}", 10_000 + number)
        counted += truth.operations(rows)
        made, gain, moves = credits(tool, puzzle, {f"p{i}": problem for i, problem in enumerate(drawn)}, rows, number)
        skipped = list(filter(None, args.skip.split(";")))
        seconds, block, names = time.time() - started, {}, [name for name in made if not any(each in name for each in skipped)]
        for at in range(0, len(names), AT_ONCE):
            block.update(products(gradients(model, rows, {name: made[name] for name in names[at:at + AT_ONCE]}), [direction])[0])
        block.update(sized(block, gain, moves))
        blocks.append(block)
        gains.append(gain)
        moving.append(moves)
        found, small, size = figures(blocks), figures(step_blocks(blocks)), sizes(blocks, gains, moving)
        # differences to even weights, too: the same draws serve all arms
        within = figures([{**each, "uniform": each["share calibrated"]} for each in blocks])
        result = {
            "density": args.density, "reference_groups": groups, "groups": BLOCK * len(blocks), "copies": COPIES, "halves_cosine": halves,
            "wrong": {operator: counted[operator, True] / max(1, counted[operator, True] + counted[operator, False]) for operator in "*+-" if counted},
            "warnings": sorted(set(tool.warnings)),
            "arms": {name: {**found[name], **size[name], "step_cosine": small[name]["cosine"], "step_gain_interval": small[name]["gain_interval"],
                            "to_even": within[name]["gain"], "to_even_interval": within[name]["gain_interval"]} for name in found},
        }
        pathlib.Path(args.out).write_text(json.dumps(result, indent=1) + "\n")
        print(f"block {number + 1} of {args.blocks}: credits {seconds:.0f} s, all {time.time() - started:.0f} s", flush=True)
    for name, f in result["arms"].items():
        print(f"  {name:50} cosine {f['cosine']:.3f} gain {f['gain']:+.3f} norm {f['norm']:.1f}", flush=True)


if __name__ == "__main__":
    main()
