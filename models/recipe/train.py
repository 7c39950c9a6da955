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

EXITS = 4            # branches a sequence
EXIT_WEIGHT = 0.3    # of the mean loss over exits, beside the mean loss over trunks
WITHOUT_EXITS = 0.4  # of the training: the chain is learned first


def sequence(puzzle, rng, exits):
    """A random chain with that many of its exits; `puzzle` draws problems and writes chains."""
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


def orthogonal(g):
    """Newton-Schulz: g [N,R,C] to about the nearest orthogonal matrices (Muon)."""
    wide = g.shape[1] <= g.shape[2]
    x = g if wide else g.transpose(1, 2)
    x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    for _ in range(5):
        a = x @ x.transpose(1, 2)
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x if wide else x.transpose(1, 2)


class Muon:
    """Momentum, orthogonalised, for matrices; matrices of one shape go together."""

    def __init__(self, matrices, momentum=0.95, decay=0.01):
        self.momentum, self.decay, self.shapes = momentum, decay, {}
        for p in matrices:
            self.shapes.setdefault(p.shape, []).append(p)
        self.velocity = {shape: torch.zeros(len(ps), *shape) for shape, ps in self.shapes.items()}

    @torch.no_grad()
    def step(self, rate):
        for shape, ps in self.shapes.items():
            gradient = torch.stack([p.grad for p in ps])
            v = self.velocity[shape].lerp_(gradient, 1 - self.momentum)
            update = orthogonal(gradient.lerp(v, self.momentum))
            for p, u in zip(ps, update):
                p.mul_(1 - rate * self.decay).sub_(u, alpha=rate * max(1, shape[0] / shape[1]) ** 0.5)


def rate_at(progress):
    """Warm-up over 2 %, flat, then cosine to zero from 40 % on."""
    if progress < 0.02:
        return progress / 0.02
    return 1.0 if progress < 0.4 else 0.5 * (1 + math.cos(math.pi * (progress - 0.4) / 0.6))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", choices=("task", "puzzles"), default="task", help="module that draws problems and writes chains")
    parser.add_argument("--steps", type=int, default=1600)
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
    model = Llama(CONFIG)
    print("arguments", {k: v for k, v in vars(args).items() if k != "out"}, "odds", puzzle.ODDS)
    print("parameters", sum(p.numel() for p in model.parameters()), flush=True)
    matrices = [p for name, p in model.named_parameters() if p.dim() == 2 and "embed" not in name]
    others = [p for name, p in model.named_parameters() if p.dim() != 2 or "embed" in name]
    muon, adam = Muon(matrices), torch.optim.AdamW(others, betas=(0.9, 0.95), weight_decay=0.0)
    tokens, started, totals = 0, time.time(), [0.0, 0, 0.0, 0]
    pool = []
    for step in range(args.steps):
        progress = step / args.steps
        if not pool:
            pool = micro_batches(puzzle, rng, 16 * args.accumulate, args.micro, EXITS if progress >= WITHOUT_EXITS else 0)
        for _ in range(args.accumulate):
            batch = tree.collate(pool.pop())
            trunk, trunks, exit_, exits = losses(model, batch)
            loss = trunk / trunks + EXIT_WEIGHT * exit_ / max(1, exits)
            (loss / args.accumulate).backward()
            tokens += int((batch[3] >= 0).sum())
            totals = [a + float(b) for a, b in zip(totals, (trunk, trunks, exit_, exits))]
        rate = rate_at(progress)
        muon.step(args.muon_rate * rate)
        adam.param_groups[0]["lr"] = args.adam_rate * rate
        adam.step()
        model.zero_grad(set_to_none=True)
        if (step + 1) % 50 == 0 or step == 0:
            print(f"step {step + 1} tokens {tokens} seconds {time.time() - started:.0f} "
                  f"trunk {totals[0] / max(1, totals[1]):.4f} exit {totals[2] / max(1, totals[3]):.4f}", flush=True)
            totals = [0.0, 0, 0.0, 0]
        if (step + 1) % args.save_every == 0 or step + 1 == args.steps:
            checkpoint.save(model, args.out, args.kind)


if __name__ == "__main__":
    main()
