"""Stage 0, second half: at fixed parameters, each arm's gradient over blocks of 64 groups against the reference gradient."""
import argparse
import json
import pathlib
import random
import time
import numpy as np
import torch
import arms
from gradient import logprobs, spread
from groups import advantages, sample_groups
from reference import BLOCK, COPIES
from setting import Density, MORE, RECIPE
from tool import Tool
import checkpoint
from model import Llama

DRAWS = 2000  # of the bootstrap


def credits(tool, others, problems, rows, seed, mc):
    """Token advantages of every arm, by name. The policy is built; `others` has the folders of the prover, the hint's reader and the reward model."""
    scale = [a / len(rows) for a in advantages(rows, COPIES)]
    found = {"uniform": arms.uniform(rows, scale)}

    def keep(name, scored, column="sigma"):
        found[name] = arms.weighted(rows, scored, scale, column)

    pr, _ = tool.score_to(rows, [], "pr")
    own = tool.redistribute(rows, pr, ["--sigma", "share,rudder,signed,surprise,entropy"], ("sigma", "sigma_rudder", "sigma_signed", "sigma_surprise", "sigma_entropy", "segments"))
    keep("share pr", own)
    keep("rudder pr, group", own, "sigma_rudder")
    keep("signed pr", own, "sigma_signed")
    keep("surprise", own, "sigma_surprise")
    keep("entropy", own, "sigma_entropy")
    for name, flags in {"value": ["--baseline", "value"], "group, answer": ["--residual", "answer"], "value, answer": ["--baseline", "value", "--residual", "answer"]}.items():
        keep(f"rudder pr, {name}", tool.redistribute(rows, pr, ["--sigma", "rudder", *flags], ("sigma",)))
    calibration = tool.calibrate([pr])  # cross-fitted: no trace's values saw a reward of its own group
    fitted = ["--estimator", "calibrated", "--calibration", calibration]
    scored = tool.redistribute(rows, pr, [*fitted, "--sigma", "share,rudder"], ("sigma", "sigma_rudder", "segments"))
    keep("share calibrated", scored)
    keep("rudder calibrated", scored, "sigma_rudder")
    found["segment calibrated"] = arms.as_advantage(rows, tool.redistribute(rows, pr, [*fitted, "--method", "segment"], ("token_advantage",)))
    _, mates = tool.score_to(rows, ["--estimator", "siblings", "--calibration", calibration, "--sigma", "share,rudder"], "siblings", ("sigma", "sigma_rudder"))
    keep("share siblings", mates)
    keep("rudder siblings", mates, "sigma_rudder")
    keep("share surprise", tool.score(rows, ["--estimator", "surprise"]))
    keep("share posterior", tool.score(rows, ["--estimator", "posterior", "--hint-policy", others["hint"]]))
    keep("share prm", tool.score(rows, ["--estimator", "prm", "--prm", others["prm"]]))
    found["hierarchical"] = arms.as_advantage(rows, tool.score(rows, ["--method", "hierarchical", "--prover", others["prover"]], ("token_advantage",)))
    given = ["--estimator", "given", "--segmenter", "given"]
    keep("shuffled calibrated", tool.score(arms.with_shuffled(rows, scored, seed), given))
    odds, corrected = arms.measured_odds(rows)
    exact = arms.with_values(rows, arms.exact_values(problems, odds, corrected))
    scored = tool.score(exact, [*given, "--sigma", "share,rudder"], ("sigma", "sigma_rudder"))
    keep("share exact", scored)
    keep("rudder exact", scored, "sigma_rudder")
    found["segment exact"] = arms.as_advantage(rows, tool.score(exact, [*given, "--method", "segment"], ("token_advantage",)))
    keep("oracle", tool.score(arms.with_values(rows, arms.known_mistakes), given))
    for samples in mc:
        path, scored = tool.score_to(rows, ["--estimator", "mc", "--mc-samples", str(samples), "--judge", "exact", "--seed", str(seed), "--sigma", "share,rudder"], f"mc-{samples}", ("sigma", "sigma_rudder"))
        keep(f"share mc {samples}", scored)
        keep(f"rudder mc {samples}", scored, "sigma_rudder")
        found[f"segment mc {samples}"] = arms.as_advantage(rows, tool.redistribute(rows, path, ["--method", "segment"], ("token_advantage",)))
    return found


def gradients(model, rows, found):
    """Of each arm one gradient a group: {name: [groups, parameters]}. A group is run once, and followed back once an arm."""
    parameters = list(model.parameters())
    groups, size = len(rows) // COPIES, sum(p.numel() for p in parameters)
    result = {name: np.zeros((groups, size), np.float32) for name in found}
    for group in range(groups):
        here = slice(group * COPIES, (group + 1) * COPIES)
        moving = {name: a[here] for name, a in found.items() if any(np.any(v) for v in a[here])}
        if not moving:
            continue
        logp = logprobs(model, rows[here])
        for name, weights in moving.items():
            loss = -(logp * spread(rows[here], weights, logp.shape[1])).sum()
            gradient = torch.autograd.grad(loss, parameters, retain_graph=True)
            result[name][group] = np.concatenate([g.numpy().ravel() for g in gradient])
    return result


def products(found, direction):
    """Of each arm: inner products with the unit reference [groups], and among its groups [groups, groups], in float64."""
    return {name: (g.astype(np.float64) @ direction, g.astype(np.float64) @ g.T.astype(np.float64)) for name, g in found.items()}


def figures(blocks, seed=1):
    """Mean cosine over blocks and the noise of a block's gradient, with intervals from groups drawn again in every block.

    `blocks` is a list of {arm: (products with the reference, products among groups)}. Noise is the trace of the block gradient's
    covariance over the square of its mean's part along the reference; plain GRPO's over an arm's says how many times fewer groups the arm
    needs for the same signal to noise. The same draws serve all arms, so that differences have intervals of their own.
    """
    rng = np.random.default_rng(seed)
    names = list(dict.fromkeys(name for block in blocks for name in block))
    sizes = [len(b["uniform"][0]) for b in blocks]
    counts = [rng.multinomial(size, [1 / size] * size, DRAWS) for size in sizes]

    def square(among, count):
        return ((count @ among) * count).sum(-1)

    def cosine(arm, block, count):
        along, among = block[arm]
        return (count @ along) / np.sqrt(np.maximum(1e-300, square(among, count)))

    def noise(arm, block, count):
        along, among = block[arm]
        n = count.sum(-1)
        mean_square = (count @ np.diag(among)) / n      # of a group's gradient
        square_mean = square(among, count) / n / n      # of their mean, the noise in it
        spread_ = (mean_square - square_mean) * n / (n - 1)
        return spread_ / n / ((count @ along) / n) ** 2

    found = {}
    for arm in names:
        mine = [(b, c, np.ones(size)) for b, c, size in zip(blocks, counts, sizes) if arm in b]

        def both(measure, of):
            """A measure of an arm, a mean over the blocks that have this one: as it is, and of each draw."""
            return np.mean([measure(of, b, ones) for b, _, ones in mine]), np.mean([measure(of, b, c) for b, c, _ in mine], 0)

        value, drawn = both(cosine, arm)
        plain, plain_drawn = both(cosine, "uniform")
        (noisy, noisy_drawn), (plainly, plainly_drawn) = both(noise, arm), both(noise, "uniform")
        ratio, ratio_drawn = plainly / noisy, plainly_drawn / noisy_drawn
        # a resample has fewer distinct groups than the block, so its cosines are lower: the interval is that of the spread about the mean
        def about(middle, sample):
            return [float(middle + q) for q in np.quantile(sample - np.mean(sample), [0.025, 0.975])]

        if np.mean([b[arm][0].mean() for b, _, _ in mine]) <= 0:  # away from the reference: more groups do not help
            ratio, ratio_drawn = 0.0, np.zeros(DRAWS)
        found[arm] = {
            "blocks": len(mine), "cosine": float(value), "cosine_interval": about(value, drawn),
            "gain": float(value - plain), "gain_interval": about(value - plain, drawn - plain_drawn),
            "efficiency": float(ratio), "efficiency_interval": [float(q) for q in np.quantile(ratio_drawn, [0.025, 0.975])],
        }
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--density", choices=MORE, default="sparse")
    parser.add_argument("--model", required=True)
    parser.add_argument("--reference", required=True, help=".npy of reference.py")
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--mc", default="8", help="completions an exit point, comma-separated; in the first block alone beyond 8")
    parser.add_argument("--folder", required=True, help="for the tool's files")
    parser.add_argument("--out", required=True, help=".json")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    puzzle, model = Density(args.density), checkpoint.load(Llama(), args.model)
    stored = np.load(args.reference, mmap_mode="r")
    reference = np.mean(stored, 0, dtype=np.float64)
    halves = [np.mean(stored[i::2], 0, dtype=np.float64) for i in (0, 1)]
    direction = reference / np.linalg.norm(reference)
    tool, others = Tool(args.folder), {}
    for name in ("prover", "hint", "prm"):
        others[name] = pathlib.Path(args.folder) / name
        tool.run(["policy", "build", RECIPE.parent / name, "-o", others[name]])
    tool.build(model)
    blocks, started = [], time.time()
    for number in range(args.blocks):
        rng = random.Random(f"stage0/{args.density}/{number}")
        drawn = [puzzle.draw_problem(rng, rng.choice(puzzle.FAMILIES)) for _ in range(BLOCK)]
        rows = sample_groups(puzzle, model, drawn, COPIES, torch.Generator().manual_seed(10_000 + number))
        problems = {f"p{i}": problem for i, problem in enumerate(drawn)}
        mc = [m for m in map(int, filter(None, args.mc.split(","))) if m <= 8 or number == 0]
        found = credits(tool, others, problems, rows, number, mc)
        seconds = time.time() - started
        blocks.append(products(gradients(model, rows, found), direction))
        result = {
            "density": args.density, "reference_groups": len(stored) * BLOCK, "groups": BLOCK * len(blocks), "copies": COPIES,
            "halves_cosine": float(halves[0] @ halves[1] / np.linalg.norm(halves[0]) / np.linalg.norm(halves[1])),
            "arms": figures(blocks),
        }
        pathlib.Path(args.out).write_text(json.dumps(result, indent=1) + "\n")
        print(f"block {number + 1} of {args.blocks}: credits {seconds:.0f} s, all {time.time() - started:.0f} s", flush=True)
        for name, f in result["arms"].items():
            print(f"  {name:24} cosine {f['cosine']:.3f} gain {f['gain']:+.3f} [{f['gain_interval'][0]:+.3f}, {f['gain_interval'][1]:+.3f}] efficiency {f['efficiency']:.2f}", flush=True)


if __name__ == "__main__":
    main()
