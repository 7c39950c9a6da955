"""Stage 0 of arms that the sources name: the paper's own value, attributions, and Monte Carlo behind unsure lines alone, each even inside and by entropy; or (`--options`) of what options make of a value."""
import argparse
import json
import pathlib
import time
import torch
import arms
from groups import advantages
from reference import BLOCK, COPIES
from setting import Density, MORE
from stage0 import drawn_block, figures, gradients, products, reference_of, shown
from tool import Tool
import checkpoint
from model import Llama


SHARE = ["--sigma", "share"]
# σ by a rule and an option, of the values `pr` and `calibrated`
OPTIONS = {
    "share": SHARE, "share, even 0.5": [*SHARE, "--mix", "0.5"],
    "softmax": ["--sigma", "softmax"], "softmax, tau 0.2": ["--sigma", "softmax", "--tau", "0.2"], "softmax, tau 5": ["--sigma", "softmax", "--tau", "5"],
    "discounted": ["--sigma", "discounted"], "discounted, gamma 0.9": ["--sigma", "discounted", "--gamma", "0.9"],
}


def options(tool, _, rows, __):
    """Token advantages of `pr` and `calibrated` under every option; the tool's seconds are of no interest here."""
    scale = [a / len(rows) for a in advantages(rows, COPIES)]
    pr, _ = tool.score_to(rows, [], "pr")
    calibrated, _ = tool.score_to(rows, ["--estimator", "calibrated", "--calibration", tool.calibrate([pr])], "calibrated")
    found = {"uniform": arms.uniform(rows, scale)}
    for value, path in {"pr": pr, "calibrated": calibrated}.items():
        for name, flags in OPTIONS.items():
            found[f"{name}: {value}"] = arms.weighted(rows, tool.redistribute(rows, path, flags, ("sigma",)), scale)
    return found, {}


def credits(tool, model, rows, seed):
    """Token advantages of every arm, and the tool's seconds for its values."""
    scale = [a / len(rows) for a in advantages(rows, COPIES)]
    found, seconds = {"uniform": arms.uniform(rows, scale)}, {}

    def keep(name, make):
        before = tool.seconds
        path = make()
        seconds[name] = tool.seconds - before
        for mark, within in {"": "uniform", ", entropy": "entropy"}.items():
            found[f"share {name}{mark}"] = arms.weighted(rows, tool.redistribute(rows, path, ["--sigma", "share", "--within", within], ("sigma",)), scale)

    pr, _ = tool.score_to(rows, [], "pr")
    keep("calibrated", lambda: tool.score_to(rows, ["--estimator", "calibrated", "--calibration", tool.calibrate([pr])], "calibrated")[0])
    for name, flags in {"joint": ["--references", "group", "--baseline", "group"], "loo": []}.items():
        keep(name, lambda: tool.score_to(rows, ["--estimator", name, *flags], name)[0])
    given = ["--estimator", "given", "--segmenter", "given", "--within", "entropy"]
    for name in ("attention", "gradient"):
        keep(name, lambda: tool.score_to(tool.valued(rows, pr, "attributions.py", name, tool.folder / "checkpoint"), given, name)[0])
    keep("mc 8 unsure", lambda: tool.score_to(arms.monte_carlo_unsure(tool, model, rows, seed), given, "unsure")[0])
    return found, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--density", choices=MORE, default="sparse")
    parser.add_argument("--model", required=True)
    parser.add_argument("--reference", required=True, help=".npy of reference.py")
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--groups", type=int, default=BLOCK, help="of a block")
    parser.add_argument("--options", action="store_true", help="arms of options in place of the named ones")
    parser.add_argument("--folder", required=True, help="for the tool's files")
    parser.add_argument("--out", required=True, help=".json")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    puzzle, model = Density(args.density), checkpoint.load(Llama(), args.model)
    groups, halves, direction = reference_of(args.reference, args.density, args.model, "grpo")
    tool = Tool(args.folder)
    tool.build(model)
    blocks, started, seconds = [], time.time(), {}
    for number in range(args.blocks):
        _, rows = drawn_block(puzzle, model, args.groups, f"stage0-named/{args.density}/{number}", 20_000 + number)
        found, own = (options if args.options else credits)(tool, model, rows, number)
        seconds = {name: round(seconds.get(name, 0) + value, 1) for name, value in own.items()}
        blocks.append(products(gradients(model, rows, found), [direction])[0])
        result = {
            "density": args.density, "reference_groups": groups, "groups": args.groups * len(blocks), "copies": COPIES, "halves_cosine": halves,
            "seconds": seconds, "arms": figures(blocks),
        }
        pathlib.Path(args.out).write_text(json.dumps(result, indent=1) + "\n")
        print(f"block {number + 1} of {args.blocks}: {time.time() - started:.0f} s, of the tool {seconds}", flush=True)
        shown(result["arms"])


if __name__ == "__main__":
    main()
