"""The statistics by hand, and the tables as they stand: `python3 -m unittest lab/test_lab.py`."""
import math
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from scipy import stats as scipy_stats

import benchmark
import fidelity
import runs
import stats
import training
from tables import fixed, significant, two

ROOT = Path(__file__).parent.parent


def table_of(credits, rewards, groups=None, first_wrong=None):
    lengths = [len(trace) for trace in next(iter(credits.values()))]
    n = len(rewards)
    return stats.Table(
        offsets=np.cumsum([0, *lengths]), rewards=np.array(rewards, float),
        groups=np.arange(n) if groups is None else np.array(groups),
        first_wrong=np.array([-2] * n if first_wrong is None else first_wrong),
        credits={name: np.concatenate(traces).astype(float) for name, traces in credits.items()},
    )


class Statistics(unittest.TestCase):
    def test_one_trace_is_what_scipy_says(self):
        random = np.random.default_rng(1)
        x, y = random.integers(0, 5, 12).astype(float), random.normal(size=12)
        found = stats.correlate(table_of({"x": [x], "y": [y]}, [1]), "x", "y")
        for name, of in (("pearson", scipy_stats.pearsonr), ("spearman", scipy_stats.spearmanr), ("kendall", scipy_stats.kendalltau)):
            figure = found[name, "all"]
            self.assertAlmostEqual(float(figure.value(figure.terms.sum(0))), of(x, y)[0], 9)

    def test_agreement_by_hand(self):
        table = table_of({"truth": [[0.5, -0.5, 0.1]], "credit": [[1, 2, -3]]}, [0], first_wrong=[1])
        value = lambda figure: float(figure.value(figure.terms.sum(0)))
        self.assertEqual(value(stats.sign_of_large(table, "truth", "credit")), 0.5)
        self.assertEqual(value(stats.worst_segment(table, "truth", "credit")), 0)
        self.assertEqual(value(stats.first_wrong(table, "truth")["hit_at_1"]), 1)
        self.assertEqual(value(stats.first_wrong(table, "credit")["auc"]), 0)
        self.assertAlmostEqual(float(stats.ceiling_at(0.5)), math.sqrt(2 / 3))

    def test_exact_tests_and_curves(self):
        self.assertEqual(runs.sign_flip([-1, 2, 3]), 4 / 8)
        self.assertEqual(runs.exchange([[1, 2]] * 3, sum), 2 / 8)
        curve = [{"step": step, "tokens": step * step, "accuracy": 0.5 + step / 50} for step in (0, 10, 20)]
        self.assertAlmostEqual(runs.area(curve), 0.7)
        self.assertAlmostEqual(runs.reaches(curve, 0.8, "tokens"), 250)
        self.assertEqual(runs.reaches(curve, 0.95), math.inf)
        self.assertAlmostEqual(runs.interval([1, 2, 3])[1], 4.303 / math.sqrt(3), 3)

    def test_no_share_of_the_steps_of_who_starts_at_the_level(self):
        looks = lambda *accuracies: [
            {"step": n, "tokens": n, "held_out": each, "of": 8 if n > 1 else 4} for n, each in enumerate(accuracies)
        ]
        log = lambda arm, *accuracies: {
            "arguments": {"arm": arm, "seed": 1, "density": "sparse"}, "looks": looks(*accuracies), "steps": [],
        }
        found = {(each["arm"], each["figure"]): each["value"] for each in runs.levels([log("uniform", 0.66, 0.66, 0.8), log("other", 0.66, 0.66, 0.76)])}
        self.assertEqual(found["other", "steps_to_0.65"], 0)
        self.assertTrue(math.isnan(found["other", "steps_to_0.65_share"]))
        self.assertAlmostEqual(found["other", "steps_to_0.70_share"], 1.4 / (1 + 0.04 / 0.14))

    def test_numbers(self):
        self.assertEqual([fixed(0.125, 2), significant(0.0078125), two(-0.031), two(1)], ["0.13", "0.007813", "−.03", "1.00"])


class Tables(unittest.TestCase):
    """What the scripts make of the evidence is what stands in the repository."""

    def stands_in(self, page, text):
        self.assertIn(text, (ROOT / "docs" / page).read_text())

    def test_benchmark(self):
        self.stands_in("benchmark.md", benchmark.page_part(benchmark.pd.read_csv(benchmark.CSV)))

    def test_fidelity(self):
        self.stands_in("fidelity.md", fidelity.page_part())

    def test_training(self):
        found = training.all_figures()
        self.stands_in("training.md", training.page_part(found))
        figures = [{"from": of, **each} for of, own in found.items() for each in own]
        self.assertEqual((runs.LOGS / "figures.csv").read_text(), runs.csv_of(figures, ["from"]))
        for file, text in training.within_tables().items():
            self.assertEqual((runs.LOGS / file).read_text(), text, file)


if __name__ == "__main__":
    unittest.main()
