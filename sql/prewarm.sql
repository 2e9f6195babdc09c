-- prewarm: pg_ringctl_prewarm().
--
-- Claims: it reads every block of everything that has storage, in every mode,
-- fork and range, and says so: blocks = blks_hit + blks_read.  Through a ring
-- it leaves no more than the ring and the hot table survives; without one it
-- leaves everything.  Whatever is wrong is refused with its SQLSTATE.

CREATE TABLE things (id int PRIMARY KEY, note text);
ALTER TABLE things ALTER note SET STORAGE external;
INSERT INTO things SELECT i, repeat('x', 3000) FROM generate_series(1, 200) i;
INSERT INTO things SELECT i, 'short' FROM generate_series(201, 4000) i;
VACUUM things;
SELECT reltoastrelid::regclass AS toast FROM pg_class WHERE oid = 'things'::regclass \gset
CREATE SEQUENCE numbers;
CREATE MATERIALIZED VIEW matview AS SELECT * FROM small;
CREATE UNLOGGED TABLE unlogged AS SELECT * FROM small;
CREATE TABLE empty (id int);
CREATE INDEX empty_id ON empty (id);
CREATE INDEX big_id ON big (id);
CHECKPOINT;

--
-- Whatever has storage, with rings of all sizes
--
CREATE FUNCTION prewarm(rel regclass, ring_kb int)
RETURNS TABLE (all_blocks boolean, all_read boolean, ring int, hot boolean, left_as_meant boolean,
               reuses boolean, escapes bigint, elapsed boolean) LANGUAGE plpgsql AS $$
DECLARE
    r record;
BEGIN
    PERFORM fresh();
    SELECT * INTO r FROM pg_ringctl_prewarm(rel, ring_kb, fit => 'ignore');
    RETURN QUERY SELECT r.blocks = blocks(rel), r.blks_read = r.blocks AND r.blks_hit = 0,
                        CASE WHEN ring_kb < 0 THEN sign(r.ring_buffers)::int
                             ELSE r.ring_buffers * current_setting('block_size')::int / 1024 END,
                        CASE WHEN ring_kb <> 0 THEN hot_survives() END,
                        CASE WHEN r.ring_buffers > 0 THEN cached(rel) <= r.ring_buffers
                             ELSE cached(rel) = r.blocks OR r.blocks > 2048 AND cached(rel) > 0.3 * r.blocks END,
                        r.reuses > 0, r.escapes, r.elapsed_time >= 0;
END $$;
SELECT what, ring_kb, p.*
  FROM unnest('{big, small, things, things_pkey, numbers, matview, unlogged, empty, empty_id}'::text[])
         WITH ORDINALITY w (what, n),
       unnest('{0, -1, 64, 128}'::int[]) ring_kb,
       LATERAL prewarm(what::regclass, ring_kb) p
 ORDER BY n, ring_kb;
SELECT ring_kb, p.* FROM unnest('{0, -1, 64}'::int[]) ring_kb, LATERAL prewarm(:'toast', ring_kb) p;
-- a catalog has storage, too
SELECT blocks = blocks('pg_class') AS all_blocks, blocks = blks_hit + blks_read AS adds_up
  FROM pg_ringctl_prewarm('pg_class', 64);

-- Without a ring it fills shared_buffers.
SELECT fresh();
SELECT blocks = blks_read AS all_read, ring_buffers, reuses, escapes FROM pg_ringctl_prewarm('small');
SELECT cached('small') = blocks('small') AS all_there;
SELECT blocks = blks_hit AS all_hit, blks_read FROM pg_ringctl_prewarm('small');
SELECT blocks = blks_read AS all_read FROM pg_ringctl_prewarm('big', fit => 'warn');
SELECT hot_is_lost();

-- -1 is the ring of a sequential scan, with its parameters
CREATE FUNCTION ring_as_scan(rel regclass, scan_ring text, threshold text DEFAULT '-1')
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    r record;
BEGIN
    PERFORM set_config('pg_ringctl.scan_ring', scan_ring, true),
            set_config('pg_ringctl.scan_threshold', threshold, true), fresh();
    EXECUTE format('SELECT count(v) FROM %s', rel);
    SELECT * INTO r FROM pg_ringctl_prewarm(rel, -1, fit => 'ignore');
    RETURN r.ring_buffers = coalesce((SELECT ring_buffers FROM stats(rel)), 0);
END $$;
SELECT ring, ring_as_scan('big', ring) AS big, ring_as_scan('small', ring) AS small,
       ring_as_scan('small', ring, '0') AS small_ringed
  FROM unnest('{-1, 0, 64kB, 1MB, 4MB}'::text[]) ring;

-- The size of a ring is given as the parameter takes it, or as a number of kB.
SELECT ring, p.ring_buffers * current_setting('block_size')::int / 1024 AS ring_kb
  FROM unnest('{64, 64kB, 65536B, 1MB, 0.5MB, 1 MB, 0.001GB, 0}'::text[]) ring, LATERAL pg_ringctl_prewarm('big', ring, fit => 'ignore') p;
SELECT (pg_ringctl_prewarm('big', '-1')).ring_buffers = (pg_ringctl_prewarm('big', -1)).ring_buffers AS same;

-- The caps of a ring hold here as well, which a user is told.
SELECT ring_buffers = 2048 / 8 AS capped FROM pg_ringctl_prewarm('big', 4096);
SELECT ring_buffers = 2048 / 8 AS capped FROM pg_ringctl_prewarm('big', 16777216);
SET pg_ringctl.max_ring = '512kB';
SELECT ring_buffers * current_setting('block_size')::int / 1024 AS ring_kb FROM pg_ringctl_prewarm('big', 2048);
SET pg_ringctl.max_ring = '4MB';
SELECT ring_buffers * current_setting('block_size')::int / 1024 AS ring_kb FROM pg_ringctl_prewarm('big', 4096);
SELECT ring_buffers * current_setting('block_size')::int / 1024 AS ring_kb FROM pg_ringctl_prewarm('big', '4MB');
SET pg_ringctl.max_ring = '16MB';
SELECT ring_buffers * current_setting('block_size')::int / 1024 AS ring_kb FROM pg_ringctl_prewarm('big', '16MB');
-- but not if it needs no more
SELECT ring_buffers FROM pg_ringctl_prewarm('small', '16MB');
SELECT ring_buffers FROM pg_ringctl_prewarm('big', '16MB', first_block => 10, last_block => 20);
RESET pg_ringctl.max_ring;
-- pg_ringctl.mode does not touch it.
SET pg_ringctl.mode = off;
SELECT ring_buffers * current_setting('block_size')::int / 1024 AS ring_kb,
       reuses > 0 AS reuses, escapes FROM pg_ringctl_prewarm('big', 64);
SET pg_ringctl.mode = observe;
SELECT ring_buffers * current_setting('block_size')::int / 1024 AS ring_kb,
       reuses > 0 AS reuses, escapes FROM pg_ringctl_prewarm('big', 64);
RESET pg_ringctl.mode;

-- It looks ahead as maintenance does, not as a scan; in a new session, because
-- this one has lent a large ring.
\c -
SET io_combine_limit = 1;
SET effective_io_concurrency = 1000;
SET maintenance_io_concurrency = 0;
SELECT fresh();
SELECT blocks = blks_read AS all_read, ring_buffers <= 8 AS looks_at_the_next FROM pg_ringctl_prewarm('big', -1);
RESET ALL;

--
-- Modes: read and prefetch leave shared_buffers alone
--
SELECT fresh();
SELECT mode, p.blocks = blocks('big') AS all_blocks, p.blks_hit, p.blks_read, p.ring_buffers,
       p.reuses, p.escapes, p.elapsed_time >= 0 AS elapsed, cached('big')
  FROM unnest('{read, prefetch}'::text[]) mode,
       LATERAL pg_ringctl_prewarm('big', 0, mode) p;
SELECT blocks FROM pg_ringctl_prewarm('empty', 0, 'read');

--
-- Forks and ranges
--
SELECT fork, p.blocks = pg_relation_size('big', fork) / current_setting('block_size')::int AS all_blocks,
       p.blocks > 0 AS some, p.blocks = p.blks_hit + p.blks_read AS adds_up
  FROM unnest('{main, fsm, vm}'::text[]) fork, LATERAL pg_ringctl_prewarm('big', 64, 'buffer', fork) p;
SELECT fork, p.blocks > 0 AS some, p.blocks = p.blks_hit + p.blks_read AS adds_up
  FROM unnest('{main, init}'::text[]) fork,
       LATERAL pg_ringctl_prewarm('unlogged', 0, 'buffer', fork) p;
SELECT blocks('unlogged') > 0 AS some;
SELECT first, last, p.blocks, p.blocks = p.blks_hit + p.blks_read AS adds_up
  FROM (VALUES (0, 0), (10, 19), (19, 19), (NULL, 4), (15, NULL), (NULL, NULL)) r (first, last),
       LATERAL pg_ringctl_prewarm('small', 64, first_block => first, last_block => last) p;
SELECT mode, p.blocks FROM unnest('{read, prefetch, buffer}'::text[]) mode,
       LATERAL pg_ringctl_prewarm('small', 0, mode, 'main', 3, 7) p;
-- These blocks it is, and no others.
SELECT fresh();
SELECT blocks FROM pg_ringctl_prewarm('small', first_block => 3, last_block => 7);
SELECT array_agg(relblocknumber ORDER BY relblocknumber) FROM pg_buffercache
 WHERE relfilenode = pg_relation_filenode('small') AND relforknumber = 0;
-- named arguments and defaults
SELECT blocks = blocks('small') AS all_blocks, ring_buffers FROM pg_ringctl_prewarm(relation => 'small');

-- In a transaction that writes, and after a failure in it
BEGIN;
INSERT INTO empty VALUES (1);
SELECT blocks FROM pg_ringctl_prewarm('empty', 64);
SAVEPOINT s;
SELECT blocks FROM pg_ringctl_prewarm('empty', 63);
ROLLBACK TO s;
SELECT blocks FROM pg_ringctl_prewarm('empty', 64);
ROLLBACK;
TRUNCATE empty;

--
-- What bad input gets
--
CREATE VIEW a_view AS SELECT * FROM small;
CREATE TABLE parted (id int) PARTITION BY RANGE (id);
CREATE INDEX parted_id ON parted (id);
CREATE FOREIGN DATA WRAPPER regress_nothing;
CREATE SERVER regress_nowhere FOREIGN DATA WRAPPER regress_nothing;
CREATE FOREIGN TABLE far (id int) SERVER regress_nowhere;
CREATE TYPE a_type AS (id int);
CREATE TEMP TABLE temporary AS SELECT * FROM small;

SELECT pg_ringctl_prewarm(NULL) IS NULL AS null_relation, pg_ringctl_prewarm(NULL, NULL, NULL) IS NULL;
SELECT arguments, attempt(format('SELECT * FROM pg_ringctl_prewarm(%s)', arguments)) AS outcome
  FROM (VALUES
        -- the ring
        ('''small'', -2'), ('''small'', 1'), ('''small'', 63'), ('''small'', 16777217'),
        ('''small'', -2147483648'), ('''small'', 2147483647'),
        ('''small'', 3000000000'), ('''small'', -3000000000'), ('''small'', 64::smallint'), ('''small'', 64::bigint'),
        ('''small'', ''0.2kB'''), ('''small'', ''0.4'''), ('''small'', ''99999999999'''),
        ('''small'', ''63'''), ('''small'', ''63kB'''), ('''small'', ''17GB'''), ('''small'', ''-2'''),
        ('''small'', '''''), ('''small'', ''big'''), ('''small'', ''4 megabytes'''), ('''small'', ''1min'''), ('''small'', ''20TB'''),
        ('''small'', NULL'), ('''small'', NULL::text'), ('''small'', NULL::integer'),
        ('''small'', 64, NULL'), ('''small'', 64, ''buffer'', NULL'),
        -- the mode
        ('''small'', 0, ''x'''), ('''small'', 0, '''''), ('''small'', 0, ''BUFFER'''),
        ('''small'', 64, ''read'''), ('''small'', -1, ''prefetch'''),
        -- the fork
        ('''small'', 0, ''buffer'', ''x'''), ('''small'', 0, ''buffer'', ''init'''),
        ('''empty'', 0, ''read'', ''vm'''),
        -- the range
        ('''small'', 0, ''buffer'', ''main'', -1'), ('''small'', 0, ''buffer'', ''main'', 20'),
        ('''small'', 0, ''buffer'', ''main'', 0, 20'), ('''small'', 0, ''buffer'', ''main'', 0, -1'),
        ('''small'', 0, ''buffer'', ''main'', 5, 4'), ('''empty'', 0, ''buffer'', ''main'', 0'),
        ('''small'', 0, ''buffer'', ''main'', 0, 9223372036854775807'),
        ('''small'', 64, ''buffer'', ''main'', 4294967296'),
        -- the relation
        ('''a_view'''), ('''parted'''), ('''parted_id'', 64'), ('''far'''), ('''a_type'''),
        ('4294967295'), ('0'), ('4294967295, 64'), ('''no_such_table'''),
        ('''temporary'', 64'), ('''temporary'', -1'), ('''temporary'''),
        ('''temporary'', 0, ''read''')) v (arguments);

-- As a user sees them
SELECT * FROM pg_ringctl_prewarm('small', 63);
SELECT * FROM pg_ringctl_prewarm('small', '4 megabytes');
SELECT * FROM pg_ringctl_prewarm('parted', '64kB');
\set VERBOSITY terse
SELECT * FROM pg_ringctl_prewarm('small', NULL);
SELECT * FROM pg_ringctl_prewarm('small', 64, 'read');
\set VERBOSITY default

-- A temporary table of one's own is read without a ring, which is what a scan of it gets, too.
SELECT blocks = blocks('temporary') AS all_blocks, blocks = blks_hit + blks_read AS adds_up, ring_buffers
  FROM unnest('{0,-1}'::text[]) ring, pg_ringctl_prewarm('temporary', ring);

-- Children by inheritance are not read, which is told, with what reads them.
CREATE SCHEMA "Odd";
CREATE TABLE "Odd"."mother's" (LIKE small);
CREATE TABLE daughter () INHERITS ("Odd"."mother's");
SELECT blocks FROM pg_ringctl_prewarm('"Odd"."mother''s"');
SELECT blocks FROM (SELECT (pg_ringctl_prewarm_all(inhrelid)).* FROM pg_inherits WHERE inhparent = '"Odd"."mother''s"'::regclass) p;
DROP SCHEMA "Odd" CASCADE;

-- No privilege, or that of reading it; an index by its table
CREATE ROLE regress_ringctl_user;
SET ROLE regress_ringctl_user;
SELECT rel, attempt(format('SELECT * FROM pg_ringctl_prewarm(%L, 64)', rel))
  FROM unnest('{small, big_id, things, things_pkey, numbers, matview}'::text[]) rel;
RESET ROLE;
GRANT SELECT ON small, things, numbers, matview TO regress_ringctl_user;
SET ROLE regress_ringctl_user;
SELECT rel, attempt(format('SELECT * FROM pg_ringctl_prewarm(%L, 64)', rel))
  FROM unnest('{small, big_id, things, things_pkey, numbers, matview}'::text[]) rel;
RESET ROLE;
REVOKE ALL ON small, things, numbers, matview FROM regress_ringctl_user;
DROP ROLE regress_ringctl_user;

-- Nothing was left pinned, locked or counted.
SELECT count(*) AS pinned FROM pg_buffercache WHERE pinning_backends > 0;
SELECT count(*) AS locked FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
 WHERE c.oid >= 16384 AND c.relname NOT LIKE 'pg\_%' AND l.pid = pg_backend_pid();
SELECT fresh();
SELECT attempt('SELECT pg_ringctl_prewarm(''small'', 63)') <> 'works' AS refused,
       attempt('SELECT pg_ringctl_prewarm(''a_view'', 64)') <> 'works' AS refused;
SELECT count(*) AS counted FROM pg_ringctl_stats;
-- read and prefetch know nothing of buffers, and are not counted, either
SELECT blocks > 0 AS read FROM pg_ringctl_prewarm('small', 0, 'read');
SELECT count(*) AS counted FROM pg_ringctl_stats;

--
-- Workers: each reads its share through a ring of its own; nothing is read
-- twice, and nothing left out
--
CREATE FUNCTION with_workers(rel regclass, n int, ring_kb int, first bigint DEFAULT NULL, last bigint DEFAULT NULL)
RETURNS TABLE (blocks bigint, adds_up boolean, rings int, ring_kb_each int, escapes bigint,
               scans bigint, workers bigint, counted bigint) LANGUAGE plpgsql AS $$
DECLARE
    r record;
BEGIN
    PERFORM fresh();
    SELECT * INTO r FROM pg_ringctl_prewarm(rel, ring_kb, 'buffer', 'main', first, last, n, 'ignore');
    RETURN QUERY SELECT r.blocks, r.blocks = r.blks_hit + r.blks_read,
                        CASE WHEN ring_kb > 0 THEN (r.ring_buffers * 8 / ring_kb)::int END,
                        s.ring_buffers * 8, r.escapes, s.scans, s.workers_launched, s.blocks
                   FROM (VALUES (rel)) v (rel) LEFT JOIN pg_ringctl_stats s ON s.relid = v.rel;	-- no ring: no row
END $$;
SELECT n, ring_kb, w.* FROM unnest('{0, 1, 2, 4}'::int[]) n, unnest('{0, 64, 256}'::int[]) ring_kb,
       LATERAL with_workers('big', n, ring_kb) w;
-- ranges, down to one that the leader reads alone
SELECT first, last, w.blocks, w.adds_up, w.rings, w.workers
  FROM (VALUES (0, 0), (0, 15), (0, 16), (5, 4000), (5119, 5119), (NULL, 99), (5000, NULL)) r (first, last),
       LATERAL with_workers('big', 2, 64, first, last) w;
-- These blocks it is, and no others.
SELECT fresh();
SELECT blocks FROM pg_ringctl_prewarm('big', first_block => 1000, last_block => 1999, workers => 2);
SELECT count(*) > 900 AS most, min(relblocknumber) >= 1000 AND max(relblocknumber) <= 1999 AS no_others
  FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('big') AND relforknumber = 0;
-- other forks, catalogs, what has no blocks
SELECT fork, p.blocks > 0 AS some, p.blocks = p.blks_hit + p.blks_read AS adds_up
  FROM unnest('{fsm, vm}'::text[]) fork, LATERAL pg_ringctl_prewarm('big', 64, 'buffer', fork, workers => 1) p;
SELECT blocks = blocks('pg_proc') AS all_blocks FROM pg_ringctl_prewarm('pg_proc', 64, workers => 2);
SELECT blocks, ring_buffers FROM pg_ringctl_prewarm('empty', 64, workers => 2);
-- -1 is the same ring for everybody
SELECT blocks = blocks('big') AS all_blocks, ring_buffers > 0 AS rings FROM pg_ringctl_prewarm('big', -1, workers => 2);
-- What workers read is in the query's buffer usage.
SELECT fresh();
SELECT read_by_explain('SELECT * FROM pg_ringctl_prewarm(''big'', 64, workers => 2)')
       BETWEEN blocks('big') AND blocks('big') + 200 AS buffers_read;
-- A relation that was made, and truncated, in this transaction, and in a
-- subtransaction of it
BEGIN;
CREATE TABLE young AS SELECT * FROM big WHERE id <= 300;
SELECT blocks = blocks('young') AS all_blocks FROM pg_ringctl_prewarm('young', 64, workers => 2);
SAVEPOINT s;
TRUNCATE young;
INSERT INTO young SELECT * FROM big WHERE id <= 200;
SELECT blocks = blocks('young') AS all_blocks FROM pg_ringctl_prewarm('young', 64, workers => 2);
SELECT pg_ringctl_prewarm('young', 63, workers => 2);
ROLLBACK TO s;
SELECT blocks = blocks('young') AS all_blocks FROM pg_ringctl_prewarm('young', 64, workers => 2);
-- the session may write again
INSERT INTO young VALUES (0);
ROLLBACK;
-- a function that catches its errors
CREATE FUNCTION caught() RETURNS SETOF bigint LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..2 LOOP
        BEGIN
            RETURN NEXT (pg_ringctl_prewarm('big', 64, workers => 2)).blocks;
            RETURN NEXT 1 / (i - 1);
        EXCEPTION WHEN division_by_zero THEN
            RETURN NEXT 0;
        END;
    END LOOP;
END $$;
SELECT * FROM caught();
-- transactions of every kind
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM small;
SELECT blocks FROM pg_ringctl_prewarm('big', 64, workers => 2);
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
SELECT blocks FROM pg_ringctl_prewarm('big', 64, workers => 2);
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SELECT blocks FROM pg_ringctl_prewarm('big', 64, workers => 2);
COMMIT;
-- in a query that has parallel workers itself
BEGIN;
SET LOCAL max_parallel_workers_per_gather = 2;
SET LOCAL parallel_setup_cost = 0;
SET LOCAL parallel_tuple_cost = 0;
SET LOCAL min_parallel_table_scan_size = 0;
SELECT count(*), sum((SELECT blocks FROM pg_ringctl_prewarm('big', 64, workers => 1 + (b.id > 2)::int)))
  FROM (SELECT id FROM big WHERE id <= 3 OFFSET 0) b;
COMMIT;

--
-- What does not fit
--
SELECT fresh();
SELECT blocks, ring_buffers FROM pg_ringctl_prewarm('big', fit => 'warn');
SELECT blocks, cached('big') FROM pg_ringctl_prewarm('big', fit => 'ignore');
SELECT fresh();
SELECT blocks FROM pg_ringctl_prewarm('big');
SELECT blocks FROM pg_ringctl_prewarm('big', fit => 'stop', workers => 2);
SELECT blocks FROM pg_ringctl_prewarm('big', fit => 'stop', first_block => 4000);
SELECT blocks FROM pg_ringctl_prewarm('big', fit => 'stop', first_block => 3072);
SELECT blocks FROM pg_ringctl_prewarm('big', fit => 'stop', first_block => 3071);
-- It is not asked for where there is a ring, or nothing in shared buffers.
SELECT ring_kb, p.blocks FROM unnest('{-1, 64}'::int[]) ring_kb, LATERAL pg_ringctl_prewarm('big', ring_kb, fit => 'stop') p;
SELECT p.blocks FROM pg_ringctl_prewarm('big', 0, 'read', fit => 'stop') p;
-- What a scan would get may be no ring.
SET pg_ringctl.scan_ring = 0;
SELECT blocks, ring_buffers FROM pg_ringctl_prewarm('big', -1, fit => 'warn');
SELECT blocks, ring_buffers FROM pg_ringctl_prewarm('big', -1);
RESET pg_ringctl.scan_ring;

-- As a user sees what is wrong
SELECT pg_ringctl_prewarm('small', workers => -1);
SELECT pg_ringctl_prewarm('small', workers => 1025);
SELECT pg_ringctl_prewarm('small', 0, 'read', workers => 1);
SELECT pg_ringctl_prewarm('small', fit => 'Warn');
SELECT arguments, attempt(format('SELECT * FROM pg_ringctl_prewarm(''small'', %s)', arguments)) AS outcome
  FROM (VALUES ('workers => NULL'), ('fit => NULL'), ('workers => -2147483648'), ('workers => 2147483647'),
               ('0, ''prefetch'', workers => 1'), ('fit => '''''), ('fit => ''stop ''')) v (arguments);
-- Nobody else reads a temporary relation.
SELECT blocks = blocks('temporary') AS all_blocks FROM pg_ringctl_prewarm('temporary', workers => 2);
SET max_parallel_workers = 0;
SELECT blocks FROM pg_ringctl_prewarm('big', 64, first_block => 1, last_block => 16, workers => 2);     -- needs none
SELECT blocks FROM pg_ringctl_prewarm('big', 64, workers => 2);
SET max_parallel_workers = 1;
SELECT blocks, ring_buffers FROM pg_ringctl_prewarm('big', 64, workers => 2);
RESET max_parallel_workers;
SELECT count(*) AS pinned FROM pg_buffercache WHERE pinning_backends > 0;

DROP FUNCTION prewarm, ring_as_scan, with_workers, caught;
DROP FOREIGN DATA WRAPPER regress_nothing CASCADE;
DROP VIEW a_view;
DROP TYPE a_type;
DROP MATERIALIZED VIEW matview;
DROP SEQUENCE numbers;
DROP TABLE things, unlogged, empty, parted, temporary;
DROP INDEX big_id;
