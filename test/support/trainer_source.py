"""The examples on what runs of the trainers' own code without the rest of it: trainer_source.py <scratch> <tinker rows> <checkout>…

Definitions are taken out of a checkout at the commit of its record, by name, and run on PyTorch; what they call of GPUs, clusters and
configurations is put in place here. Nothing of theirs is in this repository. One JSON object: what came of each trainer.
"""
import ast
import asyncio
import collections
import dataclasses
import enum
import importlib
import itertools
import json
import os
import subprocess
import sys
import types

import torch

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
sys.path.insert(0, EXAMPLES)
sys.path.insert(0, os.path.join(EXAMPLES, "hooks"))

import record  # noqa: E402
import stand_ins  # noqa: E402
from stand_in import StandIn, record_of  # noqa: E402

ROWS = stand_ins.ROWS


class Source:
    """A checkout, at the commit of its trainer's record."""

    def __init__(self, checkout, commit):
        self.checkout, self.commit = checkout, commit

    def text(self, path):
        found = subprocess.run(["git", "-C", self.checkout, "show", f"{self.commit}:{path}"], capture_output=True, encoding="utf-8", check=True)
        return found.stdout

    def take(self, path, names, scope):
        """Runs definitions of a file in `scope`, without their decorators, but for classes'. @returns the last one"""
        tree = ast.parse(self.text(path))
        for name in names:
            node = record.definition(tree, name)
            if not isinstance(node, ast.ClassDef):
                node.decorator_list = []
            future = ast.parse("from __future__ import annotations")
            exec(compile(ast.Module([*future.body, node], []), path, "exec"), scope)  # noqa: S102
        return scope[names[-1].rpartition(".")[2]]


class Config(dict):
    """A configuration with `get`, and attributes."""

    def __getattr__(self, name):
        return self.get(name)


def verl(source, scratch):
    hook = StandIn(record_of("verl"))
    store = stand_ins.Store("keys", "partition_id", "select_fields", "fields")

    class DataProto:
        def __init__(self, batch, non_tensor_batch=None):
            self.batch, self.non_tensor_batch = batch, non_tensor_batch or {}

        def __len__(self):
            return len(self.batch["response_mask"])

        def select_idxs(self, places):
            others = {name: [values[i] for i in places] for name, values in self.non_tensor_batch.items()}
            return DataProto(stand_ins.Table({name: values[places] for name, values in self.batch.items()}), others)

    class Numpy:
        """What verl's code takes of numpy there: lists of texts."""

        ndarray = list
        array = staticmethod(lambda values, dtype: list(values))

    estimators = {}
    scope = {
        **{"torch": torch, "np": Numpy, "tq": types.SimpleNamespace(kv_batch_get=store.get, kv_batch_put=store.put), "DataProto": DataProto},
        **{"defaultdict": collections.defaultdict, "TensorDict": lambda columns, batch_size: stand_ins.Table(columns), "Enum": enum.Enum},
        **{"ADV_ESTIMATOR_REGISTRY": estimators, "TRAINER_REGISTRY": {}, "AlgoConfig": dict},
    }
    core = "verl/trainer/ppo/core_algos.py"
    names = ("AdvantageEstimator", "register_adv_est", "get_adv_estimator_fn", "compute_grpo_outcome_advantage")
    source.take(core, names, scope)
    algos = types.SimpleNamespace(**{name: scope[name] for name in names})
    scope["core_algos"] = algos
    plain = source.take("verl/trainer/ppo/ray_trainer.py", ["compute_advantage"], scope)
    source.take("verl/trainer/ppo/v1/utils.py", ["compute_advantage_for_multi_trajectories"], scope)
    source.take("verl/workers/utils/padding.py", ["response_to_nested"], scope)
    base = "verl/trainer/ppo/v1/trainer_base.py"
    method = source.take(base, ["PPOTrainer._compute_advantage"], scope)

    def init(self, config):
        assert config.trainer.v1.trainer_mode == "sync"
        self.config = config

    trainer = type("PPOTrainer", (), {"__init__": init, "_compute_advantage": method})
    scope["PPOTrainer"] = trainer
    register = source.take(base, ["register_trainer"], scope)
    hook.put("transfer_queue", kv_batch_get=store.get, kv_batch_put=store.put)
    hook.put("verl.utils.tensordict_utils", get_tensordict=stand_ins.Table)
    hook.put("verl.trainer.ppo.v1", PPOTrainerSync=type("PPOTrainerSync", (trainer,), {}), register_trainer=register)
    hook.put("verl.trainer.ppo.core_algos", **vars(algos))
    hook.put("verl.trainer.ppo.ray_trainer", compute_advantage=plain)
    output = hook.fields("verl/experimental/agent_loop/agent_loop.py", "AgentLoopOutput")
    hook.put("verl.experimental.agent_loop.agent_loop", AgentLoopBase=object, AgentLoopOutput=output)
    try:
        example = importlib.import_module("verl_sigma")
        outputs = [asyncio.run(example.Replay().run({}, **row)) for row in ROWS]
        for n, each in enumerate(outputs):
            scores = torch.zeros(len(each.response_ids))
            scores[-1] = each.reward_score
            store.rows[f"{n}_0_0"] = {
                **{"uid": f"{n}", "extra_fields": each.extra_fields, "response_mask": torch.tensor(each.response_mask)},
                **{"rm_scores": scores, "old_log_probs": torch.tensor(each.response_logprobs)},
            }
        mask = {"response_mask": torch.zeros(1, dtype=torch.long), "rm_scores": torch.zeros(1), "old_log_probs": torch.zeros(1)}
        store.rows["pad_0_0"] = {**store.rows["0_0_0"], **mask, "uid": "pad"}
        config = types.SimpleNamespace(
            trainer=types.SimpleNamespace(v1=types.SimpleNamespace(trainer_mode="rredcot")),
            algorithm=Config(adv_estimator="grpo", norm_adv_by_std_in_grpo=False, gamma=1.0, lam=1.0),
            actor_rollout_ref=types.SimpleNamespace(rollout=types.SimpleNamespace(n=1)),
        )
        made = scope["TRAINER_REGISTRY"]["rredcot"](config)

        class Batch:
            keys, tags, partition_id = list(store.rows), [{}, {}, {"is_padding": True}], "train"

            def __len__(self):
                return len(self.keys)

        scope["tq"].kv_batch_put = lambda **options: (store.put(**options), Batch())[1]
        made._compute_advantage(Batch(), {})
        v1 = [store.rows[key]["advantages"].tolist() for key in Batch.keys]
        width = 3
        rewards = torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
        older = DataProto(
            {"token_level_rewards": rewards, "response_mask": stand_ins.padded([each.response_mask for each in outputs], width)},
            {"uid": [0, 1], "sigma": [row["sigma"] for row in ROWS], "group": ["g", "g"]},
        )
        sys.modules["verl.trainer.ppo.ray_trainer"].compute_advantage(older, adv_estimator="grpo_sigma", config=Config(norm_adv_by_std_in_grpo=False))
    finally:
        hook.gone("verl_sigma")
    return {"v1": v1, "older": older.batch["advantages"].tolist(), "estimators": sorted(estimators)}


def openrlhf(source, scratch):
    hook = StandIn(record_of("openrlhf"))
    path = "openrlhf/trainer/ppo_utils/experience_maker.py"
    scope = {"torch": torch, "itertools": itertools, "apply_length_penalties": lambda experiences, args: None}
    source.take("openrlhf/models/utils.py", ["compute_reward"], scope)
    names = ("compute_advantages_and_returns", "get_cumulative_returns")
    maker = type("Maker", (), {name: source.take(path, [f"RemoteExperienceMaker.{name}"], scope) for name in names})
    hook.put("openrlhf.trainer.ppo_utils.experience_maker", RemoteExperienceMaker=maker)
    hook.put("openrlhf.utils.agent", AgentExecutorBase=object)
    stand_ins.write_rows(scratch)
    found = {}
    try:
        example = importlib.import_module("openrlhf_sigma")
        example.install()
        for estimator in ("dr_grpo", "reinforce_baseline"):
            made = maker()
            advantage = types.SimpleNamespace(estimator=estimator, gamma=1.0, lambd=1.0, no_std_norm=True)
            args = types.SimpleNamespace(
                rollout=types.SimpleNamespace(n_samples_per_prompt=2),
                algo=types.SimpleNamespace(advantage=advantage),
                reward=types.SimpleNamespace(clip_range=None),
            )
            made.strategy, made.advantage_estimator = types.SimpleNamespace(args=args), estimator
            made.kl_ctl = types.SimpleNamespace(value=0.0)

            def experience(n, row):
                tokens = row["prompt_ids"] + row["completion_ids"]
                mask = torch.tensor([[0] * (len(row["prompt_ids"]) - 1) + [1] * len(row["completion_ids"])])
                return types.SimpleNamespace(
                    **{"sequences": torch.tensor([tokens]), "attention_mask": torch.ones(1, len(tokens)), "action_mask": mask},
                    **{"rewards": torch.tensor([row["reward"]]), "kl": torch.zeros(mask.shape), "index": [n], "info": {}, "values": None},
                )

            done = made.compute_advantages_and_returns([experience(n, row) for n, row in enumerate(ROWS)])
            found[estimator] = [each.advantages.tolist()[0] for each in done]
    finally:
        hook.gone("openrlhf_sigma")
    return found


def slime(source, scratch):
    hook = StandIn(record_of("slime"))
    cp = "slime/backends/megatron_utils/cp_utils.py"
    place = {"size": 1, "rank": 0}
    mpu = types.SimpleNamespace(
        get_context_parallel_rank=lambda: place["rank"],
        get_context_parallel_world_size=lambda: place["size"],
        is_pipeline_last_stage=lambda: True,
    )
    scope = {"torch": torch, "mpu": mpu, "logging": None}
    cutting = ["get_logits_and_tokens_offset_with_cp", "slice_log_prob_with_cp", "get_sum_of_sample_mean"]
    source.take(cp, cutting, scope)
    hook.put("slime.backends.megatron_utils.cp_utils", slice_log_prob_with_cp=scope["slice_log_prob_with_cp"])
    kinds = {**vars(dataclasses), "Enum": enum.Enum, "torch": torch, "__name__": "slime.utils.types"}
    hook.put("slime.utils.types")
    vars(sys.modules["slime.utils.types"])["Sample"] = source.take("slime/utils/types.py", ["Sample"], kinds)
    stand_ins.write_rows(scratch)
    try:
        example = importlib.import_module("slime_sigma")
        example.write_rollouts(scratch, scratch + ".slime", 1)
        loading = {"torch": torch, "Sample": kinds["Sample"]}
        load = source.take("slime/observability/rollout_data_utils.py", ["load_debug_rollout_data"], loading)
        samples = load(scratch + ".slime/{rollout_id}.pt", rollout_id=0)
        manager = types.SimpleNamespace(
            args=Config(advantage_estimator="grpo", rewards_normalization=True, n_samples_per_prompt=2, rollout_batch_size=1, reward_key=None),
            custom_reward_post_process_func=None,
        )
        _, rewards = source.take("slime/ray/rollout.py", ["RolloutManager._post_process_rewards"], scope)(manager, samples)
        scope["load_function"] = lambda path: getattr(example, path.rpartition(".")[2])
        compute = source.take("slime/backends/megatron_utils/loss.py", ["compute_advantages_and_returns"], scope)
        args = Config(custom_advantage_function_path="slime_sigma.advantages", kl_coef=0)
        lengths, totals = [each.response_length for each in samples], [len(each.tokens) for each in samples]
        found, losses = {}, {}
        for size in (1, 2):
            place["size"] = size
            pieces, loss = [], 0.0
            for place["rank"] in range(size):
                logprobs = [scope["slice_log_prob_with_cp"](torch.tensor(each.rollout_log_probs), t, n) for each, t, n in zip(samples, totals, lengths)]
                data = {
                    **{"tokens": [torch.tensor(each.tokens) for each in samples], "rewards": rewards, "log_probs": logprobs},
                    **{"response_lengths": lengths, "total_lengths": totals, "loss_masks": [torch.ones(n) for n in lengths]},
                }
                compute(args, data)
                reduce = scope["get_sum_of_sample_mean"](totals, lengths, data["loss_masks"])
                loss += reduce(torch.cat([a * p for a, p in zip(data["advantages"], logprobs)])).item()
                pieces.append([row.tolist() for row in data["advantages"]])
            found[size], losses[size] = pieces, loss
        place.update(size=1, rank=0)
    finally:
        hook.gone("slime_sigma")
    return {"rewards": rewards, "advantages": found, "losses": losses}


def prime_rl(source, scratch):
    hook = StandIn(record_of("prime-rl"))
    algo = "src/prime_rl/orchestrator/algo"
    scope = {"torch": torch}
    assign = source.take(f"{algo}/routing.py", ["assign_advantages"], scope)
    iterate = source.take(f"{algo}/base.py", ["iter_trainable_traces"], scope)
    score = source.take(f"{algo}/grpo.py", ["GRPOAlgorithm.score_group"], scope)
    grpo = type("GRPOAlgorithm", (), {"score_group": score, "length_penalty": None})
    hook.put("prime_rl.orchestrator.algo", GRPOAlgorithm=grpo, ALGORITHM_CLASSES={"grpo": grpo}, assign_advantages=assign)
    hook.put("prime_rl.orchestrator.algo.base", iter_trainable_traces=iterate)

    def trace(row):
        def node(parent, ids, mask):
            return types.SimpleNamespace(parent=parent, token_ids=ids, mask=mask, advantages=None)

        completion = row["completion_ids"]
        nodes = [node(None, row["prompt_ids"], [False] * 2), node(0, [4, *completion], [False] + [True] * len(completion))]
        task = types.SimpleNamespace(data=types.SimpleNamespace())
        agent = types.SimpleNamespace(trainable=True)
        return types.SimpleNamespace(id=str(row["reward"]), nodes=nodes, reward=row["reward"], task=task, agent=agent, has_error=False)

    # σ of the rows by their place in the file that it reads
    sigmas = {str(row["reward"]): row["sigma"] for row in ROWS}
    program = "import json, sys\nfor row in map(json.loads, sys.stdin): print(json.dumps({'id': row['id'], 'sigma': json.loads(sys.argv[1])[row['id']]}))"
    with open(scratch + ".py", "w", encoding="utf-8") as file:
        file.write(program)
    os.environ["RREDCOT_SCORE"] = f"{sys.executable} {scratch}.py '{json.dumps(sigmas)}'"
    try:
        importlib.import_module("prime_rl_sigma")
        algorithm = sys.modules["prime_rl.orchestrator.algo"].ALGORITHM_CLASSES["grpo"]()
        traces = [trace(row) for row in ROWS]
        asyncio.run(algorithm.score_group([types.SimpleNamespace(traces=[each]) for each in traces]))
    finally:
        hook.gone("prime_rl_sigma")
    return {"advantages": [each.nodes[1].advantages for each in traces]}


def skyrl(source, scratch, tinker):
    with open(tinker, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    scope = {"torch": torch}
    loss_of = source.take("skyrl/backends/skyrl_train/utils/ppo_utils.py", ["importance_sampling_loss"], scope)
    found = {"loss": [], "gradient": [], "expected": []}
    for row in rows:
        old = torch.tensor(row["logprobs"])
        new = old.clone().requires_grad_()
        # without `weights` every place has one
        loss, _ = loss_of(new, old, torch.tensor(row["advantages"]), None, torch.ones(len(old)))
        loss.backward()
        found["loss"].append(loss.item())
        found["gradient"].append(new.grad.tolist())
        found["expected"].append([-advantage for advantage in row["advantages"]])
    return found


def main(scratch, tinker, *checkouts):
    checks = {
        "verl": lambda source: verl(source, scratch),
        "openrlhf": lambda source: openrlhf(source, scratch),
        "slime": lambda source: slime(source, scratch),
        "prime-rl": lambda source: prime_rl(source, scratch),
        "skyrl": lambda source: skyrl(source, scratch, tinker),
    }
    found = {}
    for checkout in checkouts:
        trainer = record.trainer_of(checkout)
        commit = record_of(trainer)["commit"]
        if trainer in checks:
            found[trainer] = checks[trainer](Source(checkout, commit))
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
