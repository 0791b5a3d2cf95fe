# SPDX-License-Identifier: Apache-2.0
"""Which lines of a job's log say what stopped it? Small patterns, each with a page that explains it. Data only.

The first pattern that fits a line is the line's meaning, so what is said more exactly stands first. A pattern is
`PROOF` where nothing else writes such a line, `SYMPTOM` where it may follow from something worse, `WITNESS` where
it only says that somebody else is gone. Weights are per cents, as in `findings`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from registry.domain import log_sources as by
from registry.domain.failures import Cause
from registry.domain.job_failures import Grade


@dataclass(frozen=True, slots=True)
class Pattern:
    """What a line means that fits. `is_placed`: it speaks of the very node that wrote it. `source` says why."""

    text: re.Pattern[str]
    cause: Cause | None
    weight: int
    grade: Grade
    what: str
    source: str
    is_placed: bool = False


_P, _S, _W = Grade.PROOF, Grade.SYMPTOM, Grade.WITNESS
_HW, _DRV, _PLT, _USR = Cause.HARDWARE, Cause.DRIVER, Cause.PLATFORM, Cause.USER

_OWN = (
    r"Module|Import|Key|Index|Type|Value|Attribute|Name|Assertion|Syntax|ZeroDivision|NotImplemented|Indentation"
    r"|UnboundLocal|Recursion|Unicode\w+|JSONDecode|Pickling|UnidentifiedImage"
)
"""Exceptions that a program's own code raises."""

_ROWS: tuple[tuple[str, Cause | None, int, Grade, str, str, bool], ...] = (
    # --- hardware: the tools and the kernel name it themselves ---------------------------------------------------
    (
        r"uncorrectable ECC error|ECC_UNCORRECTABLE",
        *(_HW, 92, _P, "CUDA met an uncorrectable memory error", by.CUDA, True),
    ),
    # A job's word that nothing on record bears out: drivers and programs bring these about, too.
    (r"fallen off the bus|GPU is lost|GPU_IS_LOST", _HW, 55, _S, "a GPU is lost", by.NVML, True),
    (r"Unable to determine the device handle", _HW, 55, _S, "the tools find no handle of a GPU", by.NVML, True),
    (
        r"peer GPU memory over nvlink or a hardware error|NVLINK_UNCORRECTABLE|uncorrectable NVLink error",
        *(_HW, 55, _S, "a copy over NVLink failed", by.CUDA, True),
    ),
    (r"hardware stack error", _HW, 70, _P, "CUDA met a hardware stack error", by.CUDA, True),
    (r"Machine check events logged", _HW, 45, _S, "the host corrected errors", by.RAS, True),
    (
        r"mce: \[Hardware Error\]|Machine Check Exception|\[Hardware Error\]: event severity: fatal|: Fatal hardware",
        *(_HW, 88, _P, "the host reports a machine check", by.RAS, True),
    ),
    (r"EDAC .*\bUE\b|hardware memory corruption", _HW, 90, _P, "the host's memory has an error", by.RAS, True),
    (r"EDAC .*\bCE\b", _HW, 40, _S, "the host's memory corrects errors", by.RAS, True),
    (
        r"nvme\d*: I/O .*(timeout|error)|Buffer I/O error on dev|blk_update_request: .*error|critical medium error",
        *(_HW, 85, _P, "a disk of the host fails", by.RAS, True),
    ),
    (
        r"EXT4-fs error|XFS .*(shutdown|metadata I/O error)|[Rr]emounting filesystem read-only",
        *(_HW, 82, _P, "the file system of a host's own disk fails", by.RAS, True),
    ),
    (r"mlx5_\w+.*(link down|Link Down)|Link DOWN on port", _HW, 70, _P, "a link went down", by.NCCL, True),
    # --- driver ----------------------------------------------------------------------------------------------
    (
        r"[Dd]river/library version mismatch|NVRM: API mismatch",
        _DRV,
        93,
        _P,
        "driver and library are of two versions",
        by.NVML,
        True,
    ),
    (
        r"CUDA driver version is insufficient",
        *(_DRV, 85, _P, "the driver is older than the program's CUDA", by.CUDA, False),
    ),
    (
        r"waiting for RPC from GSP|GSP .*(failed|crashed)",
        *(_DRV, 88, _P, "the GPU's firmware does not answer", by.XID, True),
    ),
    (
        r"obtained ownership of the NV|Module nvidia not found|: driver not loaded|communicate with the NVIDIA driver",
        *(_DRV, 88, _P, "the driver is not loaded", by.LOADING, True),
    ),
    (r"RmInitAdapter failed", _DRV, 60, _S, "the driver could not bring a GPU up", by.XID, True),
    # --- platform: the scheduler took it, the store or the node's setup failed --------------------------------------
    (r"DUE TO NODE FAILURE|NODE_FAIL\b", _PLT, 92, _P, "the scheduler lost a node", by.SLURM, False),
    (
        r"DUE TO PREEMPTION|\b[Pp]reempted\b.*\b(job|by)\b",
        *(_PLT, 95, _P, "the scheduler took the nodes for other work", by.SLURM, False),
    ),
    (r"[Pp]rolog (hung|failed|error)|Epilog error", _PLT, 85, _P, "the node's setup for jobs failed", by.SLURM, False),
    (r"DUE TO JOB REQUEUE", _PLT, 70, _P, "the scheduler put the job back", by.SLURM, False),
    (
        r"local storage usage exceeds|exceeded its local ephemeral storage limit",
        *(_USR, 85, _P, "the job's pod used more local storage than its limit", by.EVICTION, False),
    ),
    (
        r"The node was low on resource|had condition: \[\w+Pressure\]",
        *(_PLT, 85, _P, "the pod was evicted from a node that ran short", by.EVICTION, False),
    ),
    (r"TaintManagerEviction|NodeNotReady|node is not ready", _PLT, 85, _P, "a node was not ready", by.TAINTS, False),
    (
        r"[Ss]pot .*(interrupt|reclaim|terminat)|ScheduledEvents?\b",
        *(_PLT, 92, _P, "the cloud took a machine back", by.EFA, False),
    ),
    (
        r"system not yet initialized|SYSTEM_NOT_READY|[Ff]abric ?[Mm]anager.*(not running|failed)",
        *(_PLT, 90, _P, "the fabric manager has not brought the links up", by.FABRIC, True),
    ),
    (
        r"provider efa output empty list|Couldn't find any EFA|No eligible providers",
        *(_PLT, 75, _P, "no EFA is to be seen where the job runs", by.EFA, False),
    ),
    (r"nfs: server .* not responding", _PLT, 90, _P, "a file server does not answer", by.NFS, False),
    (r"mount\.\w+: .* failed", _PLT, 80, _P, "a file system could not be mounted", by.ERRNO, False),
    (r"no NVIDIA GPU device is present|CUDA_ERROR_NO_DEVICE", _PLT, 75, _P, "the job was given no GPU", by.CUDA, False),
    (r"LustreError|evicted by .*OST", _PLT, 88, _P, "the shared file system lost a client", by.LUSTRE, False),
    (
        r"Stale file handle|Transport endpoint is not connected|transport endpoint shutdown|Remote I/O error",
        *(_PLT, 88, _P, "a mounted file system is away", by.ERRNO, False),
    ),
    (r"Disk quota exceeded", _USR, 88, _P, "the owner's quota is used up", by.ERRNO, False),
    (
        r"No space left on device.*/var/(lib|log)/",
        *(_PLT, 72, _P, "a file system of the node's own is full", by.ERRNO, False),
    ),
    # Who filled a file system, the log does not say.
    (r"No space left on device", _PLT, 50, _S, "a file system is full", by.ERRNO, False),
    (r"Errno 5\] Input/output error|\bEIO\b", _PLT, 72, _S, "a file could not be read or written", by.ERRNO, False),
    (r"Read-only file system", _PLT, 70, _S, "a file system is read-only", by.ERRNO, False),
    (
        r"SlowDown|ServiceUnavailable|InternalError\)|RESPONSE 50[023]|\b503\b.*(busy|[Uu]navailable|SlowDown)",
        *(_PLT, 85, _P, "the object store turns requests away", by.S3, False),
    ),
    (
        r"(hdfs|namenode|s3|gcs|blob|object store).*(timed out|timeout|unavailable)",
        *(_PLT, 80, _P, "the remote store does not answer", by.S3, False),
    ),
    (
        r"PytorchStreamWriter failed writing|unexpected pos \d+ vs",
        *(_PLT, 50, _S, "a checkpoint could not be written, of whatever cause", by.TORCH, False),
    ),
    (r"Temporary failure in name resolution", _PLT, 88, _P, "names cannot be resolved", by.ERRNO, False),
    (
        r"(pull image|ErrImagePull).*(timeout|Unavailable|50\d|Too Many Requests)",
        *(_PLT, 85, _P, "the image registry does not answer", by.IMAGES, False),
    ),
    (
        r"(pull image|ErrImagePull).*(NotFound|not found|manifest unknown|denied)",
        *(_USR, 85, _P, "there is no such image", by.IMAGES, False),
    ),
    # --- application -----------------------------------------------------------------------------------------
    (r"DUE TO TIME LIMIT", _USR, 92, _P, "the time that the job asked for was over", by.SLURM, False),
    # Whoever may cancel jobs writes this line: their owner, an operator, a script that tidies up.
    (r"\*\*\* (JOB|STEP) .* CANCELLED AT (?!.*DUE TO)", _USR, 40, _S, "somebody cancelled the job", by.SLURM, False),
    (
        r"CUDA out of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY",
        *(_USR, 93, _P, "the program asked for more GPU memory than there is", by.TORCH, False),
    ),
    (
        r"CONSTRAINT_MEMCG|Memory cgroup out of memory|oom[-_]kill event(s|\(s\))? in|\bOOMKilled\b",
        *(_USR, 92, _P, "the program met its own limit of memory", by.CGROUP, False),
    ),
    (r"Out of memory: Killed process", _USR, 62, _S, "the host ran out of memory", by.CGROUP, False),
    (
        r"out of shared memory|insufficient shared memory|killed by signal: Bus error",
        *(_USR, 88, _P, "the data loaders ran out of shared memory", by.DATALOADER, False),
    ),
    (
        r"DataLoader worker .*killed by signal: Killed",
        *(_USR, 75, _S, "a data loader was killed, as for want of memory", by.DATALOADER, False),
    ),
    (r"DataLoader worker .*(exited unexpectedly|killed by)", _USR, 62, _S, "a data loader died", by.DATALOADER, False),
    (
        r"(Running tokenizer|Grouping texts)(?!.*100%)|[Dd]ataset exhausted|[Dd]ata ?loader.*(stall|waited|starv)",
        *(_USR, 75, _S, "the preparation of data held the job up", by.DATALOADER, False),
    ),
    (
        r"[Ll]oss scale (reached|already at minimum)|loss is probably exploding",
        _USR,
        85,
        _P,
        "the loss diverged",
        by.AMP,
        False,
    ),
    (
        r"\b(loss|grad[ _]norm)\b.{0,12}\b(is )?(nan|inf)\b",
        *(None, 30, _S, "the loss is no number, of whatever cause", by.AMP, False),
    ),
    # A program that looks for such numbers says no more by an exception than they do.
    (r"Error: .*\b(N[aA]Ns?|nan|[Nn]on-?finite)\b", None, 30, _S, "the program met what is no number", by.AMP, False),
    (
        r"mismatch between collectives|CollectiveFingerPrint",
        *(_USR, 90, _P, "ranks called different collectives", by.C10D, False),
    ),
    (
        r"device-side assert|Assertion `.*` failed",
        *(_USR, 92, _P, "an assertion of the program's kernel failed", by.CUDA, False),
    ),
    (r"no kernel image is available", _USR, 90, _P, "the program was not built for this GPU", by.CUDA, False),
    (r"illegal memory access", _USR, 55, _S, "a kernel touched memory that is not its own", by.CUDA, False),
    # A program built wrongly does so, and one whose instructions a device spoiled.
    (r"misaligned address|illegal instruction", _USR, 55, _S, "a kernel did what the GPU refuses", by.CUDA, False),
    (r"unspecified launch failure|launch timed out", None, 30, _S, "a kernel failed on the GPU", by.CUDA, False),
    (
        r"Fatal Python error: Segmentation fault|^Segmentation fault",
        *(_USR, 65, _S, "the program touched memory that is not its own", by.PYTHON, False),
    ),
    (
        r"ExpiredToken|InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied",
        *(_USR, 85, _P, "the job's credentials are not good", by.S3, False),
    ),
    # By the job's own other half, or by what an earlier job left behind.
    (r"EADDRINUSE|[Aa]ddress already in use", _USR, 50, _S, "the port that the job wants is taken", by.ERRNO, False),
    (r"NoSuchKey|NoSuchBucket", _USR, 85, _P, "what the job wants to read is not there", by.S3, False),
    (r"PermissionError|Errno 13\]", _USR, 72, _S, "the job may not touch a file", by.ERRNO, False),
    (r"FileNotFoundError|Errno 2\]", _USR, 72, _S, "a file of the job is not there", by.ERRNO, False),
    (
        rf"\b({_OWN})(NotFound)?Error\b",
        *(_USR, 85, _P, "the program raised an exception of its own", by.PYTHON, False),
    ),
    (
        r"(shapes cannot be multiplied|size mismatch|expected scalar type|unrecognized arguments)",
        *(_USR, 85, _P, "the program's own values do not fit", by.PYTHON, False),
    ),
    # --- witnesses -------------------------------------------------------------------------------------------
    (
        r"Watchdog caught collective|collective operation timeout|NCCL operations have failed",
        *(None, 0, _W, "a collective timed out", by.C10D, False),
    ),
    (
        r"remote process exited|ncclRemoteError|[Cc]onnection (closed|reset) by|Broken pipe|Socket Timeout",
        *(None, 0, _W, "the other end went away", by.NCCL, False),
    ),
    (
        r"Got completion from peer|Got completion with error|Request completed with error",
        *(None, 0, _W, "a transfer to a peer failed", by.NCCL, False),
    ),
    (
        r"[Uu]n(responsive|reachable) (remote|receiver|peer)|UN(RESP|REACH)_REMOTE",
        *(None, 0, _W, "a peer does not answer", by.EFA_STATUS, False),
    ),
)

PATTERNS: tuple[Pattern, ...] = tuple(
    Pattern(re.compile(text), cause, weight, grade, what, source, is_placed)
    for text, cause, weight, grade, what, source, is_placed in _ROWS
)
"""Every pattern, in the order in which they are tried."""
