"""Trains one arm for some steps, and counts what its traces are made of and what is wrong with those that are wrong; prints a line of JSON."""
import argparse
import json
import random
import tempfile
import torch
import train_arm
import truth
from groups import sample_groups
from setting import Density, FILLERS, MORE


def counts(rows):
    """Lines by kind, and wrong traces by whether a wrong operation that stays is known; `readable` are those with a thought that ends."""
    read = [truth.lines_of(row["completion_ids"]) for row in rows]
    readable = [(row, lines[0]) for row, lines in zip(rows, read) if lines]
    operations = truth.operations(rows)
    known = [bool(truth.mistakes(lines)) for row, lines in readable if not row["reward"]]
    return {
        "right": sum(row["reward"] for row in rows), "readable": len(readable),
        "operations": sum(operations.values()), "wrong_operations": sum(n for (_, wrong), n in operations.items() if wrong),
        "fillers": sum(line in FILLERS for _, lines in readable for line in lines),
        "mistake_known": sum(known), "mistake_unknown": len(known) - sum(known),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arm", choices=train_arm.ARMS, required=True)
    parser.add_argument("--density", choices=MORE, default="sparse")
    parser.add_argument("--model", required=True, help="the weak checkpoint")
    parser.add_argument("--seed", type=int, default=101)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--traces", type=int, default=300)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    with tempfile.TemporaryDirectory() as folder:
        training = argparse.Namespace(**vars(args), problems=8, copies=8, look=args.steps + 1, held_out=100, scored_by=None, check=False, folder=folder)
        model = train_arm.train(training, lambda record: None)
    puzzle, rng = Density(args.density), random.Random(5)
    problems = [puzzle.draw_problem(rng, rng.choice(puzzle.FAMILIES)) for _ in range(args.traces)]
    with torch.no_grad():
        rows = sample_groups(puzzle, model, problems, 1, torch.Generator().manual_seed(3))
    told = {name: value for name, value in vars(args).items() if name != "model"}
    print(json.dumps({**told, **counts(rows), "tokens": sum(len(r["completion_ids"]) for r in rows)}))


if __name__ == "__main__":
    main()
