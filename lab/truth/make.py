"""Completions of three tasks, and what the policy makes of their exits: the truth about the chance of winning there.

    python make.py --model CHECKPOINT --gsm8k FILE --code FILE --out FOLDER [--engine vllm|torch] [--tasks words,gsm8k,code] [--seconds 90]

For each task: `group` completions of every question; of the questions with right and wrong ones a right and a wrong trace, by chance;
`m` continuations in two halves of every exit of theirs. Writes, per task, TASK-traces.npz and TASK-values.npz (token ids; judge.py makes
tables of them) as it goes; what stands is not made again.
"""
import argparse
import concurrent.futures
import json
import os
import random
import time

import numpy as np
from tokenizers import Tokenizer

import engines
import tasks

SIZES = {  # questions, completions of each, traces whose exits are continued, continuations of each
    "words": {"questions": 640, "group": 8, "traces": 320, "m": 64},
    "gsm8k": {"questions": 700, "group": 8, "traces": 120, "m": 32},
    "code": {"questions": 164, "group": 16, "traces": 80, "m": 8, "exits": 4},  # of the questions with the shortest completions
}
ENTROPY_CUTS, ENTROPY_TRACES = 8, 60  # of `words`
ENDS = ("<|im_end|>", "<|endoftext|>")


def flat(lists):
    """A list of lists of ids as two arrays."""
    return np.array([id for ids in lists for id in ids], np.int32), np.array([len(ids) for ids in lists], np.int32)


def exits_of(ids, has_newline):
    """Where a thought is cut by lines: numbers of tokens, 0 first; the end of the completion is none."""
    return [0, *[n + 1 for n, id in enumerate(ids[:-1]) if has_newline[id]]]


def spread(exits, most):
    """The first exit, and at most so many of the others, evenly; all where `most` is None."""
    others = exits[1:]
    return exits if most is None or len(others) <= most else [0, *(others[int((n + 0.5) * len(others) / most)] for n in range(most))]


def entropy_exits(entropies, cuts):
    """Before the tokens of most entropy, at least three apart."""
    found = []
    for n in sorted(range(3, len(entropies) - 1), key=lambda n: -entropies[n]):
        if all(abs(n - other) >= 3 for other in found) and len(found) < cuts:
            found.append(n)
    return sorted(found)


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "gsm8k", "code", "out"):
        flags.add_argument(f"--{name}", required=True)
    flags.add_argument("--engine", default="vllm", choices=["vllm", "torch"])
    flags.add_argument("--device", default="cuda", help="of the engine torch")
    flags.add_argument("--tasks", default="words,gsm8k,code")
    flags.add_argument("--seconds", type=float, default=1e9, help="what is not sampled by then is left out")
    flags.add_argument("--scale", type=float, default=1, help="of all sizes but continuations: a small run")
    flags.add_argument("--rows", type=int, default=8192)
    asked = flags.parse_args()
    began, until = time.time(), time.time() + asked.seconds
    tell = lambda *said: print(f"{time.time() - began:6.1f} s", *said, flush=True)
    tokenizer = Tokenizer.from_file(f"{asked.model}/tokenizer.json")
    has_newline = ["\n" in (tokenizer.decode([id], skip_special_tokens=False) or "") for id in range(tokenizer.get_vocab_size())]
    ends = {tokenizer.token_to_id(end) for end in ENDS}
    engine = engines.Vllm(asked.model) if asked.engine == "vllm" else engines.Torch(asked.model, asked.device, asked.rows)
    tell("the policy is there")
    rows = {task: tasks.rows(task, asked.gsm8k, asked.code) for task in asked.tasks.split(",")}
    pool, judged, made = concurrent.futures.ThreadPoolExecutor(min(8, os.cpu_count())), {}, {}
    text = lambda ids: tokenizer.decode([id for id in ids if id not in ends], skip_special_tokens=False)
    for task in asked.tasks.split(","):
        size = SIZES[task]
        rows[task] = rows[task][: max(2, int(size["questions"] * asked.scale))]
        prompts = [prompt(tokenizer, row) for row in rows[task]]
        file = f"{asked.out}/{task}-traces.npz"
        if os.path.exists(file):
            stands = np.load(file)
            drawn = np.split(stands["ids"], np.cumsum(stands["lengths"])[:-1])
            drawn = [[list(map(int, ids)) for ids in drawn[n : n + size["group"]]] for n in range(0, len(drawn), size["group"])]
        else:
            drawn = engine.sample(prompts, size["group"], [tasks.MAX_TOKENS[task]] * len(prompts), tasks.TEMPERATURE[task], ends, until=until)
            if None in drawn:
                raise SystemExit("no time left for completions")
            ids, lengths = flat([ids for samples in drawn for ids in samples])
            np.savez_compressed(file, ids=ids, lengths=lengths, questions=[row["id"] for row in rows[task]])
        tell(task, len(drawn), "questions,", sum(len(ids) for samples in drawn for ids in samples), "tokens")
        made[task] = prompts, drawn
        judged[task] = [[pool.submit(tasks.right, row, text(ids)) for ids in samples] for row, samples in zip(rows[task], drawn)]
    for task in asked.tasks.split(","):
        size, (prompts, drawn) = SIZES[task], made[task]
        right = [[verdict.result() for verdict in verdicts] for verdicts in judged[task]]
        mixed = [n for n, verdicts in enumerate(right) if any(verdicts) and not all(verdicts)]
        tell(task, f"{sum(map(sum, right))} of {sum(map(len, right))} right, {len(mixed)} of {len(right)} questions mixed")
        if "exits" in size:
            mixed = sorted(mixed, key=lambda n: sum(map(len, drawn[n])))[: size["traces"] // 2]
        draw = random.Random(7)
        draw.shuffle(mixed)
        picked = []  # question, sample
        for n in mixed[: max(1, int(size["traces"] * asked.scale) // 2)]:
            for verdict in (True, False):
                picked.append((n, draw.choice([i for i, found in enumerate(right[n]) if found is verdict])))
        exits = []  # question, sample, tokens of the completion, whether a line ends there
        for at, (n, i) in enumerate(picked):
            ids = drawn[n][i]
            lines = spread(exits_of(ids, has_newline), size.get("exits"))
            exits += [(n, i, k, 1) for k in lines]
            if task == "words" and at < ENTROPY_TRACES and asked.engine == "torch":
                more = entropy_exits(engine.entropies(prompts[n] + ids, len(prompts[n]), tasks.TEMPERATURE[task]), ENTROPY_CUTS)
                exits += [(n, i, k, 0) for k in more if k not in lines]
        # lines first; those of a trace together
        exits.sort(key=lambda exit: -exit[3])
        tell(task, len(picked), "traces,", len(exits), "exits")
        file, m = f"{asked.out}/{task}-values.npz", size["m"]
        done = {}  # samples by exit
        if os.path.exists(file):
            stands = np.load(file)
            samples = np.split(stands["ids"], np.cumsum(stands["lengths"])[:-1])
            done = {tuple(map(int, exit)): samples[n * m : (n + 1) * m] for n, exit in enumerate(stands["exits"])}
        todo = [exit for exit in exits if exit not in done]
        step = 24 if asked.engine == "vllm" else 4 * asked.rows // m if asked.device == "cuda" else asked.rows // m
        for at in range(0, len(todo), step):
            if time.time() > until:
                break
            part = todo[at : at + step]
            prefixes = [tuple(prompts[n] + drawn[n][i][:k]) for n, i, k, _ in part]
            limits = {prefix: tasks.MAX_TOKENS[task] - k for prefix, (_, _, k, _) in zip(prefixes, part)}
            sampled = engine.sample(list(map(list, limits)), m, list(limits.values()), tasks.TEMPERATURE[task], ends, until=until)
            found = dict(zip(limits, sampled))  # where the traces of a question are still the same, so are their continuations
            done |= {exit: found[prefix] for exit, prefix in zip(part, prefixes) if found[prefix]}
            ids, lengths = flat([ids for samples in done.values() for ids in samples])
            np.savez_compressed(f"{file}.new.npz", ids=ids, lengths=lengths, exits=np.array(list(done), np.int32), questions=[row["id"] for row in rows[task]])
            os.replace(f"{file}.new.npz", file)
            tell(task, len(done), "of", len(exits), "exits,", len(ids), "tokens")


def prompt(tokenizer, row):
    """Token ids of the chat template of Qwen2.5."""
    turns = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in tasks.messages(row))
    return tokenizer.encode(f"{turns}<|im_start|>assistant\n", add_special_tokens=False).ids


if __name__ == "__main__":
    main()
