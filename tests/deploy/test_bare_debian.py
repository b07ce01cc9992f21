"""From a Debian with nothing but its package manager to the demo's funnel, in each documented way.

`make test-install` runs these tests, as root and with mmdebstrap. They print the seconds from the
bare system to the installed package and to the funnel.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.demo import assert_pages_and_funnel_are_there, demo_output

ROOT = Path(__file__).parents[2]
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
APT = "apt-get update -qq && apt-get install -qq -y --no-install-recommends"
HOME = "/root"
VENV = f"{APT} python3-venv && python3 -m venv /opt/penstock"
WAYS = {
    ("trixie", "pip install"): (
        f"{VENV} && /opt/penstock/bin/pip install -q /srv/$WHEEL",
        "/opt/penstock/bin/penstock",
    ),
    ("trixie", "pipx install"): (
        f"{APT} pipx && pipx install -q /srv/$WHEEL",
        f"{HOME}/.local/bin/penstock",
    ),
    ("trixie", "uv tool install"): (
        f"{VENV} && /opt/penstock/bin/pip install -q uv"
        " && /opt/penstock/bin/uv tool install -q /srv/$WHEEL",
        f"{HOME}/.local/bin/penstock",
    ),
    ("trixie", "uvx"): (
        f"{VENV} && /opt/penstock/bin/pip install -q uv",
        "/opt/penstock/bin/uvx -q --from /srv/$WHEEL penstock",
    ),
    ("trixie", "make, from a checkout"): (
        f"{APT} make && make -C /srv/penstock .venv/.ready-run",
        "/srv/penstock/.venv/bin/penstock",
    ),
    ("bookworm", "pip install"): (
        f"{VENV} && /opt/penstock/bin/pip install -q /srv/$WHEEL",
        "/opt/penstock/bin/penstock",
    ),
}
"""Release of Debian and way -> the shell command that installs, and the one that is `penstock`."""

CLEAN = (
    "env",
    "--ignore-environment",
    "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "DEBIAN_FRONTEND=noninteractive",
    "PIP_ROOT_USER_ACTION=ignore",
    "PIP_ONLY_BINARY=:all:",
    f"PIP_CERT={CERTIFICATES}",
    f"SSL_CERT_FILE={CERTIFICATES}",
)
"""Begins a command that has nothing of this machine's environment but its CAs."""

pytestmark = [
    pytest.mark.skipif("PENSTOCK_TEST_INSTALL" not in os.environ, reason="run make test-install"),
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("mmdebstrap") is None, reason="needs root and mmdebstrap"
    ),
    pytest.mark.slow("installs everything from Debian and PyPI"),
]


@pytest.fixture(scope="module")
def wheel() -> Path:
    subprocess.run([ROOT / "scripts" / "release", "--build"], check=True)
    [built] = (ROOT / "dist").glob("penstock_server-*.whl")
    return built


@pytest.fixture
def debian(request: pytest.FixtureRequest, tmp_path: Path, wheel: Path) -> Iterator[Path]:
    """The root folder of a minimal Debian, with the wheel, a checkout and this machine's CAs."""
    root = tmp_path / "root"
    include = "--include=ca-certificates"
    command = ["mmdebstrap", "--quiet", "--variant=minbase", include, request.param, root]
    subprocess.run(command, check=True)
    shutil.copy(wheel, root / "srv")
    shutil.copy(CERTIFICATES, root / CERTIFICATES.relative_to("/"))
    shutil.copy("/etc/resolv.conf", root / "etc")
    subprocess.run(["git", "clone", "--quiet", ROOT, root / "srv" / "penstock"], check=True)
    yield root
    shutil.rmtree(root)


def inside(root: Path, command: str) -> list[str | Path]:
    """The command that runs a shell command, whose arguments may follow, in this root folder."""
    enter = """
        root=$1 command=$2; shift 2
        for name in proc dev sys; do mount --rbind /$name $root/$name; done
        exec chroot $root sh -ec "$command" sh "$@"
    """
    return ["unshare", "--mount", "sh", "-ec", enter, "sh", root, command]


@pytest.mark.parametrize(("debian", "way"), WAYS, indirect=["debian"])
def test_a_bare_debian_shows_the_funnel_of_the_demo(
    debian: Path, way: str, request: pytest.FixtureRequest, wheel: Path
) -> None:
    suite = request.node.callspec.params["debian"]
    installing, running = (command.replace("$WHEEL", wheel.name) for command in WAYS[suite, way])
    begin_s = time.monotonic()
    ran = subprocess.run(
        [*CLEAN, *inside(debian, installing)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    installed_s = time.monotonic() - begin_s
    demo = [*CLEAN, *inside(debian, f'exec {running} "$@"')]
    with demo_output(demo, debian) as shown:
        assert_pages_and_funnel_are_there(shown)
        done_s = time.monotonic() - begin_s
    print(f"\n| {suite} | {way} | {installed_s:.0f} | {done_s:.0f} |")
