"""Renders chat templates as transformers does: JSON lines {template, messages, tools?, variables?} in, {text} or {error} out."""
import json
import sys

from transformers.utils import chat_template_utils as chat

for line in sys.stdin:
    case = json.loads(line)
    try:
        messages = [chat._normalize_chat_messages(case["messages"])]
        options = {"tools": case.get("tools"), "add_generation_prompt": case.get("add_generation_prompt", True)}
        options.update(case.get("variables", {}))
        [text], _ = chat.render_jinja_template(messages, chat_template=case["template"], **options)
        print(json.dumps({"text": text}))
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
