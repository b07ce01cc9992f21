"""`make screenshots`: takes screenshots of every demo page at three widths, into docs/images/.

Arguments: names of the pages to take; without names, all pages.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, sync_playwright

from tests.browser.chromium import LAUNCH
from tests.browser.demo import Demo
from tests.browser.pages import PAGES, ShownPage

WIDTHS = {360: 740, 768: 1024, 1440: 900}
IMAGES = Path(__file__).parents[2] / "docs" / "images"


def take(browser: Browser, demo: Demo, page: ShownPage, width: int, scheme: str) -> Path:
    context = browser.new_context(
        base_url=demo.url,
        viewport={"width": width, "height": WIDTHS[width]},
        color_scheme=scheme,
        locale="en-GB",
        reduced_motion="reduce",
    )
    if page.signed_in:
        context.add_cookies([{"name": "service_session", "value": demo.session, "url": demo.url}])
    view = context.new_page()
    view.goto(
        page.path(demo.ids), wait_until="networkidle" if "waiting" not in page.name else "load"
    )
    view.wait_for_selector("[aria-busy=true]", state="detached")
    path = IMAGES / f"{page.name}-{width}{'-dark' if scheme == 'dark' else ''}.png"
    view.screenshot(path=path, full_page=True)
    context.close()
    return path


def main(names: list[str]) -> None:
    chosen = [page for page in PAGES if not names or page.name in names]
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        demo, browser = Demo(Path(folder)), playwright.chromium.launch(**LAUNCH)
        try:
            for page in chosen:
                for width in WIDTHS:
                    print(take(browser, demo, page, width, "light").name)
                if page.dark:
                    print(take(browser, demo, page, 1440, "dark").name)
        finally:
            browser.close()
            demo.close()


if __name__ == "__main__":
    main(sys.argv[1:])
