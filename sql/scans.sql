-- scans: what a session's last scans did, and what the next one would get.
--
-- Claims: pg_ringctl_last_scans() has a row for each scan and process of the
-- last statement that had any and did not fail, and its numbers are those of
-- pg_ringctl_stats; pg_ringctl_resolve() tells the ring that a scan then gets,
-- and why; blocks that a scan asked for but never got are counted.

VACUUM (FULL, FREEZE, ANALYZE) small;	-- others have changed it
CREATE VIEW last AS
    SELECT relid, worker, scans, ring_kb, ring_buffers, source, blocks, blks_hit, blks_read, blks_unringed,
           unconsumed, fills, reuses
      FROM pg_ringctl_last_scans();

-- Does what is remembered add up, and is it what was counted?
CREATE FUNCTION last_is_exact() RETURNS boolean LANGUAGE sql
BEGIN ATOMIC
    SELECT bool_and(blocks = blks_hit + blks_read + blks_unringed
                    AND blks_read = fills + reuses + escapes_pinned + escapes_adopted
                    AND ring_kb * 1024 = ring_buffers * current_setting('block_size')::bigint
                    AND least(unconsumed, escapes_dirty, slots_lost, wal_flushes, elapsed_ms) >= 0
                    AND plan_node_id >= 0)
      FROM pg_ringctl_last_scans();
END;
CREATE FUNCTION last_is_counted() RETURNS boolean LANGUAGE sql
BEGIN ATOMIC
    SELECT bool_and(counted = (SELECT row(sum(l.scans), count(l.worker), sum(l.blocks), sum(l.blks_hit),
                                          sum(l.blks_read), sum(l.blks_unringed), sum(l.fills), sum(l.reuses),
                                          sum(l.escapes_pinned), sum(l.escapes_dirty), sum(l.escapes_adopted),
                                          sum(l.slots_lost), sum(l.unconsumed), sum(l.wal_flushes))
                                 FROM pg_ringctl_last_scans() l WHERE l.relid = s.relid))
      FROM (SELECT relid, row(scans::numeric, workers, blocks::numeric, blks_hit::numeric, blks_read::numeric,
                              blks_unringed::numeric, fills::numeric, reuses::numeric, escapes_pinned::numeric,
                              escapes_dirty::numeric, escapes_adopted::numeric, slots_lost::numeric,
                              unconsumed::numeric, wal_flushes::numeric) AS counted
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
SELECT last_is_exact(), last_is_counted(), elapsed_ms > 0 AS elapsed FROM pg_ringctl_last_scans();
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

-- several scans: a join, a union, subqueries
SELECT pg_ringctl_stats_reset() IS NOT NULL AS reset;
SELECT count(*) FROM big b JOIN small s USING (id);
SELECT * FROM (SELECT relid, scans, ring_buffers, source, blocks, unconsumed FROM last ORDER BY relid::text) l;
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
    RETURN QUERY SELECT relid FROM pg_ringctl_last_scans();
    PERFORM count(*) FROM small;
    RETURN QUERY SELECT relid FROM pg_ringctl_last_scans();
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
SELECT relid, scans, source, blocks - unconsumed AS consumed FROM last;
COMMIT;
DELETE FROM hot WHERE false;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM small;
MOVE 5 FROM c;
COMMIT;
SELECT relid, scans, source, blocks - unconsumed AS consumed FROM last;

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
    SELECT relid, sum(scans) AS scans, count(*) FILTER (WHERE worker IS NULL) AS leaders,
           string_agg(worker::text, ' ' ORDER BY worker) AS workers, sum(blocks) AS blocks,
           sum(unconsumed) AS unconsumed, bool_and(ring_buffers > 0) AS rings,
           last_is_exact(), last_is_counted()
      FROM pg_ringctl_last_scans() GROUP BY relid ORDER BY relid::text;
SET parallel_leader_participation = off;
SELECT fresh();
SELECT count(*) FROM big;
SELECT * FROM verdict;
RESET parallel_leader_participation;
SELECT count(*) FROM big;
SELECT relid, leaders, workers, blocks, unconsumed, rings, last_is_exact FROM verdict;
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
-- ring_kb and look-ahead that are chosen depend on the server's major.
SELECT ring_kb > 0 AS kb, ring_buffers > 0 AS ring, source, look_ahead > 0 AS look_ahead, threshold, blocks,
       regexp_replace(reason, ':.*|the server''s size, ', '', 'g') AS reason
  FROM pg_ringctl_resolve('big');
SELECT ring_kb, ring_buffers, source, look_ahead > 0 AS look_ahead, threshold, blocks, reason
  FROM pg_ringctl_resolve('small');
SET effective_io_concurrency = 0;
SET io_combine_limit = 8;
CREATE VIEW resolved AS
    SELECT current_setting('pg_ringctl.mode') AS mode, r.* FROM pg_ringctl_resolve('big') r;
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
SELECT r.* FROM pg_ringctl_resolve('temporary') r;
SELECT ring_kb, ring_buffers, source, look_ahead, threshold, blocks > 0 AS blocks, reason
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
SELECT what, attempt(format('SELECT pg_ringctl_resolve(%L)', what))
  FROM unnest('{keyed_pkey, last, parent, seq, 4294967295, nobody}'::text[]) what;
DROP TABLE keyed, parent;
DROP SEQUENCE seq;

-- What was said is what comes, and what was there to be read.
CREATE FUNCTION agrees(rel regclass, VARIADIC settings text[])
RETURNS TABLE (source text, same_source boolean, same_size boolean, same_blocks boolean) LANGUAGE plpgsql AS $$
DECLARE
    s text;
    said record;
BEGIN
    FOREACH s IN ARRAY settings LOOP
        PERFORM set_config(split_part(s, '=', 1), split_part(s, '=', 2), true);
    END LOOP;
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
SELECT * FROM agrees('big', 'pg_ringctl.scan_ring=0');
SELECT * FROM agrees('big', 'pg_ringctl.scan_ring=65536');
SELECT * FROM agrees('big', 'pg_ringctl.max_ring=64');
SELECT * FROM agrees('big', 'pg_ringctl.headroom=100', 'effective_io_concurrency=3');
SELECT * FROM agrees('big', 'pg_ringctl.mode=observe', 'pg_ringctl.scan_ring=64');
SELECT * FROM agrees('big', 'pg_ringctl.scan_threshold=5120');
SELECT * FROM agrees('small', 'pg_ringctl.scan_ring=64');
SELECT * FROM agrees('small', 'pg_ringctl.scan_ring=64', 'pg_ringctl.scan_threshold=19');
SELECT * FROM agrees('small', 'pg_ringctl.scan_ring=64', 'pg_ringctl.scan_threshold=20');

--
-- Blocks that were asked for, and never got
--
CREATE FUNCTION consumed_by(query text, rel regclass DEFAULT 'big')
RETURNS TABLE (consumed bigint, rest boolean, exact boolean) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_ringctl_stats_reset();
    EXECUTE query;
    RETURN QUERY SELECT blocks - unconsumed, unconsumed > 0, exact() FROM stats(rel);
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
SET pg_ringctl.scan_ring = 0;
SELECT * FROM consumed_by('SELECT id FROM big LIMIT 400');
SET pg_ringctl.scan_ring = '64kB';
SELECT * FROM consumed_by('SELECT id FROM big LIMIT 400');
SET pg_ringctl.mode = observe;
SELECT * FROM consumed_by('SELECT id FROM big LIMIT 400');
RESET ALL;
SELECT * FROM consumed_by('SELECT id FROM small LIMIT 41', 'small');
-- what is remembered says the same
SELECT blocks - unconsumed AS consumed, last_is_counted() FROM last;
SET effective_io_concurrency = 0;
SET io_combine_limit = 1;
-- where look-ahead takes a block each time that one is got, rescans are exact
SELECT consumed, exact
  FROM consumed_by('SELECT (SELECT id FROM big WHERE id >= g OFFSET 398 LIMIT 1) FROM generate_series(1, 2) g');
SELECT pg_ringctl_stats_reset() IS NOT NULL AS reset;
SELECT id FROM big OFFSET 399 LIMIT 1;
SELECT blocks, unconsumed FROM stats('big');
SELECT blocks, unconsumed FROM last;
RESET ALL;
-- the first block of a backward scan is the last one
SELECT pg_ringctl_stats_reset() IS NOT NULL AS reset;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM big;
FETCH LAST FROM c;
FETCH BACKWARD 5 FROM c;
COMMIT;
SELECT blocks - unconsumed AS consumed FROM stats('big');
-- one that failed
SELECT pg_ringctl_stats_reset() IS NOT NULL AS reset;
SELECT count(*) FROM small;
SELECT count(1 / (id - 401)) FROM big;
SELECT blocks - unconsumed BETWEEN 1 AND 101 AS consumed, exact() FROM stats('big');
-- a scan that is left after it has asked for all, and rescanned when another one begins: 31 pages of 40, twice
CREATE TABLE first_part AS SELECT 0 AS id, 'x' AS pad;
CREATE TABLE second_part AS SELECT id, repeat('x', 1090) AS pad FROM generate_series(1, 280) id;
VACUUM (ANALYZE) first_part, second_part;
SELECT count(pg_buffercache_evict(bufferid)) > 0 AS evicted FROM pg_buffercache
  WHERE relfilenode = pg_relation_filenode('second_part');
SET enable_hashjoin = off;
SET enable_material = off;
SET pg_ringctl.scan_threshold = 0;
SELECT consumed <= 64 AS got, rest, exact
  FROM consumed_by('SELECT count(*) FROM (VALUES (0), (0)) o (x) WHERE EXISTS
                      (SELECT FROM (SELECT id FROM first_part UNION ALL SELECT id FROM second_part) p
                        WHERE p.id > 210 + o.x)', 'second_part');
-- exact where it has come to its end before: all of 40 pages, then one a time; and one page each time
SELECT consumed
  FROM consumed_by('SELECT (SELECT id FROM second_part WHERE id > CASE g WHEN 1 THEN 1000 ELSE 0 END LIMIT 1)
                      FROM generate_series(1, 101) g', 'second_part');
SELECT consumed
  FROM consumed_by('SELECT (SELECT id FROM first_part WHERE id < g LIMIT 1) FROM generate_series(1, 100) g', 'first_part');
RESET ALL;
DROP TABLE first_part, second_part;

--
-- What WITH modifies and the query does not read is its scan's time, too
--
CREATE TABLE unread AS SELECT id, repeat('x', 1090) AS pad FROM generate_series(1, 7000) id;
SET pg_ringctl.scan_threshold = 0;
WITH d AS (DELETE FROM unread WHERE CASE id WHEN 3500 THEN pg_sleep(0.3) IS NOT NULL ELSE true END RETURNING id)
SELECT id FROM d LIMIT 1;
SELECT scans, elapsed_ms >= 200 AS slept FROM pg_ringctl_last_scans() WHERE relid = 'unread'::regclass;
RESET pg_ringctl.scan_threshold;
DROP TABLE unread;

DROP VIEW verdict, resolved;
DROP FUNCTION last_is_exact, last_is_counted, scan_twice, scan_and_look, scan_in_worker, agrees, consumed_by CASCADE;
DROP VIEW last;
