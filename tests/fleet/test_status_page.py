"""`fleet status --html`: one page, complete in itself, in which nothing of a table becomes markup."""

from __future__ import annotations

import base64
import json
import re
from hashlib import sha256
from pathlib import Path
from urllib.parse import urljoin, urlsplit
from urllib.request import url2pathname

import pytest

from deltacli.cli.app import run as run_cli
from deltacli.cli.running.context import CommandContext
from deltacli.core.typing import JsonObject
from deltacli.core.units import format_size
from deltacli.fleet.policy_file.reading import read_fleet_file
from deltacli.fleet.policy_file.table_names import show_table_name
from deltacli.fleet.reporting.page import status_page
from deltacli.fleet.reporting.table_page import Area, _map, _series, area_map, command_line, line, text, words
from deltacli.fleet.running.journal import JournalWriter
from deltacli.fleet.status import FleetStatus, StepStatus, Unread, read_status
from tests.cli.support import ROOT, deltacli
from tests.support.browser import Page, chromium
from tests.support.builder import TableBuilder

HOSTILE = "!</script><script>alert(1)</script><!--'\"&\u2028<img src=x onerror=alert(2)>"
POLICY = '[policies.p]\nvalidate = {}\nalerts = { log-bytes = "1KiB" }\n[groups.g]\npolicy = "p"\ntables = ["t"]\n'


def status_of(home: Path, tables: int, runs: int = 2) -> FleetStatus:
    """Return the status of tables after some runs; the first one has a hostile name and alert."""
    home.mkdir(exist_ok=True)
    (home / "fleet.toml").write_text(POLICY)
    names = [HOSTILE, *(f"/lake/{number:05d}" for number in range(1, tables))]
    for run in range(runs):
        writer, now_ms = JournalWriter(home / "state", f"run-{run}"), 1_800_000_000_000 + run * 86_400_000
        writer.write("run-started", now_ms, groups=["g"])
        facts = [
            {"table": name, "group": "g", "facts": {"logBytes": (place * 7_919) % 2_000 + run * 10, "logFiles": 3}}
            for place, name in enumerate(names)
        ]
        writer.write_all("table-facts", now_ms, facts)
        where = {"table": HOSTILE, "group": "g", "step": "vacuum", "state": "failed", "exit": 7, "message": HOSTILE}
        writer.write("step-finished", now_ms, **where)
        writer.write("run-finished", now_ms + 1_000, exit=1, left=0)
        writer.close()
    return read_status(home / "state", (), read_fleet_file(home / "fleet.toml"), 1_800_100_000_000)


def written(home: Path, tables: int) -> str:
    page = status_page(status_of(home, tables), f"{HOSTILE}.toml", 1_800_100_000_000)
    (home / "status.html").write_text(page)
    return (home / "status.html").as_uri()


def test_the_page_has_only_its_own_script_and_loads_nothing(tmp_path: Path) -> None:
    written(tmp_path, 3)

    page = (tmp_path / "status.html").read_text()

    scripts = re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL)
    digests = [base64.b64encode(sha256(part.encode()).digest()).decode() for part in scripts]
    assert (2, True) == (len(scripts), f"script-src 'sha256-{digests[1]}'" in page)
    assert "default-src 'none'" in page
    assert HOSTILE == json.loads(scripts[0])["tables"][0]["t"]
    assert not re.search(r"<img|https?://(?!www\.w3\.org/2000/svg)|\b(?:src|href)=[\"']", page)


def test_only_commands_are_set_as_commands_and_causes_have_counts(tmp_path: Path) -> None:
    status = status_of(tmp_path, 1_900)

    page = status_page(status, "fleet.toml", 1_800_100_000_000)

    data = json.loads(re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL)[0])
    advice = [advice for table in data["tables"] for advice in table["n"]]
    assert advice
    assert all(is_command == text.startswith("deltacli ") for text, is_command in advice)
    command = r"deltacli log expire /lake/\d{5}(?: [^<]+)?"
    each = rf"(?:<br><b>/lake/\d{{5}}</b><br><code>{command}</code>){{3}}"
    assert re.search(rf"<li>log-bytes: beyond the limit: 9\d\d tables{each}<details><summary>and 9\d\d more", page)
    assert [104] == [len(places) for places in data["causes"]]  # first, advised, listed
    own = [table for table in data["tables"] if table.get("o")]
    assert own
    assert all(f"<li>{table['b'][0]}" not in page for table in own)
    consent = StepStatus("vacuum", "refused", 4, 1, "run-9", "no consent", code="fleet.consent")
    status.tables[0].steps["vacuum"] = consent
    again = json.loads(re.findall(r"<script[^>]*>(.*?)</script>", status_page(status, "f", 1), re.DOTALL)[0])
    sentence = "add consent = true to vacuum in the policy of the group, or turn vacuum off"
    assert [sentence, False] in again["tables"][0]["n"]
    assert 'isCommand ? remedy(text) : make("span", "", text)' in page


def test_lines_of_commands_do_not_end_within_an_option_and_further_alerts_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltacli.fleet.reporting.page._MOST_CAUSES", 0)

    page = status_page(status_of(tmp_path, 1_900), "fleet.toml", 1_800_100_000_000)

    option = '<span class="option">{}</span>'
    expected = f"deltacli x {option.format('--dry-run')} &lt;a-b {option.format('-n')} 3"
    assert expected == command_line("deltacli x --dry-run <a-b -n 3")
    assert re.search(r'<li id="others">\d more, in the tables below</li>', page)
    assert 'getElementById("others")' in page


def test_the_tables_of_an_alert_are_all_named_up_to_a_hundred(tmp_path: Path) -> None:
    status = status_of(tmp_path, 240)

    page = status_page(status, "fleet.toml", 1_800_100_000_000)

    data = json.loads(re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL)[0])
    alert = re.search(r"<li>log-bytes: beyond the limit: (\d+) tables(.*?)</details></li>", page)
    assert alert
    names = re.findall("<b>(.*?)</b>", alert[2])
    listed = next(places for places in data["causes"] if len(places) > 1)
    assert (103, int(alert[1]) - 3) == (len({*names}), int(re.findall(r"<summary>and (\d+) more", alert[2])[0]))
    assert f"<li>{int(alert[1]) - 103} more, in the tables below</li>" in alert[2]
    assert [data["tables"][place]["t"] for place in listed] == [names[0], *names]


def test_before_the_second_run_a_page_says_when_plots_appear(tmp_path: Path) -> None:
    pages = [status_page(status_of(tmp_path / str(runs), 2, runs), "f", 1) for runs in (1, 2)]

    said = [re.findall(r'<p class="dim">([^<]*Plots appear[^<]*)</p>', page) for page in pages]

    assert [["The numbers of one run. Plots appear from the second run on."], []] == said
    assert "`on ${day(points[0][0])}`" in pages[0]


def test_the_cards_count_what_the_headline_counts(tmp_path: Path) -> None:
    status = status_of(tmp_path, 2)
    message = "2 findings: sidecar.missing"
    found = StepStatus("validate", "findings", 1, 1, "run-9", message)
    found.findings = [{"rule": "sidecar.missing", "severity": "error"}]
    status.tables[1].steps["validate"] = found

    page = status_page(status, "fleet.toml", 1_800_100_000_000)

    assert status.headline.endswith(": 1 cannot be read")
    assert '<span class="dim">tables that cannot be read</span><b class="bad">1</b>' in page
    assert 1 == page.partition('id="data"')[0].count(f"validate: {message}")


def test_without_its_script_the_page_lists_tables_and_links_and_has_no_controls(tmp_path: Path) -> None:
    status = status_of(tmp_path, 202)
    status.tables.sort(key=lambda table: table.shown_name)
    status.tables[1].numbers |= {"liveFiles": 1_234, "liveBytes": 4_096}
    status.tables[1].problem = Unread("run-1", "log.gap", "commit 3 is missing")

    page = status_page(status, "f", 1, {"/lake/00001": "./one.html"}, {"/lake/00002": "<gone>"})

    rows = page.partition('<tbody id="rows">')[2].partition("</tbody>")[0].split("</tr>")[:-1]
    assert (200, True) == (len(rows), text(HOSTILE) in rows[0])
    assert '<a class="page" href="./one.html" aria-label="the page of /lake/00001">page</a>' in rows[1]
    assert '<span class="mark bad">cannot be read</span> commit 3 is missing' in rows[1]
    assert '<td class="number" data-label="files">1,234</td><td class="number" data-label="data">4.0\xa0KiB' in rows[1]
    assert '<span class="fault dim">page not written: &lt;gone&gt;</span>' in rows[2]
    assert "These are the first 200 of 202 tables.</p></noscript>" in page
    hidden = re.findall(r'id="(\w+)" hidden', page)
    assert (["trends", "tools", "more"], 0) == (hidden, page.partition('id="tools"')[0].count("<select"))


def test_the_page_begins_with_numbers_and_has_short_names_the_worst_first(tmp_path: Path) -> None:
    status = status_of(tmp_path, 4)
    found = {"rule": "data.file-missing", "severity": "error"}
    lost = StepStatus("validate", "findings", 1, 1, "run-9", "12 data files are missing", findings=[found])
    status.tables[-1].steps["validate"] = lost
    status.tables[-1].shown_name = f"{tmp_path}/silver/orders"
    del status.tables[2].trends.series["logBytes"][1:]  # noted by the first of two runs

    page = status_page(status, str(tmp_path / "fleet.toml"), 1_800_100_000_000)

    data = json.loads(re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL)[0])
    assert re.search(r'<h1 class="bad">deltacli: \d of 4 tables have alerts: 1 may lose rows</h1>', page)
    assert f"commands are for the directory {tmp_path}</p>" in page
    row = page.partition('<td class="name">silver/orders')[2].partition("</tr>")[0]
    assert "<code>deltacli validate silver/orders" in row
    assert ("silver/orders", 0) == (data["tables"][-1]["m"], data["tables"][-1]["w"])
    assert "validate: 12 data files are missing" == data["tables"][-1]["b"][0]
    assert [1_800_000_000_000, 1_800_086_400_000] == [point[0] for point in data["tables"][1]["p"]]
    assert [None, None, 1, None] == [table.get("u") for table in data["tables"]]
    assert '<b class="">0</b>' not in page.partition("<h2>")[0]
    assert "thresholds without data" not in page


def test_spans_of_a_day_show_its_times_and_numbers_stay_with_their_units() -> None:
    begin = 1_800_000_000_000

    figures = [line("log", [(begin, 1), (begin + hours * 3_600_000, 2)], format_size) for hours in (1, 30)]

    assert "<span>2027-01-15 08:00</span><span>highest 2\xa0B</span><span>09:00</span>" in figures[0]
    assert "<span>2027-01-15</span><span>highest 2\xa0B</span><span>2027-01-16</span>" in figures[1]
    assert 12 == len(_series([{"timestampMs": begin, "operation": "WRITE"}], "operation")[0].values)  # no block
    assert "3 files (1.5\xa0KiB), 4\xa0% of them" == words("3 files (1.5 KiB), 4 % of them")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> object:
    with chromium(tmp_path_factory.mktemp("profile")) as page:
        yield page


def look(page: Page, address: str, width: int, scheme: str) -> None:
    page.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    page.requests.clear()
    page.open(address)


@pytest.mark.soak
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1_280, 800, 420])
def test_the_page_works_in_a_browser(browser: Page, tmp_path: Path, width: int, scheme: str) -> None:
    address = written(tmp_path, 250)

    look(browser, address, width, scheme)
    names = browser.evaluate("[...document.querySelectorAll('#rows td:first-child')].map((cell) => cell.textContent)")
    background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    is_wide = browser.evaluate("document.documentElement.scrollWidth > innerWidth")
    browser.evaluate("[...document.querySelectorAll('th button')].find((b) => b.textContent === 'log').click()")
    browser.evaluate("[...document.querySelectorAll('th button')].find((b) => b.textContent === 'log').click()")
    column = browser.evaluate("[...document.querySelectorAll('th')].findIndex((h) => h.ariaSort === 'descending')")
    sizes = browser.evaluate(f"[...document.querySelectorAll('#rows tr')].map((r) => r.children[{column}].textContent)")
    browser.evaluate("document.querySelector('#rows button').click()")
    opened = browser.evaluate("document.querySelector('#rows tr.below').textContent")
    cut = browser.evaluate(
        "[...document.querySelectorAll('#rows td, .card, li, h1')].filter((one) => one.offsetParent"
        " && one.scrollWidth > one.clientWidth + 1).length + (document.querySelector('.scroll').scrollWidth"
        " > document.querySelector('.scroll').clientWidth)"
    )
    lone = browser.evaluate(
        "[...document.querySelectorAll('#rows button')].filter((b) => !b.textContent.startsWith('!')"
        " && b.getClientRects().length > 1).length"
    )
    dates = browser.evaluate("[...document.querySelectorAll('#plots .axis span')].map((one) => one.textContent)")
    browser.evaluate("document.querySelector('#alerts a').click()")
    revealed = browser.evaluate("document.activeElement.closest('tr').nextSibling.textContent")
    broken = browser.evaluate(
        "[...document.querySelectorAll('.option')].filter((o) => o.getClientRects().length > 1).length"
    )
    browser.evaluate(
        "(() => { const only = document.getElementById('only'); only.value = 'alerts';"
        " only.dispatchEvent(new Event('change')); })()"
    )
    shown = browser.evaluate("document.getElementById('shown').textContent")
    browser.call("Page.printToPDF")

    assert HOSTILE in names
    assert "group g" in opened
    assert "/lake/" in revealed
    assert (0, 0, 0, ["2027-01-15", "2027-01-16"]) == (cut, broken, lone, dates[:2])
    assert (scheme == "light") == (background == "rgb(255, 255, 255)")
    assert not is_wide
    bytes_ = [float(text.split()[0]) * (1024 if "KiB" in text else 1) for text in sizes]
    assert (True, sorted(bytes_, reverse=True)) == (len(bytes_) >= 100, bytes_)
    assert re.fullmatch(r"1\d\d of 250 tables", shown)
    assert ([address], []) == (browser.requests, browser.complaints)


@pytest.mark.soak
@pytest.mark.parametrize("width", [1_280, 800, 420])
def test_group_files_data_and_log_are_shown_at_each_width(browser: Page, tmp_path: Path, width: int) -> None:
    status = status_of(tmp_path, 3)
    status.tables[0].numbers |= {"liveFiles": 1_234_567, "liveBytes": 4_096 << 30}
    (tmp_path / "status.html").write_text(status_page(status, "f", 1_800_100_000_000))

    look(browser, (tmp_path / "status.html").as_uri(), width, "light")
    seen = browser.evaluate(
        "[...document.querySelectorAll('#rows tr:first-child td[data-label]')].filter((td) => td.offsetParent"
        " && td.getBoundingClientRect().right <= innerWidth).map((td) => [td.dataset.label, td.textContent])"
    )

    assert [["group", "g"], ["files", "1,234,567"], ["data", "4.0\xa0TiB"]] == seen[:3]
    assert ["log"] == [label for label, _ in seen[3:]]


@pytest.mark.soak
@pytest.mark.parametrize(("width", "shown"), [(1_280, 6), (420, 3)])
def test_the_map_of_a_table_shows_whole_labels_or_numbers(
    browser: Page, tmp_path: Path, width: int, shown: int
) -> None:
    names = ("north-america-east", "europe-central-and-north", "asia-pacific")
    areas = [Area(size, "1.", name, f"{size} %", "9 GiB") for size, name in zip((60, 25, 15), names, strict=True)]
    drawn = area_map(areas)
    css = (ROOT / "deltacli" / "fleet" / "reporting" / "table_page.css").read_text()
    (tmp_path / "map.html").write_text(f"<style>{css}{drawn.rules}</style>{drawn.html}")

    look(browser, (tmp_path / "map.html").as_uri(), width, "light")
    whole, cut = browser.evaluate(
        "(() => { const found = [...document.querySelectorAll('.area span, .area b')].map((one) => ["
        " one.getBoundingClientRect(), one.closest('.area').getBoundingClientRect(), one.closest('p'), one.tagName])"
        ".filter(([own, area, p]) => own.top < p.getBoundingClientRect().bottom - 1);"
        " return [found.filter((one) => one[3] === 'SPAN').length,"
        " found.filter(([own, area]) => own.right > area.right + 1).length]; })()"
    )

    assert (shown, 0) == (whole, cut)


def test_the_smallest_partitions_are_one_area_of_the_map() -> None:
    items: list[JsonObject] = [{"partition": f"k={n}", "sizeBytes": size} for n, size in enumerate((600, 300, 30, 9))]

    drawn = _map({"items": items, "count": 14}, 960)
    even = _map({"items": items[:2] * 4, "count": 8}, 3_600)

    assert 4 == drawn.html.count("<div id=")
    assert "<p><b>2.</b> <span>1</span></p><p><b>31\xa0%</b> <span>300\xa0B</span></p>" in drawn.html
    assert 'class="area c7" title="others: 30 B, 3 %"><p><b>11</b> <span>others</span></p>' in drawn.html
    assert "The grey area is the 11 smallest partitions together: 30\xa0B, 3\xa0%." in drawn.html
    assert (8, "") == (even.html.count("<div id="), "".join(re.findall("grey", even.html)))


@pytest.mark.soak
def test_commands_are_copied_exactly(browser: Page, tmp_path: Path) -> None:
    address = written(tmp_path, 250)

    look(browser, address, 1_280, "light")
    browser.evaluate(
        "navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); };"
        "document.querySelector('#alerts .copy').click()"
    )
    copied, label = browser.evaluate("[window.copied, document.querySelector('#alerts .copy').ariaLabel]")
    counts = browser.evaluate("['code', '.copy'].map((one) => document.querySelectorAll(one).length)")
    browser.evaluate("navigator.clipboard.writeText = () => Promise.reject(); document.execCommand = () => false")
    browser.evaluate("document.querySelectorAll('#alerts .copy')[1].click()")
    selected = browser.evaluate("getSelection().toString()")

    codes = browser.evaluate("[...document.querySelectorAll('#alerts code')].map((code) => code.textContent)")
    assert ([copied, selected], f"copied: {codes[0]}") == (codes[:2], label)
    assert counts[0] == counts[1] > 2
    assert [] == browser.complaints


@pytest.mark.soak
def test_ten_thousand_tables_are_painted_within_two_seconds(browser: Page, tmp_path: Path) -> None:
    address = written(tmp_path, 10_000)

    look(browser, address, 1_280, "light")
    painted = browser.evaluate(
        "new Promise((done) => new PerformanceObserver((list) => done(list.getEntries()[0].startTime))"
        ".observe({type: 'paint', buffered: true}))"
    )
    sorting = browser.evaluate(
        "(() => { const began = performance.now(); document.querySelector('th button').click();"
        " document.body.offsetHeight; return performance.now() - began; })()"
    )

    assert (True, True) == (painted < 2_000, sorting < 1_000), (painted, sorting)
    assert [] == browser.complaints


def test_pages_of_tables_are_linked_where_they_are(tmp_path: Path) -> None:
    """
    Below an address with characters that mean something in URLs; a page of another table is not linked.
    """
    here = tmp_path / "a&b #1"
    made = here / "pages %"
    for number in range(3):
        builder = TableBuilder().commits(1)
        builder.write(here / f"t\"{number}'<b>")
    (here / "fleet.toml").write_text(
        POLICY.replace('["t"]', "[" + ", ".join(f"'''t\"{n}'<b>'''" for n in range(2)) + "]")
    )
    made.mkdir()
    for number, page in ((0, "one?.html"), (2, "other.html")):
        found = deltacli("doctor", "table", f"./t\"{number}'<b>", "--html", f"{made}/{page}", "-q", cwd=here)
        assert found.code == 0, found.err
    (made / "none.html").write_text('<meta name="deltacli-table" content="file:///elsewhere"><title>')
    (made / "gone.html").symlink_to("nothing")
    deltacli("fleet", "run", "--yes", cwd=here)

    deltacli("fleet", "status", "--html", "status.html", "--pages", "pages %", cwd=here)

    data = json.loads(re.findall(r"<script[^>]*>(.*?)</script>", (here / "status.html").read_text(), re.DOTALL)[0])
    links = {one["t"]: one.get("l") for one in data["tables"]}
    assert links == {f"{here}/t\"0'<b>": "./pages%20%25/one%3F.html", f"{here}/t\"1'<b>": None}
    target = urljoin((here / "status.html").as_uri(), links[f"{here}/t\"0'<b>"])
    assert Path(url2pathname(urlsplit(target).path)).is_file()


def test_a_page_of_each_table_is_written_and_linked(tmp_path: Path) -> None:
    TableBuilder().commits(2).write(tmp_path / "lake" / "good")
    (tmp_path / "lake" / "bad" / "_delta_log").mkdir(parents=True)
    (tmp_path / "fleet.toml").write_text(POLICY.replace('["t"]', '["lake/good", "lake/bad"]'))
    deltacli("fleet", "run", "--yes", cwd=tmp_path)
    arguments = ("fleet", "status", "--html", "site/index.html", "--pages", "site")
    (tmp_path / "site").mkdir()

    without = deltacli(*arguments, cwd=tmp_path)
    before = (tmp_path / "site" / "index.html").read_text()
    done = deltacli(*arguments, "--write-pages", cwd=tmp_path)
    alone = deltacli("fleet", "status", "--write-pages", cwd=tmp_path)

    absent = deltacli(*arguments[:-1], "nowhere", cwd=tmp_path)
    on_stdout = deltacli("fleet", "status", "--html", "-", cwd=tmp_path)
    both = deltacli("fleet", "status", "--html", "-", "--output", "x.json", cwd=tmp_path)

    assert "--pages nowhere: no such file or directory" in absent.err
    assert "hint: add --write-pages, which writes them" in absent.err
    assert [("<!DOCTYPE html>", "</html>")] * 2 == [(one.out[:15], one.out.rstrip()[-7:]) for one in (on_stdout, both)]
    assert "tables" in json.loads((tmp_path / "x.json").read_text())
    page = (tmp_path / "site" / "index.html").read_text()
    data = json.loads(re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL)[0])
    links = {Path(one["t"]).name: one.get("l") for one in data["tables"]}
    assert "no page of lake/bad: " in done.err
    assert "wrote 1 page to site\n" in done.err
    assert (tmp_path / "site" / links["good"]).is_file()
    assert '<a href="./index.html">All tables</a>' in (tmp_path / "site" / links["good"]).read_text()
    faults = {Path(one["t"]).name: one.get("f") for one in data["tables"]}
    assert faults == {"good": None, "bad": re.findall("no page of lake/bad: (.*)", done.err)[0]}
    assert (None, without.code, 2) == (links["bad"], done.code, alone.code)
    again = "deltacli fleet status fleet.toml --html site/index.html --pages site --write-pages"
    assert (True, False) == (f"<code>{again}</code>" in before, again in page)


def test_the_name_of_a_local_table_is_its_path_where_it_can_be_pasted() -> None:
    names = ["file:///a%20b/%25%C3%A9", "file:///a%0Ab", "file:///a%FF", "s3://lake/a%20b"]

    assert ["/a b/%é", *names[1:]] == [show_table_name(name) for name in names]


def test_pages_are_written_at_the_rate_of_the_policy_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    TableBuilder().commits(2).write(tmp_path / "t")
    (tmp_path / "fleet.toml").write_text(f"calls-per-second = 7\n{POLICY}")
    monkeypatch.chdir(tmp_path)
    run_cli(["fleet", "run", "--yes", "-q"])
    rates: list[float | None] = []
    limit_call_rate = CommandContext.limit_call_rate

    def noting(self: CommandContext, rate: float | None) -> CommandContext:
        rates.append(rate)
        return limit_call_rate(self, rate)

    monkeypatch.setattr(CommandContext, "limit_call_rate", noting)

    run_cli(["fleet", "status", "--html", "site/index.html", "--pages", "site", "--write-pages", "-q"])

    assert [7] == rates
    assert 2 == len([*(tmp_path / "site").iterdir()])


def test_a_row_has_the_time_of_the_last_complete_validation(tmp_path: Path) -> None:
    status = status_of(tmp_path, 3)
    before = status_page(status, "fleet.toml", 1)
    failed = StepStatus("validate", "failed", 7, 1_800_000_000_000, "run-9", succeeded_ms=1_700_000_000_000)
    status.tables[1].steps["validate"] = failed
    status.tables[2].steps["validate"] = StepStatus("validate", "findings", 1, 1_800_000_000_000, "run-9")

    page = status_page(status, "fleet.toml", 1)

    times = re.findall(r'<td data-label="validated \(UTC\)">([^<]*)</td>', page)
    tables = json.loads(re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL)[0])["tables"]
    assert ["", "2023-11-14 22:13", "2027-01-15 08:00"] == times
    assert [None, 1_700_000_000_000, 1_800_000_000_000] == [table.get("d") for table in tables]
    assert ('<th scope="col">validated' in page, '<th scope="col">validated' in before) == (True, False)
