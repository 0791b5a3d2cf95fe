# SPDX-License-Identifier: Apache-2.0
"""Who reports? What was set, and what the machine says of itself where nothing was."""

from __future__ import annotations

import re
import socket
from pathlib import Path

from registry.agent.messages import Sender
from registry.collectors.boot import Boot
from registry.collectors.sysfs import DirectoryTree
from registry.config import AgentSettings
from registry.domain.errors import PartUnreadable

NODE_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}")

_INSTANCE_TYPE = re.compile(r"[a-z0-9-]{2,32}\.[a-z0-9-]{2,32}")
_EC2 = "Amazon EC2"


def who_reports(settings: AgentSettings, boot: Boot) -> Sender:
    """Say who reports. Raises PartUnreadable with a sentence for what is neither set nor known to the machine."""
    node = settings.node or socket.gethostname()
    if not NODE_NAME.fullmatch(node):
        raise PartUnreadable(f"{node!r} is no name of a node; give NODE or set PRATIQUE_AGENT_NODE")
    provider_id = settings.provider_id or boot.provider_id
    if provider_id is None:
        raise PartUnreadable("nothing here names the instance; give --provider-id or set PRATIQUE_AGENT_PROVIDER_ID")
    profile = settings.profile or read_instance_type(settings.root)
    if profile is None:
        raise PartUnreadable(
            "nothing here says what sort of node this is; give --profile or set PRATIQUE_AGENT_PROFILE"
        )
    return Sender(node, provider_id, profile, boot.boot_id, settings.zone)


def read_instance_type(root: Path) -> str | None:
    """Return the EC2 instance type, which is the name of a built-in profile; None on any other machine.

    Nitro instances carry it as the product's name:
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/identify_ec2_instances.html
    """
    tree = DirectoryTree(root)
    name = tree.text("class/dmi/id/product_name") or ""
    is_ec2 = tree.text("class/dmi/id/sys_vendor") == _EC2
    return name if is_ec2 and _INSTANCE_TYPE.fullmatch(name) else None
