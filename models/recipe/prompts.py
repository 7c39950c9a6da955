"""Writes problems as prompts for `rredcot sample`: groups of their own, on which nothing was chosen."""
import argparse
import importlib
import json
import task

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--task", choices=("task", "puzzles", "calculator"), default="task")
parser.add_argument("--seed", default="held-out-1", help="a name that no other set has")
parser.add_argument("--problems", type=int, default=24, help="a family")
parser.add_argument("--operations", type=int, help="of each problem, such as 10: longer ones than any that was trained on (default: the task's own number)")
parser.add_argument("--label", help="samples of these problems (JSON lines): prints the first wrong line of each instead")
args = parser.parse_args()
puzzle = importlib.import_module(args.task)
if args.operations:
    puzzle.ODDS["operations"] = (args.operations, args.operations)
known = {}
for family in puzzle.FAMILIES:
    for number, problem in enumerate(puzzle.problems(args.seed, family, args.problems)):
        prompt = puzzle.prompt_text(problem)
        name = f"{family}-{number:04d}"
        known[prompt] = problem
        if args.label is None:
            # turns are played from messages
            asked = {"prompt": [{"role": "user", "content": prompt.rstrip("\n")}]} if hasattr(puzzle, "shown") else {
                "prompt": prompt, "prompt_ids": task.encode(prompt)}
            print(json.dumps({"id": name, "group": name, **asked, "answer": puzzle.true_answer(problem)}))
for row in map(json.loads, open(args.label, encoding="utf-8") if args.label else ()):
    print(json.dumps({"id": row["id"], "mistake": puzzle.first_mistake(known[row["prompt"]], row["completion"])}))
