"""verl: GRPO on scored traces, each token's advantage times w = σ·T.

rredcot's tests run it with verl 0.9.1 on a CPU, where pip has it: its configuration, dataset, agent loop, TransferQueue, padding and
`_compute_advantage`, and the older trainer's `compute_advantage`; advantages equal A·σ·T to 1e-5. Not run: the actor's update, an engine,
several nodes. V1 (verl's default) needs TransferQueue: pip install "verl[verl-core]"; without it trainer_mode=rredcot is not registered.
`npm run hooks -- <checkout>` says what another verl has changed in the names that this relies on (hooks/verl.json).

    rredcot score traces.jsonl --policy ./policy -o scored.jsonl
    PYTHONPATH=examples python examples/verl_sigma.py --rows scored.jsonl replay.parquet
    PYTHONPATH=examples VERL_USE_EXTERNAL_MODULES=verl_sigma python -m verl.trainer.main_ppo \\
        data.train_files=replay.parquet data.val_files=replay.parquet data.shuffle=False trainer.val_before_train=False \\
        algorithm.adv_estimator=grpo trainer.v1.trainer_mode=rredcot actor_rollout_ref.rollout.n=1 \\
        actor_rollout_ref.rollout.agent.agent_loop_config_path=examples/verl_replay.yaml \\
        actor_rollout_ref.rollout.agent.default_agent_loop=rredcot_replay …

verl imports the modules in VERL_USE_EXTERNAL_MODULES in each of its processes. On a running cluster, set both variables in
+ray_kwargs.ray_init.runtime_env.env_vars too. With verl's older trainer (trainer.use_v1=False, the only one before 0.9), leave out
trainer_mode and set algorithm.adv_estimator=grpo_sigma.

Nothing is generated: the agent loop gives verl the stored completions, one dataset row per trace. `--rows` writes rows with verl's
own columns (`prompt` as messages, `data_source`), ordered by group: make data.train_batch_size a multiple of the group size. They
are Parquet, or JSON lines if the name ends with .json, which verl reads too and which needs no pyarrow.
loss_agg_mode=seq-mean-token-mean makes the update RREDCoT's eq. 11; token-mean (the default) weights by length;
seq-mean-token-sum would be T times too large. σ in the *rewards* would be lost: verl's GRPO sums them over the tokens.
algorithm.rollout_correction.bypass_mode=True takes the stored log-probabilities as the old ones. filter_groups does not work here:
verl sees each row as a prompt of its own.
"""
import json
import sys

from scored_rows import scored_rows


def write_rows(scored, path):
    """Writes the dataset for `Replay`: its columns of each scored trace, and those that verl requires."""
    rows = scored_rows(scored, ("id", "group"))
    taken = ("prompt_ids", "completion_ids", "logprobs", "sigma", "reward")
    written = [
        {
            "data_source": row.get("data_source") or "rredcot",
            # the policy reads the ids; verl requires messages
            "prompt": [{"role": "user", "content": row["prompt"]}] if isinstance(row["prompt"], str) else row["prompt"],
            "group": row["id"] if row["group"] is None else row["group"],
            **{name: row[name] for name in taken},
        }
        for row in rows
    ]
    order = {}
    for row in written:
        order.setdefault(row["group"], len(order))
    written.sort(key=lambda row: order[row["group"]])
    if path.endswith(".json"):
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in written)
        return
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise SystemExit(f"{path}: Parquet needs pyarrow, and {sys.executable} does not have it: use a name that ends with .json, which verl reads too") from None
    pq.write_table(pa.Table.from_pylist(written), path)


# before verl is imported: writing rows does not need it
if __name__ == "__main__" and sys.argv[1:2] == ["--rows"]:
    if len(sys.argv) != 4:
        raise SystemExit("usage: verl_sigma.py --rows <scored file> <replay.parquet or .json>")
    write_rows(*sys.argv[2:])
    raise SystemExit

try:
    from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
    from verl.trainer.ppo import core_algos, ray_trainer
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage, register_adv_est
except ImportError as error:
    raise SystemExit(f"verl_sigma.py: {error}: pip install 'verl[verl-core]' (run with 0.9.1); --rows does not need it") from None

if __name__ == "__main__":
    raise SystemExit("verl_sigma.py: verl imports it: VERL_USE_EXTERNAL_MODULES=verl_sigma python -m verl.trainer.main_ppo …")

import torch

from sigma_weights import sigma_weights

NAME = "grpo_sigma"


class Replay(AgentLoopBase):
    """Returns the stored completion instead of generating one; a row's columns arrive as keyword arguments."""

    async def run(self, sampling_params, *, prompt_ids, completion_ids, logprobs, sigma, reward, group, **_):
        response = [int(token) for token in completion_ids]
        return AgentLoopOutput(
            prompt_ids=[int(token) for token in prompt_ids],
            response_ids=response,
            response_mask=[1] * len(response),
            response_logprobs=[float(logprob) for logprob in logprobs],
            reward_score=float(reward),
            num_turns=2,
            metrics={},
            # V1 computes a trace's age from these: 0 is the weights that training starts from
            extra_fields={"sigma": [float(s) for s in sigma], "group": str(group), "min_global_steps": 0, "max_global_steps": 0},
        )


def weigh(trainer):
    """V1's trainer class with weighted advantages, for any estimator. Only `_compute_advantage` changes."""
    import transfer_queue as tq
    from verl.utils import tensordict_utils as tu

    class SigmaTrainer(trainer):
        def __init__(self, config):
            # V1 recognizes its synchronous trainer by this name
            config.trainer.v1.trainer_mode = "sync"
            super().__init__(config)

        def _compute_advantage(self, batch, metrics):
            # verl pads a batch with copies of its first trace, with other uids and no token that trains
            kept = [key for key, tag in zip(batch.keys, batch.tags) if not tag.get("is_padding", False)]
            place = {"keys": kept, "partition_id": batch.partition_id}
            rows = list(tq.kv_batch_get(**place, select_fields=["extra_fields"])["extra_fields"])
            # to verl each replayed row is a prompt of its own: make it use our groups
            tq.kv_batch_put(**place, fields=tu.get_tensordict({"uid": [row["group"] for row in rows]}))
            batch = super()._compute_advantage(batch, metrics)
            data = tq.kv_batch_get(**place, select_fields=["advantages"])
            weighted = [
                advantages * sigma_weights([row["sigma"]], torch.ones(1, len(advantages)))[0].to(advantages)
                for advantages, row in zip(data["advantages"].unbind(), rows)
            ]
            data["advantages"] = torch.nested.as_nested_tensor(weighted, layout=torch.jagged)
            tq.kv_batch_put(**place, fields=data.select("advantages"))
            return batch

    return SigmaTrainer


try:
    from verl.trainer.ppo.v1 import PPOTrainerSync, register_trainer
except ImportError as error:  # before 0.9 there is only the older trainer
    if error.name == "transfer_queue":
        print("verl_sigma.py: V1 needs TransferQueue, so trainer_mode=rredcot is not there: pip install 'verl[verl-core]'", file=sys.stderr)
else:
    register_trainer("rredcot")(weigh(PPOTrainerSync))


# for the older trainer, until verl drops it


@register_adv_est(NAME)
def grpo_sigma(token_level_rewards, response_mask, index=None, config=None, non_tensor_batch=None, **_):
    """GRPO's advantages times w, and the returns; all (bs, response_length). `sigma` and `group` are in `non_tensor_batch`."""
    groups = non_tensor_batch.get("group", index)
    by_std = True if config is None else config.get("norm_adv_by_std_in_grpo", True)
    advantages, returns = compute_grpo_outcome_advantage(
        token_level_rewards=token_level_rewards,
        response_mask=response_mask,
        index=groups,
        norm_adv_by_std_in_grpo=by_std,
    )
    weights = sigma_weights([list(sigma) for sigma in non_tensor_batch["sigma"]], response_mask)
    return advantages * weights.to(advantages.dtype), returns


def install():
    """Passes the batch to `grpo_sigma`: verl gives an estimator only rewards and mask."""
    plain = ray_trainer.compute_advantage

    def compute_advantage(data, adv_estimator, **options):
        if adv_estimator != NAME:
            return plain(data, adv_estimator=adv_estimator, **options)
        if "response_mask" not in data.batch.keys():
            data.batch["response_mask"] = ray_trainer.compute_response_mask(data)
        data.batch["advantages"], data.batch["returns"] = core_algos.get_adv_estimator_fn(NAME)(
            token_level_rewards=data.batch["token_level_rewards"],
            response_mask=data.batch["response_mask"],
            index=data.non_tensor_batch.get("uid"),
            config=options.get("config"),
            non_tensor_batch=data.non_tensor_batch,
        )
        return data

    ray_trainer.compute_advantage = compute_advantage


install()
