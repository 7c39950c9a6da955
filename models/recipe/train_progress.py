"""Train the model of progress: the embedded policy's weights with a head of one score, whose changes from step to step are the graded labels of `rredcot.exports.progress`."""
import argparse
import json
import random
import re
import time
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
import checkpoint
import task
from model import CONFIG, Llama, seen
from optimizer import Optimizer
from train import rate_at
from train_prm import NONE, RESULT_WEIGHT


class Progress(nn.Module):
    """Parameter names are those of LlamaForSequenceClassification with one label."""

    def __init__(self, c=CONFIG):
        super().__init__()
        self.model = Llama(c)
        self.score = nn.Linear(c["hidden_size"], 1, bias=False)

    def hidden(self, ids):
        """Hidden states of ids [B,T]; what stands behind a token never reaches it."""
        B, T = ids.shape
        causal = seen(torch.ones(T, T, dtype=torch.bool).tril()).expand(B, T, T)
        return self.model(ids, torch.arange(T).expand(B, T), causal)


LEAD = "<think>\n"  # stands before the first exit, and in the first step's text
OPERATION = re.compile(r"(\d)([-+*])(\d)=")


def results(text):
    """Of each token of a step the right result of its operation, behind the sign that asks for it."""
    found = OPERATION.search(text)
    if not found:
        return [NONE] * len(task.encode(text))
    before = len(task.encode(text[:found.end()]))
    return [NONE] * before + [ord(str(task.compute(int(found[1]), found[2], int(found[3]))))] * (len(task.encode(text)) - before)


def read(path):
    """Of each row (ids, ends, progress, results): token ends of the prompt with what leads the thought, and of its steps, which are all but the last."""
    found = []
    for row in map(json.loads, open(path, encoding="utf-8")):
        first, *others = row["completions"][:-1] or [""]
        texts = [row["prompt"] + LEAD, first.removeprefix(LEAD), *others] if first else []
        ids = [task.encode(text) for text in texts]
        if len(ids) > 1:
            asked = [NONE] * len(ids[0]) + sum(map(results, texts[1:]), [])
            found.append((sum(ids, []), [int(n) - 1 for n in np.cumsum([len(own) for own in ids])], row["progress"][:-1], asked))
    return found


def loss_of(model, items):
    """Mean squared error of the changes, the mean square of the labels, and the loss that asks for the right results, as the reward model's recipe does."""
    width = max(len(ids) for ids, *_ in items)
    hidden = model.hidden(torch.tensor([ids + [0] * (width - len(ids)) for ids, *_ in items]))
    values = model.score(hidden)[..., 0].sigmoid()
    made = torch.cat([own[ends].diff() for own, (_, ends, *_) in zip(values, items)])
    labels = torch.tensor([label for _, _, labels, _ in items for label in labels])
    results = torch.tensor([asked + [NONE] * (width - len(asked)) for *_, asked in items])
    asked = results != NONE
    return ((made - labels) ** 2).mean(), (labels ** 2).mean(), F.cross_entropy(model.model.logits(hidden[asked]), results[asked])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("labels", help=".jsonl of rredcot.exports.progress")
    parser.add_argument("--policy", default="../embedded/model.safetensors")
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--batch", type=int, default=32, help="traces a step")
    parser.add_argument("--muon-rate", type=float, default=0.01)
    parser.add_argument("--adam-rate", type=float, default=0.0015)
    parser.add_argument("--kept", type=float, default=0.1, help="share of the prompts that no step trains on")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", required=True, help="model.safetensors, F16")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    rng = random.Random(f"train-progress-{args.seed}")
    rows, model = read(args.labels), Progress()
    checkpoint.load(model.model, args.policy)
    nn.init.zeros_(model.score.weight)  # at first nothing moves
    prompts = sorted({tuple(ids[:ends[0] + 1]) for ids, ends, *_ in rows})
    kept = set(rng.sample(prompts, int(args.kept * len(prompts))))
    held, trained = ([row for row in rows if (tuple(row[0][:row[1][0] + 1]) in kept) == is_kept] for is_kept in (True, False))
    print("traces", len(trained), "kept", len(held), flush=True)
    square = float(np.mean([label ** 2 for _, _, labels, _ in trained for label in labels]))
    optimizer, started, pool, totals = Optimizer(model, heads=("score",)), time.time(), [], []
    for step in range(args.steps):
        if not pool:
            items = sorted(rng.sample(trained, len(trained)), key=lambda item: len(item[0]))
            pool = [items[i:i + 8] for i in range(0, len(items) - 7, 8)]
            rng.shuffle(pool)
        for _ in range(args.batch // 8):
            error, scale, result = loss_of(model, pool.pop() if pool else rng.sample(trained, 8))
            ((error / square + RESULT_WEIGHT * result) * 8 / args.batch).backward()
            totals.append([float(each.detach()) for each in (error, scale, result)])
        rate = rate_at(step / args.steps)
        optimizer.step(args.muon_rate * rate, args.adam_rate * rate)
        if (step + 1) % 40 == 0 or step + 1 == args.steps:
            with torch.no_grad():
                tested = np.mean([[float(x) for x in loss_of(model, held[i:i + 8])] for i in range(0, len(held), 8)], 0)
            error, scale, result = np.mean(totals, 0)
            print(f"step {step + 1} seconds {time.time() - started:.0f} explained {1 - error / scale:.3f}, of kept prompts {1 - tested[0] / tested[1]:.3f}, result {result:.3f}", flush=True)
            totals = []
    checkpoint.save(model, args.out, "F16", prefix="")


if __name__ == "__main__":
    main()
