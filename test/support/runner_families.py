"""The torch runner on random models of several families: what it answers against plain forward passes in float64, and what it samples.

    python runner_families.py FOLDER   ->   {family: {"way", "off", "entropies", "samples"}}
"""
import copy
import json
import random
import sys
import types

import torch
import transformers
from rredcot import answer
from rredcot._questions import questions

SHAPE = {"vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 4, "initializer_range": 0.2, "max_position_embeddings": 4096}
HEADS = {"intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
NEAR, FAR = "sliding_attention", "full_attention"
LINEAR = {"linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4}
FAMILIES = {
    "Llama": HEADS,
    "Qwen3": HEADS,
    "Mistral": {**HEADS, "sliding_window": 40},
    "Gemma3Text": {**HEADS, "sliding_window": 40, "layer_types": [NEAR, NEAR, FAR, NEAR]},
    "Qwen3_5Text": {**HEADS, **LINEAR, "layer_types": ["linear_attention"] * 3 + [FAR]},
    "Mamba2": {"num_heads": 8, "head_dim": 16, "state_size": 16, "n_groups": 2},
}


def lines(family, length, exits):
    """A trace and what goes on from its exits, one branch longer than a chunk; one is asked in full, and anew."""
    draw = random.Random(1)
    ids = [draw.randrange(97) for _ in range(length)]
    yield {"id": "trace", "token_ids": ids, "from": 7, "top": 5}
    for n in range(exits):
        cut, own = 9 + n * (length - 9) // exits, [draw.randrange(97) for _ in range(70 if n == 1 else 9)]
        yield {"id": f"exit {n}", "prefix": {"of": "trace", "length": cut}, "token_ids": own, "from": cut + n % 4}
    yield {"id": "anew", "prefix": {"of": "trace", "length": cut}, "token_ids": own, "from": cut + n % 4, "fresh": True}
    yield {"id": "drawn", "prefix": {"of": "trace", "length": 9}, "token_ids": own, "samples": 3000 if family == "Llama" else 2, "max_tokens": 1}


def checked(family, folder):
    torch.manual_seed(2)
    config = getattr(transformers, f"{family}Config")(**{**SHAPE, **FAMILIES[family]})
    transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)
    answerer = answer.Answerer("torch", folder, "float32", {})
    engine = answerer.engine
    engine.tokens = 64  # a trace has several passes, and a branch may be longer
    asked = list(questions(map(json.dumps, lines(family, 150, 6))))
    found = [json.loads(one) for window in answer.windows(asked, engine.window) for one in answerer.answers(window)[0]]
    off, entropies, samples = [], [], 0
    for q, logprobs, one in zip(asked, exact(engine.model, [q.ids for q in asked]), found):
        if q.samples:
            drawn = torch.tensor(one["ids"]).flatten().bincount(minlength=97) / q.samples
            samples = float((drawn - logprobs[-1].exp()).abs().sum() / 2)
            continue
        rows = logprobs[q.start - 1 : -1]
        off += (rows.gather(1, torch.tensor(q.ids[q.start :])[:, None])[:, 0] - torch.tensor(one["logprobs"])).abs().tolist()
        if q.top:
            entropies += (-(rows.exp() * rows).sum(-1) - torch.tensor(one["entropies"])).abs().tolist()
    return {"way": engine.way, "off": max(off), "mean": sum(off) / len(off), "entropies": max(entropies), "samples": samples}


def exact(model, rows):
    """Log-probabilities of whole rows, in float64 to the last operation: where transformers says float32 it is taken at another word."""
    model, place = copy.deepcopy(model).double(), sys.modules[type(model).__module__]
    plain, single = place.torch, torch.Tensor.float
    place.torch, torch.Tensor.float = Double("torch"), torch.Tensor.double
    try:
        return [model(torch.tensor([ids]), use_cache=False).logits[0].log_softmax(-1) for ids in rows]
    finally:
        place.torch, torch.Tensor.float = plain, single


class Double(types.ModuleType):
    float32 = float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


with torch.no_grad():
    print(json.dumps({family: checked(family, f"{sys.argv[1]}/{family}") for family in FAMILIES}))
