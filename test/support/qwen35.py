"""Random Qwen3.5 checkpoints of transformers, and what transformers says of them, all of it in float64.

make <folder> <config>: writes one. ask <folder>: reads questions, a JSON list of {ids, from, gap?}, from stdin and answers
each with log-probabilities and entropies of the tokens from `from` on; {before, tokens} of a gap are free places in the row.
"""

import json
import sys

import torch
from transformers import AutoConfig, Qwen3_5Config, Qwen3_5ForCausalLM, Qwen3_5ForConditionalGeneration, Qwen3_5TextConfig
from transformers.models.qwen3_5 import modeling_qwen3_5 as modeling

VISION = {"depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2, "num_position_embeddings": 16}


def make(folder, config):
    torch.manual_seed(config.pop("seed", 0))
    sees = config.pop("sees", False)
    dtype = getattr(torch, config.pop("stored", "float32"))
    if sees:
        vision = {**VISION, "out_hidden_size": config["hidden_size"]}
        tied = config.get("tie_word_embeddings", False)
        model = Qwen3_5ForConditionalGeneration(Qwen3_5Config(text_config=config, vision_config=vision, tie_word_embeddings=tied, image_token_id=260, video_token_id=261))
    else:
        model = Qwen3_5ForCausalLM(Qwen3_5TextConfig(**config))
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
    modeling.torch = Wide()
    torch.Tensor.float = torch.Tensor.double
    config = AutoConfig.from_pretrained(folder)
    Kind = getattr(modeling, config.architectures[0])
    model = Kind.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    assert all(weight.dtype == torch.float64 for weight in model.parameters())
    said = []
    for question in questions:
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
        })
    json.dump(said, sys.stdout)


if sys.argv[1] == "make":
    make(sys.argv[2], json.loads(sys.argv[3]))
else:
    ask(sys.argv[2], json.load(sys.stdin))
