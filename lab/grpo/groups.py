"""Samples groups of completions as rows that `rredcot score` reads, and turns their rewards into advantages."""
import statistics
from setting import LIMIT, task
from model import generate


def sample_groups(puzzle, model, problems, copies, generator, name="p", limit=LIMIT):
    """`copies` rows a problem, in order, at temperature 1."""
    prompts = [task.encode(puzzle.prompt_text(problem)) for problem in problems]
    written = generate(model, prompts, limit, task.END, generator, copies)
    return [row(puzzle, problems[i // copies], f"{name}{i // copies}", i % copies, prompts[i // copies], ids)
            for i, ids in enumerate(written)]


def row(puzzle, problem, group, index, prompt_ids, ids):
    completion_ids = ids[len(prompt_ids):]
    completion = task.decode(completion_ids)
    # of a task with a test many answers are right, and none stands in the row
    is_tested = hasattr(puzzle, "passes")
    answer = None if is_tested else task.true_answer(problem)
    return {
        "id": f"{group}/{index}", "group": group, "prompt": puzzle.prompt_text(problem), "prompt_ids": prompt_ids,
        "completion": completion, "completion_ids": completion_ids, **({} if is_tested else {"answer": answer}),
        "reward": int(puzzle.passes(problem, completion) if is_tested else task.final_answer(completion) == answer),
    }


def centred(rows, copies):
    """Rewards less their group's mean."""
    found = []
    for start in range(0, len(rows), copies):
        rewards = [r["reward"] for r in rows[start:start + copies]]
        mean = statistics.fmean(rewards)
        found += [reward - mean for reward in rewards]
    return found


def advantages(rows, copies):
    """GRPO's: reward less the group's mean, by the group's standard deviation; 0 where a group agrees."""
    found = []
    for start in range(0, len(rows), copies):
        rewards = [r["reward"] for r in rows[start:start + copies]]
        mean, spread = statistics.fmean(rewards), statistics.stdev(rewards)
        found += [(reward - mean) / (spread + 1e-4) if spread else 0.0 for reward in rewards]
    return found
