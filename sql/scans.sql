-- scans: what a session's last scans did, and what the next one would get.
--
-- Claims: pg_ringctl_last_scans() has a row for each scan and process of the
-- last statement that had any and did not fail, and its numbers are those of
-- pg_ringctl_stats; pg_ringctl_resolve() tells the ring that a scan then gets,
-- and why; blocks that a scan asked for but never got are counted.

VACUUM (FULL, FREEZE, ANALYZE) small;	-- others have changed it
CREATE VIEW last AS
    SELECT relid::regclass, worker, scans, ring_kb, ring_buffers, source, blocks, blks_hit, blks_read,
           blks_unconsumed, fills, reuses
      FROM pg_ringctl_last_scans();

-- Does what is remembered add up, and is it what was counted?
CREATE FUNCTION last_is_exact() RETURNS boolean LANGUAGE sql
BEGIN ATOMIC
    SELECT bool_and(blocks = blks_hit + blks_read
                    AND blks_read = fills + reuses + escapes_pinned + escapes_adopted
                    AND ring_kb * 1024 = ring_buffers * current_setting('block_size')::bigint
                    AND least(blks_unconsumed, escapes_dirty, slots_lost, wal_flushes, elapsed_time) >= 0
                    AND plan_node_id >= 0)
      FROM pg_ringctl_last_scans();
END;
CREATE FUNCTION last_is_counted() RETURNS boolean LANGUAGE sql
BEGIN ATOMIC
    SELECT bool_and(counted = (SELECT row(sum(l.scans), count(l.worker), sum(l.blocks), sum(l.blks_hit),
                                          sum(l.blks_read), sum(l.fills), sum(l.reuses),
                                          sum(l.escapes_pinned), sum(l.escapes_dirty), sum(l.escapes_adopted),
                                          sum(l.slots_lost), sum(l.blks_unconsumed), sum(l.wal_flushes))
                                 FROM pg_ringctl_last_scans() l WHERE l.relid = s.relid))
      FROM (SELECT relid, row(scans::numeric, workers_launched, blocks::numeric, blks_hit::numeric, blks_read::numeric,
                              fills::numeric, reuses::numeric, escapes_pinned::numeric,
                              escapes_dirty::numeric, escapes_adopted::numeric, slots_lost::numeric,
                              blks_unconsumed::numeric, wal_flushes::numeric) AS counted
              FROM pg_ringctl_stats WHERE kind = 'seqscan') s;
END;

--
-- What the last scans did
--
\c -
SELECT * FROM last;		-- a new session
SELECT fresh();
SET pg_ringctl.scan_ring = '1MB';
SELECT count(*) FROM big;
SELECT * FROM last;
SELECT last_is_exact(), last_is_counted(), elapsed_time > 0 AS elapsed FROM pg_ringctl_last_scans();
-- again, with what the first one left; one row, not two
SELECT count(*) FROM big;
SELECT relid, scans, blocks, fills, last_is_exact() FROM last;
SELECT last_is_counted();		-- no, those have both

-- statements without a scan, and those that don't touch a table of ours
SELECT 1;
SELECT count(*) > 0 AS pages FROM pg_buffercache;
SELECT count(*) FROM pg_am;
EXPLAIN (COSTS off) SELECT count(*) FROM small;
SELECT count(*) FROM small WHERE ctid = '(0,1)';
SELECT count(*) FROM hot, small WHERE false;
SELECT relid FROM last;
CREATE TEMP TABLE temporary AS SELECT 1 AS one;
SELECT count(*) FROM temporary;
SELECT relid FROM last;
SET pg_ringctl.mode = off;
SELECT count(*) FROM small;
SELECT relid FROM last;
RESET pg_ringctl.mode;

-- statements that fail
SELECT count(*) / 0 FROM small;
SELECT id / (v - 5) FROM small;
SELECT relid FROM last;
SELECT attempt('SELECT count(*) / 0 FROM small');
SELECT relid FROM last;

-- several scans: a join, a union, subqueries; small tables with a ring, too
SET pg_ringctl.scan_threshold = 0;
SELECT pg_ringctl_stats_reset() IS NOT NULL AS reset;
SELECT count(*) FROM big b JOIN small s USING (id);
SELECT * FROM (SELECT relid, scans, ring_buffers, source, blocks, blks_unconsumed FROM last ORDER BY relid::text) l;
SELECT last_is_exact(), last_is_counted(), count(DISTINCT plan_node_id) AS nodes FROM pg_ringctl_last_scans();
SELECT pg_ringctl_stats_reset() IS NOT NULL AS reset;
SELECT count(*) FROM small UNION ALL SELECT count(*) FROM small UNION ALL SELECT count(*) FROM hot WHERE id < 0;
SELECT relid, scans, blocks FROM last ORDER BY relid::text;
SELECT last_is_exact(), last_is_counted();
-- a rescan is another scan, in the same row
SELECT count(*) FROM generate_series(1, 3) g, LATERAL (SELECT FROM small s WHERE s.id > g OFFSET 0) l;
SELECT relid, scans, blocks FROM last;
UPDATE small SET v = v WHERE id < 0;
SELECT relid, scans, blocks FROM last;

-- in functions: with the statement that called them
CREATE FUNCTION scan_twice() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count(*) FROM small;
    PERFORM count(*) FROM hot;
END $$;
SELECT scan_twice();
SELECT relid, scans, blocks FROM last;
DO 'BEGIN PERFORM scan_twice(); PERFORM scan_twice(); END';
SELECT relid, count(*), sum(blocks) = count(*) * blocks(relid) AS blocks FROM last GROUP BY relid ORDER BY relid::text;
SELECT count(*), count(scan_twice()) AS calls FROM small WHERE id < 3;
SELECT relid, count(*) FROM last GROUP BY relid ORDER BY relid::text;
-- of very many scans the last thousand
DO 'BEGIN PERFORM count(*) FROM hot; FOR i IN 1 .. 1000 LOOP PERFORM count(*) FROM small; END LOOP; END';
SELECT relid, count(*) FROM last GROUP BY relid;
-- also if it looks itself: what has ended until then
CREATE FUNCTION scan_and_look() RETURNS SETOF regclass LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count(*) FROM hot;
    RETURN QUERY SELECT relid::regclass FROM pg_ringctl_last_scans();
    PERFORM count(*) FROM small;
    RETURN QUERY SELECT relid::regclass FROM pg_ringctl_last_scans();
END $$;
SELECT scan_and_look();

-- a prewarm is none
SELECT blocks > 0 AS blocks FROM pg_ringctl_prewarm('big', 64);
SELECT relid FROM last;

-- a cursor's scan has ended when it is closed
SELECT pg_ringctl_stats_reset() IS NOT NULL AS reset;
SELECT count(*) FROM hot;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM big;
MOVE 401 FROM c;
SELECT relid FROM last;
CLOSE c;
SELECT relid, scans, source, blocks - blks_unconsumed AS consumed FROM last;
COMMIT;
DELETE FROM hot WHERE false;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM small;
MOVE 5 FROM c;
COMMIT;
SELECT relid, scans, source, blocks - blks_unconsumed AS consumed FROM last;

-- not the statistics', so also without them, and after a reset
SET pg_ringctl.track = off;
SELECT count(*) FROM big;
SELECT relid, scans, blocks FROM last;
RESET pg_ringctl.track;
SELECT pg_ringctl_stats_reset() IS NOT NULL AS reset;
SELECT relid, scans, blocks FROM last;
-- another session's are not ours
\c -
SELECT * FROM last;

-- a table that is gone
SET pg_ringctl.scan_threshold = 0;
CREATE TABLE gone AS SELECT * FROM small;
SELECT count(*) FROM gone;
DROP TABLE gone;
SELECT regexp_replace(relid::text, '\d+', 'N') AS relid, scans FROM last;

-- in parallel: a row for each process, together the table
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
CREATE VIEW verdict AS
    SELECT relid::regclass, sum(scans) AS scans, count(*) FILTER (WHERE worker IS NULL) AS leaders,
           string_agg(worker::text, ' ' ORDER BY worker) AS workers, sum(blocks) AS blocks,
           sum(blks_unconsumed) AS blks_unconsumed, bool_and(ring_buffers > 0) AS rings,
           last_is_exact(), last_is_counted()
      FROM pg_ringctl_last_scans() GROUP BY relid ORDER BY relid::regclass::text;
SET parallel_leader_participation = off;
SELECT fresh();
SELECT count(*) FROM big;
SELECT * FROM verdict;
RESET parallel_leader_participation;
SELECT count(*) FROM big;
SELECT relid, leaders, workers, blocks, blks_unconsumed, rings, last_is_exact FROM verdict;
-- two at a time, and one in a function that a worker runs
SET parallel_leader_participation = off;
SELECT pg_ringctl_stats_reset() IS NOT NULL AS reset;
SELECT (SELECT count(*) FROM big), (SELECT count(*) FROM hot);
SELECT relid, workers, blocks, last_is_exact, last_is_counted FROM verdict;
CREATE FUNCTION scan_in_worker(int) RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS $$
BEGIN
    RETURN count(*) FROM small WHERE v = $1;
END $$;
SELECT count(scan_in_worker(v)) FROM hot WHERE id <= 5;
SELECT relid, workers, blocks, last_is_exact FROM verdict;
-- one that fails in its workers leaves the last ones, and nothing behind
SELECT count(1 / (id - 10000)) FROM big;
SELECT relid, blocks FROM verdict;
SELECT count(*) FROM big;
SELECT relid, workers, blocks FROM verdict;
RESET ALL;

--
-- What the next one would get
--
RESET pg_ringctl.scan_threshold;
-- ring_kb and look-ahead that are chosen depend on the server's major.
SELECT ring_kb > 0 AS kb, ring_buffers > 0 AS ring, ring_buffers_max >= ring_buffers AS max, source, look_ahead_max > 0 AS look_ahead, threshold, blocks,
       regexp_replace(reason, ':.*|the server''s size, ', '', 'g') AS reason
  FROM pg_ringctl_resolve('big');
SELECT ring_kb, ring_buffers, ring_buffers_max AS max, source, look_ahead_max, threshold, blocks, reason
  FROM pg_ringctl_resolve('small');
-- What fits into the pool keeps the server's own ring, unless somebody gives the
-- size or the threshold.
SELECT source, threshold, blocks, reason FROM pg_ringctl_resolve('hot');
SET pg_ringctl.scan_ring = '1MB';
SELECT source, threshold, blocks, reason FROM pg_ringctl_resolve('hot');
RESET pg_ringctl.scan_ring;
SET pg_ringctl.scan_threshold = 600;
SELECT source, threshold, blocks FROM pg_ringctl_resolve('hot');
RESET pg_ringctl.scan_threshold;

-- So its first scan after a load leaves in the pool what it leaves in stock, for
-- the scans to come.
CREATE TABLE fits_off (LIKE big);
CREATE TABLE fits (LIKE big);
CREATE TABLE fits_tight (LIKE big);
INSERT INTO fits_off SELECT * FROM big WHERE id <= 4 * 1000;
INSERT INTO fits SELECT * FROM big WHERE id <= 4 * 1000;
INSERT INTO fits_tight SELECT * FROM big WHERE id <= 4 * 1000;
CHECKPOINT;
SELECT count(*) > 0 AS evicted FROM (SELECT pg_buffercache_evict(bufferid) FROM pg_buffercache WHERE relfilenode >= 16384) e;
SET pg_ringctl.mode = off;
SELECT count(*) FROM fits_off;
SELECT cached('fits_off') AS off \gset
SET pg_ringctl.mode = control;
SELECT count(*) FROM fits;
SELECT cached('fits') AS control \gset
SET pg_ringctl.scan_threshold = 600;
SELECT count(*) FROM fits_tight;
RESET pg_ringctl.scan_threshold;
SELECT :off > 700 AS off, abs(:control - :off) < 100 AS control, cached('fits_tight') < 300 AS tight;
DROP TABLE fits_off, fits, fits_tight;
SET effective_io_concurrency = 0;
SET io_combine_limit = 8;
CREATE VIEW resolved AS
    SELECT current_setting('pg_ringctl.mode') AS mode, ring_kb, ring_buffers, ring_buffers_max AS max, source, look_ahead_max, threshold, blocks, reason
      FROM pg_ringctl_resolve('big');
SET pg_ringctl.scan_ring = '2000kB';
SELECT * FROM resolved;
SET pg_ringctl.headroom = 0;
SELECT * FROM resolved;
SET pg_ringctl.scan_ring = '64kB';
SET pg_ringctl.headroom = 4;
SELECT * FROM resolved;
SET pg_ringctl.headroom = 10;
SELECT * FROM resolved;
RESET pg_ringctl.headroom;
SET pg_ringctl.scan_ring = 0;
SELECT * FROM resolved;
SET pg_ringctl.scan_ring = '16GB';
SELECT * FROM resolved;
SET pg_ringctl.max_ring = '1MB';
SELECT * FROM resolved;
RESET pg_ringctl.scan_ring;
SELECT * FROM resolved;
SET pg_ringctl.max_ring = '4MB';
SET pg_ringctl.headroom = 300;
SELECT * FROM resolved;
RESET pg_ringctl.headroom;
RESET pg_ringctl.max_ring;
SET pg_ringctl.scan_threshold = 5120;
SELECT * FROM resolved;
SET pg_ringctl.scan_threshold = 5119;
SELECT source, threshold, blocks FROM resolved;
SET pg_ringctl.scan_threshold = 0;
SELECT source, threshold, blocks FROM pg_ringctl_resolve('small');
CREATE TABLE empty ();
SELECT ring_buffers, source, blocks, reason FROM pg_ringctl_resolve('empty');
DROP TABLE empty;
-- the server's, whatever is set
SET pg_ringctl.scan_ring = '1MB';
SET pg_ringctl.mode = observe;
SELECT mode, ring_buffers > 0 AS ring, source, threshold, reason FROM resolved;
SELECT ring_buffers, source, threshold, reason FROM pg_ringctl_resolve('small');
SET pg_ringctl.mode = off;
SELECT mode, ring_buffers > 0 AS ring, source, threshold, reason FROM resolved;
SELECT ring_buffers, source, threshold, reason FROM pg_ringctl_resolve('small');
RESET ALL;

-- what is not touched, and what can't be scanned
CREATE TEMP TABLE temporary AS SELECT 1 AS one;
SELECT relid::regclass, ring_kb, ring_buffers, ring_buffers_max AS max, source, look_ahead_max, threshold, blocks, reason FROM pg_ringctl_resolve('temporary');
SELECT ring_kb, ring_buffers, ring_buffers_max AS max, source, look_ahead_max, threshold, blocks > 0 AS blocks, reason
  FROM pg_ringctl_resolve('pg_class');
SELECT r.* FROM pg_ringctl_resolve(NULL) r;
CREATE MATERIALIZED VIEW matview AS SELECT * FROM small;
SELECT source FROM pg_ringctl_resolve('matview');
DROP MATERIALIZED VIEW matview;
CREATE TABLE keyed (id int PRIMARY KEY, wide text);
SELECT source, blocks FROM pg_ringctl_resolve('keyed');
SELECT reltoastrelid AS toast FROM pg_class WHERE oid = 'keyed'::regclass \gset
SELECT blocks, reason FROM pg_ringctl_resolve(:toast);
CREATE SEQUENCE seq;
CREATE TABLE parent (id int) PARTITION BY RANGE (id);
CREATE TABLE parent_1 PARTITION OF parent FOR VALUES FROM (0) TO (10) PARTITION BY LIST (id);
CREATE FOREIGN DATA WRAPPER regress_nothing;
CREATE SERVER regress_nowhere FOREIGN DATA WRAPPER regress_nothing;
-- a row for each partition that can be scanned: there is none yet
SELECT * FROM pg_ringctl_resolve('parent');
CREATE TABLE parent_1_1 PARTITION OF parent_1 FOR VALUES IN (1);
CREATE TABLE parent_2 PARTITION OF parent FOR VALUES FROM (10) TO (20);
INSERT INTO parent SELECT 10 FROM generate_series(1, 500);
CREATE FOREIGN TABLE parent_far PARTITION OF parent FOR VALUES FROM (20) TO (30) SERVER regress_nowhere;
SELECT relid::regclass, source, blocks, reason FROM pg_ringctl_resolve('parent') ORDER BY relid;
SELECT relid::regclass FROM pg_ringctl_resolve('parent_1');
-- children by inheritance have rings of their own
CREATE TABLE keyed_heir () INHERITS (keyed);
SELECT relid::regclass, blocks FROM pg_ringctl_resolve('keyed');
CREATE INDEX parent_1_id ON parent_1 (id);
SELECT what, attempt(format('SELECT pg_ringctl_resolve(%L)', what))
  FROM unnest('{keyed_pkey, last, parent, parent_1_id, parent_far, seq, 4294967295, nobody}'::text[]) what;
DROP TABLE keyed, keyed_heir, parent;
DROP FOREIGN DATA WRAPPER regress_nothing CASCADE;
DROP SEQUENCE seq;

-- What was said is what comes, and what was there to be read.
CREATE FUNCTION agrees(rel regclass, VARIADIC settings text[])
RETURNS TABLE (source text, same_source boolean, same_size boolean, same_blocks boolean) LANGUAGE plpgsql AS $$
DECLARE
    said record;
BEGIN
    PERFORM apply(settings);
    SELECT * INTO said FROM pg_ringctl_resolve(rel);
    EXECUTE 'SELECT count(*) FROM ' || rel;
    -- a ring that sizes itself begins as was said, and may have grown
    RETURN QUERY SELECT l.source, l.source = said.source,
                        l.ring_buffers = said.ring_buffers AND l.ring_kb = said.ring_kb OR
                        current_setting('pg_ringctl.scan_ring') = '-1' AND l.ring_buffers > said.ring_buffers,
                        l.blocks = said.blocks
                   FROM pg_ringctl_last_scans() l;
END $$;
SELECT * FROM agrees('big', 'pg_ringctl.scan_ring=-1');
SELECT * FROM agrees('big', 'pg_ringctl.scan_ring=64');
SELECT * FROM agrees('big', 'pg_ringctl.scan_ring=65536');
SELECT * FROM agrees('big', 'pg_ringctl.max_ring=64');
SELECT * FROM agrees('big', 'pg_ringctl.headroom=100', 'effective_io_concurrency=3');
SELECT * FROM agrees('big', 'pg_ringctl.mode=observe', 'pg_ringctl.scan_ring=64');
SELECT * FROM agrees('small', 'pg_ringctl.scan_ring=64', 'pg_ringctl.scan_threshold=19');

--
-- Blocks that were asked for, and never got.  (Of a scan that is repeated before
-- it has come to its end, that is not known to the block.)
--
SET pg_ringctl.scan_threshold = 0;
CREATE FUNCTION consumed_by(query text, rel regclass DEFAULT 'big')
RETURNS TABLE (consumed bigint, rest boolean, exact boolean) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_ringctl_stats_reset();
    EXECUTE query;
    RETURN QUERY SELECT blocks - blks_unconsumed, blks_unconsumed > 0, exact() FROM stats(rel);
END $$;
SELECT what, c.*
  FROM (VALUES ('all', 'SELECT count(*) FROM big'),
               ('a row', 'SELECT id FROM big LIMIT 1'),
               ('a page', 'SELECT id FROM big LIMIT 4'),
               ('a page and a row', 'SELECT id FROM big LIMIT 5'),
               ('100 pages', 'SELECT id FROM big OFFSET 399 LIMIT 1'),
               ('all but a page', 'SELECT id FROM big LIMIT 20476'),
               ('all rows', 'SELECT id FROM big LIMIT 20480'),
               ('twice a row', 'SELECT (SELECT id FROM big WHERE id >= g LIMIT 1) FROM generate_series(1, 2) g'),
               ('twice all', 'SELECT (SELECT count(*) FROM big WHERE id >= g) FROM generate_series(1, 2) g')
       ) q (what, query), consumed_by(query) c;
SET pg_ringctl.scan_ring = '64kB';
SELECT * FROM consumed_by('SELECT id FROM big LIMIT 400');
SET pg_ringctl.mode = observe;
SELECT * FROM consumed_by('SELECT id FROM big LIMIT 400');
RESET ALL;
SET pg_ringctl.scan_threshold = 0;
SELECT * FROM consumed_by('SELECT id FROM small LIMIT 41', 'small');
-- what is remembered says the same
SELECT blocks - blks_unconsumed AS consumed, last_is_counted() FROM last;
SET effective_io_concurrency = 0;
SET io_combine_limit = 1;
-- where look-ahead takes a block each time that one is got, rescans are exact
SELECT consumed, exact
  FROM consumed_by('SELECT (SELECT id FROM big WHERE id >= g OFFSET 398 LIMIT 1) FROM generate_series(1, 2) g');
SELECT pg_ringctl_stats_reset() IS NOT NULL AS reset;
SELECT id FROM big OFFSET 399 LIMIT 1;
SELECT blocks, blks_unconsumed FROM stats('big');
SELECT blocks, blks_unconsumed FROM last;
RESET ALL;
-- the first block of a backward scan is the last one
SELECT pg_ringctl_stats_reset() IS NOT NULL AS reset;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM big;
FETCH LAST FROM c;
FETCH BACKWARD 5 FROM c;
COMMIT;
SELECT blocks - blks_unconsumed AS consumed FROM stats('big');
-- one that failed
SELECT pg_ringctl_stats_reset() IS NOT NULL AS reset;
SELECT count(*) FROM small;
SELECT count(1 / (id - 401)) FROM big;
SELECT blocks - blks_unconsumed BETWEEN 1 AND 101 AS consumed, exact() FROM stats('big');
--
-- What WITH modifies and the query does not read is its scan's time, too
--
CREATE TABLE unread AS SELECT id, repeat('x', 1090) AS pad FROM generate_series(1, 7000) id;
SET pg_ringctl.scan_threshold = 0;
WITH d AS (DELETE FROM unread WHERE CASE id WHEN 3500 THEN pg_sleep(0.3) IS NOT NULL ELSE true END RETURNING id)
SELECT id FROM d LIMIT 1;
SELECT scans, elapsed_time >= 200 AS slept FROM pg_ringctl_last_scans() WHERE relid = 'unread'::regclass;
RESET pg_ringctl.scan_threshold;
DROP TABLE unread;

DROP VIEW verdict, resolved;
DROP FUNCTION last_is_exact, last_is_counted, scan_twice, scan_and_look, scan_in_worker, agrees, consumed_by CASCADE;
DROP VIEW last;
