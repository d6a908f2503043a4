# SPDX-License-Identifier: MIT
from deltalake import DeltaTable

table = DeltaTable("tables/conversations")
replies = table.to_pandas(columns=["name", "latency_ns"], filters=[("outcome", "=", "reply")])
answer = replies.groupby("name", as_index=False).agg(
    replies=("latency_ns", "count"), longest_ns=("latency_ns", "max")
)
print(answer.sort_values("longest_ns", ascending=False).to_string(index=False))
