# SPDX-License-Identifier: MIT
kbus-pipeline sql --tables tables --json - <<'END'
    WITH counted AS (
        SELECT name, sum(messages) FILTER (date < '2026-03-01') AS before,
            sum(messages) FILTER (date >= '2026-03-01') AS after
        FROM traffic_hour WHERE device = 'device005' GROUP BY name)
    SELECT name, before, after FROM counted
    WHERE before IS NULL OR after IS NULL ORDER BY name
END
