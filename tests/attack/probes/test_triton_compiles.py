"""Every Triton kernel compiles for an H200, as it is launched, without a GPU; the interpreter does not compile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

SCRIPT = """
import json, sys
import torch, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from sfra.attack.probes import triton_kernels, triton_loops as loops
from sfra.attack.probes.weighing import BINS

TYPES = {"torch.float16": "*fp16", "torch.float32": "*fp32", "torch.float64": "*fp64", "torch.int64": "*i64",
         "torch.int32": "*i32", "torch.bool": "*i1"}

class Compiled(Exception):
    pass

def build(name, grid, *given, **fixed):
    kernel, fixed = getattr(triton_kernels, name), fixed | loops.BLOCKS[name]
    options = {"num_warps": fixed.pop("num_warps", 4)}
    own = {name: TYPES[str(one.dtype)] if isinstance(one, torch.Tensor) else "fp32" if isinstance(one, float) else
           "i32" if abs(one) < 2**31 else "i64" for name, one in zip(kernel.arg_names, given)}
    signature = own | {name: "constexpr" for name in fixed}
    constants = {(kernel.arg_names.index(name),): value for name, value in fixed.items()}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    print(json.dumps([name, len(made.asm["cubin"])]))
    raise Compiled

loops._run = build
f, i, d, n = torch.zeros, lambda *s: torch.zeros(*s, dtype=torch.int64), torch.float64, 32
calls = [
    *(lambda seed=seed: loops.normals(i(n), 0, 40, seed) for seed in (5, 2**40)),
    *(lambda seed=seed: loops.uniforms(i(n), 0, 1, seed) for seed in (5, 2**40)),
    lambda: loops.mix(f(n, 40), f(64, 16), f(40)),
    lambda: loops.ends(f(n, 40), f(40, 40), i(9), i(9)),
    lambda: loops.losers(f(n, 40), f(40, 40), i(9), i(9), f(9)),
    lambda: loops.sieve(f(n, 40), f(40, 40), f(n, dtype=d), i(4, 10), f(40, dtype=d), f(40, BINS),
                        f(40), f(40), 0.1),
    *(lambda c=c: loops.scan(0, 128, loops.prepare(f(c, 9), f(c)), 5, f(c), f(c)) for c in (10, 100, 200, 512)),
    lambda: loops.scan(2**40, 128, loops.prepare(f(10, 9), f(10)), 2**40, f(10), f(10)),
]
for call in calls:
    try:
        call()
    except Compiled:
        pass
"""


@pytest.mark.skipif(not find_spec("triton"), reason="Triton is not installed")
def test_every_kernel_compiles_for_an_h200_as_it_is_launched() -> None:
    own = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    made = subprocess.run([sys.executable, "-c", SCRIPT], env=own, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    sizes = [json.loads(line) for line in made.stdout.splitlines()]
    others = ["mix", "ends", "losers", "sieve"]
    assert [name for name, _ in sizes] == [*["normals"] * 2, *["uniforms"] * 2, *others, *["scan"] * 5]
    assert all(size > 1000 for _, size in sizes)
