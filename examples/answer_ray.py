"""answer.py on Ray Data: an engine in each worker, and the questions of whole traces to each, by `map_batches`.

    python answer_ray.py torch ./checkpoint /shared/requests.jsonl --workers 8 --gpus 1 > answers.jsonl
"""
import argparse
import importlib
import itertools
import json
import os

import answer
import ray


class Answerer:
    def __init__(self, path, engine, model):
        self.file = open(path, "rb")
        self.engine = importlib.import_module(f"answer_{engine}").Engine(model, "auto", {})

    def __call__(self, batch):
        spans = [(self.file.seek(begin), self.file.read(end - begin)) for begin, end in zip(batch["begin"], batch["end"])]
        asked = answer.questions(line for _, lines in spans for line in lines.splitlines())
        windows = answer.windows(asked, self.engine.window)
        return {"line": [json.dumps(found) for window in windows for found in answer.answers(window, self.engine)]}


flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
for name in ("engine", "model", "requests"):
    flags.add_argument(name)
flags.add_argument("--workers", type=int, default=1)
flags.add_argument("--gpus", type=int, default=0, help="of each worker")
asked = flags.parse_args()
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent about its use
with open(asked.requests, "rb") as file:  # a trace's lines begin with one that has no prefix
    lengths = [(len(line), "prefix" not in json.loads(line)) for line in file]
ends = list(itertools.accumulate(length for length, _ in lengths))
begins = [end - length for end, (length, is_first) in zip(ends, lengths) if is_first]
spans = [{"begin": begin, "end": end} for begin, end in itertools.pairwise([*begins, ends[-1]])]
how = {"fn_constructor_args": (os.path.abspath(asked.requests), asked.engine, asked.model), "num_gpus": asked.gpus}
for row in ray.data.from_items(spans).map_batches(Answerer, batch_size=32, concurrency=asked.workers, **how).iter_rows():
    print(row["line"])
