"""The demo data behind pages that are looked at: the shop of `penstock demo`, and an app and a website of its workspace made for it."""

import re
from pathlib import Path

from tests.serving import Served

APP = {
    "kind": "mobile",
    "name": "Acme for tablets",
    "iosBundleId": "com.acme.tablet",
    "iosTeamId": "A1B2C3D4E5",
    "androidPackage": "com.acme.tablet",
}


class Demo:
    """A running demo with a session of its account. ids: of records that addresses need."""

    def __init__(self, folder: Path) -> None:
        self.service = Served(folder / "data", command="demo")
        self.url = self.service.url
        told = re.search(r"Login +(\S+) with the password (\S+)", self.service.output())
        assert told is not None
        self.email, self.password = told[1], told[2]
        client = self.service.client
        client.post("/api/auth/login", json={"email": self.email, "password": self.password}).raise_for_status()
        websites = {one["name"]: one["id"] for one in client.get("/api/settings/websites").json()["data"]}
        invitation = client.post("/api/settings/invitations", json={"email": "bob@example.com"}).json()
        self.ids = {
            "website": websites["Acme shop"],
            "app": client.post("/api/settings/websites", json=APP).json()["id"],
            "new": client.post("/api/settings/websites", json={"kind": "web", "name": "Blog", "domain": "blog.example.com"}).json()["id"],
            "invitation": invitation["url"].partition("=")[2],
        }
        self._live()

    def _live(self) -> None:
        """A visitor who was merged, and things that were refused."""
        client, seen = self.service.client, {"websiteId": self.ids["new"], "visitorId": "bob-on-his-phone"}
        for visitor_id in ("bob-on-his-phone", "bob-at-work"):
            told = {"websiteId": self.ids["new"], "visitorId": visitor_id, "userId": "bob", "traits": {"plan": "pro", "city": "Köln"}}
            client.post("/api/identify", json=told).raise_for_status()
        for path in ("/posts/calm", "/posts/funnels", "/newsletter"):
            client.post("/api/track", json={**seen, "type": "pageview", "path": path, "url": f"https://blog.example.com{path}"})
        told = {"plan": "pro", "tags": ["calm", "funnels"], "price": 12.5}
        client.post("/api/track", json={**seen, "type": "event", "name": "newsletter_subscribed", "properties": told}).raise_for_status()
        for wrong in ({**seen, "type": "event"}, {**seen, "type": "event", "name": "paid", "timestamp": "yesterday", "colour": "red"}):
            assert client.post("/api/track", json=wrong).status_code == 422

    @property
    def session(self) -> str:
        """The session cookie."""
        return self.service.client.cookies["service_session"]

    def close(self) -> None:
        self.service.__exit__()
