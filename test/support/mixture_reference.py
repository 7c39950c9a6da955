"""Random mixtures of experts as transformers saves them, and what it says of traces and their branches in float64.

    python mixture_reference.py FOLDER SPEC   ->   SPEC's runs with ids, numbers, and how near two experts ever were

SPEC is JSON: {"class", "config", "dtype", "joined", "seed", "runs": [[tokens, exits], ...]}. A token whose last expert and first
other one are nearer than rounding may go to either in float32; such traces are drawn again, none of their tokens is left out.
"""
import json
import random
import sys

import torch
import transformers

folder, spec = sys.argv[1], json.loads(sys.argv[2])
torch.manual_seed(spec["seed"])
SIZES = {"vocab_size": 259, "hidden_size": 64, "intermediate_size": 80, "num_attention_heads": 4, "num_key_value_heads": 2}
config = getattr(transformers, spec["class"] + "Config")(max_position_embeddings=4096, **{**SIZES, **spec["config"]})
model = transformers.AutoModelForCausalLM.from_config(config, experts_implementation="eager").float()
with torch.no_grad():
    for name, weight in model.named_parameters():
        random_weight = torch.randn_like(weight)
        bias = 0.5 * random_weight if weight.dim() == 1 else 1.4 / weight.shape[-1] ** 0.5 * random_weight
        weight.copy_(1 + 0.3 * random_weight if "norm" in name else bias)
model = model.to(getattr(torch, spec["dtype"]))
model.save_pretrained(folder, save_original_format=not spec["joined"])
model = model.double().eval()

# transformers makes its tables in float32, whose angles are off by 1e-4 at token 3,000
width = model.model.layers[0].self_attn.head_dim
speeds = config.rope_parameters["rope_theta"] ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


def exact_rotary(_, position_ids):
    angles = (position_ids[..., None].double() * speeds).repeat(1, 1, 2)
    return angles.cos(), angles.sin()


model.model.rotary_emb.forward = exact_rotary

NEAR = 1e-5
nearest = []
for name, module in model.named_modules():
    if type(module).__name__.endswith("TopKRouter") and module.top_k < module.num_experts:
        def note(module, _, out):
            ranked = out[0].sort(dim=-1, descending=True).values
            nearest.append((ranked[:, module.top_k - 1] - ranked[:, module.top_k]).min().item())
        module.register_forward_hook(note)


@torch.no_grad()
def said(ids):
    """Log-probabilities and entropies of ids[1:]."""
    logp = torch.log_softmax(model(torch.tensor([ids])).logits[0, :-1], -1)
    of_ids = logp.gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
    return of_ids.tolist(), (-(logp.exp() * logp).sum(-1)).tolist()


def drawn(tokens, exits, draw):
    """A trace, its numbers, and those of a branch at each exit, or None where a tie is near."""
    nearest.clear()
    ids = [draw.randrange(config.vocab_size) for _ in range(tokens)]
    logprobs, entropies = said(ids)
    branches = []
    for n in range(exits):
        exit = max(1, round(tokens * (n + 1) / exits))
        own = [draw.randrange(config.vocab_size) for _ in range(2 + n % 5)]
        branches.append({"exit": exit, "ids": own, "logprobs": said(ids[:exit] + own)[0][exit:]})
        if min(nearest, default=1) < NEAR:
            return None
    return {"ids": ids, "logprobs": logprobs, "entropies": entropies, "branches": branches, "nearest": min(nearest, default=1)}


draw, runs = random.Random(spec["seed"]), []
for tokens, exits in spec["runs"]:
    for again in range(30):
        run = drawn(tokens, exits, draw)
        if run:
            break
    runs.append({**run, "drawn": again + 1})
json.dump(runs, sys.stdout)
