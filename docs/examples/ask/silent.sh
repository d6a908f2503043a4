# SPDX-License-Identifier: MIT
kbus-pipeline sql --tables tables "
    SELECT device, max(last_ts) AS last, max(max(last_ts)) OVER () - max(last_ts) AS silent_for
    FROM stretches GROUP BY device ORDER BY last"
