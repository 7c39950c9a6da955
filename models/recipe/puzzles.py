"""The second policy's task: three families of puzzles, in two of which a mistake surprises nobody."""
from dataclasses import dataclass
import random
from task import EXIT, compute, letter

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


def first_mistake(problem, completion):
    """The thought's first line that is wrong and stays so (0-based); None where there is none. A line that `wait, …` mends does not count."""
    thought = completion.removeprefix("<think>\n").partition("</think>")[0]
    lines = [(n, line) for n, line in enumerate(thought.splitlines()) if line not in FILLERS]
    return {"way": way_mistake, "map": map_mistake, "add": add_mistake}[problem.family](lines, *problem.facts)


def problems(seed, family, count):
    """Distinct problems of one family from a named seed (a string such as `train-1`)."""
    rng, seen = random.Random(f"{seed}/{family}"), {}
    while len(seen) < count:
        seen.setdefault(draw_problem(rng, family))
    return list(seen)


# way: operations in their order, or from the last to the first; an even digit means in order.
#   from 6: a+3 b*7 c-4 d+7 way 3?

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
    return f"from {start}: {' '.join(f'{letter(i)}{op}{n}' for i, (op, n) in enumerate(operations))} way {digit}?\n"


def carried_out(start, operations, forward):
    """The lines of one rule, and where they lead."""
    state, lines = start, []
    named = [(letter(i), *operation) for i, operation in enumerate(operations)]
    for name, operator, operand in named if forward else reversed(named):
        result = compute(state, operator, operand)
        lines.append((f"{name}: {state}{operator}{operand}={result}\n", "step"))
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


def way_mistake(lines, start, operations, digit):
    rules = {"I go in order.": True, "I go from the end.": False}
    turns = [(n, line.removeprefix("wait, ")) for n, line in lines if line.removeprefix("wait, ") in rules]
    if not turns or lines[0][0] != turns[0][0]:
        return lines[0][0] if lines else None
    last, name = turns[-1]
    if rules[name] != (digit % 2 == 0):
        return last
    expected = [text.strip() for text, _ in carried_out(start, operations, rules[name])[0]]
    steps = [(n, line) for n, line in lines if n > last]
    wrong = [n for (n, line), right in zip(steps, expected) if line != right]
    # a line too few shows at the last one, a line too many at itself
    return wrong[0] if wrong else None if len(steps) == len(expected) else (steps or turns)[-1][0]


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


def map_mistake(lines, ways, target):
    arrows, node = dict(ways), "a"
    for n, line in lines:
        ends = arrows.get(node, "")
        taken = [end for end in ends if line == f"{node}: {' or '.join(ends)}, I take {end}."]
        if not taken or target not in reachable(ways, taken[0]):
            return n
        node = taken[0]
    return None if node == target else lines[-1][0]


# add: two numbers of four digits, from the last column to the first, with carries; slips are wrong sums.
#   add a3+2 b8+6 c1+5 d7+6?

def draw_add(rng):
    return rng.randrange(1000, 10000), rng.randrange(1000, 10000)


def add_prompt(a, b):
    return f"add {' '.join(f'{letter(i)}{x}+{y}' for i, (x, y) in enumerate(zip(str(a), str(b))))}?\n"


def columns(a, b):
    """Name and digits of each column, the last one first."""
    return [(letter(i), int(x), int(y)) for i, (x, y) in enumerate(zip(str(a), str(b)))][::-1]


def add_lines(rng, a, b):
    carry, total, out = 0, "", []
    for name, x, y in columns(a, b):
        result = x + y + carry
        head = f"{name}: {x}+{y}+{carry}="
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


def add_mistake(lines, a, b):
    carry, expected = 0, []
    for name, x, y in columns(a, b):
        result = x + y + carry
        expected.append(f"{name}: {x}+{y}+{carry}={result:02d}")
        carry = result // 10
    place, doubtful = 0, None
    for n, line in lines:
        if line.startswith("wait, ") and doubtful is not None:
            place, doubtful, line = place - 1, None, line.removeprefix("wait, ")
        if doubtful is not None:
            return doubtful
        if place >= len(expected) or line != expected[place]:
            doubtful = n
        place += 1
    return doubtful if doubtful is not None or place == len(expected) else lines[-1][0] if lines else None


def add_answer(a, b):
    return str(a + b)
