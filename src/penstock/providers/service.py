"""Use cases for providers. Synchronous methods block: call them from a worker thread."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter

from anyio import to_thread
from sqlalchemy import Connection

from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.model import Caller, SigningSecret, Website
from penstock.accounts.websites.service import WebsiteService
from penstock.base.clock import Clock
from penstock.base.errors import Conflict, Fault, Invalid, Malformed, NotFound, Unauthorized
from penstock.base.ids import ScopeId, VisitorId, WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.base.payment_providers import Provider
from penstock.base.value_budget import WEBHOOK
from penstock.events.fields import EventValidationContext
from penstock.events.intake import Intake
from penstock.events.model import NewEvent, Receipt
from penstock.http.bodies import compute_on, parse_json
from penstock.metadb.database import Database
from penstock.metadb.person import Person, StoredRecord
from penstock.metadb.secret_box import SecretBox
from penstock.providers import store
from penstock.providers.events import CustomerIdentity, new_event, read_customer_identity
from penstock.providers.model import (
    Delivery,
    NotAnEvent,
    ProviderConfig,
    ProviderEvent,
)
from penstock.providers.schema import WebhookRecord
from penstock.providers.signatures import is_signed
from penstock.providers.table import PROVIDERS

MAX_SECRETS = 5
"""Maximum number of valid secrets for each provider of a website."""


class ProviderService:
    """Keeps signing secrets and turns signed webhooks into events."""

    def __init__(
        self,
        database: Database,
        websites: WebsiteService,
        intake: Intake,
        box: SecretBox,
        clock: Clock,
    ) -> None:
        self._database, self._websites, self._intake = database, websites, intake
        self._box, self._clock = box, clock

    # Managing secrets

    def list_providers(
        self, workspace_id: WorkspaceId, website_id: str, page: Page
    ) -> Listing[ProviderConfig]:
        """Return the providers whose webhooks a website accepts, sorted by name."""
        website = self._websites.website(workspace_id, website_id)
        configs = [
            ProviderConfig(provider, website.id, secrets)
            for provider, secrets in self._valid_secrets(website).items()
        ]
        return Listing(configs[page.offset : page.offset + page.size], page, len(configs))

    def set_secret(
        self,
        actor: Caller,
        website_id: str,
        name: str,
        secret: str,
        previous_valid_s: int,
    ) -> ProviderConfig:
        """Set the provider's current secret. Does nothing if the secret is already current.

        previous_valid_s: maximum seconds for which the other secrets stay valid; 0 expires them at
        once. Raises `Invalid` if the secret is unusable, and `Conflict` if too many secrets would
        be valid.
        """
        provider, workspace_id = _find_provider(name), actor.workspace_id
        website = self._websites.website(workspace_id, website_id)
        if not (secret.removeprefix("whsec_") and PROVIDERS[provider].is_secret(secret)):
            message = "Must be base64, with or without whsec_ in front, as the sender shows it."
            raise Invalid([Fault("signingSecret", "not_a_secret", message)])
        now_ms = self._clock()
        with self._database.write() as db:
            store.delete_expired(db, website, now_ms)
            stored = [other for owner, other in self._secrets(db, website) if owner is provider]
            existing = next((other for other in stored if other.secret == secret), None)
            for other in stored:
                if other is not existing:
                    ends_ms = now_ms + previous_valid_s * 1000
                    if other.valid_until_ms is not None:
                        ends_ms = min(ends_ms, other.valid_until_ms)
                    store.set_valid_until(db, website, provider, other.id, ends_ms)
            if existing is None:
                current = SigningSecret(new_id("sec", now_ms), secret, now_ms)
                sealed = replace(current, secret=self._box.seal(secret))
                store.add_secret(db, website, provider, sealed)
            else:
                store.set_valid_until(db, website, provider, existing.id, None)
            store.delete_expired(db, website, now_ms)
            secrets = tuple(
                valid for owner, valid in self._secrets(db, website) if owner is provider
            )
            if len(secrets) > MAX_SECRETS:
                raise Conflict(
                    f"At most {MAX_SECRETS} secrets may be valid at once. "
                    "Revoke earlier ones with previousValidSeconds 0.",
                    code="too_many_secrets",
                )
            audit.record(
                db, actor, Action.PROVIDER_SECRET_SET, f"{website.id} {provider}", self._clock()
            )
        return ProviderConfig(provider, website.id, secrets)

    def remove(self, actor: Caller, website_id: str, name: str) -> None:
        """Delete all secrets of a provider, so that its webhooks are rejected."""
        provider = _find_provider(name)
        website = self._websites.website(actor.workspace_id, website_id)
        with self._database.write() as db:
            if not store.remove(db, website, provider):
                raise NotFound("This website has no signing secret for this provider.")
            target = f"{website.id} {provider}"
            audit.record(db, actor, Action.PROVIDER_REMOVED, target, self._clock())

    def _valid_secrets(self, website: Website) -> dict[Provider, tuple[SigningSecret, ...]]:
        """Return the valid secrets of each provider. Deletes expired secrets."""
        now_ms = self._clock()
        with self._database.read() as db:
            secrets = self._secrets(db, website)
        if any(not secret.is_valid(now_ms) for _, secret in secrets):
            with self._database.write() as db:
                store.delete_expired(db, website, now_ms)
        valid = [(provider, secret) for provider, secret in secrets if secret.is_valid(now_ms)]
        return {
            provider: tuple(secret for _, secret in group)
            for provider, group in groupby(valid, key=itemgetter(0))
        }

    def _secrets(self, db: Connection, website: Website) -> list[tuple[Provider, SigningSecret]]:
        return [
            (provider, replace(secret, secret=self._box.open(secret.secret)))
            for provider, secret in store.secrets(db, website)
        ]

    # Receiving webhooks

    async def receive(self, name: str, website_id: str, delivery: Delivery) -> WebhookRecord:
        """Store a provider's event.

        Raises `Unauthorized` for every error. Until the signature is verified, the message is
        always the same, so that strangers learn nothing about websites or secrets.
        """
        provider = next((provider for provider in PROVIDERS if provider == name), None)
        website = None if provider is None else await self._websites.find_website_async(website_id)
        if provider is None or website is None:
            raise _bad_signature()
        valid_secrets = await to_thread.run_sync(self._valid_secrets, website)
        secrets = [secret.secret for secret in valid_secrets.get(provider, ())]
        context = EventValidationContext(self._clock())
        if not is_signed(PROVIDERS[provider], delivery, secrets, context.now_ms):
            raise _bad_signature()
        try:
            sent = await compute_on(delivery.body, _parse, provider, delivery)
            customer = read_customer_identity(sent.metadata, website, context)
            fallback = await self._fallback_visitor(sent, customer, provider, website)
            event = await compute_on(
                delivery.body, new_event, sent, provider, website, customer, fallback, context
            )
        except (Invalid, Malformed, NotAnEvent) as error:
            raise Unauthorized(
                f"The signature is valid, but the body is not an event: {error}",
                code="not_an_event",
            ) from None
        receipt = await self._intake.submit_own(event)
        await to_thread.run_sync(
            self._save_customer, event, receipt, _customer_keys(sent, provider)
        )
        return WebhookRecord.from_object(receipt, event=event.name)

    async def _fallback_visitor(
        self, sent: ProviderEvent, customer: CustomerIdentity, provider: Provider, website: Website
    ) -> str:
        """Return the visitor for an event whose metadata does not identify one. It is used only in
        timelines.

        This is the visitor of the customer's earlier events if known, or else a visitor that
        represents the customer.
        """
        keys = _customer_keys(sent, provider)
        if keys and not customer.is_named and not customer.is_elsewhere:
            visitor_id = await to_thread.run_sync(self._find_customer, website, keys)
            if visitor_id is not None:
                return visitor_id
        return f"{provider}:{sent.customer_id or (keys[0].hex() if keys else sent.id)}"

    def _find_customer(self, website: Website, keys: Sequence[bytes]) -> str | None:
        with self._database.read() as db:
            return store.find_customer(db, website.scope_id, keys)

    def _save_customer(self, event: NewEvent, receipt: Receipt, keys: Sequence[bytes]) -> None:
        """Save the customer's visitor.

        Duplicates save it as well, because the first delivery may have failed before this step.
        """
        if event.verified and keys and receipt.visitor_id is not None:
            with self._database.write() as db:
                store.save_customer(
                    db, event.scope_id, keys, receipt.visitor_id, event.occurred_at_ms
                )


def _find_provider(name: str) -> Provider:
    provider = next((provider for provider in PROVIDERS if provider == name), None)
    if provider is None:
        raise NotFound(f"There is no such provider. Providers are {', '.join(PROVIDERS)}.")
    return provider


def _bad_signature() -> Unauthorized:
    return Unauthorized(
        "The webhook has no signature with a secret of this website from the last five minutes.",
        code="bad_signature",
    )


def _parse(provider: Provider, delivery: Delivery) -> ProviderEvent:
    return PROVIDERS[provider].parse(parse_json(delivery.body, WEBHOOK), delivery.headers)


def _customer_keys(sent: ProviderEvent, provider: Provider) -> list[bytes]:
    """Return the customer's keys, most reliable first: the provider's ID, then the email address.

    The keys are hashes, so that no email address is stored.
    """
    keys = [f"{provider}\0customer\0{sent.customer_id}"] if sent.customer_id else []
    keys += [f"email\0{sent.email}"] if sent.email else []
    return [blake2b(key.encode(), digest_size=16).digest() for key in keys]


def visitor_customers(db: Connection, person: Person) -> Iterator[StoredRecord]:
    """Return a person's customers at payment providers."""
    for customer in store.visitor_customers(db, person.scope_id, person.visitor_ids):
        yield "customer", customer


def forget_customers(
    db: Connection, scope_id: ScopeId, visitor_ids: Sequence[VisitorId]
) -> dict[str, int]:
    """Delete the visitors' customers. Returns the number of deleted customers.

    Runs in the transaction that deletes the visitors.
    """
    return {"providerCustomers": store.forget_customers(db, scope_id, visitor_ids)}
