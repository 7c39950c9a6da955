"""The examples for trainers that no test can install, on stand-ins: modules in their place, with the signatures and fields of its record in
examples/hooks, which `npm run hooks` compares with a checkout. A call that does not fit them is an error, as it would be in the trainer.
"""
import asyncio
import importlib
import inspect
import json
import os
import sys
import types

import torch

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
ROWS = [
    {"id": "i", "prompt": "p", "completion": "c", "group": "g", "reward": r, "prompt_ids": [1, 2], "completion_ids": c, "logprobs": lp, "sigma": s}
    for r, c, lp, s in ((1.0, [7, 8, 9], [-1.0, -2.0, -3.0], [0.5, -0.25, 0.75]), (0.0, [5], [-0.5], [1.0]))
]


class StandIn:
    """The modules of one trainer. `put` is to be called before the example is imported, `gone` after."""

    def __init__(self, trainer):
        with open(os.path.join(EXAMPLES, "hooks", f"{trainer}.json"), encoding="utf-8") as file:
            self.source = json.load(file)["source"]
        self.made = set()

    def function(self, path, name, body):
        """A function of the recorded signature; `body` gets what it was called with, each argument by its recorded name."""
        signature = self.source[path][name]["signature"]
        word, wait = ("async ", "await ") if signature.startswith("async ") else ("", "")
        scope = {"body": body}
        text = f"{word}def made{signature.removeprefix('async ')}:\n    return {wait}body(**locals())\n"
        exec(compile("from __future__ import annotations\n" + text, path, "exec"), scope)  # noqa: S102
        return scope["made"]

    def fields(self, path, name):
        """A class that is made of its recorded fields, by keyword, as a dataclass or a pydantic model is."""
        fact = self.source[path][name]

        def init(self, **values):
            unknown, missing = set(values) - set(fact["fields"]), set(fact["required"]) - set(values)
            if unknown or missing:
                raise TypeError(f"{path}: {name} has no {sorted(unknown)} and needs {sorted(missing)}")
            vars(self).update(values)

        return type(name, (), {"__init__": init})

    def put(self, module, **members):
        """A module, and its parents, where `import` finds them."""
        parts = module.split(".")
        for n in range(1, len(parts) + 1):
            path = ".".join(parts[:n])
            if path not in sys.modules:
                sys.modules[path] = types.ModuleType(path)
                self.made.add(path)
                if n > 1:
                    setattr(sys.modules[".".join(parts[: n - 1])], parts[n - 1], sys.modules[path])
        vars(sys.modules[module]).update(members)

    def gone(self, example):
        for name in (*self.made, example):
            sys.modules.pop(name, None)


def error(action):
    try:
        action()
    except ValueError as raised:
        return str(raised)
    return None


def padded(lists, width):
    return torch.tensor([list(each) + [0] * (width - len(each)) for each in lists])


def write_rows(path):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in ROWS)
    os.environ["RREDCOT_SCORED"] = path


def openrlhf(scratch):
    hook = StandIn("openrlhf")
    maker_path, agent_path = "openrlhf/trainer/ppo_utils/experience_maker.py", "openrlhf/utils/agent.py"
    method = "RemoteExperienceMaker.compute_advantages_and_returns"

    def compute(self, experiences):
        for experience, advantage in zip(experiences, (0.5, -0.5)):
            experience.advantages = advantage * experience.action_mask.float()
        return experiences

    maker = type("RemoteExperienceMaker", (), {"compute_advantages_and_returns": hook.function(maker_path, method, compute)})
    execute = hook.function(agent_path, "AgentExecutorBase.execute", lambda **_: None)
    hook.put("openrlhf.trainer.ppo_utils.experience_maker", RemoteExperienceMaker=maker)
    hook.put("openrlhf.utils.agent", AgentExecutorBase=type("AgentExecutorBase", (), {"execute": execute}))
    experience_of = hook.fields("openrlhf/trainer/ppo_utils/experience.py", "Experience")
    write_rows(scratch)
    try:
        example = importlib.import_module("openrlhf_sigma")
        example.install()
        executor = example.AgentExecutor()
        asked = list(inspect.signature(execute).parameters)
        if list(inspect.signature(type(executor).execute).parameters) != asked:
            raise TypeError(f"the executor's execute has other parameters than {asked}")
        responses = [asyncio.run(executor.execute("p", "g", None, 100, None, None)) for _ in range(3)]
        for response in responses:
            if set(response) != set(hook.source[agent_path]["SingleTurnAgentExecutor.execute"]["names"]):
                raise KeyError(f"the executor gives {sorted(response)}")

        def experience(tokens, start, end):
            """As OpenRLHF makes it: actions count from the second token."""
            acts = [int(start <= at < end) for at in range(len(tokens))]
            # one place of padding, as beside a longer trace
            return experience_of(
                sequences=torch.tensor([tokens + [0]]), attention_mask=torch.tensor([[1] * len(tokens) + [0]]), action_mask=torch.tensor([acts[1:] + [0]])
            )

        done = maker().compute_advantages_and_returns([experience(each["observation_tokens"], *each["action_ranges"][0]) for each in responses[:2]])
        label = error(lambda: asyncio.run(executor.execute("p", "h", None, 100, None, None)))
        unknown = error(lambda: maker().compute_advantages_and_returns([experience([1, 2, 3], 2, 3)]))
        given = []
        ray = types.SimpleNamespace(init=lambda *, runtime_env: given.append(runtime_env))
        ray.init = example.in_every_worker(ray.init)
        ray.init(runtime_env={"env_vars": {"NCCL_DEBUG": "WARN"}})
    finally:
        hook.gone("openrlhf_sigma")
    return {
        "advantages": [each.advantages.tolist()[0] for each in done],
        "rewards": [response["reward"] for response in responses],
        "log_probs": responses[0]["rollout_log_probs"],
        "label": label,
        "unknown": unknown,
        "environment": given,
    }


def slime(scratch):
    hook = StandIn("slime")
    cp, kinds = "slime/backends/megatron_utils/cp_utils.py", "slime/utils/types.py"
    halves = [False]

    def cut(log_prob, total_length, response_length):
        assert len(log_prob) == response_length < total_length
        return log_prob[: response_length // 2] if halves[0] else log_prob

    sample = hook.fields(kinds, "Sample")
    sample.Status = types.SimpleNamespace(COMPLETED="completed")
    sample.to_dict = hook.function(kinds, "Sample.to_dict", lambda self: dict(vars(self)))
    hook.put("slime.backends.megatron_utils.cp_utils", slice_log_prob_with_cp=hook.function(cp, "slice_log_prob_with_cp", cut))
    hook.put("slime.utils.types", Sample=sample)
    write_rows(scratch)
    try:
        example = importlib.import_module("slime_sigma")
        rollouts, size = example.write_rollouts(scratch, scratch + ".slime", 1)
        with open(os.path.join(scratch + ".slime", "0.pt"), "rb") as file:
            saved = torch.load(file, weights_only=False)
        if list(saved) != ["rollout_id", "samples"]:
            raise KeyError(f"a rollout has {list(saved)}")
        samples = saved["samples"]

        def advantages(tokens=None):
            lengths = [each["response_length"] for each in samples]
            data = {
                "tokens": [torch.tensor(tokens or each["tokens"]) for each in samples],
                "rewards": [0.5, -0.5],
                "response_lengths": lengths,
                "total_lengths": [len(each["tokens"]) for each in samples],
                "kl": [torch.zeros(length // 2 if halves[0] else length) for length in lengths],
            }
            example.advantages(types.SimpleNamespace(), data)
            assert data["returns"] is data["advantages"]
            return [row.tolist() for row in data["advantages"]]

        whole = advantages()
        unknown = error(lambda: advantages([1, 2, 3]))
        halves[0] = True
        cut_in_two = advantages()
    finally:
        hook.gone("slime_sigma")
    return {"rollouts": rollouts, "size": size, "samples": samples, "advantages": whole, "halves": cut_in_two, "unknown": unknown}


def prime_rl(rows):
    """`rows` are traces of one group, as `score` takes them; the command that scores is in RREDCOT_SCORE."""
    hook, graph = StandIn("prime-rl"), StandIn("verifiers")
    base, routing, grpo = (f"src/prime_rl/orchestrator/algo/{name}.py" for name in ("base", "routing", "grpo"))

    def node(parent, ids, sampled):
        return types.SimpleNamespace(parent=parent, token_ids=ids, mask=[sampled] * len(ids), advantages=None)

    def trace(n, row):
        assistant = node(0, list(row["completion_ids"]), True)  # the row keeps its own
        # the last of the prompt's ids is the scaffold of the assistant's turn
        assistant.token_ids.insert(0, row["prompt_ids"][-1])
        assistant.mask.insert(0, False)
        turns = [node(None, row["prompt_ids"][:-1], False), assistant]
        if n == len(rows) - 1:  # a trace of two turns
            turns += [node(1, [1], False), node(2, [2], True)]
        reward = property(graph.function("verifiers/v1/trace.py", "Trace.reward", lambda self: row["reward"]))
        made = type("Trace", (), {"reward": reward})()
        task = types.SimpleNamespace(data=types.SimpleNamespace(answer=row.get("answer")))
        vars(made).update(id=f"t{n}", task=task, nodes=turns)
        return made

    def assign(trace, values):
        own = [each for each in trace.nodes if any(each.mask)]
        total = sum(sum(each.mask) for each in own)
        spread = [float(values)] * total if isinstance(values, float) else list(values)
        assert len(spread) == total
        for each in own:
            each.advantages = spread[: sum(each.mask)]
            del spread[: sum(each.mask)]

    def iterate(episodes):
        return ((episode, each) for episode in episodes for each in episode.traces)

    assign_advantages = hook.function(routing, "assign_advantages", assign)

    async def score_group(self, episodes):
        for _, each in iterate(episodes):
            assign_advantages(each, 0.5 if each.reward > 0 else -0.5)

    algorithm = type("GRPOAlgorithm", (), {"score_group": hook.function(grpo, "GRPOAlgorithm.score_group", score_group)})
    hook.put("prime_rl.orchestrator.algo", GRPOAlgorithm=algorithm, ALGORITHM_CLASSES={"grpo": algorithm}, assign_advantages=assign_advantages)
    hook.put("prime_rl.orchestrator.algo.base", iter_trainable_traces=hook.function(base, "iter_trainable_traces", iterate))
    hook.put("prime_rl.entrypoints.orchestrator", main=hook.function("src/prime_rl/entrypoints/orchestrator.py", "main", lambda: None))
    try:
        importlib.import_module("prime_rl_sigma")
        sys.modules["prime_rl.entrypoints.orchestrator"].main()
        traces = [trace(n, row) for n, row in enumerate(rows)]
        algorithm = sys.modules["prime_rl.orchestrator.algo"].ALGORITHM_CLASSES["grpo"]()
        asyncio.run(algorithm.score_group([types.SimpleNamespace(traces=[each]) for each in traces]))
    finally:
        hook.gone("prime_rl_sigma")
    return {"advantages": [[value for each in one.nodes for value in each.advantages or []] for one in traces]}
