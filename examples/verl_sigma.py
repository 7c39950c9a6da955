"""verl: GRPO on scored traces, each token's advantage times w = σ·T.

NOT RUN AGAINST THE REAL LIBRARY: written after verl 0.8.0.dev (commit b178a3cd, January 2026). What rredcot's tests run is
`grpo_sigma`, `--rows` and the replay, with stand-ins for verl's modules; tell us if a version of verl breaks the rest.

    rredcot score traces.jsonl --policy ./policy -o scored.jsonl
    PYTHONPATH=examples python examples/verl_sigma.py --rows scored.jsonl replay.parquet
    PYTHONPATH=examples python examples/verl_sigma.py data.train_files=replay.parquet data.val_files=replay.parquet \\
        algorithm.adv_estimator=grpo_sigma actor_rollout_ref.rollout.n=1 data.shuffle=False \\
        actor_rollout_ref.rollout.agent.agent_loop_config_path=examples/verl_replay.yaml \\
        actor_rollout_ref.rollout.agent.default_agent_loop=rredcot_replay …

No text is generated: the agent loop hands verl the stored completions, one dataset row a trace. `--rows` writes the rows with
verl's own columns, `prompt` as messages and `data_source`, groups one after the other: let data.train_batch_size be a
multiple of the group. They are Parquet, or JSON lines where the name ends with .json, which verl reads too and which needs no pyarrow. loss_agg_mode=seq-mean-token-mean makes the update RREDCoT's eq. 11, token-mean (the default) weights by length;
seq-mean-token-sum would be T times too large. σ in the *rewards* would be lost: verl's GRPO sums them over the tokens.
"""
import json
import sys

from scored_rows import scored_rows


def write_rows(scored, path):
    """Writes the dataset that `Replay` is fed from: what it takes of each scored trace, and what verl wants of a row."""
    rows = scored_rows(scored, ("id", "group"))
    taken = ("prompt_ids", "completion_ids", "logprobs", "sigma", "reward")
    written = [
        {
            "data_source": row.get("data_source") or "rredcot",
            # what the policy reads are the ids; verl asks for messages
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
        raise SystemExit(f"{path}: Parquet needs pyarrow, which {sys.executable} has not: name it .json, which verl reads too") from None
    pq.write_table(pa.Table.from_pylist(written), path)


# before verl is imported: the rows need none
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
    raise SystemExit(f"verl_sigma.py: {error}: pip install verl (written after 0.8.0.dev); --rows needs none") from None

from sigma_weights import sigma_weights

NAME = "grpo_sigma"


@register_adv_est(NAME)
def grpo_sigma(token_level_rewards, response_mask, index=None, config=None, non_tensor_batch=None, **_):
    """GRPO's advantages times w, and the returns; all (bs, response_length). `sigma` and `group` are in `non_tensor_batch`."""
    # a replayed row is a prompt of its own to verl, so `index`, its uid, groups nothing
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
    """Lets `grpo_sigma` see the batch: verl hands an estimator rewards and mask only (its PR #7473 would change that)."""
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


class Replay(AgentLoopBase):
    """The stored completion in place of a generated one; a row's columns come as keyword arguments."""

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
            extra_fields={"sigma": [float(s) for s in sigma], "group": group},
        )


def main():
    import hydra
    import ray
    from verl.trainer import main_ppo

    class SigmaTaskRunner(main_ppo.TaskRunner):
        def run(self, config):
            # here, in the process where the advantages are computed, and under the module's own name, which registers
            import verl_sigma

            verl_sigma.install()
            super().run(config)

    @hydra.main(config_path="pkg://verl.trainer.config", config_name="ppo_trainer", version_base=None)
    def run(config):
        main_ppo.run_ppo(config, task_runner_class=ray.remote(num_cpus=1)(SigmaTaskRunner))

    run()


if __name__ == "__main__":
    main()
