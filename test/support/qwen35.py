"""Random Qwen3.5 checkpoints of transformers, and what transformers says of them, all of it in float64.

make <folder> <config>: writes one. ask <folder>: reads questions, a JSON list of {ids, from, gap?}, from stdin and answers
each with log-probabilities and entropies of the tokens from `from` on; {before, tokens} of a gap are free places in the row.
"""

import json
import sys

import torch
import transformers
from transformers import AutoConfig
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


def ask(folder, questions):
    torch.Tensor.float = torch.Tensor.double
    config = AutoConfig.from_pretrained(folder)
    modeling = modeling_qwen3_5_moe if "Moe" in config.architectures[0] else modeling_qwen3_5
    modeling.torch = Wide()
    Kind = getattr(modeling, config.architectures[0])
    experts = {"experts_implementation": "eager"} if "Moe" in Kind.__name__ else {}
    model = Kind.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager", **experts).eval()
    assert all(weight.dtype == torch.float64 for weight in model.parameters())
    # how near the last expert of a token and the first other one are: below rounding either may be taken
    nearest = [1.0]
    for module in model.modules():
        if type(module).__name__.endswith("TopKRouter"):
            def note(module, _, out):
                ranked = torch.softmax(out[0], -1).sort(dim=-1, descending=True).values
                nearest.append((ranked[:, module.top_k - 1] - ranked[:, module.top_k]).min().item())
            module.register_forward_hook(note)
    said = []
    for question in questions:
        nearest[:] = [1.0]
        ids, first, gap = torch.tensor([question["ids"]]), question["from"], question.get("gap")
        places = torch.arange(ids.shape[1])
        if gap:
            places[gap["before"] :] += gap["tokens"]
        # without a mask, free places would be taken for the ends of texts that are packed together
        row = {"input_ids": ids, "position_ids": places[None], "attention_mask": torch.ones_like(ids)}
        with torch.no_grad():
            logits = model(**row, use_cache=False, logits_to_keep=ids.shape[1] - first + 1).logits[0, :-1]
        assert logits.dtype == torch.float64
        logp = torch.log_softmax(logits, -1)
        said.append({
            "logprobs": logp.gather(1, ids[0, first:, None])[:, 0].tolist(),
            "entropies": (-(logp.exp() * logp).sum(-1)).tolist(),
            "nearest": min(nearest),
        })
    json.dump(said, sys.stdout)


if sys.argv[1] == "make":
    make(sys.argv[2], json.loads(sys.argv[3]))
else:
    ask(sys.argv[2], json.load(sys.stdin))
