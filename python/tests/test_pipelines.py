"""What distributes the work is real: Ray Data with two actors, datatrove's own executor; and CUDA's provider up to the driver."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

import rredcot


@pytest.fixture(scope="module")
def ray():
    """One cluster for the module: Ray ends a process, without a word of Python's, where another one does not come up in time."""
    os.environ["RAY_raylet_start_wait_time_s"] = "120"
    found = pytest.importorskip("ray")
    import ray.data

    found.init(num_cpus=2, include_dashboard=False, logging_level="warning", configure_logging=False)
    yield found
    found.shutdown()


def test_ray_data_scores_with_two_actors(ray, traces):
    class Told(rredcot.Scorer):
        """Says in which process a row was scored; here, since Ray's processes do not know this module."""

        def __call__(self, batch):
            import pyarrow as pa

            table = super().__call__(batch)
            return table.append_column("process", pa.array([os.getpid()] * len(table)))

    named = ["id", "group", "prompt", "completion", "completion_ids", "answer", "reward"]
    rows = ray.data.from_items([{name: row[name] for name in named} for row in traces * 4], override_num_blocks=8)
    # batches of NumPy arrays, as Ray gives them by itself; a group each
    scored = rows.map_batches(Told, fn_constructor_kwargs={"threads": 1}, batch_size=8, compute=ray.data.ActorPoolStrategy(size=2))
    found = scored.to_pandas()
    assert found["process"].nunique() == 2
    assert len(found) == 4 * len(traces)
    expected = {row["id"]: row for row in rredcot.score(traces, columns=["sigma", "baseline"]).to_pylist()}
    for name, sigma, baseline in zip(found["id"], found["sigma"], found["baseline"]):
        assert baseline == expected[name]["baseline"]
        assert list(sigma) == pytest.approx(expected[name]["sigma"], abs=1e-6)


def test_a_datatrove_pipeline_scores_its_documents(traces, folder):
    pytest.importorskip("datatrove")
    from datatrove.data import Document
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.writers import JsonlWriter

    from rredcot.datatrove import Score

    fields = ("group", "prompt", "answer", "reward")
    documents = [Document(row["completion"], row["id"], metadata={name: row[name] for name in fields}) for row in traces]
    documents.insert(3, Document("", "empty", metadata={name: traces[0][name] for name in fields}))
    step = Score(batch_size=9, max_rejects=1, threads=1)
    LocalPipelineExecutor([documents, step, JsonlWriter(str(folder / "out"), compression=None)], logging_dir=str(folder / "logs")).run()
    found = [json.loads(line) for line in (folder / "out/00000.jsonl").read_text().splitlines()]
    assert [row["id"] for row in found] == [document.id for document in documents]
    assert "empty_completion" in found[3]["metadata"]["rredcot_reject"]
    del found[3]
    expected = rredcot.score(traces[:8], columns="sigma")["sigma"].to_pylist()
    assert found[0]["metadata"]["sigma"] == pytest.approx(expected[0], abs=1e-6)
    assert all(abs(sum(row["metadata"]["sigma"]) - 1) < 1e-5 for row in found)
    [stats] = [of["stats"] for of in json.loads((folder / "logs/stats/00000.json").read_text()) if "rredcot" in of["name"]]
    assert (stats["scored"], stats["rejected"], stats["empty_completion"]) == (len(traces), 1, 1)


CUDA = "RREDCOT_CUDA_WHEELS"


@pytest.mark.skipif(CUDA not in os.environ, reason=f"{CUDA} names no site-packages where rredcot[cuda]'s packages lie (1.2 GB)")
def test_cuda_comes_as_far_as_the_driver(folder, monkeypatch):
    """Without a GPU: an empty libcuda stands for the driver, and all that lies above it is real."""
    (folder / "stub.c").write_text("void rredcot_stub(void) {}\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", "libcuda.so.1", "stub.c"], check=True)
    # nothing but the stub is found by a path: NVIDIA's libraries are loaded before they are asked for
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder), "PYTHONPATH": os.environ[CUDA]}
    command = pathlib.Path(sys.executable).parent / "rredcot"
    done = subprocess.run([command, "doctor", "--device", "cuda"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 69
    assert "CUDA failure 35" in done.stdout
    for library in ("libcublasLt.so.13", "libcublas.so.13", "libcurand.so.10", "libcudart.so.13", "libonnxruntime_providers_cuda.so"):
        assert f"{library} ok {os.environ[CUDA]}" in " ".join(done.stdout.split()), library
