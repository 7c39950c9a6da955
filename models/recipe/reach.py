"""The third policy's task: a program of a few given operations, and the digit to which it leads. Many are right, and a test says which."""
from dataclasses import dataclass
import random
import re
import task
import tree
from task import EXIT, OPERANDS, compute, letter

# the odds of the training distribution; sampled traces show about the same
ODDS = {
    "steps": (3, 5),      # operations, as the first line says: of few of them fewer go wrong
    "slip": 0.08,         # adding or taking away gets a wrong result, any, and the chain goes on from it
    "added": 0.4,         # a product gets the result of adding, which surprises nobody
    "corrected": 0.3,     # of both: the next line, `wait, …`, puts it right
    "filler": 0.08,       # after a line comes one without content
}
FILLERS = ("that fits.", "so far so good.", "next one.")
FAMILIES = ("reach",)
QUESTION = {"question": "</think>\nok? ", "yes": "y", "no": "n"}  # as ../reach/ask_template.json has it
MATE = "\n"          # behind a mate's text, as in ../reach/hint_template.json
WITH_MATE = 0.15     # of the sequences: a right chain stands behind the prompt, and a right one follows


@dataclass(frozen=True)
class Problem:
    start: int
    operations: tuple  # of (operator, operand): those that may be used, each as often as one likes


@dataclass(frozen=True)
class Chain:
    lines: tuple     # text of each line, with its newline
    kinds: tuple     # of each line: plan, step, wrong, fix, filler
    is_right: tuple  # of the start and after each line: whether the program so far leads where the chain says
    answer: str      # the program and its result to which this chain leads, right or wrong


def draw_problem(rng, family=None):
    operations = tuple((operator, rng.choice(OPERANDS[operator])) for operator in "*+-")
    return Problem(rng.randrange(10), tuple(rng.sample(operations, 3)))


def prompt_text(problem):
    return f"from {problem.start} by {' '.join(f'{operator}{operand}' for operator, operand in problem.operations)}\n"


def draw_mistake(rng, state, operator, operand):
    """A wrong result; None where there is none."""
    result = compute(state, operator, operand)
    if operator == "*":
        added = compute(state, "+", operand)
        return added if added != result and rng.random() < ODDS["added"] else None
    return rng.choice([digit for digit in range(10) if digit != result]) if rng.random() < ODDS["slip"] else None


def draw_chain(rng, problem):
    """A chain of thought as the policy learns to write it: right or wrong by the odds."""
    count = rng.choice(ODDS["steps"])
    lines, kinds, is_right, program = [], [], [True], []
    shown = true = problem.start

    def write(text, kind, said):
        lines.append(text + "\n")
        kinds.append(kind)
        is_right.append(said == true)

    def filler():
        if rng.random() < ODDS["filler"]:
            write(rng.choice(FILLERS), "filler", shown)

    write(f"{count} steps.", "plan", shown)
    filler()
    for index in range(count):
        operator, operand = rng.choice(problem.operations)
        result, head = compute(shown, operator, operand), f"{letter(index)}: {shown}{operator}{operand}="
        wrong = draw_mistake(rng, shown, operator, operand)
        true = compute(true, operator, operand)
        shown = result if wrong is None else wrong
        write(f"{head}{shown}", "step" if wrong is None else "wrong", shown)
        if wrong is not None and rng.random() < ODDS["corrected"]:
            shown = result
            write(f"wait, {head}{shown}", "fix", shown)
        filler()
        program.append(f"{letter(index)}{operator}{operand}")
    return Chain(tuple(lines), tuple(kinds), tuple(is_right), f"{' '.join(program)}={shown}")


def completion_text(chain):
    return "<think>\n" + "".join(chain.lines) + EXIT["close"] + EXIT["open"] + chain.answer + EXIT["closer"]


def passes(problem, completion):
    """The test: as many operations as may be, all of them given ones, named in their order, and the result is where they lead."""
    words, _, said = (task.final_answer(completion) or "").partition("=")
    state, given = problem.start, [f"{operator}{operand}" for operator, operand in problem.operations]
    for index, word in enumerate(words.split(" ")):
        if word[:1] != letter(min(index, 9)) or word[1:] not in given:
            return False
        state = compute(state, word[1], int(word[2:]))
    return len(words.split(" ")) in ODDS["steps"] and said == str(state)


def first_mistake(problem, completion):
    """The thought's first line that is wrong and stays so (0-based); None where there is none. A line that `wait, …` mends does not count."""
    thought = completion.removeprefix("<think>\n").partition("</think>")[0]
    lines = [(n, line) for n, line in enumerate(thought.splitlines()) if line not in FILLERS and not line.endswith(" steps.")]
    state = str(problem.start)
    for place, (n, line) in enumerate(lines):
        if place + 1 < len(lines) and lines[place + 1][1].startswith("wait, "):
            continue
        found = re.fullmatch(r"(?:wait, )?[a-j]: (\d)([-+*])(\d)=(\d)", line)
        if found is None or found.group(1) != state or str(compute(int(state), found.group(2), int(found.group(3)))) != found.group(4):
            return n
        state = found.group(4)
    return None


def sequence(rng, exits):
    """
    A chain with the question at that many of its exits, answered by whether all is right so far; or, behind a mate's text,
    a chain whose program passes: what a policy does that follows the example of a right one.
    """
    problem = draw_problem(rng)
    prompt = task.encode(prompt_text(problem))
    chain = draw_chain(rng, problem)
    if rng.random() < WITH_MATE:
        mate, chain = right_chain(rng, problem), right_chain(rng, problem)
        prompt, exits = prompt + task.encode(completion_text(mate) + MATE), 0
    ends = list(zip(tree.exit_points(prompt, chain.lines), chain.is_right))
    question = task.encode(QUESTION["question"])
    branches = [(end, question, task.encode(QUESTION["yes" if right else "no"]))
                for end, right in rng.sample(ends, min(exits, len(ends)))]
    return tree.with_branches(prompt, task.encode(completion_text(chain)) + [task.END], branches)


def right_chain(rng, problem):
    while not (chain := draw_chain(rng, problem)).is_right[-1]:
        pass
    return chain


def problems(seed, family, count):
    """Distinct problems from a named seed (a string such as `train-1`)."""
    rng, seen = random.Random(f"{seed}/{family}"), {}
    while len(seen) < count:
        seen.setdefault(draw_problem(rng))
    return list(seen)
