import sys, types, time
try:
    import numba; print("numba", numba.__version__)
except ImportError:
    stub = types.ModuleType("numba"); stub.njit = lambda *a, **k: (a[0] if a and callable(a[0]) else (lambda f: f)); sys.modules["numba"] = stub; print("numba stubbed")
    stub.prange = range
sys.path.insert(0, "src"); sys.path.insert(0, "benchmarks")
import torch
pkg = types.ModuleType("sfra"); pkg.__path__ = ["src/sfra"]; sys.modules["sfra"] = pkg
import sfra.adam as A
from sfra.head import Head
R = __import__("sfra.relearn", fromlist=["x"])
from types import SimpleNamespace as N
print(torch.__version__, torch.cuda.get_device_name())
def case(C, d, P, s):
    g = torch.Generator().manual_seed(s)
    return Head(torch.randn(C, d, generator=g) * .1, torch.randn(C, generator=g)), N(samples=torch.randn(P, d, generator=g), labels=torch.randint(0, C, (P,), generator=g))
def plain(h, p, E, seed, B, dt=torch.float64):
    w = torch.nn.Parameter(h.weight.to(dt)); b = torch.nn.Parameter(h.bias.to(dt)); o = torch.optim.Adam([w, b], lr=1e-2, weight_decay=1e-4)
    g = torch.Generator().manual_seed(seed); x = p.samples.to(dt); out = []; L = []
    for _ in range(E):
        perm = torch.randperm(len(x), generator=g); t = 0.
        for i in range(0, len(x), B):
            r = perm[i:i+B]; l = torch.nn.functional.cross_entropy(x[r] @ w.T + b, p.labels[r]); o.zero_grad(); l.backward(); o.step(); t += l.item() * len(r)
        out.append(w.detach().clone()); L.append(t / len(x))
    return torch.stack(out), torch.tensor(L, dtype=torch.float64)
# correctness: graph path against float64 loop, per head, mixed shapes
cs = [case(10, 64, 1000, s) for s in range(3)] + [case(5, 17, 300, 9)]
ts = R.relearn_many([h for h, _ in cs], [p for _, p in cs], epochs=12, seeds=[0, 1, 1, 4], device="cuda")
for (h, p), s, t in zip(cs, [0, 1, 1, 4], ts):
    w, l = plain(h, p, 12, s, 256); w32, l32 = plain(h, p, 12, s, 256, torch.float32)
    a = R.relearn(h, p, epochs=12, seed=s, device="cuda")
    print("err vs f64", float((t.weights[1:].double() - w).abs().max()), "f32 loop", float((w32.double() - w).abs().max()), "loss", float((t.losses[1:].double() - l).abs().max()), "many==alone", torch.equal(a.weights, t.weights), float((a.weights - t.weights).abs().max()))
b1, b2 = (R.relearn(*cs[0], epochs=12, device="cuda") for _ in range(2)); print("repeat identical", torch.equal(b1.weights, b2.weights))
def tm(f, n=3):
    f(); best = 9e9
    for _ in range(n):
        torch.cuda.synchronize(); t0 = time.perf_counter(); f(); torch.cuda.synchronize(); best = min(best, time.perf_counter() - t0)
    return best
for C, d, P in ((10, 512, 9000), (100, 512, 19800)):
    cs = []
    for s in range(64):
        h, p = case(C, d, P, s); cs.append((h, N(samples=p.samples.cuda(), labels=p.labels.cuda())))
    for K in (1, 8, 64):
        hs, ps = [h for h, _ in cs[:K]], [p for _, p in cs[:K]]
        print(C, d, P, "K", K, "graph, 3 seeds", round(tm(lambda: R.relearn_many(hs, ps, epochs=100, seeds=[i % 3 for i in range(K)])), 4),
              "record last", round(tm(lambda: R.relearn_many(hs, ps, epochs=100, seeds=[i % 3 for i in range(K)], record="last")), 4),
              "all seeds", round(tm(lambda: R.relearn_many(hs, ps, epochs=100, seeds=list(range(K))), 1), 4), flush=True)
    cap = A.BatchedEngine._capture; A.BatchedEngine._capture = lambda self: self._steps
    print("eager K=1", tm(lambda: R.relearn(*cs[0], epochs=100), 1), flush=True); A.BatchedEngine._capture = cap
h, p = case(21841, 768, 50000, 0); p = N(samples=p.samples.cuda(), labels=p.labels.cuda())
torch.cuda.reset_peak_memory_stats()
t0 = time.perf_counter(); t = R.relearn(h, p, epochs=5, record="last"); print("C=21841 P=50000 5 epochs", time.perf_counter() - t0, t.losses.tolist(), torch.cuda.max_memory_allocated() / 2**30)
import subprocess
