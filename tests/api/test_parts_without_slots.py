# SPDX-License-Identifier: Apache-2.0
"""Does what a list without slots saw count?"""

from __future__ import annotations

from api.parts_together import with_gpus
from registry.domain.reports import CheckResult, CheckStatus, DeviceEntry, Inventory, Report


def test_what_a_list_without_slots_saw_of_the_same_gpu_counts() -> None:
    uuid = "GPU-aaaa0000-0000-0000-0000-000000000001"
    slotted = DeviceEntry("gpu", "nvidia", slot="0000:53:00.0", uuid=uuid)
    first = Inventory("gpu", (slotted,), (CheckResult("gpu.ecc", CheckStatus.PASS, slotted.slot),))
    bare = DeviceEntry("gpu", "nvidia", uuid=uuid)
    other = Inventory("gpu", (bare,), (CheckResult("gpu.ecc", CheckStatus.FAIL, uuid, "gpu.ecc.dbe", "2"),))
    report = Report(node="n", report_id="r", boot_id="b", provider_id="i", profile="p")
    assert CheckStatus.FAIL in {one.status for one in with_gpus(report, [first, other]).checks}
