"""Renders chat templates as transformers does, to be compared: JSON lines of {template, messages, tools?, variables?} in, the same with {text} or
{error} out. An argument names a file with the fields that a line lacks: `render.py request.json < snippets.jsonl` records the snippets."""
import json
import re
import sys

from transformers.utils import chat_template_utils as chat

common = json.load(open(sys.argv[1])) if len(sys.argv) > 1 else {}
for line in sys.stdin:
    case = json.loads(line)
    request = {**common, **case}
    options = {"tools": request.get("tools"), "add_generation_prompt": request.get("add_generation_prompt", True)}
    found = {"template": case["template"]}
    try:
        messages = [chat._normalize_chat_messages(request["messages"])]
        [text], _ = chat.render_jinja_template(
            messages, chat_template=case["template"], **options, **request.get("variables", {})
        )
        found["text"] = re.sub(r" at 0x\w+", "", text)
    except Exception as error:
        found["error"] = type(error).__name__
    print(json.dumps(found, ensure_ascii=False))
