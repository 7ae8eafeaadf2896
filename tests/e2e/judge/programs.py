# SPDX-License-Identifier: Apache-2.0
"""Programs in cells: our own in programs/, and galleries, notebooks and doctests in the source packages that galleries.txt pins."""

import ast
import concurrent.futures
import doctest
import hashlib
import io
import itertools
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import urllib.request
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
# A line of many # is the older mark of sphinx-gallery.
MARK = re.compile(r"^(?:# ?%%(?P<title>.*)|#{20,})$", re.MULTILINE)
STDIN = re.compile(r"^stdin: (.*)$")
# Cells of a MyST notebook, without their options.
CODE_CELL = re.compile(r"^```\{code-cell\}.*\n(?:---\n[^`]*?---\n|:.*\n)*(?P<source>[^`]*(?:`{1,2}[^`]+)*)^```$", re.MULTILINE)
# What asks a server for its data.
NETWORK = re.compile(r"\b(fetch_\w+|load_dataset|get_rdataset|urlopen|urlretrieve|open_rasterio|pooch\w*|webuse|tutorial\.\w+|read_csv\([\"']http|requests\.get|retrieve)\b")
# Files that are in no source package, and programs that need a screen, a terminal or a library that is not installed.
ABSENT = re.compile(r"\b(osmnx|geopandas|libpysal|momepy|contextily|cartopy|pygraphviz|pydot|graphviz_layout|igraph|skops|lxml|moviepy|mayavi|gi\.repository|wx|tkinter|PyQt\w*|PySide\w*|pycallgraph|pyperclip)\b")


@dataclass(frozen=True)
class Cell:
    source: str
    stdin: bytes = b""


@dataclass(frozen=True)
class Program:
    name: str
    path: Path

    @property
    def text(self):
        return self.path.read_text()

    @property
    def cells(self):
        return {".rst": doctests, ".md": code_cells}.get(self.path.suffix, split)(self.text)

    @property
    def reason_to_skip(self):
        if self.path.is_relative_to(HERE):
            return None
        if found := NETWORK.search(self.text):
            return f"needs a network: {found.group()}"
        if found := ABSENT.search(self.text):
            return f"needs what is not here: {found.group()}"
        return None


def paragraphs(source):
    """Top-level statements with no empty line between them are one cell: for programs that have no marks."""
    cells, at, lines = [], 0, source.splitlines(True)
    for last, following in itertools.pairwise(ast.parse(source).body):
        start = min([following.lineno, *(each.lineno for each in getattr(following, "decorator_list", []))])
        if any(not line.strip() for line in lines[last.end_lineno : start - 1]):
            cells.append("".join(lines[at : last.end_lineno]))
            at = last.end_lineno
    return [*cells, "".join(lines[at:])]


def split(text):
    """Cells without code are left out. `# %% stdin: Ada` gives a cell a line of input, \\n in it begins another."""
    marks = list(MARK.finditer(text))
    starts = [(0, None), *((found.end() + 1, found.group("title")) for found in marks)]
    ends = [*(found.start() for found in marks), len(text)]
    cells = []
    for (start, title), end in zip(starts, ends):
        source = text[start:end].strip("\n")
        if any(line.strip() and not line.lstrip().startswith("#") for line in source.splitlines()):
            given = STDIN.match((title or "").strip())
            cells.append(Cell(source + "\n", given.group(1).replace("\\n", "\n").encode() + b"\n" if given else b""))
    return cells if len(cells) != 1 else [Cell(source.strip("\n") + "\n", cells[0].stdin) for source in paragraphs(cells[0].source)]


def code_cells(text):
    return [Cell(found.group("source")) for found in CODE_CELL.finditer(text)]


def doctests(text):
    """Examples with no text between them are one cell. Those that doctest is told to skip are left out."""
    cells, joined = [], []
    for part in doctest.DocTestParser().parse(text):
        if isinstance(part, doctest.Example) and doctest.SKIP not in part.options:
            joined.append(part.source)
        elif joined and isinstance(part, str) and part.strip():
            cells.append(Cell("".join(joined)))
            joined = []
    return [*cells, Cell("".join(joined))] if joined else cells


def own():
    return [Program(path.name, path) for path in sorted((HERE / "programs").glob("*.py"))]


# --- galleries ---


def _pinned(folder):
    """{name: the source package's address and checksum}, as the index says them to uv."""
    lock = folder / "pylock.toml"
    uv = shutil.which("uv") or Path(sys.executable).with_name("uv")
    command = [uv, "pip", "compile", "--quiet", "--no-deps", "--python", sys.executable, "--format", "pylock.toml", HERE / "galleries.txt", "-o", lock]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return {package["name"]: package["sdist"] for package in tomllib.loads(lock.read_text())["packages"]}


def _fetch(name, sdist, folder):
    with urllib.request.urlopen(sdist["url"], timeout=120) as answer:
        data = answer.read()
    found = hashlib.sha256(data).hexdigest()
    if found != sdist["hashes"]["sha256"]:
        raise ValueError(f"{name}: the source package's checksum is {found}, expected {sdist['hashes']['sha256']}")
    part = folder / f"{name}.part"
    shutil.rmtree(part, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(part)
    part.rename(folder / name)


def fetch(folder, names):
    """The source packages, each in folder/NAME. Those that are there stay."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = hashlib.sha256((HERE / "galleries.txt").read_bytes()).hexdigest()
    made = folder / ".galleries.sha256"
    if not made.is_file() or made.read_text() != wanted:
        shutil.rmtree(folder)
        folder.mkdir()
    missing = [name for name in names if not (folder / name).is_dir()]
    if missing:
        pinned = _pinned(folder)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda name: _fetch(name, pinned[name], folder), missing))
        made.write_text(wanted)


def gallery(folder, name, pattern):
    """Its programs, by a pattern below the source package's top folder."""
    [top] = (folder / name).iterdir()
    return [Program(f"{name}/{path.relative_to(top)}", path) for path in sorted(top.glob(pattern))]


if __name__ == "__main__":
    fetch(Path(sys.argv[1]), sys.argv[2:])
