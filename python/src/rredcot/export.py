"""A policy folder of any family that transformers has: `python -m rredcot.export ./checkpoint -o ./policy [flags of policy build]`.

`torch.onnx.export` makes the graph, in float32 for the CPU. A trace and its branches are one row of tokens, of which a table says who sees
whom; attention takes it by blocks of queries and the head by blocks of rows, so that neither [S, S] nor [S, V] is ever held. Whether a family
can be read so is tried before anything is written, and the canary's numbers are those of transformers' plain passes.
Needs `pip install 'rredcot[export]'`.
"""
import argparse
import copy
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile

import torch
import transformers
from torch._higher_order_ops.scan import scan
from transformers.modeling_outputs import MoeModelOutputWithPast

from rredcot import _node

EVERY = 2**31
# numbers of a hidden state above which a second layer of it costs a fit more than it tells, as src/model/graph/scoring-graph.ts has it
WIDE = 2048
# nats that plain passes and one packed row may differ by
OFF = 1e-3


def main():
    parser = argparse.ArgumentParser(prog="python -m rredcot.export", description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint")
    parser.add_argument("-o", "--output", required=True, help="policy folder to write")
    given, flags = parser.parse_known_args()
    checkpoint, output = given.checkpoint, os.path.abspath(given.output)
    if os.path.exists(output):
        refuse(f"{given.output}: is there already", "-o <another folder>")
    transformers.utils.logging.set_verbosity_error()
    lm = load(checkpoint)
    with torch.no_grad():
        form = tried(lm, checkpoint)
        os.makedirs(os.path.dirname(output), exist_ok=True)
        with tempfile.TemporaryDirectory(dir=os.path.dirname(output), prefix=".export-") as folder:
            policy = os.path.join(folder, "policy")
            print(*program("policy", "build", checkpoint, "-o", policy, "--tokenizer-only", *flags)[:-2], sep="\n", file=sys.stderr)
            with open(f"{policy}/policy.json", encoding="utf8") as file:
                manifest = json.load(file)
            write(f"{policy}/canary.json", {"passes": canary(lm, manifest["architecture"])})
            layers = state_layers(lm)
            print("exporting its graph", file=sys.stderr)
            lm.set_attn_implementation("rredcot")
            export(Scores(lm, form, layers).eval(), f"{policy}/policy.onnx", checkpoint)
            architecture = {**manifest["architecture"], "hidden": text_config(lm).hidden_size, "exported": type(lm).__name__,
                            "by": f"transformers {transformers.__version__}, torch {torch.__version__}"}
            files = {name: sha256(f"{policy}/{name}") for name in ("policy.onnx", "policy.onnx.data")}
            proof = {"file": "canary.json", "sha256": sha256(f"{policy}/canary.json")}
            write(f"{policy}/policy.json", {**manifest, "architecture": architecture, "canary": proof, "stateLayers": layers,
                                            "files": {**files, **manifest["files"]}})
            # the program opens it as it will ever after: its canary has to hold
            write(f"{folder}/row.jsonl", {"prompt": "2+2?", "completion": "2+2 is 4.", "reference": "4", "reward": 1})
            program("score", f"{folder}/row.jsonl", "--policy", policy, "--device", "cpu", "-o", f"{folder}/scored.jsonl")
            os.rename(policy, output)
    print(f"policy folder written to {given.output}", file=sys.stderr)


def load(checkpoint):
    """The model in float32, with the attention that its authors have written out."""
    try:
        config = transformers.AutoConfig.from_pretrained(checkpoint)
        if config.is_encoder_decoder:
            refuse(f"{checkpoint}: {config.model_type} has an encoder, expected a decoder alone")
        kind = transformers.AutoModelForCausalLM
        if type(config) not in kind._model_mapping:
            kind = transformers.AutoModelForImageTextToText
        return kind.from_pretrained(checkpoint, dtype=torch.float32, attn_implementation="eager").eval()
    except (OSError, ValueError, ImportError) as error:
        refuse(f"{checkpoint}: transformers does not load it: {error}")


def text_config(lm):
    return lm.config.get_text_config()


def state_layers(lm):
    layers, shares = text_config(lm).num_hidden_layers, [0.6] if text_config(lm).hidden_size > WIDE else [0.6, 0.75]
    return sorted({min(layers - 1, int(share * layers + 0.5)) for share in shares})


# ------ the graph


def attend(module, query, key, value, attention_mask, **more):
    """A family's own attention (1, H, S, hd), a block of queries at a time. The place of the mask has a table (1, n, C, 4), S = n·C:
    of each row its position, how many of the trace's tokens it sees, its branch (-1: the trace), and its window."""
    own = sys.modules[type(module).__module__].eager_attention_forward
    table = attention_mask[0]
    keys = table.flatten(0, 1)

    def block(carry, of):
        rows, q = of
        pos, sees, branch, window = (rows[:, k, None] for k in range(4))
        of_trace = (keys[:, 2] < 0) & (keys[:, 0] < sees)
        seen = (of_trace | ((keys[:, 2] == branch) & (keys[:, 0] <= pos))) & (pos - keys[:, 0] < window)
        mask = torch.zeros_like(seen, dtype=q.dtype).masked_fill(~seen, torch.finfo(q.dtype).min)[None, None]
        return carry.clone(), own(module, q, key, value, mask, **more)[0]

    out = each(block, (table, query.unflatten(2, table.shape[:2]).permute(2, 0, 1, 3, 4)))  # [n,1,C,H,hd]
    return out.transpose(0, 1).flatten(1, 2), None


transformers.AttentionInterface.register("rredcot", attend)


def each(block, of):
    """What a block makes of each slice, stacked: a Scan of the graph."""
    if torch.compiler.is_exporting():
        return scan(block, torch.zeros(()), of)[1]
    made = [block(torch.zeros(()), one)[1] for one in zip(*of)]
    return torch.stack(made) if isinstance(made[0], torch.Tensor) else [torch.stack(one) for one in zip(*made)]


class Scores(torch.nn.Module):
    """What src/model/onnx/exported.ts asks of a graph."""

    def __init__(self, lm, form, layers):
        super().__init__()
        self.body, self.form, self.layers = lm.get_decoder(), form, layers
        self.window = getattr(text_config(lm), "sliding_window", None) or EVERY
        # whatever a family does behind its layers, by its own forward pass: of rows that are given to it
        base = copy.copy(lm.base_model)
        base.forward = lambda *_, inputs_embeds=None, **__: MoeModelOutputWithPast(last_hidden_state=inputs_embeds)
        self.head = copy.copy(lm)
        self.head._modules = {**lm._modules, lm.base_model_prefix: base}

    def forward(self, ids, pos, sees, branch, rows, targets, state_rows):
        full, near = (torch.stack([pos, sees, branch, torch.full_like(pos, far)], -1)[None] for far in (EVERY, self.window))
        mask = {"full": full, "near": near, "by layer": {"full_attention": full, "sliding_attention": near}}[self.form]
        out = self.body(input_ids=ids.flatten()[None], position_ids=pos.flatten()[None], attention_mask=mask, use_cache=False,
                        output_hidden_states=True)
        states = torch.cat([out.hidden_states[k][0].index_select(0, state_rows) for k in self.layers], -1)

        def block(carry, of):
            h = out.last_hidden_state.index_select(1, of[0])
            logp = self.head(inputs_embeds=h).logits[0].float().log_softmax(-1)
            return carry.clone(), (-(logp.exp() * logp).sum(-1), logp.gather(1, of[1][:, None])[:, 0])

        return *each(block, (rows, targets)), states


INPUTS = ("ids", "pos", "sees", "branch", "rows", "targets", "state_rows")


def export(scores, path, checkpoint):
    n, C, m, D, k = (torch.export.Dim(name, min=2) for name in "nCmDk")
    some = [torch.arange(24).reshape(3, 8)] * 3 + [torch.full((3, 8), -1)] + [torch.arange(12).reshape(2, 6)] * 2 + [torch.arange(3)]
    try:
        torch.onnx.export(scores, tuple(one.clone() for one in some), path, dynamo=True, external_data=True, verbose=False, opset_version=18,
                          dynamic_shapes=({0: n, 1: C},) * 4 + ({0: m, 1: D},) * 2 + ({0: k},),
                          input_names=INPUTS, output_names=("entropies", "logprobs", "states"))
    except Exception as error:
        refuse(f"{checkpoint}: torch.onnx.export makes no graph of {type(scores.head).__name__}: {str(error).splitlines()[0]}")


# ------ what transformers itself says


def plain(lm, ids, start, hidden=None):
    """Entropies and log p of ids[start:], and the states, by a pass of its own. @param hidden where so many tokens stand that nobody sees"""
    at, more = hidden or (0, 0)
    whole = torch.tensor([ids[:at] + [0] * more + ids[at:]])
    mask = torch.ones_like(whole)
    mask[0, at : at + more] = 0
    out = lm(input_ids=whole, use_cache=False, output_hidden_states=True, **({"attention_mask": mask} if more else {}))
    seen = mask[0].bool()
    logp = out.logits[0, seen].float().log_softmax(-1)[start - 1 : -1]
    return -(logp.exp() * logp).sum(-1), logp.gather(1, torch.tensor(ids[start:])[:, None])[:, 0], [h[0, seen] for h in out.hidden_states]


def truth(lm, trace):
    """A trace as canary.json has it."""
    ids = trace["ids"]
    said = {name: digits(each) for name, each in zip(("entropies", "logprobs"), plain(lm, ids, trace["promptLength"]))}
    branches = []
    for one in trace["branches"]:
        gap = "gap" in one and (one["exit"] + one["gap"]["before"], one["gap"]["tokens"])
        scored = plain(lm, ids[: one["exit"]] + one["ids"], one["exit"] + one["scoredFrom"], gap)[1]
        branches.append({**one, "logprobs": digits(scored)})
    return {**trace, **said, "branches": branches}


def digits(numbers):
    return [float(f"{number:.8g}") for number in numbers.tolist()]


def canary(lm, sizes):
    draw = random.Random(1)
    ids = [draw.randrange(sizes["vocab"]) for _ in range(min(256, sizes["maxTokens"] - 8))]
    other = [draw.randrange(sizes["vocab"]) for _ in range(6)]
    far = min(sizes["maxTokens"], 1000) - 6 - len(ids)
    gap = {"gap": {"before": 1, "tokens": far}} if far > 0 else {}

    def trace(length, prompt, *branches):
        asked = [{"exit": at, "ids": other, "scoredFrom": 1, **more} for at, more in branches]
        return truth(lm, {"ids": ids[:length], "promptLength": prompt, "branches": asked})

    half = len(ids) // 2
    long = trace(len(ids), max(1, len(ids) - 64), (half, {}), (len(ids), gap))
    return [{"split": False, "traces": [trace(40, 1, (20, {}), (40, {})), trace(3, 2, (3, {}))]}, {"split": True, "traces": [long]}]


def tried(lm, checkpoint):
    """Where the table stands for the family's masks. Windows are short while that is tried: none is out of reach of a short trace."""
    family, config = type(lm).__name__, text_config(lm)
    rope = getattr(config, "rope_parameters", None) or {}
    for each_rope in (rope, *(one for one in rope.values() if isinstance(one, dict))):
        if each_rope.get("rope_type") in ("dynamic", "longrope"):
            refuse(f"{checkpoint}: {family}: its rope type {each_rope['rope_type']} changes with the length of the whole, which a graph cannot")
    kept = {name: getattr(config, name) for name in ("sliding_window", "attention_chunk_size") if getattr(config, name, None)}
    vars(config).update({name: 20 for name in kept})
    draw = random.Random(2)
    ids, *others = ([draw.randrange(config.vocab_size) for _ in range(length)] for length in (90, 7, 9, 8, 7))
    exits, layers, why = (1, 30, 70, 90), state_layers(lm), []
    try:
        own = plain(lm, ids, 2)
        expected = torch.cat([own[1], *(plain(lm, ids[:at] + other, at + 1)[1] for at, other in zip(exits, others))])
        states = torch.cat([own[2][k][[0, 29]] for k in layers], -1)
        lm.set_attn_implementation("rredcot")
        feeds, scored = packed(ids, 2, list(zip(exits, others)))
        for form in ("by layer", "full", "near"):
            try:
                _, found, its = Scores(lm, form, layers).eval()(*feeds, torch.tensor([0, 29]))
                off = (found.flatten()[:scored] - expected).abs().max().item()
                if off < OFF and (its - states).abs().max() < OFF * max(1, states.abs().max()):
                    return form
                why.append(f"it is {off:.2g} nats off")
            except Exception as error:  # each model has its own way to say that it takes no such mask
                why.append(str(error).splitlines()[0] if str(error) else type(error).__name__)
    except Exception as error:
        why.append(str(error).splitlines()[0] if str(error) else type(error).__name__)
    finally:
        vars(config).update(kept)
        lm.set_attn_implementation("eager")
    refuse(f"{checkpoint}: {family} does not keep branches of a trace apart, as layers with a state do not: {why[-1]}")


def packed(ids, start, branches):
    """Inputs of the graph, blocks of 16 rows; and how many are scored."""
    rows = [(id, at, at + 1, -1) for at, id in enumerate(ids)]
    asked = [(at - 1, ids[at]) for at in range(start, len(ids))]
    for number, (exit, own) in enumerate(branches):
        asked += [(len(rows) + at, id) for at, id in enumerate(own[1:])]
        rows += [(id, exit + at, exit, number) for at, id in enumerate(own)]
    scored = len(asked)
    rows += [(0, 0, 0, len(branches))] * (-len(rows) % 16)
    asked += [(0, 0)] * (-scored % 16)
    return [torch.tensor(one).reshape(-1, 16) for one in (*zip(*rows), *zip(*asked))], scored


# ------ files and the program


def program(*words):
    done = subprocess.run(_node.command(words), env=_node.environment(), capture_output=True, text=True, encoding="utf8")
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        sys.exit(done.returncode)
    return done.stderr.splitlines()


def refuse(what, hint="--tokenizer-only of rredcot policy build, and an engine answers (docs/engines.md)"):
    print(f"rredcot.export: {what}\nhint: {hint}", file=sys.stderr)
    sys.exit(2)


def write(path, value):
    with open(path, "w", encoding="utf8") as file:
        file.write(json.dumps(value) + "\n")


def sha256(path):
    with open(path, "rb") as file:
        found = hashlib.sha256()
        while block := file.read(2**20):
            found.update(block)
        return found.hexdigest()


if __name__ == "__main__":
    main()
