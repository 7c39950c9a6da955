"""Samples traces of a task that has a test, and at the end of every line completions, which the test judges: JSON lines for the benchmark."""
import argparse
import json
import sys
import torch
import checkpoint
import reach
import task
import tree
from evaluate import sampled
from model import Llama

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", default="../reach/model.safetensors")
parser.add_argument("--seed", default="bench-1", help="a name that no other set has")
parser.add_argument("--problems", type=int, default=24)
parser.add_argument("--first", type=int, default=0, help="the first of them that is sampled")
parser.add_argument("--traces", type=int, default=4, help="a problem")
parser.add_argument("--half", type=int, default=32, help="completions of an exit in either of two halves")
args = parser.parse_args()
torch.set_num_threads(1)
model = checkpoint.load(Llama(), args.model)
(family,) = reach.FAMILIES
for number, problem in enumerate(reach.problems(args.seed, family, args.problems)):
    if number < args.first:
        continue
    # its own stream, so that parts may be made apart
    generator = torch.Generator().manual_seed(number)
    prompt = reach.prompt_text(problem)
    ids = task.encode(prompt)
    group = f"bench-{family}-{number:04d}"
    for index, trace in enumerate(sampled(model, [ids], generator, args.traces)):
        completion = task.decode(trace[len(ids):])
        lines = completion.partition("</think>")[0].removeprefix("<think>\n").splitlines(keepends=True)
        ends = tree.exit_points(ids, lines)
        done = sampled(model, [trace[:end] for end in ends], generator, 2 * args.half)
        won = [int(reach.passes(problem, task.decode(other[len(ids):]))) for other in done]
        wins = [sum(won[at:at + args.half]) for at in range(0, len(won), args.half)]
        print(json.dumps({
            "id": f"{group}/{index}", "group": group, "prompt": prompt, "prompt_ids": ids,
            "completion": completion, "completion_ids": trace[len(ids):], "reward": int(reach.passes(problem, completion)),
            "segment_ends": [end - len(ids) for end in ends[1:]], "wins_first": wins[::2], "wins_second": wins[1::2],
            "mistake": reach.first_mistake(problem, completion),
        }), flush=True)
    print(f"{number + 1} of {args.problems} problems", file=sys.stderr, flush=True)
