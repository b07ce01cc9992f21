"""The demo data behind pages that are looked at: the shop of `penstock demo`, and some records made for it."""

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

GOAL = {
    "name": "Paid",
    "match": {
        "type": "Transaction",
        "value": "purchase",
        "filters": [{"property": "plan", "operator": "in", "value": '["plus", "business"]'}],
    },
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
        funnels = {one["name"]: one["id"] for one in client.get("/api/funnels").json()["data"]}
        self.ids = {
            "funnel": funnels["Checkout"],
            "goal": client.post("/api/goals", json=GOAL).json()["id"],
            "link": client.get("/api/mobile/deferred-links", params={"search": "spring-sale"}).json()["data"][0]["id"],
            "website": websites["Acme shop"],
            "app": client.post("/api/settings/websites", json=APP).json()["id"],
            **self._report(),
            "new": client.post("/api/settings/websites", json={"kind": "web", "name": "Blog", "domain": "blog.example.com"}).json()["id"],
        }

    def _report(self) -> dict[str, str]:
        """The checkout funnel, and an attempt of it with a skipped event."""
        funnels = {one["name"]: one["id"] for one in self.service.client.get("/api/funnels").json()["data"]}
        funnel = funnels["Checkout"]
        skipped = self.service.client.get(f"/api/funnels/{funnel}/units", params={"quality": "sequenceSkip"}).json()["data"]
        return {"funnel": funnel, "unit": skipped[0]["unit"]}

    @property
    def session(self) -> str:
        """The session cookie."""
        return self.service.client.cookies["service_session"]

    def close(self) -> None:
        self.service.__exit__()
