"""Random mixtures of experts as transformers saves them, and what it says of traces and their branches in float64.

A line of stdin is {"folder", "spec"}, and is answered by a line: the spec's runs with ids, numbers, and how near two experts ever were. A spec
is {"class", "config", "dtype", "joined", "seed", "runs": [[tokens, exits], ...]}. A token whose last expert and first other one are nearer
than rounding may go to either in float32; such traces are drawn again, none of their tokens is left out.
"""
import copy
import json
import random
import sys

import torch
import transformers

SIZES = {"vocab_size": 259, "hidden_size": 64, "intermediate_size": 80, "num_attention_heads": 4, "num_key_value_heads": 2}
NEAR = 1e-5


def made(folder, spec):
    """The model, in float64, of a checkpoint that it writes."""
    torch.manual_seed(spec["seed"])
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
    return model


def watched(model):
    """Distances of the last expert and the first other one, which grow with every pass."""
    nearest = []
    for _, module in model.named_modules():
        if type(module).__name__.endswith("TopKRouter") and module.top_k < module.num_experts:
            def note(module, _, out):
                ranked = out[0].sort(dim=-1, descending=True).values
                nearest.append((ranked[:, module.top_k - 1] - ranked[:, module.top_k]).min().item())
            module.register_forward_hook(note)
    return nearest


def said(logits, ids):
    """Log-probabilities of ids by the rows before them, and the entropies of these."""
    logp = torch.log_softmax(logits, -1)
    of_ids = logp.gather(1, torch.tensor(ids)[:, None])[:, 0]
    return of_ids.tolist(), (-(logp.exp() * logp).sum(-1)).tolist()


def drawn(model, nearest, tokens, exits, draw):
    """A trace, its numbers, and those of a branch at each exit, or None where a tie is near."""
    nearest.clear()
    size = model.config.vocab_size
    ids = [draw.randrange(size) for _ in range(tokens)]
    # a trace is read once, from exit to exit; what is kept of it there is what each branch goes on from
    cache, rows, at, branches = transformers.DynamicCache(config=model.config), [], 0, []
    read = lambda ids, cache: model(torch.tensor([ids]), past_key_values=cache, use_cache=True).logits[0]
    for n in range(exits):
        exit = max(1, round(tokens * (n + 1) / exits))
        own = [draw.randrange(size) for _ in range(2 + n % 5)]
        if exit > at:
            rows.append(read(ids[at:exit], cache))
            at = exit
        of_own = read(own, copy.deepcopy(cache))
        branches.append({"exit": exit, "ids": own, "logprobs": said(of_own[:-1], own[1:])[0]})
        if min(nearest, default=1) < NEAR:
            return None
    logprobs, entropies = said(torch.cat(rows)[:-1], ids[1:])
    return {"ids": ids, "logprobs": logprobs, "entropies": entropies, "branches": branches, "nearest": min(nearest, default=1)}


@torch.no_grad()
def reference(folder, spec):
    model = made(folder, spec)
    nearest = watched(model)
    draw, runs = random.Random(spec["seed"]), []
    for tokens, exits in spec["runs"]:
        for again in range(30):
            run = drawn(model, nearest, tokens, exits, draw)
            if run:
                break
        runs.append({**run, "drawn": again + 1})
    return runs


for line in sys.stdin:
    print(json.dumps(reference(**json.loads(line))), flush=True)
