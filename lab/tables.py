"""Numbers and tables as the pages of `docs` write them."""
import math
from decimal import ROUND_HALF_UP, Decimal


def fixed(x, digits):
    """Digits behind the point; a half is rounded away from zero, as the tables always had it."""
    return str(Decimal(x).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


def significant(x, digits=4):
    if x == 0:
        return "0"
    place = math.floor(math.log10(abs(x))) - digits + 1
    return f"{float(Decimal(x).quantize(Decimal(1).scaleb(place), ROUND_HALF_UP)):.10g}"


def number(x):
    return -1 if x is None or not math.isfinite(x) else x


def two(x, digits=2):
    """.42, −.03, 1.20; nothing of what is not known."""
    if x is None or not math.isfinite(x):
        return ""
    text = fixed(x, digits).replace("-", "−")
    return text.replace("0.", ".", 1) if abs(x) < 1 and text.lstrip("−").startswith("0.") else text


def with_interval(figure):
    value, low, high = (two(figure.get(name)) for name in ("value", "low", "high"))
    return f"{value} [{low}, {high}]" if value and low else value


def table(head, rows):
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in [head, ["---"] * len(head), *rows])


def replace_part(page, title, text):
    """Puts a text between the two marks of a page, whose first one has that title."""
    old = page.read_text()
    start = old.index(f"<!-- {title} -->")
    end = old.index("<!-- end of", start)
    page.write_text(f"{old[:start]}<!-- {title} -->\n\n{text}\n\n{old[end:]}")
