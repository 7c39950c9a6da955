"""Answers the questions of `rredcot requests`: JSON lines in, a JSON line for each question out, in their order.

    rredcot requests traces.jsonl -o requests.jsonl
    python -m rredcot.answer --engine vllm --model ./checkpoint -o answers.jsonl < requests.jsonl
    rredcot score traces.jsonl --answers answers.jsonl -o scored.parquet

Engines: vllm, sglang, or torch, which runs what transformers opens and knows entropies exactly. The same command goes on where a
killed one has stopped. A question that the model cannot take gets an `error` for an answer.
"""
import argparse
import itertools
import json
import logging
import math
import os
import sys
import time

from rredcot.answerers import Model, questions


def opened(engine, model, dtype, more):
    """What answers: `answer(questions)`, `name`, the `window` of questions that it gets at a time, its `vocabulary`, `longest` row and
    tokens `computed`."""
    if engine == "vllm":
        from rredcot._vllm import Engine
    elif engine == "sglang":
        from rredcot._sglang import Engine
    else:
        Engine = Torch
    return Engine(model, dtype, more)


class Torch(Model):
    window = 1  # question, and those of the same trace

    def __init__(self, model, dtype, more):
        import torch
        import transformers

        lm = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=dtype, **more)
        super().__init__(lm.to("cuda") if torch.cuda.is_available() and "device_map" not in more else lm)
        self.longest = getattr(self.config, "max_position_embeddings", float("inf"))

    answer = Model.__call__


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
    """The line of each question."""
    fits = [len(q.ids) + max(1, q.max_tokens) <= engine.longest and max(q.ids, default=0) < engine.vocabulary for q in window]
    asked = [q for q, fit in zip(window, fits) if fit]
    found = iter(engine.answer(asked) if asked else ())
    why = f"over {engine.longest} tokens with those to come, or an id that is none of the model's {engine.vocabulary}"
    for q, fit in zip(window, fits):
        answer = next(found) if fit else {"error": why}
        finite = all(map(math.isfinite, answer.get("logprobs", ())))
        yield line({"id": q.id, **(rounded(answer) if finite else {"error": "a log-probability is not finite"})})


def rounded(value):
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else round(value, 6) if isinstance(value, float) else value


def line(said):
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"


class Answerer:
    """An engine in this process, or in a worker of Ray."""

    def __init__(self, *words):
        self.engine = opened(*words)

    def about(self):
        return self.engine.name, self.engine.window

    def answers(self, window):
        before = self.engine.computed
        return list(answers(window, self.engine)), self.engine.computed - before


class Workers:
    """Answerers on Ray, which take turns; what they answer comes in the order of the questions."""

    def __init__(self, count, gpus, *words):
        import ray

        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent about its use
        make = ray.remote(num_gpus=gpus)(Answerer)
        self.actors, self.get = [make.remote(*words) for _ in range(count)], ray.get
        self.pool = ray.util.ActorPool(self.actors)

    def about(self):
        return self.get(self.actors[0].about.remote())

    def each(self, windows):
        for n, window in enumerate(windows):
            if n >= 2 * len(self.actors):
                yield self.pool.get_next()
            self.pool.submit(lambda actor, window: actor.answers.remote(window), window)
        while self.pool.has_next():
            yield self.pool.get_next()


def standing(path, header):
    """The file of answers and its number of lines, without one that is cut off."""
    file, lines, end = open(path, "ab+"), 0, 0
    file.seek(0)
    while (own := file.readline()).endswith(b"\n"):
        if lines == 0 and own != header:
            raise SystemExit(f"rredcot.answer: {path} begins with {own.decode()}expected {header.decode()}give another -o")
        lines, end = lines + 1, file.tell()
    file.truncate(end)
    return file, lines


def main():
    flags = argparse.ArgumentParser(prog="python -m rredcot.answer", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--engine", required=True, choices=["vllm", "sglang", "torch"])
    flags.add_argument("--model", required=True, help="a checkpoint's folder")
    flags.add_argument("--dtype", default="auto", help="float32, bfloat16; auto: the checkpoint's own")
    flags.add_argument("--more", type=json.loads, default={}, metavar="JSON", help="for vllm.LLM, sglang.Engine, from_pretrained")
    flags.add_argument("--workers", type=int, metavar="N", help="engines on Ray, each with --gpus")
    flags.add_argument("--gpus", type=int, default=0, metavar="N", help="of each worker")
    flags.add_argument("-o", metavar="FILE", help="in place of stdout; a killed job goes on behind what stands there")
    asked = flags.parse_args()
    logging.basicConfig(format="rredcot.answer: %(message)s", level=logging.WARNING)
    logging.getLogger("rredcot").setLevel(logging.INFO)
    stdout = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # engines print, from C too
    words = asked.engine, asked.model, asked.dtype, asked.more
    try:
        answerer = Workers(asked.workers, asked.gpus, *words) if asked.workers else Answerer(*words)
        name, size = answerer.about()
    except ModuleNotFoundError as error:
        raise SystemExit(f"rredcot.answer: {error}: pip install {asked.engine.replace('torch', 'torch transformers')}") from None
    header = line({"rredcot": "answers", "engine": name, "model": asked.model, "dtype": asked.dtype})
    file, lines = standing(asked.o, header) if asked.o else (stdout, 0)
    file.write(b"" if lines else header)
    stand, began, done, computed = max(0, lines - 1), time.monotonic(), 0, 0

    def left():
        """The windows that are not answered yet, each with the lines of it that stand: one that is cut is asked whole, since company
        moves last digits."""
        nonlocal stand
        for window in windows(questions(sys.stdin), size):
            if stand < len(window):
                skipped.append(max(0, stand))
                yield window
            stand -= len(window)

    skipped = []
    for found, tokens in answerer.each(left()) if asked.workers else map(answerer.answers, left()):
        file.writelines(found[skipped.pop(0) :])
        file.flush()
        done, computed = done + len(found), computed + tokens
        pace = f"{done / (time.monotonic() - began):,.1f} a second, {computed:,} tokens computed"
        print(f"rredcot.answer: {done:,} questions answered, {pace}", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:
        raise SystemExit(f"rredcot.answer: {error}") from None
