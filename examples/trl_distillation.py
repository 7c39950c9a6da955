"""TRL's distillation on a file of `rredcot score --teacher <folder> -o taught.parquet`: its tokens in place of generated ones, and what it has
of the teacher in its server's place. The configuration needs beta=1.0 and loss_top_k=1; one process."""
import itertools

import pyarrow.parquet
from trl.experimental.server_distillation import ServerDistillationTrainer
from trl.generation import vllm_client

ROWS = pyarrow.parquet.read_table("taught.parquet").to_pylist()
TURNS = {tuple(row["prompt_ids"]): itertools.cycle([each for each in ROWS if each["prompt_ids"] == row["prompt_ids"]]) for row in ROWS}
TAUGHT = {(*row["prompt_ids"], *row["completion_ids"]): [[each] for each in row["teacher_logprobs"]] for row in ROWS}


class Teacher(vllm_client.VLLMClient):
    def __init__(self, **_):
        pass

    def get_sequence_logprobs(self, sequences, prompt_lengths, **_):
        logprobs = [TAUGHT[tuple(ids)] for ids in sequences]
        ids = [[[id] for id in ids[n:]] for ids, n in zip(sequences, prompt_lengths)]
        return {"actual_logprobs": logprobs, "logprobs": logprobs, "logprob_token_ids": ids}


class Trainer(ServerDistillationTrainer):
    def _generate_single_turn(self, prompt_ids, *_, **__):
        return [next(TURNS[tuple(ids)])["completion_ids"] for ids in prompt_ids]


vllm_client.VLLMClient = Teacher
