"""Evaluate the policy of the task with a test against its bars; exits 1 when one is missed."""
import argparse
import random
import re
import sys
import numpy as np
import torch
import checkpoint
import reach
import task
import tree
from evaluate import sampled
from model import Llama
from train_prm import area


@torch.no_grad()
def asked(model, rng, count=1000):
    """P(yes) at all exits of fresh chains, and whether all is right there."""
    yes, no = (task.encode(reach.QUESTION[answer])[0] for answer in ("yes", "no"))
    scores, labels = [], []
    for _ in range(count // 50):
        ids, positions, targets, owner, bias = tree.collate([reach.sequence(rng, 99) for _ in range(50)])
        at = (owner > 0) & (targets >= 0)
        logits = model.logits(model(ids, positions, bias)[at])
        scores.append((logits[:, yes] - logits[:, no]).sigmoid())
        labels.append(targets[at] == yes)
    return torch.cat(scores).numpy(), torch.cat(labels).numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="../reach/model.safetensors")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--problems", type=int, default=1000)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = checkpoint.load(Llama(), args.model)
    problems = reach.problems(f"evaluate-{args.seed}", "reach", args.problems)
    prompts = [task.encode(reach.prompt_text(problem)) for problem in problems]
    ended = sampled(model, prompts, torch.Generator().manual_seed(args.seed))
    texts = [task.decode(ids[len(prompt):]) for prompt, ids in zip(prompts, ended)]
    won = np.array([reach.passes(problem, text) for problem, text in zip(problems, texts)])
    programs = [" ".join(f"{name}{step}" for name, step in re.findall(r"(?m)^([a-e]): \d([-+*]\d)=", text)) for text in texts]
    copied = np.mean([(task.final_answer(text) or "").partition("=")[0] == program for text, program in zip(texts, programs)])
    as_lines = np.mean([(reach.first_mistake(problem, text) is None) == right for problem, text, right in zip(problems, texts, won)])
    scores, labels = asked(model, random.Random(f"asked-{args.seed}"))
    print(f"seed {args.seed}, {args.problems} problems, one trace each at T = 1; {len(labels)} states, {1 - labels.mean():.3f} of them wrong")
    print("mean reward by plan: " + ", ".join(
        f"{count} steps {won[[f'{count} steps.' in text for text in texts]].mean():.3f}" for count in reach.ODDS["steps"]))
    print(f"P(yes): of right states {scores[labels].mean():.3f}, of wrong ones {scores[~labels].mean():.3f}")
    missed = []
    for what, figure, low, high in (
        ("mean reward", won.mean(), 0.4, 0.75),
        ("the program is that of the lines", copied, 0.95, 1),
        ("the outcome is as the lines say", as_lines, 0.9, 1),
        ("AUC of P(yes) for right states", area(scores, labels), 0.85, 1),
    ):
        is_met = low <= figure <= high
        print(f"{'pass' if is_met else 'FAIL'}  {what}: {figure:.3f}  ({low} to {high})")
        missed += [] if is_met else [what]
    print("all bars met" if not missed else "missed: " + "; ".join(missed))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
