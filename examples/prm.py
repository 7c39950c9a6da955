"""Values for `rredcot score --estimator given` from a process reward model: at each exit point, the probability that the step before it is correct.

    pip install torch transformers
    rredcot segment traces.jsonl --segmenter newline > steps.jsonl
    python examples/prm.py ./prm steps.jsonl > valued.jsonl
    rredcot score valued.jsonl --estimator given --segmenter given -o scored.parquet

The model is a *ForTokenClassification checkpoint that reads prompt and steps in one pass. Its label is at a step's last token, or, with
--step-token TEXT, at that token after each step (Qwen2.5-Math-PRM: --step-token '<extra_0>' --trust-remote-code, which runs code from
the checkpoint: read it first). Before the first step, v(s_0) = 1.
"""
import argparse
import json
import re

try:
    import torch
    from transformers import AutoModel, AutoModelForTokenClassification, AutoTokenizer
except ImportError as error:
    raise SystemExit(f"prm.py: {error}: pip install torch transformers") from None

OPENING_TAG = re.compile(r"\s*(?:<(?:think|reasoning|thinking|thought)>|<\|begin_of_thought\|>)\n*|")


def steps_of(row):
    """The text before the first step, the text of each step, and the ends of the thought's segments in tokens."""
    thought = [segment for segment in row["segments"] if segment["kind"] == "thought"]
    text = row["completion"]
    at = OPENING_TAG.match(text).end()
    lead, steps = text[:at], []
    for segment in thought:
        steps.append(text[at : segment["char_end"]])
        at = segment["char_end"]
    return lead, steps, [segment["end"] for segment in thought]


def prompt_ids(prompt, tokenizer):
    if isinstance(prompt, str):
        return tokenizer.encode(prompt)
    text = tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
    return tokenizer.encode(text, add_special_tokens=False)


def values_of(row, model, tokenizer, step_token, label):
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False)
    lead, steps, ends = steps_of(row)
    ids, places = prompt_ids(row["prompt"], tokenizer) + encode(lead), []
    for step in steps:
        ids += encode(step if step_token is None else step.strip() + step_token)
        places.append(len(ids) - 1)
    with torch.no_grad():
        logits = model(torch.tensor([ids]))[0][0, places]  # (K, labels)
    right = logits.float().softmax(-1)[:, label].tolist()
    values = [1.0]
    for step, probability in zip(steps, right):
        values.append(probability if step.strip() else values[-1])
    return values, ends


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", help="folder with config.json, weights and tokenizer")
    parser.add_argument("rows", help="JSONL of rredcot segment or rredcot score, with the column completion")
    parser.add_argument("--step-token", metavar="TEXT")
    parser.add_argument("--label", type=int, default=1, help="index of the label for correct steps (default: 1)")
    parser.add_argument("--trust-remote-code", action="store_true")
    args = parser.parse_args()
    kind = AutoModel if args.trust_remote_code else AutoModelForTokenClassification
    model = kind.from_pretrained(args.checkpoint, dtype=torch.float32, trust_remote_code=args.trust_remote_code).eval()
    tokenizer = AutoTokenizer.from_pretrained(args.checkpoint)
    for line in open(args.rows, encoding="utf-8"):
        row = json.loads(line)
        values, ends = values_of(row, model, tokenizer, args.step_token, args.label)
        print(json.dumps({**row, "values": values, "segment_ends": ends}, ensure_ascii=False))


if __name__ == "__main__":
    main()
