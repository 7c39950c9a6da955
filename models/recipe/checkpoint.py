"""Weights on disk: safetensors written and read by hand, float32 or float16, Hugging Face names."""
import json
import struct
import numpy as np
import torch

KINDS = {"F32": "<f4", "F16": "<f2"}


def save(model, path, kind="F32", prefix="model."):
    tensors = {prefix + name: p.detach().numpy().astype(KINDS[kind]) for name, p in model.named_parameters()}
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)  # the data start on a multiple of 64
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(array.tobytes())


def load(model, path, prefix="model."):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    with torch.no_grad():
        for name, p in model.named_parameters():
            entry = header[prefix + name]
            start, end = entry["data_offsets"]
            array = np.frombuffer(data[start:end], KINDS[entry["dtype"]]).reshape(entry["shape"])
            p.copy_(torch.from_numpy(array.astype("f4")))
    return model
