-- parallel: scans by several processes, each with a ring of its own.
--
-- Claims: the result is the serial one, the hot table survives, and no more
-- than the rings of all processes is left behind.  One parallel scan counts as
-- one, whether the leader takes part or not, and the workers beside it.

SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET debug_parallel_query = off;

EXPLAIN (COSTS off) SELECT count(*), sum(id) FROM big;

CREATE FUNCTION verdict(rel regclass, processes int)
RETURNS TABLE (scans bigint, workers bigint, blocks boolean, hot boolean, in_rings boolean,
               escapes_pinned bigint, escapes_dirty bigint, exact boolean) LANGUAGE sql
BEGIN ATOMIC
    SELECT s.scans, s.workers_launched, s.blocks = s.scans * blocks(rel),
           hot_survives(), cached(rel) <= processes * s.ring_buffers_max,
           s.escapes_pinned, s.escapes_dirty, exact()
      FROM stats(rel) s;
END;

SELECT fresh();
SELECT count(*), sum(id) FROM big;
SELECT * FROM verdict('big', 3);

-- The leader only gathers.
SET parallel_leader_participation = off;
SELECT fresh();
SELECT count(*), sum(id) FROM big;
SELECT * FROM verdict('big', 3);
RESET parallel_leader_participation;

-- No worker is to be had.
SET max_parallel_workers = 0;
SELECT fresh();
SELECT count(*), sum(id) FROM big;
SELECT * FROM verdict('big', 1);
RESET max_parallel_workers;

-- Small rings, and every page dirtied by whom it was read
CREATE TABLE loaded (LIKE big);
INSERT INTO loaded SELECT * FROM big;
ANALYZE loaded (id);
TRUNCATE loaded;
INSERT INTO loaded SELECT * FROM big;
CHECKPOINT;
SELECT fresh();
SELECT count(*), sum(id) FROM loaded;
SELECT * FROM verdict('loaded', 3);
DROP TABLE loaded;
SET pg_ringctl.scan_ring = '128kB';
SELECT fresh();
SELECT count(*), sum(id) FROM big;
SELECT * FROM verdict('big', 3);
RESET pg_ringctl.scan_ring;
-- no ring
SET pg_ringctl.scan_ring = 0;
SELECT fresh();
SELECT count(*), sum(id) FROM big;
SELECT count(*) AS counted, hot_is_lost() FROM pg_ringctl_stats;
RESET pg_ringctl.scan_ring;

-- Results as those of a serial plan (in any order, so they are sorted)
CREATE FUNCTION serial(query text) RETURNS text LANGUAGE sql SET max_parallel_workers_per_gather = 0
RETURN digest(query);
CREATE FUNCTION is_parallel(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    plan jsonb;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
    RETURN plan::text ~ '"Gather';
END $$;
-- A query run by digest() may not be parallel, one that is stored may.
CREATE FUNCTION parallel(query text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'CREATE TEMP TABLE result ON COMMIT DROP AS ' || query;
    RETURN digest('SELECT * FROM result');
END $$;
CREATE TABLE parted (id int, v int, filler text) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (5000);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (5000) TO (11000);
CREATE TABLE parted_3 PARTITION OF parted FOR VALUES FROM (11000) TO (30000);
INSERT INTO parted SELECT * FROM big;
VACUUM (ANALYZE) parted;

-- "closed" allows for processes that pin each other's pages: one in a hundred.
CREATE PROCEDURE compare(what text, query text, settings text[] DEFAULT '{}',
                         INOUT outcome text DEFAULT NULL) LANGUAGE plpgsql AS $$
DECLARE
    hot boolean;
BEGIN
    PERFORM apply(settings);
    PERFORM fresh();
    outcome := parallel(query);
    hot := hot_survives();
    outcome := format('%s: parallel %s, same %s, hot %s, closed %s, exact %s', what,
                      is_parallel(query), outcome = serial(query) AND outcome NOT LIKE '0 %', hot,
                      (SELECT sum(escapes_pinned + escapes_dirty) <= 0.01 * sum(blocks) FROM pg_ringctl_stats), exact());
    COMMIT;
END $$;
\t on
CALL compare('sort', 'SELECT id, v FROM big ORDER BY id');
CALL compare('filter', 'SELECT id FROM big WHERE v = 7 ORDER BY id');
CALL compare('group', 'SELECT v, count(*), sum(id) FROM big GROUP BY v ORDER BY v');
CALL compare('limit', 'SELECT count(*) FROM (SELECT id FROM big LIMIT 1000) b');
CALL compare('parallel hash join',
             'SELECT a.id, b.v FROM big a JOIN big b ON a.id = b.id + 1 ORDER BY a.id',
             '{enable_mergejoin=off}');
CALL compare('hash join', 'SELECT a.id, b.v FROM big a JOIN small b ON a.v = b.v ORDER BY a.id, b.id',
             '{enable_parallel_hash=off, enable_mergejoin=off}');
CALL compare('parallel append', 'SELECT count(*), sum(id) FROM parted',
             '{pg_ringctl.scan_threshold=0}');
CALL compare('append', 'SELECT id FROM parted ORDER BY id',
             '{pg_ringctl.scan_threshold=0, enable_parallel_append=off}');
CALL compare('union all',
             'SELECT count(*) FROM (SELECT id FROM big WHERE v < 9 UNION ALL SELECT id FROM big WHERE v > 50) u');
CALL compare('rescan of a gather',
             'SELECT s.id, l.n FROM small s, LATERAL (SELECT count(*) AS n FROM big b WHERE b.v < 50 OFFSET 0) l
               WHERE s.id < 5 ORDER BY 1', '{enable_material=off, enable_hashjoin=off, pg_ringctl.scan_ring=256kB}');
CALL compare('rescan of a gather with a parameter',
             'SELECT s.id, (SELECT count(*) FROM big b WHERE b.v = s.v) FROM small s WHERE s.id < 5 ORDER BY 1');
CALL compare('initplan', 'SELECT id FROM big WHERE id > (SELECT max(id) - 10 FROM big) ORDER BY id');
CALL compare('cte', 'WITH b AS MATERIALIZED (SELECT id FROM big WHERE v = 1) SELECT * FROM b ORDER BY id');
\t off

-- Rescans of a parallel scan are scans, each with its workers, whether the
-- leader takes part or not.  (Each of these workers leaves its ring behind.)
SET enable_material = off;
SET pg_ringctl.scan_ring = '256kB';
EXPLAIN (COSTS off)
SELECT s.n, l.n FROM generate_series(1, 4) s (n) LEFT JOIN (SELECT count(*) AS n FROM big b OFFSET 0) l ON true;
SELECT fresh();
SELECT s.n, l.n FROM generate_series(1, 4) s (n) LEFT JOIN (SELECT count(*) AS n FROM big b OFFSET 0) l ON true;
SELECT scans, workers, blocks, hot, exact FROM verdict('big', 3);
SET parallel_leader_participation = off;
SELECT fresh();
SELECT s.n, l.n FROM generate_series(1, 4) s (n) LEFT JOIN (SELECT count(*) AS n FROM big b OFFSET 0) l ON true;
SELECT scans, workers, blocks, hot, exact FROM verdict('big', 3);
-- a worker that is started again is one
SELECT count(*) AS workers, sum(scans) AS scans, sum(blocks) = 4 * blocks('big') AS blocks
  FROM pg_ringctl_last_scans();
RESET parallel_leader_participation;
RESET pg_ringctl.scan_ring;
RESET enable_material;

-- A parallel plan that is run serially, in a cursor that is not run to its
-- end; and one that is prepared, or explained.  (A worker's ring goes with it,
-- so these leave more behind, and find it again.)
SELECT fresh();
BEGIN;
DECLARE c CURSOR FOR SELECT count(*) FROM big GROUP BY v ORDER BY v;
FETCH 2 FROM c;
COMMIT;
SET pg_ringctl.scan_ring = '256kB';
PREPARE p AS SELECT count(*), sum(id) FROM big;
EXECUTE p;
EXECUTE p;
DEALLOCATE p;
DO $$ BEGIN EXECUTE 'EXPLAIN ANALYZE SELECT count(*) FROM big'; END $$;
SELECT scans, blocks, hot, exact FROM verdict('big', 3);
RESET pg_ringctl.scan_ring;

-- An error in a worker, which counts the scan where the leader takes no part
SET max_parallel_workers = 1;
SET parallel_leader_participation = off;
SELECT fresh();
\set VERBOSITY terse
SELECT count(*) FROM big WHERE 1 / (id - 20480) > 5;
\set VERBOSITY default
SELECT scans, workers_launched, blocks = blocks('big') AS blocks, exact() FROM stats('big');
RESET max_parallel_workers;
RESET parallel_leader_participation;
SELECT fresh();
SELECT count(*), sum(id) FROM big;
-- A read that the error cut short leaves its buffers, which can't be evicted:
-- they are found now.
SELECT v.scans, v.workers, v.blocks, v.hot, cached('big') - s.blks_hit <= 3 * s.ring_buffers_max AS in_rings,
       v.escapes_pinned, v.escapes_dirty, v.exact
  FROM verdict('big', 3) v, stats('big') s;

-- observe and off
SET pg_ringctl.mode = observe;
SELECT fresh();
SELECT count(*), sum(id) FROM big;
SELECT scans, workers_launched, blocks = blocks('big') AS blocks, exact() FROM stats('big');
SET pg_ringctl.mode = off;
SELECT fresh();
SELECT count(*), sum(id) FROM big;
SELECT count(*) AS counted FROM pg_ringctl_stats;
RESET ALL;

DROP TABLE parted;
DROP PROCEDURE compare;
DROP FUNCTION verdict, serial, is_parallel, parallel;
