"""What the task knows of a completion: its lines, which of them are wrong, and the exact value of every state."""
import collections
import re
from setting import task

NEWLINE = 10
OPERATION = re.compile(r"(wait, )?([a-j]): (\d)([-+*])(\d)=(\d) (?:top (\d)|low ([a-j])(\d))\n")


def lines_of(completion_ids):
    """The thought's lines with their newline, and the token end of each: (texts, ends). None where the completion has no such form.

    Ends are counted in the ids themselves: a byte that is no UTF-8 is longer as text.
    """
    if completion_ids[:2] != [task.THINK, NEWLINE] or completion_ids.count(task.END_THINK) != 1:
        return None
    thought = completion_ids[:completion_ids.index(task.END_THINK)]
    ends = [at + 1 for at, token in enumerate(thought) if token == NEWLINE][1:]
    if not ends or ends[-1] != len(thought):
        return None
    return [task.decode(thought[start:end]) for start, end in zip([2, *ends], ends)], ends


def is_wrong(line):
    """Whether the line is an operation with a wrong result."""
    found = OPERATION.fullmatch(line)
    return bool(found) and task.compute(int(found[3]), found[4], int(found[5])) != int(found[6])


def operations(rows):
    """How many operations of each operator went wrong or right, corrections left out: {(operator, wrong): number}."""
    counted = collections.Counter()
    for row in rows:
        for line in (lines_of(row["completion_ids"]) or [[]])[0]:
            read = OPERATION.fullmatch(line)
            if read and not read[1]:
                counted[read[4], is_wrong(line)] += 1
    return counted


def mistakes(lines):
    """Indices of the lines that are wrong and that no later `wait` line of the same operation takes back."""
    found = {}
    for index, line in enumerate(lines):
        read = OPERATION.fullmatch(line)
        if read and read[1]:
            found.pop(read[2], None)
        if is_wrong(line):
            found[read[2]] = index
    return sorted(found.values())


class Exact:
    """The probability of a right answer by going on, of a simple model of the policy: it goes wrong at the odds `wrong` of each operator
    (any of the nine other digits alike), puts `corrected` of its mistakes right in its next operation line, and copies without fault."""

    def __init__(self, problem, wrong, corrected):
        self.problem, self.wrong, self.corrected = problem, wrong, corrected
        self.answer, self.memo = task.true_answer(problem), {}

    def ahead(self, index, state, best):
        """Before operation `index`, with running result `state` and aggregate `best` (value, letter)."""
        if index == len(self.problem.operations):
            return float((str(best[0]) if self.problem.family == "top" else best[1]) == self.answer)
        key = index, state, best
        if key not in self.memo:
            operator, operand = self.problem.operations[index]
            right, odds = task.compute(state, operator, operand), self.wrong[operator]
            after = [self.ahead(index + 1, digit, task.aggregate(self.problem.family, best, index, digit)) for digit in range(10)]
            carried = sum(v for digit, v in enumerate(after) if digit != right) / 9
            self.memo[key] = (1 - odds * (1 - self.corrected)) * after[right] + odds * (1 - self.corrected) * carried
        return self.memo[key]

    def values(self, lines):
        """One value for the state before each line and one behind the last: [len(lines) + 1]. None where an operation is not the problem's next."""
        before = index, state, best = 0, self.problem.start, None
        found = [self.ahead(*before)]
        for line in lines:
            read = OPERATION.fullmatch(line)
            if read:
                wait, letter, start, operator, operand, result, top, low, lowest = read.groups()
                if wait:  # takes the last operation back
                    index, state, best = before
                if index >= len(self.problem.operations) or (operator, int(operand)) != self.problem.operations[index]:
                    return None
                before = index, state, best
                best = (int(top), letter) if top is not None else (int(lowest), low)
                index, state = index + 1, int(result)
                value = self.ahead(index, state, best)
                if is_wrong(line) and not wait:
                    right = task.compute(int(start), operator, int(operand))
                    mended = self.ahead(index, right, task.aggregate(self.problem.family, before[2], index - 1, right))
                    value = self.corrected * mended + (1 - self.corrected) * value
                found.append(value)
            else:
                found.append(found[-1])  # a filler decides nothing
        return found
