# SPDX-License-Identifier: Apache-2.0
"""./dev lint: words that make a reader stop, counted per 1,000 words of each folder.

usage: words.py [FOLDER]     the folders above their limit, with each place; of FOLDER, every place
       words.py --table      the figure and the limit of each folder
       words.py --lower      lowers the limits in words.txt to today's figures; never raises one

Counted are comments, messages (string literals of four words and more) and Markdown. A folder with a README.md counts by
itself, any other with the folder above. words.txt lists the folders that may have more than GOAL: a folder without a line
has the limit of the nearest folder above that has one.
"""

import bisect
import math
import re
import subprocess
import sys
from pathlib import Path

GOAL = 3.0
MARGIN = 1.0  # this far below its limit, a folder's line must be lowered
SHOWN = 40
LIMITS = Path(__file__).with_name("words.txt")

# name, pattern, what to write instead
PATTERNS = [
    ("whoever", r"\b([Ww]hoever|Who (?!le)\w+)\b", "a client that ..., the caller"),
    ("he", r"\b(he|him|his|himself|He|His)\b", "it, they, the client"),
    ("somebody", r"\b([Ss]omebody|[Nn]obody|[Aa]nybody|[Ee]verybody)\b", "name the actor: client, owner, thread"),
    ("sees to", r"\b(sees? to|seen to|seeing to)\b(?! (it that|be))", "handles"),
    ("is about", r"\b(is|are|was|be) about (it|that|one|a |the |its|this|him)\b", "works on, describes"),
    ("of what", r"(?:^|[.:;] )(Of|With|By|From|To|Beside|Behind) (?:what|who|one|those|such)\b", "begin with the subject"),
    ("so many", r"\bso (long|many|much|often)\b(?! (as|that))", "the number, or its name"),
    ("one that", r"(?:^|[.:;] )One (that|who|which|of)\b", "a session that ..., a file that ..."),
    ("what is", r"(?:^|[.:;] )What (is|was|has|it|they|comes|came|cannot|must|lies|stands|does)\b", "a noun: files left ..."),
    ("is none", r"\b(is|are|was) none\b", "is not a ..., invalid ..."),
    ("is to be", r"\b(is|are|was|were) to be\b", "must, will, should"),
    ("anew", r"\b(anew|for ever|by now|all the same)\b", "again, forever, already, nevertheless"),
]

STRING = r'"(?:\\.|[^"\\\n])*"'
QUOTED = r"'(?:\\.|[^'\\\n])*'"
HASHES = r"(?:(?<=\s)|^)\#[^\n]*(?:\n[ \t]*\#[^\n]*)*"
C = re.compile(rf"(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<text>{STRING}(?:\s*{STRING})*)|{QUOTED}", re.S)
SCRIPT = re.compile(rf"(?P<comment>/\*.*?\*/|(?<!:)//[^\n]*)|(?P<text>{STRING}|{QUOTED}|`(?:\\.|[^`\\])*`)", re.S)
PYTHON = re.compile(
    rf'(?P<comment>{HASHES}|(?<=\n)[ \t]*"""(?:\\.|[^\\])*?"""|\A"""(?:\\.|[^\\])*?""")|"""(?:\\.|[^\\])*?"""'
    rf"|'''(?:\\.|[^\\])*?'''|(?P<text>(?:{STRING}|{QUOTED})(?:\s*f?(?:{STRING}|{QUOTED}))*)",
    re.S | re.M,
)
SHELL = re.compile(rf"(?P<comment>{HASHES})|(?P<text>{STRING})|'[^']*'", re.S | re.M)
NAMED = {"dev": SHELL, "run": SHELL, "CMakeLists.txt": SHELL}
KINDS = {
    ".c": C, ".h": C, ".js": SCRIPT, ".mjs": SCRIPT, ".css": SCRIPT, ".py": PYTHON, ".sh": SHELL, ".cmake": SHELL, ".yaml": SHELL,
}  # fmt: skip
# What others wrote, and releases that are history.
LEFT_OUT = re.compile(r"^(CHANGELOG\.md|LICENSE|tests/(golden|fuzz/corpus)/.*|.*cloudpickle.*)$")
DATA = re.compile(r"^(tests|bench)/")  # literals there are inputs and expectations, which follow the product


def source_pieces(name, text, grammar):
    """(offset, text) of each comment and message."""
    for found in grammar.finditer(text):
        kind = found.lastgroup
        if kind == "comment":
            yield found.start(), found.group()
        elif kind == "text" and not DATA.match(name) and not name.endswith(".yaml"):
            plain = re.sub(r"\\[nrt]", "  ", found.group())
            if len(re.findall(r"(?<![\w.%/-])[A-Za-z][a-z]*(?=[\s,.:;]|$)", plain)) >= 4:
                yield found.start(), plain


def markdown_pieces(text):
    """(offset, text) of each paragraph, list item and table row; code is left out."""
    at, fenced, blank, piece, begin = 0, False, True, "", 0
    for line in text.splitlines(keepends=True) + ["\n"]:
        fence = line.lstrip().startswith("```")
        code = fenced or fence or (blank and line.startswith("    "))
        if fence:
            fenced = not fenced
        if code or not line.strip() or re.match(r"\s*([-*|#>]|\d+\.) ?", line):
            if piece:
                yield begin, piece
            piece, begin = "", at
        if not code:
            piece += re.sub(r"`[^`]*`", lambda m: "X".ljust(len(m.group())), line)
            blank = not line.strip()
        at += len(line)


def pieces(path, text):
    name = str(path)
    if path.suffix == ".md":
        return markdown_pieces(text)
    if path.suffix == ".html":
        return [(0, re.sub(r"<[^>]*>", lambda m: re.sub(r"[^\n]", " ", m.group()), text))]
    grammar = NAMED.get(path.name) or KINDS.get(path.suffix)
    return source_pieces(name, text, grammar) if grammar else []


def read(path):
    """The words of a file, and its marks: (line, pattern's name, the words that match, what to write instead)."""
    text = path.read_text(errors="replace")
    lines = [m.start() for m in re.finditer(r"\n", text)]
    words, marks = 0, []
    for offset, piece in pieces(path, text):
        tokens = [m for m in re.finditer(r"\S+", piece) if re.search(r"\w", m.group())]
        words += len(tokens)
        starts, joined = [], ""
        for token in tokens:
            starts.append(len(joined))
            joined += re.sub(r"^(/\*+|[\"'`#-]+)|[\"'`]+$", "", token.group()) + " "
        for name, pattern, instead in PATTERNS:
            for found in re.finditer(pattern, joined):
                token = tokens[max(0, bisect.bisect_right(starts, found.end() - 1) - 1)]
                line = bisect.bisect_left(lines, offset + token.start()) + 1
                marks.append((line, name, joined[max(0, found.start() - 30) : found.end() + 40].strip(), instead))
    return words, sorted(marks)


def listed():
    names = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-z"], capture_output=True, text=True, check=True)
    return [Path(n) for n in names.stdout.split("\0") if n and not LEFT_OUT.match(n) and Path(n).is_file()]


def count():
    """Of each folder: its words, and its marks by file."""
    folders = {}
    for path in listed():
        folder = path.parent
        while folder.parent != Path(".") and not (folder / "README.md").is_file():
            folder = folder.parent
        words, marks = read(path)
        counted = folders.setdefault(str(folder), [0, []])
        counted[0] += words
        counted[1] += [(path, *mark) for mark in marks]
    return {name: (words, marks) for name, (words, marks) in sorted(folders.items()) if words}


def read_limits():
    rows = [line.split() for line in LIMITS.read_text().splitlines() if line and not line.startswith("#")]
    return {name: float(limit) for name, limit in rows}


def limit_of(folder, limits):
    for name in [folder, *map(str, Path(folder).parents)]:
        if name in limits and (name != "." or folder == "."):
            return limits[name]
    return GOAL


def figure(words, marks):
    return len(marks) * 1000 / words


def show(marks, most):
    for path, line, name, words, instead in marks[:most]:
        print(f"  {path}:{line}: {name}: ...{words}... ({instead})")
    if len(marks) > most:
        print(f"  and {len(marks) - most} more")


def lower(folders, limits):
    rows = {}
    for name, (words, marks) in folders.items():
        # Half a mark of room, so that a sentence that moves to another folder need not change this file.
        limit = min(limit_of(name, limits), math.ceil(figure(words, marks) * 2) / 2)
        if limit > GOAL:
            rows[name] = limit
    top = [line for line in LIMITS.read_text().splitlines() if line.startswith("#")]
    LIMITS.write_text("\n".join(top + [f"{name} {rows[name]:.1f}" for name in sorted(rows)]) + "\n")


def main(arguments):
    folders, limits = count(), read_limits()
    if arguments == ["--lower"]:
        lower(folders, limits)
    elif arguments == ["--table"]:
        for name, (words, marks) in sorted(folders.items(), key=lambda row: -figure(*row[1])):
            print(f"{figure(words, marks):5.1f} of {limit_of(name, limits):4.1f}  {name} ({len(marks)} in {words} words)")
    elif arguments:
        show(folders[str(Path(arguments[0]))][1], sys.maxsize)
    else:
        for name, (words, marks) in folders.items():
            now, limit = figure(words, marks), limit_of(name, limits)
            if now > limit:
                print(f"{name}: {now:.1f} marks per 1,000 words, at most {limit:.1f}; python3 tools/words.py {name} lists them all")
                show(marks, SHOWN)
            elif name in limits and now < limit - MARGIN:
                print(f"{name}: {now:.1f} marks per 1,000 words, far below {limit:.1f}: lower its line by python3 tools/words.py --lower")
        for name in limits.keys() - folders.keys():
            print(f"{name}: no such folder any more: python3 tools/words.py --lower takes its line out")


if __name__ == "__main__":
    main(sys.argv[1:])
