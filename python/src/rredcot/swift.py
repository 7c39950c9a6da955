"""ms-swift with an advantage for every token: its own times σ·T. RREDCOT='{"policy": "./policy"}' and flags; the column `answer`, or the one
that `reference` names. Its plugin is a file of one line, `import rredcot.swift`: swift rlhf --rlhf_type grpo --external_plugins plugin.py
"""
from swift.rlhf_trainers import GRPOTrainer

from rredcot._credit import of_environment, reference_name, weigh

plain = GRPOTrainer._postprocess_batch


def _postprocess_batch(self, samples, batch_encoded_inputs):
    plain(self, samples, batch_encoded_inputs)
    for own, inputs in zip(self.split_by_mini_batches(samples), batch_encoded_inputs):
        batch = inputs["grpo_batch"]
        tokens = [_tokens(sample.encoded["input_ids"], sample.encoded["labels"]) for sample in own]
        references = [sample.extra.get(reference_name()) for sample in own]
        batch.advantages = weigh(of_environment(), tokens, batch.completion_mask, batch.advantages, references)


def _tokens(ids, labels):
    """Prompt, completion, and which of this the policy wrote: labels of all else are -100."""
    wrote = [int(label != -100) for label in labels]
    start, end = wrote.index(1), len(wrote) - wrote[::-1].index(1)
    return list(ids[:start]), list(ids[start:end]), wrote[start:end]


GRPOTrainer._postprocess_batch = _postprocess_batch
