"""Train the reward model: the embedded policy's weights with a head of two labels, which says at a line's end whether the line is right; or an outcome reward model, whose one score is of the whole chain."""
import argparse
import random
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

LABELS = ("wrong", "right")
REFERENCE = "{prompt}reference: {reference}\n"  # as ../prm/prm_template.json has it
WITH_REFERENCE = 0.5  # of the chains
MANY = {**task.ODDS, "mistake": 0.35}  # odds of the first part of the training: more wrong lines to learn from
PART = 0.7
SLIPS = 0.2           # of the chains have a mistake of another kind than a wrong result, since sampled chains have some
SKIPPED = 0.3         # of these leave out a line; the others get a character wrong
NONE = -100           # no label
RESULT_WEIGHT = 0.5   # of the loss that asks for the right result beside the one that asks for the label


class Prm(nn.Module):
    """Parameter names are those of LlamaForTokenClassification; of LlamaForSequenceClassification with one label for an outcome."""

    def __init__(self, is_outcome=False, c=CONFIG):
        super().__init__()
        self.model = Llama(c)
        self.score = nn.Linear(c["hidden_size"], 1 if is_outcome else len(LABELS), bias=not is_outcome)

    def logits(self, hidden):
        """Of wrong and right; one score is the difference of the two."""
        scores = self.score(hidden)
        return F.pad(scores, (1, 0)) if scores.shape[-1] == 1 else scores

    def hidden(self, ids):
        """Hidden states of ids [B,T]; what stands behind a token never reaches it, so padding at the end does no harm."""
        B, T = ids.shape
        causal = seen(torch.ones(T, T, dtype=torch.bool).tril()).expand(B, T, T)
        return self.model(ids, torch.arange(T).expand(B, T), causal)


def with_slip(rng, lines, right):
    """The chain with one more mistake, of a kind that draw_chain does not make, and where it shows: (line, character)."""
    places = [i for i, line in enumerate(lines) if right[i] and line[1] == ":"]
    at = rng.choice(places) if places else None
    if at is None:
        return lines, right, None
    if rng.random() < SKIPPED and at + 1 < len(lines) and lines[at + 1][1] == ":":
        return lines[:at] + lines[at + 1:], right[:at] + [False] + right[at + 2:], (at, 0)
    line = lines[at]
    spots = [i for i, c in enumerate(line) if c.isdigit() or c in "+-*" or (c in "abcdefg" and (i == 0 or line[i + 1].isdigit()))]
    spot = rng.choice(spots)
    kind = next(kind for kind in ("0123456789", "+-*", "abcdefg") if line[spot] in kind)
    other = rng.choice([c for c in kind if c != line[spot]])
    return lines[:at] + [line[:spot] + other + line[spot + 1:]] + lines[at + 1:], right[:at] + [False] + right[at + 1:], (at, spot)


def encoded(prompt, lines, right, slip):
    """
    Ids, labels, results and line ends of one chain. The model is read at the line ends; to learn from more than these, all tokens
    of a line have its label from the one on at which a mistake shows, and are asked for the right result of its operation.
    """
    ids = task.encode(prompt + "<think>\n")
    labels, results, ends = [NONE] * len(ids), [NONE] * len(ids), []
    for number, (line, label) in enumerate(zip(lines, right)):
        own, sign = task.encode(line), line.find("=")
        shows = slip[1] if slip and slip[0] == number else sign + 1
        result = NONE if sign < 0 else ord(str(task.compute(int(line[sign - 3]), line[sign - 2], int(line[sign - 1]))))
        ids, labels = ids + own, labels + [NONE] * shows + [int(label)] * (len(own) - shows)
        results += [NONE] * (sign + 1) + [result] * (len(own) - sign - 1)
        ends.append(len(ids) - 1)
    return ids, labels, results, ends


def of_outcome(encoded, is_right, is_asked_throughout):
    """A chain labelled by whether its answer is right: at its last line's end, or wherever a line's label stands and in front of the first one."""
    ids, labels, results, ends = encoded
    lead = ids.index(task.THINK) + 1
    if is_asked_throughout:
        return ids, [int(is_right) if label != NONE or at == lead else NONE for at, label in enumerate(labels)], results, [lead, *ends]
    return ids, [int(is_right) if at == ends[-1] else NONE for at in range(len(ids))], results, ends[-1:]


def sequence(rng, odds=task.ODDS, slips=SLIPS, with_reference=WITH_REFERENCE, outcome=None):
    problem = task.draw_problem(rng, rng.choice(task.FAMILIES))
    chain, prompt = task.draw_chain(rng, problem, odds), task.prompt_text(problem)
    lines, right, slip = list(chain.lines), [kind != "wrong" for kind in chain.kinds], None
    if outcome:
        return of_outcome(encoded(prompt, lines, right, None), chain.answer == task.true_answer(problem), outcome == "throughout")
    if rng.random() < slips:
        lines, right, slip = with_slip(rng, lines, right)
    if rng.random() < with_reference:
        prompt = REFERENCE.format(prompt=prompt, reference=task.true_answer(problem))
    return encoded(prompt, lines, right, slip)


def collate(sequences):
    """Tensors ids, labels and results [B,T], and which of the tokens are line ends."""
    width = max(len(s[0]) for s in sequences)
    columns = [np.array([s[column] + [value] * (width - len(s[column])) for s in sequences]) for column, value in enumerate((0, NONE, NONE))]
    ends = np.zeros(columns[0].shape, bool)
    for row, (*_, own) in zip(ends, sequences):
        row[own] = True
    return [torch.from_numpy(a) for a in (*columns, ends)]


def area(scores, positive):
    """Area under the ROC curve: the share of pairs in which the positive one has the higher score; ties count half."""
    order = np.argsort(scores, kind="stable")
    _, inverse, counts = np.unique(scores[order], return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    is_positive = positive[order].astype(bool)
    n, m = is_positive.sum(), (~is_positive).sum()
    return (ranks[is_positive].sum() - n * (n + 1) / 2) / (n * m)


@torch.no_grad()
def evaluate(model, name, with_reference=0, outcome=None, count=1000):
    """Prints how well lines of fresh chains, at the task's own odds, are told apart, and whether the probabilities are meant."""
    rng, scores, labels = random.Random(name), [], []
    for _ in range(count // 50):
        ids, own, _, ends = collate([sequence(rng, slips=0, with_reference=with_reference, outcome=outcome) for _ in range(50)])
        scores.append(model.logits(model.hidden(ids)[ends]).softmax(-1)[:, 1].numpy())
        labels.append(own[ends].numpy())
    scores, labels = np.concatenate(scores), np.concatenate(labels)
    print(f"{'with' if with_reference else 'without'} reference: {len(labels)} {'places' if outcome else 'lines'}, {1 - labels.mean():.3f} of them wrong, "
          f"AUC {area(scores, labels):.4f}, Brier {np.mean((scores - labels) ** 2):.4f}")
    edges = (0, 0.1, 0.5, 0.9, 0.99, 1.0001)
    for low, high in zip(edges, edges[1:]):
        inside = (scores >= low) & (scores < high)
        if inside.any():
            print(f"  P from {low} to {min(high, 1)}: {inside.sum()} lines, mean P {scores[inside].mean():.3f}, right {labels[inside].mean():.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", default="../embedded/model.safetensors")
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--micro", type=int, default=8, help="chains a micro-batch (small ones stay in the cache)")
    parser.add_argument("--accumulate", type=int, default=4, help="micro-batches a step")
    parser.add_argument("--muon-rate", type=float, default=0.02)
    parser.add_argument("--adam-rate", type=float, default=0.003)
    parser.add_argument("--outcome", choices=("last", "throughout"), help="an outcome reward model: where it is asked whether the answer is right")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default="../prm/model.safetensors")
    parser.add_argument("--kind", choices=checkpoint.KINDS, default="F16", help="of the weights as they are written")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    rng = random.Random(f"train-prm-{args.seed}")
    model = Prm(args.outcome is not None)
    checkpoint.load(model.model, args.policy)
    print("arguments", {k: v for k, v in vars(args).items() if k not in ("out", "policy")}, "odds", task.ODDS, "at first", MANY["mistake"])
    print("parameters", sum(p.numel() for p in model.parameters()), flush=True)
    optimizer = Optimizer(model, heads=("score",))
    started, totals, pool = time.time(), [0.0, 0, 0.0, 0], []
    for step in range(args.steps):
        if not pool:
            odds = MANY if step < PART * args.steps else task.ODDS
            items = sorted((sequence(rng, odds, outcome=args.outcome) for _ in range(8 * args.accumulate * args.micro)), key=lambda item: len(item[0]))
            pool = [items[i:i + args.micro] for i in range(0, len(items), args.micro)]
            rng.shuffle(pool)
        for _ in range(args.accumulate):
            ids, labels, results, ends = collate(pool.pop())
            hidden = model.hidden(ids)
            labelled, asked = labels != NONE, results != NONE
            result = F.cross_entropy(model.model.logits(hidden[asked]), results[asked])
            loss = F.cross_entropy(model.logits(hidden[labelled]), labels[labelled]) + RESULT_WEIGHT * result
            (loss / args.accumulate).backward()
            with torch.no_grad():
                at_ends = F.cross_entropy(model.logits(hidden[ends]), labels[ends], reduction="sum")
            own = (float(at_ends), int(ends.sum()), float(result) * int(asked.sum()), int(asked.sum()))
            totals = [a + b for a, b in zip(totals, own)]
        rate = rate_at(step / args.steps)
        optimizer.step(args.muon_rate * rate, args.adam_rate * rate)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} seconds {time.time() - started:.0f} at line ends {totals[0] / totals[1]:.4f} result {totals[2] / totals[3]:.4f}", flush=True)
            totals = [0.0, 0, 0.0, 0]
        if (step + 1) % 40 == 0 or step + 1 == args.steps:
            checkpoint.save(model, args.out, args.kind, prefix="")
    checkpoint.load(model, args.out, prefix="")  # what is judged is what was written
    for with_reference in (0,) if args.outcome else (0, 1):
        evaluate(model, f"evaluate-prm-{args.seed}", with_reference, args.outcome)


if __name__ == "__main__":
    main()
