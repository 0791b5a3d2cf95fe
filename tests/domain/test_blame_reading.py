# SPDX-License-Identifier: Apache-2.0
"""What do logs, signals and exit codes say of a failed job, and does anything in them hinder the reading?"""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from registry.domain.excerpts import QUOTE_LENGTH, Places, read_log
from registry.domain.failures import Cause
from registry.domain.job_failures import Grade, Retry
from registry.domain.job_signals import read_exit, read_signals
from registry.domain.log_patterns import PATTERNS
from tests.domain.blame import job, signal, verdict

HARDWARE, DRIVER, PLATFORM, USER = Cause.HARDWARE, Cause.DRIVER, Cause.PLATFORM, Cause.USER


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", HARDWARE),
        ("Unable to determine the device handle for GPU0000:18:00.0: GPU is lost.", None),
        ("kernel: mce: [Hardware Error]: CPU 4: Machine Check Exception: 5 Bank 0: be0", HARDWARE),
        ("NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", HARDWARE),
        ("NVRM: Xid (PCI:0000:18:00): 119, pid=1, name=python, Timeout waiting for RPC from GSP!", DRIVER),
        ("Failed to initialize NVML: Driver/library version mismatch", DRIVER),
        ("RuntimeError: Error 802: system not yet initialized", PLATFORM),
        ("slurmstepd: error: *** JOB 7 ON n CANCELLED AT 2026-11-29T12:00:00 DUE TO PREEMPTION ***", PLATFORM),
        ("slurmstepd: error: *** JOB 7 ON n CANCELLED AT 2026-11-29T12:00:00 DUE TO NODE FAILURE ***", PLATFORM),
        ("OSError: [Errno 116] Stale file handle: '/data'", PLATFORM),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", PLATFORM),
        ("slurmstepd: error: *** JOB 7 ON n CANCELLED AT 2026-11-29T12:00:00 DUE TO TIME LIMIT ***", USER),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", USER),
        ("Memory cgroup out of memory: Killed process 7 (python3)", USER),
        ("RuntimeError: CUDA error: device-side assert triggered", USER),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", None),
        ("NVRM: Xid (PCI:0000:18:00): 31, pid=7, name=python, Ch 00000012", None),
        ("OSError: [Errno 122] Disk quota exceeded", USER),
        ("ModuleNotFoundError: No module named 'x'", USER),
        ("FloatingPointError: Minimum loss scale reached (0.0001).", USER),
        ("torch.AcceleratorError: CUDA error: uncorrectable NVLink error detected during the execution", None),
        ("Warning  Evicted  kubelet  The node had condition: [DiskPressure].", PLATFORM),
        ("mount.lustre: mount a@o2ib:/x at /mnt/x failed: Device or resource busy", PLATFORM),
        ("failed call to cuInit: CUDA_ERROR_NO_DEVICE", PLATFORM),
        ("OSError: [Errno 98] Address already in use", None),
        ("loss is nan at step 7", None),
        ("ValueError: NaN in the gradients of step 7", None),
        ("AssertionError: rank 3: found NaN in local forward loss calculation", None),
        ("slurmstepd: error: *** JOB 7 ON n CANCELLED AT 2026-11-29T12:00:00 ***", None),
        ("OSError: [Errno 28] No space left on device: '/out/last.pt'", None),
        ("PytorchStreamWriter failed writing file data/7: file write failed", None),
        ("OSError: [Errno 28] No space left on device: '/var/lib/containerd/x'", PLATFORM),
        ("NVRM: was loaded and obtained ownership of the NVIDIA device(s).", DRIVER),
        ("modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.8.0", DRIVER),
        ("nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown", DRIVER),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", DRIVER),
        ("kernel: {1}[Hardware Error]: event severity: fatal", HARDWARE),
        ("kernel: {1}[Hardware Error]: event severity: corrected", None),
        ("Exception: Current loss scale already at minimum - cannot decrease scale anymore.", USER),
        ("PIL.UnidentifiedImageError: cannot identify image file 'a.png'", USER),
        ("[rank3]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)", None),
        ("NCCL error: remote process exited or there was a network error", None),
        ("ls: cannot access '/x': No such file or directory", None),
        ("UserWarning: ValueError may be raised in a later version", None),
        ("Running tokenizer on dataset: 100%|##########| 99/99", None),
        ("all is well", None),
    ],
)
def test_a_line_says_what_its_source_says(line: str, cause: Cause | None) -> None:
    assert verdict(job(log_excerpt=line)).cause is cause


def test_every_pattern_has_a_source_and_none_is_shadowed_by_its_own_words() -> None:
    assert all(one.source.startswith("https://") and one.what for one in PATTERNS)
    assert len({one.text.pattern for one in PATTERNS}) == len(PATTERNS)
    assert all((one.weight == 0) == (one.grade is Grade.WITNESS) for one in PATTERNS)


@pytest.mark.parametrize(
    ("line", "node"),
    [
        ("node-c: Failed to initialize NVML: Driver/library version mismatch", "node-c"),
        ("node-c kernel: NVRM: API mismatch: the client has another version", "node-c"),
        ("node-c.example.com NVRM: API mismatch: the client has another version", "node-c"),
        ("[rank17]: RuntimeError: CUDA error: uncorrectable ECC error encountered", "node-e"),
        ("Failed to initialize NVML: Driver/library version mismatch", None),
        ("Failed to initialize NVML: Driver/library version mismatch, as on node-c", None),
        ("node-c: OSError: [Errno 28] No space left on device: '/var/log/x'", None),
    ],
)
def test_a_line_is_of_the_node_that_wrote_it(line: str, node: str | None) -> None:
    told = job(log_excerpt=line, signals=(signal("step", rank=17, node="node-e"),))
    assert verdict(told).nodes == ((node,) if node else ())


def test_a_short_host_name_means_a_node_only_where_it_is_one() -> None:
    line = "n1: Failed to initialize NVML: Driver/library version mismatch"
    assert verdict(job(nodes=("n1.east", "n2.east"), log_excerpt=line)).nodes == ("n1.east",)
    assert verdict(job(nodes=("n1.east", "n1.west"), log_excerpt=line)).nodes == ()


def test_with_a_single_node_every_line_is_of_it() -> None:
    line = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
    found = verdict(job(nodes=("dgx",), log_excerpt=line))
    assert (found.nodes, found.retry) == (("dgx",), Retry.EXCLUDE_NODES)


def test_hardware_in_a_log_without_a_place_asks_a_person() -> None:
    assert verdict(job(log_excerpt="uncorrectable ECC error encountered")).retry is Retry.ASK


def test_of_one_log_the_earlier_line_counts() -> None:
    disk, own = "blk_update_request: I/O error, dev nvme0n1", "KeyError: 'x'"
    assert verdict(job(log_excerpt=f"{disk}\n{own}")).cause is HARDWARE
    assert verdict(job(log_excerpt=f"{own}\n{disk}")).cause is USER


def test_the_same_line_a_thousand_times_is_said_once() -> None:
    told = job(log_excerpt="KeyError: 'x'\n" * 5000)
    assert len(list(read_log(told, Places.of(told)))) == 1


def test_what_is_quoted_can_steer_no_terminal_and_is_bounded() -> None:
    told = job(log_excerpt=f"KeyError: \x1b[2J\u202e{'x' * 500}")
    (found,) = read_log(told, Places.of(told))
    assert found.what.split("(", 1)[1].rstrip(")").isprintable()
    assert len(found.what) < QUOTE_LENGTH + 100


@pytest.mark.parametrize(
    ("kind", "detail", "cause"),
    [
        ("xid", "79", HARDWARE),
        ("xid_79", None, HARDWARE),
        ("gpu.xid", "Xid 79: GPU has fallen off the bus", HARDWARE),
        ("xid", "NVRM: Xid (PCI:0000:18:00): 119, pid=1", DRIVER),
        ("xid", "13", None),
        ("xid", None, None),
        ("GpuLost", None, HARDWARE),
        ("ecc-error", None, HARDWARE),
        ("link_down", None, HARDWARE),
        ("driver_mismatch", None, DRIVER),
        ("preempted", None, PLATFORM),
        ("SpotInterruption", None, PLATFORM),
        ("evicted", "The node was low on resource: memory", PLATFORM),
        ("evicted", "Pod ephemeral local storage usage exceeds the total limit", USER),
        ("node_lost", None, PLATFORM),
        ("checkpoint_failed", None, None),
        ("storage_error", None, PLATFORM),
        ("checkpoint_failed", "OSError: [Errno 122] Disk quota exceeded", USER),
        ("time_limit", None, USER),
        ("cancelled", None, None),
        ("cancelled_by_user", None, USER),
        ("user_stop", None, USER),
        ("cuda_out_of_memory", None, USER),
        ("oom_killed", None, USER),
        ("data_loading_stalled", None, USER),
        ("exception", "KeyError: 'x'", USER),
        ("exception", "CUDA error: uncorrectable ECC error encountered", HARDWARE),
        ("exception", "something of our own", None),
        ("exception", "NCCL error: remote process exited", None),
        ("loss_nan", None, None),
        ("slow_rank", None, None),
        ("nccl_timeout", None, None),
        ("NCCLWatchdogTimeout", None, None),
        ("process_exited", "exit code 1", None),
        ("heartbeat_lost", None, None),
        ("something_new", None, None),
        ("", "KeyError: 'x'", USER),
    ],
)
def test_a_signal_says_what_its_kind_or_its_detail_says(kind: str, detail: str | None, cause: Cause | None) -> None:
    assert verdict(job(signals=(signal(kind, node="node-b", detail=detail),))).cause is cause


def test_a_rank_is_on_the_node_that_another_signal_names() -> None:
    told = job(signals=(signal("step", rank=9, node="node-b"), signal("gpu_lost", rank=9)))
    assert verdict(told).nodes == ("node-b",)


def test_a_signal_may_name_its_node_in_full_where_the_job_names_it_in_short_and_the_other_way_round() -> None:
    in_full = replace(job(), nodes=("node-a.lab.example", "node-b.lab.example"))
    for told, name in ((job(), "node-c.lab.example"), (in_full, "node-b")):
        lost = signal("gpu_lost", rank=3, node=name)
        found = verdict(replace(told, signals=(lost, signal("nccl_timeout", rank=3))))
        assert found.nodes == (name.partition(".")[0] if told != in_full else "node-b.lab.example",)


def test_a_rank_that_two_nodes_claim_is_on_neither() -> None:
    claims = (signal("step", rank=9, node="node-b"), signal("step", rank=9, node="node-c"))
    assert verdict(job(signals=(*claims, signal("gpu_lost", rank=9)))).nodes == ()


@pytest.mark.parametrize("code", [0, 1, 2, 75, 134, 137, 139, 143, 255])
def test_an_exit_code_alone_blames_nobody(code: int) -> None:
    found = verdict(job(exit_code=code))
    assert (found.cause, found.retry, found.nodes) == (None, Retry.ASK, ())


def test_an_exit_code_and_the_signal_it_means_are_one_thing() -> None:
    both = job(exit_code=137, signal="SIGKILL")
    assert [one.kind for one in read_exit(both)] == [one.kind for one in read_exit(job(exit_code=137))] == ["SIGKILL"]


@pytest.mark.parametrize(("code", "name"), [(-6, "SIGABRT"), (-9, "SIGKILL"), (-11, "SIGSEGV"), (139, "SIGSEGV")])
def test_the_signal_that_ended_a_process_is_read_as_python_says_it_and_as_a_shell_does(code: int, name: str) -> None:
    assert [one.kind for one in read_exit(job(exit_code=code))] == [name]


@pytest.mark.parametrize("word", ["EDAC ", "Error: ", "pull image ", "Spot ", "GSP ", "Unicode", "nvme0: I/O "])
def test_a_log_of_one_endless_line_is_read_in_passing(word: str) -> None:
    began = time.process_time()
    assert list(read_log(job(log_excerpt=word * (65_536 // len(word))), Places.of(job()))) == []
    assert time.process_time() - began < 1


def test_of_a_long_line_the_beginning_and_the_end_are_read() -> None:
    bar = "step 7/9 " * 7000
    for line in (f"torch.OutOfMemoryError: CUDA out of memory {bar}", f"{bar} KeyError: 'labels'"):
        assert verdict(job(log_excerpt=line)).cause is USER


def test_signals_of_sixteen_thousand_ranks_are_read_and_told_in_one_line() -> None:
    told = job(signals=tuple(signal("nccl_timeout", 0, rank=rank, node="node-a") for rank in range(16384)))
    assert len(list(read_signals(told, Places.of(told)))) == 16384
    assert [one.what for one in verdict(told).evidence] == [
        "somebody waited in vain, times: 16384, on nodes: 1; who waits or is cut off is a witness, not the culprit"
    ]
