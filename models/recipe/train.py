"""Train the policy: chains as trunks, early exits as branches of the same sequence under a tree mask."""
import argparse
import importlib
import math
import random
import time
import torch
import checkpoint
import task
import tree
from model import CONFIG, Llama
from optimizer import Optimizer

EXITS = 4            # branches a sequence
EXIT_WEIGHT = 0.3    # of the mean loss over exits, beside the mean loss over trunks
WITHOUT_EXITS = 0.4  # of the training: the chain is learned first


def sequence(puzzle, rng, exits):
    """A random chain with that many of its exits; `puzzle` draws problems and writes chains, or makes the sequence itself."""
    if hasattr(puzzle, "sequence"):
        return puzzle.sequence(rng, exits)
    problem = puzzle.draw_problem(rng, rng.choice(puzzle.FAMILIES))
    chain = puzzle.draw_chain(rng, problem)
    prompt = task.encode(puzzle.prompt_text(problem))
    completion = task.encode(puzzle.completion_text(chain)) + [task.END]
    # the last line's exit is the trunk's own ending
    ends = tree.exit_points(prompt, chain.lines)[:-1]
    # the label is the answer to which this chain leads in the end: v is then the sampled chains' own success rate
    return tree.with_exits(prompt, completion, rng.sample(ends, min(exits, len(ends))), chain.answer)


def micro_batches(puzzle, rng, count, size, exits):
    """`count` micro-batches of sequences of like length, in random order."""
    items = sorted((sequence(puzzle, rng, exits) for _ in range(count * size)), key=lambda item: len(item[0]))
    batches = [items[i:i + size] for i in range(0, len(items), size)]
    rng.shuffle(batches)
    return batches


def losses(model, batch):
    """Summed losses and counts over the trunk's targets and over the exits'."""
    logp, owner = tree.score(model, batch)
    at_exit = owner > 0
    return -logp[~at_exit].sum(), int((~at_exit).sum()), -logp[at_exit].sum(), int(at_exit.sum())


def gradient(model, batches):
    """Adds the mean gradient of the micro-batches to the parameters' `grad`. Returns summed losses and counts, as `losses`, and the tokens that were seen."""
    totals, tokens = [0.0, 0, 0.0, 0], 0
    for batch in map(tree.collate, batches):
        trunk, trunks, exit_, exits = losses(model, batch)
        loss = trunk / trunks + EXIT_WEIGHT * exit_ / max(1, exits)
        (loss / len(batches)).backward()
        tokens += int((batch[3] >= 0).sum())
        totals = [a + float(b) for a, b in zip(totals, (trunk, trunks, exit_, exits))]
    return totals, tokens


def rate_at(progress):
    """Warm-up over 2 %, flat, then cosine to zero from 40 % on."""
    if progress < 0.02:
        return progress / 0.02
    return 1.0 if progress < 0.4 else 0.5 * (1 + math.cos(math.pi * (progress - 0.4) / 0.6))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", choices=("task", "puzzles", "reach"), default="task", help="module that draws problems and writes chains")
    parser.add_argument("--steps", type=int, default=1600)
    parser.add_argument("--begin", help="weights of a policy to begin with, such as the embedded one's, which can reckon")
    parser.add_argument("--first", type=int, default=0, help="the first step, where another run has made those before it")
    parser.add_argument("--stop", type=int, help="stop after so many of the steps: an older checkpoint of the same run")
    parser.add_argument("--micro", type=int, default=8, help="sequences a micro-batch (small ones stay in the cache)")
    parser.add_argument("--accumulate", type=int, default=4, help="micro-batches a step")
    parser.add_argument("--muon-rate", type=float, default=0.02)
    parser.add_argument("--adam-rate", type=float, default=0.003)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default="model.safetensors")
    parser.add_argument("--kind", choices=checkpoint.KINDS, default="F32", help="of the weights as they are written")
    parser.add_argument("--save-every", type=int, default=100)
    args = parser.parse_args()
    puzzle = importlib.import_module(args.task)
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    rng = random.Random(f"train-{args.seed}")
    model = Llama(CONFIG) if args.begin is None else checkpoint.load(Llama(CONFIG), args.begin)
    print("arguments", {k: v for k, v in vars(args).items() if k != "out"}, "odds", puzzle.ODDS)
    print("parameters", sum(p.numel() for p in model.parameters()), flush=True)
    optimizer = Optimizer(model)
    tokens, started, totals = 0, time.time(), [0.0, 0, 0.0, 0]
    pool = []
    last = args.steps if args.stop is None else args.stop
    for step in range(args.first, last):
        progress = step / args.steps
        if not pool:
            pool = micro_batches(puzzle, rng, 16 * args.accumulate, args.micro, EXITS if progress >= WITHOUT_EXITS else 0)
        found, seen = gradient(model, [pool.pop() for _ in range(args.accumulate)])
        totals, tokens = [a + b for a, b in zip(totals, found)], tokens + seen
        rate = rate_at(progress)
        optimizer.step(args.muon_rate * rate, args.adam_rate * rate)
        if (step + 1) % 50 == 0 or step == args.first:
            print(f"step {step + 1} tokens {tokens} seconds {time.time() - started:.0f} "
                  f"trunk {totals[0] / max(1, totals[1]):.4f} exit {totals[2] / max(1, totals[3]):.4f}", flush=True)
            totals = [0.0, 0, 0.0, 0]
        if (step + 1) % args.save_every == 0 or step + 1 == last:
            checkpoint.save(model, args.out, args.kind)


if __name__ == "__main__":
    main()
