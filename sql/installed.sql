-- installed: the extension as it is installed, on any server that runs.
--
-- Claims, whatever the server's settings are (from 2 MB of shared buffers on),
-- and whoever else is at work on it: the library fits the server; a scan and a
-- prewarm read through a ring that stays closed; a table's policy, the mode and
-- who may see the views are obeyed; nothing stays behind.
--
-- It changes no more of the server than its own database, and takes no other
-- extension.

-- A library that does not fit would say so here.
CREATE EXTENSION pg_ringctl;
SELECT current_database() AS here \gset
ALTER DATABASE :"here" SET session_preload_libraries = 'pg_ringctl';
\c -
SET synchronize_seqscans = off;
SET max_parallel_workers_per_gather = 0;
SET pg_ringctl.mode = control;
SET pg_ringctl.track = on;
SET pg_ringctl.max_ring = -1;
SET pg_ringctl.scan_threshold = 0;
SET pg_ringctl.scan_ring = '256kB';
SHOW pg_ringctl.enabled;

-- One row a page.  VACUUM FULL leaves none of them in shared buffers.
CREATE TABLE big (id int, filler text) WITH (fillfactor = 10, autovacuum_enabled = off);
INSERT INTO big SELECT id, repeat('x', 600) FROM generate_series(1, 2000) id;
VACUUM FULL big;

-- What was counted for it, and how much of it is in shared buffers
CREATE VIEW counted AS
    SELECT kind, scans, blocks, blks_hit, blks_read = fills + reuses + escapes_pinned + escapes_adopted AS adds_up,
           escapes_pinned + escapes_dirty AS leaked, ring_buffers * (current_setting('block_size')::int / 1024) AS ring_kb
      FROM pg_ringctl_stats WHERE relid = 'big'::regclass ORDER BY kind;
CREATE VIEW in_pool AS
    SELECT coalesce(sum(buffers), 0) <= 32 AS no_more_than_the_ring FROM pg_ringctl_pollution WHERE relid = 'big'::regclass;

-- A scan
SELECT count(*), sum(id) FROM big;
SELECT * FROM counted;
SELECT * FROM in_pool;

-- One that dirties every page: the same rows, and a ring that writes them
BEGIN;
SELECT count(*), sum(id) FROM (SELECT id FROM big FOR UPDATE) locked;
COMMIT;
SELECT scans, adds_up FROM counted;

-- A prewarm
VACUUM FULL big;
SELECT blocks, blks_read, ring_buffers, reuses > 0 AS reuses, escapes FROM pg_ringctl_prewarm('big', '256kB');
SELECT * FROM in_pool;

-- The modes: the scan is the server's, and is not counted when it is off
SET pg_ringctl.mode = observe;
SELECT source IN ('server', 'none') AS as_server FROM pg_ringctl_resolve('big');
SELECT count(*), sum(id) FROM big;
SELECT scans AS scans_before FROM counted WHERE kind = 'seqscan' \gset
SET pg_ringctl.mode = off;
SELECT count(*), sum(id) FROM big;
SELECT scans = :scans_before AS not_counted FROM counted WHERE kind = 'seqscan';
SET pg_ringctl.mode = control;

-- A policy
SELECT pg_ringctl_set_policy('big', '128kB');
SELECT source, ring_kb FROM pg_ringctl_resolve('big');
SELECT count(*) FROM big;
SELECT source, ring_kb, blocks FROM pg_ringctl_last_scans();
SELECT pg_ringctl_drop_policy('big');
SELECT source, ring_kb FROM pg_ringctl_resolve('big');

-- EXPLAIN (RING), from 18 on
CREATE FUNCTION has_ring() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    plan json;
BEGIN
    IF current_setting('server_version_num')::int < 180000 THEN
        RETURN true;
    END IF;
    EXECUTE 'EXPLAIN (ANALYZE, RING, TIMING off, FORMAT json) SELECT FROM big' INTO plan;
    RETURN plan::text ~ '"Ring Buffers": 32';
END $$;
SELECT has_ring();

-- Who may see what
CREATE ROLE regress_ringctl_user;
SELECT string_agg(relname, ', ') FILTER (WHERE has_table_privilege('regress_ringctl_user', oid, 'SELECT')) AS anybody,
       bool_and(has_table_privilege('pg_read_all_stats', oid, 'SELECT')) AS pg_read_all_stats
  FROM pg_class WHERE relname ~ '^pg_ringctl_' AND relkind = 'v';
DROP ROLE regress_ringctl_user;

-- Nothing stays behind.
DROP FUNCTION has_ring;
DROP VIEW counted, in_pool;
DROP TABLE big;
ALTER DATABASE :"here" RESET session_preload_libraries;
DROP EXTENSION pg_ringctl;
SELECT count(*) FROM pg_class WHERE relname ~ '^pg_ringctl';
SELECT count(*) FROM pg_proc WHERE proname ~ '^pg_ringctl';
