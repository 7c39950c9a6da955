"""The engine `torch` of rredcot.answer, in its process: what transformers opens."""
import torch
import transformers

from rredcot.answerers import Model


class Engine(Model):
    """As the other engines: `window` questions at a time, in rows of `longest` tokens of a `vocabulary`, of which it has `computed` so many."""

    window = 1  # question, and those of the same trace

    def __init__(self, model, dtype, more):
        lm = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=dtype, **more)
        super().__init__(lm.to("cuda") if torch.cuda.is_available() and "device_map" not in more else lm)
        self.longest = getattr(self.config, "max_position_embeddings", float("inf"))
