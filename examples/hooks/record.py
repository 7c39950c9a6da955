"""What the examples rely on in a trainer's own source, read from it: record.py [--write] <checkout>…

A checkout is a folder with the source (an installed package's folder will do) or a git repository, whose HEAD is read where it has
no work tree. Prints what has moved since `<trainer>.json` was written and ends with 1 if anything has; --write writes it anew.
`RELIES` says where to look and which names our examples use there; signatures and fields are the source's.
"""
import ast
import json
import os
import subprocess
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))

# trainer → its repository, and path → definition → what an example uses of it: names that occur there ("" is the whole module),
# and "()" where the example has to have, or to call, its very signature, which the tests' stand-ins have.
RELIES = {
    "openrlhf": {
        "repository": "https://github.com/OpenRLHF/OpenRLHF",
        "source": {
            "openrlhf/cli/train_ppo_ray.py": {"train": ["init", "runtime_env"]},
            "openrlhf/trainer/ppo_utils/experience_maker.py": {"RemoteExperienceMaker.compute_advantages_and_returns": ["()", "advantages", "action_mask"]},
            "openrlhf/trainer/ppo_utils/experience.py": {"Experience": ["sequences", "attention_mask", "action_mask", "advantages"]},
            "openrlhf/utils/agent.py": {
                "AgentExecutorBase.execute": ["()"],
                "SingleTurnAgentExecutor.execute": [
                    *("prompt", "label", "images", "mm_train_inputs", "observation_tokens", "action_ranges"),
                    *("rollout_log_probs", "truncated", "reward", "scores", "extra_logs"),
                ],
            },
        },
    },
    "slime": {
        "repository": "https://github.com/THUDM/slime",
        "source": {
            "slime/backends/megatron_utils/loss.py": {"compute_advantages_and_returns": ["custom_advantage_function_path", "advantages", "returns", "kl"]},
            "slime/backends/megatron_utils/cp_utils.py": {"slice_log_prob_with_cp": ["()"]},
            "slime/ray/rollout.py": {
                "RolloutManager._split_train_data_by_dp": ["tokens", "rewards", "response_lengths", "total_lengths"],
                "RolloutManager._get_rollout_data": ["load_debug_rollout_data"],
            },
            "slime/observability/rollout_data_utils.py": {"load_debug_rollout_data": ["rollout_id", "samples"], "save_debug_rollout_data": ["rollout_id", "samples"]},
            "slime/utils/types.py": {
                "Sample": [
                    *("group_index", "index", "prompt", "tokens", "response", "response_length"),
                    *("reward", "rollout_log_probs", "status"),
                ],
                "Sample.Status": ["COMPLETED"],
                "Sample.to_dict": ["()"],
            },
        },
    },
    "prime-rl": {
        "repository": "https://github.com/PrimeIntellect-ai/prime-rl",
        "source": {
            "src/prime_rl/orchestrator/algo/__init__.py": {"": ["ALGORITHM_CLASSES", "grpo", "assign_advantages"]},
            "src/prime_rl/orchestrator/algo/routing.py": {"assign_advantages": ["()", "nodes", "mask", "advantages"]},
            "src/prime_rl/orchestrator/algo/base.py": {"iter_trainable_traces": ["()"]},
            "src/prime_rl/orchestrator/algo/grpo.py": {"GRPOAlgorithm.score_group": ["()"]},
            "src/prime_rl/entrypoints/orchestrator.py": {"main": ["()"]},
            "src/prime_rl/monitors/file.py": {"FileMonitor.log_episodes": ["rollouts", "traces.jsonl"]},
        },
    },
    "verifiers": {
        "repository": "https://github.com/PrimeIntellect-ai/verifiers",
        "source": {
            "verifiers/v1/graph.py": {"MessageNode": ["parent", "token_ids", "mask", "advantages"]},
            "verifiers/v1/trace.py": {"Trace": ["id", "task", "nodes", "rewards"], "Trace.reward": ["()"], "Reward": ["score", "weight"], "TraceTask": ["data"]},
            "verifiers/v1/episode.py": {"Episode": ["task", "group", "traces"], "GroupInfo": ["id"]},
        },
    },
}


def text_of(checkout, path):
    """The file's text, or None."""
    try:
        with open(os.path.join(checkout, path), encoding="utf-8") as file:
            return file.read()
    except OSError:
        return git(checkout, "show", f"HEAD:{path}")


def git(checkout, *words):
    found = subprocess.run(["git", "-C", checkout, *words], capture_output=True, encoding="utf-8", check=False)
    return found.stdout if found.returncode == 0 else None


def definition(tree, name):
    """The function or class of a dotted name, or the module for ""; None where there is none."""
    for part in filter(None, name.split(".")):
        tree = next((node for node in ast.walk(tree) if getattr(node, "name", None) == part and hasattr(node, "body")), None)
        if tree is None:
            return None
    return tree


def names_in(node):
    """Everything that is called something there: names, attributes, keywords, parameters, fields and strings."""
    for each in ast.walk(node):
        for attribute in ("id", "attr", "arg", "name"):
            yield getattr(each, attribute, None)
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield from (each.value, *each.value.strip("/").split("/"))


def fact_of(node, asked):
    """A definition as the record holds it, and the names of `asked` that are not there."""
    names = [name for name in asked if name != "()"]
    found = set(names_in(node))
    fact = {"names": [name for name in names if name in found]}
    if isinstance(node, ast.ClassDef):
        fields = {each.target.id: each for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)}
        fact["fields"] = {name: ast.unparse(each.annotation) for name, each in fields.items() if name in names}
        fact["required"] = [name for name, each in fields.items() if each.value is None]
    if "()" in asked:
        returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        word = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
        fact["signature"] = f"{word}({ast.unparse(node.args)}){returned}"
    return fact, [name for name in names if name not in found]


def record(trainer, checkout):
    """The record of a checkout, and what is not in it, in words."""
    relied = RELIES[trainer]
    commit = git(checkout, "log", "-1", "--format=%H %cs")
    written = {"repository": relied["repository"], "commit": None, "date": None, "source": {}}
    if commit:
        written["commit"], written["date"] = commit.split()
    gone = []
    for path, definitions in relied["source"].items():
        text = text_of(checkout, path)
        if text is None:
            gone.append(f"{path}: is not there")
            continue
        facts = written["source"][path] = {}
        for name, asked in definitions.items():
            node = definition(ast.parse(text), name)
            if node is None:
                gone.append(f"{path}: has no {name}")
                continue
            facts[name], missing = fact_of(node, asked)
            gone.extend(f"{path}: {name or 'the module'} has no {each}" for each in missing)
    return written, gone


def differences(old, new):
    """What differs between two records beside their commits, a line each."""
    for path, definitions in old["source"].items():
        for name, fact in definitions.items():
            now = new["source"].get(path, {}).get(name)
            if now is not None and now != fact:
                for part in fact:
                    if fact[part] != now.get(part):
                        yield f"{path}: {name}: {part} was {fact[part]}, is {now.get(part)}"


def trainer_of(checkout):
    """Whose source it is: the trainer most of whose files are there."""
    found = {trainer: sum(text_of(checkout, path) is not None for path in relied["source"]) for trainer, relied in RELIES.items()}
    best = max(found, key=found.get)
    if found[best] == 0:
        raise SystemExit(f"{checkout}: has no file of {', '.join(RELIES)}, expected a checkout of one of them, or its git directory")
    return best


def main(*words):
    write = "--write" in words
    checkouts = [word for word in words if word != "--write"]
    if not checkouts:
        raise SystemExit("usage: record.py [--write] <checkout>…")
    moved = 0
    for checkout in checkouts:
        trainer = trainer_of(checkout)
        path = os.path.join(FOLDER, f"{trainer}.json")
        new, gone = record(trainer, checkout)
        old = None
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                old = json.load(file)
        lines = gone + (list(differences(old, new)) if old else [])
        known = f" (recorded: {old['commit'][:8]}, {old['date']})" if old else ""
        print(f"{trainer} {(new['commit'] or 'without a commit')[:8]} {new['date'] or ''}{known}: {len(lines) or 'nothing'} moved")
        for line in lines:
            print(f"  {line}")
        moved += len(lines)
        if write and not gone:
            with open(path, "w", encoding="utf-8") as file:
                file.write(json.dumps(new, indent=2, ensure_ascii=False) + "\n")
    return 1 if moved and not write else 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
