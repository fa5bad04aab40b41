"""What the figures were measured on: recorded whole, hashed to a short id; load and commit are of the run, not the machine."""

import hashlib
import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import torch
from cpuinfo import get_cpu_info
from threadpoolctl import threadpool_info

import relpos

GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
CONTAINERS = (Path("/.dockerenv"), Path("/run/.containerenv"))


def machine(device: str = "cpu") -> dict[str, Any]:
    """Everything that makes figures comparable: processor, cores, threads, memory, libraries, GPU."""
    info = get_cpu_info()
    return {
        "processor": info.get("brand_raw", platform.processor() or platform.machine()),
        "architecture": platform.machine(),
        "flags": sorted(flag for flag in info.get("flags", []) if flag.startswith(("avx", "amx", "sve", "neon", "asimd"))),
        "cores": psutil.cpu_count(logical=False) or os.cpu_count(),
        "affinity": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "governor": GOVERNOR.read_text(encoding="utf-8").strip() if GOVERNOR.exists() else "unknown",
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "threads": torch.get_num_threads(),
        "blas": _blas(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "container": any(path.exists() for path in CONTAINERS),
        **({"gpu": _gpu()} if device.startswith("cuda") else {}),
    }


def machine_id(record: dict[str, Any]) -> str:
    """Eight letters that stand for a machine in file names, rows and footers."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:8]


def run_facts() -> dict[str, Any]:
    """What holds for one run: version, commit, whether the tree was changed, how busy the machine was."""
    here = Path(__file__).parent
    commit = _git(here, "rev-parse", "--short=12", "HEAD")
    return {
        "version": relpos.__version__,
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit or "none",
        "dirty": bool(_git(here, "status", "--porcelain", "--untracked-files=no")),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0,
    }


def _blas() -> str:
    found = {f"{one.get('internal_api', '?')} {one.get('version') or ''}".strip() for one in threadpool_info()}
    built = torch.__config__.show()
    found |= {name for name in ("MKL-DNN", "OpenBLAS") if name in built}
    return ", ".join(sorted(found)) or "unknown"


def _gpu() -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(0)
    return {
        "name": properties.name,
        "memory_gib": round(properties.total_memory / 2**30),
        "capability": f"sm_{properties.major}{properties.minor}",
        "cuda": torch.version.cuda,
    }


def _git(folder: Path, *words: str) -> str:
    try:
        found = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""
