"""Stage 0, second half: at fixed parameters, each arm's gradient over blocks of groups against the reference gradient."""
import argparse
import collections
import json
import pathlib
import random
import time
import numpy as np
import torch
import arms
import truth
from gradient import logprobs, spread
from groups import advantages, centred, sample_groups
from reference import BLOCK, COPIES, identity
from setting import Density, MORE, RECIPE
from tool import Tool
import checkpoint
from model import Llama

DRAWS = 2000  # of the bootstrap


def credits(tool, model, others, problems, rows, seed, mc):
    """Token advantages of every arm, by name. The policy is built; `others` has the folders of the prover and the hint's reader."""
    scale = [a / len(rows) for a in advantages(rows, COPIES)]
    found = {"uniform": arms.uniform(rows, scale), "return": arms.summed(rows, [a / len(rows) for a in centred(rows, COPIES)])}

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
    keep("rudder calibrated, value", scored, "sigma_rudder")
    keep("rudder calibrated, group", tool.redistribute(rows, pr, [*fitted, "--sigma", "rudder", "--baseline", "group"], ("sigma",)))
    found["segment calibrated"] = arms.as_advantage(rows, tool.redistribute(rows, pr, [*fitted, "--method", "segment"], ("token_advantage",)))
    siblings, peers = tool.score_to(rows, ["--estimator", "siblings", "--calibration", calibration], "siblings")
    keep("share siblings", peers)
    keep("rudder siblings, group", tool.redistribute(rows, siblings, ["--sigma", "rudder", "--baseline", "group"], ("sigma",)))
    keep("share pr-geo", tool.redistribute(rows, pr, ["--estimator", "pr-geo", "--sigma", "share"], ("sigma",)))
    keep("share surprise", tool.score(rows, ["--estimator", "surprise"]))
    keep("share posterior", tool.score(rows, ["--estimator", "posterior", "--hint-policy", others["hint"]]))
    found["hierarchical"] = arms.as_advantage(rows, tool.score(rows, ["--method", "hierarchical", "--prover", others["prover"]], ("token_advantage",)))
    given = ["--estimator", "given", "--segmenter", "given"]
    keep("share prm", tool.score(tool.valued(rows, pr, "prm.py", RECIPE.parent / "prm"), given))
    keep("shuffled calibrated", tool.score(arms.with_shuffled(rows, scored, seed), given))
    odds, corrected = arms.measured_odds(rows)
    exact = arms.with_values(rows, arms.exact_values(problems, odds, corrected))
    keep("share exact", tool.score(exact, given))
    keep("rudder exact, group", tool.score(exact, [*given, "--sigma", "rudder", "--baseline", "group"]))
    segments = tool.score(exact, [*given, "--method", "segment"], ("token_advantage",))
    found["segment exact"] = arms.as_advantage(rows, segments)
    found["segment exact, summed"] = arms.as_advantage(rows, segments, by_length=False)
    keep("oracle", tool.score(arms.with_values(rows, arms.known_mistakes), given))
    keep("oracle decisions", tool.score(arms.with_values(rows, arms.known_decisions), given))
    for samples in mc:
        cuts = [[each["end"] for each in row["segments"] if each["kind"] == "thought"] if row else [] for row in own]
        path, scored = tool.score_to(arms.sampled_values(model, rows, cuts, seed, samples), given, f"mc-{samples}")
        keep(f"share mc {samples}", scored)
        keep(f"rudder mc {samples}, group", tool.redistribute(rows, path, ["--sigma", "rudder", "--baseline", "group"], ("sigma",)))
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


def products(found, directions):
    """For each unit reference, of each arm: inner products with it [groups], and among the arm's groups [groups, groups], in float64."""
    made = [{} for _ in directions]
    for name, gradients_of in found.items():
        wide = gradients_of.astype(np.float64)
        among = wide @ wide.T
        for each, direction in zip(made, directions):
            each[name] = wide @ direction, among
    return made


def figures(blocks, seed=1):
    """Cosine of each arm with the reference over the blocks that have it, with intervals from groups drawn again in every block.

    `blocks` is a list of {arm: (products with the unit reference, products among groups)}. The same draws serve all arms, so that
    differences to plain GRPO have intervals of their own. `limit` is the cosine that endless groups would have: a biased arm's is not 1.
    """
    rng = np.random.default_rng(seed)
    names = list(dict.fromkeys(name for block in blocks for name in block))
    sizes = [len(b["uniform"][0]) for b in blocks]
    counts = [rng.multinomial(size, [1 / size] * size, DRAWS) for size in sizes]
    ones = [np.ones(size) for size in sizes]

    def of(arm, where, weights):
        """(along, square) of the block gradients: [blocks, ...] each; weights are counts of groups."""
        along = np.array([w @ blocks[i][arm][0] for i, w in zip(where, weights)])
        square = np.array([((w @ blocks[i][arm][1]) * w).sum(-1) for i, w in zip(where, weights)])
        return along, np.maximum(square, 1e-300)

    def cosine(along, square):
        return np.mean(along / np.sqrt(square), 0)

    found = {}
    for arm in names:
        where = [i for i, block in enumerate(blocks) if arm in block]
        full, drawn = [ones[i] for i in where], [counts[i] for i in where]
        here, plain = of(arm, where, full), of("uniform", where, full)
        here_drawn, plain_drawn = of(arm, where, drawn), of("uniform", where, drawn)
        value, gain = cosine(*here), cosine(*here) - cosine(*plain)
        gain_drawn = cosine(*here_drawn) - cosine(*plain_drawn)
        apart = np.mean([(blocks[i][arm][1].sum() - np.trace(blocks[i][arm][1])) / (sizes[i] * (sizes[i] - 1)) for i in where])
        along = np.mean([blocks[i][arm][0].mean() for i in where])

        # a draw has fewer distinct groups than its block, so its cosines are lower: an interval has the draws' spread about the value
        def about(middle, sample):
            return [float(middle + q) for q in np.quantile(sample - np.mean(sample), [0.025, 0.975])]

        found[arm] = {
            "blocks": len(where), "cosine": float(value), "cosine_interval": about(value, cosine(*here_drawn)),
            "gain": float(gain), "gain_interval": about(gain, gain_drawn),
            "limit": float(along / np.sqrt(apart)) if apart > 0 else None,
        }
    return found


def reference_of(path, density, model, loss):
    """(groups, cosine of its halves, unit mean) of a stored reference; ends the program where it is another one, or not whole."""
    stored = np.load(path, mmap_mode="r")
    told = pathlib.Path(path + ".json")
    made = json.loads(told.read_text(encoding="utf-8")) if told.exists() else None
    expected = identity(density, model, len(stored), loss)
    if made != expected:
        raise SystemExit(f"{path}: found a reference of {made}, expected {expected}: make it with reference.py, to its end")
    whole, *halves = (np.mean(part, 0, dtype=np.float64) for part in (stored, stored[::2], stored[1::2]))
    return len(stored) * BLOCK, float(halves[0] @ halves[1] / np.linalg.norm(halves[0]) / np.linalg.norm(halves[1])), whole / np.linalg.norm(whole)


def drawn_block(puzzle, model, groups, mark, seed):
    """Problems of a block, drawn by `mark`, and completions of each, sampled by `seed`."""
    rng = random.Random(mark)
    drawn = [puzzle.draw_problem(rng, rng.choice(puzzle.FAMILIES)) for _ in range(groups)]
    return drawn, sample_groups(puzzle, model, drawn, COPIES, torch.Generator().manual_seed(seed))


def shown(arms):
    """Prints each arm's cosine and what it gains."""
    for name, f in arms.items():
        print(f"  {name:28} cosine {f['cosine']:.3f} gain {f['gain']:+.3f} [{f['gain_interval'][0]:+.3f}, {f['gain_interval'][1]:+.3f}]", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--density", choices=MORE, default="sparse")
    parser.add_argument("--model", required=True)
    parser.add_argument("--reference", required=True, help=".npy of reference.py")
    parser.add_argument("--return-reference", help=".npy of reference.py --loss return: cosines with it too")
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--groups", type=int, default=BLOCK, help="of a block; Monte Carlo is dear")
    parser.add_argument("--mc", default="", help="completions an exit point, comma-separated")
    parser.add_argument("--mc-blocks", type=int, default=1, help="so many of the blocks are sampled from")
    parser.add_argument("--folder", required=True, help="for the tool's files")
    parser.add_argument("--out", required=True, help=".json")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    puzzle, model = Density(args.density), checkpoint.load(Llama(), args.model)
    references = [reference_of(args.reference, args.density, args.model, "grpo")]
    if args.return_reference:
        references.append(reference_of(args.return_reference, args.density, args.model, "return"))
    tool, others = Tool(args.folder), {}
    for name in ("prover", "hint"):
        others[name] = pathlib.Path(args.folder) / name
        tool.run("policy", "build", RECIPE.parent / name, "-o", others[name])
    tool.build(model)
    blocks, counted, started = [], collections.Counter(), time.time()
    for number in range(args.blocks):
        drawn, rows = drawn_block(puzzle, model, args.groups, f"stage0/{args.density}/{number}", 10_000 + number)
        problems = {f"p{i}": problem for i, problem in enumerate(drawn)}
        mc = list(map(int, filter(None, args.mc.split(",")))) if number < args.mc_blocks else []
        counted += truth.operations(rows)
        found = credits(tool, model, others, problems, rows, number, mc)
        seconds = time.time() - started
        blocks.append(products(gradients(model, rows, found), [direction for *_, direction in references]))
        groups, halves, _ = references[0]
        result = {
            "density": args.density, "reference_groups": groups, "groups": args.groups * len(blocks), "copies": COPIES, "halves_cosine": halves,
            "wrong": {operator: counted[operator, True] / (counted[operator, True] + counted[operator, False]) for operator in "*+-"},
            "warnings": sorted(set(tool.warnings)),
            "arms": figures([found for found, *_ in blocks]),
        }
        if len(references) > 1:
            groups, halves, _ = references[1]
            result["return"] = {"reference_groups": groups, "halves_cosine": halves, "arms": figures([found for _, found in blocks])}
        pathlib.Path(args.out).write_text(json.dumps(result, indent=1) + "\n")
        print(f"block {number + 1} of {args.blocks}: credits {seconds:.0f} s, all {time.time() - started:.0f} s", flush=True)
        shown(result["arms"])


if __name__ == "__main__":
    main()
