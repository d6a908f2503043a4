# SPDX-License-Identifier: MIT
kbus-pipeline sql --tables tables "
    SELECT name, count(*) AS replies, max(latency_ns) AS longest_ns
    FROM conversations WHERE outcome = 'reply'
    GROUP BY name ORDER BY longest_ns DESC"
