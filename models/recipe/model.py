"""The model: a small Llama (RMSNorm, RoPE, grouped-query attention, SwiGLU, tied embeddings) with a free attention mask and a key/value cache."""
import math
import torch
from torch import nn
import torch.nn.functional as F

CONFIG = {
    "vocab_size": 259, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 5,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
}


class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


def rotate(x, cos, sin):
    """RoPE, half-split: x [B,T,H,D], cos and sin [B,T,1,D/2]."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.groups, self.size = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        self.q_proj = nn.Linear(c["hidden_size"], self.heads * self.size, bias=False)
        self.k_proj = nn.Linear(c["hidden_size"], self.groups * self.size, bias=False)
        self.v_proj = nn.Linear(c["hidden_size"], self.groups * self.size, bias=False)
        self.o_proj = nn.Linear(self.heads * self.size, c["hidden_size"], bias=False)

    def forward(self, x, cos, sin, bias, cache=None, rows=None, positions=None):
        B, T, _ = x.shape
        G, D, shared = self.groups, self.size, self.heads // self.groups
        q = rotate(self.q_proj(x).view(B, T, self.heads, D), cos, sin)
        k = rotate(self.k_proj(x).view(B, T, G, D), cos, sin)
        v = self.v_proj(x).view(B, T, G, D)
        if cache is None:
            k, v = k.transpose(1, 2), v.transpose(1, 2)  # [B,G,T,D]
        else:  # cache k and v [B,G,S,D]; each token is stored under its position
            cache[0][rows, :, positions], cache[1][rows, :, positions] = k, v
            k, v = cache[0][:, :, :bias.shape[-1]], cache[1][:, :, :bias.shape[-1]]
        S = k.shape[2]
        # query heads h = g*shared + i read key/value head g: fold i into the query axis
        q = q.view(B, T, G, shared, D).permute(0, 2, 3, 1, 4).reshape(B * G, shared * T, D)
        k = k.reshape(B * G, S, D).transpose(1, 2)
        v = v.reshape(B * G, S, D)
        scores = torch.bmm(q * (1 / math.sqrt(D)), k).view(B, G * shared, T, S)
        scores += bias[:, None]  # bias [B,T,S]: 0 where seen, a large negative number elsewhere
        mixed = torch.bmm(scores.softmax(-1).view(B * G, shared * T, S), v)
        mixed = mixed.view(B, G, shared, T, D).permute(0, 3, 1, 2, 4).reshape(B, T, self.heads * D)
        return self.o_proj(mixed)


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.up_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.down_proj = nn.Linear(c["intermediate_size"], c["hidden_size"], bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.self_attn = Attention(c)
        self.post_attention_layernorm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.mlp = MLP(c)

    def forward(self, x, *rest):
        x = x + self.self_attn(self.input_layernorm(x), *rest)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """Attribute names give the Hugging Face tensor names, less the leading `model.`."""

    def __init__(self, c=CONFIG):
        super().__init__()
        self.config = c
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["num_hidden_layers"]))
        self.norm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        nn.init.normal_(self.embed_tokens.weight, std=0.02)
        half = c["head_dim"] // 2
        self.frequencies = c["rope_theta"] ** (-torch.arange(half, dtype=torch.float32) / half)

    def forward(self, ids, positions, bias, cache=None):
        """Hidden states [B,T,C] after the last norm; ids and positions [B,T], bias [B,T,S]."""
        angle = positions[..., None].float() * self.frequencies
        cos, sin = angle.cos()[:, :, None], angle.sin()[:, :, None]
        rows = torch.arange(len(ids))[:, None]
        x = self.embed_tokens(ids)
        for i, layer in enumerate(self.layers):
            x = layer(x, cos, sin, bias, cache[i] if cache else None, rows, positions)
        return self.norm(x)

    def logits(self, hidden):
        return hidden @ self.embed_tokens.weight.T


def seen(mask):
    """Additive bias of a boolean mask (True: may attend)."""
    return torch.zeros(mask.shape).masked_fill_(~mask, -1e9)


def new_cache(model, rows, length):
    c = model.config
    shape = (rows, c["num_key_value_heads"], length, c["head_dim"])
    return [[torch.zeros(shape), torch.zeros(shape)] for _ in model.layers]


@torch.no_grad()
def generate(model, prefixes, limit, end, generator=None, copies=1):
    """Continue each list of ids, `copies` times, up to `end` or `limit` tokens in all; greedy without a generator, else T = 1."""
    lengths = torch.tensor([len(p) for p in prefixes])
    width = int(lengths.max())
    ids = torch.tensor([p + [0] * (width - len(p)) for p in prefixes])
    positions = torch.arange(width).expand(len(prefixes), width)
    cache = new_cache(model, len(prefixes), limit)
    columns = torch.arange(limit)
    hidden = model(ids, positions, seen(columns[None, None, :width] <= positions[..., None]), cache)
    last = hidden[torch.arange(len(prefixes)), lengths - 1].repeat_interleave(copies, 0)
    # a prefix is read once, then copied
    cache = [[k.repeat_interleave(copies, 0), v.repeat_interleave(copies, 0)] for k, v in cache]
    lengths = lengths.repeat_interleave(copies)
    out = [list(p) for p in prefixes for _ in range(copies)]
    alive, running = torch.arange(len(out)), torch.ones(len(out), dtype=torch.bool)
    while True:
        logits = model.logits(last)
        if generator is None:
            token = logits.argmax(-1)
        else:
            token = torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]
        for row, t, on in zip(alive.tolist(), token.tolist(), running.tolist()):
            if on:
                out[row].append(t)
        running &= (token != end) & (lengths + 1 < limit)
        if running.sum() <= 0.8 * len(alive):  # finished rows leave the batch, many at a time since it copies the cache
            cache = [[k[running], v[running]] for k, v in cache]
            alive, token, lengths, running = alive[running], token[running], lengths[running], running[running]
        if not len(alive):
            break
        width = int(lengths.max()) + 1
        bias = seen(columns[None, None, :width] <= lengths[:, None, None])
        last = model(token[:, None], lengths[:, None], bias, cache)[:, 0]
        lengths = (lengths + 1).clamp(max=limit - 1)  # a finished row may wait at the end of the cache
    return out
