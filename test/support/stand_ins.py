"""The examples for trainers that no test can install, each run on stand-ins that are made of its record in examples/hooks."""
import asyncio
import importlib
import inspect
import json
import os
import sys
import types

import torch

from stand_in import StandIn, module_of

ROWS = [
    {"id": "i", "prompt": "p", "completion": "c", "group": "g", "reward": r, "prompt_ids": [1, 2], "completion_ids": c, "logprobs": lp, "sigma": s}
    for r, c, lp, s in ((1.0, [7, 8, 9], [-1.0, -2.0, -3.0], [0.5, -0.25, 0.75]), (0.0, [5], [-0.5], [1.0]))
]


def error(action):
    try:
        action()
    except ValueError as raised:
        return str(raised)
    return None


def padded(lists, width):
    return torch.tensor([list(each) + [0] * (width - len(each)) for each in lists])


class Table(dict):
    """What verl's store gives and takes: columns, jagged where they are tensors."""

    def select(self, *names):
        return Table({name: self[name] for name in names})

    def to_padded_tensor(self):
        is_jagged = {name: isinstance(values, torch.Tensor) and values.is_nested for name, values in self.items()}
        return Table({name: values.to_padded_tensor(0) if is_jagged[name] else values for name, values in self.items()})


class Listed(list):
    def tolist(self):
        return list(self)


class Store:
    """verl's transfer queue, as far as its trainer and our example ask it: rows of fields by key, with the recorded words for that."""

    def __init__(self, keys, partition, select, fields):
        self.words = {"keys": keys, "partition": partition, "select": select, "fields": fields}
        self.rows = {}

    def arguments(self, options, last):
        keys, partition, name = (self.words[word] for word in ("keys", "partition", last))
        if set(options) != {keys, partition, name} or options[partition] != "train":
            raise TypeError(f"the store was asked with {sorted(options)}")
        return options[keys], options[name]

    def get(self, **options):
        keys, select = self.arguments(options, "select")
        columns = {name: [self.rows[key][name] for key in keys] for name in select if name in self.rows[keys[0]]}
        is_tensor = {name: isinstance(values[0], torch.Tensor) for name, values in columns.items()}
        return Table(
            {name: torch.nested.as_nested_tensor(values, layout=torch.jagged) if is_tensor[name] else Listed(values) for name, values in columns.items()}
        )

    def put(self, **options):
        keys, columns = self.arguments(options, "fields")
        for name, values in columns.items():
            for key, value in zip(keys, values.unbind() if isinstance(values, torch.Tensor) else values, strict=True):
                self.rows[key][name] = value


def group_advantages(scores, groups):
    return torch.stack([score - torch.stack([s for s, g in zip(scores, groups) if g == own]).mean() for score, own in zip(scores, groups)])


def verl(dumps, scratch):
    hook = StandIn("verl")
    base, agent, ray_trainer, core = (
        *("verl/trainer/ppo/v1/trainer_base.py", "verl/experimental/agent_loop/agent_loop.py"),
        *("verl/trainer/ppo/ray_trainer.py", "verl/trainer/ppo/core_algos.py"),
    )
    registered, plain = {}, []

    def decorator(kind):
        return lambda name: lambda made: registered.setdefault(f"{kind} {name}", made)

    # the older trainer
    rewards_of, mask_of, advantages_of, returns_of, uid_of = hook.names(ray_trainer, "compute_advantage")

    def grpo(token_level_rewards, response_mask, index, epsilon, norm_adv_by_std_in_grpo, config):
        advantages = group_advantages(token_level_rewards.sum(-1), list(index))[:, None] * response_mask
        return advantages, advantages

    def compute_advantage(data, adv_estimator, gamma, lam, num_repeat, norm_adv_by_std_in_grpo, config):
        plain.append(adv_estimator)

    core_members = {
        "compute_grpo_outcome_advantage": hook.function(core, "compute_grpo_outcome_advantage", grpo),
        "register_adv_est": hook.function(core, "register_adv_est", lambda name_or_enum: decorator("estimator")(name_or_enum)),
        "get_adv_estimator_fn": hook.function(core, "get_adv_estimator_fn", lambda name_or_enum: registered[f"estimator {name_or_enum}"]),
    }
    hook.put(module_of(core), **core_members)
    hook.put(
        module_of(ray_trainer),
        compute_advantage=hook.function(ray_trainer, "compute_advantage", compute_advantage),
        compute_response_mask=hook.function(ray_trainer, "compute_response_mask", lambda data: data.mask),
    )

    # V1: a store of rows by key, and a trainer that reads and writes them
    uid, advantages_v1, get, put, *words = hook.names(base, "PPOTrainer._compute_advantage")
    of_keys, of_partition, of_select, of_fields = words
    padding, *ages = hook.names(base, "PPOTrainer._compute_metrics")
    (extra,) = hook.names(base, "PPOTrainer._validate")
    store = Store(*words)

    def init(self, config):
        (named,) = hook.names(base, "PPOTrainer.__init__")
        (sync,) = hook.names(base, "PPOTrainer._build_replay_buffer")
        if getattr(config.trainer.v1, named) != sync:
            raise ValueError("verl would take its asynchronous replay buffer")

    def v1_advantage(self, batch, metrics):
        rows = [store.rows[key] for key in batch.keys]
        for row, advantage in zip(rows, group_advantages(torch.tensor([row["score"] for row in rows]), [row[uid] for row in rows])):
            row[advantages_v1] = advantage * row["mask"]
        return types.SimpleNamespace(**vars(batch))

    hook.put("transfer_queue", **{get: store.get, put: store.put})
    tensordict = hook.function("verl/utils/tensordict_utils.py", "get_tensordict", lambda tensor_dict, non_tensor_dict: Table(tensor_dict))
    hook.put("verl.utils.tensordict_utils", get_tensordict=tensordict)
    members = {
        "__init__": hook.function(base, "PPOTrainer.__init__", init),
        "_compute_advantage": hook.function(base, "PPOTrainer._compute_advantage", v1_advantage),
    }
    sync_name, register_name = hook.names("verl/trainer/ppo/v1/__init__.py")
    register = hook.function(base, "register_trainer", lambda name: decorator("trainer")(name))
    hook.put("verl.trainer.ppo.v1", **{sync_name: type("PPOTrainerSync", (), members), register_name: register})

    output_of = hook.names(agent, "AgentLoopOutput")
    hook.put(module_of(agent), AgentLoopBase=hook.fields(agent, "AgentLoopBase"), AgentLoopOutput=hook.fields(agent, "AgentLoopOutput"))
    (run,) = hook.names(agent, "AgentLoopWorker._run_agent_loop")

    try:
        example = importlib.import_module("verl_sigma")

        def replayed(rows):
            loop = example.Replay()
            outputs = [asyncio.run(getattr(loop, run)({}, raw_prompt=[], session_id=0, **row)) for row in rows]
            return [dict(zip(output_of, (getattr(output, name) for name in output_of))) for output in outputs]

        def older(outputs, has_mask=True):
            """As verl's older trainer makes a batch of what an agent loop has given back; every row is a prompt of its own."""
            ids, masks, scores, extras = output_of[1], output_of[2], output_of[4], output_of[7]
            width = max(len(output[ids]) for output in outputs)
            rewards = torch.zeros(len(outputs), width)
            for i, output in enumerate(outputs):
                rewards[i, len(output[ids]) - 1] = output[scores]  # where verl puts it
            mask = padded([output[masks] for output in outputs], width)
            data = types.SimpleNamespace(
                batch={rewards_of: rewards, **({mask_of: mask} if has_mask else {})},
                mask=mask,
                non_tensor_batch={uid_of: list(range(len(outputs))), **{name: [output[extras][name] for output in outputs] for name in outputs[0][extras]}},
            )
            sys.modules[module_of(ray_trainer)].compute_advantage(data, adv_estimator="grpo_sigma", config={})
            return data.batch[advantages_of], data.batch[returns_of]

        def newer(outputs):
            """As V1 does: a row a key, filled up with one that trains no token, which has what the first row has."""
            store.rows.clear()
            for n, output in enumerate(outputs):
                fields = {name: output[name] for name in output_of}
                for age in ages:
                    int(fields[output_of[7]][age])
                store.rows[f"{n}_0_0"] = {
                    uid: f"{n}",
                    extra: output[output_of[7]],
                    "score": output[output_of[4]],
                    "mask": torch.tensor(output[output_of[2]]).float(),
                }
            store.rows["pad_0_0"] = {**store.rows["0_0_0"], uid: "pad", "score": 0.0, "mask": torch.zeros(1)}
            tags = [{} for _ in outputs] + [{padding: True}]
            batch = types.SimpleNamespace(keys=list(store.rows), tags=tags, partition_id="train")
            v1 = types.SimpleNamespace(**dict.fromkeys(hook.names("verl/trainer/main_ppo.py", "TaskRunnerV1.run"), "rredcot"))
            trainer = registered["trainer rredcot"](types.SimpleNamespace(trainer=types.SimpleNamespace(v1=v1)))
            batch = trainer._compute_advantage(batch, metrics={})
            *own, pad = (store.rows[key][advantages_v1].tolist() for key in batch.keys)
            return own, pad

        outputs = replayed(ROWS)
        advantages, returns = older(outputs)
        without = older(outputs, has_mask=False)[0]
        sys.modules[module_of(ray_trainer)].compute_advantage(None, adv_estimator="gae")
        v1, pad = newer(outputs)
        found = []
        for dump in dumps:
            written = rows_for_verl(example, dump, scratch)
            outputs = replayed(written)
            found.append(
                {
                    "rows": written,
                    "advantages": older(outputs)[0].tolist(),
                    "v1": newer(outputs)[0],
                    "logprobs": [output[output_of[3]] for output in outputs],
                    "ids": [[output[output_of[0]], output[output_of[1]]] for output in outputs],
                }
            )
    finally:
        hook.gone("verl_sigma")
    return {
        "dumps": found,
        "advantages": advantages.tolist(),
        "without_mask": without.tolist(),
        "returns": returns.tolist(),
        "v1": v1,
        "pad": pad,
        "others": plain,
        "registered": sorted(registered),
    }


def rows_for_verl(verl_sigma, scored, scratch):
    """What `--rows` writes, read as verl does: JSON lines, and Parquet where the scored file is Parquet."""
    if not scored.endswith(".parquet"):
        verl_sigma.write_rows(scored, scratch + ".json")
        with open(scratch + ".json", encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    import pyarrow.parquet

    verl_sigma.write_rows(scored, scratch + ".parquet")
    return pyarrow.parquet.read_table(scratch + ".parquet").to_pylist()


def write_rows(path):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in ROWS)
    os.environ["RREDCOT_SCORED"] = path


def openrlhf(scratch):
    hook = StandIn("openrlhf")
    maker_path, agent_path = "openrlhf/trainer/ppo_utils/experience_maker.py", "openrlhf/utils/agent.py"
    method = "RemoteExperienceMaker.compute_advantages_and_returns"
    advantages_of, action_mask_of = hook.names(maker_path, method)
    sequences, attention, actions, advantages = hook.names("openrlhf/trainer/ppo_utils/experience.py", "Experience")
    experience_of = hook.fields("openrlhf/trainer/ppo_utils/experience.py", "Experience")
    init_name, environment = hook.names("openrlhf/cli/train_ppo_ray.py", "train")

    def compute(self, experiences):
        for experience, advantage in zip(experiences, (0.5, -0.5)):
            setattr(experience, advantages_of, advantage * getattr(experience, action_mask_of).float())
        return experiences

    maker = type("RemoteExperienceMaker", (), {"compute_advantages_and_returns": hook.function(maker_path, method, compute)})
    execute = hook.function(agent_path, "AgentExecutorBase.execute", lambda **_: None)
    hook.put(module_of(maker_path), RemoteExperienceMaker=maker)
    hook.put(module_of(agent_path), AgentExecutorBase=type("AgentExecutorBase", (), {"execute": execute}))
    write_rows(scratch)
    try:
        example = importlib.import_module("openrlhf_sigma")
        example.install()
        executor = example.AgentExecutor()
        asked = list(inspect.signature(execute).parameters)
        if list(inspect.signature(type(executor).execute).parameters) != asked:
            raise TypeError(f"the executor's execute has other parameters than {asked}")
        answers = hook.names(agent_path, "SingleTurnAgentExecutor.execute")
        responses = []
        for _ in range(3):
            response = asyncio.run(executor.execute("p", "g", None, 100, None, None))
            if set(response) != set(answers):
                raise KeyError(f"the executor gives {set(response) ^ set(answers)}")
            responses.append(dict(zip(("prompt", "label", "images", "mm", "tokens", "ranges", "logprobs", "cut", "reward"), map(response.get, answers))))

        def experience(tokens, start, end):
            """As OpenRLHF makes it: actions count from the second token."""
            acts = [int(start <= at < end) for at in range(len(tokens))]
            # one place of padding, as beside a longer trace
            values = {
                sequences: torch.tensor([tokens + [0]]),
                attention: torch.tensor([[1] * len(tokens) + [0]]),
                actions: torch.tensor([acts[1:] + [0]]),
            }
            return experience_of(**values)

        done = maker().compute_advantages_and_returns([experience(each["tokens"], *each["ranges"][0]) for each in responses[:2]])
        label = error(lambda: asyncio.run(executor.execute("p", "h", None, 100, None, None)))
        unknown = error(lambda: maker().compute_advantages_and_returns([experience([1, 2, 3], 2, 3)]))
        given = []

        def init(**options):
            given.append(options.pop(environment))
            if options:
                raise TypeError(f"ray has no {options}")

        ray = types.SimpleNamespace(**{init_name: init})
        ray.init = example.in_every_worker(ray.init)
        getattr(ray, init_name)(**{environment: {"env_vars": {"NCCL_DEBUG": "WARN"}}})
    finally:
        hook.gone("openrlhf_sigma")
    return {
        "advantages": [getattr(e, advantages).tolist()[0] for e in done],
        "rewards": [response["reward"] for response in responses],
        "log_probs": responses[0]["logprobs"],
        "label": label,
        "unknown": unknown,
        "environment": given,
    }


def slime(scratch):
    hook = StandIn("slime")
    cp, kinds = "slime/backends/megatron_utils/cp_utils.py", "slime/utils/types.py"
    tokens_of, rewards_of, lengths_of, totals_of = hook.names("slime/ray/rollout.py", "RolloutManager._split_train_data_by_dp")
    _, advantages_of, returns_of, kl_of = hook.names("slime/backends/megatron_utils/loss.py", "compute_advantages_and_returns")
    halves = [False]

    def cut(log_prob, total_length, response_length):
        assert len(log_prob) == response_length < total_length
        return log_prob[: response_length // 2] if halves[0] else log_prob

    hook.put(module_of(cp), slice_log_prob_with_cp=hook.function(cp, "slice_log_prob_with_cp", cut))
    (completed,) = hook.names(kinds, "Sample.Status")
    sample = hook.fields(kinds, "Sample")
    sample.Status = types.SimpleNamespace(**{completed: "completed"})
    sample.to_dict = hook.function(kinds, "Sample.to_dict", lambda self: dict(vars(self)))
    hook.put(module_of(kinds), Sample=sample)
    write_rows(scratch)
    try:
        example = importlib.import_module("slime_sigma")
        folder = scratch + ".slime"
        rollouts, size = example.write_rollouts(scratch, folder, 1)
        _, samples_of = hook.names("slime/observability/rollout_data_utils.py", "load_debug_rollout_data")
        with open(os.path.join(folder, "0.pt"), "rb") as file:
            saved = torch.load(file, weights_only=False)
        if list(saved) != hook.names("slime/observability/rollout_data_utils.py", "save_debug_rollout_data"):
            raise KeyError(f"a rollout has {list(saved)}")
        of = dict(zip(("group", "index", "prompt", "tokens", "response", "length", "reward", "logprobs", "status"), hook.names(kinds, "Sample")))
        samples = [{role: each[name] for role, name in of.items()} for each in saved[samples_of]]

        def advantages(tokens=None):
            lengths = [each["length"] for each in samples]
            data = {
                tokens_of: [torch.tensor(tokens or each["tokens"]) for each in samples],
                rewards_of: [0.5, -0.5],
                lengths_of: lengths,
                totals_of: [len(each["tokens"]) for each in samples],
                kl_of: [torch.zeros(length // 2 if halves[0] else length) for length in lengths],
            }
            example.advantages(types.SimpleNamespace(), data)
            assert data[returns_of] is data[advantages_of]
            return [row.tolist() for row in data[advantages_of]]

        whole = advantages()
        unknown = error(lambda: advantages([1, 2, 3]))
        halves[0] = True
        cut_in_two = advantages()
        halves[0] = False
    finally:
        hook.gone("slime_sigma")
    return {"rollouts": rollouts, "size": size, "samples": samples, "advantages": whole, "halves": cut_in_two, "unknown": unknown}


def prime_rl(rows):
    """`rows` are traces of one group, as `score` takes them; the command that scores is in RREDCOT_SCORE."""
    hook, graph = StandIn("prime-rl"), StandIn("verifiers")
    base, routing, grpo = (f"src/prime_rl/orchestrator/algo/{name}.py" for name in ("base", "routing", "grpo"))
    init = "src/prime_rl/orchestrator/algo/__init__.py"
    parent, tokens, mask, advantages = graph.names("verifiers/v1/graph.py", "MessageNode")
    trace_id, task, nodes, _ = graph.names("verifiers/v1/trace.py", "Trace")
    (data,) = graph.names("verifiers/v1/trace.py", "TraceTask")
    of_nodes, of_mask, of_advantages = hook.names(routing, "assign_advantages")

    def node(before, ids, sampled):
        return types.SimpleNamespace(**{parent: before, tokens: ids, mask: [sampled] * len(ids), advantages: None})

    def trace(n, row):
        assistant = node(0, list(row["completion_ids"]), True)  # the row keeps its own
        # the last of the prompt's ids is the scaffold of the assistant's turn
        getattr(assistant, tokens).insert(0, row["prompt_ids"][-1])
        getattr(assistant, mask).insert(0, False)
        turns = [node(None, row["prompt_ids"][:-1], False), assistant]
        if n == len(rows) - 1:  # a trace of two turns
            turns += [node(1, [1], False), node(2, [2], True)]
        answer = types.SimpleNamespace(**{data: types.SimpleNamespace(answer=row.get("answer"))})
        made = type("Trace", (), {"reward": property(graph.function("verifiers/v1/trace.py", "Trace.reward", lambda self: row["reward"]))})()
        vars(made).update({trace_id: f"t{n}", task: answer, nodes: turns})
        return made

    def assign(trace, values):
        own = [each for each in getattr(trace, of_nodes) if any(getattr(each, of_mask))]
        total = sum(sum(getattr(each, of_mask)) for each in own)
        spread = [float(values)] * total if isinstance(values, float) else list(values)
        assert len(spread) == total
        for each in own:
            count = sum(getattr(each, of_mask))
            setattr(each, of_advantages, spread[:count])
            del spread[:count]

    def iterate(episodes):
        return ((episode, each) for episode in episodes for each in episode.traces)

    async def score_group(self, episodes):
        for _, each in iterate(episodes):
            made["assign_advantages"](each, 0.5 if each.reward > 0 else -0.5)

    table, named, assigner = hook.names(init)
    made = {"assign_advantages": hook.function(routing, "assign_advantages", assign)}
    algorithm = type("GRPOAlgorithm", (), {"score_group": hook.function(grpo, "GRPOAlgorithm.score_group", score_group)})
    hook.put("prime_rl.orchestrator.algo", GRPOAlgorithm=algorithm, **{table: {named: algorithm}, assigner: made["assign_advantages"]})
    hook.put(module_of(base), iter_trainable_traces=hook.function(base, "iter_trainable_traces", iterate))
    started = []
    hook.put("prime_rl.entrypoints.orchestrator", main=hook.function("src/prime_rl/entrypoints/orchestrator.py", "main", lambda: started.append(1)))
    try:
        importlib.import_module("prime_rl_sigma")
        sys.modules["prime_rl.entrypoints.orchestrator"].main()
        algorithm = getattr(sys.modules["prime_rl.orchestrator.algo"], table)[named]()
        traces = [trace(n, row) for n, row in enumerate(rows)]
        asyncio.run(algorithm.score_group([types.SimpleNamespace(traces=[each]) for each in traces]))
        spread = [[value for each in getattr(one, nodes) for value in getattr(each, advantages) or []] for one in traces]
    finally:
        hook.gone("prime_rl_sigma")
        graph.gone()
    return {"advantages": spread}
