"""Answers the questions of `rredcot requests`: JSON lines in, a JSON line for each question out, in their order.

    rredcot requests traces.jsonl -o requests.jsonl
    python -m rredcot.answer --engine vllm --model ./checkpoint -o answers.jsonl < requests.jsonl
    rredcot score traces.jsonl --answers answers.jsonl -o scored.parquet

Engines: vllm, sglang, or torch, which runs what transformers opens and knows entropies exactly. The same command goes on where a
killed one has stopped. A question that the model cannot take gets an `error` for an answer.
"""
import argparse
import importlib
import itertools
import json
import logging
import math
import os
import sys
import time

from rredcot._questions import questions


def windows(asked, size):
    """Lists of at least `size` questions, in which those of a base stand together."""
    bases = (list(same) for _, same in itertools.groupby(asked, lambda q: q.base))
    for window in bases:
        while len(window) < size and (more := next(bases, None)):
            window += more
        yield window


def rounded(value):
    return [rounded(each) for each in value] if isinstance(value, list) else round(value, 6) if isinstance(value, float) else value


def line(said):
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"


class Answerer:
    """An engine in this process, or in a worker of Ray."""

    def __init__(self, engine, *words):
        self.engine = importlib.import_module(f"rredcot._{engine}").Engine(*words)

    def about(self):
        return self.engine.name, self.engine.window

    def answers(self, window):
        """The line of each question, and how many tokens were computed for them."""
        engine, before, lines = self.engine, self.engine.computed, []
        fits = [len(q.ids) + max(1, q.max_tokens) <= engine.longest and max(q.ids, default=0) < engine.vocabulary
                and (q.ids if q.samples else 1 <= q.start < len(q.ids)) for q in window]
        asked = [q for q, fit in zip(window, fits) if fit]
        found = iter(engine(asked) if asked else ())
        why = f"over {engine.longest} tokens with those to come, or an id that is none of the model's {engine.vocabulary}, or nothing before what is asked"
        for q, fit in zip(window, fits):
            answer = next(found) if fit else {"error": why}
            if not all(map(math.isfinite, answer.get("logprobs", ()))):
                answer = {"error": "a log-probability is not finite"}
            lines.append(line({"id": q.id, **{name: rounded(each) for name, each in answer.items()}}))
        return lines, engine.computed - before


def on_ray(count, gpus, *words):
    """What engines on Ray say of themselves, and what maps windows over them, in their order."""
    import ray

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent about its use
    actors = [ray.remote(num_gpus=gpus)(Answerer).remote(*words) for _ in range(count)]
    pool = ray.util.ActorPool(actors)

    def each(windows):
        for n, window in enumerate(windows):
            if n >= 2 * count:
                yield pool.get_next()
            pool.submit(lambda actor, window: actor.answers.remote(window), window)
        while pool.has_next():
            yield pool.get_next()

    return ray.get(actors[0].about.remote()), each


def standing(path, header, left):
    """The file of answers behind which it goes on, the windows that it does not answer, and how many questions of the first one it does."""
    file = open(path, "ab+")
    file.seek(0)
    refuse = lambda what: SystemExit(f"rredcot.answer: {path} {what}: give another -o")
    if not (first := file.readline()).endswith(b"\n"):
        file.seek(0)
        file.truncate()
        file.write(header)
    elif first != header:
        raise refuse(f"begins with {first!r}, expected {header!r}")
    for window in left:
        for n, q in enumerate(window):
            end = file.tell()
            if not (own := file.readline()).endswith(b"\n"):  # none, or one that is cut off
                file.truncate(end)
                return file, itertools.chain([window], left), n
            if (was := json.loads(own)["id"]) != q.id:
                raise refuse(f"answers {was} where {q.id} is asked")
    if file.readline():
        raise refuse("answers more than is asked")
    return file, left, 0


def main():
    flags = argparse.ArgumentParser(prog="python -m rredcot.answer", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--engine", required=True, choices=["vllm", "sglang", "torch"])
    flags.add_argument("--model", required=True, help="a checkpoint's folder")
    flags.add_argument("--dtype", default="auto", help="float32, bfloat16; auto: the checkpoint's own")
    flags.add_argument("--more", type=json.loads, default={}, metavar="JSON", help="for vllm.LLM, sglang.Engine, from_pretrained")
    flags.add_argument("--workers", type=int, metavar="N", help="engines on Ray")
    flags.add_argument("--gpus", type=int, default=0, metavar="N", help="of each engine on Ray")
    flags.add_argument("-o", metavar="FILE", help="in place of stdout; a killed job goes on behind what stands there")
    asked = flags.parse_args()
    logging.basicConfig(format="rredcot.answer: %(message)s", level=logging.WARNING)
    logging.getLogger("rredcot").setLevel(logging.INFO)
    stdout = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # engines print, from C too
    words = asked.engine, asked.model, asked.dtype, asked.more
    try:
        if asked.workers:
            (name, size), each = on_ray(asked.workers, asked.gpus, *words)
        else:
            answerer = Answerer(*words)
            (name, size), each = answerer.about(), lambda windows: map(answerer.answers, windows)
    except ModuleNotFoundError as error:
        raise SystemExit(f"rredcot.answer: {error}: pip install {asked.engine.replace('torch', 'torch transformers')}") from None
    except (OSError, TypeError) as error:
        raise SystemExit(f"rredcot.answer: --model {asked.model}, or --more: {error}") from None
    header = line({"rredcot": "answers", "engine": name, "model": asked.model, "dtype": asked.dtype})
    file, left, stand = stdout, windows(questions(sys.stdin), size), 0
    if asked.o:
        file, left, stand = standing(asked.o, header, left)
    else:
        file.write(header)
    began, done, computed = time.monotonic(), 0, 0
    for found, tokens in each(left):
        file.writelines(found[stand:])  # one that is cut is asked whole: company moves last digits
        file.flush()
        stand, done, computed = 0, done + len(found), computed + tokens
        pace = f"{done / (time.monotonic() - began):,.1f} a second, {computed:,} tokens computed"
        print(f"rredcot.answer: {done:,} questions answered, {pace}", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:
        raise SystemExit(f"rredcot.answer: {error}") from None
