# SPDX-License-Identifier: Apache-2.0
"""Does the project keep the rules of its own house? Those that no linter knows are checked here."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from registry.domain.errors import PROBLEM_CODES
from tests.project import ROOT, project_files, read

LICENCE = "SPDX-License-Identifier: Apache-2.0"

LICENSED_NAMES = {"Dockerfile", "Makefile", "run"}
LICENSED_SUFFIXES = {
    *(".cfg", ".conf", ".css", ".html", ".ini", ".js", ".lock", ".py", ".service", ".sh", ".timer", ".toml", ".tpl"),
    *(".yaml", ".yml"),
}
"""Kinds of files that can carry a comment in their first line and are written by us."""

FOREIGN = {"captures", "vendor"}
"""Folders whose files are kept to the byte, as somebody else wrote them."""

MAX_LINES = 400
DATA_TABLES = {"registry/domain/catalogue.py"}
"""Files that are one long table: splitting them would make nothing easier to read."""

# Put together here, so that this file is not the one that names them.
PLACES_OF_ONE_MACHINE = tuple(f"/{name}/" for name in ("work", "root"))
PACKAGE_HOSTS = tuple(
    f"{name}.{domain}"
    for name, domain in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("deb.debian", "org"),
    )
)

# A distribution and its digests, as `uv pip compile` writes them.
LOCKED = re.compile(
    r"(?P<name>[a-z0-9-]+)==(?P<version>[^ ;]+)(?: ; [^\\]+)? \\\n(?: {4}--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+"
)


SQL = re.compile(r"\s*(SELECT .+ FROM|INSERT INTO|UPDATE \w+ SET|DELETE FROM|CREATE (TABLE|INDEX)) ", re.DOTALL)


def modules() -> list[Path]:
    return [path for path in project_files() if path.suffix == ".py"]


def written_by_us() -> list[Path]:
    return [path for path in project_files() if not FOREIGN & set(path.parts)]


def test_imports_keep_to_the_plan() -> None:
    tool = Path(sys.executable).with_name("lint-imports")

    checked = subprocess.run([tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize(
    ("room", "allowed"),
    [("domain", set()), ("config.py", set()), ("collectors", {"defusedxml"})],
    ids=["domain", "config", "collectors"],
)
def test_a_quiet_room_imports_the_standard_library_and_what_is_named(room: str, allowed: set[str]) -> None:
    foreign = {
        f"{path}: {name}"
        for path in modules()
        if path.is_relative_to(Path("registry") / room)
        for name in imported_packages(path)
        if name not in sys.stdlib_module_names | allowed | {"registry"}
    }

    assert not foreign


def test_the_command_loads_the_servers_half_only_when_asked() -> None:
    program = "import sys, registry.main; print(*sorted({'peewee', 'flask', 'registry.admin'} & set(sys.modules)))"

    loaded = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)

    assert loaded.stdout.strip() == ""


def test_only_the_store_and_the_migrations_write_sql() -> None:
    spoken = {
        f"{path}:{found.lineno}"
        for path in modules()
        if path.parts[0] in {"registry", "api"} and not path.is_relative_to(Path("registry/store"))
        for found in ast.walk(ast.parse(read(path)))
        if isinstance(found, ast.Constant) and isinstance(found.value, str) and SQL.match(found.value)
    }

    assert not spoken


def test_every_file_of_ours_begins_with_the_licence() -> None:
    missing = [
        str(path)
        for path in written_by_us()
        if path.name in LICENSED_NAMES or path.suffix in LICENSED_SUFFIXES
        if LICENCE not in "".join(lines_after_shebang(path)[:1])
    ]

    assert not missing


def test_every_module_with_code_says_which_question_it_answers() -> None:
    silent = [str(path) for path in modules() if (tree := ast.parse(read(path))).body and not ast.get_docstring(tree)]

    assert not silent


def test_no_module_is_longer_than_can_be_read_at_once() -> None:
    lengths = {str(path): len(read(path).splitlines()) for path in modules() if path.parts[0] != "tests"}

    assert not {path: count for path, count in lengths.items() if count > MAX_LINES and path not in DATA_TABLES}


@pytest.mark.parametrize("word", PLACES_OF_ONE_MACHINE + PACKAGE_HOSTS)
def test_no_file_names_a_place_of_one_machine_or_a_package_host(word: str) -> None:
    assert not [str(path) for path in written_by_us() if word in read(path)]


def test_the_lock_file_pins_everything_by_digest_and_names_no_host() -> None:
    text = read(Path("requirements.lock"))

    without_comments = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))

    assert LOCKED.sub("", without_comments) == ""
    assert "://" not in text


def test_the_lock_file_answers_every_dependency() -> None:
    project = tomllib.loads(read(Path("pyproject.toml")))["project"]
    wanted = map(Requirement, chain(project["dependencies"], *project["optional-dependencies"].values()))
    locked = {found["name"]: found["version"] for found in LOCKED.finditer(read(Path("requirements.lock")))}

    unanswered = [
        str(requirement)
        for requirement in wanted
        if (version := locked.get(canonicalize_name(requirement.name))) is None
        or not requirement.specifier.contains(version, prereleases=True)
    ]

    assert not unanswered, "make lock"


def test_the_readme_explains_every_setting() -> None:
    readme = read(Path("README.md"))

    assert not [name for name in settings() if name not in readme]


def test_the_readme_explains_every_problem_code() -> None:
    readme = read(Path("README.md"))

    assert not [code for code in PROBLEM_CODES if f"`{code}`" not in readme]


def settings() -> set[str]:
    return set(re.findall(r"PRATIQUE_[A-Z][A-Z_]*[A-Z]", read(Path("registry/config.py"))))


def lines_after_shebang(path: Path) -> list[str]:
    lines = read(path).splitlines()
    return lines[1:] if lines and lines[0].startswith("#!") else lines


def imported_packages(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(read(path))):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]
