"""The page in a real browser: Chromium, driven by Playwright. Left out where there is no Chromium or npm, and said so.

Every test also asserts that nothing was asked of another host and that the browser's console has no error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Route, expect, sync_playwright
from servers import Server, make_policy
from services import needs

from dpsql.policy.settings import Duration
from dpsql.server.page import ensure_built, is_built
from dpsql.server.tokens import Who

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
COUNT = "SELECT city, COUNT(*) AS visits FROM visits GROUP BY city"
PATIENCE = 60_000  # milliseconds, on a machine that has much else to do
expect.set_options(timeout=PATIENCE)
LOST = "net::ERR_FAILED"  # as the console tells of a reply that a test has thrown away
REPLY_AFTER = Duration(Fraction(2), "2s")  # a slow machine has to be done by then
PEOPLE = {who.name: who for who in (Who("ann", "analyst"), Who("bob", "analyst"), Who("steve", "steward"))}
OpenPage = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests here, and no longer: while it is there, this thread can run no other event loop."""
    chromium = needs("chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with its page."""
    if not is_built():
        needs("npm")
    assert ensure_built() is None
    found = Server(make_policy(tmp_path_factory.mktemp("page")), reply_after=REPLY_AFTER)
    yield found
    found.close()


@pytest.fixture
def open_page(browser: Browser, served: Server) -> Iterator[OpenPage]:
    """open_page(name, **context): the page of somebody who followed a link of his (None: of nobody)."""
    contexts, heard = [], list[str]()

    def listen(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and LOST not in message.text:  # which only one test brings about
            heard.append(f"console: {message.text}")

    def open_(name: str | None = "ann", **named: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **named})
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("console", listen)
        page.on("pageerror", lambda error: heard.append(f"page: {error}"))
        page.on("request", lambda sent: heard.append(sent.url) if not own(sent.url) else None)
        link = "" if name is None else f"#login={served.http.logins.link(PEOPLE[name])}"
        page.goto(f"{served.url}/{link}")
        if name is not None:
            expect(page.locator(".columns").first).to_be_attached()
        return page

    def own(url: str) -> bool:
        return url.startswith(("data:", "blob:")) or urlsplit(url).netloc == urlsplit(served.url).netloc

    yield open_
    for context in contexts:
        context.close()
    assert heard == []


def write(page: Page, sql: str) -> None:
    """Put this SQL into the editor, in place of what is there."""
    page.get_by_label("SQL query").click()
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.insert_text(sql)
    page.keyboard.press("Escape")  # no completions


def costs(page: Page, price: str) -> None:
    """Wait until this is the price that is shown."""
    expect(page.locator(".figure").first).to_contain_text(f"costs{price}")


def spend(page: Page) -> None:
    """Run the query, agree to its price, and wait for the answer."""
    page.get_by_role("button", name="Run").click()
    page.get_by_role("dialog").get_by_role("button", name="Spend").click()
    expect(page.get_by_test_id("answer")).to_be_visible()


def left(page: Page) -> float:
    """The ε that the page says is left."""
    told = re.search(r"ε ([\d.,]+)", page.locator(".meter-text").inner_text())
    assert told is not None
    return float(told[1].replace(",", ""))


def test_a_query_is_priced_while_it_is_written_and_paid_when_agreed(open_page: OpenPage) -> None:
    page = open_page()
    before = left(page)
    page.get_by_label("SQL query").press_sequentially(COUNT, delay=2)
    page.keyboard.press("Escape")
    costs(page, "ε 0.5")
    price = page.locator(".price")
    expect(price).to_contain_text(f"would leaveε {before - 0.5:.4g}")
    expect(price.locator("dl")).to_contain_text(re.compile(r"visits± \d"))
    expect(price.locator("tr.chosen")).to_contain_text("0.5")

    page.get_by_role("button", name="Run").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Spend ε 0.5?")
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.get_by_test_id("answer")).to_have_count(0)

    spend(page)
    answer = page.get_by_test_id("answer")
    expect(answer.locator("tbody tr")).to_have_count(4)
    expect(answer.locator("tbody tr").first).to_contain_text(re.compile(r"Bern\s*at least [\d,]+"))
    expect(answer.locator("svg rect")).to_have_count(4)  # bars, by name
    expect(answer.locator("svg [aria-label=rule] line")).to_have_count(4 + 1)  # their errors, and zero
    expect(page.locator(".meter-text")).to_contain_text(f"ε {before - 0.5:.4g}")
    costs(page, "nothing")  # what was paid for is free


def test_a_refusal_stands_under_the_words_that_it_is_about(open_page: OpenPage) -> None:
    page = open_page()
    write(page, "SELECT city,\n       SUM(person) AS total\nFROM visits GROUP BY city")
    marked, refusal = page.locator(".refused"), page.locator(".refusal-box")
    expect(marked).to_have_text("person")
    expect(refusal).to_contain_text("SUM needs a range for visits.person")
    expect(refusal).to_contain_text("SUM(CLIP(person, low, high))")
    word, box = marked.bounding_box(), refusal.bounding_box()
    assert word is not None and box is not None
    assert 0 <= box["y"] - (word["y"] + word["height"]) < 20 and abs(box["x"] - word["x"]) < 12
    write(page, COUNT)
    expect(refusal).to_have_count(0)


def test_the_slider_and_the_table_of_prices_choose_what_is_spent(open_page: OpenPage) -> None:
    page = open_page()
    write(page, "SELECT AVG(minutes) AS minutes FROM visits")
    costs(page, "ε 0.5")
    page.get_by_role("button", name="spend ε 1", exact=True).click()
    costs(page, "ε 1")
    page.get_by_label("ε to spend, from little").press("End")
    costs(page, "ε 10")
    page.get_by_label("ε to spend", exact=True).fill("0.25")
    page.keyboard.press("Enter")
    costs(page, "ε 0.25")
    write(page, "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 2) COUNT(*) AS n FROM visits")
    costs(page, "ε 2")
    expect(page.get_by_label("ε to spend", exact=True)).to_be_disabled()


def test_the_keyboard_is_enough(open_page: OpenPage) -> None:
    page = open_page()
    page.keyboard.insert_text("SELECT COUNT(*) AS n FROM visi")  # the editor has the focus
    page.keyboard.press("Control+Space")
    expect(page.locator(".cm-tooltip-autocomplete")).to_contain_text("visits")
    page.wait_for_timeout(150)  # CodeMirror takes no key for a list that has just come up
    page.keyboard.press("Enter")
    page.keyboard.insert_text(" WHERE minutes > 30")
    costs(page, "ε 0.5")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("answer")).to_contain_text("cost ε 0.5")
    page.keyboard.press("Control+Enter")  # free now: nothing is asked
    expect(page.get_by_test_id("answer")).to_contain_text("free: stored")


def test_a_reply_that_is_lost_is_fetched_again_and_paid_once(open_page: OpenPage) -> None:
    page = open_page()
    before, thrown = left(page), list[str]()

    def lose(route: Route) -> None:
        if thrown:
            route.continue_()
        else:
            thrown.append(route.fetch().text())
            route.abort()

    page.route("**/v1/query?*", lose)
    write(page, "SELECT COUNT(*) AS n FROM visits WHERE minutes > 55")
    costs(page, "ε 0.5")
    spend(page)
    assert json.loads(thrown[0])["cost"]["epsilon"] == 0.5
    expect(page.locator(".meter-text")).to_contain_text(f"ε {before - 0.5:.4g}")


def test_a_chart_follows_the_columns_and_can_be_changed(open_page: OpenPage) -> None:
    page = open_page()
    write(page, "SELECT minutes, city, COUNT(*) AS n FROM visits WHERE minutes < 6 GROUP BY minutes, city")
    costs(page, "ε 0.5")
    spend(page)
    chart = page.get_by_test_id("chart")
    lines = chart.locator("[aria-label=line] path")
    expect(lines).to_have_count(4)  # one for each city, and NULL
    page.get_by_text("Dots", exact=True).click()
    expect(lines).to_have_count(0)
    expect(chart.locator("[aria-label=dot] circle")).not_to_have_count(0)
    page.get_by_role("combobox", name="colour").select_option(label="none")
    page.get_by_role("combobox", name="over").select_option(label="city")
    page.get_by_text("Bars", exact=True).click()
    expect(chart.locator("[aria-label=bar] rect")).not_to_have_count(0)


def test_a_bound_reads_as_one_in_the_table_and_is_an_arrow_in_the_chart(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = [(19_603.0, inf), (69.0, 4_000.0), (-inf, inf)]
    monkeypatch.setattr("dpsql.answer.intervals.intervals", lambda noisy, *_: [*ends, *ends][: noisy.count])
    page = open_page()
    write(page, "SELECT city, COUNT(*) AS came FROM visits WHERE minutes > 9 GROUP BY city")
    spend(page)
    answer = page.get_by_test_id("answer")
    expect(answer.locator("thead")).to_contain_text(re.compile(r"came\s*95% interval"))
    rows = answer.locator("tbody tr")
    expect(rows.nth(0)).to_contain_text("at least 19,")
    expect(rows.nth(1)).to_contain_text(re.compile(r"\d \(\d+ to 4,\d+\)"))
    expect(rows.nth(2)).to_contain_text("± unknown")
    expect(answer.locator('svg path[aria-label="no bound above"]')).to_have_count(2)  # two bounds among four rows
    expect(answer).to_contain_text("there is no 95% interval on the other side")
    assert not re.search(r"\\b(inf|nan|infinity)\\b|∞", answer.inner_text(), re.IGNORECASE)


def test_history_is_replayed_for_free_and_files_are_given_out(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page("bob")
    sql = "SELECT city, AVG(minutes) AS minutes FROM visits GROUP BY city"
    write(page, sql)
    costs(page, "ε 0.5")
    spend(page)
    page.reload()
    page.get_by_role("tab", name="History").click()
    again = page.get_by_role("button", name=f"show again, for free: {sql}")
    expect(again).to_have_count(1)
    expect(page.locator(".history li")).to_have_count(1)  # nobody else's
    after = left(page)
    again.click()
    expect(page.get_by_test_id("answer")).to_contain_text("replayed, free")
    costs(page, "nothing")
    assert left(page) == after
    for name, ending in (("CSV", ".csv"), ("Parquet", ".parquet"), ("Receipt", ".csv.receipt.json")):
        with page.expect_download() as download:
            page.get_by_role("link", name=f"download {name}").click()
        assert download.value.suggested_filename.endswith(ending)
        assert Path(download.value.path()).stat().st_size > 50


def test_a_token_logs_in_a_link_does_once_and_logging_out_ends_it(open_page: OpenPage, served: Server) -> None:
    page = open_page(None)
    page.get_by_label("Your token").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Nobody is known by this token")
    page.get_by_label("Your token").fill(served.tokens["carl"])
    page.keyboard.press("Enter")
    expect(page.locator(".who")).to_have_text("carl")
    expect(page.locator(".meter-text")).to_contain_text("of 2 left")  # his quota
    expect(page.get_by_role("navigation")).to_have_count(0)  # which stewards have
    page.get_by_role("button", name="log out").click()
    expect(page.get_by_label("Your token")).to_be_visible()

    link = f"{served.url}/#login={served.http.logins.link(PEOPLE['ann'])}"
    for expected in ("Nobody", "used before"):
        page.goto("about:blank")
        page.goto(link)
        if expected == "Nobody":
            expect(page.locator(".who")).to_have_text("ann")
            assert "login" not in page.url
            page.get_by_role("button", name="log out").click()
            expect(page.get_by_label("Your token")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("used before")


def test_stewards_see_spending_and_the_policy(open_page: OpenPage) -> None:
    page = open_page("steve")
    write(page, "SELECT COUNT(*) AS n FROM visits WHERE minutes < 7")
    costs(page, "ε 0.5")
    spend(page)
    page.get_by_role("button", name="Spending").click()
    expect(page.get_by_role("region", name="spending by analyst")).to_contain_text("steve")
    expect(page.locator("main:visible svg rect")).not_to_have_count(0)
    page.get_by_role("button", name="Policy").click()
    expect(page.get_by_label("the policy")).to_contain_text('source = "visits.parquet"')


def test_it_is_dark_where_the_system_is_and_as_chosen_afterwards(open_page: OpenPage) -> None:
    page = open_page(color_scheme="dark")

    def ground() -> int:
        rgb = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", rgb)[:3]))

    assert ground() < 150
    page.get_by_role("button", name="change between light and dark").click()
    assert ground() > 600
    page.reload()
    expect(page.locator(".columns").first).to_be_visible()
    assert ground() > 600


def test_it_fits_a_narrow_screen_and_everything_has_a_name(open_page: OpenPage) -> None:
    page = open_page(viewport={"width": 390, "height": 844})
    sql = "SELECT city, COUNT(*) AS n, SUM(minutes) AS total, AVG(minutes) AS mean FROM visits"
    write(page, f"{sql} WHERE minutes < 50 GROUP BY city")
    costs(page, "ε 0.5")
    spend(page)
    expect(page.get_by_test_id("chart").locator("svg")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    tables = page.locator("#sidebar")
    expect(tables).not_to_be_visible()
    page.get_by_role("button", name="tables, history and functions").click()
    expect(tables).to_be_visible()
    expect(tables).to_contain_text("public keyBern, Lima, Oslo")
    nameless = page.evaluate("""() => [...document.querySelectorAll("button, a, input, select")].filter((one) =>
        !one.hidden && !one.innerText?.trim() && !one.ariaLabel && !one.labels?.length).map((one) => one.outerHTML)""")
    assert nameless == []
