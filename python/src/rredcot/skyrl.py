"""SkyRL with an advantage for every token: its own times σ·T. RREDCOT='{"scored": "scored.parquet"}', or '{"policy": "./policy"}' and flags.

    class Run(BasePPOExp):
        def get_trainer(self, *args, **options):
            return rredcot.skyrl.Trainer(*args, **options)

Its registry of estimators cannot do it: an estimator is given no token ids.
"""
from skyrl.train.trainer import RayPPOTrainer

from rredcot._credit import of_environment, tokens_of, weigh


class Trainer(RayPPOTrainer):
    def references(self, data):
        """The right answer of each row: a batch of SkyRL's has none, so live scoring by references overrides this (`data.metadata["uids"]`)."""

    def compute_advantages_and_returns(self, data):
        data = super().compute_advantages_and_returns(data)
        tokens = tokens_of(data["sequences"], data["attention_mask"], data["response_mask"])
        data["advantages"] = weigh(of_environment(), tokens, data["response_mask"], data["advantages"], self.references(data))
        return data
