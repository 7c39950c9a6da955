"""verl with an advantage for every token: its own advantage times σ·T. V1 needs TransferQueue: pip install 'verl[verl-core]'.

    VERL_USE_EXTERNAL_MODULES=rredcot.verl RREDCOT='{"policy": "./policy"}' \\
        python -m verl.trainer.main_ppo … trainer.v1.trainer_mode=rredcot

verl imports it in each of its processes; on a running cluster both variables belong into +ray_kwargs.ray_init.runtime_env.env_vars too.
RREDCOT holds the policy's folder, which is read again when it has changed, and flags of `rredcot score`; the right answer is
`reward_model.ground_truth`. For replay it is not read: the dataset is that of `rredcot.exports.verl`, and the flags are

    data.train_files=replay.parquet data.shuffle=False actor_rollout_ref.rollout.n=1
    actor_rollout_ref.rollout.agent.default_agent_loop=rredcot_replay algorithm.rollout_correction.bypass_mode=True

with data.train_batch_size a multiple of the group's size; bypass_mode takes the stored log-probabilities as the old ones. With the older
trainer (trainer.use_v1=False): algorithm.adv_estimator=grpo_sigma. loss_agg_mode=seq-mean-token-mean makes the update RREDCoT's eq. 11.
"""
import torch
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput, register
from verl.trainer.ppo import ray_trainer
from verl.trainer.ppo.core_algos import AdvantageEstimator

from rredcot._credit import of_environment, row_of, spread, tokens_of, weigh, weights_of
from rredcot._errors import log

NAME, REPLAY, MODE = "grpo_sigma", "rredcot_replay", "rredcot"


@register(REPLAY)
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


def with_credit(trainer):
    """V1's synchronous trainer with weighted advantages. Only `_compute_advantage` changes."""
    import transfer_queue as tq
    from verl.utils import tensordict_utils as tu

    class CreditTrainer(trainer):
        def __init__(self, config):
            # V1 recognizes its synchronous trainer by this name
            config.trainer.v1.trainer_mode = "sync"
            super().__init__(config)

        def _compute_advantage(self, batch, metrics):
            # verl pads a batch with copies of its first trace, with other uids and no token that trains
            kept = [key for key, tag in zip(batch.keys, batch.tags) if not tag.get("is_padding", False)]
            place = {"keys": kept, "partition_id": batch.partition_id}
            is_replay = self.config.actor_rollout_ref.rollout.agent.default_agent_loop == REPLAY
            fields = ["extra_fields"] if is_replay else ["prompts", "responses", "response_mask", "reward_model"]
            own = tq.kv_batch_get(**place, select_fields=fields)
            if is_replay:
                # to verl each replayed row is a prompt of its own: make it use our groups
                stored = list(own["extra_fields"])
                tq.kv_batch_put(**place, fields=tu.get_tensordict({"uid": [row["group"] for row in stored]}))
            batch = super()._compute_advantage(batch, metrics)
            data = tq.kv_batch_get(**place, select_fields=["advantages"])
            advantages = data["advantages"].unbind()
            if is_replay:
                found = [weights_of(row["sigma"]) for row in stored]
            else:
                lists = zip(*(own[name].unbind() for name in fields[:3]), advantages, list(own["reward_model"]))
                found = of_environment()([
                    row_of(prompt.tolist(), response.tolist(), mask.int().tolist(), each[mask.bool()], reference=said["ground_truth"])
                    for prompt, response, mask, each, said in lists
                ])
                metrics.update({f"rredcot/{name}": value for name, value in of_environment().told.items()})
            weighted = [each * torch.from_numpy(weights).to(each) for each, weights in zip(advantages, found)]
            data["advantages"] = torch.nested.as_nested_tensor(weighted, layout=torch.jagged)
            tq.kv_batch_put(**place, fields=data.select("advantages"))
            return batch

    return CreditTrainer


def refused(mode):
    def refuse(config):
        raise ValueError(f"trainer.v1.trainer_mode={mode}: rredcot.verl has the synchronous trainer alone: trainer.v1.trainer_mode={MODE}")

    return refuse


try:
    from verl.trainer.ppo.v1 import PPOTrainerSync, register_trainer, trainer_base
except ImportError as error:  # before 0.9 there is only the older trainer
    if error.name == "transfer_queue":
        log.warning("V1 needs TransferQueue, so trainer_mode=%s is not there: pip install 'verl[verl-core]'", MODE)
else:
    register_trainer(MODE)(with_credit(PPOTrainerSync))
    for name in [name for name in trainer_base.TRAINER_REGISTRY if name.endswith("_async")]:
        trainer_base.TRAINER_REGISTRY[name] = refused(name)


# for the older trainer, until verl drops it


plain = ray_trainer.compute_advantage


def compute_advantage(data, adv_estimator, **options):
    """GRPO's advantages times σ·T, and its returns, where the estimator is ours; all (bs, response_length)."""
    if adv_estimator != NAME:
        return plain(data, adv_estimator=adv_estimator, **options)
    said = data.non_tensor_batch
    # to verl each replayed row is a prompt of its own
    uids, said["uid"] = said["uid"], said.get("group", said["uid"])
    data = plain(data, adv_estimator=AdvantageEstimator.GRPO, **options)
    said["uid"] = uids
    ids, seen = torch.cat([data.batch["prompts"], data.batch["responses"]], dim=1), data.batch["attention_mask"]
    advantages, mask = data.batch["advantages"], data.batch["response_mask"]
    if "sigma" in said:
        weighted = spread(advantages, [weights_of(list(sigma)) for sigma in said["sigma"]], mask)
    else:
        references = [each["ground_truth"] for each in said["reward_model"]]
        weighted = weigh(of_environment(), tokens_of(ids, seen, mask), mask, advantages, references)
    data.batch["advantages"] = weighted
    return data


ray_trainer.compute_advantage = compute_advantage
