"""Makes reference.json for `rredcot policy check ./policy --reference reference.json` from your checkpoint.

Run by hand against transformers 5.18.0 (torch 2.13.0) on Llama, Mistral, Qwen2 and Qwen3 checkpoints, and against
4.57.6 on Llama ones (with a newer huggingface_hub than it asks for). What rredcot's tests run, without either library, is the file's form, with stand-ins for both.

    pip install torch transformers
    python make_reference.py ./checkpoint reference.json [text.txt]

The pass is in float32 on the CPU, whatever the checkpoint's own precision: that is what rredcot computes on a CPU. The
file holds ids (T), logprobs (T-1: log p of ids[1:]) and entropies (T-1: of the distributions that predict them), nats.

Of a process reward model (*ForTokenClassification, Qwen2ForProcessRewardModel) it holds ids (T) and correct (T): the
probability of the label that says right at every token. That part was written from both libraries' documentation and
was not yet run against them. The label is 1; another one, where the head has more than two: --label 2. A model whose
class comes with its checkpoint (Qwen2.5-Math-PRM) runs that code: read it first.
"""
import json
import sys

try:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
except ImportError as error:
    raise SystemExit(f"make_reference.py: {error}: pip install torch transformers") from None

CLASSIFIERS = ("ForTokenClassification", "ForProcessRewardModel")

TEXT = """Let me think. 126 km at 84 km/h take 126 / 84 = 1.5 hours.

Wait, the train leaves at 9:40, so it arrives at 11:10. Naïve, but right: 84 × 1.5 = 126.
"""


def classifier(checkpoint, name):
    """A model whose head classifies; the class of a ProcessRewardModel is code of its checkpoint."""
    from transformers import AutoModel, AutoModelForTokenClassification

    if name.endswith("ForProcessRewardModel"):
        return AutoModel.from_pretrained(checkpoint, torch_dtype=torch.float32, trust_remote_code=True)
    return AutoModelForTokenClassification.from_pretrained(
        checkpoint, torch_dtype=torch.float32, attn_implementation="eager"
    )


def read_steps(model, ids, label):
    """Probability of a label at every token."""
    with torch.no_grad():
        logits = model(torch.tensor([ids]))[0][0]  # (T, labels)
    shares = torch.log_softmax(logits.double(), dim=-1).exp()
    return {"ids": ids, "correct": shares[:, label].tolist()}


def main(checkpoint, target, text_file=None, label=1):
    text = open(text_file, encoding="utf-8").read() if text_file else TEXT
    config = AutoConfig.from_pretrained(checkpoint)
    name = (getattr(config, "architectures", None) or [""])[0]
    print(f"max context: {config.max_position_embeddings} tokens", file=sys.stderr)
    try:
        ids = AutoTokenizer.from_pretrained(checkpoint)(text)["input_ids"]
    except (OSError, ValueError) as error:  # no tokenizer beside the weights: any ids will do
        print(f"no tokenizer ({error}); counting through the vocabulary", file=sys.stderr)
        ids = [(1 + 37 * i) % config.vocab_size for i in range(64)]
    ids = ids[: config.max_position_embeddings]
    if name.endswith(CLASSIFIERS):
        made = read_steps(classifier(checkpoint, name).eval(), ids, label)
        with open(target, "w", encoding="utf-8") as file:
            json.dump(made, file)
        print(f"{len(ids)} tokens written to {target}", file=sys.stderr)
        return
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
    arguments, label = sys.argv[1:], 1
    if "--label" in arguments:
        at = arguments.index("--label")
        label, arguments = int(arguments[at + 1]), arguments[:at] + arguments[at + 2 :]
    if len(arguments) not in (2, 3):
        sys.exit("usage: make_reference.py <checkpoint> <reference.json> [text.txt] [--label <number>]")
    main(*arguments, label=label)
