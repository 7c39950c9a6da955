"""prime-rl's own GRPO on a group of its Traces, scored as it is sampled. Its package is in no registry: RREDCOT_PRIME_RL names a checkout."""
import asyncio
import json

import pytest
from conftest import POLICY, checkout

checkout("PRIME_RL", "src", "packages/prime-rl-configs/src")
import verifiers.v1 as vf  # noqa: E402
from prime_rl.configs.algorithm import GRPOAlgoConfig  # noqa: E402
from prime_rl.orchestrator.algo import build_algorithm  # noqa: E402
from verifiers.v1.episode import Episode  # noqa: E402
from verifiers.v1.graph import MessageNode  # noqa: E402
from verifiers.v1.task import WireTaskData  # noqa: E402
from verifiers.v1.trace import AgentInfo, Reward, Trace, TraceTask  # noqa: E402

import rredcot  # noqa: E402
import rredcot.prime_rl  # noqa: E402


def node(parent, ids, sampled, scaffold=0):
    """The assistant's begins with what the template wrote."""
    message = (vf.AssistantMessage if sampled else vf.UserMessage)(content="x")
    mask = [False] * scaffold + [sampled] * (len(ids) - scaffold)
    return MessageNode(parent=parent, message=message, token_ids=ids, mask=mask, sampled=sampled)


def trace(row, kind="one turn"):
    prompt, completion = row["prompt_ids"], row["completion_ids"]
    half = len(completion) // 2
    first = completion if kind == "one turn" else completion[:half]
    nodes = [node(None, prompt[:-1], False), node(0, prompt[-1:] + first, True, 1)]
    if kind != "one turn":
        nodes += [node(1, [10, 11], False), node(0 if kind == "branches" else 2, completion[half:], True)]
    agent = AgentInfo.model_construct(config=None, trainable=True, name="agent")
    task = TraceTask.model_construct(type="T", data=WireTaskData(answer=row["answer"]))
    return Trace.model_construct(id=row["id"], task=task, agent=agent, nodes=nodes, rewards={"right": Reward(score=float(row["reward"]))}, ok=True)


@pytest.mark.parametrize("kind", ["stored", "live"])
def test_a_group_s_advantages_are_its_own_times_the_weights(kind, scored, rows, monkeypatch):
    monkeypatch.setenv("RREDCOT", json.dumps({"scored": str(scored)} if kind == "stored" else {"policy": str(POLICY)}))
    rredcot.prime_rl.of_environment.cache_clear()
    group = rows[8:16]
    kinds = ["one turn"] * 8 if kind == "stored" else ["one turn"] * 6 + ["two turns", "branches"]
    traces = [trace(*each) for each in zip(group, kinds)]
    episodes = [Episode.model_construct(id=each.id, task=each.task, traces=[each], ok=True) for each in traces]
    asyncio.run(build_algorithm(GRPOAlgoConfig(), None).finalize_group(episodes))
    mean = sum(row["reward"] for row in group) / len(group)
    found = [[value for each in one.nodes for value in each.advantages or []] for one in traces]
    for row, own, kind_of in zip(group, found, kinds):
        value = row["reward"] - mean
        assert value != 0
        if kind_of == "branches":
            assert own == pytest.approx([value] * len(row["completion_ids"]), abs=1e-6)
            continue
        sigma = row["sigma"]
        if kind_of == "two turns":
            half = len(sigma) // 2
            ids, mask = row["completion_ids"][:half] + [10, 11] + row["completion_ids"][half:], [1] * half + [0, 0] + [1] * (len(sigma) - half)
            asked = {"prompt_ids": row["prompt_ids"], "completion_ids": ids, "completion_mask": mask, "reference": row["answer"], "reward": row["reward"]}
            [sigma] = rredcot.score([asked], policy=POLICY, baseline=0.5, estimator="pr")["sigma"].to_pylist()
            assert sigma[half : half + 2] == [0, 0]
            sigma = sigma[:half] + sigma[half + 2 :]
        assert own == pytest.approx([value * each * len(row["completion_ids"]) for each in sigma], abs=1e-4)
        assert max(own) - min(own) > 1e-3
