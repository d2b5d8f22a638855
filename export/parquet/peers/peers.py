"""Reads tables of `acltrace export parquet` with one reader, with no option set.

    peers.py READER REQUEST

REQUEST is JSON with a folder, and with statements of SQL or files to read. The answer is JSON: for each statement its rows, for each
file its row count, column types, and the earliest and latest moment in microseconds since 1970.
"""
import json
import os
import sys


def plain(value):
    """Returns a value as JSON has it, and decimals as numbers."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return float(value)


def moments(column):
    """Returns the bounds of an Arrow column of timestamps."""
    import pyarrow as pa
    import pyarrow.compute as pc
    micros = column.cast(pa.timestamp("us", "UTC"))
    return [pc.min(micros).cast(pa.int64()).as_py(), pc.max(micros).cast(pa.int64()).as_py()] if len(column) else None


def described(table):
    """Describes an Arrow table."""
    moment = next((n for n in ("start", "from") if n in table.column_names), None)
    return {"rows": table.num_rows, "moment": str(table.schema.field(moment).type) if moment else "",
            "bounds": moments(table[moment]) if moment else None}


def pyarrow(request):
    import pyarrow.parquet as pq
    return [described(pq.read_table(f, partitioning=None)) for f in request["files"]]


def pandas(request):
    import pandas as pd
    import pyarrow as pa
    return [described(pa.Table.from_pandas(pd.read_parquet(f))) for f in request["files"]]


def polars(request):
    import polars as pl
    return [described(pl.read_parquet(f).to_arrow()) for f in request["files"]]


def duckdb(request):
    import duckdb as db
    c = db.connect()
    return [[[plain(v) for v in row] for row in c.execute(s).fetchall()] for s in request["statements"]]


def spark(request):
    from pyspark.sql import SparkSession
    s = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1").getOrCreate()
    s.sparkContext.setLogLevel("ERROR")
    return [[[plain(v) for v in row] for row in s.sql(t).collect()] for t in request["statements"]]


def clickhouse(request):
    from chdb import session
    s = session.Session()
    answers = []
    for t in request["statements"]:
        lines = str(s.query(t, "JSONCompactEachRow")).splitlines()
        answers.append([[float(v) if isinstance(v, str) and v.lstrip("-").isdigit() else v for v in json.loads(line)] for line in lines])
    s.close()
    return answers


request = json.loads(sys.argv[2])
os.chdir(request["folder"])
print(json.dumps(globals()[sys.argv[1]](request)))
