"""Tables of what make.py has written: traces with their rewards as JSON lines for rredcot, and the truth about their exits as Parquet.

    python judge.py --model CHECKPOINT --gsm8k FILE --code FILE --out FOLDER

TASK-traces.jsonl: id, group, prompt_token_ids, completion_token_ids, reference, reward, finish_reason.
TASK.parquet, a row an exit: trace, tokens (of the completion before the exit), line (whether a line ends there), right and total of each half.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer

import tasks
from make import ENDS, prompt


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "gsm8k", "code", "out"):
        flags.add_argument(f"--{name}", required=True)
    flags.add_argument("--tasks", default="words,gsm8k,code")
    asked = flags.parse_args()
    tokenizer = Tokenizer.from_file(f"{asked.model}/tokenizer.json")
    ends = {tokenizer.token_to_id(end) for end in ENDS}
    text = lambda ids: tokenizer.decode([int(id) for id in ids if id not in ends], skip_special_tokens=False)
    pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
    seen = {}  # verdicts by program

    def verdicts(pairs):
        """Whether each completion of a row is right."""
        if pairs and pairs[0][0]["task"] == "code":
            programs = [tasks.program(*pair) for pair in pairs]
            new = list({program for program in programs if program not in seen})
            seen.update(zip(new, pool.map(tasks.passes, new)))
            return [seen[program] for program in programs]
        return [tasks.right(*pair) for pair in pairs]

    here = os.path.dirname(os.path.abspath(__file__))
    scripts = {name: hashlib.sha256(open(f"{here}/{name}", "rb").read()).hexdigest() for name in ("tasks.py", "make.py", "engines.py", "judge.py")}
    for task in asked.tasks.split(","):
        rows = {row["id"]: row for row in tasks.rows(task, asked.gsm8k, asked.code)}
        stands = np.load(f"{asked.out}/{task}-traces.npz")
        questions = [rows[id] for id in stands["questions"]]
        drawn = np.split(stands["ids"], np.cumsum(stands["lengths"])[:-1])
        group = len(drawn) // len(questions)
        rewards = verdicts([(questions[n // group], text(ids)) for n, ids in enumerate(drawn)])
        with open(f"{asked.out}/{task}-traces.jsonl", "w") as file:
            for n, (ids, reward) in enumerate(zip(drawn, rewards)):
                row = questions[n // group]
                ended = int(ids[-1]) in ends
                said = {"id": f"{row['id']}-{n % group}", "group": row["id"], "prompt_token_ids": prompt(tokenizer, row), "completion_token_ids": ids.tolist(),
                        "reference": row["answer"], "reward": int(reward), "finish_reason": "stop" if ended else "length"}
                file.write(json.dumps(said) + "\n")
        print(task, len(rewards), "traces,", sum(rewards), "right", flush=True)
        if not os.path.exists(f"{asked.out}/{task}-values.npz"):
            continue
        stands = np.load(f"{asked.out}/{task}-values.npz")
        samples = np.split(stands["ids"], np.cumsum(stands["lengths"])[:-1])
        exits = stands["exits"].tolist()
        m = len(samples) // len(exits)
        found = []
        for at, (n, i, tokens, line) in enumerate(exits):
            row, before = questions[n], drawn[n * group + i][:tokens]
            right = verdicts([(row, text([*before, *ids])) for ids in samples[at * m : (at + 1) * m]])
            halves = [right[: m // 2], right[m // 2 :]]
            found.append({"trace": f"{row['id']}-{i}", "tokens": tokens, "line": bool(line), "cut": sum(int(ids[-1]) not in ends for ids in samples[at * m : (at + 1) * m]),
                          **{f"right_{h}": sum(half) for h, half in enumerate(halves)}, **{f"total_{h}": len(half) for h, half in enumerate(halves)}})
        found.sort(key=lambda exit: (exit["trace"], exit["tokens"]))
        table = pa.Table.from_pylist(found).replace_schema_metadata({"scripts": json.dumps(scripts)})
        pq.write_table(table, f"{asked.out}/{task}.parquet", compression="zstd")
        print(task, len(found), "exits of", len({exit["trace"] for exit in found}), "traces,", m, "continuations each", flush=True)


if __name__ == "__main__":
    main()
