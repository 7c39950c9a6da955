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
from verl.trainer.ppo import core_algos, ray_trainer
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage, register_adv_est

from rredcot._credit import of_environment, one_of, tokens_of, weigh, weights_of
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
                lists = ([each.tolist() for each in own[name].unbind()] for name in fields[:3])
                found = of_environment()([row(*each) for each in zip(*lists, advantages, list(own["reward_model"]))])
                metrics.update({f"rredcot/{name}": value for name, value in of_environment().told.items()})
            weighted = [each * torch.from_numpy(weights).to(each) for each, weights in zip(advantages, found)]
            data["advantages"] = torch.nested.as_nested_tensor(weighted, layout=torch.jagged)
            tq.kv_batch_put(**place, fields=data.select("advantages"))
            return batch

    return CreditTrainer


def row(prompt, response, mask, advantages, reward_model):
    """A trace as the scorer takes it."""
    mask = [int(each) for each in mask]
    value = one_of(advantages[torch.tensor(mask, dtype=torch.bool)])
    reference = reward_model["ground_truth"]
    return {"prompt_ids": prompt, "completion_ids": response, "completion_mask": mask, "advantage": value, "reference": reference}


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


@register_adv_est(NAME)
def grpo_sigma(token_level_rewards, response_mask, index=None, config=None, batch=None, non_tensor_batch=None, **_):
    """GRPO's advantages times w, and the returns; all (bs, response_length). `batch` and `non_tensor_batch` are the DataProto's."""
    by_std = True if config is None else config.get("norm_adv_by_std_in_grpo", True)
    advantages, returns = compute_grpo_outcome_advantage(
        token_level_rewards=token_level_rewards,
        response_mask=response_mask,
        index=non_tensor_batch.get("group", index),
        norm_adv_by_std_in_grpo=by_std,
    )
    if "sigma" in non_tensor_batch:
        weights = torch.zeros_like(advantages)
        for i, sigma in enumerate(non_tensor_batch["sigma"]):
            weights[i, response_mask[i].bool()] = torch.from_numpy(weights_of(list(sigma))).to(weights)
        return advantages * weights, returns
    ids = torch.cat([batch["prompts"], batch["responses"]], dim=1)
    references = [each["ground_truth"] for each in non_tensor_batch["reward_model"]]
    return weigh(of_environment(), tokens_of(ids, batch["attention_mask"], response_mask), response_mask, advantages, references), returns


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
            batch=data.batch,
            non_tensor_batch=data.non_tensor_batch,
        )
        return data

    ray_trainer.compute_advantage = compute_advantage


install()
