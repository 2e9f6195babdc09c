-- clean: scans of tables whose pages need no writing.
--
-- Claims: through our ring, of any size, the hot table survives, there are no
-- more pages left of the table than the ring has buffers, nothing escapes, and
-- the result is the server's, row by row in the same order, however the scan
-- is driven: to its end or not, backward, held, again and again, in any place
-- of a plan.  What was counted as read is what EXPLAIN says.  "observe" leaves
-- behind what the server leaves, and counts it; "off" does not even count.

--
-- Every size
--
SELECT ring, combine, v.*
  FROM unnest('{-1, 64kB, 72kB, 128kB, 200kB, 256kB, 1MB, 2MB}'::text[]) ring,
       unnest('{8kB, 128kB, 256kB}'::text[]) combine,
       LATERAL judge('SELECT id, v FROM big', 'big', 1, 'pg_ringctl.scan_ring=' || ring,
                     'io_combine_limit=' || combine) v;

-- Small tables have rings where the threshold says so, and hits are hits.
SELECT rel, v.* FROM unnest('{big,small}'::regclass[]) rel,
       LATERAL judge(format('SELECT id, v FROM %s', rel), rel, 1,
                     'pg_ringctl.scan_threshold=0') v;
-- Where it says nothing, they are left alone, and not counted.
SELECT fresh();
SELECT digest('SELECT id FROM small') = digest('SELECT id FROM small') AS same;
SELECT count(*) AS counted FROM pg_ringctl_stats;

--
-- Every shape of a plan that reads "big".  In a new session: this one has lent
-- rings of 2 MB, and hands out their buffers in turn.
--
\c -
CREATE FUNCTION rows_of_small(int) RETURNS bigint LANGUAGE plpgsql AS
$$ BEGIN RETURN (SELECT count(*) FROM small WHERE v <> $1); END $$;
CREATE FUNCTION rows_of_big(int) RETURNS bigint LANGUAGE plpgsql AS
$$ BEGIN RETURN (SELECT count(*) FROM big WHERE v = $1); END $$;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
SELECT what, v.*
  FROM (VALUES
        ('all', 'SELECT id, v FROM big', 1),
        ('some', 'SELECT id FROM big WHERE v = 7', 1),
        ('limit', 'SELECT id FROM big LIMIT 300', 1),
        ('limit offset', 'SELECT id FROM big OFFSET 20000 LIMIT 10', 1),
        ('aggregate', 'SELECT count(*), sum(id) FROM big', 1),
        ('sort', 'SELECT id FROM big ORDER BY v, id DESC', 1),
        ('whole rows', 'SELECT b FROM big b WHERE v < 3', 1),
        ('system columns', 'SELECT ctid, xmin <> ''0'' FROM big', 1),
        ('rescan: inner of a nested loop',
         'SELECT s.id, b.id FROM small s JOIN big b ON b.v = s.v WHERE s.id <= 5', 1),
        ('rescan: correlated',
         'SELECT s.id, (SELECT max(id) FROM big b WHERE b.v = s.v) FROM small s WHERE s.id <= 5', 1),
        ('rescan: lateral, not to the end',
         'SELECT s.id, l.id FROM small s, LATERAL (SELECT id FROM big b WHERE b.v = s.v LIMIT 30) l
           WHERE s.id <= 5', 1),
        ('hashed subplan',
         'SELECT id FROM small WHERE id + 20470 NOT IN (SELECT id FROM big)', 1),
        ('exists', 'SELECT id FROM small s WHERE EXISTS (SELECT FROM big b WHERE b.id = s.id * 200)', 1),
        ('union all', 'SELECT id FROM big UNION ALL SELECT -id FROM big', 1),
        ('cte', 'WITH b AS MATERIALIZED (SELECT id, v FROM big) SELECT id FROM b WHERE v = 7', 1),
        ('cte, twice', 'WITH b AS MATERIALIZED (SELECT id, v FROM big WHERE v < 5)
                        SELECT x.id, y.id FROM b x JOIN b y ON y.id = x.id + 1', 1),
        ('recursion', 'WITH RECURSIVE r (n, id) AS (SELECT 1, 1 UNION ALL
                         SELECT n + 1, (SELECT min(b.id) FROM big b WHERE b.id > r.id + 3000)
                           FROM r WHERE n < 6) SELECT * FROM r', 1),
        ('window', 'SELECT id, row_number() OVER () FROM big', 1),
        ('function that scans a small one', 'SELECT id, rows_of_small(v) FROM big WHERE v < 3', 1),
        ('function that scans the same', 'SELECT id, rows_of_big(v) FROM big WHERE id % 4000 = 7', 2),
        ('self-join', 'SELECT a.id, b.v FROM big a, big b WHERE a.id % 5000 = 1 AND b.id = a.id', 2)) q (what, query, rings),
       LATERAL judge(query, 'big', rings) v;

-- However often a table is scanned again, and however far each time, the ring
-- takes buffers from others once.
SELECT fresh();
SELECT digest('SELECT id FROM small s WHERE EXISTS (SELECT FROM big b WHERE b.id = s.id * 200)') <> '' AS done;
SELECT scans > 50 AS again, blks_read > 100 * ring_buffers_max AS far,
       fills <= 2 * ring_buffers_max AS once FROM stats('big');
RESET ALL;

-- Rescans that stop in the first blocks, and some that go on.
SELECT ring, combine, v.*
  FROM unnest('{-1, 64kB, 256kB, 2MB}'::text[]) ring,
       unnest('{8kB, 128kB}'::text[]) combine,
       LATERAL judge('SELECT g, (SELECT id FROM big WHERE id > CASE g % 9 WHEN 1 THEN g * 7919 % 2003 ELSE g % 15 END LIMIT 1)
                        FROM generate_series(1, 300) g', 'big', 1, 'pg_ringctl.scan_ring=' || ring,
                     'io_combine_limit=' || combine) v;
-- The next slot may have the first block, which is found, while the second one
-- is read.
CREATE FUNCTION evict(block int) RETURNS bigint LANGUAGE sql AS $$
    SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache
     WHERE relfilenode = pg_relation_filenode('big') AND relblocknumber = block;
$$;
SET effective_io_concurrency = 0;
SET io_combine_limit = 1;
SET pg_ringctl.scan_ring = '64kB';
SELECT fresh();
SELECT digest('SELECT evict(1), (SELECT id FROM big WHERE id > CASE g WHEN 1 THEN 30 ELSE 12 END LIMIT 1)
                 FROM generate_series(1, 30) g') <> '' AS done;
SELECT scans, blks_read >= 30 AS read_again, escapes_pinned + escapes_adopted AS escapes FROM stats('big');
RESET ALL;
DROP FUNCTION evict;

-- Nor does a query leave more behind each time: neither a hash join, which
-- fetches a row of the outer table before it reads the inner one, nor a LIMIT
-- over a table whose first pages have no visible row.
CREATE FUNCTION run_often(query text, n int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 2 .. n LOOP
        PERFORM digest(query);
    END LOOP;
    RETURN digest(query);
END $$;
CREATE TABLE gone AS TABLE big;
DELETE FROM gone WHERE id <= 200;
VACUUM (FREEZE, TRUNCATE off) gone;
SELECT fresh();
SELECT run_often('SELECT id FROM gone LIMIT 100000', 10) <> '' AS done;
SELECT cached('gone') <= 3 * ring_buffers_max AS in_rings, hot_survives() FROM stats('gone');
DROP TABLE gone;
SET enable_mergejoin = off;
SET enable_nestloop = off;
SET work_mem = '64MB';
SELECT fresh();
SELECT run_often('SELECT a.id FROM big a JOIN big b USING (id)', 10) <> '' AS done;
SELECT cached('big') <= 3 * ring_buffers_max AS in_rings, hot_survives() FROM stats('big');
RESET ALL;

-- With hash and merge joins.
SELECT what, v.*
  FROM (VALUES
        ('hash', 'SELECT count(*) FROM big a JOIN big b ON a.id = b.id'),
        ('hash, full', 'SELECT count(*), sum(b.id) FROM big a FULL JOIN big b ON a.id = b.id + 100'),
        ('hashed subplan', 'SELECT id FROM big WHERE id % 100 = 7 AND id NOT IN
                             (SELECT id FROM big WHERE v = 8)')) q (what, query),
       LATERAL judge(query, 'big', 2) v;
SET enable_hashjoin = off;
SELECT * FROM judge('SELECT a.id FROM big a JOIN big b ON a.id = b.id', 'big', 2);
RESET ALL;

-- A scan through a ring so small that look-ahead and two tuples' pages are
-- more than it holds.
SELECT v.* FROM judge('SELECT a.id, b.v FROM big a, big b WHERE a.id % 10000 = 1 AND b.id = a.id',
                      'big', 2, 'pg_ringctl.scan_ring=64kB') v;

-- Synchronized scans start somewhere; the rows are the same.
SELECT v.* FROM judge('SELECT * FROM (SELECT id FROM big OFFSET 0) b ORDER BY id', 'big', 1,
                      'synchronize_seqscans=on') v;

--
-- Prepared statements, also with a generic plan.  In a new session: this one
-- has lent two rings, and hands them out in turn.
--
\c -
PREPARE by_v (int) AS SELECT count(*) FROM big WHERE v = $1;
SELECT fresh();
EXECUTE by_v (1);
EXECUTE by_v (2);
EXECUTE by_v (3);
EXECUTE by_v (4);
EXECUTE by_v (5);
EXECUTE by_v (6);
EXECUTE by_v (7);
SELECT generic_plans > 0 AS generic FROM pg_prepared_statements WHERE name = 'by_v';
SELECT scans, escapes_pinned, escapes_dirty, hot_survives(), exact(),
       cached('big') <= ring_buffers_max AS in_ring FROM stats('big');
DEALLOCATE by_v;

--
-- Cursors
--
SELECT fresh();
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM big;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH BACKWARD 2 FROM c;	-- before the first
FETCH 2 FROM c;
MOVE 10000 FROM c;
FETCH 2 FROM c;
MOVE ALL FROM c;
FETCH 2 FROM c;			-- past the last
FETCH 2 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH ABSOLUTE 5000 FROM c;
FETCH ABSOLUTE -5000 FROM c;
FETCH RELATIVE -480 FROM c;
FETCH LAST FROM c;
FETCH NEXT FROM c;
FETCH PRIOR FROM c;
MOVE BACKWARD ALL FROM c;
FETCH NEXT FROM c;
-- Two at once, one of them read the other way.
DECLARE d SCROLL CURSOR FOR SELECT id FROM big;
MOVE LAST FROM d;
FETCH BACKWARD 2 FROM d;
FETCH 2 FROM c;
FETCH BACKWARD 2 FROM d;
CLOSE c;
FETCH BACKWARD 2 FROM d;
COMMIT;
SELECT scans >= 2 AS scanned, escapes_pinned, escapes_dirty, hot_survives(), exact(),
       cached('big') <= 2 * ring_buffers_max AS in_rings FROM stats('big');

-- Held ones: what was read before the commit, and what after it.
SELECT fresh();
BEGIN;
DECLARE h SCROLL CURSOR WITH HOLD FOR SELECT id FROM big;
FETCH 2 FROM h;
COMMIT;
FETCH 2 FROM h;
FETCH BACKWARD 2 FROM h;
MOVE LAST FROM h;
FETCH BACKWARD 2 FROM h;
CLOSE h;
SELECT scans >= 1 AS scanned, escapes_pinned, escapes_dirty, hot_survives(), exact() FROM stats('big');
BEGIN;
DECLARE h NO SCROLL CURSOR WITH HOLD FOR SELECT id FROM big WHERE id % 7000 = 0;
ROLLBACK;
BEGIN;
DECLARE h NO SCROLL CURSOR WITH HOLD FOR SELECT id FROM big WHERE id % 7000 = 0;
COMMIT;
FETCH ALL FROM h;
CLOSE h;

-- A savepoint that goes takes the cursor with it.
BEGIN;
SAVEPOINT s;
DECLARE c CURSOR FOR SELECT id FROM big;
FETCH 1 FROM c;
ROLLBACK TO s;
FETCH 1 FROM c;
ROLLBACK;
-- A cursor of the outer transaction goes on after a failed savepoint.
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM big;
FETCH 1 FROM c;
SAVEPOINT s;
FETCH 1 FROM c;
SELECT 1/0;
ROLLBACK TO s;
SELECT count(*) FROM big;
FETCH 1 FROM c;
COMMIT;

-- A long walk in all directions, compared with the server's.
CREATE FUNCTION walk(query text) RETURNS SETOF int LANGUAGE plpgsql AS $$
DECLARE
    c refcursor;
    id int;
    n int := 4711;
BEGIN
    OPEN c SCROLL FOR EXECUTE query;
    FOR i IN 1 .. 200 LOOP
        n := (n::bigint * 16807 % 2147483647)::int;
        CASE n % 8
            WHEN 0 THEN FETCH NEXT FROM c INTO id;
            WHEN 1 THEN FETCH PRIOR FROM c INTO id;
            WHEN 2 THEN FETCH RELATIVE 0 FROM c INTO id;
            ELSE NULL;
        END CASE;
        CASE n % 8
            WHEN 3 THEN FETCH RELATIVE (n / 8 % 1500) FROM c INTO id;
            WHEN 4 THEN FETCH RELATIVE (- (n / 8 % 1500)) FROM c INTO id;
            WHEN 5 THEN FETCH ABSOLUTE (n / 8 % 25000) FROM c INTO id;
            WHEN 6 THEN MOVE FORWARD (n / 8 % 3000) FROM c;
            WHEN 7 THEN MOVE BACKWARD (n / 8 % 3000) FROM c;
            ELSE NULL;
        END CASE;
        RETURN NEXT id;
    END LOOP;
    FETCH LAST FROM c INTO id;
    WHILE FOUND LOOP
        RETURN NEXT id;
        FETCH PRIOR FROM c INTO id;
    END LOOP;
    CLOSE c;
END $$;
SELECT ring, v.* FROM unnest('{-1, 64kB, 128kB}'::text[]) ring,
       LATERAL judge('SELECT * FROM walk(''SELECT id FROM big'')', 'big', 1,
                     'pg_ringctl.scan_ring=' || ring) v;

--
-- Runs of empty pages, in the middle and at the end
--
CREATE TABLE holes AS SELECT * FROM big;
SELECT blocks('holes') AS before \gset
DELETE FROM holes WHERE id > 20480 * 0.75 OR id BETWEEN 20480 * 0.25 AND 20480 * 0.5
   OR id / 100 % 5 = 0;
VACUUM (TRUNCATE off) holes;
SELECT blocks('holes') = :before AS not_truncated;
SELECT ring, v.*
  FROM unnest('{-1, 64kB, 128kB, 256kB, 1MB}'::text[]) ring,
       LATERAL judge('SELECT id, v FROM holes', 'holes', 1, 'pg_ringctl.scan_ring=' || ring) v;
SELECT v.* FROM judge('SELECT * FROM walk(''SELECT id FROM holes'')', 'holes', 1,
                      'pg_ringctl.scan_ring=128kB') v;
-- The server leaves pages behind here; "observe" counts them as escapes.
SET pg_ringctl.mode = off;
SELECT fresh();
SELECT count(*) FROM holes;
SELECT cached('holes') AS left_by_stock \gset
SET pg_ringctl.mode = observe;
SELECT fresh();
SELECT count(*) FROM holes;
SELECT escapes_pinned > 0 AS escapes, exact(),
       cached('holes') = fills + escapes_pinned + escapes_adopted AS counted_what_is_left,
       :left_by_stock > ring_buffers AS stock_leaks,
       abs(cached('holes') - :left_by_stock) <= 0.1 * :left_by_stock AS leaves_what_stock_leaves
  FROM stats('holes');
RESET pg_ringctl.mode;
--
-- What was counted as read is what EXPLAIN says was read
--
CREATE FUNCTION explain_agrees(query text, scan_ring text, slack float DEFAULT 0)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    told bigint;
BEGIN
    PERFORM set_config('pg_ringctl.scan_ring', scan_ring, true), fresh();
    -- a session's first look for a policy reads catalogs, and the query would
    -- be told that
    PERFORM pg_ringctl_resolve(relation) FROM unnest('{small,big,holes}'::regclass[]) relation;
    told := read_by_explain(query);
    RETURN told > 0 AND exact() AND
           (SELECT abs(told - sum(blks_read)) <= slack * told FROM pg_ringctl_stats);
END $$;
SELECT ring, explain_agrees('SELECT * FROM big', ring) AS whole,
       explain_agrees('SELECT * FROM holes', ring) AS holes,
       explain_agrees('SELECT * FROM generate_series(1, 5) s, LATERAL (SELECT count(*) FROM big WHERE v = s) l',
                      ring) AS rescans
  FROM unnest('{-1, 64kB, 128kB, 2MB}'::text[]) ring;
-- Two scans of one table, at the same pages at the same time.  (17 says it read
-- a page also where the other scan was about to.)
SELECT ring, explain_agrees('SELECT a.id FROM big a, big b WHERE a.id % 5000 = 1 AND b.id = a.id',
                            ring, 0.001) AS hashed,
       explain_agrees('SELECT count(*) FROM big a CROSS JOIN LATERAL
                        (SELECT FROM big b WHERE b.id = a.id OFFSET 0) l WHERE a.id % 5000 = 1', ring, 0.001)
       AS nested
  FROM unnest('{-1, 64kB, 128kB, 2MB}'::text[]) ring;
-- A scan that is ended early may start a last read after EXPLAIN has looked.
-- The relation's own statistics see that.
CREATE FUNCTION statistics_agree(query text, scan_ring text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    told bigint;
BEGIN
    PERFORM set_config('pg_ringctl.scan_ring', scan_ring, true), fresh();
    told := pg_stat_get_xact_blocks_fetched('big'::regclass) - pg_stat_get_xact_blocks_hit('big'::regclass);
    PERFORM digest(query);
    told := pg_stat_get_xact_blocks_fetched('big'::regclass) - pg_stat_get_xact_blocks_hit('big'::regclass) - told;
    RETURN told > 0 AND told = (SELECT blks_read FROM stats('big')) AND exact();
END $$;
SELECT ring, statistics_agree('SELECT id FROM big LIMIT 200', ring) AS "limit",
       statistics_agree('SELECT s.id FROM small s, LATERAL (SELECT FROM big WHERE v = s.v LIMIT 5) l', ring)
       AS rescans
  FROM unnest('{-1, 64kB, 128kB, 2MB}'::text[]) ring;
-- Of what is there already, nothing is read.
SET pg_ringctl.scan_threshold = 0;
SELECT digest('SELECT * FROM hot') <> '' AS done;	-- a first look for its TOAST table reads catalogs, too
SELECT fresh();
SELECT source FROM pg_ringctl_resolve('hot');
SELECT read_by_explain('SELECT * FROM hot') = 0 AS all_hits;
SELECT blks_hit = blocks AND blocks = blocks('hot') AS all_hits FROM stats('hot');
RESET pg_ringctl.scan_threshold;

--
-- Nothing but empty pages, and no page at all
--
DELETE FROM holes;
VACUUM (TRUNCATE off) holes;
SELECT v.* FROM judge('SELECT count(*) FROM holes', 'holes') v;
TRUNCATE holes;
SET pg_ringctl.scan_threshold = 0;
SELECT fresh();
SELECT count(*) FROM holes;
SELECT scans, blocks, blks_read FROM stats('holes');
RESET pg_ringctl.scan_threshold;
DROP TABLE holes;

--
-- What is left alone leaves no row
--
CREATE TEMP TABLE temporary AS SELECT * FROM small;
CREATE EXTENSION file_fdw;
CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
CREATE FOREIGN TABLE far (line text) SERVER files OPTIONS (program 'echo 1');
SELECT fresh();
SET pg_ringctl.scan_threshold = 0;
SELECT count(*) > 0 AS rows FROM pg_class;
SELECT count(*) FROM temporary;
SELECT count(*) FROM far;
SELECT count(*) FROM generate_series(1, 10);
SELECT count(*) AS counted FROM pg_ringctl_stats;
-- but this one does
SELECT count(*) FROM small;
SELECT relname, kind, scans FROM pg_ringctl_stats;
RESET pg_ringctl.scan_threshold;
DROP EXTENSION file_fdw CASCADE;
DROP TABLE temporary;

--
-- mode = off and observe
--
SET pg_ringctl.mode = off;
SELECT fresh();
SELECT count(*) FROM big;
SELECT count(*) AS counted FROM pg_ringctl_stats;
SELECT cached('big') AS left_by_stock \gset
SET pg_ringctl.mode = observe;
SELECT fresh();
SELECT count(*) FROM big;
SELECT scans, exact(), ring_buffers > 0 AS ringed,
       cached('big') = fills + escapes_pinned + escapes_adopted AS counted_what_is_left,
       abs(cached('big') - :left_by_stock) <= 0.02 * :left_by_stock + 2 AS left_what_stock_leaves
  FROM stats('big');
-- Our parameters are not for observing.
SET pg_ringctl.scan_ring = '64kB';
SET pg_ringctl.scan_threshold = 0;
SELECT fresh();
SELECT digest('SELECT id FROM small') <> '' AS done;
SELECT count(*) FROM big;
SELECT relname, ring_buffers >= 32 AS servers_own FROM pg_ringctl_stats ORDER BY relname;
RESET ALL;

DROP FUNCTION rows_of_small, rows_of_big, walk, explain_agrees, statistics_agree;
