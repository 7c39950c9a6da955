"""
Writes the tables of docs/fidelity.md from docs/fidelity/*.csv. Those figures are evidence: they were made from completions
sampled at every exit, an hour or two, which are not kept. What follows from the sets of the benchmark, `compare.py` makes anew.
"""
import pandas as pd

from runs import ROOT
from tables import fixed, replace_part, table, two, with_interval

SHORTER = ["mc-truncated 64", "mc-truncated 128"]
FEWER = ["mc 1", "mc 4", "mc 8", "mc 20", "mc 32", *SHORTER]
CUTS = ["hybrid", "fixed", "entropy", "fixed 1, merged", "best cut"]


def figures(name):
    """(figure, of, at) to a value with its interval; nothing where there is none."""
    rows = pd.read_csv(ROOT / f"docs/fidelity/{name}.csv", dtype={"of": str, "at": str}, keep_default_na=False, na_values={c: [""] for c in ("value", "low", "high")})
    found = rows.set_index(["figure", "of", "at"])
    return lambda figure, of="", at="": found.loc[figure, of, at].to_dict() if (figure, of, at) in found.index else {}


def page_part():
    both = [figures("puzzles"), figures("embedded")]
    sizes = []
    for title, get in zip(["The second policy", "The bundled policy"], both):
        n = lambda name: f"{get(name)['value']:,.0f}"
        sizes.append(
            f"**{title}**: {n('traces')} traces ({n('right')} right, {n('wrong')} wrong), {n('segments')} segments, "
            f"{n('completions')} completions at every exit, a calibration fitted to {n('fitted_to')} traces of other groups; "
            f"ceiling {with_interval(get('ceiling'))}."
        )
    code = lambda name: f"`{name}`"
    lost = lambda get, name: f"{fixed(100 * get('lost', name.split()[1], 'all')['value'], 0)} %" if name in SHORTER else ""
    fewer = [
        [code(name), *(with_interval(get("half_pearson", name, "all")) for get in both), *(lost(get, name) for get in both)]
        for name in FEWER
    ]
    kept = lambda get, name, at="": two(get("kept", name, at).get("value"))
    cuts = [
        [name if name == "best cut" else code(name), *(kept(get, name, at) for get in both for at in ("10", "40"))]
        for name in CUTS
    ]
    within = ", ".join(
        f"{code(name)} keeps {' and '.join(kept(get, f'newline, within {name}') for get in both)}"
        for name in ("uniform", "entropy", "unsure")
    )
    return "\n\n".join([
        " ".join(sizes),
        "Monte Carlo of fewer completions, and of completions cut at a limit, by Pearson against 32 completions that it has not seen; and the share of completions that a limit of so many tokens loses:",
        table(["", "second", "bundled", "lost, second", "lost, bundled"], fewer),
        "The share of the token-wise credit, Σ Δ_t², that a cut into at most so many segments keeps:",
        table(["", "second, 10", "second, 40", "bundled, 10", "bundled, 40"], cuts),
        f"Cut at lines, with weights inside: {within} (the part of it along the credit that tokens get).",
    ])


if __name__ == "__main__":
    replace_part(ROOT / "docs/fidelity.md", "measured: lab/fidelity.py", page_part())
