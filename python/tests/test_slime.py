"""rredcot.slime: saved rollouts as rows."""
import os
import pathlib
import pickle
import zipfile

import pytest

import rredcot
import rredcot.slime

HERE = pathlib.Path(__file__).resolve().parent
CHAINS = HERE.parents[1] / "fixtures/chains.jsonl"


def test_rollouts_of_slime_are_rows():
    # saved by slime (commit 624b824a) of the first four bundled traces; one has a tensor, which is no row's
    rows = rredcot.slime.samples(HERE / "slime-rollout.pt")
    assert [row["group_index"] for row in rows] == [0, 0, 1, 1] and not any("rollout_top_p_token_ids" in row for row in rows)
    found, expected = rredcot.score(rows), rredcot.score(CHAINS, limit=4)
    assert found["completion_ids"].to_pylist() == expected["completion_ids"].to_pylist()
    for own, other in zip(found["logprobs"].to_pylist(), expected["logprobs"].to_pylist()):
        assert own == pytest.approx(other, abs=1e-5)


def test_a_pickle_runs_nothing(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'ran'}",)

    for said, why in (({"samples": [Evil()]}, "system"), ({"samples": [{"tokens": [1]}]}, "sample 0 has no"), ({}, "samples")):
        path = tmp_path / "0.pt"
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr("0/data.pkl", pickle.dumps(said))
        with pytest.raises(ValueError, match=why):
            rredcot.slime.samples(path)
    path.write_bytes(b"PK no zip")
    with pytest.raises(ValueError, match="0.pt: no rollouts"):
        rredcot.slime.samples(path)
    assert not (tmp_path / "ran").exists()
