"""case.py -- writes lua/mrt/text/template/case.lua: how characters change their case

    python3 spec/text/template/case.py > lua/mrt/text/template/case.lua

From Python's own tables, so that `upper` and the like are what templates get elsewhere.
"""
import textwrap


def changes(change):
    single, several = {}, {}
    for code in range(0x80, 0x110000):
        if 0xD800 <= code < 0xE000:
            continue
        text = change(chr(code))
        if len(text) > 1:
            several[code] = text
        elif text != chr(code):
            single[code] = ord(text) - code
    return single, several


def ranges(single):
    found = []
    for code, delta in sorted(single.items()):
        if found:
            first, last, step, d = found[-1]
            gap = code - last
            if d == delta and (gap == step or step == 0 and gap in (1, 2)):
                found[-1] = first, code, gap, d
                continue
        found.append((code, code, 0, delta))
    return found


def show(single):
    words = []
    for first, last, step, delta in ranges(single):
        words.append(f"{first:x}{'' if first == last else f'-{last:x}'}"
                     f"{'/2' if step == 2 else ''}{delta:+d}")
    return "\n".join(textwrap.wrap(" ".join(words), 98, break_on_hyphens=False))


def show_several(several):
    words = [f"{code:x}={'+'.join(f'{ord(c):x}' for c in text)}"
             for code, text in sorted(several.items())]
    return "\n".join(textwrap.wrap(" ".join(words), 98, break_on_hyphens=False))


upper, uppers = changes(str.upper)
lower, lowers = changes(str.lower)
title, titles = changes(str.title)
title = {c: d for c, d in title.items() if upper.get(c) != d}
title.update({c: 0 for c in upper if chr(c).title() == chr(c)})
title.update({c: ord(chr(c).title()) - c for c in uppers if len(chr(c).title()) == 1})
titles = {c: t for c, t in titles.items() if uppers.get(c) != t}

print(f'''--- case.lua -- how characters beyond ASCII change their case; made by a script
---
--- `spec/text/template/case.py` writes it.  FIRST-LAST/STEP+DELTA in hexadecimal and
--- decimal, and CODE=CODES where one becomes several; of title case what differs from
--- upper case.
---
--- SPDX-License-Identifier: MIT

return {{
  upper = [[
{show(upper)}
{show_several(uppers)}]],
  lower = [[
{show(lower)}
{show_several(lowers)}]],
  title = [[
{show(title)}
{show_several(titles)}]],
}}''')
