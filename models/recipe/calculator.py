"""The policy that calls a tool: the recurrences of `task.py`, whose results a calculator gives in turns of its own. Calls may be wrong, results never are."""
import random
from task import EXIT, FAMILIES, OPERANDS, Chain, Problem, aggregate, compute, letter, prompt_text

# the odds of the training distribution; sampled traces show about the same
ODDS = {
    "operations": (3, 5),  # each problem has this many operations, uniformly
    "wrong": 0.25,         # a call has another operand, or another operator
    "corrected": 0.35,     # of these: the next turn calls again, and rightly
}
OPERATORS = "+-*"
END = "<|end|>"


def draw_problem(rng, family):
    operations = []
    for _ in range(rng.randint(*ODDS["operations"])):
        operator = rng.choice("+-**")
        operations.append((operator, rng.choice(OPERANDS[operator])))
    return Problem(family, rng.randrange(10), tuple(operations))


def wrong_calls(operator, operand):
    """Every call that may stand in a right one's place, with its share: half have another operand, half another operator."""
    others = [n for n in range(1, 10) if n != operand]
    return [((operator, n), 0.5 / len(others)) for n in others] + [((op, operand), 0.25) for op in OPERATORS if op != operator]


def call_line(index, state, operator, operand, again=False):
    """A turn's last line with what the tool answers, up to where the policy goes on."""
    return f"{'wait, ' if again else ''}{letter(index)}: {state}{operator}{operand}{END}\n= {compute(state, operator, operand)}\n"


def best_line(family, best):
    return f"top {best[0]}\n" if family == "top" else f"low {best[1]}{best[0]}\n"


def answer_of(family, best):
    return str(best[0]) if family == "top" else best[1]


def write_chain(problem, calls=()):
    """The chain with these calls in the place of right ones: {index: (operator, operand, corrected)}."""
    state, best, lines, kinds = problem.start, None, [], []
    for index, right in enumerate(problem.operations):
        *call, corrected = dict(calls).get(index, (*right, False))
        lines.append(call_line(index, state, *call))
        kinds.append("step" if tuple(call) == right else "wrong")
        if corrected:
            lines.append(call_line(index, state, *right, again=True))
            kinds.append("fix")
        state = compute(state, *(right if corrected else call))
        best = aggregate(problem.family, best, index, state)
        lines.append(best_line(problem.family, best))
        kinds.append("step")
    return Chain(tuple(lines), tuple(kinds), answer_of(problem.family, best))


def draw_chain(rng, problem):
    calls = {}
    for index, right in enumerate(problem.operations):
        if rng.random() < ODDS["wrong"]:
            choices, shares = zip(*wrong_calls(*right))
            calls[index] = (*rng.choices(choices, shares)[0], rng.random() < ODDS["corrected"])
    return write_chain(problem, calls)


def true_answer(problem):
    return write_chain(problem).answer


def completion_text(chain):
    return "<think>\n" + "".join(chain.lines) + EXIT["close"] + EXIT["open"] + chain.answer + EXIT["closer"]


def shown(ids):
    """Which tokens of a completion the policy is shown: those between an end token and the line behind it, the tool's."""
    marks, left = [], 0
    for i in ids:
        marks.append(left > 0)
        left = 2 if i == 258 else left - (left > 0 and i == 10)
    return marks


def problems(seed, family, count):
    """Distinct problems of one family from a named seed (a string such as `train-1`)."""
    rng, seen = random.Random(f"{seed}/{family}"), {}
    while len(seen) < count:
        seen.setdefault(draw_problem(rng, family))
    return list(seen)
