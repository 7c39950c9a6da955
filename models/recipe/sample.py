"""Sample the fixtures: problems with 8 completions each at T = 1, rewarded by exact arithmetic, or by the task's test."""
import argparse
import importlib
import json
import torch
import checkpoint
import task
from model import Llama, generate

LIMIT = 320  # tokens, prompt included; a trace that has not ended by then is cut


def row(puzzle, family, number, index, problem, prompt_ids, completion_ids):
    completion, is_tested = task.decode(completion_ids), hasattr(puzzle, "passes")
    answer = None if is_tested else puzzle.true_answer(problem)
    group = f"{family}-{number:04d}"
    return {
        "id": f"{group}/{index}", "group": group, "family": family,
        "prompt": puzzle.prompt_text(problem), "prompt_ids": prompt_ids,
        "completion": completion, "completion_ids": completion_ids,
        **({} if is_tested else {"answer": answer}),
        # what the task knows besides: a right chain, or which line of this one is wrong
        **({"solution": "".join(task.write_chain(problem).lines)} if puzzle is task
           else {"mistake": puzzle.first_mistake(problem, completion)}),
        "reward": int(puzzle.passes(problem, completion) if is_tested else task.final_answer(completion) == answer),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", choices=("task", "puzzles", "reach"), default="task")
    parser.add_argument("--model", default="../embedded/model.safetensors")
    parser.add_argument("--out", default="../../fixtures/chains.jsonl")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--drawn-by", help="a name that no other set has, such as bench-1 (default: fixtures-<seed>)")
    parser.add_argument("--problems", type=int, default=32, help="a family")
    parser.add_argument("--completions", type=int, default=8, help="a problem")
    args = parser.parse_args()
    puzzle = importlib.import_module(args.task)
    torch.set_num_threads(1)
    model = checkpoint.load(Llama(), args.model)
    generator = torch.Generator().manual_seed(args.seed)
    rows = []
    for family in puzzle.FAMILIES:
        problems = puzzle.problems(args.drawn_by or f"fixtures-{args.seed}", family, args.problems)
        prompts = [task.encode(puzzle.prompt_text(p)) for p in problems for _ in range(args.completions)]
        for i, ids in enumerate(generate(model, prompts, LIMIT, task.END, generator)):
            number, index = divmod(i, args.completions)
            rows.append(row(puzzle, family, number, index, problems[number], prompts[i], ids[len(prompts[i]):]))
    with open(args.out, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)
    for family in puzzle.FAMILIES:
        own = [r for r in rows if r["family"] == family]
        groups = {}
        for r in own:
            groups.setdefault(r["group"], set()).add(r["reward"])
        print(f"{family}: rows {len(own)}, mean reward {sum(r['reward'] for r in own) / len(own):.3f}, "
              f"groups with both rewards {sum(len(g) == 2 for g in groups.values())} of {len(groups)}, "
              f"ended {sum(r['completion_ids'][-1] == task.END for r in own)}, "
              f"longest {max(len(r['completion_ids']) for r in own)} tokens")


if __name__ == "__main__":
    main()
