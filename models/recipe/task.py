"""The task: chains of thought over one-digit recurrences, whose right answer and wrong lines are known by construction."""
from dataclasses import dataclass
import random
import re

# the odds of the training distribution; sampled traces show about the same
ODDS = {
    "operations": (5, 7),   # each problem has this many operations, uniformly
    "mistake": 0.07,        # an operation gets a wrong result, and the chain goes on from it
    "corrected": 0.35,      # the line after a mistake is a `wait, ` line that puts it right
    "filler": 0.06,         # after an operation (and its correction) comes a line without content
}
FILLERS = ("so far so good.", "hmm, let me go on.", "ok, next.")
# doubling and multiplying by 5 fold results together, so that the largest is not nearly always 9
OPERANDS = {"+": range(1, 10), "-": range(1, 10), "*": (2, 5)}
OPERATORS = "+-**"
FAMILIES = ("top", "low")

EXIT = {"close": "</think>\n", "open": "answer: ", "closer": "\n"}
THINK, END_THINK, END = 256, 257, 258
SPECIAL = {"<think>": THINK, "</think>": END_THINK, "<|end|>": END}


@dataclass(frozen=True)
class Problem:
    family: str
    start: int
    operations: tuple  # of (operator, operand)


@dataclass(frozen=True)
class Chain:
    lines: tuple   # text of each line, with its newline
    kinds: tuple   # of each line: step, wrong, fix, filler
    answer: str    # the answer to which this chain leads, right or wrong


def encode(text):
    """Token ids: a byte is its own id, the three added tokens follow."""
    ids = []
    for piece in re.split(r"(<think>|</think>|<\|end\|>)", text):
        ids.extend([SPECIAL[piece]] if piece in SPECIAL else piece.encode("utf-8"))
    return ids


def decode(ids):
    """Text of token ids; bytes that are no UTF-8 become U+FFFD, `<|end|>` vanishes."""
    names = {THINK: b"<think>", END_THINK: b"</think>", END: b""}
    return b"".join(names.get(i) if i in names else bytes([i]) for i in ids).decode("utf-8", "replace")


def draw_problem(rng, family, odds=ODDS):
    count = rng.randint(*odds["operations"])
    operations = []
    for _ in range(count):
        operator = rng.choice(OPERATORS)
        operations.append((operator, rng.choice(OPERANDS[operator])))
    return Problem(family, rng.randrange(10), tuple(operations))


def prompt_text(problem):
    listed = " ".join(f"{letter(i)}{op}{n}" for i, (op, n) in enumerate(problem.operations))
    return f"start {problem.start}: {listed} {problem.family}?\n"


def letter(index):
    return "abcdefghij"[index]


def compute(state, operator, operand):
    if operator == "+":
        return (state + operand) % 10
    return (state - operand if operator == "-" else state * operand) % 10


def aggregate(family, best, index, result):
    """The running aggregate after one more result: (value, letter); the earlier line wins a tie."""
    better = best is None or (result > best[0] if family == "top" else result < best[0])
    return (result, letter(index)) if better else best


def line_text(problem, index, state, result, best):
    operator, operand = problem.operations[index]
    shown = f"top {best[0]}" if problem.family == "top" else f"low {best[1]}{best[0]}"
    return f"{letter(index)}: {state}{operator}{operand}={result} {shown}\n"


def write_chain(problem, mistakes={}, fillers={}):
    """The chain with these mistakes {line: (wrong result, corrected)} and fillers {line: text}."""
    state, best, lines, kinds = problem.start, None, [], []
    for index, (operator, operand) in enumerate(problem.operations):
        result = compute(state, operator, operand)
        wrong, corrected = mistakes.get(index, (result, False))
        if wrong != result:
            lines.append(line_text(problem, index, state, wrong, aggregate(problem.family, best, index, wrong)))
            kinds.append("wrong")
        if wrong == result or corrected:
            right = aggregate(problem.family, best, index, result)
            lines.append(("wait, " if corrected else "") + line_text(problem, index, state, result, right))
            kinds.append("fix" if corrected else "step")
        state = result if corrected else wrong
        best = aggregate(problem.family, best, index, state)
        if index in fillers:
            lines.append(fillers[index] + "\n")
            kinds.append("filler")
    return Chain(tuple(lines), tuple(kinds), str(best[0]) if problem.family == "top" else best[1])


def draw_chain(rng, problem, odds=ODDS):
    """A chain with mistakes, corrections and fillers at the odds; wrong results are uniform over the nine others."""
    mistakes, fillers, state = {}, {}, problem.start
    for index, (operator, operand) in enumerate(problem.operations):
        result = compute(state, operator, operand)
        if rng.random() < odds["mistake"]:
            wrong = rng.choice([digit for digit in range(10) if digit != result])
            corrected = rng.random() < odds["corrected"]
            mistakes[index] = (wrong, corrected)
            result = result if corrected else wrong
        state = result
        if rng.random() < odds["filler"]:
            fillers[index] = rng.choice(FILLERS)
    return write_chain(problem, mistakes, fillers)


def true_answer(problem):
    return write_chain(problem).answer


def completion_text(chain):
    return "<think>\n" + "".join(chain.lines) + EXIT["close"] + EXIT["open"] + chain.answer + EXIT["closer"]


def final_answer(completion):
    """A trace's own answer after `</think>\\nanswer: `, up to the newline; None where there is none."""
    found = re.search(r"</think>\nanswer: (.*)\n$", completion)
    return found.group(1) if found else None


def problems(seed, family, count):
    """Distinct problems of one family from a named seed (a string such as `train-1`)."""
    rng, seen = random.Random(f"{seed}/{family}"), {}
    while len(seen) < count:
        seen.setdefault(draw_problem(rng, family))
    return list(seen)
