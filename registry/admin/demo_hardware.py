# SPDX-License-Identifier: Apache-2.0
"""What do the machines of the demo carry, and what would their tools print? Everything here is invented.

The places are those of a p5.48xlarge: eight GPUs, and four EFA adapters on the switch before each of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from string import Template

PROFILE = "p5.48xlarge"

GPU_BUSES = (0x53, 0x64, 0x75, 0x86, 0x97, 0xA8, 0xB9, 0xCA)
EFAS_PER_GPU = 4

# The elements that a document of driver 580 has and that say something here; nvidia-smi prints many more.
_GPU = Template("""\
	<gpu id="0000$slot">
		<product_name>NVIDIA H100 80GB HBM3</product_name>
		<product_architecture>Hopper</product_architecture>
		<mig_mode>
			<current_mig>Disabled</current_mig>
			<pending_mig>Disabled</pending_mig>
		</mig_mode>
		<mig_devices>
			None
		</mig_devices>
		<serial>$serial</serial>
		<uuid>$uuid</uuid>
		<minor_number>$index</minor_number>
		<vbios_version>96.00.99.00.01</vbios_version>
		<multigpu_board>No</multigpu_board>
		<board_part_number>692-2G520-0200-000</board_part_number>
		<gpu_part_number>2330-885-A1</gpu_part_number>
		<platformInfo>
			<chassis_serial_number>N/A</chassis_serial_number>
			<module_id>$module</module_id>
		</platformInfo>
		<inforom_version>
			<img_version>G520.0200.00.05</img_version>
		</inforom_version>
		<gpu_recovery_action>None</gpu_recovery_action>
		<pci>
			<pci_bus_id>0000$slot</pci_bus_id>
		</pci>
		<ecc_mode>
			<current_ecc>Enabled</current_ecc>
			<pending_ecc>Enabled</pending_ecc>
		</ecc_mode>
		<ecc_errors>
			<volatile>
				<sram_correctable>0</sram_correctable>
				<sram_uncorrectable_parity>0</sram_uncorrectable_parity>
				<sram_uncorrectable_secded>0</sram_uncorrectable_secded>
				<dram_correctable>0</dram_correctable>
				<dram_uncorrectable>0</dram_uncorrectable>
			</volatile>
			<aggregate>
				<sram_correctable>0</sram_correctable>
				<sram_uncorrectable_parity>0</sram_uncorrectable_parity>
				<sram_uncorrectable_secded>0</sram_uncorrectable_secded>
				<dram_correctable>0</dram_correctable>
				<dram_uncorrectable>0</dram_uncorrectable>
			</aggregate>
		</ecc_errors>
		<retired_pages>
			<multiple_single_bit_retirement>
				<retired_count>N/A</retired_count>
			</multiple_single_bit_retirement>
			<double_bit_retirement>
				<retired_count>N/A</retired_count>
			</double_bit_retirement>
			<pending_retirement>N/A</pending_retirement>
		</retired_pages>
		<remapped_rows>
			<remapped_row_corr>0</remapped_row_corr>
			<remapped_row_unc>0</remapped_row_unc>
			<remapped_row_pending>No</remapped_row_pending>
			<remapped_row_failure>No</remapped_row_failure>
		</remapped_rows>
		<temperature>
			<gpu_temp>$celsius C</gpu_temp>
		</temperature>
	</gpu>
""")

_DOCUMENT = Template("""\
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">
<nvidia_smi_log>
	<timestamp>$stamp</timestamp>
	<driver_version>580.105.08</driver_version>
	<cuda_version>13.0</cuda_version>
	<attached_gpus>$count</attached_gpus>
$gpus</nvidia_smi_log>
""")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: what stays with it wherever it goes."""

    serial: str
    uuid: str


@dataclass(frozen=True, slots=True)
class Machine:
    """One instance in one boot, under a node's name. `gpus` stand in the order of their slots."""

    node: str
    provider_id: str
    boot_id: str
    number: int
    gpus: tuple[Gpu, ...]

    def slot_of(self, gpu: Gpu) -> str:
        """Give the PCI address of a GPU of this machine."""
        return _slot(GPU_BUSES[self.gpus.index(gpu)])

    def with_gpu(self, index: int, gpu: Gpu) -> Machine:
        """Give the same machine with another GPU in one slot."""
        return replace(self, gpus=(*self.gpus[:index], gpu, *self.gpus[index + 1 :]))


def make_machine(node: str, number: int) -> Machine:
    """Make the machine `number`, with hardware that no other number has, under the name `node`."""
    return Machine(
        node=node,
        provider_id=f"aws:///us-east-1a/i-0de{number:014x}",
        boot_id=f"00000000-0000-4000-8000-{number:012x}",
        number=number,
        gpus=tuple(_gpu(number, index) for index in range(len(GPU_BUSES))),
    )


def print_gpus(machine: Machine, at: datetime) -> str:
    """Print what `nvidia-smi -q -x` would print on this machine at that time."""
    gpus = "".join(
        _GPU.substitute(
            slot=_slot(bus), serial=gpu.serial, uuid=gpu.uuid, index=index, module=index + 1, celsius=31 + index
        )
        for index, (bus, gpu) in enumerate(zip(GPU_BUSES, machine.gpus, strict=True))
    )
    return _DOCUMENT.substitute(stamp=at.strftime("%a %b %d %H:%M:%S %Y"), count=len(machine.gpus), gpus=gpus)


def list_efas(machine: Machine) -> list[dict[str, str]]:
    """List the EFA adapters of this machine as a report has them: by place and by the address of their interface."""
    buses = [bus - EFAS_PER_GPU + index for bus in GPU_BUSES for index in range(EFAS_PER_GPU)]
    return [
        {
            "kind": "efa",
            "vendor": "amazon",
            "slot": _slot(bus),
            "name": f"rdmap{bus}s0",
            "mac": f"02:de:00:00:{machine.number:02x}:{index:02x}",
        }
        for index, bus in enumerate(buses)
    ]


def _gpu(number: int, index: int) -> Gpu:
    # Thirteen digits, as the boards of a p5 have them.
    return Gpu(serial=f"16549{number:04d}{index:04d}", uuid=f"GPU-de500000-0000-4000-8000-{number:04x}{index:08x}")


def _slot(bus: int) -> str:
    return f"0000:{bus:02x}:00.0"
