"""Judges what make.py has written: all traces with their rewards, and the sets of lab/sets, whose exits have values.

    python judge.py --model CHECKPOINT --gsm8k FILE --code FILE --out FOLDER [--scored TASK-scored.parquet …]

TASK-traces.parquet, which rredcot scores as it is: id, group, prompt_token_ids, completion_token_ids, reference, reward, finish_reason.
TASK.parquet: a set whose segments are lines; words-entropy.parquet: one whose segments are cut before unsure tokens too. Log-probabilities
and entropies of the tokens are those of a file that rredcot has scored.
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
    flags.add_argument("--scored", nargs="*", default=[], help="files that rredcot has scored, for their logprobs and entropies")
    asked = flags.parse_args()
    tokenizer = Tokenizer.from_file(f"{asked.model}/tokenizer.json")
    ends = {tokenizer.token_to_id(end) for end in ENDS}
    text = lambda ids: tokenizer.decode([int(id) for id in ids if id not in ends], skip_special_tokens=False)
    pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
    seen = {}  # verdicts by program
    scored = {row["id"]: row for path in asked.scored for row in pq.read_table(path, columns=["id", "logprobs", "entropies"]).to_pylist()}

    def verdicts(pairs):
        """Whether each completion of a row is right."""
        if pairs and pairs[0][0]["task"] == "code":
            programs = [tasks.program(*pair) for pair in pairs]
            new = list({program for program in programs if program not in seen})
            seen.update(zip(new, pool.map(tasks.passes, new)))
            return [seen[program] for program in programs]
        return [tasks.right(*pair) for pair in pairs]

    def write(rows, path):
        ids = pa.list_(pa.int32())
        table = pa.Table.from_pylist(rows)
        table = table.cast(pa.schema([field.with_type(ids) if pa.types.is_list(field.type) else field for field in table.schema]))
        pq.write_table(table.replace_schema_metadata({"scripts": json.dumps(scripts)}), path, compression="zstd", compression_level=19)

    here = os.path.dirname(os.path.abspath(__file__))
    scripts = {name: hashlib.sha256(open(f"{here}/{name}", "rb").read()).hexdigest() for name in ("tasks.py", "make.py", "engines.py", "judge.py")}
    for task in asked.tasks.split(","):
        rows = {row["id"]: row for row in tasks.rows(task, asked.gsm8k, asked.code)}
        stands = np.load(f"{asked.out}/{task}-traces.npz")
        questions = [rows[id] for id in stands["questions"]]
        drawn = np.split(stands["ids"], np.cumsum(stands["lengths"])[:-1])
        group = len(drawn) // len(questions)
        rewards = verdicts([(questions[n // group], text(ids)) for n, ids in enumerate(drawn)])
        made = []
        for n, (ids, reward) in enumerate(zip(drawn, rewards)):
            row = questions[n // group]
            made.append({"id": f"{row['id']}-{n % group}", "group": row["id"], "prompt_token_ids": prompt(tokenizer, row), "completion_token_ids": ids.tolist(),
                         "reference": row["answer"], "reward": int(reward), "finish_reason": "stop" if int(ids[-1]) in ends else "length"})
        write(made, f"{asked.out}/{task}-traces.parquet")
        print(task, len(rewards), "traces,", sum(rewards), "right", flush=True)
        if not os.path.exists(f"{asked.out}/{task}-values.npz"):
            continue
        stands = np.load(f"{asked.out}/{task}-values.npz")
        samples = np.split(stands["ids"], np.cumsum(stands["lengths"])[:-1])
        exits = stands["exits"].tolist()
        m = len(samples) // len(exits)
        found = {}  # of a trace: (tokens before the exit, whether a line ends there, wins of each half)
        for at, (n, i, tokens, line) in enumerate(exits):
            row, before = questions[n], drawn[n * group + i][:tokens]
            right = verdicts([(row, text([*before, *ids])) for ids in samples[at * m : (at + 1) * m]])
            found.setdefault(n * group + i, []).append((tokens, line, sum(right[: m // 2]), sum(right[m // 2 :])))
        for name, wanted in ((task, 1), (f"{task}-entropy", 0)):
            rows = [set_row(name, made[trace], sorted(exit for exit in of if exit[1] >= wanted), m // 2, scored)
                    for trace, of in sorted(found.items()) if wanted or any(not exit[1] for exit in of)]
            if rows:
                write(rows, f"{asked.out}/{name}.parquet")
                print(name, sum(len(row["wins_first"]) for row in rows), "exits of", len(rows), "traces,", m, "continuations each", flush=True)


def set_row(name, trace, exits, half, scored):
    """A row of a set (lab/sets/README.md): exits are (tokens before it, …, wins of the first half, of the second), the first at 0."""
    said = scored.get(trace["id"], {})
    return {"set": f"{name}@1", "half": "judge" if int("".join(filter(str.isdigit, trace["group"].split("-")[-1]))) % 2 else "choose", "id": trace["id"],
            "group": trace["group"], "prompt_ids": trace["prompt_token_ids"], "completion_ids": trace["completion_token_ids"], "answer": trace["reference"],
            "reward": trace["reward"], "segment_ends": [exit[0] for exit in exits[1:]], **{key: said[key] for key in ("logprobs", "entropies") if key in said},
            "completions_a_half": half, "wins_first": [exit[2] for exit in exits], "wins_second": [exit[3] for exit in exits]}


if __name__ == "__main__":
    main()
