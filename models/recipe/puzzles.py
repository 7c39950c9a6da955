"""The second policy's task: three families of puzzles, in two of which a mistake surprises nobody."""
from dataclasses import dataclass
import random
from task import EXIT, compute

# the odds of the training distribution; sampled traces show about the same
ODDS = {
    "wrong_way": 0.5,     # `way`: the chain takes the rule that its digit does not name, and goes on fluently
    "way_corrected": 0.15,  # of these: it says so after one or two lines, and begins again by the other rule
    "reconsidered": 0.05,   # `way`: the same after the right rule
    "slip": 0.06,         # `add`: a column gets a wrong digit, which nothing mends
    "slip_corrected": 0.3,  # of these: the next line puts it right
    "filler": 0.05,       # after a line comes one without content
}
FILLERS = ("let me see.", "that looks fine.", "so, on we go.")
FAMILIES = ("way", "map", "add")
OPERATORS = {"+": range(1, 10), "-": range(1, 10), "*": (3, 7, 9)}
LAYERS = ("bcd", "efg", "hij")


@dataclass(frozen=True)
class Problem:
    family: str
    facts: tuple


@dataclass(frozen=True)
class Chain:
    lines: tuple   # text of each line, with its newline
    kinds: tuple   # of each line: step, wrong (the mistake itself), fix, filler
    answer: str    # the answer to which this chain leads, right or wrong


def draw_problem(rng, family):
    return Problem(family, {"way": draw_way, "map": draw_map, "add": draw_add}[family](rng))


def prompt_text(problem):
    return {"way": way_prompt, "map": map_prompt, "add": add_prompt}[problem.family](*problem.facts)


def draw_chain(rng, problem):
    """A chain of thought as the policy learns to write it: right or wrong by the odds."""
    lines = {"way": way_lines, "map": map_lines, "add": add_lines}[problem.family](rng, *problem.facts)
    *steps, answer = lines
    return with_fillers(rng, steps, answer)


def with_fillers(rng, steps, answer):
    lines, kinds = [], []
    for text, kind in steps:
        lines.append(text)
        kinds.append(kind)
        if rng is not None and rng.random() < ODDS["filler"]:
            lines.append(rng.choice(FILLERS) + "\n")
            kinds.append("filler")
    return Chain(tuple(lines), tuple(kinds), answer)


def true_answer(problem):
    return {"way": way_answer, "map": lambda ways, target: target, "add": add_answer}[problem.family](*problem.facts)


def completion_text(chain):
    return "<think>\n" + "".join(chain.lines) + EXIT["close"] + EXIT["open"] + chain.answer + EXIT["closer"]


def problems(seed, family, count):
    """Distinct problems of one family from a named seed (a string such as `train-1`)."""
    rng, seen = random.Random(f"{seed}/{family}"), {}
    while len(seen) < count:
        seen.setdefault(draw_problem(rng, family))
    return list(seen)


# way: operations in their order, or from the last to the first; an even digit means in order.
#   from 6: +3 *7 -4 +7 way 3?

def draw_way(rng):
    while True:
        operations = []
        for _ in range(rng.randint(4, 6)):
            operator = rng.choice("+-*")
            operations.append((operator, rng.choice(OPERATORS[operator])))
        start = rng.randrange(10)
        # the wrong rule has to show in the answer
        if carried_out(start, operations, True)[1] != carried_out(start, operations, False)[1]:
            return start, tuple(operations), rng.randrange(10)


def way_prompt(start, operations, digit):
    return f"from {start}: {' '.join(f'{op}{n}' for op, n in operations)} way {digit}?\n"


def carried_out(start, operations, forward):
    """The lines of one rule, and where they lead."""
    state, lines = start, []
    for operator, operand in operations if forward else reversed(operations):
        result = compute(state, operator, operand)
        lines.append((f"{state}{operator}{operand}={result}\n", "step"))
        state = result
    return lines, state


def way_lines(rng, start, operations, digit):
    right = digit % 2 == 0
    forward = right if rng.random() >= ODDS["wrong_way"] else not right
    name = {True: "in order", False: "from the end"}
    lines, last = carried_out(start, operations, forward)
    out = [(f"I go {name[forward]}.\n", "step" if forward == right else "wrong")]
    turns = ODDS["reconsidered"] if forward == right else ODDS["way_corrected"]
    if rng.random() < turns:
        again, last = carried_out(start, operations, not forward)
        out += lines[:rng.randint(1, 2)] + [(f"wait, I go {name[not forward]}.\n", "fix" if forward != right else "wrong")] + again
    else:
        out += lines
    return [*out, str(last)]


def way_answer(start, operations, digit):
    return str(carried_out(start, operations, digit % 2 == 0)[1])


# map: arrows through three layers; every step takes one of two arrows, the target is one of the last three.
#   map a>b a>d b>e b>f c>e c>g d>f d>g e>h e>i f>h f>j g>i g>j to h?

def draw_map(rng):
    ways, before = [], "a"
    for layer in LAYERS:
        for node in before:
            ways.append((node, "".join(sorted(rng.sample(layer, 2)))))
        before = layer
    reached = {"a"}
    for node, ends in ways:
        if node in reached:
            reached |= set(ends)
    return tuple(ways), rng.choice(sorted(reached & set(LAYERS[-1])))


def map_prompt(ways, target):
    return f"map {' '.join(f'{node}>{end}' for node, ends in ways for end in ends)} to {target}?\n"


def reachable(ways, node):
    found = {node}
    for origin, ends in ways:  # in the order of the layers
        if origin in found:
            found |= set(ends)
    return found


def map_lines(rng, ways, target):
    arrows, node, out = dict(ways), "a", []
    while node in arrows:
        choice = rng.choice(arrows[node])
        # the step after which the target is out of reach, though it was not before
        lost = target in reachable(ways, node) and target not in reachable(ways, choice)
        out.append((f"{node}: {' or '.join(arrows[node])}, I take {choice}.\n", "wrong" if lost else "step"))
        node = choice
    return [*out, node]


# add: two numbers of four digits, from the last column to the first, with carries; slips are wrong digits.
#   add 3817 2656?

def draw_add(rng):
    return rng.randrange(1000, 10000), rng.randrange(1000, 10000)


def add_prompt(a, b):
    return f"add {a} {b}?\n"


def add_lines(rng, a, b):
    carry, total, out = 0, "", []
    for x, y in zip(reversed(str(a)), reversed(str(b))):
        result = int(x) + int(y) + carry
        head = f"{x}+{y}+{carry}="
        written = result
        if rng.random() < ODDS["slip"]:
            written = rng.choice([n for n in range(20) if n != result])
            out.append((f"{head}{written:02d}\n", "wrong"))
            if rng.random() < ODDS["slip_corrected"]:
                written = result
                out.append((f"wait, {head}{written:02d}\n", "fix"))
        else:
            out.append((f"{head}{written:02d}\n", "step"))
        total, carry = f"{written % 10}{total}", written // 10
    return [*out, str(int(f"{carry}{total}"))]


def add_answer(a, b):
    return str(a + b)
