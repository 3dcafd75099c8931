"""Several processes on one GPU."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile


def share_gpu() -> None:
    """Start NVIDIA's multi-process service, if it is there and not running yet: without it they take turns."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None or "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
        return
    folder = tempfile.mkdtemp(prefix="mps-")
    os.environ |= {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
    if subprocess.run([control, "-d"], check=False).returncode != 0:  # noqa: S603 - as the PATH has it
        del os.environ["CUDA_MPS_PIPE_DIRECTORY"], os.environ["CUDA_MPS_LOG_DIRECTORY"]
