# SPDX-License-Identifier: MIT
import polars

replies = polars.scan_delta("tables/conversations").filter(polars.col("outcome") == "reply")
answer = replies.group_by("name").agg(
    polars.len().alias("replies"), polars.col("latency_ns").max().alias("longest_ns")
)
print(answer.sort("longest_ns", descending=True).collect())
