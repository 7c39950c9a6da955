"""Does the gradient care? Policy gradients of a real language model at fixed parameters, by token weights, against plain GRPO's.

    python gradient.py sketch MODEL words-traces.parquet FOLDER "probe, entropy=inside.parquet" probe=scored.parquet --beside "entropy=entropy.parquet"
    python gradient.py table FOLDER

The gradient of a group of 8 is sum_i A_i sum_t w_it grad log pi(y_it), A_i = (r - mean) / (std + 1e-4), w = sigma T of the tool (mean 1 over a
trace), or 1: a loss averaged over all tokens of a batch, as in DAPO and by default in TRL. Its parameters are the linear maps of the last two
layers (--layers), the prompt's part included. Of each map's gradient sum_t d_t a_t^T 64 blocks Q (sum_t d_t a_t^T) P^T are kept, each with random
P and Q of 8 rows: 32,768 numbers a group. --lora: of sum_t d_t (A a_t)^T, which is a LoRA's gradient as it begins (rank 8, its A normal,
its B 0; q, k and v share an A, so do gate and up), two blocks Q: 12,288 numbers of all 24 layers.

Each NAME=FILE is scored by rredcot with `share`; other even parts (--mix) follow, since sigma is linear in it. Arms beside them: plain; the first
file's weights shuffled among a trace's tokens; tokens of probability below .5 alone; the first third alone; --beside, as their files are. --pair:
files of credit of two traces of a question, right and wrong, whose gradient is that of these two alone. Groups that the files lack serve the mean
plain gradient, with which a block's is compared: that of all groups but the block's. Intervals: 2.5 to 97.5 percent of resamples of questions, the
same ones for all arms.

Named before any gradient of an arm was looked at: the probe with entropy inside (`--estimator probe --within entropy`, else by default: bridged,
--mix .1) against plain, by the mean cosine of blocks of 8 groups. Refuted where the interval of the difference holds 0 or lies below it. Named
before any gradient of a LoRA over all layers: the same of the probe as the tool has it by default (uniform inside, not bridged) against plain.
Then, before any other arm of a LoRA was looked at: that probe against `calibrated`, and against the first third of the tokens.
"""
import argparse
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
import torch.nn.functional as F

from engines import Torch

BLOCKS, SIDE, SEED = 64, 8, 1
UNSURE = 0.5   # a token of less probability
MIX = 0.1      # the even part in the files
BLOCK, PARTITIONS, RESAMPLES = 8, 40, 1000
SIZES = [1, 2, 4, 8, 16, 32, 64]  # of plain blocks, for what one group is worth


# ---- the gradient of one group


class Policy(Torch):
    """A policy whose last layers tape what goes into each linear map (rows, in), and what comes out (rows, out)."""

    def __init__(self, model, layers=2, dtype=torch.bfloat16):
        super().__init__(model, device="cpu")
        self.layers = [tuple(weight.to(dtype) for weight in layer) for layer in self.layers]
        self.embed, self.norm, self.dtype = self.embed.to(dtype), self.norm.to(dtype), dtype
        self.frozen, self.prefix = len(self.layers) - layers, ([], None, [])

    def linear(self, x, weight, bias=None):
        out = F.linear(x, weight, bias)
        if out.requires_grad:
            self.tape.append((x.detach(), out))
        return out

    def layer(self, n, x, places, ends, past=None, keep=None):
        """Of rows x: the prompt's up to ends[0], behind `past` (keys, values), then each trace's up to ends[1], ends[2], …, which see the prompt and their own."""
        before, qkv, bias, o, behind, up, down = self.layers[n]
        q, k, v = self.linear(self.rms(x, before), qkv, bias).split([self.heads * self.size, self.kv * self.size, self.kv * self.size], -1)
        rows = lambda y: y.view(len(x), -1, self.size)
        q, k, v = self.turn(rows(q), places), self.turn(rows(k), places), rows(v)
        if keep is not None:
            keep.append((k, v))
        many = lambda y: y.repeat_interleave(self.heads // self.kv, 1).transpose(0, 1)[None]
        shared = [torch.cat([a, b[: ends[0]]]) for a, b in zip(past or (k[:0], v[:0]), (k, v))]
        attended, skip = [], ends[0] if n + 1 == len(self.layers) else 0  # nobody reads the prompt's rows behind the last layer
        for start, end in zip([0, *ends], ends):
            if start >= skip and end > start:
                own = shared if start == 0 else [torch.cat([a, b[start:end]]) for a, b in zip(shared, (k, v))]
                sees = torch.ones(end - start, len(own[0]), dtype=torch.bool).tril(len(own[0]) - (end - start))
                out = F.scaled_dot_product_attention(q[start:end].transpose(0, 1)[None], *map(many, own), attn_mask=sees)
                attended.append(out[0].transpose(0, 1).reshape(end - start, -1))
        x = x[skip:] + self.linear(torch.cat(attended), o)
        gate, up = self.linear(self.rms(x, behind), up).chunk(2, -1)
        return x + self.linear(F.silu(gate) * up, down)

    @torch.no_grad()
    def remember(self, ids):
        """What all prompts begin with is read once."""
        x, past, places = F.embedding(torch.tensor(ids), self.embed), [], torch.arange(len(ids))
        for n in range(self.frozen):
            x = self.layer(n, x, places, [len(ids)], keep=past)
        self.prefix = ids, x, past

    def read(self, prompt, completions):
        """
        The last hidden states before each token of the completions, normed (rows, width), behind what the last layers taped; of these tokens the
        derivative of log p by that state (rows, width), and log p. The prompt's last token is each trace's first row.
        """
        known, x_known, past = self.prefix
        assert prompt[: len(known)] == known, "the prompt begins otherwise"
        at, n = len(known), len(prompt) - 1
        ids = [*prompt[at:-1], *(id for tokens in completions for id in [prompt[-1], *tokens[:-1]])]
        places = torch.cat([torch.arange(at, n), *(torch.arange(n, n + len(tokens)) for tokens in completions)])
        ends = np.cumsum([n - at, *map(len, completions)])
        with torch.no_grad():
            x = F.embedding(torch.tensor(ids), self.embed)
            for layer in range(self.frozen):
                x = self.layer(layer, x, places, ends.tolist(), past[layer] if past else None)
        if known:
            x, places, ends = torch.cat([x_known, x]), torch.cat([torch.arange(at), places]), ends + at
        x, self.tape = x.requires_grad_(), []
        for layer in range(self.frozen, len(self.layers)):
            x = self.layer(layer, x, places, ends.tolist())
        states, pulls, logprobs = self.rms(x, self.norm), [], []
        said = torch.tensor([id for tokens in completions for id in tokens])
        for rows, tokens in zip(states.detach().split(128), said[:, None].split(128)):
            logp = F.linear(rows, self.embed).float().log_softmax(-1)
            own = logp.gather(1, tokens)
            pulls.append((-logp.exp()).scatter_(1, tokens, -own.expm1()).to(self.dtype) @ self.embed)  # 1 - p before it is rounded
            logprobs.append(own[:, 0])
        return states, torch.cat(pulls), torch.cat(logprobs)


def gradients(policy, states, pulls, weights, kind="full"):
    """Of each row of weights (arms, rows) the gradient of sum_t w_t log p_t by all taped maps: sketched, of a LoRA, or whole."""
    maps, draw = [out for _, out in policy.tape], torch.Generator().manual_seed(SEED)
    normal = lambda width, blocks=BLOCKS: torch.randn(width, blocks * SIDE, generator=draw).div(blocks**0.25 * SIDE**0.5).to(policy.dtype)
    drawn = {"whole": lambda *_: (None, None), "full": lambda a, b: (normal(a), normal(b)), "lora": lambda a, b: (normal(a, 1) / a**0.5, normal(b, 2))}
    sides = [drawn[kind](a.shape[1], out.shape[1]) for a, out in policy.tape]
    cut = lambda x, by: (x[None] if by is None else (x @ by).view(len(x), -1, SIDE).transpose(0, 1)).float()  # (blocks, rows, side)
    taken, found = [cut(a, by) for (a, _), (by, _) in zip(policy.tape, sides)], []
    for row in weights:
        deltas = torch.autograd.grad(states, maps, (pulls.float() * row[:, None]).to(policy.dtype), retain_graph=True)
        found.append(torch.cat([(cut(delta, by).mT @ a).flatten() for delta, a, (_, by) in zip(deltas, taken, sides)]))
    return torch.stack(found)


# ---- arms


def advantages(rewards):
    rewards = np.array(rewards, float)
    return (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-4)


def weights_of(ids, p, credit, beside, pairs, draw):
    """Token weights of a group's traces by arm: arrays (T_i), 0 in traces that an arm leaves out. p: probabilities of the tokens, an array a trace."""
    sized = lambda sigma: np.array(sigma, float) * (len(sigma) / np.sum(sigma))
    only = lambda mask: sized(mask if mask.any() else np.ones(len(mask)))
    arms = {"plain": [np.ones(len(each)) for each in p]}
    if all(id in file for file in credit.values() for id in ids):
        arms.update({name: [sized(file[id]) for id in ids] for name, file in [*credit.items(), *beside.items()]})
        arms["shuffled"] = [draw.permutation(weights) for weights in arms[next(iter(credit), "plain")]]
        arms["unlikely tokens"] = [only(each < UNSURE) for each in p]
        arms["first third"] = [only(np.arange(len(each)) < len(each) / 3) for each in p]
    there = [all(id in pair for pair in pairs.values()) for id in ids]
    if pairs and sum(there) == 2:
        arms["pair: plain"] = [weights * is_there for weights, is_there in zip(arms["plain"], there)]
        for name, pair in pairs.items():
            arms[f"pair: {name}"] = [sized(pair[id]) if is_there else 0 * each for id, each, is_there in zip(ids, p, there)]
    return arms


def sketch(asked):
    folder, groups, draw = Path(asked.folder), {}, np.random.default_rng(SEED)
    folder.mkdir(parents=True, exist_ok=True)
    read = lambda path: {row["id"]: row["sigma"] for row in pq.read_table(path, columns=["id", "sigma"]).to_pylist()}
    files = [{name: read(path) for name, path in (each.split("=") for each in given)} for given in (asked.credit, asked.beside, asked.pair)]
    for row in pq.read_table(asked.traces).to_pylist():
        groups.setdefault(row["group"], []).append(row)
    order = [g for g in draw.permutation(list(groups)) if len({row["reward"] for row in groups[g]}) > 1]
    order.sort(key=lambda g: any(row["id"] not in file for file in files[0].values() for row in groups[g]))  # scored ones first
    policy, prompts = Policy(asked.model, asked.layers, torch.float32 if asked.float32 else torch.bfloat16), [groups[g][0]["prompt_token_ids"] for g in order]
    policy.remember(prompts[0][: next(n for n, ids in enumerate(zip(*prompts)) if len(set(ids)) > 1)])
    started, made = time.time(), 0
    for n, group in enumerate(order[: asked.groups]):
        path, rows = folder / f"{group}.npz", groups[group]
        if path.exists():
            continue
        completions = [row["completion_token_ids"] for row in rows]
        states, pulls, logprobs = policy.read(rows[0]["prompt_token_ids"], completions)
        p = np.split(logprobs.exp().numpy(), np.cumsum([*map(len, completions)])[:-1])
        arms = weights_of([row["id"] for row in rows], p, *files, np.random.default_rng([SEED, n]))
        arms = {name: arm for name, arm in arms.items() if name in (asked.only or arms)}
        scale = advantages([row["reward"] for row in rows])
        table = np.array([np.concatenate([a * w for a, w in zip(scale, arm)]) for arm in arms.values()], np.float32)
        with open(path.with_suffix(".tmp"), "wb") as file:
            np.savez(file, arms=list(arms), gradients=gradients(policy, states, pulls, torch.from_numpy(table), "lora" if asked.lora else "full").numpy())
        path.with_suffix(".tmp").rename(path)
        made += 1
        print(f"{n + 1} of {len(order)} groups, {len(arms)} arms · {(time.time() - started) / made:.1f} s each", file=sys.stderr, flush=True)


# ---- figures


def drawn_blocks(counts, size, draw):
    """(blocks, size) numbers of groups, each as often as counted, none twice in a block."""
    line = np.concatenate([draw.permutation(np.flatnonzero(counts > n)) for n in range(counts.max())])
    return np.array([block for block in line[: len(line) // size * size].reshape(-1, size) if len(set(block)) == size])


class Family:
    """Products of arms over the same groups: cross (groups, all) with the plain gradients of all groups, own (groups, groups) among each arm's."""

    def __init__(self, found, arms):
        """found: {group: {arm: gradient}}; arms: {name: {arm: factor}}, sums of those found."""
        every = list(found)
        self.names = [g for g in every if all(name in found[g] for arm in arms.values() for name in arm)]
        self.places = np.array([every.index(g) for g in self.names])
        reference = np.stack([found[g]["plain"] for g in every])
        self.reference, self.cross, self.own = reference @ reference.T, {}, {}
        for name, arm in arms.items():
            own = np.stack([sum(x * found[g][each] for each, x in arm.items()) for g in self.names])
            self.cross[name], self.own[name] = own @ reference.T, own @ own.T
        self.noise = np.linalg.norm(reference.mean(0)) / self.length(np.ones(len(every)))

    def mean(self, m, x, y, places):
        """Of the products m of groups drawn x and y times, of different ones alone; places: what the groups of x are among those of y."""
        x, there = x.astype(float), y[places]
        return (x @ m @ y - (x * there) @ m[np.arange(len(x)), places]) / (x.sum() * y.sum() - x @ there)

    def length(self, counts):
        """Of the mean plain gradient, without its noise."""
        return np.sqrt(max(self.mean(self.reference, counts, counts, np.arange(len(counts))), 1e-30))

    def cosines(self, counts, size, names, draw, partitions):
        """
        Of arms the mean cosine of blocks of so many groups with the mean plain gradient of all others; counts (all): how often each group is there.
        A resample has fewer different groups, whose mean has more noise: its length is that without noise, times what noise adds to it with all groups.
        """
        blocks = np.concatenate([drawn_blocks(counts[self.places], size, draw) for _ in range(partitions)])
        left = np.repeat(counts[None].astype(np.float32), len(blocks), 0)
        left[np.arange(len(blocks))[:, None], self.places[blocks]] = 0
        left /= left.sum(1, keepdims=True) * self.length(counts) * self.noise
        pairs = blocks[:, :, None], blocks[:, None, :]
        return np.array([np.mean((self.cross[name][blocks].sum(1) * left).sum(1) / np.sqrt(self.own[name][pairs].sum((1, 2)))) for name in names])

    def limit(self, counts, name):
        """Without noise the cosine of an arm's mean with the plain mean; the cosine of its means over two halves of its groups; the size of one group's."""
        own, c = self.own[name], counts[self.places]
        inside, spread = self.mean(own, c, c, np.arange(len(c))), np.diagonal(own) @ c / c.sum()
        along = self.mean(self.cross[name], c, counts, self.places) / self.length(counts)
        return along / np.sqrt(inside) if inside > 0 else np.nan, inside / (inside + 2 * (spread - inside) / c.sum()), np.sqrt(spread)


def worth(sizes, cosines, at, top):
    """How many plain groups have a cosine of `at`: by c(n) = top sqrt(n / (n + k)), k fitted to plain blocks of these sizes."""
    k = np.geomspace(1, 1e5, 1000)
    best = k[np.argmin(((top * np.sqrt(sizes / (sizes + k[:, None])) - cosines) ** 2).sum(1))]
    return np.where(at < top, best / np.maximum((top / np.maximum(at, 1e-9)) ** 2 - 1, 1e-9), np.inf)


def figures(found, mark, fixed, against="plain"):
    """The table of the arms whose names begin with the mark, over the groups that have them all."""
    plain, draw, once = f"{mark}plain", np.random.default_rng(SEED), np.ones(len(found), int)
    told = sorted({name for arms in found.values() for name in arms if name.startswith("pair: ") == bool(mark)})
    even = lambda name, x: {name: (1 - x) / (1 - MIX), plain: x - MIX * (1 - x) / (1 - MIX)}
    arms = {name: {name: 1} for name in told}
    arms.update({f"{name}, even {x}": even(name, x) for name in told for x in (0, 0.5, 0.8) if name not in (plain, *fixed)})
    family, names = Family(found, arms), list(arms)
    at, other = names.index(plain), names.index(f"{mark}{against}")
    sizes = np.array([size for size in SIZES if size <= len(family.names) / 4])
    curve = lambda counts, many: np.array([family.cosines(counts, size, [plain], draw, many)[0] for size in sizes])
    cosine, line = family.cosines(once, BLOCK, names, draw, PARTITIONS), curve(once, PARTITIONS)
    value, limit, drawn = worth(sizes, line, cosine, 1 / family.noise) / BLOCK, np.array([family.limit(once, name) for name in names]), []
    for _ in range(RESAMPLES):
        counts = np.bincount(draw.integers(0, len(found), len(found)), minlength=len(found))
        each = family.cosines(counts, BLOCK, names, draw, 3)
        drawn.append([each - each[other], worth(sizes, curve(counts, 2), each, 1 / family.noise) / BLOCK, [family.limit(counts, name)[0] for name in names]])
    low, high = np.nanquantile(drawn, [0.025, 0.975], 0, method="nearest")
    print(f"\n{len(family.names)} groups of {len(found)}; plain blocks of {sizes.tolist()}: {', '.join(f'{x:.3f}' for x in line)}; of all groups {1 / family.noise:.2f}\n")
    print(f"| arm | cosine of 8 groups | less that of {against} | one group is worth | its own mean's | halves agree | size |\n|---|---|---|---|---|---|---|")
    for i in np.argsort(-cosine):
        between = lambda part, form: f"[{low[part, i]:{form}}, {high[part, i]:{form}}]"
        print(f"| {names[i]} | {cosine[i]:.3f} | {cosine[i] - cosine[other]:+.3f} {between(0, '+.3f')} | {value[i]:.2f} {between(1, '.2f')} "
              f"| {limit[i, 0]:.2f} {between(2, '.2f')} | {limit[i, 1]:.2f} | {limit[i, 2] / limit[at, 2]:.2f} |", flush=True)


def table(asked):
    files = {path.stem: np.load(path) for path in sorted(Path(asked.folder).glob("*.npz"))}
    found = {group: dict(zip(file["arms"].tolist(), file["gradients"])) for group, file in files.items()}
    for mark in ("", "pair: "):
        if any(f"{mark}plain" in arms for arms in found.values()):
            figures(found, mark, ["shuffled", "unlikely tokens", "first third", *asked.beside], asked.against if not mark else "plain")


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = flags.add_subparsers(required=True)
    of = commands.add_parser("sketch", help="the gradients of groups, a file each; goes on where it was ended")
    for name in ("model", "traces", "folder"):
        of.add_argument(name)
    of.add_argument("credit", nargs="*", metavar="NAME=FILE", help="the first is the one that was named beforehand")
    of.add_argument("--beside", nargs="*", default=[], metavar="NAME=FILE")
    of.add_argument("--pair", nargs="*", default=[], metavar="NAME=FILE")
    of.add_argument("--only", nargs="*", metavar="ARM")
    of.add_argument("--layers", type=int, default=2)
    of.add_argument("--lora", action="store_true")
    of.add_argument("--float32", action="store_true", help="for CPUs that emulate bfloat16")
    of.add_argument("--groups", type=int)
    of.set_defaults(run=sketch)
    of = commands.add_parser("table")
    of.add_argument("folder")
    of.add_argument("--beside", nargs="*", default=["entropy"], help="arms without an even part")
    of.add_argument("--against", default="plain", metavar="ARM")
    of.set_defaults(run=table)
    asked = flags.parse_args()
    asked.run(asked)


if __name__ == "__main__":
    main()
