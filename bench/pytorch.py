"""The same job over PyTorch, in two ways (bench/pytorch.mjs runs it). `prefixes`: a throwaway script, every prefix encoded again,
logits of every row. `tree`: good code, trace and branches in one masked pass, logits of the rows that are asked for, in blocks.
`fused`: the same with PyTorch's own attention, which holds no square of scores and leaves out what lies above the diagonal.

Usage: pytorch.py prefixes|tree|fused CHECKPOINT JOB THREADS ROUNDS [DEVICE]; JOB is a JSON file {ids, promptLength, branches: [{exit, ids, scoredFrom}]}.
Prints JSON {seconds, processor: seconds of all threads, peak: FLOP a second of a matrix product, on one thread of processor time,
logprobs: [summed log p of each branch], entropy: sum over the trace}; of the fastest round. On a DEVICE another round warms up.
"""
import json
import mmap
import struct
import sys
import time

import torch

way, folder, job_path = sys.argv[1:4]
threads, rounds = int(sys.argv[4]), int(sys.argv[5])
device = (sys.argv[6:] or [None])[0]
if device is not None:
    torch.set_default_device(device)
torch.set_num_threads(threads)
torch.set_grad_enabled(False)
config = json.load(open(f"{folder}/config.json"))


def read_safetensors(path):
    """name -> tensor of its own type, mapped from the file"""
    with open(path, "rb") as file:
        raw = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    (size,) = struct.unpack("<Q", raw[:8])
    header, data = json.loads(raw[8 : 8 + size]), memoryview(raw)[8 + size :]
    types = {"F32": torch.float32, "BF16": torch.bfloat16}

    def read(dtype, shape, data_offsets):
        flat = torch.frombuffer(data[data_offsets[0] : data_offsets[1]], dtype=types[dtype])
        return flat.reshape(shape).to(device or "cpu")

    return {name: read(**tensor) for name, tensor in header.items() if name != "__metadata__"}


W = read_safetensors(f"{folder}/model.safetensors")
HEAD = W.get("lm_head.weight", W["model.embed_tokens.weight"])
TYPE = HEAD.dtype
L, d = config["num_hidden_layers"], config["hidden_size"]
H, KV = config["num_attention_heads"], config["num_key_value_heads"]
hd = d // H


def norm(x, name):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config["rms_norm_eps"]) * W[name]


def rotate(x, cos, sin):  # x (heads, T, hd), halves turned against each other
    low, high = x.chunk(2, -1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)


def rotations(positions):
    angles = torch.outer(positions.double(), config["rope_theta"] ** (-torch.arange(0, hd, 2, dtype=torch.float64) / hd))
    return angles.cos().to(TYPE), angles.sin().to(TYPE)


def states_of(ids, positions, attend):
    """ids (N) -> normed last states (N, d); attend(q, k, v) has queries (KV, H/KV, N, hd) and keys (KV, 1, N, hd)"""
    N = len(ids)
    cos, sin = rotations(positions)
    x = W["model.embed_tokens.weight"][ids]
    for i in range(L):
        at = f"model.layers.{i}."
        h = norm(x, at + "input_layernorm.weight")

        def heads(name, n):
            y = h @ W[f"{at}self_attn.{name}.weight"].T
            bias = W.get(f"{at}self_attn.{name}.bias")
            return (y if bias is None else y + bias).view(N, n, hd).transpose(0, 1)

        q = rotate(heads("q_proj", H), cos, sin).view(KV, H // KV, N, hd)
        k = rotate(heads("k_proj", KV), cos, sin)[:, None]
        v = heads("v_proj", KV)[:, None]
        mixed = attend(q, k, v).reshape(H, N, hd).transpose(0, 1).reshape(N, H * hd)
        x = x + mixed @ W[at + "self_attn.o_proj.weight"].T
        h = norm(x, at + "post_attention_layernorm.weight")
        gate = torch.nn.functional.silu(h @ W[at + "mlp.gate_proj.weight"].T)
        x = x + (gate * (h @ W[at + "mlp.up_proj.weight"].T)) @ W[at + "mlp.down_proj.weight"].T
    return norm(x, "model.norm.weight")


def masked(q, k, v, mask):
    return torch.softmax(q @ k.transpose(2, 3) / hd**0.5 + mask, -1) @ v


def additive(allowed):
    return torch.zeros(allowed.shape).masked_fill(~allowed, float("-inf"))


def logits(states):
    return (states @ HEAD.T).float()


def prefixes(job):
    def logprobs_of(ids):
        mask = additive(torch.ones(len(ids), len(ids), dtype=torch.bool).tril())
        states = states_of(ids, torch.arange(len(ids)), lambda q, k, v: masked(q, k, v, mask))
        return torch.log_softmax(logits(states), -1)

    ids = torch.tensor(job["ids"])
    logp = logprobs_of(ids)[job["promptLength"] - 1 : -1]
    entropy = -(logp.exp() * logp).sum().item()
    sums = []
    for branch in job["branches"]:
        whole = torch.cat((ids[: branch["exit"]], torch.tensor(branch["ids"])))
        rows = logprobs_of(whole)[-len(branch["ids"]) + branch["scoredFrom"] - 1 : -1]
        sums.append(rows.gather(1, whole[-len(rows) :, None]).sum().item())
    return sums, entropy


BLOCK = 256 if device in (None, "cpu") else 1024


def fused(q, k, v, **masking):
    attend = torch.nn.functional.scaled_dot_product_attention
    return attend(q, k.expand(*q.shape[:2], *k.shape[2:]), v.expand(*q.shape[:2], *v.shape[2:]), **masking)


def tree(job, is_fused=False):
    """The trace's rows see the trace; a branch's rows see the trace up to its exit, and themselves."""
    prefix = torch.tensor(job["ids"])
    T, branches = len(prefix), job["branches"]
    lengths = torch.tensor([len(branch["ids"]) for branch in branches])
    exits = torch.tensor([branch["exit"] for branch in branches])
    ids = torch.cat((prefix, *(torch.tensor(branch["ids"]) for branch in branches)))
    offsets = torch.cat([torch.arange(n) for n in lengths.tolist()])
    owner = torch.arange(len(branches)).repeat_interleave(lengths)
    positions = torch.cat((torch.arange(T), exits[owner] + offsets))
    own = (owner[:, None] == owner) & (offsets[:, None] >= offsets)
    allowed = torch.cat((torch.arange(T) < exits[owner][:, None], own), 1)
    if not is_fused:
        causal, across = additive(torch.ones(T, T, dtype=torch.bool).tril()), additive(allowed)

    def attend(q, k, v):
        upper = q[:, :, :T], k[:, :, :T], v[:, :, :T]
        if is_fused:
            return torch.cat((fused(*upper, is_causal=True), fused(q[:, :, T:], k, v, attn_mask=allowed)), 2)
        return torch.cat((masked(*upper, causal), masked(q[:, :, T:], k, v, across)), 2)

    states = states_of(ids, positions, attend)
    starts = T + torch.cumsum(lengths, 0) - lengths
    entropy, sums = 0.0, []
    for rows in states[job["promptLength"] - 1 : T - 1].split(BLOCK):
        logp = torch.log_softmax(logits(rows), -1)
        entropy = entropy - (logp.exp() * logp).sum()
    wanted = [torch.arange(b["scoredFrom"] - 1, n - 1) + s for b, n, s in zip(branches, lengths.tolist(), starts.tolist())]
    rows = torch.cat(wanted)
    logp = torch.cat([torch.log_softmax(logits(part), -1).gather(1, following[:, None]) for part, following in zip(states[rows].split(BLOCK), ids[rows + 1].split(BLOCK))])
    return [part.sum() for part in logp.split([len(w) for w in wanted])], entropy


def peak():
    """FLOP a second of processor time in the product of two matrices, the best of five"""
    n, least = 2048, float("inf")
    a, b = torch.rand(n, n), torch.rand(n, n)
    for _ in range(5):
        start = time.process_time()
        a @ b
        least = min(least, time.process_time() - start)
    return 2 * n**3 / least


job = json.load(open(job_path))
best = None
for turn in range(rounds + (device is not None)):
    start, busy = time.perf_counter(), time.process_time()
    sums, entropy = prefixes(job) if way == "prefixes" else tree(job, way == "fused")
    sums, entropy = torch.as_tensor(sums).tolist(), float(entropy)  # waits for the device
    found = {"seconds": time.perf_counter() - start, "processor": time.process_time() - busy, "logprobs": sums, "entropy": entropy}
    judged = "processor" if device is None else "seconds"
    if turn >= (device is not None) and (best is None or found[judged] < best[judged]):
        best = found
print(json.dumps({**best, "peak": peak() if device is None else None}))
