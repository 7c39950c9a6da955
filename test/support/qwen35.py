"""Random Qwen3.5 checkpoints of transformers, and what transformers says of them, all of it in float64.

Lines of stdin are answered by lines. {"make": {folder, config}} writes one. {"ask": {folder, traces}} is of traces {ids, branches}, a branch
{exit, ids, scoredFrom, gap?}: log-probabilities and entropies of a trace's tokens but the first, and log-probabilities of each branch from
its token `scoredFrom` on; {before, tokens} of a gap are free places in the branch.
"""

import copy
import json
import sys

import torch
import transformers
from transformers import AutoConfig, DynamicCache
from transformers.models.qwen3_5 import modeling_qwen3_5
from transformers.models.qwen3_5_moe import modeling_qwen3_5_moe

VISION = {"depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2, "num_position_embeddings": 16}


def make(folder, config):
    torch.manual_seed(config.pop("seed", 0))
    sees = config.pop("sees", False)
    dtype = getattr(torch, config.pop("stored", "float32"))
    kind = lambda rest: getattr(transformers, ("Qwen3_5Moe" if "num_experts" in config else "Qwen3_5") + rest)
    if sees:
        vision = {**VISION, "out_hidden_size": config["hidden_size"]}
        tied = config.get("tie_word_embeddings", False)
        model = kind("ForConditionalGeneration")(kind("Config")(text_config=config, vision_config=vision, tie_word_embeddings=tied, image_token_id=260, video_token_id=261))
    else:
        model = kind("ForCausalLM")(kind("TextConfig")(**config))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn_like(weight)
            if name.endswith("A_log"):
                weight.copy_(torch.log(0.02 + 2 * torch.rand_like(weight)))
            elif name.endswith("dt_bias"):
                weight.copy_(noise - 1)
            elif "linear_attn.norm" in name:
                weight.copy_(1 + 0.3 * noise)
            elif "norm" in name:
                weight.copy_(0.3 * noise)
            elif "conv1d" in name:
                weight.copy_(0.7 * noise)
            elif weight.dim() > 1:
                weight.copy_(0.8 * noise / weight.shape[-1] ** 0.5)
    model.to(dtype).save_pretrained(folder)


class Wide:
    """torch, in which what is asked for in float32 comes in float64."""

    float32 = float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def opened(folder):
    """A model in float64, and how near the last expert of a token and the first other one ever were: below rounding either may be taken."""
    torch.Tensor.float = torch.Tensor.double
    config = AutoConfig.from_pretrained(folder)
    modeling = modeling_qwen3_5_moe if "Moe" in config.architectures[0] else modeling_qwen3_5
    modeling.torch = Wide()
    Kind = getattr(modeling, config.architectures[0])
    experts = {"experts_implementation": "eager"} if "Moe" in Kind.__name__ else {}
    model = Kind.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager", **experts).eval()
    assert all(weight.dtype == torch.float64 for weight in model.parameters())
    nearest = [1.0]
    for module in model.modules():
        if type(module).__name__.endswith("TopKRouter"):
            def note(module, _, out):
                ranked = torch.softmax(out[0], -1).sort(dim=-1, descending=True).values
                nearest.append((ranked[:, module.top_k - 1] - ranked[:, module.top_k]).min().item())
            module.register_forward_hook(note)
    return model, nearest


def said_of(logits, ids):
    """Log-probabilities of ids by the rows before them, and the entropies of these."""
    assert logits.dtype == torch.float64
    logp = torch.log_softmax(logits, -1)
    return logp.gather(1, torch.tensor(ids)[:, None])[:, 0].tolist(), (-(logp.exp() * logp).sum(-1)).tolist()


@torch.no_grad()
def ask(folder, traces):
    model, nearest = opened(folder)

    def logits_of(ids, past, cache, gap=None):
        places = torch.arange(past, past + len(ids))
        if gap:
            places[gap["before"] :] += gap["tokens"]
        # without a mask, free places would be taken for the ends of texts that are packed together
        row = {"input_ids": torch.tensor([ids]), "position_ids": places[None], "attention_mask": torch.ones(1, past + len(ids), dtype=torch.long)}
        return model(**row, past_key_values=cache, use_cache=True).logits[0]

    said = []
    for trace in traces:
        nearest[:] = [1.0]
        ids, branches, rows, at = trace["ids"], {}, [], 0
        # a trace is read once, from exit to exit; what is kept of it there is what each branch goes on from
        cache = DynamicCache(config=model.config)
        for n, branch in sorted(enumerate(trace["branches"]), key=lambda numbered: numbered[1]["exit"]):
            if branch["exit"] > at:
                rows.append(logits_of(ids[at : branch["exit"]], at, cache))
                at = branch["exit"]
            own, first = branch["ids"], branch["scoredFrom"]
            of_own = logits_of(own, at, copy.deepcopy(cache), branch.get("gap"))
            branches[n] = said_of(of_own[first - 1 : -1], own[first:])[0]
        if at < len(ids):
            rows.append(logits_of(ids[at:], at, cache))
        logprobs, entropies = said_of(torch.cat(rows)[:-1], ids[1:])
        in_order = [branches[n] for n in range(len(branches))]
        said.append({"logprobs": logprobs, "entropies": entropies, "branches": in_order, "nearest": min(nearest)})
    return said


for line in sys.stdin:
    question = json.loads(line)
    single = torch.Tensor.float
    try:
        done = make(**question["make"]) if "make" in question else ask(**question["ask"])
    finally:
        torch.Tensor.float = single
        modeling_qwen3_5.torch = modeling_qwen3_5_moe.torch = torch
    print(json.dumps(done), flush=True)
