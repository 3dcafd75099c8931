"""Check a wheel in the environment that it alone was installed into: ``PYTHON benchmarks/installed.py WHEEL``.

Nothing but the core dependencies may be there. Prints the size of the wheel, the time to import the package and the
seconds of an audit of a head, runs the demonstration, and looks whether what needs more names the extra that brings it.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

OPTIONAL = ("altair", "onnx", "onnxruntime", "PIL", "pyarrow", "ray", "sklearn", "transformers", "vl_convert")
SFRA = [sys.executable, "-m", "sfra"]
CLASSES, WIDTH = 10, 512


def seconds(command: list[str], expected: int = 0) -> tuple[float, str]:
    """Run a command that must end with some code; return its seconds and what it printed."""
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own commands
    if done.returncode != expected:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}, not {expected}:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - began, done.stdout + done.stderr


def write_inputs() -> None:
    """Write a head, features that it knows, and files that need an extra."""
    random = np.random.default_rng(0)
    rows, labels = random.normal(size=(CLASSES, WIDTH)).astype("f4"), np.arange(2000) % CLASSES
    features = rows[labels] + random.normal(size=(2000, WIDTH)).astype("f4")
    weight, bias = rows / WIDTH, np.zeros(CLASSES, "f4")
    weight[7], bias[7] = 0.0, -3.0
    np.savez("head.npz", weight=weight, bias=bias)
    np.savez("features.npz", features=features, labels=labels)
    Path("model.onnx").write_bytes(b"onnx")
    for name in ("cat", "dog"):
        Path("images", name).mkdir(parents=True)
        Path("images", name, "one.png").write_bytes(b"png")
    Path("tables").mkdir()
    Path("tables/test.parquet").write_bytes(b"PAR1")


def main() -> None:
    """Check and measure."""
    wheel = Path(sys.argv[1])
    there = [name for name in OPTIONAL if importlib.util.find_spec(name)]
    if there:
        sys.exit(f"this environment is not empty: {', '.join(there)}")
    print(f"wheel: {wheel.name}, {wheel.stat().st_size / 1000:.0f} kB")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_inputs()
        audit = ["audit", "head.npz", "--forget", "7", "--data", "features.npz", "--out", "out"]
        first, _ = seconds([*SFRA, *audit, "--quiet"])
        bare, imported = (
            min(seconds([sys.executable, "-c", code])[0] for _ in range(5)) for code in ("", "import sfra")
        )
        again, _ = seconds([*SFRA, *audit])
        print(f"import sfra: {1000 * (imported - bare):.0f} ms")
        print(f"audit of a head ({CLASSES} classes, {WIDTH} features): {again:.1f} s; the first time {first:.1f} s")
        needs = {
            "report": ["report", "out"],
            "onnx": ["audit", "model.onnx", "--forget", "7"],
            "images": ["audit", "head.npz", "--forget", "7", "--data", "images"],
            "parquet": ["audit", "head.npz", "--forget", "7", "--data", "tables"],
            "ray": ["bench", "run", "digits-tiny", "--executor", "ray"],
        }
        for extra, command in needs.items():
            _, said = seconds([*SFRA, *command], expected=2)
            if f"pip install 'sfra[{extra}]'" not in said:
                sys.exit(f"sfra {' '.join(command)} does not name the extra {extra}:\n{said}")
        print(f"extras that are named where they are needed: {', '.join(needs)}")
        took, table = seconds([*SFRA, "demo", "--out", "demo"])
        print(f"sfra demo: {took:.0f} s\n{table}")


if __name__ == "__main__":
    main()
