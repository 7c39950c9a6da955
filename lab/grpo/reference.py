"""Stage 0, first half: the gradient of plain GRPO over thousands of groups at fixed parameters, a row for each block of 64 groups.

`--loss return` is the gradient of the expected reward itself: each token has its trace's reward less the group's mean, by neither the
group's deviation nor the trace's length (Dr. GRPO, arXiv 2503.20783, up to a constant).
"""
import argparse
import hashlib
import json
import pathlib
import random
import time
import numpy as np
import torch
from gradient import accumulate, flat
from groups import advantages, centred, sample_groups
from setting import TASKS, puzzle_of
import checkpoint
from model import Llama

BLOCK, COPIES = 64, 8  # groups a block, completions a group


LOSSES = ("grpo", "return")


def identity(density, model, blocks, loss="grpo"):
    """What a reference is of; it stands in a file beside it, and Stage 0 refuses another one."""
    return {"density": density, "loss": loss, "weights": hashlib.sha256(pathlib.Path(model).read_bytes()).hexdigest(), "groups": blocks * BLOCK}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--density", choices=TASKS, default="sparse")
    parser.add_argument("--model", required=True)
    parser.add_argument("--loss", choices=LOSSES, default="grpo")
    parser.add_argument("--blocks", type=int, default=64)
    parser.add_argument("--out", required=True, help=".npy: float32 [blocks, parameters]")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    puzzle, model = puzzle_of(args.density), checkpoint.load(Llama(), args.model)
    beside = pathlib.Path(args.out + ".json")
    beside.unlink(missing_ok=True)  # an earlier reference of this name ends here
    found = np.lib.format.open_memmap(args.out, "w+", np.float32, (args.blocks, sum(p.numel() for p in model.parameters())))
    started, right, tokens = time.time(), [], 0
    for block in range(args.blocks):
        # streams of their own names: no group of Stage 0's arms, of training or of the held-out problems comes from them
        rng = random.Random(f"reference/{args.density}/{block}")
        problems = [puzzle.draw_problem(rng, rng.choice(puzzle.FAMILIES)) for _ in range(BLOCK)]
        rows = sample_groups(puzzle, model, problems, COPIES, torch.Generator().manual_seed(block))
        if args.loss == "grpo":
            scale = [a / len(rows) / len(r["completion_ids"]) for a, r in zip(advantages(rows, COPIES), rows)]
        else:
            scale = [a / len(rows) for a in centred(rows, COPIES)]
        accumulate(model, rows, [np.full(len(r["completion_ids"]), s, np.float32) for s, r in zip(scale, rows)])
        found[block] = flat(model)
        right += [r["reward"] for r in rows]
        tokens += sum(len(r["completion_ids"]) for r in rows)
        print(f"block {block + 1} of {args.blocks} seconds {time.time() - started:.0f} reward {np.mean(right):.3f} tokens a trace {tokens / len(right):.1f}", flush=True)
    found.flush()
    # written last: a reference without it is not whole
    beside.write_text(json.dumps(identity(args.density, args.model, args.blocks, args.loss)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
