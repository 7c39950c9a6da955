"""Evaluate the policy against its bars, each family by itself; exits 1 when one is missed."""
import argparse
import random
import sys
import numpy as np
import torch
import checkpoint
import task
import tree
from model import Llama, generate
from sample import LIMIT


def batches(items, size):
    return (items[i:i + size] for i in range(0, len(items), size))


def sampled(model, prefixes, generator, copies=1, size=400):
    """Completed sequences, `copies` of each prefix, in the order of the prefixes; like lengths go together."""
    order = sorted(range(len(prefixes)), key=lambda i: len(prefixes[i]))
    out = [None] * len(prefixes)
    for part in batches(order, size // copies):
        done = generate(model, [prefixes[i] for i in part], LIMIT, task.END, generator, copies)
        for place, i in enumerate(part):
            out[i] = done[place * copies:(place + 1) * copies]
    return [ids for group in out for ids in group]


def rewards(problems, prompts, sequences):
    return np.array([task.final_answer(task.decode(ids[len(prompt):])) == task.true_answer(problem)
                     for problem, prompt, ids in zip(problems, prompts, sequences)])


def greedy(model, problems):
    prompts = [task.encode(task.prompt_text(p)) for p in problems]
    return rewards(problems, prompts, sampled(model, prompts, None)).mean()


def chain_values(model, problems, chains):
    """v̂ of the true answer at every exit of each chain."""
    return tree.values(model, [(task.prompt_text(p), c.lines, task.true_answer(p)) for p, c in zip(problems, chains)])


def rise(model, problems):
    """Mean v̂ at 0, 25, 50, 75 and 100 % of the lines of correct chains (interpolated between lines), and before the last line."""
    values = chain_values(model, problems, [task.write_chain(p) for p in problems])
    quarters = [np.interp(np.arange(5) / 4 * (len(v) - 1), np.arange(len(v)), v) for v in values]
    return np.mean(quarters, axis=0), np.mean([v[-2] for v in values])


def draw_mistake(rng, problem):
    """A random wrong result that changes the answer: its line and digit; None where 100 draws find none."""
    for _ in range(100):
        line, digit = rng.randrange(len(problem.operations)), rng.randrange(10)
        chain = task.write_chain(problem, {line: (digit, False)})
        if chain.kinds[line] == "wrong" and chain.answer != task.true_answer(problem):
            return line, digit
    return None


def mistakes(model, problems, rng):
    """Mean v̂ around mistakes that change the answer: before, after, after the correction, at the end without and with it."""
    drawn = [(p, m) for p in problems if (m := draw_mistake(rng, p))]
    kept = [p for p, _ in drawn]
    left = chain_values(model, kept, [task.write_chain(p, {line: (digit, False)}) for p, (line, digit) in drawn])
    mended = chain_values(model, kept, [task.write_chain(p, {line: (digit, True)}) for p, (line, digit) in drawn])
    rows = [(a[line], a[line + 1], b[line + 2], a[-1], b[-1]) for a, b, (_, (line, _)) in zip(left, mended, drawn)]
    return np.mean(rows, axis=0), len(rows)


def spearman(a, b):
    def ranks(x):
        _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
        ends = np.cumsum(counts)
        return (ends - (counts - 1) / 2)[inverse]  # ties share their mean rank
    return np.corrcoef(ranks(a), ranks(b))[0, 1]


def monte_carlo(model, problems, generator, count):
    """v̂ and the mean reward of `count` continuations at every exit of one sampled trace a problem: two lists of arrays."""
    prompts = [task.encode(task.prompt_text(p)) for p in problems]
    traces = sampled(model, prompts, generator)
    chains, states, owners = [], [], []
    for number, (problem, prompt, ids) in enumerate(zip(problems, prompts, traces)):
        thought = task.decode(ids[len(prompt):]).partition("</think>")[0]
        lines = thought.removeprefix("<think>\n").splitlines(keepends=True)
        chains.append((task.prompt_text(problem), lines, task.true_answer(problem)))
        ends = tree.exit_points(prompt, lines)
        states += [ids[:end] for end in ends]
        owners += [number] * len(ends) * count
    ended = sampled(model, states, generator, count)
    won = rewards([problems[n] for n in owners], [prompts[n] for n in owners], ended)
    estimates, gold = tree.values(model, chains), []
    means = won.reshape(-1, count).mean(1)
    for v in estimates:
        gold.append(means[:len(v)])
        means = means[len(v):]
    return estimates, gold


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="../embedded/model.safetensors")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--problems", type=int, default=2000)
    parser.add_argument("--mc-problems", type=int, default=40)
    parser.add_argument("--mc-samples", type=int, default=50)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = checkpoint.load(Llama(), args.model)
    print(f"seed {args.seed}, {args.problems} problems a family, Monte Carlo on {args.mc_problems} with M = {args.mc_samples}")
    missed = []

    def bar(family, what, figure, met, bound):
        print(f"{family}  {'pass' if met else 'FAIL'}  {what}: {figure:.3f}  ({bound})", flush=True)
        if not met:
            missed.append(f"{family} {what}")

    for family in task.FAMILIES:
        problems = task.problems(f"evaluate-{args.seed}", family, args.problems)
        right = greedy(model, problems)
        bar(family, "greedy answer right", right, right >= 0.9, ">= .90")
        quarters, before_last = rise(model, problems)
        print(f"{family}        mean v at 0, 25, 50, 75, 100 % of correct chains: " + " ".join(f"{v:.3f}" for v in quarters))
        for i, step in enumerate(np.diff(quarters)):
            bar(family, f"rise from {25 * i} to {25 * i + 25} %", step, step >= 0.1, ">= .10")
        bar(family, "v at 100 %", quarters[4], quarters[4] >= 0.95, ">= .95")
        share = (quarters[4] - before_last) / (quarters[4] - quarters[0])
        bar(family, "share of the last line in the rise", share, share <= 0.3, "<= .30")
        (before, after, fixed, end, end_fixed), count = mistakes(model, problems, random.Random(f"mistakes-{args.seed}"))
        print(f"{family}        {count} mistakes that change the answer: v before {before:.3f} after {after:.3f} corrected {fixed:.3f}")
        bar(family, "fall right after the mistake", before - after, before - after >= 0.08, ">= .08")
        bar(family, "after its correction, above the line before the mistake by", fixed - before, fixed > before, "> 0")
        bar(family, "v at the end, mistake uncorrected", end, end <= 0.1, "<= .10")
        bar(family, "v at the end, mistake corrected", end_fixed, end_fixed >= 0.9, ">= .90")
        estimates, gold = monte_carlo(model, problems[:args.mc_problems], torch.Generator().manual_seed(args.seed), args.mc_samples)
        rank = spearman(np.concatenate(estimates), np.concatenate(gold))
        bar(family, f"Spearman with Monte Carlo at {sum(map(len, gold))} exits", rank, rank >= 0.7, ">= .70")
        steps = spearman(np.concatenate([np.diff(v) for v in estimates]), np.concatenate([np.diff(v) for v in gold]))
        print(f"{family}        Spearman of the differences: {steps:.3f}")
    print("all bars met" if not missed else "missed: " + "; ".join(missed))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
