"""The recipe's task in densities of decisions: as it is, and with short lines without content between its lines, both weak in `*`; one weak in `-`, for which no choice was made; one of a single step; and the task whose reward is a test."""
import pathlib
import random
import sys

RECIPE = pathlib.Path(__file__).resolve().parents[2] / "models" / "recipe"
sys.path.insert(0, str(RECIPE))
import reach  # noqa: E402
import task  # noqa: E402

WEAK = {"dense": "*", "sparse": "*", "minus": "-", "single": "+-*"}
WRONG = 0.4                                   # how often a result is wrong while the weakness is taught; a third is what stays
OPERATIONS = (3, 5)                           # of a problem: fewer than in the recipe, so that a step of training takes seconds
LIMIT = 300                                   # tokens of a sampled trace, prompt included
FILLERS = ("ok.\n", "hm.\n", "so.\n")         # of the sparse task, as short as can be: what counts is their number
LONGER = (6, 8)                               # operations of problems that are longer than any that is trained on
LONGER_LIMIT = 700                            # their tokens
MORE = {"dense": 0.0, "sparse": 0.7, "minus": 0.5, "single": 0.0}  # after a line comes a filler so often, and after that the next: 7 lines of 10


TASKS = (*MORE, "reach")


def puzzle_of(name):
    """What draws the problems of a task, by the name of its density."""
    return reach if name == "reach" else Density(name)


class Density:
    """Draws problems and writes chains as `task` does, so that the recipe's training loop takes it in its place."""
    FAMILIES = task.FAMILIES

    def __init__(self, name, wrong=None):
        self.name, self.weak, self.more, self.is_single = name, WEAK[name], MORE[name], name == "single"
        self.wrong = wrong or {operator: WRONG if operator in self.weak else 0.0 for operator in "+-*"}
        self.ODDS = {**task.ODDS, "operations": OPERATIONS, "wrong": self.wrong, "fillers": self.more}
        if self.is_single:  # nothing is put right, which would be a second step; the line of the lowest is always `a`
            self.ODDS.update(operations=(1, 1), corrected=0.0)
            self.FAMILIES = ("top",)

    prompt_text = staticmethod(task.prompt_text)
    completion_text = staticmethod(task.completion_text)

    def draw_problem(self, rng, family):
        return task.draw_problem(rng, family, self.ODDS)

    def held_out(self, count):
        """Problems that no step trains on; of a single step there are 200 in all, so any of them, as they are drawn."""
        if self.is_single:
            rng = random.Random(f"held-out/{self.name}")
            return [self.draw_problem(rng, "top") for _ in range(count)]
        return self.distinct(f"held-out/{self.name}", count, lambda rng, family: self.draw_problem(rng, family))

    def farther(self, count):
        """Problems unlike those that are trained on, with the tokens that a trace may have: {kind: (problems, tokens)}."""
        return {} if self.is_single else {"longer": (self.longer(count), LONGER_LIMIT), "others": (self.others(count), LIMIT)}

    def longer(self, count):
        """Problems with more operations than any that is trained on."""
        odds = {**self.ODDS, "operations": LONGER}
        return self.distinct(f"longer/{self.name}", count, lambda rng, family: task.draw_problem(rng, family, odds))

    def others(self, count):
        """Problems without the weak operation."""
        def draw(rng, family):
            while True:
                problem = self.draw_problem(rng, family)
                if all(operator != self.weak for operator, _ in problem.operations):
                    return problem
        return self.distinct(f"others/{self.name}", count, draw)

    def distinct(self, seed, count, draw):
        rng, seen = random.Random(seed), {}
        while len(seen) < count:
            seen.setdefault(draw(rng, rng.choice(self.FAMILIES)))
        return list(seen)

    def draw_chain(self, rng, problem):
        """A chain whose operations go wrong at the odds of their operator; a third of the mistakes is put right, as in the task."""
        mistakes, state = {}, problem.start
        for index, (operator, operand) in enumerate(problem.operations):
            result = task.compute(state, operator, operand)
            if rng.random() < self.wrong[operator]:
                wrong = rng.choice([digit for digit in range(10) if digit != result])
                corrected = rng.random() < self.ODDS["corrected"]
                mistakes[index] = (wrong, corrected)
                result = result if corrected else wrong
            state = result
        chain = task.write_chain(problem, mistakes)
        if self.more == 0:
            return chain
        lines, kinds = [], []
        for line, kind in zip(chain.lines, chain.kinds):
            lines.append(line)
            kinds.append(kind)
            while rng.random() < self.more:
                lines.append(rng.choice(FILLERS))
                kinds.append("filler")
        return task.Chain(tuple(lines), tuple(kinds), chain.answer)
