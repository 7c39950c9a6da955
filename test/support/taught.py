"""What transformers says of a policy and a teacher over traces, in float64.

A line of stdin is {"policy", "teacher", "traces"}, a trace {prompt_ids, completion_ids}. It is answered by a line: {"logprobs", "entropies",
"kl", "own"} of every trace; each number is of a completion token, nats.
"""
import json
import sys

import torch
import transformers


def loaded(folder):
    with open(f"{folder}/config.json") as file:
        config = json.load(file)
    how = {"experts_implementation": "eager"} if "num_experts" in config else {}
    kind = getattr(transformers, *config["architectures"])
    return kind.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager", **how).eval()


def distributions(model, prompt, completion):
    logits = model(torch.tensor([prompt + completion]), use_cache=False).logits[0, len(prompt) - 1 : -1]
    return logits.double().log_softmax(-1)


@torch.no_grad()
def taught(policy, teacher, traces):
    policy, teacher = loaded(policy), loaded(teacher)
    found = []
    for row in traces:
        p, q = (distributions(model, row["prompt_ids"], row["completion_ids"]) for model in (policy, teacher))
        ids = torch.tensor(row["completion_ids"])[:, None]
        of_both = q[:, : p.shape[1]]
        found.append({
            "own": p.gather(1, ids)[:, 0].tolist(),
            "logprobs": q.gather(1, ids)[:, 0].tolist(),
            "entropies": (-(q.exp() * q).sum(-1)).tolist(),
            "kl": (p.exp() * (p - of_both)).sum(-1).tolist(),
        })
    return found


for line in sys.stdin:
    print(json.dumps(taught(**json.loads(line))), flush=True)
