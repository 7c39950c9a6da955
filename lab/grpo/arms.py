"""The arms of Stage 0: for each trace the advantages of its tokens, every one read from the tool's own output."""
import random
import numpy as np
import torch
import truth
from evaluate import sampled
from setting import task

ALWAYS_RIGHT = {"+": 0.0, "-": 0.0, "*": 0.0}
UNSURE = 0.2  # a line that the policy would have written with a probability of less than 1 − this


def uniform(rows, scale):
    return [np.full(len(r["completion_ids"]), s / len(r["completion_ids"]), np.float32) for r, s in zip(rows, scale)]


def summed(rows, scale):
    """The same for every token of a trace, whatever its length: the gradient of the expected reward."""
    return [np.full(len(r["completion_ids"]), s, np.float32) for r, s in zip(rows, scale)]


def weighted(rows, scored, scale, column="sigma"):
    """A·σ: GRPO's loss with w = σ·T, whose mean over a trace divides by T again. A trace that was rejected counts as in plain GRPO."""
    plain = uniform(rows, scale)
    return [plain[i] if row is None else np.asarray(row[column], np.float32) * scale[i] for i, row in enumerate(scored)]


def as_advantage(rows, scored, by_length=True):
    """`token_advantage` in place of A·w, a mean (or a sum) over the trace's tokens, a mean over traces; a trace that was rejected counts nothing."""
    return [(np.asarray(row["token_advantage"], np.float32) if row else np.zeros(len(sent["completion_ids"]), np.float32))
            / (len(sent["completion_ids"]) if by_length else 1) / len(rows) for sent, row in zip(rows, scored)]


def measured_odds(rows, weak="*"):
    """How often operations of the weak operator go wrong in these rows, and how many of the mistakes the next operation line mends."""
    tried = wrong = mended = 0
    for row in rows:
        before = False
        for line in (truth.lines_of(row["completion_ids"]) or [[]])[0]:
            found = truth.OPERATION.fullmatch(line)
            if not found:
                continue
            if found[1]:
                mended += before
                before = False
                continue
            before = truth.is_wrong(line)
            if found[4] == weak:
                tried, wrong = tried + 1, wrong + before
    return {**ALWAYS_RIGHT, weak: wrong / max(1, tried)}, mended / max(1, wrong)


def with_values(rows, values_of):
    """Rows with `segment_ends` and `values` for `--estimator given`; a row that cannot be read has one segment and flat values."""
    found = []
    for row in rows:
        read = truth.lines_of(row["completion_ids"])
        values = values_of(row, read[0]) if read else None
        ends, values = flat(row) if values is None else (read[1], values)
        found.append({**row, "segment_ends": ends, "values": values})
    return found


def exact_values(problems, odds, corrected):
    return lambda row, lines: truth.Exact(problems[row["group"]], odds, corrected).values(lines)


def known_mistakes(row, lines):
    """The value falls at each mistake that stays, by equal steps, and moves nowhere else: σ of `share` is on these lines."""
    wrong = set(truth.mistakes(lines))
    if row["reward"] or not wrong:
        return [0.5] * (len(lines) + 1)
    value, found = 1.0, [1.0]
    for index in range(len(lines)):
        value -= (index in wrong) / len(wrong)
        found.append(max(0.0, value))
    return found


def with_shuffled(rows, scored, seed):
    """The placebo: rows with a trace's own value differences, permuted among its thought segments."""
    placebo = shuffled_values(scored, seed)
    found = [placebo.get(row["id"], flat(row)) for row in rows]
    return [{**row, "segment_ends": ends, "values": values} for row, (ends, values) in zip(rows, found)]


def shuffled_inside(scored, seed):
    """Rows whose weights are permuted among the tokens of each segment: the credit of a segment stays, the place in it goes."""
    found = []
    for row in scored:
        rng = np.random.default_rng([seed, int(row["id"].split("/")[0][1:]), int(row["id"].split("/")[1])]) if row else None
        sigma, start = np.array(row["sigma"] if row else [], np.float32), 0
        for end in [segment["end"] for segment in row["segments"]] if row else []:
            rng.shuffle(sigma[start:end])
            start = end
        found.append(row and {**row, "sigma": sigma})
    return found


def flat(row):
    """One segment whose value is the reward from the start: nothing moves, σ is uniform, advantages of segments are 0."""
    return [len(row["completion_ids"])], [float(row["reward"])] * 2


def known_decisions(row, lines, weak="*"):
    """As `known_mistakes`, and on a right trace the value rises by equal steps at the operations that the policy is weak in."""
    if not row["reward"]:
        return known_mistakes(row, lines)
    decided = [bool(read) and read[4] == weak for read in map(truth.OPERATION.fullmatch, lines)]
    if not any(decided):
        return [0.5] * (len(lines) + 1)
    return [float(v) for v in np.cumsum([0, *decided]) / sum(decided)]


def shuffled_values(scored, seed):
    """Segment ends and permuted values of each scored row, by id."""
    found = {}
    for row in filter(None, scored):
        thought = [s for s in row["segments"] if s["kind"] == "thought"]
        deltas = [s["delta"] for s in thought]
        random.Random(f"{seed}/{row['id']}").shuffle(deltas)
        start = thought[0]["value"] - thought[0]["delta"] if thought else 0.5
        values = np.cumsum([start, *deltas])
        low, high = values.min(), values.max()
        if low < 0 or high > 1:  # such values are rejected; `share` asks for the differences' proportions alone
            values = 0.5 + 0.98 * (values - (low + high) / 2) / (high - low)
        found[row["id"]] = [s["end"] for s in thought], [float(v) for v in values]
    return found


def sampled_values(model, rows, cuts, seed, samples):
    """Rows with values at the beginning of the thought and at each of its cuts: the mean reward of so many completions from there."""
    starts = [[2 if row["completion_ids"][0] == task.THINK else 0, *cut] if cut else [] for row, cut in zip(rows, cuts)]
    states = [row["prompt_ids"] + row["completion_ids"][:start] for row, own in zip(rows, starts) for start in own]
    ended, found = iter(sampled(model, states, torch.Generator().manual_seed(seed), samples)), []
    for row, own in zip(rows, starts):
        texts = [[task.decode(next(ended)[len(row["prompt_ids"]):]) for _ in range(samples)] for _ in own]
        values = [float(np.mean([task.final_answer(text) == row["answer"] for text in each])) for each in texts]
        ends, values = (own[1:], values) if own else flat(row)
        found.append({**row, "segment_ends": ends, "values": values})
    return found


def behind_unsure(rows, scored):
    """Of each row the ends of its lines, those of its unsure ones, and how many of these there are up to each line. What was sure cannot have changed the value."""
    found = []
    for row, own in zip(rows, scored):
        lines, ends = own and truth.lines_of(row["completion_ids"]) or ([], [])
        unsure = [np.exp(np.sum(own["logprobs"][start:end])) < 1 - UNSURE for start, end in zip([2, *ends], ends)]
        found.append((ends, [end for end, is_unsure in zip(ends, unsure) if is_unsure], [int(n) for n in np.cumsum(unsure)]))
    return found


def carried(rows, places):
    """Rows with a value behind each line: the one that was sampled last. One without any stays as it is."""
    return [{**row, "segment_ends": ends, "values": [row["values"][0], *(row["values"][n] for n in at)]} if cut else row
            for row, (ends, cut, at) in zip(rows, places)]


def monte_carlo_unsure(tool, model, rows, seed, samples=8):
    """Rows with values of so many completions behind unsure lines alone."""
    places = behind_unsure(rows, tool.score(rows, ["--estimator", "surprise"], ("logprobs",)))
    return carried(sampled_values(model, rows, [cut for _, cut, _ in places], seed, samples), places)
