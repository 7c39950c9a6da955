"""Makes the columnar fixtures of the tests: python3 make_columnar.py (pyarrow 25.0.1, polars for one file).

Every Arrow type that the documentation promises to pass on, four rows each, with a null and with edge values;
`types.expected.json` holds what each value is in JSON by docs/inputs.md, written down here and not computed by rredcot.
"""
import base64
import datetime as dt
import decimal
import json
import os

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

os.chdir(os.path.dirname(os.path.abspath(__file__)))
D = decimal.Decimal
UTC = dt.timezone.utc
columns = {}
expected = {}


def add(name, type, values, json_values=None):
    columns[name] = pa.array(values, type=type)
    expected[name] = values if json_values is None else json_values


def b64(data):
    return base64.b64encode(data).decode()


text = ["", "é\u2028\U0001f600", None, "a text that is longer than the twelve bytes which a view holds itself"]
blob = [b"", b"\x00\xff", None, bytes(range(20))]
blob64 = [None if b is None else b64(b) for b in blob]

add("completion", pa.string(), ["<think>one\ntwo</think>3", "a\nb", "c", "d\ne\nf"])
add("bool", pa.bool_(), [True, False, None, True])
for bits in (8, 16, 32, 64):
    top = 2 ** (bits - 1)
    add(f"int{bits}", getattr(pa, f"int{bits}")(), [-top, top - 1, None, 0])
    add(f"uint{bits}", getattr(pa, f"uint{bits}")(), [0, 2 * top - 1, None, 7])
add("float16", pa.float16(), [0.5, -65504.0, None, 2.0**-24])
add("float32", pa.float32(), [0.5, -3.25, None, 2.0**100])
add("float64", pa.float64(), [0.1, -1e300, None, 5e-324])
add("decimal9", pa.decimal128(9, 2), [D("1.50"), D("-0.07"), None, D("1234567.89")], ["1.50", "-0.07", None, "1234567.89"])
add("decimal18", pa.decimal128(18, 0), [D(1), D(-(10**17)), None, D(0)], ["1", str(-(10**17)), None, "0"])
big = "12345678901234567890123456789.123456789"
add("decimal38", pa.decimal128(38, 9), [D("0.000000001"), D("-" + big), None, D(big)], ["0.000000001", "-" + big, None, big])
add("string", pa.string(), text)
add("large_string", pa.large_string(), text)
add("string_view", pa.string_view(), text)
add("binary", pa.binary(), blob, blob64)
add("large_binary", pa.large_binary(), blob, blob64)
add("binary_view", pa.binary_view(), blob, blob64)
add("fixed_binary", pa.binary(3), [b"abc", b"\x00\x01\x02", None, b"\xff\xff\xff"], [b64(b"abc"), "AAEC", None, "////"])
days = [dt.date(1970, 1, 1), dt.date(2026, 11, 21), None, dt.date(1900, 2, 28)]
days_json = ["1970-01-01", "2026-11-21", None, "1900-02-28"]
add("date32", pa.date32(), days, days_json)
add("date64", pa.date64(), days, days_json)
moment = dt.datetime(2026, 11, 21, 10, 47, 51)
before = dt.datetime(1969, 12, 31, 23, 59, 59)
for unit, digits in (("s", 0), ("ms", 3), ("us", 6), ("ns", 9)):
    fraction = f".{0:0{digits}d}" if digits else ""
    stamps = [moment, before, None, dt.datetime(1970, 1, 1)]
    stamps_json = [f"2026-11-21T10:47:51{fraction}", f"1969-12-31T23:59:59{fraction}", None, f"1970-01-01T00:00:00{fraction}"]
    add(f"timestamp_{unit}", pa.timestamp(unit), stamps, stamps_json)
    add(f"duration_{unit}", pa.duration(unit), [1, -1, None, 2**60], [1, -1, None, 2**60])
add("timestamp_tz", pa.timestamp("us", "Europe/Berlin"), [moment.replace(microsecond=123456, tzinfo=UTC), before.replace(microsecond=1, tzinfo=UTC), None, dt.datetime(1970, 1, 1, tzinfo=UTC)],
    ["2026-11-21T10:47:51.123456Z", "1969-12-31T23:59:59.000001Z", None, "1970-01-01T00:00:00.000000Z"])
add("time32_s", pa.time32("s"), [0, 86399, None, 3661], ["00:00:00", "23:59:59", None, "01:01:01"])
add("time32_ms", pa.time32("ms"), [0, 86399999, None, 1], ["00:00:00.000", "23:59:59.999", None, "00:00:00.001"])
add("time64_us", pa.time64("us"), [0, 86399999999, None, 1], ["00:00:00.000000", "23:59:59.999999", None, "00:00:00.000001"])
add("time64_ns", pa.time64("ns"), [0, 86399999999999, None, 1], ["00:00:00.000000000", "23:59:59.999999999", None, "00:00:00.000000001"])
add("null", pa.null(), [None, None, None, None])
add("list_int", pa.list_(pa.int64()), [[1, None, 2**60], [], None, [3]])
add("large_list", pa.large_list(pa.string()), [["a", None], [], None, ["é", "b"]])
add("fixed_list", pa.list_(pa.float32(), 2), [[0.5, None], [1.0, 2.0], None, [3.0, 4.0]])
add("list_list", pa.list_(pa.list_(pa.int32())), [[[1], None, []], [], None, [[2, 3]]])
point = pa.struct([("x", pa.int32()), ("name", pa.string()), ("deep", pa.struct([("y", pa.float64())]))])
points = [{"x": 1, "name": "p", "deep": {"y": 0.5}}, {"x": None, "name": None, "deep": None}, None, {"x": 4, "name": "", "deep": {"y": None}}]
add("struct", point, points)
add("list_struct", pa.list_(point), [[points[0], None], [], None, [points[1], points[3]]])
pairs = [[("a", 1), ("b", None)], [], None, [("c", 3)]]
add("map", pa.map_(pa.string(), pa.int32()), pairs, [p and [{"key": k, "value": v} for k, v in p] for p in pairs])
expected["map"][1] = []

plain = pa.table(columns)
plain = plain.cast(plain.schema.set(plain.schema.get_field_index("int32"), plain.schema.field("int32").with_metadata({"unit": "tokens"})))
plain = plain.replace_schema_metadata({"huggingface": '{"info": {}}'})

# what is written in another form: dictionaries plain; structs without fields, lists of null as JSON text
columns, plain_expected, expected = {}, expected, {}
columns["completion"] = plain["completion"].combine_chunks()
expected["completion"] = plain_expected["completion"]
colours = ["red", "green", None, "red"]
columns["dictionary"] = pa.array(colours).dictionary_encode()
columns["dictionary_view"] = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int32()), pa.array(["red", "green"], pa.string_view()))
expected["dictionary"] = expected["dictionary_view"] = colours
columns["list_dictionary"] = pa.ListArray.from_arrays(pa.array([0, 2, 2, None, 4], pa.int32()), pa.array(colours).dictionary_encode())
expected["list_dictionary"] = [["red", "green"], [], None, [None, "red"]]
expected["list_dictionary"] = pa.array([["red", "green"], [], None, [None, "red"]]).to_pylist()
columns["list_dictionary"] = pa.ListArray.from_arrays(pa.array([0, 2, None, 2, 4], pa.int32()), pa.array(colours).dictionary_encode())
expected["list_dictionary"] = columns["list_dictionary"].to_pylist()
columns["empty_struct"] = pa.array([{}, {}, None, {}], pa.struct([]))
expected["empty_struct"] = [{}, {}, None, {}]
columns["list_null"] = pa.array([[None], [], None, [None, None]], pa.list_(pa.null()))
expected["list_null"] = [[None], [], None, [None, None]]
columns["required"] = pa.array([1, 2, 3, 4])
expected["required"] = [1, 2, 3, 4]
odd = pa.table(list(columns.values()), schema=pa.schema([pa.field(n, c.type, n != "required") for n, c in columns.items()]))


def write(name, table, stream=False, batch=2, **options):
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(name, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=batch)


write("types.arrow", plain)
write("types.lz4.arrow", plain, compression="lz4")
write("types.zstd.arrows", plain, stream=True, batch=4, compression="zstd")
write("odd.arrow", odd, batch=4)
pq.write_table(plain, "types.parquet", row_group_size=3, compression="zstd")
pq.write_table(odd.select(["completion", "dictionary", "required"]), "odd.parquet")
# long matches and literals, over more than one 64 KB block
long = pa.table({"completion": ["".join(chr(97 + (i * i + j) % 26) for i in range(30000)) * 4 for j in range(3)]})
write("long.lz4.arrow", long, compression="lz4")
with open("types.expected.json", "w") as file:
    json.dump({"types": plain_expected, "odd": expected}, file, indent=1, ensure_ascii=False)

# types that are not read
unions = pa.UnionArray.from_dense(pa.array([0, 1, 0, 1], pa.int8()), pa.array([0, 0, 1, 1], pa.int32()), [pa.array([5, None]), pa.array(["x", "y"])])
write("union.arrow", pa.table({"completion": plain["completion"].combine_chunks(), "union_dense": unions}), batch=4)
intervals = pa.array([(1, 2, 3), (-1, 0, -(2**40)), None], pa.month_day_nano_interval())
write("interval.arrow", pa.table({"completion": ["a", "b", "c"], "interval": intervals}))
unread = {"list-view": pa.array([[1], [2, 3]], pa.list_view(pa.int32())), "run-end": pc.run_end_encode(pa.array([1, 1]))}
for name, column in unread.items():
    write(f"{name}.arrow", pa.table({"completion": ["a", "b"], "c": column}))
pq.write_table(pa.table({"completion": ["a", "b"], "c": unread["list-view"]}), "list-view.parquet")

# marks that Arrow in JavaScript has no types for
marked = pa.table({"completion": ["a", "b"], "uuid": pa.array([bytes(range(16)), None], pa.uuid()), "json": pa.array(['{"a":1}', None], pa.json_())})
pq.write_table(marked, "marked.parquet")

# what a writer says of a file, in bytes that are no text
said = {b"\xff\xfe": b"\x80\x81", b"a": b"\xc3", b"b": "é".encode()}
pq.write_table(pa.table({"completion": ["a", "b"], "x": pa.array([1, None], pa.int16())}).replace_schema_metadata(said), "said.parquet")
