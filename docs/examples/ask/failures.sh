# SPDX-License-Identifier: MIT
kbus-pipeline sql --tables tables "
    SELECT device, name, sum(requests) AS asked,
        coalesce(sum(requests) FILTER (outcome IN ('failed', 'status', 'unanswered')), 0) AS failed,
        round(100 * failed / asked, 1) AS percent
    FROM outcomes_hour WHERE outcome NOT IN ('incomplete', 'orphan')
    GROUP BY device, name ORDER BY percent DESC, device LIMIT 5"
