"""The same job as a script over PyTorch would do it: every prefix encoded again, logits of every row (bench/pytorch.mjs runs it).

Usage: pytorch.py CHECKPOINT JOB THREADS; JOB is a JSON file {ids, promptLength, branches: [{exit, ids, scoredFrom}]}.
Prints JSON {seconds, logprobs: [summed log p of each branch], entropy: sum over the trace}.
"""
import json
import struct
import sys
import time

import torch

folder, job_path, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.set_num_threads(threads)
torch.set_grad_enabled(False)
config = json.load(open(f"{folder}/config.json"))


def read_safetensors(path):
    """name -> float32 tensor, mapped from the file"""
    raw = open(path, "rb").read()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + size])
    data = memoryview(bytearray(raw[8 + size :]))
    return {
        name: torch.frombuffer(data[t["data_offsets"][0] : t["data_offsets"][1]], dtype=torch.float32).reshape(t["shape"])
        for name, t in header.items()
        if name != "__metadata__"
    }


W = read_safetensors(f"{folder}/model.safetensors")
L, d = config["num_hidden_layers"], config["hidden_size"]
H, KV = config["num_attention_heads"], config["num_key_value_heads"]
hd = d // H


def norm(x, name):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config["rms_norm_eps"]) * W[name]


def rotate(x, cos, sin):  # x (heads, T, hd), halves turned against each other
    low, high = x.chunk(2, -1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)


def logprobs_of(ids):
    """ids (T) -> log-softmax (T, V)"""
    T = len(ids)
    angles = torch.outer(torch.arange(T, dtype=torch.float64), config["rope_theta"] ** (-torch.arange(0, hd, 2, dtype=torch.float64) / hd))
    cos, sin = angles.cos().float(), angles.sin().float()
    mask = torch.full((T, T), float("-inf")).triu(1)
    x = W["model.embed_tokens.weight"][ids]
    for i in range(L):
        at = f"model.layers.{i}."
        h = norm(x, at + "input_layernorm.weight")
        heads = lambda name, n: (h @ W[f"{at}self_attn.{name}.weight"].T).view(T, n, hd).transpose(0, 1)
        q = rotate(heads("q_proj", H), cos, sin)
        k = rotate(heads("k_proj", KV), cos, sin).repeat_interleave(H // KV, 0)
        v = heads("v_proj", KV).repeat_interleave(H // KV, 0)
        scores = torch.softmax(q @ k.transpose(1, 2) / hd**0.5 + mask, -1)
        x = x + (scores @ v).transpose(0, 1).reshape(T, H * hd) @ W[at + "self_attn.o_proj.weight"].T
        h = norm(x, at + "post_attention_layernorm.weight")
        gate = torch.nn.functional.silu(h @ W[at + "mlp.gate_proj.weight"].T)
        x = x + (gate * (h @ W[at + "mlp.up_proj.weight"].T)) @ W[at + "mlp.down_proj.weight"].T
    return torch.log_softmax(norm(x, "model.norm.weight") @ W["model.embed_tokens.weight"].T, -1)


job = json.load(open(job_path))
start = time.perf_counter()
ids = torch.tensor(job["ids"])
logp = logprobs_of(ids)[job["promptLength"] - 1 : -1]
entropy = -(logp.exp() * logp).sum().item()
sums = []
for branch in job["branches"]:
    whole = torch.cat((ids[: branch["exit"]], torch.tensor(branch["ids"])))
    rows = logprobs_of(whole)[-len(branch["ids"]) + branch["scoredFrom"] - 1 : -1]
    sums.append(rows.gather(1, whole[-len(rows) :, None]).sum().item())
print(json.dumps({"seconds": time.perf_counter() - start, "logprobs": sums, "entropy": entropy}))
