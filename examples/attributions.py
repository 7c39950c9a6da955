"""Values for `rredcot score --estimator given` from gradients or attention, for any checkpoint that transformers opens.

    pip install torch transformers
    rredcot segment traces.jsonl > segments.jsonl
    python examples/attributions.py gradient ./checkpoint segments.jsonl > valued.jsonl
    rredcot score valued.jsonl --estimator given --segmenter given -o scored.parquet

phi is the log-probability of the row's reference answers (column `answer`, or --reference COLUMN: a text or a list) after the
thought. A segment's attribution a_k is the norm of d phi / d input embeddings over its tokens (`gradient`), or the attention that it
gets from the answer's scored tokens, averaged over heads and layers (`attention`). a_k has no sign: `values` rise from 0 to 1 by
a_k's share of the sum if the reward is above 1/2, and otherwise fall from 1 to 0. The checkpoint's exit_template.json is the template
around the answer.
"""
import argparse
import json
import os
import re

try:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
except ImportError as error:
    raise SystemExit(f"attributions.py: {error}: pip install torch transformers") from None

OPENING_TAG = re.compile(r"\s*(?:<(?:think|reasoning|thinking|thought)>|<\|begin_of_thought\|>)")
TEMPLATE = {"close": "\n\n", "open": "**Final Answer**\n\\boxed{", "closer": "}"}


def common_prefix(a, b):
    return next((t for t, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def first_exit(ids, tokenizer):
    """Tokens before the first segment: an opening tag, and a newline token after it."""
    tag = OPENING_TAG.match(tokenizer.decode(ids))
    start = 0
    while tag and len(tokenizer.decode(ids[:start])) < tag.end():
        start += 1
    return start + bool(tag and start < len(ids) and not tokenizer.decode(ids[start : start + 1]).strip("\n"))


def attributions(row, by, model, tokenizer, template, reference):
    """(K) a_k, and the K token ends of the thought's segments."""
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False)
    ends = [segment["end"] for segment in row["segments"] if segment["kind"] == "thought"]
    thought = row["prompt_ids"] + row["completion_ids"][: ends[-1]]
    answers = row[reference] if isinstance(row[reference], list) else [row[reference]]
    close, closer = template["close"] + template["open"], template["closer"]
    branches = [encode(close + str(answer) + closer) for answer in answers]
    # the template is not scored, except for a token that merges with an answer
    scored_from = min(common_prefix(encode(close), ids) for ids in [encode(close + closer), *branches])
    embed = model.get_input_embeddings()
    x = embed(torch.tensor([thought])).detach().requires_grad_()
    logprobs, attention = [], []
    for ids in branches:
        out = model(inputs_embeds=torch.cat((x, embed(torch.tensor([ids]))), 1), output_attentions=by == "attention")
        rows = slice(len(thought) + scored_from - 1, len(thought) + len(ids) - 1)
        picked = out.logits[0, rows].log_softmax(-1).gather(1, torch.tensor(ids[scored_from:])[:, None])
        logprobs.append(picked.sum())
        if by == "attention":
            layers = torch.stack([layer[0, :, rows, : len(thought)].mean((0, 1)) for layer in out.attentions])
            attention.append(layers.mean(0).detach())
    phi = torch.logsumexp(torch.stack(logprobs), 0)
    if by == "attention":
        weights = torch.exp(torch.stack(logprobs) - phi).detach()
        tokens = weights @ torch.stack(attention)
    else:
        tokens = torch.autograd.grad(phi, x)[0][0].square().sum(-1)
    if row.get("completion_mask"):  # the environment's turns do not count
        tokens = tokens * torch.tensor([0] * len(row["prompt_ids"]) + row["completion_mask"][: ends[-1]])
    exits = [first_exit(row["completion_ids"], tokenizer), *ends]
    sums = [tokens[len(row["prompt_ids"]) :][a:b].sum() for a, b in zip(exits, exits[1:])]
    return [float(s if by == "attention" else s.sqrt()) for s in sums], ends


def values_of(attributions, reward):
    total, sum_so_far, values = sum(attributions) or 1, 0, [0.0]
    for a in attributions:
        sum_so_far += a
        values.append(min(1.0, sum_so_far / total))
    return values if reward is None or reward > 0.5 else [1 - value for value in values]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("by", choices=["gradient", "attention"])
    parser.add_argument("checkpoint", help="folder with config.json, weights and tokenizer")
    parser.add_argument("rows", help="JSONL of rredcot segment or rredcot score")
    parser.add_argument("--reference", default="answer", metavar="COLUMN")
    args = parser.parse_args()
    # only eager attention returns the weights
    model = AutoModelForCausalLM.from_pretrained(args.checkpoint, dtype=torch.float32, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(args.checkpoint)
    path = os.path.join(args.checkpoint, "exit_template.json")
    template = {**TEMPLATE, **json.load(open(path, encoding="utf-8"))} if os.path.exists(path) else TEMPLATE
    for line in open(args.rows, encoding="utf-8"):
        row = json.loads(line)
        found, ends = attributions(row, args.by, model, tokenizer, template, args.reference)
        values = values_of(found, row.get("reward"))
        print(json.dumps({**row, "attributions": found, "values": values, "segment_ends": ends}, ensure_ascii=False))


if __name__ == "__main__":
    main()
