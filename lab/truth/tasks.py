"""Three tasks for a real language model of half a billion weights: what it is asked, and whether a completion is right.

words   word problems of one to three steps, made here; T = 1
gsm8k   the questions of a file of openai/grade-school-math (MIT); T = .7, which is part of the policy
code    openai/human-eval (MIT): a function, whose verdict is its tests'; T = 1
"""
import ast
import gzip
import json
import os
import random
import re
import subprocess
import sys
import tempfile

TEMPERATURE = {"words": 1.0, "gsm8k": 0.7, "code": 1.0}
MAX_TOKENS = {"words": 200, "gsm8k": 320, "code": 320}  # of a completion

SOLVE = "Solve the problem. Write one short step a line, each with its calculation, then the final number alone in \\boxed{}."
CODE = "Complete the function. Answer with the whole function, without its docstring, in one Python code block, and nothing else."
WORKED = [
    ("A school orders 6 packs of 24 pencils. Each of its 9 classes takes 15 pencils. How many pencils are left?",
     "The school has 6 * 24 = 144 pencils.\nThe classes take 9 * 15 = 135 pencils.\nThere are 144 - 135 = 9 pencils left.\n\\boxed{9}"),
    ("Paul is twice as old as Eva. In 5 years the sum of their ages will be 46. How old is Paul now?",
     "Today the sum of their ages is 46 - 2 * 5 = 36.\nPaul and Eva are 2 + 1 = 3 parts, so one part is 36 / 3 = 12.\nPaul is 2 * 12 = 24 years old.\n\\boxed{24}"),
    ("A pool holds 300 liters and is a third full. A hose adds 18 liters a minute, a crack loses 8 liters a minute. In how many minutes is it full?",
     "A third of the pool is 300 / 3 = 100 liters.\nIt still needs 300 - 100 = 200 liters.\nEach minute adds 18 - 8 = 10 liters.\nIt takes 200 / 10 = 20 minutes.\n\\boxed{20}"),
]


def rows(task, gsm8k_file, code_file):
    return words(640, 1) if task == "words" else gsm8k(gsm8k_file) if task == "gsm8k" else code(code_file)


def words(n, seed):
    """n different questions, each with its answer."""
    draw, found = random.Random(seed), {}
    while len(found) < n:
        question, answer = word_problem(draw)
        if answer > 0 and answer == int(answer):
            found[question] = str(int(answer))
    return [{"id": f"w{seed}-{i}", "task": "words", "question": q, "answer": a} for i, (q, a) in enumerate(found.items())]


def word_problem(draw):
    who, other = draw.sample("Mia Omar Lena Tom Ada Ivo Rosa Finn Nora Sam Kemal Ines".split(), 2)
    what = draw.choice("marbles stamps apples cards books shells pens coins stickers beads".split())
    a, b, c = draw.randint(3, 12), draw.randint(3, 12), draw.randint(2, 9)
    return draw.choice([
        (f"{who} has {a} boxes with {b} {what} in each box. {who} gives away {c} {what}. How many {what} are left?", a * b - c),
        (f"{who} has {a * 5} {what}. {other} has {b} more {what} than {who}. How many {what} do they have together?", a * 10 + b),
        (f"One of the {what} costs ${a}. {who} buys {c} of them and pays with ${a * c + b}. How many dollars of change does {who} get?", b),
        (f"{who} finds {a} {what} each day for {c} days, then loses half of them and finds {b} more. How many {what} does {who} have?", a * c / 2 + b),
        (f"{who} and {other} share {a * b} {what} equally among {a} bags. Each bag then gets {c} more {what}. How many {what} are in one bag?", b + c),
        (f"{who} reads {a} pages on Monday, twice as many on Tuesday, and {b} pages on Wednesday. How many pages is that in all?", 3 * a + b),
        (f"A train has {a} cars with {b * 2} seats each. {c * 3} seats are taken. How many seats are free?", a * b * 2 - c * 3),
        (f"{who} earns ${a} an hour for {b} hours and spends ${c} each day for 3 days. How many dollars are left?", a * b - 3 * c),
    ])


def gsm8k(path):
    rows = [json.loads(line) for line in open(path, encoding="utf-8")]
    answers = [row["ground_truth"].split("A:")[-1].strip().replace(",", "") for row in rows]
    return [{"id": f"g{i}", "task": "gsm8k", "question": row["question"], "answer": a} for i, (row, a) in enumerate(zip(rows, answers))]


def code(path):
    rows = map(json.loads, gzip.open(path, "rt", encoding="utf-8"))
    return [{"id": row["task_id"].replace("HumanEval/", "c"), "task": "code", "question": row["prompt"], "answer": row["canonical_solution"],
             "head": row["prompt"][: row["prompt"].index(f"def {row['entry_point']}(")], "test": f"{row['test']}\ncheck({row['entry_point']})\n"} for row in rows]


def messages(row):
    if row["task"] == "code":
        return [{"role": "system", "content": CODE}, {"role": "user", "content": f"```python\n{row['question'].strip()}\n```"}]
    worked = [{"role": role, "content": text} for pair in WORKED for role, text in zip(("user", "assistant"), pair)]
    return [{"role": "system", "content": SOLVE}, *worked, {"role": "user", "content": row["question"]}]


def right(row, text):
    """Whether a whole completion, as text, is right."""
    if row["task"] == "code":
        return passes(program(row, text))
    boxed = re.findall(r"\\boxed\{([^{}]*)\}", text)
    return bool(boxed) and boxed[-1].strip().strip("$").replace(",", "").rstrip(".") == row["answer"]


def program(row, text):
    """The program that tells whether a completion is right; None where it has no code that parses."""
    block = re.search(r"```(?:python)?\n(.*?)(?:```|\Z)", text, re.S)
    whole = f"{row['head']}\n{block.group(1)}\n{row['test']}" if block else ""
    try:
        ast.parse(whole)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return whole or None


def passes(program):
    """Whether a program of a language model's ends well: in a process, a folder and two seconds of its own."""
    if program is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        limits = "import resource as r; r.setrlimit(r.RLIMIT_CPU, (2, 2)); r.setrlimit(r.RLIMIT_AS, (1 << 30, 1 << 30)); r.setrlimit(r.RLIMIT_FSIZE, (0, 0))\n"
        try:
            run = subprocess.run([sys.executable, "-I", "-c", limits + program], cwd=folder, env={"PATH": os.environ.get("PATH", "")}, timeout=4,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except (subprocess.TimeoutExpired, OSError, ValueError):
            return False
        return run.returncode == 0
