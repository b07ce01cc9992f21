"""The code of docs/recipes runs: in Chromium, in Node.js and, if it is installed, in PHP."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Account, serve_html
from tests.browser.test_client_snippets import (
    ROOT,
    SITE,
    built,
    expect_stored,
    filled_in,
    open_bundled,
    open_html,
    run_in_node,
)
from tests.other_programs import run_program
from tests.records import new_key

RECIPES = ROOT / "docs/recipes"
NAMES = sorted(path.stem for path in RECIPES.glob("*.md"))
PHP = shutil.which("php")

_AS_TAG_MANAGER = """(text) => {
  const script = document.createElement("script");
  script.text = text;
  document.body.append(script);
}"""
"""Runs the code of a Custom HTML tag."""

_SHOPIFY = """
const handlers = [];
const analytics = { subscribe: (name, handler) => handlers.push([name, handler]) };
"""

_SHOPIFY_EVENTS = """
const { setTimeout: wait } = await import("node:timers/promises");
const names = ["page_viewed", ...new Set(handlers.map(([name]) => name).slice(1))];
for (const [index, name] of names.entries()) {
  const event = {
    id: `sh-${index}`, clientId: "client-1", name, timestamp: new Date().toISOString(),
    context: {
      document: { location: { href: "https://shop.example/a?x=1" }, referrer: "", title: "A" },
    },
    data: { checkout: { token: "token-1", order: { customer: { id: "77" } } } },
  };
  for (const [own, handler] of handlers) if (own === name) handler(event);
  await wait(5);
}
await wait(500);
"""

_SHOPIFY_ORDER = """
await new Promise((resolve) => (server.listening ? resolve() : server.once("listening", resolve)));
const order = JSON.stringify({
  id: 9, total_price: "19.90", currency: "EUR", checkout_token: "token-1", customer: { id: 77 },
});
const signature = createHmac("sha256", process.env.SHOPIFY_SECRET).update(order).digest("base64");
const url = `http://127.0.0.1:${server.address().port}`;
const ask = (headers) => fetch(url, { method: "POST", body: order, headers });
const statuses = [
  (await ask({ "X-Shopify-Hmac-Sha256": signature })).status,
  (await ask({ "X-Shopify-Hmac-Sha256": "wrong" })).status,
  (await ask({})).status,
];
if (String(statuses) !== "200,401,401") throw new Error(String(statuses));
await penstock.close();
server.close();
server.closeAllConnections();
"""

_NEXT_ORDER = """
const answer = await POST(new Request("http://shop", {
  method: "POST", body: JSON.stringify({ visitorId: "v-1", checkoutId: "c-1" }),
}));
if (answer.status !== 200) throw new Error(String(answer.status));
await penstock.close();
"""

_WORDPRESS = r"""
$hooks = []; $posted = [];
function add_action($name, $call) { global $hooks; $hooks[$name][] = $call; }
function run_hook($name, ...$args) {
    global $hooks;
    foreach ($hooks[$name] as $call) $call(...$args);
}
function esc_url($text) { return htmlspecialchars($text, ENT_QUOTES); }
function esc_attr($text) { return htmlspecialchars($text, ENT_QUOTES); }
function wp_unslash($text) { return stripslashes($text); }
function sanitize_text_field($text) { return trim(strip_tags($text)); }
function wp_json_encode($value) { return json_encode($value); }
function is_checkout() { global $view; return $view !== 'home'; }
function is_order_received_page() { global $view; return $view === 'paid'; }
function as_schedule_single_action($at, $name, $args) { global $posted; $posted[] = 'again'; }
function wp_remote_retrieve_response_code($answer) { return $answer; }
function wp_remote_post($url, $args) {
    global $posted;
    $headers = [];
    foreach ($args['headers'] as $name => $value) $headers[] = "$name: $value";
    $http = ['method' => 'POST', 'header' => $headers, 'content' => $args['body'],
        'ignore_errors' => true];
    $body = file_get_contents($url, false, stream_context_create(['http' => $http]));
    $posted[] = $body;
    return (int) explode(' ', $http_response_header[0])[1];
}
class WC_Order {
    private $meta = [];
    function update_meta_data($name, $value) { $this->meta[$name] = $value; }
    function get_meta($name) { return $this->meta[$name] ?? ''; }
    function save() {}
    function get_customer_id() { return 12; }
    function get_total() { return '19.90'; }
    function get_currency() { return 'EUR'; }
}
$order = new WC_Order();
function wc_get_order($id) { global $order; return $order; }
"""

_WORDPRESS_PAGE = r"""
$view = getenv('VIEW');
run_hook('wp_head');
run_hook('wp_footer');
"""

_WORDPRESS_ORDER = r"""
$_COOKIE['penstock_checkout'] = addslashes(urldecode(getenv('IDS')));
run_hook('woocommerce_checkout_order_created', $order);
run_hook('woocommerce_payment_complete', 77);
run_hook('woocommerce_payment_complete', 77);
echo implode("\n", $posted);
"""


def blocks(name: str, language: str) -> list[str]:
    page = (RECIPES / f"{name}.md").read_text("utf-8")
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


@pytest.fixture
def filled(account: Account, website: str, tmp_path: Path) -> Callable[[str], str]:
    return lambda snippet: filled_in(snippet, account, website, tmp_path / "spill")


def sending_key(account: Account) -> str:
    return new_key(account.client, scopes=["ingest"])


def stored(account: Account, name: str) -> dict:
    recent = account.client.get("/api/events/recent").json()["data"]
    [event] = [event for event in recent if event["name"] == name]
    return event


@pytest.mark.parametrize("name", [name for name in NAMES if blocks(name, "json")])
def test_the_funnels_of_recipes_are_valid(account: Account, name: str) -> None:
    [definition] = blocks(name, "json")
    answer = account.client.post("/api/funnels/validate", json=json.loads(definition))
    assert answer.status_code == 200, answer.text


def test_the_tags_of_tag_manager_send_an_attempt(
    account: Account, page: Page, filled: Callable[[str], str]
) -> None:
    load, push, step, end = [
        re.sub(r"</?script>", "", filled(tag)) for tag in blocks("tag-manager", "html")
    ]
    [ids] = blocks("tag-manager", "js")
    inputs = "<input name=visitor_id><input name=checkout_id>"
    body = f"<html><body>{inputs}</body></html>"
    open_html(page, body)
    page.evaluate(_AS_TAG_MANAGER, push)
    [pushed] = page.evaluate("window.dataLayer")
    for variable, value in (("{{Event}}", pushed["event"]), ("{{plan}}", pushed["plan"])):
        step = step.replace(variable, json.dumps(value))
    for code in (step, ids, load):
        page.evaluate(_AS_TAG_MANAGER, code)
    expect_stored(account, "/cart", "checkout_started")
    event = stored(account, "checkout_started")
    assert event["properties"]["plan"] == "pro"
    assert page.input_value("[name=checkout_id]") == event["properties"]["checkoutId"]
    assert page.input_value("[name=visitor_id]") == event["visitorId"]
    page.evaluate(_AS_TAG_MANAGER, end)
    assert "penstock.attempt.checkout" not in page.evaluate("Object.keys(localStorage)")


def test_the_purchase_of_the_tag_manager_recipe_is_accepted(
    account: Account, filled: Callable[[str], str]
) -> None:
    [command] = blocks("tag-manager", "sh")
    environment = {**os.environ, "PENSTOCK_API_KEY": sending_key(account)}
    run_program(["bash", "-c", filled(command)], environment=environment, may_warn=True)
    expect_stored(account, "purchase")


@built
def test_the_next_recipe_waits_for_consent_and_sends_the_purchase(
    account: Account, website: str, page: Page, filled: Callable[[str], str]
) -> None:
    module, route, _ = blocks("nextjs", "js")
    host = {"HOST": account.url, "WEBSITE": website}
    public = {f"NEXT_PUBLIC_PENSTOCK_{name}": value for name, value in host.items()}
    environment = f"globalThis.process = {{ env: {json.dumps(public)} }};"
    use = 'checkout().track("checkout_started"); window.answer = setConsent;'
    open_bundled(page, re.sub(r"^export ", "", f"{module}\n{environment}\n{use}", flags=re.M))
    assert page.evaluate("Object.keys(localStorage)") == []
    page.evaluate("answer('granted')")
    expect_stored(account, "/cart", "checkout_started")
    run_in_node(route + _NEXT_ORDER, PENSTOCK_API_KEY=sending_key(account), **public)
    expect_stored(account, "purchase")


@built
def test_the_shopify_recipe_sends_steps_and_signed_orders(
    account: Account, filled: Callable[[str], str]
) -> None:
    pixel, orders = blocks("shopify", "js")
    run_in_node(_SHOPIFY + filled(pixel) + _SHOPIFY_EVENTS)
    steps = re.findall(r'^  "(\w+)",$', pixel, flags=re.M)
    assert len(steps) == 5
    expect_stored(account, "/a", *steps)
    run_in_node(
        filled(orders).replace("listen(8080)", "listen(0)") + _SHOPIFY_ORDER,
        PENSTOCK_API_KEY=sending_key(account),
        SHOPIFY_SECRET="a secret",
    )
    expect_stored(account, "purchase")
    purchase = stored(account, "purchase")
    assert purchase["properties"]["checkoutId"] == "token-1"
    shown = account.client.get(f"/api/visitors/{purchase['visitorId']}").json()
    assert (shown["userId"], shown["events"]) == ("77", len(steps) + 2)


@pytest.mark.skipif(PHP is None, reason="PHP is not installed")
def test_the_wordpress_plugin_sends_the_attempt_and_its_purchase(
    account: Account, page: Page, filled: Callable[[str], str]
) -> None:
    key, plugin = blocks("wordpress", "php")
    constant = key.replace("psk_...", sending_key(account))
    code = filled(plugin).replace("<?php", f"<?php {_WORDPRESS} {constant}", 1)

    def run(more: str, **environment: str) -> str:
        return run_program([str(PHP)], code + more, environment={**os.environ, **environment})

    views = {view: run(_WORDPRESS_PAGE, VIEW=view) for view in ("home", "checkout", "paid")}
    for view, body in views.items():
        serve_html(page, f"{SITE}/{view}", f"<html><body>{body}</body></html>")
    page.goto(f"{SITE}/home")
    page.wait_for_function("penstock.visitorId")
    assert page.evaluate("Object.keys(localStorage)") == []
    page.evaluate("localStorage.setItem('analytics', 'yes')")
    page.goto(f"{SITE}/checkout")
    expect_stored(account, "/checkout", "checkout_started")
    [cookie] = page.context.cookies()
    answers = run(_WORDPRESS_ORDER, IDS=cookie["value"]).splitlines()
    statuses = [json.loads(answer)["status"] for answer in answers]
    assert statuses == ["accepted", "duplicate"]
    expect_stored(account, "purchase")
    started, purchase = stored(account, "checkout_started"), stored(account, "purchase")
    assert purchase["properties"]["checkoutId"] == started["properties"]["checkoutId"]
    assert purchase["visitorId"] == started["visitorId"]
    page.goto(f"{SITE}/paid")
    page.wait_for_function("!localStorage.getItem('penstock.attempt.checkout')")
