"""The HTML report in a real Chromium: it renders, clicks work, nothing is fetched, no error on the console."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from report_worlds import FENCE, FINDING, result, story

from killcheck.fleet.file import Fleet, Shard
from killcheck.fleet.page import page as fleet_page
from killcheck.fleet.standing import Row, Standing
from killcheck.history.nights import Night
from killcheck.history.page import page as nights_page
from killcheck.history.series import History, told
from killcheck.reports.compare import compare
from killcheck.reports.html import html

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
#: For a browser on a busy machine, in milliseconds.
LIMIT_MS = 120_000.0

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")

RESULTS = [
    result(),
    result(faults=["image-gone"], verdict="exposed", evidence=["Failed to pull <image>"], usd=9.0),
    result(layer="idle", verdict="covered", off_by="nightly-off"),
    result(layer="idle", faults=["image-gone"], verdict="inconclusive"),
]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    told = story(RESULTS, findings=[FINDING, {**FINDING, "unproven": True}], fences=[FENCE], exit_code=1)
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(html(told, compare(story([result(verdict="exposed"), result(layer="idle")]), told)))
    return path


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=LIMIT_MS)
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser, file):
    """Opens the report as a person would; fails the test on any console error or request that leaves the file."""
    said, pages = [], []

    def opened(fragment="", **options):
        page = browser.new_page(**options)
        pages.append(page)
        page.set_default_timeout(LIMIT_MS)
        page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url) if not request.url.startswith("file:") else None)
        page.goto(Path(file).as_uri() + fragment)
        return page

    yield opened
    for page in pages:
        page.close()
    assert said == []


def test_it_says_the_verdict_and_what_to_mend_first(open_page):
    page = open_page()
    assert page.title() == "killcheck: inference - exposed"
    assert page.inner_text("h1") == "exposed inference"
    assert "ImagePullBackOff: gone" in page.inner_text("#mend + ol")
    for word in ("What could be launched at worst", "Found by reading", "What changed since"):
        assert page.get_by_role("heading", name=word).is_visible()


def test_a_click_in_the_matrix_opens_its_drill(open_page):
    page = open_page()
    first = page.locator("#drill-0")
    assert first.get_attribute("open") is None  # what survived is closed
    page.get_by_role("link", name="survived").click()
    page.locator("#drill-0:focus-within").wait_for()
    assert first.get_attribute("open") is not None
    first.locator("summary").first.click()
    page.get_by_role("link", name="survived").click()  # the same link again, after somebody closed it
    page.locator("#drill-0[open]").wait_for()


def test_a_link_to_a_drill_opens_it(open_page):
    page = open_page("#drill-0")
    page.locator("#drill-0[open]").wait_for()
    assert page.locator("#drill-0 svg").is_visible()


def test_by_keyboard_alone(open_page):
    page = open_page()
    page.get_by_role("link", name="survived").focus()
    page.keyboard.press("Enter")
    page.locator("summary:focus").wait_for()  # the hash changes a moment later
    page.keyboard.press("Enter")
    page.locator("#drill-0:not([open])").wait_for()
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"  # and one can go on from there


def test_only_what_is_not_proven(open_page):
    page = open_page()
    button = page.get_by_role("button", name="Only what is not proven")
    button.click()
    shown = page.locator("details.drill:visible h3").all_inner_texts()
    assert shown == ["nightly-off under image-gone", "idle under image-gone"]
    button.click()
    assert page.locator("details.drill:visible").count() == 4


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_has_no_sideways_scrolling(open_page, scheme):
    page = open_page(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    page.get_by_role("button", name="Open all").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}[scheme]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_on_their_background(open_page, scheme):
    """WCAG AA: 4.5 to 1 for every tag, in both schemes."""
    page = open_page(color_scheme=scheme)
    worst = page.evaluate("""() => {
      const light = (rgb) => { const [r, g, b] = rgb.match(/[\\d.]+/g).slice(0, 3).map((v) => { v /= 255;
        return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      const ratio = (one) => { const style = getComputedStyle(one);
        const [a, b] = [light(style.color), light(style.backgroundColor)].sort((x, y) => y - x);
        return (a + 0.05) / (b + 0.05); };
      return Math.min(...[...document.querySelectorAll(".tag, td.cell")].map(ratio)); }""")
    assert worst >= 4.5


def test_without_scripts_it_still_says_everything(open_page):
    page = open_page("#drill-1", java_script_enabled=False)
    assert "Failed to pull <image>" in page.inner_text("#drill-1")
    assert not page.locator(".tools").is_visible()


def test_on_paper_every_drill_is_open(open_page):
    page = open_page()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details.drill[open]").count() == 4
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details.drill[open]").count() == 3
    assert page.pdf()[:5] == b"%PDF-"


def test_every_picture_has_a_name_and_every_table_header_a_scope(open_page):
    page = open_page()
    assert page.locator("svg[role=img][aria-label]").count() == page.locator("svg").count() == 4
    assert page.locator("th:not([scope])").count() == 0


# -- a large one -------------------------------------------------------------------------------------------
LONG = "a-rather-long-name-of-a-second-switch-that-somebody-generated-651"


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Two layers, one with a name of 65 characters, under 45 faults."""
    night = {"watched_s": 25_200.0, "usd": 153.7}
    told = story(
        [
            result(layer, [f"fault-{number}"], verdict, **(night if verdict == "exposed" else {}))
            for layer in ("nightly-off", LONG)
            for number, verdict in enumerate(["survived", "exposed", "covered", "inconclusive", "exposed"] * 9)
        ],
        fences=[{**FENCE, "pool": LONG}],
        findings=[{**FINDING, "object": f"CronJob/{LONG}/{LONG}"}],
    )
    path = tmp_path_factory.mktemp("large") / "report.html"
    path.write_text(html(told))
    return path


@pytest.fixture(scope="module")
def large_page(browser, large):
    page = browser.new_page()
    page.goto(large.as_uri())
    page.get_by_role("button", name="Open all").click()
    yield page
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 800, 1400])
@pytest.mark.one_in(3)
def test_a_large_matrix_with_long_names_can_be_read(large_page, width, scheme):
    page = large_page
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("td.cell").count() == 90
    assert page.locator("th", has_text=LONG).first.is_visible()
    for row in page.locator("tbody tr").all()[:3]:
        label = row.locator("th").first
        assert label.inner_text().strip()
        assert label.bounding_box()["width"] >= 80  # no word is broken into letters
    page.locator("#drill-1").scroll_into_view_if_needed()
    smallest = page.evaluate(
        "Math.min(...[...document.querySelectorAll('#drill-1 svg text')].map(t => t.getBoundingClientRect().height))"
    )
    assert smallest >= 10  # pixels: of the picture too


def test_what_is_exposed_is_never_told_as_off_and_its_picture_says_where_it_ends(large_page):
    page = large_page
    exposed = page.locator("td.cell.exposed").all_inner_texts()
    assert len(exposed) == 36
    assert not any("off after" in text for text in exposed)
    assert "The drill was watched for 7 h: $153.70." in page.inner_text("#drill-1")
    assert "and 33 more drill(s)" in page.inner_text("#mend + ol")


# -- many nights, many clusters ------------------------------------------------------------------------------
def nights_and_fleet():
    """The pages of a history and of a fleet, whose names are long."""
    now = 1_800_000_000.0
    night = Night("r1", now - 9e5, "inference", "staging", LONG, ("image-gone",), "", "survived", 2.6, 85.0, 300.0)
    late = msgspec.structs.replace(night, run="r2", at=now - 9e4, standing="exposed", usd=526.36, cause="ErrImagePull")
    story_ = told(History((night, late), {}), now=now, stale_after_s=2.6e6)
    shard = Shard(f"{LONG}.inference.1", LONG, "staging", LONG, Path("killcheck.yaml"), part=1, parts=2)
    fleet = Fleet(Path("fleet.yaml"), "platform", 2, "results", (shard,))
    return nights_page(story_), fleet_page(Standing(fleet, now, (Row(shard, story_),)))


def test_a_history_and_a_fleet_have_nothing_beyond_the_edge(browser, tmp_path):
    """Every column is seen whole, from a telephone's width on; where it is no table, each cell has its column's name."""
    file, page = tmp_path / "page.html", browser.new_page()
    for text in nights_and_fleet():
        file.write_text(text)
        page.goto(file.as_uri())
        for width in (360, 800, 1400):
            page.set_viewport_size({"width": width, "height": 900})
            over = """width => [document.documentElement, ...document.querySelectorAll(".scroll")]
              .map(e => e.scrollWidth - e.clientWidth).concat(
                [...document.querySelectorAll("td, tbody th")].map(e => e.getBoundingClientRect().right - width))"""
            assert max(page.evaluate(over, width)) <= 0, width
        labels = page.evaluate("[...document.querySelectorAll('tr:first-child td')].map(e => e.dataset.label)")
        assert labels == page.locator("thead th").all_text_contents()[1:]
    page.close()
