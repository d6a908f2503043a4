# SPDX-License-Identifier: MIT
import duckdb

duckdb.sql("""
    SELECT name, count(*) AS replies, max(latency_ns) AS longest_ns
    FROM delta_scan('tables/conversations') WHERE outcome = 'reply'
    GROUP BY name ORDER BY longest_ns DESC""").show()
