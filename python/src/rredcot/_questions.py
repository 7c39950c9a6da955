"""Questions about token ids, as answerers are asked (docs/engines.md)."""
import json
from collections import namedtuple

BASES = 256  # lists of token ids that are kept for later questions to begin with

# log p of ids[start:] is asked, each given all before it; with `top`, the largest too, or entropies. Questions of one `base` begin with
# the same ids, `shared` of them. What is `fresh` is computed alone, with nothing that is cached. Where start is 0, `samples` of at most
# `max_tokens` that follow are asked, which one of `stop` ends.
Question = namedtuple("Question", "id ids base shared start top fresh samples max_tokens stop")


def questions(lines):
    """The questions of JSON lines, each with all its token ids."""
    bases = {}
    for n, line in enumerate(lines, 1):
        try:
            said = json.loads(line)
        except ValueError as error:
            raise ValueError(f"line {n} of the questions: {error}") from None
        if "id" not in said:
            continue
        ids, base, shared = said["token_ids"], said["id"], len(said["token_ids"])
        if "prefix" in said:
            base, shared = said["prefix"]["of"], said["prefix"]["length"]
            if base not in bases:
                raise ValueError(f"{said['id']} begins with {base}, expected one of the last {BASES} without a prefix")
            ids = bases[base][:shared] + ids
        else:
            bases[base] = ids
            if len(bases) > BASES:
                del bases[next(iter(bases))]
        if "from" in said or "samples" in said:
            asked = [said.get(name, 0) for name in ("from", "top", "fresh", "samples", "max_tokens")]
            yield Question(said["id"], ids, base, shared, *asked, said.get("stop", []))
