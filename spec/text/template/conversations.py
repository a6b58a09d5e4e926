"""conversations.py -- conversations that chat templates are compared on"""
import itertools

WEATHER = {"type": "function", "function": {
    "name": "weather", "description": "Say the weather of a place.\nFor today only.",
    "parameters": {"type": "object", "properties": {
        "place": {"type": "string", "description": "The place, e.g. \"Zürich\""},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "description": "The unit"},
        "days": {"type": ["integer", "null"], "default": 1, "minimum": 0.5, "description": "Days"}},
        "required": ["place"]},
    "return": {"type": "object", "description": "What it is like"}}}
TIME = {"type": "function", "function": {
    "name": "time", "description": "Say the time.", "parameters": {"type": "object", "properties": {}}}}

CALL = {"id": "call00001", "type": "function", "function": {
    "name": "weather", "arguments": {"place": "Zürich", "days": 2, "sunny": True, "x": None}}}
CALL_TEXT = {"id": "call00002", "type": "function", "function": {
    "name": "weather", "arguments": "{\"place\": \"Bern\"}"}}


def user(text): return {"role": "user", "content": text}
def assistant(text, **more): return {"role": "assistant", "content": text, **more}
def system(text): return {"role": "system", "content": text}
def part(text): return [{"type": "text", "text": text}]


CONVERSATIONS = {
    "one": [user("Hello, how are you?")],
    "blank": [user("  Hello,\n\n  <b>'you'</b> & \"me\"  \n")],
    "two": [user("Hi"), assistant("Hello! "), user("What is 2 + 2?")],
    "ended": [user("Hi"), assistant("Hello! ä€😀")],
    "system": [system("  You are terse. "), user("Hi")],
    "system_two": [system("You are terse."), user("Hi"), assistant("Yes."), user("More"), assistant("No.")],
    "parts": [{"role": "user", "content": part("Hi ") + part("there")}],
    "parts_all": [{"role": "system", "content": part("Terse.")}, {"role": "user", "content": part("Hi")},
                  {"role": "assistant", "content": part("Yes.")}, {"role": "user", "content": part("More")}],
    "image": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is it?"}]}],
    "thinking": [user("1+1?"), assistant("<think>\nAdd.\n</think>\n\n2"), user("2+2?"),
                 assistant("<think>\nAgain.\n</think>\n\n4")],
    "reasoning": [user("1+1?"), assistant("2", reasoning_content="Add."), user("2+2?"),
                  assistant("4", reasoning_content="Again.", thinking="Again.")],
    "call": [user("Weather?"), {"role": "assistant", "content": "", "tool_calls": [CALL]},
             {"role": "tool", "name": "weather", "tool_call_id": "call00001", "content": "Sunny, 20°"},
             assistant("It is sunny.")],
    "call_none": [user("Weather?"), {"role": "assistant", "content": None, "tool_calls": [CALL]},
                  {"role": "tool", "name": "weather", "tool_call_id": "call00001", "content": "Sunny"}],
    "call_absent": [system("Use tools."), user("Weather?"), {"role": "assistant", "tool_calls": [CALL]},
                    {"role": "tool", "name": "weather", "tool_call_id": "call00001",
                     "content": "{\"t\": 20}"}],
    "calls": [user("Weather?"), {"role": "assistant", "content": "Let me see.", "tool_calls": [CALL, CALL_TEXT]},
              {"role": "tool", "name": "weather", "tool_call_id": "call00001", "content": "Sunny"},
              {"role": "tool", "name": "weather", "tool_call_id": "call00002", "content": "Rain"},
              assistant("Sun and rain."), user("Thanks")],
    "ipython": [user("Run"), assistant("<|python_tag|>print(1)"), {"role": "ipython", "content": {"output": 1}},
                assistant("1")],
    "bad_order": [user("Hi"), user("Hi again")],
    "starts_wrong": [assistant("Hello"), user("Hi")],
    "unknown_role": [user("Hi"), {"role": "narrator", "content": "A storm."}],
    "developer": [{"role": "developer", "content": "Be kind."}, user("Hi")],
    "empty": [],
    "long": [m for i in range(6) for m in (user(f"Question {i}"), assistant(f"Answer {i}"))],
}
DOCUMENTS = [{"title": "Tall penguins", "text": "Emperor penguins are the tallest."},
             {"title": "Habitats", "text": "They live in Antarctica."}]

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
OPTIONS = [
    {"add_generation_prompt": False, "tools": None, "documents": None},
    {"add_generation_prompt": True, "tools": None, "documents": None},
    {"add_generation_prompt": True, "tools": [WEATHER, TIME], "documents": None},
    {"add_generation_prompt": True, "tools": [WEATHER], "documents": None, "enable_thinking": False,
     "date_string": "26 Jul 2024"},
    {"add_generation_prompt": True, "tools": None, "documents": None, "enable_thinking": False,
     "thinking": True, "date_string": "26 Jul 2024", "reasoning_effort": "low"},
    {"add_generation_prompt": True, "tools": None, "documents": DOCUMENTS, "builtin_tools": ["python", "browser"],
     "tools_in_user_message": False, "custom_tools": [WEATHER], "citation_mode": "accurate"},
    {"add_generation_prompt": False, "tools": [WEATHER], "documents": DOCUMENTS, "xml_tools": ["x"],
     "system_message": "S", "continue_final_message": True},
]


def cases_of(name, template):
    template = template[1:] if template.startswith("\ufeff") else template
    return [{"name": f"{name} / {which} / {i}", "template": template,
             "values": {"messages": messages, **TOKENS, **options}}
            for (which, messages), (i, options) in
            itertools.product(CONVERSATIONS.items(), enumerate(OPTIONS))]
