-- prewarm_all: pg_ringctl_prewarm_all().
--
-- Claims: it reads a table, its TOAST table and that one's index, its indexes
-- of whatever kind, and the same of every leaf of a partitioned table: each
-- once, all blocks, and no other relation; first those of one kind, of all
-- leaves, then those of the next.  Who may read the table may do that.  What
-- does not fit is counted over all parts.

CREATE TABLE things (id int PRIMARY KEY, tags int[], place point, note text, day date);
ALTER TABLE things ALTER note SET STORAGE external;
INSERT INTO things SELECT i, ARRAY[i, i % 7], point(i, i % 100), repeat('x', 3000), '2020-01-01'::date + i
  FROM generate_series(1, 300) i;
CREATE INDEX things_hash ON things USING hash (id);
CREATE INDEX things_gin ON things USING gin (tags);
CREATE INDEX things_gist ON things USING gist (place);
CREATE INDEX things_spgist ON things USING spgist (place);
CREATE INDEX things_brin ON things USING brin (day);
CREATE INDEX things_some ON things (day) WHERE id < 10;
CREATE TABLE things_heir () INHERITS (things);		-- is no part
INSERT INTO things_heir (id) VALUES (0);
SELECT reltoastrelid::regclass AS toast FROM pg_class WHERE oid = 'things'::regclass \gset
CREATE UNLOGGED TABLE unlogged AS SELECT * FROM small;
CREATE INDEX unlogged_id ON unlogged (id);
CREATE MATERIALIZED VIEW matview AS SELECT * FROM small;
CREATE INDEX matview_id ON matview (id);
CREATE TABLE empty (id int);
CREATE TABLE empty_index (id int PRIMARY KEY);
CREATE FOREIGN DATA WRAPPER regress_nothing;
CREATE SERVER regress_nowhere FOREIGN DATA WRAPPER regress_nothing;

-- three deep, a foreign table and a part without partitions in it
CREATE TABLE tree (a int, b int, c int, note text) PARTITION BY RANGE (a);
CREATE TABLE tree_1 PARTITION OF tree FOR VALUES FROM (0) TO (10) PARTITION BY LIST (b);
CREATE TABLE tree_1_1 PARTITION OF tree_1 FOR VALUES IN (1) PARTITION BY HASH (c);
CREATE TABLE tree_1_1_0 PARTITION OF tree_1_1 FOR VALUES WITH (modulus 2, remainder 0);
CREATE TABLE tree_1_1_1 PARTITION OF tree_1_1 FOR VALUES WITH (modulus 2, remainder 1);
CREATE TABLE tree_1_2 PARTITION OF tree_1 FOR VALUES IN (2);
CREATE TABLE tree_2 PARTITION OF tree FOR VALUES FROM (10) TO (20);
CREATE TABLE tree_3 PARTITION OF tree FOR VALUES FROM (20) TO (30) PARTITION BY LIST (b);
INSERT INTO tree SELECT i % 20, 1 + i % 2, i, repeat('y', 900) FROM generate_series(1, 4000) i;
CREATE INDEX tree_a ON tree (a);
CREATE FOREIGN TABLE tree_far PARTITION OF tree FOR VALUES FROM (30) TO (40) SERVER regress_nowhere;
CHECKPOINT;

-- Names without the numbers in those of TOAST tables and their schemas
CREATE FUNCTION plain(rel regclass) RETURNS text LANGUAGE sql
RETURN regexp_replace(rel::text, '(pg_toast_|temp_)[0-9]+', '\1N', 'g');

-- What was read, and whether that is right
CREATE FUNCTION all_of(rel regclass, ring_kb int, parts text[] DEFAULT '{indexes,table,toast}', workers int DEFAULT 0)
RETURNS TABLE (relation text, all_blocks boolean, all_read boolean, escapes bigint, rings int) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fresh();
    RETURN QUERY SELECT plain(p.relid), p.blocks = blocks(p.relid), p.blks_read = p.blocks,
                        p.escapes, CASE WHEN ring_kb > 0 THEN p.ring_buffers * 8 / ring_kb END
                   FROM pg_ringctl_prewarm_all(rel, ring_kb, parts, workers) p;
END $$;

SELECT * FROM all_of('things', 0);
SELECT * FROM all_of('things', 64, workers => 2);
DROP TABLE things_heir;
SELECT table_name, a.* FROM unnest('{unlogged, matview, empty, empty_index, small}'::text[]) WITH ORDINALITY t (table_name, n),
       LATERAL all_of(table_name::regclass, 0) a ORDER BY n;
SELECT * FROM all_of(:'toast', 0);
SELECT * FROM all_of('tree', 0);
SELECT * FROM all_of('tree', 64, workers => 1);
SELECT * FROM all_of('tree_1_1', 0, '{table}');
SELECT * FROM all_of('tree_3', 0);
-- a catalog
SELECT relid::regclass AS relation, blocks = blocks(relid) AS all_blocks FROM pg_ringctl_prewarm_all('pg_description', 64);
-- a ring of the size that the parameter takes, or in kB; it may be capped
SELECT ring, a.* FROM unnest('{64, 64kB, 1MB, 0}'::text[]) ring,
       LATERAL (SELECT count(*) AS relations, max(ring_buffers) AS ring_buffers FROM pg_ringctl_prewarm_all('hot', ring)) a;
SELECT max(ring_buffers) AS ring_buffers FROM pg_ringctl_prewarm_all('big', '4MB');
SELECT max(ring_buffers) AS ring_buffers FROM pg_ringctl_prewarm_all('big', 4096);

-- Everything is in shared buffers then.
SELECT fresh();
SELECT count(*) AS relations, sum(blks_hit) = 0 AS none_there FROM pg_ringctl_prewarm_all('things', parts => '{table}');
SELECT count(*) AS relations, sum(blocks) > 0 AS some FROM pg_ringctl_prewarm_all('things');
SELECT count(*) AS relations, bool_and(blks_hit = blocks) AS all_hit FROM pg_ringctl_prewarm_all('things', workers => 2);
-- Through a ring nothing but one ring a process is left of all partitions.
SELECT fresh();
SELECT sum(blocks) > 500 AS many FROM pg_ringctl_prewarm_all('tree', 64, '{table}', workers => 2);
SELECT sum(cached(relid)) <= 3 * 8 AS rings_only FROM pg_partition_tree('tree') WHERE isleaf AND relid <> 'tree_far'::regclass;
SELECT hot_survives();

-- Parts, in whatever order, and none
SELECT parts, array_agg(plain(p.relid)) AS relations
  FROM (VALUES (1, '{table}'::text[]), (2, '{toast}'), (3, '{indexes}'), (4, '{toast,table}'),
               (5, '{indexes,indexes}'), (6, '{{table,toast}}'), (7, '{}')) v (n, parts)
       LEFT JOIN LATERAL pg_ringctl_prewarm_all('things', parts => parts) p ON true
 GROUP BY n, parts ORDER BY n;

-- Workers: the sums are the same with any number of them
SELECT workers, ring_kb, count(*) AS relations,
       sum(p.blocks) = (SELECT sum(blocks(relid) + (SELECT coalesce(sum(blocks(indexrelid)), 0) FROM pg_index i WHERE i.indrelid = t.relid))
                          FROM pg_partition_tree('tree') t WHERE isleaf AND relid <> 'tree_far'::regclass) AS all_blocks,
       bool_and(p.blocks = p.blks_hit + p.blks_read) AS adds_up, sum(p.escapes) AS escapes
  FROM unnest('{0, 1, 2, 4}'::int[]) workers, unnest('{0, 64, -1}'::int[]) ring_kb,
       LATERAL pg_ringctl_prewarm_all('tree', ring_kb, '{table,indexes}', workers) p
 GROUP BY workers, ring_kb ORDER BY workers, ring_kb;
-- one scan each, and workers where there is enough for them
SELECT fresh();
SELECT count(*) FROM pg_ringctl_prewarm_all('things', 64, '{table,toast}', workers => 2);
SELECT plain(relid::regclass), scans, workers_launched, blocks > 16 AS enough FROM pg_ringctl_stats ORDER BY 1;

-- What does not fit, of all parts together
CREATE INDEX big_id ON big (id);
SELECT fresh();
SELECT plain(relid) AS relation, blocks = blocks(relid) AS all_blocks
  FROM pg_ringctl_prewarm_all('big', parts => '{table,indexes}', fit => 'warn');
SELECT plain(relid) AS relation, blocks FROM pg_ringctl_prewarm_all('big', parts => '{table,indexes}');
SELECT plain(relid) AS relation, blocks FROM pg_ringctl_prewarm_all('big');		-- the index comes first
SELECT plain(relid) AS relation, blocks = blocks(relid) AS all_blocks
  FROM pg_ringctl_prewarm_all('big', parts => '{table,indexes}', fit => 'ignore');
SELECT sum(blocks) FROM pg_ringctl_prewarm_all('big', parts => '{table,indexes}', workers => 2, fit => 'stop');
SELECT count(*) AS relations FROM pg_ringctl_prewarm_all('big', 64, fit => 'stop');
SELECT count(*) AS relations FROM pg_ringctl_prewarm_all('big', parts => '{indexes}', fit => 'stop');
-- of those that have no ring
SELECT plain(relid) AS relation, blocks = blocks(relid) AS all_blocks, ring_buffers > 0 AS ring
  FROM pg_ringctl_prewarm_all('big', -1, '{table,indexes}', fit => 'stop');
SET pg_ringctl.scan_ring = 0;
SELECT plain(relid) AS relation, blocks, ring_buffers
  FROM pg_ringctl_prewarm_all('big', -1, '{table,indexes}', fit => 'warn');
SELECT plain(relid) AS relation, blocks, ring_buffers FROM pg_ringctl_prewarm_all('big', -1, '{table,indexes}');
RESET pg_ringctl.scan_ring;
DROP INDEX big_id;

-- Temporary tables: without a ring, workers, and asking whether they fit
CREATE TEMP TABLE temporary (id int PRIMARY KEY, note text);
INSERT INTO temporary SELECT i, repeat('x', 100) FROM generate_series(1, 1000) i;
SELECT plain(relid) AS relation, blocks = blocks(relid) AS all_blocks, ring_buffers
  FROM pg_ringctl_prewarm_all('temporary', workers => 2, fit => 'stop');

-- Privileges: those of the named table
CREATE ROLE regress_ringctl_user;
GRANT SELECT ON tree TO regress_ringctl_user;
SET ROLE regress_ringctl_user;
SELECT rel, attempt(format('SELECT pg_ringctl_prewarm_all(%L, 64)', rel))
  FROM unnest('{tree, tree_1, tree_2, things, matview}'::text[]) rel;
SELECT attempt(format('SELECT pg_ringctl_prewarm_all(%L, 64)', :'toast')) LIKE '42501: %' AS denied;
SELECT sum(blocks) > 0 AS reads FROM pg_ringctl_prewarm_all('tree', 64, workers => 1);
RESET ROLE;
REVOKE SELECT ON tree FROM regress_ringctl_user;
DROP ROLE regress_ringctl_user;

-- What bad input gets
CREATE VIEW a_view AS SELECT * FROM small;
CREATE SEQUENCE numbers;
CREATE TYPE a_type AS (id int);
SELECT * FROM pg_ringctl_prewarm_all(NULL);
SELECT * FROM pg_ringctl_prewarm_all('things_pkey');
SELECT * FROM pg_ringctl_prewarm_all('small', parts => '{table,heap}');
SELECT arguments, attempt(format('SELECT * FROM pg_ringctl_prewarm_all(%s)', arguments)) AS outcome
  FROM (VALUES ('''a_view'''), ('''numbers'''), ('''tree_far'''), ('''tree_a'''), ('''a_type'''),
               ('4294967295'), ('''temporary'', 64'), ('''temporary'', -1'),
               ('''small'', 63'), ('''small'', -2'), ('''small'', 16777217'), ('''small'', NULL'), ('''small'', NULL::integer'),
               ('''small'', ''63kB'''), ('''small'', ''big'''), ('''small'', ''4 megabytes'''),
               ('''small'', parts => NULL'), ('''small'', parts => ''{NULL}'''), ('''small'', parts => ''{Table}'''),
               ('''small'', parts => ''{""}'''), ('''small'', workers => -1'), ('''small'', workers => 1025'),
               ('''small'', workers => NULL'), ('''small'', fit => NULL'), ('''small'', fit => ''no''')) v (arguments);

-- Nothing is left pinned or locked.
SELECT count(*) AS pinned FROM pg_buffercache WHERE pinning_backends > 0;
BEGIN;
SELECT count(*) FROM pg_ringctl_prewarm_all('tree', 64, workers => 2);
SELECT count(*) AS locked FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
 WHERE c.oid >= 16384 AND c.relkind IN ('r', 'p', 't', 'i', 'I') AND l.pid = pg_backend_pid();
COMMIT;

DROP FUNCTION all_of, plain;
DROP TABLE things, unlogged, empty, empty_index, tree, temporary;
DROP FOREIGN DATA WRAPPER regress_nothing CASCADE;
DROP MATERIALIZED VIEW matview;
DROP VIEW a_view;
DROP SEQUENCE numbers;
DROP TYPE a_type;
