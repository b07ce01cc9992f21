"""HTTP of the association files, for phones, and of their check, for those who set up an app."""

from anyio import to_thread
from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import Caller
from penstock.http.answers import answer
from penstock.http.openapi import described
from penstock.links.association import ANDROID_FILE, APPLE_FILE, AssociationService
from penstock.links.association_schema import AndroidFile, AppleFile, AppLinksCheck

# Short, for an operator who tries things out; the platforms keep copies for hours or days as it is.
_CACHED = {"Cache-Control": "public, max-age=300"}


@get(APPLE_FILE, opt=described("Apple's association file", answers=AppleFile, open_to_all=True, tag="managed links"))
async def read_apple_file(associations: NamedDependency[AssociationService]) -> Response[bytes]:
    """The iOS apps of the whole installation that have `iosBundleId` and `iosTeamId`, and that they open `/l/*`."""
    return answer(await associations.apple_file(), headers=_CACHED)


@get(ANDROID_FILE, opt=described("Google's association file", answers=AndroidFile, open_to_all=True, tag="managed links"))
async def read_android_file(associations: NamedDependency[AssociationService]) -> Response[bytes]:
    """The Android apps of the whole installation that have `androidPackage` and `androidSha256Fingerprints`, and that they open `/l/*`."""
    return answer(await associations.android_file(), headers=_CACHED)


@get(
    "/api/settings/websites/{website_id:str}/app-links/check",
    opt=described("Check the association files for an app", answers=AppLinksCheck, tag="managed links"),
)
async def check_app_links(
    website_id: FromPath[str], caller: NamedDependency[Caller], associations: NamedDependency[AssociationService]
) -> Response[bytes]:
    """What the files say for the app, what is missing, and whether phones can use the public address, by its spelling alone."""
    return answer(await to_thread.run_sync(associations.check, caller.workspace_id, website_id))


ROUTES = (read_apple_file, read_android_file, check_app_links)
