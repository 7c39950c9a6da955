"""Chains as trunks with early exits as branches of the same sequence, told apart by a tree mask."""
import numpy as np
import torch
import torch.nn.functional as F
import task

TEMPLATE = task.encode(task.EXIT["close"] + task.EXIT["open"])
CLOSER = task.encode(task.EXIT["closer"])


def exit_points(prompt, lines):
    """Tokens before each exit: after `<think>\\n` (exit 0), then after every line."""
    return [int(n) for n in np.cumsum([len(prompt) + 2] + [len(task.encode(line)) for line in lines])]


def with_exits(prompt, completion, ends, answer, score_trunk=True):
    """A chain with the exit template (not scored), the answer and the closer behind some of its exits."""
    return with_branches(prompt, completion, [(end, TEMPLATE, task.encode(answer) + CLOSER) for end in ends], score_trunk)


def with_branches(prompt, completion, branches, score_trunk=True):
    """
    One flat sequence: ids, positions, owner (0 trunk, 1.. branches), limit (trunk tokens seen), targets (-1: not scored).
    A branch is (tokens of the trunk that it sees, its own that are not scored, those that are).
    """
    trunk = prompt + completion
    scored = [i if score_trunk else -1 for i in completion]
    ids, targets = trunk[:-1], [-1] * (len(prompt) - 1) + scored
    positions, owner, limit = list(range(len(ids))), [0] * len(ids), list(range(1, len(ids) + 1))
    for number, (end, given, scored) in enumerate(branches, 1):
        own = given + scored[:-1]  # the last token is a target only
        ids, targets = ids + own, targets + [-1] * (len(given) - 1) + scored
        positions += range(end, end + len(own))
        owner += [number] * len(own)
        limit += [end] * len(own)
    return ids, positions, owner, limit, targets


def collate(sequences):
    """Pad to tensors ids, positions, targets, owner [B,T] and bias [B,T,T]; padding sees itself alone."""
    width = max(len(s[0]) for s in sequences)
    def pad(column, value):
        return np.array([s[column] + [value] * (width - len(s[column])) for s in sequences])
    ids, positions, owner, limit, targets = pad(0, 0), pad(1, 0), pad(2, -1), pad(3, 0), pad(4, -1)
    index = np.arange(width)
    trunk = (owner[:, None, :] == 0) & (index[None, None, :] < limit[:, :, None])
    own = (owner[:, None, :] == owner[:, :, None]) & (index[None, None, :] <= index[None, :, None])
    bias = np.where(trunk | own, np.float32(0), np.float32(-1e9))
    return [torch.from_numpy(a) for a in (ids, positions, targets, owner, bias)]


def score(model, batch):
    """Log-probabilities of all targets, flat, and the owner of each."""
    ids, positions, targets, owner, bias = batch
    hidden = model(ids, positions, bias)
    chosen = targets >= 0
    return -F.cross_entropy(model.logits(hidden[chosen]), targets[chosen], reduction="none"), owner[chosen]


@torch.no_grad()
def values(model, chains, size=32):
    """v̂ at every exit of every chain; chains of (prompt text, lines, answer scored). One array a chain, exits 0..K."""
    out = []
    for start in range(0, len(chains), size):
        sequences, counts = [], []
        for prompt, lines, answer in chains[start:start + size]:
            ids, thought = task.encode(prompt), task.encode("<think>\n" + "".join(lines))
            ends = exit_points(ids, lines)
            # the trunk's last token is a target only: the end token stands in
            sequences.append(with_exits(ids, thought + [task.END], ends, answer, score_trunk=False))
            counts.append(len(ends))
        logp, _ = score(model, collate(sequences))
        # answer and closer are scored at each exit: equally many targets an exit
        for (_, _, answer), count in zip(chains[start:start + size], counts):
            width = len(task.encode(answer)) + len(CLOSER)
            out.append(logp[:count * width].view(count, width).sum(1).exp().numpy())
            logp = logp[count * width:]
    return out
