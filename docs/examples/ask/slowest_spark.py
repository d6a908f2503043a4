# SPDX-License-Identifier: MIT
from kbus.pipeline.report.scope import Scope, Tables
from kbus.pipeline.source import session
from kbus.pipeline.tables.warehouse import Warehouse

spark = session.start("mine", "local[2]")
tables = Tables(spark, Warehouse.open("tables"), Scope())
tables["conversations"].createOrReplaceTempView("conversations")
spark.sql("""
    SELECT name, count(*) AS replies, max(latency_ns) AS longest_ns
    FROM conversations WHERE outcome = 'reply'
    GROUP BY name ORDER BY longest_ns DESC""").show()
