"""Converts scored traces to a trainer's format, as JSONL on stdout: trainer_forms.py tinker|vineppo|prm|progress scored.jsonl

The advantage of a trace, R* = reward − baseline, is spread over its tokens by σ. Traces without a reward or a baseline are left out.
"""
import json
import sys

from scored_rows import scored_rows


def tinker(row):
    """Lists for a Datum, P + T − 1 long: position i reads token i of prompt and completion and predicts token i + 1; 0 if that is a prompt token.

    SkyRL: `model_input` becomes `chunks` of one EncodedTextChunk (`tokens`), each other list of `loss_fn_inputs` the `data` of a TensorData.
    Leave out `weights` in RL losses, where they multiply. Its JAX backend divides by their sum (`loss_mask`): there give 1 at completion tokens,
    0 before, and advantages times T.
    """
    ids = row["prompt_ids"] + row["completion_ids"]
    before = [0.0] * (len(row["prompt_ids"]) - 1)
    own = tokens_of_policy(row)
    return {
        "model_input": ids[:-1],
        "target_tokens": ids[1:],
        "logprobs": before + row["logprobs"],
        "advantages": before + [advantage(row) * sigma for sigma in row["sigma"]],  # for losses that sum over tokens
        "weights": before + [sigma * own for sigma in row["sigma"]],  # of mean 1, for a σ-weighted cross_entropy
    }


def vineppo(row):
    """An Episode for VinePPO and SPO, whose PPO loss is a mean over tokens: the mean advantage is R*."""
    own = tokens_of_policy(row)
    return {
        "query_token_ids": row["prompt_ids"],
        "response_token_ids": row["completion_ids"],
        "scores": row["reward"],
        "advantages": [advantage(row) * sigma * own for sigma in row["sigma"]],
    }


def prm(row):
    """Steps for TRL's PRMTrainer (step_separator=""), labeled by the sign of their share of the return. Needs --sigma rudder or signed."""
    if advantage(row) == 0 or any(code.startswith("uniform:") for code in row["status"].split(";")):
        return None  # σ is uniform: no labels
    return {**steps(row), "labels": [advantage(row) * segment["sigma"] > 0 for segment in segments(row)]}


def progress(row):
    """Steps with the change of value over each; 0 for the answer."""
    return {**steps(row), "progress": [segment["delta"] or 0.0 for segment in segments(row)]}


def advantage(row):
    return row["reward"] - row["baseline"]


def tokens_of_policy(row):
    return sum(row.get("completion_mask") or [1] * len(row["sigma"]))


def segments(row):
    """The segments that are steps: not the environment's turns, nor an end token without text."""
    return [each for each in row["segments"] if each["kind"] != "shown" and each["char_start"] != each["char_end"]]


def steps(row):
    """The steps' texts, which together are the completion; an environment's turn belongs to the step before it."""
    starts = [segment["char_start"] for segment in segments(row)]
    ends = [*starts[1:], row["segments"][-1]["char_end"]]
    texts = [row["completion"][start:end] for start, end in zip([0, *starts[1:]], ends)]
    return {"prompt": row["prompt"], "completions": texts}


def main(form, path):
    make = {"tinker": tinker, "vineppo": vineppo, "prm": prm, "progress": progress}[form]
    for row in scored_rows(path, ("baseline", "segments", "status")):
        made = make(row) if row["baseline"] is not None else None
        if made is None:
            print(f"{row['id']}: left out: no baseline, or σ that tells no step from another", file=sys.stderr)
        else:
            print(json.dumps({"id": row.get("id"), **made}, ensure_ascii=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
