# SPDX-License-Identifier: MIT
kbus-pipeline sql --tables tables --csv "
    SELECT period, device, sum(count) AS lost FROM incidents_hour
    WHERE kind IN ('recorder_lost', 'recording_gap') GROUP BY ALL ORDER BY ALL"
