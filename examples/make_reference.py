"""Makes reference.json for `rredcot policy check ./policy --reference reference.json` from your checkpoint.

Run by hand against transformers 5.18.0 (torch 2.13.0) on Llama, Mistral, Qwen2 and Qwen3 checkpoints, and against
4.57.6 on Llama ones (with a newer huggingface_hub than it asks for). What rredcot's tests run, without either library, is the file's form, with stand-ins for both.

    pip install torch transformers
    python make_reference.py ./checkpoint reference.json [text.txt]

The pass is in float32 on the CPU, whatever the checkpoint's own precision: that is what rredcot computes on a CPU. The
file holds ids (T), logprobs (T-1: log p of ids[1:]) and entropies (T-1: of the distributions that predict them), nats.
"""
import json
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

TEXT = """Let me think. 126 km at 84 km/h take 126 / 84 = 1.5 hours.

Wait, the train leaves at 9:40, so it arrives at 11:10. Naïve, but right: 84 × 1.5 = 126.
"""


def main(checkpoint, target, text_file=None):
    text = open(text_file, encoding="utf-8").read() if text_file else TEXT
    config = AutoConfig.from_pretrained(checkpoint)
    print(f"max context: {config.max_position_embeddings} tokens", file=sys.stderr)
    try:
        ids = AutoTokenizer.from_pretrained(checkpoint)(text)["input_ids"]
    except (OSError, ValueError) as error:  # no tokenizer beside the weights: any ids will do
        print(f"no tokenizer ({error}); counting through the vocabulary", file=sys.stderr)
        ids = [(1 + 37 * i) % config.vocab_size for i in range(64)]
    ids = ids[: config.max_position_embeddings]
    # eager attention: the plain formula, no kernel that rounds differently
    model = AutoModelForCausalLM.from_pretrained(
        checkpoint, torch_dtype=torch.float32, attn_implementation="eager"
    ).eval()
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, :-1]
    logp = torch.log_softmax(logits.double(), dim=-1)  # (T-1, V)
    logprobs = logp.gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
    entropies = -(logp.exp() * logp).sum(-1)
    with open(target, "w", encoding="utf-8") as file:
        json.dump({"ids": ids, "logprobs": logprobs.tolist(), "entropies": entropies.tolist()}, file)
    print(f"{len(ids)} tokens written to {target}", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: make_reference.py <checkpoint> <reference.json> [text.txt]")
    main(*sys.argv[1:])
