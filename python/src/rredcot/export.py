"""A policy folder of any family that transformers has: `python -m rredcot.export ./checkpoint -o ./policy [flags of policy build]`.

`torch.onnx.export` makes its graph, in float32 for the CPU. Whether a family can be read so is tried before anything is written, and the
canary's numbers are those of transformers' plain passes.
"""
import argparse
import hashlib
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import warnings

from rredcot import _node

try:
    import onnxscript  # noqa: F401 (torch.onnx asks for it at the end)
    import torch
    import transformers

    from rredcot._graph import Scores, export, state_layers, text
except ImportError as error:
    raise SystemExit(f"rredcot.export: {error}: pip install 'rredcot[export]'") from None

OFF = 1e-3  # nats that a plain pass and a packed row may differ by


def main():
    parser = argparse.ArgumentParser(prog="python -m rredcot.export", description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", help="folder that transformers loads")
    parser.add_argument("-o", "--output", required=True, help="policy folder to write")
    given, flags = parser.parse_known_args()
    output = os.path.abspath(given.output)
    if os.path.exists(output):
        refuse(f"{given.output}: is there already", "-o <another folder>")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    lm = load(given.checkpoint)
    form = tried(lm, given.checkpoint)
    os.makedirs(os.path.dirname(output), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(output), prefix=".export-") as folder:
        policy, row = os.path.join(folder, "policy"), os.path.join(folder, "row.jsonl")
        about = program("policy", "build", given.checkpoint, "-o", policy, "--tokenizer-only", *flags)
        write(policy, lm, form, given.checkpoint)
        with open(row, "w", encoding="utf8") as file:
            json.dump({"prompt": "2+2?", "completion": "2+2 is 4.", "reference": "4", "reward": 1}, file)
        # the program opens it as it will ever after: its canary has to hold
        program("score", row, "--policy", policy, "--device", "cpu", "-o", os.path.join(folder, "scored.jsonl"))
        os.rename(policy, output)
    print(*about[:-2], f"graph: {type(lm).__name__}, float32 for the CPU", f"policy folder written to {given.output}", sep="\n", file=sys.stderr)


def load(checkpoint):
    """The model in float32, with the attention that its authors have written out."""
    try:
        config = transformers.AutoConfig.from_pretrained(checkpoint, local_files_only=True)
        if getattr(config, "quantization_config", None):
            raise ValueError("its weights are quantized")
        kind = transformers.AutoModelForCausalLM
        if type(config) not in kind._model_mapping:  # one that also sees
            kind = transformers.AutoModelForImageTextToText
        lm, found = kind.from_pretrained(checkpoint, dtype=torch.float32, attn_implementation="eager", local_files_only=True, output_loading_info=True)
        if lacks := [*found["missing_keys"], *found["mismatched_keys"]]:  # it has drawn them anew
            raise ValueError(f"{len(lacks)} of its tensors are missing or of another shape, such as {sorted(map(str, lacks))[0]}")
        return lm.eval()
    except (OSError, ValueError, ImportError) as error:
        refuse(f"{checkpoint}: transformers does not load it as a language model: {first_line(error)}")


def write(policy, lm, form, checkpoint):
    """The graph, the canary and what policy.json says of them, into a folder that has tokenizer and templates."""
    def at(name):
        return os.path.join(policy, name)

    with open(at("policy.json"), encoding="utf8") as file:
        manifest = json.load(file)
    with open(at("canary.json"), "w", encoding="utf8") as file:
        json.dump({"passes": canary(lm, **manifest["architecture"])}, file)
    try:
        export(Scores(lm, form).eval(), at("policy.onnx"))
    except Exception as error:
        refuse(f"{checkpoint}: torch.onnx.export makes no graph of {type(lm).__name__}: {first_line(error)}")
    versions = ", ".join(f"{each.__name__} {each.__version__}" for each in (transformers, torch))
    manifest["architecture"] |= {"hidden": text(lm).hidden_size, "exported": type(lm).__name__, "by": versions}
    manifest |= {"canary": {"file": "canary.json", "sha256": sha256(at("canary.json"))}, "stateLayers": state_layers(lm)}
    manifest["files"] |= {name: sha256(at(name)) for name in ("policy.onnx", "policy.onnx.data")}
    with open(at("policy.json"), "w", encoding="utf8") as file:
        json.dump(manifest, file, indent=2)


# ------ what transformers itself says


@torch.no_grad()
def plain(lm, ids, start, gap=None):
    """Entropies and log p of ids[start:], by a pass of their own, and hidden states. @param gap where so many tokens stand that nobody sees"""
    at, more = gap or (0, 0)
    whole = torch.tensor([ids[:at] + [0] * more + ids[at:]])
    mask = torch.ones_like(whole)
    mask[0, at : at + more] = 0
    lm.set_attn_implementation("eager")
    out = lm(input_ids=whole, use_cache=False, output_hidden_states=True, **({"attention_mask": mask} if more else {}))
    logp = out.logits[0, mask[0] > 0].float().log_softmax(-1)[start - 1 : -1]
    return -(logp.exp() * logp).sum(-1), logp.gather(1, torch.tensor(ids[start:])[:, None])[:, 0], out.hidden_states


def canary(lm, vocab, maxTokens, **_):
    """As src/model/onnx/canary.ts has it: a short trace, one of three tokens, and one of several blocks, with a branch far behind it."""
    def said(length, prompt, *branches):
        entropies, logprobs, _ = plain(lm, ids[:length], prompt)
        trace = {"ids": ids[:length], "promptLength": prompt, "entropies": entropies.tolist(), "logprobs": logprobs.tolist(), "branches": []}
        for at, far in branches:
            scored = plain(lm, ids[:at] + other, at + 1, far and (at + 1, far))[1]
            gap = {"gap": {"before": 1, "tokens": far}} if far else {}
            trace["branches"].append({"exit": at, "ids": other, "scoredFrom": 1, **gap, "logprobs": scored.tolist()})
        return trace

    ids, other = some_ids(vocab, min(300, maxTokens - 8), 6)
    long = len(ids)
    return [{"split": False, "traces": [said(40, 1, (20, 0), (40, 0)), said(3, 2, (3, 0))]},
            {"split": True, "traces": [said(long, long - 20, (long // 2, 0), (long, max(0, min(maxTokens, 1000) - long - 6)))]}]


def some_ids(vocab, *lengths):
    draw = random.Random(1)
    return [[draw.randrange(vocab) for _ in range(length)] for length in lengths]


def tried(lm, checkpoint):
    """Which masks the table stands for. Windows are short while that is tried, so that none is beyond a short trace."""
    family, config, why = type(lm).__name__, text(lm), []
    ropes = getattr(config, "rope_parameters", None) or {}
    for rope in (ropes, *(one for one in ropes.values() if isinstance(one, dict))):
        if rope.get("rope_type") in ("dynamic", "longrope"):
            refuse(f"{checkpoint}: {family}: rope type {rope['rope_type']} turns every token otherwise where the whole is longer")
    kept = {name: getattr(config, name) for name in ("sliding_window", "attention_chunk_size") if getattr(config, name, None)}
    vars(config).update(dict.fromkeys(kept, 20))
    ids, *others = some_ids(config.vocab_size, 90, 7, 9, 8, 7)
    exits, at = (1, 30, 70, 90), torch.tensor([0, 29])
    try:
        _, own, hidden = plain(lm, ids, 2)
        expected = torch.cat([own, *(plain(lm, ids[:exit] + other, exit + 1)[1] for exit, other in zip(exits, others))])
        states = torch.cat([hidden[k][0, at] for k in state_layers(lm)], -1)
        feeds = packed(ids, 2, zip(exits, others))
        for form in ("by layer", "full", "near"):
            try:
                with torch.no_grad():
                    _, found, its = Scores(lm, form).eval()(*feeds, at)
                off = (found.flatten()[: len(expected)] - expected).abs().max().item()
                if off < OFF and torch.allclose(its, states, OFF, OFF):
                    return form
                why.append(f"packed in one row they are {off:.2g} nats off")
            except Exception as error:  # each model has its own way to say that it takes no such mask
                why.append(first_line(error))
    except Exception as error:
        why.append(first_line(error))
    finally:
        vars(config).update(kept)
    refuse(f"{checkpoint}: {family}: branches of a trace cannot be kept apart, as in layers that have a state or make their own masks ({why[-1]})")


def packed(ids, start, branches):
    """Inputs of the graph in blocks of 16, as src/model/onnx/exported.ts makes them."""
    rows = [(id, at, at + 1, -1) for at, id in enumerate(ids)]
    asked = [(at - 1, ids[at]) for at in range(start, len(ids))]
    for number, (exit, own) in enumerate(branches):
        asked += [(len(rows) + at, id) for at, id in enumerate(own[1:])]
        rows += [(id, exit + at, exit, number) for at, id in enumerate(own)]
    rows += [(0, 0, 0, len(rows))] * (-len(rows) % 16)
    asked += [(0, 0)] * (-len(asked) % 16)
    return [torch.tensor(one).view(-1, 16) for one in (*zip(*rows), *zip(*asked))]


# ------ files and the program


def program(*words):
    done = subprocess.run(_node.command(words), env=_node.environment(), capture_output=True, text=True, encoding="utf8")
    if done.returncode:
        print(done.stderr, end="", file=sys.stderr)
        sys.exit(done.returncode)
    return done.stderr.splitlines()


def refuse(what, way="rredcot policy build --tokenizer-only, and an engine answers (docs/engines.md)"):
    print(f"rredcot.export: {what}\n  try: {way}", file=sys.stderr)
    sys.exit(2)


def first_line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def sha256(path):
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(2**20):
            found.update(block)
    return found.hexdigest()


if __name__ == "__main__":
    main()
