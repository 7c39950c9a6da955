"""A Llama checkpoint in plain PyTorch (1.13 or newer): read, run, written back. No other library, for small models on a CPU."""
import json
import math
import os
import shutil
import struct

import torch
import torch.nn.functional as F

DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def read_safetensors(path):
    """Tensors of a safetensors file by name, as float32: 8 bytes of length, a JSON header, then the values."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        values = bytearray(file.read())
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in DTYPES:
            raise ValueError(f"{path}: {name} is {entry['dtype']}, expected one of {', '.join(DTYPES)}")
        start, end = entry["data_offsets"]
        flat = torch.frombuffer(values[start:end], dtype=DTYPES[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"]).float()
    return tensors


def write_safetensors(path, tensors):
    header, blobs, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name, tensor in tensors.items():
        blob = bytes(tensor.detach().float().contiguous().view(-1).view(torch.uint8).tolist())
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


class SmallLlama:
    """`weights` by their Hugging Face names, each a leaf that an optimiser can train."""

    def __init__(self, folder):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            self.config = json.load(file)
        family = (self.config.get("architectures") or ["?"])[0]
        if family != "LlamaForCausalLM" or self.config.get("rope_scaling"):
            raise ValueError(f"{folder}: {family} with rope scaling {self.config.get('rope_scaling')}, expected a plain LlamaForCausalLM")
        self.folder = folder
        self.weights = read_safetensors(os.path.join(folder, "model.safetensors"))
        for tensor in self.weights.values():
            tensor.requires_grad_()

    def parameters(self):
        return list(self.weights.values())

    def save(self, folder):
        """The checkpoint with its new weights: `rredcot policy build` takes the folder."""
        os.makedirs(folder, exist_ok=True)
        write_safetensors(os.path.join(folder, "model.safetensors"), self.weights)
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "exit_template.json"):
            if os.path.exists(os.path.join(self.folder, name)):
                shutil.copy(os.path.join(self.folder, name), folder)

    def hidden(self, ids):
        """Hidden states (B, L, C) of ids (B, L), padded on the right: causal attention never sees the padding."""
        c = self.config
        heads, shared = c["num_attention_heads"], c["num_attention_heads"] // c["num_key_value_heads"]
        size = c.get("head_dim") or c["hidden_size"] // heads
        batch, length = ids.shape
        frequencies = c["rope_theta"] ** (-torch.arange(0, size, 2, dtype=torch.float32) / size)
        angles = torch.arange(length, dtype=torch.float32)[:, None] * frequencies  # (L, D/2)
        cos, sin = angles.cos(), angles.sin()
        unseen = torch.full((length, length), float("-inf")).triu(1)

        def norm(x, name):
            scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + c["rms_norm_eps"])
            return x * scale * self.weights[name + ".weight"]

        def split(x):  # (B, L, H·D) → (B, H, L, D)
            return x.view(batch, length, -1, size).transpose(1, 2)

        def rotate(x):
            a, b = x.chunk(2, -1)
            return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

        x = self.weights["model.embed_tokens.weight"][ids]
        for n in range(c["num_hidden_layers"]):
            layer = f"model.layers.{n}."

            def linear(y, name):
                return F.linear(y, self.weights[layer + name + ".weight"], self.weights.get(layer + name + ".bias"))

            y = norm(x, layer + "input_layernorm")
            q = rotate(split(linear(y, "self_attn.q_proj")))
            # query heads share key and value heads, neighbours first
            k = rotate(split(linear(y, "self_attn.k_proj"))).repeat_interleave(shared, 1)
            v = split(linear(y, "self_attn.v_proj")).repeat_interleave(shared, 1)
            attention = (q @ k.transpose(2, 3) / math.sqrt(size) + unseen).softmax(-1) @ v
            x = x + linear(attention.transpose(1, 2).reshape(batch, length, -1), "self_attn.o_proj")
            y = norm(x, layer + "post_attention_layernorm")
            x = x + linear(F.silu(linear(y, "mlp.gate_proj")) * linear(y, "mlp.up_proj"), "mlp.down_proj")
        return norm(x, "model.norm")

    def completion_logprobs(self, prompts, completions):
        """Log-probabilities (B, T) of completion tokens, and their mask (B, T); right-padded lists of ids come in."""
        rows = [list(p) + list(c) for p, c in zip(prompts, completions)]
        width, T = max(map(len, rows)), max(map(len, completions))
        ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
        mask = torch.tensor([[t < len(c) for t in range(T)] for c in completions])
        # completion token t is predicted one place before its own, P + t − 1
        places = torch.tensor([[min(len(p) + t - 1, width - 2) for t in range(T)] for p in prompts])
        hidden = self.hidden(ids)
        hidden = hidden.gather(1, places[..., None].expand(-1, -1, hidden.shape[-1]))
        head = self.weights.get("lm_head.weight", self.weights["model.embed_tokens.weight"])
        logprobs = F.linear(hidden, head).log_softmax(-1)
        targets = ids.gather(1, places + 1)
        return logprobs.gather(2, targets[..., None])[..., 0], mask
