"""golden.py -- what gguf-py and ggml make of some numbers: writes spec/io/golden.gguf

    python spec/io/golden.py          wants gguf and llama-cpp-python

The file has a tensor of each type of blocks, of random bytes, and beside it what
gguf-py unpacks it to ("Q4_0", "Q4_0.f32"); numbers x, and the bytes that gguf-py, for the
types it does not pack llama.cpp's library, packs them to ("x.Q8_0", as I8); and metadata
of every type.

SPDX-License-Identifier: MIT
"""
import ctypes
import glob
import os
import sys

import gguf
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize

READ = "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 IQ4_NL MXFP4 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_XS".split()
WRITTEN = "BF16 F16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1".split()
BY_GGML = "Q4_K Q5_K Q6_K".split()


def random_blocks(rng, kind):
    """A row of blocks whose scales are finite."""
    numbers, size = GGML_QUANT_SIZES[kind]
    while True:
        row = rng.integers(0, 256, size=(1, max(1, 64 // numbers) * size), dtype=np.uint8)
        with np.errstate(all="ignore"):
            if np.isfinite(dequantize(row, kind)).all():
                return row


def find_ggml():
    """GGML_BASE says where the library is, or llama-cpp-python has it."""
    if "GGML_BASE" in os.environ:
        return os.environ["GGML_BASE"]
    import llama_cpp

    folder = os.path.join(os.path.dirname(llama_cpp.__file__), "lib")
    return glob.glob(folder + "/libggml-base.so*")[0]


def ggml_quantize(x, kind):
    """By llama.cpp's library."""
    library = ctypes.CDLL(find_ggml())
    call = library.ggml_quantize_chunk
    call.restype = ctypes.c_size_t
    call.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64,
                     ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    numbers, size = GGML_QUANT_SIZES[kind]
    out = np.zeros(x.size // numbers * size, dtype=np.uint8)
    call(int(kind), x.ctypes.data, out.ctypes.data, 0, 1, x.size, None)
    return out


def main():
    rng = np.random.default_rng(7)
    path = sys.argv[1] if len(sys.argv) > 1 else "spec/io/golden.gguf"
    w = gguf.GGUFWriter(path, "golden")
    for name, value in dict(u8=200, i8=-3, u16=60000, i16=-30000, u32=4000000000,
                            i32=-2000000000, u64=1 << 60, i64=-(1 << 60)).items():
        t = gguf.GGUFValueType[dict(u="UINT", i="INT")[name[0]] + name[1:]]
        w.add_key_value("golden." + name, value, t)
    w.add_float32("golden.f32", 0.5)
    w.add_float64("golden.f64", 0.1)
    w.add_bool("golden.bool", True)
    w.add_string("golden.string", "h\u00e9llo")
    w.add_array("golden.strings", ["a", "", "\u4e16"])
    w.add_array("golden.integers", [1, -2, 3])
    w.add_array("golden.floats", [0.5, -1.5])
    w.add_array("golden.bools", [True, False])
    for name in READ:
        row = random_blocks(rng, Type[name])
        w.add_tensor(name, row, raw_dtype=Type[name])
        w.add_tensor(name + ".f32", dequantize(row, Type[name]))
    x = rng.standard_normal((2, 256)).astype(np.float32)
    x[1] *= 0.02
    x[1, :32] = np.round(x[1, :32] * 64) / 64
    w.add_tensor("x", x)
    for name in WRITTEN:
        w.add_tensor("x." + name, quantize(x, Type[name]).view(np.int8))
    for name in BY_GGML:
        w.add_tensor("x." + name, ggml_quantize(x, Type[name]).view(np.int8))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


main()
