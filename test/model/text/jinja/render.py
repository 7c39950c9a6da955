"""Renders chat templates as transformers does, to be compared: JSON lines of {template, messages, tools?, variables?} in, the same with {text} or
{error} out. An argument names a file with the fields that a line lacks: `render.py request.json < snippets.jsonl` records the snippets."""
import json
import re
import sys

from transformers.utils import chat_template_utils as chat

THOUGHT = ("reasoning_content", "thinking", "reasoning")


def normalized(message):
    """What transformers 5.24 does to a message; 5.10, which verl needs, hands on None, and a thought under its one name."""
    given = {key: value for key, value in message.items() if value is not None}
    thought = next((given[key] for key in THOUGHT if key in given), None)
    return given if thought is None else {"thinking": thought, **given, "reasoning_content": thought}


common = json.load(open(sys.argv[1])) if len(sys.argv) > 1 else {}
for line in sys.stdin:
    case = json.loads(line)
    request = {**common, **case}
    options = {"tools": request.get("tools"), "add_generation_prompt": request.get("add_generation_prompt", True)}
    found = {"template": case["template"]}
    try:
        normalize = getattr(chat, "_normalize_chat_messages", lambda messages: [normalized(each) for each in messages])
        [text], _ = chat.render_jinja_template(
            [normalize(request["messages"])], chat_template=case["template"], **options, **request.get("variables", {})
        )
        found["text"] = re.sub(r" at 0x\w+", "", text)
    except Exception as error:
        found["error"] = type(error).__name__
    print(json.dumps(found, ensure_ascii=False))
