"""Train the reader of hints: the embedded policy's weights, trained on with the answer of each chain told behind its prompt."""
import argparse
import json
import random
import time
import torch
import checkpoint
import task
import tree
from model import Llama
from optimizer import Optimizer
from train import rate_at

# At the task's own odds the hint says next to nothing, and is not learned to be read. Of a short chain that mostly goes wrong it
# tells the result: that comes first, longer chains follow.
ONE = {**task.ODDS, "operations": (1, 1), "mistake": 0.9, "corrected": 0}
TWO = {**task.ODDS, "operations": (1, 2), "mistake": 0.7}
FEW = {**task.ODDS, "operations": (2, 4), "mistake": 0.4}
MANY = {**task.ODDS, "mistake": 0.25}
# shares of the steps, and the odds among which each chain's are drawn
STAGES = (
    (0.2, (ONE, ONE, ONE, ONE, ONE, task.ODDS)),
    (0.25, (TWO, TWO, TWO, TWO, TWO, task.ODDS)),
    (0.25, (TWO, FEW, FEW, FEW, task.ODDS)),
    (0.15, (FEW, MANY, task.ODDS)),
    (0.15, (task.ODDS,)),
)


def hint_text(template, prompt, answer):
    """The prompt with the hint behind it; the template has no `before`, so that it goes to the end."""
    return prompt + template["text"].replace("{answer}", answer)


def odds_at(share):
    """Odds of the chains after this share of the steps."""
    for part, odds in STAGES:
        if share < part:
            return odds
        share -= part
    return STAGES[-1][1]


def sequence(rng, template, odds=task.ODDS):
    """
    A chain behind a hint of the answer to which it leads, right or wrong: what is learned is then the share of
    such chains among those that reach this answer, and the ratio to the policy's own probability is Bayes' rule.
    """
    problem = task.draw_problem(rng, rng.choice(task.FAMILIES), odds)
    chain = task.draw_chain(rng, problem, odds)
    prompt = task.encode(hint_text(template, task.prompt_text(problem), chain.answer))
    return tree.with_exits(prompt, task.encode(task.completion_text(chain)) + [task.END], [], chain.answer)


def loss_of(model, batch):
    """Summed loss over the completions' tokens, and how many."""
    logp, _ = tree.score(model, batch)
    return -logp.sum(), len(logp)


@torch.no_grad()
def thoughts(model, items, size=50):
    """Sums of log p over the thoughts of (prompt text, chain), nats."""
    sums = []
    for start in range(0, len(items), size):
        sequences = []
        for prompt, chain in items[start:start + size]:
            ids, thought = task.encode(prompt), task.encode("<think>\n" + "".join(chain.lines))
            sequences.append(tree.with_exits(ids, thought, [], chain.answer))
        batch = tree.collate(sequences)
        logp, _ = tree.score(model, batch)
        rows = (batch[2] >= 0).nonzero()[:, 0]
        sums.append(torch.zeros(len(sequences)).index_add_(0, rows, logp))
    return torch.cat(sums)


def evaluate(model, policy, template, name, count=500):
    """Prints how much likelier the hint makes fresh chains' thoughts, by what it says of them."""
    rng, items = random.Random(name), []
    for _ in range(count):
        problem = task.draw_problem(rng, rng.choice(task.FAMILIES))
        items.append((problem, task.draw_chain(rng, problem)))
    own = thoughts(policy, [(task.prompt_text(problem), chain) for problem, chain in items])
    right = torch.tensor([chain.answer == task.true_answer(problem) for problem, chain in items])

    def told(answers):
        texts = [hint_text(template, task.prompt_text(problem), answer) for (problem, _), answer in zip(items, answers)]
        return thoughts(model, [(text, chain) for text, (_, chain) in zip(texts, items)]) - own

    reached, truth = told([chain.answer for _, chain in items]), told([task.true_answer(problem) for problem, _ in items])
    print(f"{count} fresh chains, {right.float().mean():.3f} of them right; log p of the thought with the hint less without, nats, mean")
    print(f"  right chains, hint of their answer {reached[right].mean():.3f}")
    print(f"  wrong chains, hint of the answer that they reach {reached[~right].mean():.3f}, of the true answer {truth[~right].mean():.3f}")
    wins = (truth[right][:, None] > truth[~right][None, :]).float().mean()
    print(f"  a right chain has gained more by the true answer than a wrong one: {wins:.3f} of all pairs")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", default="../embedded/model.safetensors")
    parser.add_argument("--template", default="../hint/hint_template.json")
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--micro", type=int, default=8, help="chains a micro-batch (small ones stay in the cache)")
    parser.add_argument("--accumulate", type=int, default=4, help="micro-batches a step")
    parser.add_argument("--muon-rate", type=float, default=0.02)
    parser.add_argument("--adam-rate", type=float, default=0.003)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default="../hint/model.safetensors")
    parser.add_argument("--kind", choices=checkpoint.KINDS, default="F16", help="of the weights as they are written")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    rng = random.Random(f"train-hint-{args.seed}")
    with open(args.template) as file:
        template = json.load(file)
    model, policy = (checkpoint.load(Llama(), args.policy) for _ in range(2))
    print("arguments", {k: v for k, v in vars(args).items() if k not in ("out", "policy", "template")}, "stages", STAGES, "hint", template)
    print("parameters", sum(p.numel() for p in model.parameters()), flush=True)
    optimizer = Optimizer(model)
    started, total, count, pool = time.time(), 0.0, 0, []
    for step in range(args.steps):
        if not pool:
            odds = odds_at(step / args.steps)
            items = sorted((sequence(rng, template, rng.choice(odds)) for _ in range(8 * args.accumulate * args.micro)), key=lambda item: len(item[0]))
            pool = [items[i:i + args.micro] for i in range(0, len(items), args.micro)]
            rng.shuffle(pool)
        for _ in range(args.accumulate):
            loss, tokens = loss_of(model, tree.collate(pool.pop()))
            (loss / tokens / args.accumulate).backward()
            total, count = total + float(loss), count + tokens
        rate = rate_at(step / args.steps)
        optimizer.step(args.muon_rate * rate, args.adam_rate * rate)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} seconds {time.time() - started:.0f} completion {total / count:.4f}", flush=True)
            total, count = 0.0, 0
        if (step + 1) % 40 == 0 or step + 1 == args.steps:
            checkpoint.save(model, args.out, args.kind)
    checkpoint.load(model, args.out)  # what is judged is what was written
    evaluate(model, policy, template, f"evaluate-hint-{args.seed}")


if __name__ == "__main__":
    main()
