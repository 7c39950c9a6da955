"""Makes the weak checkpoint: the embedded policy, taught for some minutes that an operation goes wrong now and then."""
import argparse
import math
import random
import time
import torch
from setting import Density, MORE, RECIPE
import checkpoint
import train
from model import Llama
from optimizer import Optimizer

MICRO, ACCUMULATE = 8, 4  # sequences a micro-batch, and micro-batches a step, as in the recipe
STEPS = {"dense": 240, "sparse": 340, "minus": 240, "single": 240}  # the sparse one has to learn where the next operation is
EXITS = 3                 # early exits a sequence, so that the policy can still be asked for an answer


def weaken(density, steps, rate, seed=1, say=print):
    puzzle, rng = Density(density), random.Random(f"weaken-{seed}/{density}")
    model = checkpoint.load(Llama(), RECIPE.parent / "embedded" / "model.safetensors")
    optimizer = Optimizer(model)
    pool, totals, started = [], [0.0, 0, 0.0, 0], time.time()
    for step in range(steps):
        pool = pool or train.micro_batches(puzzle, rng, 16 * ACCUMULATE, MICRO, EXITS)
        found, _ = train.gradient(model, [pool.pop() for _ in range(ACCUMULATE)])
        totals = [a + b for a, b in zip(totals, found)]
        now = rate * min(1, (step + 1) / 10) * 0.5 * (1 + math.cos(math.pi * step / steps))
        optimizer.step(now, 0.15 * now)
        if (step + 1) % 20 == 0:
            say(f"step {step + 1} seconds {time.time() - started:.0f} prefix {totals[0] / totals[1]:.4f} exit {totals[2] / max(1, totals[3]):.4f}")
            totals = [0.0, 0, 0.0, 0]
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--density", choices=MORE, default="sparse")
    parser.add_argument("--steps", type=int, help=f"of the recipe's training loop (default: {STEPS})")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=0.015, help="Muon's at its highest; AdamW's is .15 of it")
    parser.add_argument("--out", required=True, help="model.safetensors, F16")
    args = parser.parse_args()
    torch.set_num_threads(1)
    checkpoint.save(weaken(args.density, args.steps or STEPS[args.density], args.rate, args.seed, lambda text: print(text, flush=True)), args.out, "F16")


if __name__ == "__main__":
    main()
