"""Answers the questions of `rredcot requests`: JSON lines in, a JSON line for each question out, in their order.

    rredcot requests traces.jsonl -o requests.jsonl
    python answer.py --engine vllm --model ./checkpoint -o answers.jsonl < requests.jsonl
    rredcot score traces.jsonl --answers answers.jsonl -o scored.parquet

Engines: vllm, sglang, or torch, which runs what transformers opens and knows entropies exactly. The same command goes on where a
killed one has stopped. A question that the model cannot take gets an `error` for an answer.
"""
import argparse
import collections
import importlib
import itertools
import json
import math
import os
import sys
import time

BASES = 256  # lists of token ids that are kept for later questions to begin with

# log p of ids[start:] is asked, with `top` of the largest; or, where start is 0, samples. Questions of one `base` begin with the same
# ids, `shared` of them. What is `fresh` is computed alone, with nothing that is cached.
Question = collections.namedtuple("Question", "id ids base shared start top fresh samples max_tokens stop")


def questions(lines):
    """The questions of JSON lines, each with all its token ids."""
    bases = {}
    for said in map(json.loads, lines):
        if "id" not in said:
            continue
        ids, base, shared = said["token_ids"], said["id"], len(said["token_ids"])
        if "prefix" in said:
            base, shared = said["prefix"]["of"], said["prefix"]["length"]
            if base not in bases:
                raise SystemExit(f"answer.py: {said['id']} begins with {base}, expected one of the last {BASES} without a prefix")
            ids = bases[base][:shared] + ids
        else:
            bases[base] = ids
            if len(bases) > BASES:
                del bases[next(iter(bases))]
        if "from" in said or "samples" in said:
            asked = [said.get(name, 0) for name in ("from", "top", "fresh", "samples", "max_tokens")]
            yield Question(said["id"], ids, base, shared, *asked, said.get("stop", []))


def windows(asked, size):
    """Lists of at least `size` questions, in which those of a base stand together."""
    window = []
    for _, same in itertools.groupby(asked, lambda q: q.base):
        window += same
        if len(window) >= size:
            yield window
            window = []
    if window:
        yield window


def answers(window, engine):
    """The answer to each question, as it is written."""
    fits = [len(q.ids) + max(1, q.max_tokens) <= engine.longest and max(q.ids, default=0) < engine.vocabulary for q in window]
    asked = [q for q, fit in zip(window, fits) if fit]
    found = iter(engine.answer(asked) if asked else ())
    why = f"over {engine.longest} tokens with those to come, or an id that is none of the model's {engine.vocabulary}"
    for q, fit in zip(window, fits):
        answer = next(found) if fit else {"error": why}
        finite = all(map(math.isfinite, answer.get("logprobs", ())))
        yield {"id": q.id, **(answer if finite else {"error": "a log-probability is not finite"})}


def standing(path, header):
    """The file of answers and its number of lines, without one that is cut off."""
    file, lines, end = open(path, "ab+"), 0, 0
    file.seek(0)
    while (line := file.readline()).endswith(b"\n"):
        if lines == 0 and line != header:
            raise SystemExit(f"answer.py: {path} begins with {line.decode()}expected {header.decode()}give another -o")
        lines, end = lines + 1, file.tell()
    file.truncate(end)
    return file, lines


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--engine", required=True, choices=["vllm", "sglang", "torch"])
    flags.add_argument("--model", required=True, help="a checkpoint's folder")
    flags.add_argument("--dtype", default="auto", help="float32, bfloat16; auto: the checkpoint's own")
    flags.add_argument("--more", type=json.loads, default={}, metavar="JSON", help="for vllm.LLM, sglang.Engine, from_pretrained")
    flags.add_argument("-o", metavar="FILE", help="in place of stdout; a killed job goes on behind what stands there")
    asked = flags.parse_args()
    stdout = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # engines print, from C too
    try:
        engine = importlib.import_module(f"answer_{asked.engine}").Engine(asked.model, asked.dtype, asked.more)
    except ModuleNotFoundError as error:
        raise SystemExit(f"answer.py: {error}: pip install {asked.engine.replace('torch', 'torch transformers')}") from None
    line = lambda said: json.dumps(said, separators=(",", ":")).encode() + b"\n"
    header = line({"rredcot": "answers", "engine": engine.name, "model": asked.model, "dtype": asked.dtype})
    file, lines = standing(asked.o, header) if asked.o else (stdout, 0)
    file.write(b"" if lines else header)
    stand, began, done = max(0, lines - 1), time.monotonic(), 0
    for window in windows(questions(sys.stdin), engine.window):
        if stand < len(window):  # one that is cut is asked whole: company moves last digits
            file.writelines([line(answer) for answer in answers(window, engine)][stand:])
            file.flush()
            done += len(window)
        stand = max(0, stand - len(window))
        pace = f"{done / (time.monotonic() - began):,.1f} a second, {engine.computed:,} tokens computed"
        print(f"answer.py: {done:,} questions answered, {pace}", file=sys.stderr)


if __name__ == "__main__":
    main()
