"""Batched decoding with a preallocated key/value cache, as well as PyTorch does it on a CPU (bench/decode.mjs runs it).

Usage: decode.py CHECKPOINT JOB THREADS; JOB is a JSON file {prompts: [[id]], samples, tokens}. For every line on stdin it samples once, at
temperature 1, and prints JSON {seconds, cpu, tokens}; for the line `check` it prints the greedy continuation of the first prompt.
"""
import json
import struct
import sys
import time

import torch
import torch.nn.functional as F

folder, job_path, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.set_num_threads(threads)
torch.set_grad_enabled(False)
config = json.load(open(f"{folder}/config.json"))
raw = open(f"{folder}/model.safetensors", "rb").read()
(size,) = struct.unpack("<Q", raw[:8])
data = memoryview(bytearray(raw[8 + size :]))
W = {
    name: torch.frombuffer(data[t["data_offsets"][0] : t["data_offsets"][1]], dtype=torch.float32).reshape(t["shape"]).clone()
    for name, t in json.loads(raw[8 : 8 + size]).items()
    if name != "__metadata__"
}
L, d = config["num_hidden_layers"], config["hidden_size"]
H, KV = config["num_attention_heads"], config["num_key_value_heads"]
hd = config.get("head_dim") or d // H
G, eps = H // KV, config["rms_norm_eps"]
job = json.load(open(job_path))
prompts, samples, new = torch.tensor(job["prompts"]), job["samples"], job["tokens"]  # prompts of one length: no padding
P, T = prompts.shape
N, longest = P * samples, T + new

# one product for q, k and v, one for gate and up
layers = []
for i in range(L):
    at = f"model.layers.{i}."
    layers.append(
        (
            W[at + "input_layernorm.weight"],
            torch.cat([W[f"{at}self_attn.{x}_proj.weight"] for x in "qkv"]),
            W[at + "self_attn.o_proj.weight"],
            W[at + "post_attention_layernorm.weight"],
            torch.cat([W[f"{at}mlp.{x}_proj.weight"] for x in ("gate", "up")]),
            W[at + "mlp.down_proj.weight"],
        )
    )
embedding, last_norm = W["model.embed_tokens.weight"], W["model.norm.weight"]
head = embedding if config.get("tie_word_embeddings") else W["lm_head.weight"]
angles = torch.outer(torch.arange(longest, dtype=torch.float64), config["rope_theta"] ** (-torch.arange(0, hd, 2, dtype=torch.float64) / hd))
cos, sin = angles.cos().float(), angles.sin().float()


def norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def rotate(x, cos, sin):
    low, high = x.chunk(2, -1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)


def prefill(ids):
    """ids (P,T) -> x of the last token (P,d), keys and values (L,P,KV,T,hd)"""
    x = embedding[ids]
    mask = torch.full((T, T), float("-inf")).triu(1)
    keys, values = [], []
    for in_norm, qkv, o, out_norm, gate_up, down in layers:
        q, k, v = F.linear(norm(x, in_norm), qkv).split((H * hd, KV * hd, KV * hd), -1)
        q = rotate(q.view(P, T, H, hd).transpose(1, 2), cos[:T], sin[:T])
        k = rotate(k.view(P, T, KV, hd).transpose(1, 2), cos[:T], sin[:T])
        v = v.view(P, T, KV, hd).transpose(1, 2)
        keys.append(k)
        values.append(v)
        scores = q.view(P, KV, G, T, hd) @ k.unsqueeze(2).transpose(-1, -2) / hd**0.5 + mask
        y = (torch.softmax(scores, -1) @ v.unsqueeze(2)).view(P, H, T, hd).transpose(1, 2).reshape(P, T, H * hd)
        x = x + F.linear(y, o)
        gate, up = F.linear(norm(x, out_norm), gate_up).chunk(2, -1)
        x = x + F.linear(F.silu(gate) * up, down)
    return x[:, -1], keys, values


def sample(choose):
    x, keys, values = prefill(prompts)
    cache_k = [torch.empty(N, KV, longest, hd) for _ in range(L)]
    cache_v = [torch.empty(N, KV, longest, hd) for _ in range(L)]
    for i in range(L):
        cache_k[i][:, :, :T] = keys[i].repeat_interleave(samples, 0)
        cache_v[i][:, :, :T] = values[i].repeat_interleave(samples, 0)
    out = torch.empty(N, new, dtype=torch.long)
    x = x.repeat_interleave(samples, 0)
    for t in range(T, longest):
        ids = choose(F.linear(norm(x, last_norm), head))
        out[:, t - T] = ids
        if t == longest - 1:
            return out
        x = embedding[ids]
        c, s = cos[t], sin[t]
        for i, (in_norm, qkv, o, out_norm, gate_up, down) in enumerate(layers):
            q, k, v = F.linear(norm(x, in_norm), qkv).split((H * hd, KV * hd, KV * hd), -1)
            cache_k[i][:, :, t] = rotate(k.view(N, KV, hd), c, s)
            cache_v[i][:, :, t] = v.view(N, KV, hd)
            q = rotate(q.view(N, KV, G, hd), c, s)
            scores = q @ cache_k[i][:, :, : t + 1].transpose(-1, -2) / hd**0.5
            y = (torch.softmax(scores, -1) @ cache_v[i][:, :, : t + 1]).view(N, H * hd)
            x = x + F.linear(y, o)
            gate, up = F.linear(norm(x, out_norm), gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, down)


for line in sys.stdin:
    if line.strip() == "check":
        print(json.dumps(sample(lambda logits: logits.argmax(-1))[0].tolist()), flush=True)
        continue
    start, spent = time.perf_counter(), time.process_time()
    done = sample(lambda logits: torch.multinomial(torch.softmax(logits, -1), 1)[:, 0])
    print(json.dumps({"seconds": time.perf_counter() - start, "cpu": time.process_time() - spent, "tokens": done.numel()}), flush=True)
