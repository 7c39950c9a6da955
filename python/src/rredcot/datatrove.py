"""A step of a datatrove pipeline that scores documents whose text is a completion."""
import itertools

from datatrove.pipeline.base import PipelineStep

from rredcot._errors import rejects
from rredcot._scorer import Scorer


class Score(PipelineStep):
    """Adds our columns (docs/output.md) to the metadata of each document, whose text is the completion unless they have one.

    batch_size  documents that are scored together: a multiple of the group's size, with groups one behind the other
    Others are those of `rredcot.Scorer`. With `max_rejects`, a rejected document goes on with the reason as `rredcot_reject`.
    """

    name = "σ rredcot"
    type = "🏷️ - CREDIT"

    def __init__(self, policy=None, batch_size=256, **flags):
        super().__init__()
        self.policy, self.batch_size, self.flags = policy, batch_size, flags

    def run(self, data, rank=0, world_size=1):
        with Scorer(self.policy, **self.flags) as scorer:
            documents = iter(data)
            while batch := list(itertools.islice(documents, self.batch_size)):
                yield from self._scored(scorer, batch)

    def _scored(self, scorer, batch):
        rows = [{"id": document.id, "completion": document.text, **document.metadata} for document in batch]
        with self.track_time(unit="batch"):
            table = scorer(rows)
        for row in table.to_pylist():
            # which row of the batch a scored one was
            document = batch[row["source_row"]]
            document.metadata.update((name, value) for name, value in row.items() if name not in ("source_file", "source_row"))
            self.stat_update("scored")
        for reject in rejects(table).to_pylist():
            batch[reject["row"]].metadata["rredcot_reject"] = f"{reject['code']}: {reject['reason']}"
            self.stat_update("rejected", reject["code"])
        yield from batch
