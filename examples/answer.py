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
import os
import sys
import time

BASES = 256  # lists of token ids that are kept for later questions to begin with
TOKENS = 2**21  # about as many an engine gets at a time

# log p of ids[start:] is asked, with `top` of the largest; or, where start is 0, samples. Questions of one `base` begin with the same
# ids, `shared` of them. What is `fresh` is computed alone, with nothing that is cached.
Question = collections.namedtuple("Question", "id ids base shared start top fresh samples max_tokens stop")


def questions(lines):
    """The questions of JSON lines, each with all its token ids."""
    bases = collections.OrderedDict()
    for said in map(json.loads, lines):
        if "id" not in said:
            continue
        ids, prefix = said["token_ids"], said.get("prefix")
        if prefix is None:
            bases[said["id"]] = ids
            if len(bases) > BASES:
                bases.popitem(last=False)
        elif prefix["of"] in bases:
            ids = bases[prefix["of"]][: prefix["length"]] + ids
        else:
            raise SystemExit(f"answer.py: {said['id']} begins with {prefix['of']}, expected one of the last {BASES} without a prefix")
        if "from" in said or "samples" in said:
            base = (prefix["of"], prefix["length"]) if prefix else (said["id"], len(ids))
            asked = [said.get(name, 0) for name in ("from", "top", "fresh", "samples", "max_tokens")]
            yield Question(said["id"], ids, *base, *asked, said.get("stop", []))


def windows(asked, size):
    """Lists of at least `size` questions; those of a base stay together, unless they are too many tokens."""
    window, tokens = [], 0
    for q in asked:
        if window and (len(window) >= size and q.base != window[-1].base or tokens > TOKENS):
            yield window
            window, tokens = [], 0
        window.append(q)
        tokens += len(q.ids)
    if window:
        yield window


def answers(window, engine):
    """The answer to each question, as it is written."""
    refusals = [refusal(q, engine) for q in window]
    found = iter(engine.answer([q for q, why in zip(window, refusals) if not why]))
    return [{"id": q.id, **({"error": why} if why else checked(next(found), q))} for q, why in zip(window, refusals)]


def refusal(q, engine):
    if not 0 <= min(q.ids, default=-1) <= max(q.ids, default=0) < engine.vocabulary:
        return f"no token ids, or not all of them in the model's vocabulary of {engine.vocabulary}"
    if len(q.ids) + max(1, q.max_tokens) > engine.longest:
        return f"{len(q.ids)} token ids and {max(1, q.max_tokens)} to come, where the engine takes {engine.longest}"
    return None if q.samples or 0 < q.start < len(q.ids) else f"from token {q.start} of {len(q.ids)}"


def checked(answer, q):
    """The answer with all the digits that mean something, or what is wrong with it."""
    numbers = lambda values: [numbers(v) if isinstance(v, list) else round(v, 6) for v in values]
    for name in answer.keys() & {"logprobs", "entropies", "top"}:
        if len(answer[name]) != len(q.ids) - q.start:
            return {"error": f"{len(answer[name])} {name}, expected {len(q.ids) - q.start}"}
        answer[name] = numbers(answer[name])
    wrong = [value for value in answer.get("logprobs", []) if not float("-inf") < value <= 0]
    return {"error": f"a log-probability of {wrong[0]}"} if wrong else answer


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
    engine = importlib.import_module(f"answer_{asked.engine}").Engine(asked.model, asked.dtype, asked.more)
    line = lambda said: json.dumps(said, separators=(",", ":")).encode() + b"\n"
    header = line({"rredcot": "answers", "engine": engine.name, "model": asked.model, "dtype": asked.dtype})
    file, lines = standing(asked.o, header) if asked.o else (stdout, 0)
    file.write(b"" if lines else header)
    todo, began, done = itertools.islice(questions(sys.stdin), max(0, lines - 1), None), time.monotonic(), 0
    for window in windows(todo, engine.window):
        file.writelines(map(line, answers(window, engine)))
        file.flush()
        done += len(window)
        pace = f"{done / (time.monotonic() - began):,.1f} a second, {engine.computed:,} tokens computed"
        print(f"answer.py: {done:,} questions answered, {pace}", file=sys.stderr)


if __name__ == "__main__":
    main()
