"""Use cases of providers. Methods that are no coroutines block for as long as the metadata DB takes: call them from a worker thread."""

from collections.abc import Sequence
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from anyio import to_thread
from sqlalchemy import Connection

from penstock.accounts.model import Website
from penstock.accounts.service import AccountService
from penstock.base.clock import Clock
from penstock.base.errors import Conflict, Fault, Invalid, Malformed, NotFound, Unauthorized
from penstock.base.ids import ScopeId, VisitorId, WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.events.fields import Bounds
from penstock.events.intake import Intake
from penstock.events.model import NewEvent, Receipt
from penstock.http.bodies import parse_json
from penstock.metadb.database import Database
from penstock.providers import store
from penstock.providers.events import Whom, new_event, whom
from penstock.providers.model import Configured, Delivery, NotAnEvent, Provider, ProviderEvent, SigningSecret
from penstock.providers.signatures import fits, is_signed
from penstock.providers.standard_events import standard_event
from penstock.providers.stripe_events import stripe_event
from penstock.settings import Settings

MAX_SECRETS = 5
"""Secrets of one provider that may be in force at once."""


class Taken(NamedTuple):
    """A webhook that is on disk. name: what the event is called in the warehouse."""

    name: str
    receipt: Receipt


class ProviderService:
    """Keeps signing secrets and turns signed webhooks into events."""

    def __init__(self, database: Database, accounts: AccountService, intake: Intake, settings: Settings, clock: Clock) -> None:
        self._database, self._accounts, self._intake = database, accounts, intake
        self._settings, self._clock = settings, clock

    # Settings

    def configured(self, workspace_id: WorkspaceId, website_id: str, page: Page) -> Listing[Configured]:
        """The providers that a website takes webhooks of, by name."""
        website = self._accounts.website(workspace_id, website_id)
        found = [Configured(provider, website.id, secrets) for provider, secrets in self._in_force(website).items()]
        return Listing(found[page.offset : page.offset + page.size], page, len(found))

    def set_secret(self, workspace_id: WorkspaceId, website_id: str, name: str, secret: str, previous_valid_s: int) -> Configured:
        """Make a secret the current one. previous_valid_s: how much longer, at most, the others are taken; 0 ends them now.

        The secret that is current already stays as it is. `Conflict` when too many would be in force.
        """
        website, provider = self._accounts.website(workspace_id, website_id), _known(name)
        if not fits(provider, secret):
            raise Invalid([Fault("signingSecret", "not_a_secret", "Must be base64, with whsec_ before it or not, as the sender shows it.")])
        now_ms = self._clock()
        with self._database.write() as db:
            store.drop_ended(db, website, now_ms)
            others = [kept for owner, kept in store.secrets(db, website) if owner is provider]
            same = next((kept for kept in others if kept.secret == secret), None)
            for other in others:
                if other is not same:
                    ends_ms = now_ms + previous_valid_s * 1000
                    ends_ms = ends_ms if other.valid_until_ms is None else min(ends_ms, other.valid_until_ms)
                    store.set_end(db, website, provider, other.id, ends_ms)
            if same is None:
                store.add_secret(db, website, provider, SigningSecret(new_id("sec", now_ms), secret, now_ms))
            else:
                store.set_end(db, website, provider, same.id, None)
            store.drop_ended(db, website, now_ms)
            secrets = tuple(kept for owner, kept in store.secrets(db, website) if owner is provider)
            if len(secrets) > MAX_SECRETS:
                raise Conflict(
                    f"At most {MAX_SECRETS} secrets may be in force at once; end the earlier ones with previousValidSeconds 0.",
                    code="too_many_secrets",
                )
        return Configured(provider, website.id, secrets)

    def remove(self, workspace_id: WorkspaceId, website_id: str, name: str) -> None:
        """Delete all secrets of a provider: its webhooks are refused from now on. Its events stay."""
        website, provider = self._accounts.website(workspace_id, website_id), _known(name)
        with self._database.write() as db:
            if not store.remove(db, website, provider):
                raise NotFound("This website takes no webhooks of this provider.")

    def _in_force(self, website: Website) -> dict[Provider, tuple[SigningSecret, ...]]:
        """The secrets that signatures may be made with now. One that has run out is deleted as soon as it is met."""
        now_ms = self._clock()
        with self._database.read() as db:
            found = store.secrets(db, website)
        if any(not secret.is_valid(now_ms) for _, secret in found):
            with self._database.write() as db:
                store.drop_ended(db, website, now_ms)
        valid = [(provider, secret) for provider, secret in found if secret.is_valid(now_ms)]
        return {provider: tuple(secret for _, secret in some) for provider, some in groupby(valid, key=itemgetter(0))}

    # Webhooks

    async def receive(self, name: str, website_id: str, delivery: Delivery) -> Taken:
        """Store what a provider told. `Unauthorized` for whatever is wrong with it, in the same words until the signature is right."""
        provider = next((provider for provider in Provider if provider == name), None)
        website = None if provider is None else await self._accounts.locate_website(website_id)
        if provider is None or website is None:
            raise _refused()
        secrets = (await to_thread.run_sync(self._in_force, website)).get(provider, ())
        bounds = Bounds(self._settings, self._clock())
        if not is_signed(provider, delivery, [kept.secret for kept in secrets], bounds.now_ms):
            raise _refused()
        try:
            told = _read(provider, delivery)
            named = whom(told.metadata, website, bounds)
            matched = await self._visitor_without_name(told, named, provider, website)
            event = new_event(told, provider, website, named, matched, bounds)
        except (Malformed, NotAnEvent) as error:
            raise Unauthorized(f"The signature is right, but this is no event: {error}", code="not_an_event") from None
        [receipt] = await self._intake.submit([event])
        await to_thread.run_sync(self._remember, event, receipt, _customer_keys(told, provider))
        return Taken(event.name, receipt)

    async def _visitor_without_name(self, told: ProviderEvent, named: Whom, provider: Provider, website: Website) -> str:
        """For the timeline alone: the visitor that this customer was before; failing that, one that stands for the customer."""
        keys = _customer_keys(told, provider)
        if keys and not named.is_named and not named.is_elsewhere:
            matched = await to_thread.run_sync(self._find_customer, website, keys)
            if matched is not None:
                return matched
        return f"{provider}:{told.customer_id or (keys[0].hex() if keys else told.id)}"

    def _find_customer(self, website: Website, keys: Sequence[bytes]) -> str | None:
        with self._database.read() as db:
            return store.customer(db, website.scope_id, keys)

    def _remember(self, event: NewEvent, receipt: Receipt, keys: Sequence[bytes]) -> None:
        """Write down who the customer is. Also of a repeat: the first delivery may have failed just before this."""
        if event.verified and keys and receipt.visitor_id is not None:
            with self._database.write() as db:
                store.remember_customer(db, event.scope_id, keys, receipt.visitor_id, event.occurred_at_ms)


def _known(name: str) -> Provider:
    provider = next((provider for provider in Provider if provider == name), None)
    if provider is None:
        raise NotFound(f"There is no such provider; there are {', '.join(Provider)}.")
    return provider


def _refused() -> Unauthorized:
    return Unauthorized("This is no webhook signed within the last five minutes with a secret of this website.", code="bad_signature")


def _read(provider: Provider, delivery: Delivery) -> ProviderEvent:
    body = parse_json(delivery.body)
    if provider is Provider.STRIPE:
        return stripe_event(body)
    return standard_event(body, provider, delivery.headers["webhook-id"], int(delivery.headers["webhook-timestamp"]))


def _customer_keys(told: ProviderEvent, provider: Provider) -> list[bytes]:
    """What a customer is recognised by, surest first: the provider's own ID, the e-mail address. Hashes, so that no address is kept."""
    known = [f"{provider}\0customer\0{told.customer_id}"] if told.customer_id else []
    known += [f"email\0{told.email}"] if told.email else []
    return [blake2b(key.encode(), digest_size=16).digest() for key in known]


def forget_customers(db: Connection, scope_id: ScopeId, visitor_ids: Sequence[VisitorId]) -> None:
    """Forget whose customers some visitors are, as part of the transaction that deletes them."""
    store.forget_customers(db, scope_id, visitor_ids)
