"""`scrapy adaptive rules`: the rules of a project, made, loaded, checked and shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from scrapy_adaptive.__main__ import main
from scrapy_adaptive.core.limits.leaf import meter_key
from scrapy_adaptive.core.limits.rule import Rule
from scrapy_adaptive.core.limits.tokens import Ask
from scrapy_adaptive.rules.reading import hashed, read_rule
from scrapy_adaptive.rules.schema import RULES, USES
from scrapy_adaptive.rules.table import RuleTable

Run = Callable[..., tuple[int, str]]

SECRET = "key-of-alice"
IDENTITY = 'ADAPTIVE_IDENTITY={"key": "header:X-Api-Key", "account": "meta:account"}'

TOML = f"""
[[rules]]
name = "pace"
host = "api.example.com"
rate = 9

[[rules]]
name = "week"
host = "api.example.com"
identity = "key=*"
max_hits = 20000
window = "7d"

[[rules]]
name = "week"
host = "api.example.com"
identity = "key={SECRET}"
max_hits = 500
window = "7d"
"""


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command on a table; returns its exit status and all that it said."""

    def call(*words: str, url: str = f"sqlite:///{tmp_path}/rules.db") -> tuple[int, str]:
        try:
            code = main(["rules", words[0], "--url", url, "-s", IDENTITY, *words[1:]])
        except SystemExit as ended:
            code = int(ended.code or 0)
        said = capsys.readouterr()
        return code, said.out + said.err

    return call


@pytest.fixture
def loaded(run: Run, tmp_path: Path) -> Run:
    """The same, with three rules in the table."""
    assert run("create")[0] == 0
    (tmp_path / "rules.toml").write_text(TOML)
    assert run("load", str(tmp_path / "rules.toml"))[1].startswith("3 rules are in sqlite:")
    return run


def test_rules_are_loaded_checked_and_shown(loaded: Run) -> None:
    """Where each is counted; which match a URL, and why; which counts in place of another."""
    checked = loaded("check")[1]
    assert "rule 1 (pace): 9/s; counted by each process for itself" in checked
    assert "rule 2 (week): 20,000 in 7 days; counted in the table, for all processes" in checked
    shown = loaded("show", "https://api.example.com/search", "--identity", "key=bob")[1]
    assert "rule 1 (pace): 9/s" in shown
    assert "rule 2 (week): 20,000 in 7 days" in shown
    assert "all of these apply together" in shown
    assert "no rule matches" in loaded("show", "https://example.org/")[1]


def test_a_secret_is_neither_shown_nor_stored(loaded: Run, tmp_path: Path) -> None:
    """The rule of one key is found by the key, and by its hash."""
    texts = []
    for told in (SECRET, hashed(SECRET)):
        shown = loaded("show", "api.example.com/search", "--identity", f"key={told}")[1]
        assert "rule 3 (week): 500 in 7 days" in shown
        assert "counts in place of rule 2 (week)" in shown
        texts.append(shown)
    texts += [loaded("show")[1], loaded("check")[1]]
    assert SECRET not in "".join(texts)
    assert SECRET.encode() not in (tmp_path / "rules.db").read_bytes()


def test_only_what_is_left_of_the_key_that_is_asked_for_is_shown(
    loaded: Run, tmp_path: Path
) -> None:
    """Without a URL there is a line for each key."""
    table = RuleTable(f"sqlite:///{tmp_path}/rules.db")
    reading = table.read()
    assert reading is not None
    (week,) = [rule for rule in reading.rules if rule.max_hits == 20_000]
    taken = {"sesame": 5, "other": 7}
    for key, tokens in taken.items():
        meter = meter_key(week, "api.example.com", {"key": hashed(key)})
        table.quotas.take([Ask(meter, week, tokens)])
    lines = {
        key: f"api.example.com key={hashed(key)}: {20_000 - tokens:,} left of 20,000"
        for key, tokens in taken.items()
    }
    assert all(line in loaded("show")[1] for line in lines.values())
    shown = loaded("show", "api.example.com/x", "--identity", "key=sesame")[1]
    assert [each for each in shown.splitlines() if "left of" in each] == [f"  {lines['sesame']}"]


def test_a_url_is_shown_as_a_crawl_would_take_it(run: Run, tmp_path: Path) -> None:
    """Its host as Scrapy quotes it; parameters of its path are none of its class."""
    table = RuleTable(f"sqlite:///{tmp_path}/rules.db")
    table.create()
    item = {"uri": "/item", "rate": 1}
    table.load([read_rule({"host": "münchen.example", **item}, id="1")])
    for url in (
        "http://münchen.example/item;v=1?x=2",
        "München.example./item?u=http://x/",
        "//münchen.example/item",
    ):
        shown = run("show", url)[1]
        assert "xn--mnchen-3ya.example /item" in shown
        assert "rule 1: 1/s" in shown


def test_rules_that_hold_nobody_are_shown_as_such(run: Run, tmp_path: Path) -> None:
    """Those that have expired, those that say the same as another; without the table of uses."""
    table = RuleTable(f"sqlite:///{tmp_path}/rules.db")
    table.create()
    table.load([Rule(id="1", rate=1.0), Rule(id="2", rate=2.0), Rule(id="3", expires_at=1.0)])
    with table.engine.begin() as connection:
        USES.drop(connection)
    for command in ("show", "check"):
        lines = run(command)[1].splitlines()
        ends = [("; idle" in line, "; expired" in line) for line in lines if "rule " in line[:5]]
        assert ends[-3:] == [(False, False), (True, False), (False, True)]


def test_a_bad_row_is_named_and_a_check_fails(loaded: Run, tmp_path: Path) -> None:
    table = RuleTable(f"sqlite:///{tmp_path}/rules.db")
    with table.engine.begin() as connection:
        connection.execute(sa.insert(RULES).values(id=77, window_seconds=-1.0))
    table.engine.dispose()
    code, said = loaded("check")
    assert code == 2
    assert "adaptive_rules id 77: window_seconds = -1.0" in said
    assert "adaptive_rules id 77" in loaded("show")[1]


def test_a_bad_file_changes_nothing(loaded: Run, tmp_path: Path) -> None:
    """Each bad rule is named with what is allowed."""
    path = tmp_path / "bad.toml"
    path.write_text('[[rules]]\nratee = 3\n[[rules]]\nhost = "a"\nmax_hits = 3\n')
    code, said = loaded("load", str(path))
    assert code == 2
    assert "rule 1: ratee = 3" in said
    assert "rule 2: window = None" in said
    assert "3 rules, none is bad" in loaded("check")[1]


WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "a file that is not there": (("load", "no.toml"), "no.toml: it cannot be read: No such file"),
    "an identity nobody tells": (
        ("show", "a.org", "--identity", "acount=alice"),
        "--identity acount=alice: acount is told by nobody; allowed is one that ADAPTIVE_IDENTITY "
        "tells: account, agent, key, proxy",
    ),
    "no pair": (("show", "a.org", "--identity", "alice"), "must be NAME=VALUE, not 'alice'"),
    "no URL": (("show", "http://["), "'http://[' is no URL"),
    "no host": (("show", "http://"), "'http://' has no host"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_given_wrongly_is_told_in_one_line(name: str, loaded: Run) -> None:
    words, expected = WRONG[name]
    code, said = loaded(*words)
    assert code == 2
    assert len(said.splitlines()) == 1
    assert expected in said


def test_a_file_that_is_not_there_is_not_made(run: Run, tmp_path: Path) -> None:
    """SQLite would make one to look into it."""
    (tmp_path / "rules.toml").write_text(TOML)
    for words in (("show",), ("load", str(tmp_path / "rules.toml"))):
        code, said = run(*words)
        assert code == 2
        assert "there is no such file" in said
    assert not (tmp_path / "rules.db").exists()


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:secret@127.0.0.1/x",
        "postgresql://u:secret@127.0.0.1:port/x",
        "postgresql://u:secret@127.0.0.1:1/x",
        "postgresql+nothing://u:secret@127.0.0.1/x",
        "sqlite://",
        "sqlite:////no/such/folder/x.db",
    ],
)
@pytest.mark.parametrize("command", ["create", "show"])
def test_an_address_that_cannot_be_is_told_in_one_line(command: str, url: str, run: Run) -> None:
    """Without its password."""
    code, said = run(command, url=url)
    assert code == 2
    assert len(said.splitlines()) == 1
    assert "secret" not in said
