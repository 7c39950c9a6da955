"""ms-swift with an advantage for every token: its own times σ·T. RREDCOT='{"policy": "./policy"}' and flags; the column `answer`, or the one
that `reference` names. Its plugin is a file of one line, `import rredcot.swift`: swift rlhf --rlhf_type grpo --external_plugins plugin.py
"""
from swift.rlhf_trainers import GRPOTrainer

from rredcot._credit import cut, of_environment, reference_name, weigh

plain = GRPOTrainer._postprocess_batch


def _postprocess_batch(self, samples, batch_encoded_inputs):
    plain(self, samples, batch_encoded_inputs)
    for own, inputs in zip(self.split_by_mini_batches(samples), batch_encoded_inputs):
        batch = inputs["grpo_batch"]
        # labels of what the policy did not write are -100
        tokens = [cut(list(each.encoded["input_ids"]), [label != -100 for label in each.encoded["labels"]]) for each in own]
        references = [sample.extra.get(reference_name()) for sample in own]
        batch.advantages = weigh(of_environment(), tokens, batch.completion_mask, batch.advantages, references)


GRPOTrainer._postprocess_batch = _postprocess_batch
