"""compare.py -- templates rendered here and by jinja2, as transformers sets it up

    python spec/text/template/compare.py TEMPLATE...      chat templates, several conversations each
    python spec/text/template/compare.py --random 20000   random templates, by --seed

Needs transformers, and build/mrt.  Says what differs, and counts.
"""
import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def expected(case):
    """What jinja2 makes of a case: {"text", "spans"} or {"error"}."""
    from transformers.utils import chat_template_utils as utils
    try:
        compiled = utils._compile_jinja_template(case["template"])
        blocks, spans = [], []
        with compiled.environment.activate_tracker(blocks, spans):
            for block in compiled.generate(**copy.deepcopy(case["values"])):
                blocks.append(block)
        text = "".join(blocks)
        text.encode("utf-8")
        return {"text": text, "spans": [list(s) for s in spans if s[1] > s[0]]}
    except Exception as e:  # noqa: BLE001
        return {"error": f"{type(e).__name__}: {e}"}


def answers(cases):
    """What build/mrt makes of the cases."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", delete=False) as f:
        for case in cases:
            f.write(json.dumps(case, ensure_ascii=False) + "\n")
    env = dict(os.environ, MRT_DEVICE="declared", MRT_THREADS="1")
    here = os.path.dirname(os.path.abspath(__file__))
    out = subprocess.run(["build/mrt", os.path.join(here, "render.lua"), f.name], env=env,
                         capture_output=True, text=True)
    os.unlink(f.name)
    if out.returncode != 0:
        sys.exit(out.stderr)
    return [json.loads(line) for line in out.stdout.split("\n") if line]


def in_characters(answer):
    """Spans in characters from 0, as jinja2's are."""
    if "text" not in answer:
        return answer
    data = answer["text"].encode()
    spans = [[len(data[:a - 1].decode()), len(data[:b].decode())] for a, b in answer["spans"]]
    return {"text": answer["text"], "spans": spans}


def same(want, got, refusals_count):
    if " at 0x" in want.get("text", "") or "{% generation %} is inside" in got.get("error", "") \
            or "a function cannot be printed" in got.get("error", ""):
        return True  # addresses of functions; places that are not known
    if "error" in want or "error" in got:
        return "error" in want and "error" in got or \
            not refusals_count and "not understood" in got.get("error", "")
    return want["text"] == got["text"] and want["spans"] == got["spans"]


def run(cases, show=10, refusals_count=True):
    got = [in_characters(a) for a in answers(cases)]
    assert len(got) == len(cases), (len(got), len(cases))
    different = errors = 0
    by_name = {}
    for case, answer in zip(cases, got):
        want = expected(case)
        errors += "error" in want
        if not same(want, answer, refusals_count):
            different += 1
            name = case.get("name", "").split(" / ")[0]
            if not name.startswith("seed"):
                by_name[name] = by_name.get(name, 0) + 1
            if different <= show:
                print("---", case.get("name", ""))
                if len(case["template"]) < 2000:
                    print("template:", repr(case["template"]))
                print("jinja2:", repr(want.get("text", want.get("error")))[:1500], want.get("spans"))
                print("mrt:   ", repr(answer.get("text", answer.get("error")))[:1500], answer.get("spans"))
    for name, count in by_name.items():
        print(f"{count:6} {name}")
    print(f"{len(cases)} renderings, {errors} of them errors in jinja2, {different} differ")
    return different


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*")
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", type=int, default=1, help="every n-th case alone")
    o = parser.parse_args()
    cases = []
    if o.files:
        from conversations import cases_of
        for path in o.files:
            with open(path, encoding="utf-8", newline="") as f:
                cases += cases_of(os.path.basename(path), f.read())
    if o.random:
        from random_templates import random_case
        cases += [random_case(o.seed + i) for i in range(o.random)]
    sys.exit(1 if run(cases[::o.quick], refusals_count=not o.random) else 0)


if __name__ == "__main__":
    main()
