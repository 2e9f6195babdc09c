-- index_scans: index scans that read ahead, and index scans through a ring.
--
-- Claims: with index_read_ahead an index scan returns the server's rows in the
-- server's order, in every plan, and with read-ahead forced from the first page on,
-- too.  It reads ahead only when it has missed some pages, and under a LIMIT no
-- more than is wanted; what was read in vain is counted.  A policy says the same
-- for one table.  The statistics of the index are the server's.  Scans of other
-- kinds of indexes are left alone.  A ring, for which somebody gives the size, is
-- independent of read-ahead: the hot table survives the scan.

CREATE INDEX big_by_id ON big (id);
CREATE INDEX big_by_v ON big (v, id DESC);
CREATE INDEX big_by_hash ON big USING hash (id);
VACUUM (ANALYZE, FREEZE) big;
SET enable_seqscan = off;
SET enable_bitmapscan = off;

-- What the scans of the last statement read ahead, one row for each scan.
CREATE VIEW ahead AS
    SELECT relid::regclass AS rel, scans, blocks, blks_read, blks_unconsumed, ring_buffers
      FROM pg_ringctl_last_scans() ORDER BY plan_node_id;

-- As judge(), for queries that need not be read through a ring.
CREATE FUNCTION same_rows(query text, VARIADIC settings text[] DEFAULT '{}') RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    stock text;
BEGIN
    PERFORM set_config('pg_ringctl.index_read_ahead', 'off', true), fresh();
    stock := digest(query);
    PERFORM apply(settings);
    PERFORM set_config('pg_ringctl.index_read_ahead', 'on', true), fresh();
    RETURN stock NOT LIKE '0 %' AND digest(query) = stock;
END $$;

--
-- Rows, in order
--
CREATE TABLE queries (what text, query text);
INSERT INTO queries VALUES
    ('in order of the table', 'SELECT id, v FROM big WHERE id BETWEEN 100 AND 15000 ORDER BY id'),
    ('backward', 'SELECT id, v FROM big WHERE id BETWEEN 100 AND 15000 ORDER BY id DESC'),
    ('in another order', 'SELECT id, v FROM big WHERE v < 30 ORDER BY v, id DESC'),
    ('backward, in another order', 'SELECT id, v FROM big WHERE v < 30 ORDER BY v DESC, id'),
    ('a filter', 'SELECT id FROM big WHERE v BETWEEN 10 AND 40 AND id % 7 = 0 AND filler <> '''' ORDER BY v, id DESC'),
    ('an array', 'SELECT id, v FROM big WHERE v = ANY (''{3, 17, 18, 90}'') AND filler <> '''' ORDER BY v, id DESC'),
    ('an array, backward', 'SELECT id, v FROM big WHERE v = ANY (''{3, 17, 18, 90}'') AND filler <> '''' ORDER BY v DESC, id'),
    ('index-only', 'SELECT id, v FROM big WHERE v < 50 ORDER BY v, id DESC'),
    ('LIMIT', 'SELECT id, filler FROM big WHERE v >= 5 ORDER BY v, id DESC LIMIT 1000'),
    ('LIMIT, OFFSET', 'SELECT id, filler FROM big WHERE v >= 5 ORDER BY v, id DESC LIMIT 10 OFFSET 500'),
    ('LIMIT, a filter', 'SELECT id, filler FROM big WHERE v >= 5 AND id % 50 = 3 ORDER BY v, id DESC LIMIT 100'),
    ('WITH TIES', 'SELECT v, filler FROM big WHERE v >= 5 ORDER BY v FETCH FIRST 250 ROWS WITH TIES'),
    ('nested loop', 'SELECT x, b.id, b.filler FROM generate_series(1, 50) x, LATERAL (SELECT id, filler FROM big WHERE v = x ORDER BY id DESC OFFSET 0) b'),
    ('one row each', 'SELECT x, (SELECT filler FROM big WHERE id = x * 37) FROM generate_series(1, 500) x'),
    ('two scans of one table', 'SELECT a.id, b.id FROM big a JOIN big b ON b.id = a.v * 100 + 1 WHERE a.v < 3 ORDER BY a.v, a.id DESC'),
    ('mark and restore', 'SELECT a.id, b.id FROM big a JOIN big b USING (v) WHERE a.v < 20 AND a.id < 3000 AND b.id < 3000 ORDER BY a.v');
SELECT what, same_rows(query) AS by_default, same_rows(query, 'pg_ringctl.index_read_ahead_after=0') AS forced,
       same_rows(query, 'pg_ringctl.index_read_ahead_after=0', 'effective_io_concurrency=0') AS no_concurrency,
       same_rows(query, 'pg_ringctl.index_read_ahead_after=0', 'pg_ringctl.scan_ring=64kB', 'pg_ringctl.scan_threshold=0') AS in_ring,
       same_rows(query, 'pg_ringctl.index_read_ahead_after=0', 'pg_ringctl.scan_ring=64kB', 'pg_ringctl.scan_threshold=0',
                 'enable_hashjoin=off', 'enable_nestloop=off') AS merge_joins
  FROM queries;
SELECT bool_and(same_rows(query, 'pg_ringctl.index_read_ahead_after=0', 'max_parallel_workers_per_gather=2', 'parallel_setup_cost=0',
                          'parallel_tuple_cost=0', 'min_parallel_index_scan_size=0', 'min_parallel_table_scan_size=0')) AS parallel
  FROM queries;

-- pages that are not all visible, dead rows, rows that others have not committed
BEGIN;
UPDATE big SET v = v + 1 WHERE id % 10 = 3;
DELETE FROM big WHERE id % 10 = 4;
SELECT bool_and(same_rows(query, 'pg_ringctl.index_read_ahead_after=0')) AS same FROM queries;
ROLLBACK;
SELECT bool_and(same_rows(query, 'pg_ringctl.index_read_ahead_after=0')) AS same FROM queries;
VACUUM (ANALYZE, FREEZE) big;

-- a cursor forward and backward, over pages of the index, and in a subtransaction that fails
CREATE FUNCTION fetched(ahead boolean) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    c SCROLL CURSOR FOR SELECT id, v, filler FROM big WHERE v >= 20 ORDER BY v, id DESC;
    r record;
    move text;
BEGIN
    PERFORM set_config('pg_ringctl.index_read_ahead', ahead::text, true), set_config('pg_ringctl.index_read_ahead_after', '0', true), fresh();
    c := 'c';
    OPEN c;
    FOREACH move IN ARRAY '{FORWARD 300, BACKWARD 20, FORWARD 700, BACKWARD 900, NEXT, PRIOR, FORWARD 1200, ABSOLUTE 3, LAST, BACKWARD 10, FIRST}'::text[] LOOP
        EXECUTE 'MOVE ' || move || ' IN c';
        FETCH c INTO r;
        RETURN NEXT concat_ws(' ', move, r.id, r.v);
        BEGIN
            PERFORM 1 / (count(*) - count(*)) FROM big WHERE v < 10 AND filler <> '';
        EXCEPTION WHEN division_by_zero THEN
            NULL;
        END;
    END LOOP;
    CLOSE c;
END $$;
SELECT array_agg(f ORDER BY f) = (SELECT array_agg(f ORDER BY f) FROM fetched(false) f) AS same, count(*) FROM fetched(true) f;

--
-- How much is read ahead
--
-- A scan of "small" that is read ahead: if that is what "ahead" shows, the next statement has none.
CREATE INDEX small_by_id ON small (id);
CREATE FUNCTION mark() RETURNS void LANGUAGE plpgsql
    SET pg_ringctl.index_read_ahead = on SET pg_ringctl.index_read_ahead_after = 0 AS $$
BEGIN
    PERFORM count(filler) FROM small WHERE id > 0;
END $$;
CREATE FUNCTION anew() RETURNS void LANGUAGE sql BEGIN ATOMIC SELECT fresh(); SELECT mark(); END;
SET pg_ringctl.index_read_ahead = on;
SELECT anew();
SELECT count(filler) FROM big WHERE v = 0;	-- 205 pages
-- the first 16 pages by the server's own means
SELECT rel, scans, blocks BETWEEN 180 AND 189 AS blocks, blocks = blks_read AS all_read, blks_unconsumed, ring_buffers FROM ahead;
-- found in the pool: nothing is read ahead
SELECT mark();
SELECT count(filler) FROM big WHERE v = 0;
SELECT rel FROM ahead;
SELECT anew();
SELECT count(filler) FROM (SELECT filler FROM big WHERE v >= 5 ORDER BY v LIMIT 10) s;
SELECT rel FROM ahead;
SELECT anew();
SELECT count(filler) FROM (SELECT filler FROM big WHERE v >= 5 ORDER BY v LIMIT 100) s;
SELECT blocks BETWEEN 70 AND 84 AS blocks, blks_unconsumed FROM ahead;
-- forced from the first page on, too
SET pg_ringctl.index_read_ahead_after = 0;
SELECT anew();
SELECT count(filler) FROM (SELECT filler FROM big WHERE v >= 5 ORDER BY v LIMIT 1) s;
SELECT blocks, blks_unconsumed FROM ahead;
SELECT anew();
SELECT count(filler) FROM (SELECT filler FROM big WHERE v >= 5 ORDER BY v LIMIT 100) s;
SELECT blocks BETWEEN 99 AND 100 AS blocks, blks_unconsumed FROM ahead;
-- and when it is rescanned
SELECT anew();
SELECT count(s.filler) FROM generate_series(5, 25, 5) g, LATERAL (SELECT filler FROM big WHERE v >= g ORDER BY v LIMIT 100) s;
SELECT blocks BETWEEN 490 AND 500 AS blocks, blks_unconsumed FROM ahead;
-- left in the middle by who wants no more
SELECT anew();
SELECT count(filler) FROM (SELECT filler FROM big WHERE v >= 5 AND id % 2 = 0 ORDER BY v LIMIT 100) s;
SELECT blocks > 0 AS some, blks_unconsumed <= blocks / 2 AS most_are_wanted FROM ahead;
RESET pg_ringctl.index_read_ahead_after;
-- a scan through a ring that goes back to a mark after 205 rows, again and again,
-- stays in its ring
RESET pg_ringctl.index_read_ahead;
SET pg_ringctl.scan_ring = '64kB';
SET pg_ringctl.scan_threshold = 0;
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_material = off;
CREATE TABLE pairs AS SELECT v FROM generate_series(0, 29) v, generate_series(1, 2);
ANALYZE pairs;
DO $$
DECLARE
    plan text;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT json) SELECT count(filler) FROM pairs JOIN big USING (v)' INTO plan;
    ASSERT plan ~ 'Merge Join.*Index Scan', plan;
END $$;
SELECT anew();
SELECT count(filler) FROM pairs JOIN big USING (v);
SELECT cached('big') <= 16 + 8 AS in_ring;
DROP TABLE pairs;
RESET pg_ringctl.scan_ring;
RESET pg_ringctl.scan_threshold;
RESET enable_hashjoin;
RESET enable_nestloop;
RESET enable_material;
SET pg_ringctl.index_read_ahead = on;

-- the index's statistics: a scan is a scan, and its rows are as many
CREATE FUNCTION index_stats() RETURNS bigint[] LANGUAGE sql VOLATILE
RETURN ARRAY[pg_stat_get_xact_numscans('big_by_v'::regclass), pg_stat_get_xact_tuples_returned('big_by_v'::regclass),
             pg_stat_get_xact_tuples_fetched('big_by_v'::regclass)];
CREATE FUNCTION counted_by_index(ahead text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    before bigint[] := index_stats();
    later bigint[];
BEGIN
    PERFORM set_config('pg_ringctl.index_read_ahead', ahead, true), fresh();
    PERFORM count(filler) FROM big WHERE v < 10;
    later := index_stats();
    RETURN format('%s scan, %s entries, %s rows', later[1] - before[1], later[2] - before[2], later[3] - before[3]);
END $$;
SELECT counted_by_index('off'), counted_by_index('on');

--
-- Which scans
--
SELECT anew();
SELECT count(filler) FROM big WHERE id = 4711;	-- few rows are expected
SET enable_indexonlyscan = off;
SELECT count(filler) FROM big WHERE id = 4712 AND v = 11;
SELECT rel FROM ahead;
RESET enable_indexonlyscan;
-- observe, off
SELECT anew();
SELECT mode, set_config('pg_ringctl.mode', mode, false) = mode AS set, fresh(), digest('SELECT filler FROM big WHERE v < 20 ORDER BY v') <> '' AS done
  FROM unnest('{observe, off}'::text[]) mode;
SELECT rel FROM ahead;
RESET pg_ringctl.mode;
-- policies
RESET pg_ringctl.index_read_ahead;
SELECT anew();
SELECT count(filler) FROM big WHERE v = 1;
SELECT rel FROM ahead;
SELECT pg_ringctl_set_policy('big', index_read_ahead => true);
SELECT relname, scan_ring, scan_threshold, dirty_pages, index_read_ahead FROM pg_ringctl_policies;
SELECT anew();
SELECT count(filler) FROM big WHERE v = 1;
SELECT rel, scans, blks_unconsumed FROM ahead;
SET pg_ringctl.index_read_ahead = on;
SELECT pg_ringctl_set_policy('big', index_read_ahead => false);
SELECT anew();
SELECT count(filler) FROM big WHERE v = 2;
SELECT rel FROM ahead;
SET pg_ringctl.use_policies = off;
SELECT anew();
SELECT count(filler) FROM big WHERE v = 2;
SELECT rel FROM ahead;
RESET pg_ringctl.use_policies;
SELECT attempt('SECURITY LABEL FOR pg_ringctl ON TABLE big IS ''index_read_ahead=perhaps''');
SELECT index_read_ahead FROM unnest('{index_read_ahead=Yes, index_read_ahead=0, index_read_ahead=maybe}'::text[]) l, pg_ringctl_parse_policy(l);
SELECT pg_ringctl_drop_policy('big');
RESET pg_ringctl.index_read_ahead;

--
-- A ring, with and without read-ahead
--
-- The hot table is half of the pool, and a quarter of the pool may be left by a
-- scan before its ring is closed; in any case some pages before there is a ring.
CREATE FUNCTION judge_index_scan(query text, VARIADIC settings text[])
RETURNS TABLE (same boolean, hot boolean, "left" text, scans bigint, escapes bigint, exact boolean) LANGUAGE plpgsql AS $$
DECLARE
    stock text;
BEGIN
    PERFORM set_mode('off'), fresh();
    stock := digest(query);
    PERFORM set_mode('control');
    PERFORM apply(settings);
    PERFORM fresh();
    same := stock NOT LIKE '0 %' AND digest(query) = stock;
    hot := hot_survives();
    SELECT t.scans, t.escapes_pinned + t.escapes_dirty,
           CASE WHEN cached('big') <= t.ring_buffers + 20 THEN 'a ring'
                WHEN cached('big') <= t.ring_buffers + 512 + 64 THEN 'a ring, and a quarter of the pool' ELSE 'more' END
      INTO scans, escapes, "left" FROM stats('big', 'indexscan') t;
    exact := exact();
    RETURN NEXT;
END $$;
SELECT ahead, threshold, j.* FROM unnest('{off, on}'::text[]) ahead, unnest('{-1, 0}'::text[]) threshold,
       LATERAL judge_index_scan('SELECT id, filler FROM big WHERE v >= 0 ORDER BY v, id DESC', 'pg_ringctl.index_read_ahead=' || ahead,
                                'pg_ringctl.scan_ring=1MB', 'pg_ringctl.scan_threshold=' || threshold) j;
SELECT ahead, j.* FROM unnest('{off, on}'::text[]) ahead,
       LATERAL judge_index_scan('SELECT id, filler FROM big WHERE id > 10 ORDER BY id', 'pg_ringctl.index_read_ahead=' || ahead,
                                'pg_ringctl.scan_ring=256kB', 'pg_ringctl.scan_threshold=0') j;
-- none where fewer rows are expected than would close the ring, and none of a size that nobody gave
SELECT setting, fresh(), set_config('pg_ringctl.' || split_part(setting, '=', 1), split_part(setting, '=', 2), true) IS NOT NULL AS set,
       digest('SELECT id, filler FROM big WHERE v < 2 ORDER BY v') <> '' AS done, (SELECT count(*) FROM stats('big', 'indexscan')) AS counted
  FROM unnest('{scan_ring=1MB, scan_ring=0, scan_threshold=0}'::text[]) setting;
-- by a policy
SELECT pg_ringctl_set_policy('big', '1MB', 0);
SELECT j.* FROM judge_index_scan('SELECT id, filler FROM big WHERE v >= 0 ORDER BY v, id DESC', 'pg_ringctl.track=on') j;
SELECT pg_ringctl_drop_policy('big');

DROP VIEW ahead;
DROP TABLE queries;
DROP FUNCTION same_rows(text, text[]), fetched(boolean), counted_by_index(text), index_stats(), judge_index_scan(text, text[]), anew(), mark();
DROP INDEX big_by_id, big_by_v, big_by_hash, small_by_id;
