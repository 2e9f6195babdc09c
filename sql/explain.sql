-- explain: the option RING of EXPLAIN, which there is from 18 on.
--
-- Claims: each sequential scan, TID range scan and bitmap heap scan says which
-- ring it has and what it did with it, in every format; without ANALYZE, which
-- it would get and why; a scan that has none says why not, and other nodes say
-- nothing; an index scan says what it has read ahead, or why nothing, if anybody
-- asked for that or for a ring; the numbers of a rescanned, partitioned or
-- parallel scan are those of all of it.

SELECT current_setting('server_version_num')::int < 180000 AS no_such_option \gset
\if :no_such_option
EXPLAIN (RING) SELECT count(*) FROM big;
\quit
\endif

VACUUM (FULL, FREEZE, ANALYZE) small;	-- others have changed it
SELECT fresh();
SET pg_ringctl.scan_ring = '1MB';
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;

-- Explain it with these options and what keeps the output stable.
CREATE FUNCTION explain(query text, options text DEFAULT 'ANALYZE, RING')
RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE format('EXPLAIN (COSTS off, %s%s) %s',
        CASE WHEN options ~ 'ANALYZE' THEN 'TIMING off, SUMMARY off, BUFFERS off, ' END, options, query) LOOP
        RETURN NEXT line;
    END LOOP;
END $$;

-- What "Ring" says of each scan, as JSON.
CREATE FUNCTION rings(query text, options text DEFAULT 'ANALYZE, RING')
RETURNS TABLE (rel text, ring jsonb) LANGUAGE plpgsql AS $$
DECLARE
    plan text;
BEGIN
    SELECT string_agg(line, E'\n') INTO plan FROM explain(query, options || ', FORMAT json') line;
    RETURN QUERY SELECT n ->> 'Relation Name', n -> 'Ring'
                   FROM jsonb_path_query(plan::jsonb, 'strict $.**?(@.Ring.type() == "object")') n;
END $$;

--
-- What a scan did
--
SELECT * FROM explain('SELECT count(*) FROM big');
SELECT * FROM explain('SELECT count(*) FROM small');	-- too small for a ring
SET pg_ringctl.scan_ring = 0;
SELECT * FROM explain('SELECT count(*) FROM small');
SELECT ring - 'Hit Blocks' - 'Read Blocks' AS big FROM rings('SELECT count(*) FROM big');
SELECT ring ->> 'Source' AS small FROM rings('SELECT count(*) FROM small');
RESET pg_ringctl.scan_ring;
SELECT (ring ->> 'Ring Buffers')::int > 0 AS ring, ring ->> 'Source' AS source FROM rings('SELECT count(*) FROM big');

-- in other formats
\c -
SELECT fresh();
SET pg_ringctl.scan_ring = '1MB';
SELECT * FROM explain('SELECT * FROM big', 'ANALYZE, RING, FORMAT json');
SELECT * FROM explain('SELECT * FROM small', 'ANALYZE, RING, FORMAT yaml');
SELECT * FROM explain('SELECT * FROM small', 'ANALYZE, RING, FORMAT xml');

-- A scan that ends early: the blocks that it had got, and those it had not.
\c -
SELECT fresh();
SET pg_ringctl.scan_ring = '1MB';
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET effective_io_concurrency = 0;
SET io_combine_limit = 1;
SELECT * FROM explain('SELECT id FROM big LIMIT 41');
SELECT * FROM explain('SELECT FROM small LIMIT 1');
RESET effective_io_concurrency;
RESET io_combine_limit;
SELECT (ring ->> 'Blocks')::int - (ring ->> 'Unconsumed Blocks')::int AS consumed
  FROM unnest('{1, 4, 5, 400, 20477, 20480, 20481}'::int[]) WITH ORDINALITY l (rows, n),
       rings('SELECT id FROM big LIMIT ' || rows) ORDER BY n;

-- One that never begins
SELECT * FROM explain('SELECT * FROM hot h, small s WHERE h.id < 0 AND s.v = h.v', 'ANALYZE, RING');
SELECT * FROM explain('SELECT * FROM small WHERE current_setting(''block_size'') = ''0''');
SELECT * FROM explain('SELECT * FROM small LIMIT 0', 'ANALYZE, RING, FORMAT yaml');
SELECT * FROM explain('SELECT * FROM big LIMIT 0');
-- One that never begins, and would be left to the server's ring; and one that is left while the server still reads its first blocks
RESET pg_ringctl.scan_ring;
SELECT * FROM explain('SELECT * FROM hot LIMIT 0');
SELECT * FROM explain('SELECT FROM big LIMIT 1');
SELECT ring FROM rings('SELECT FROM big LIMIT 1');
SET pg_ringctl.scan_ring = '1MB';

-- One that is made again and again: its ring stays.
\c -
SELECT fresh();
SET pg_ringctl.scan_ring = '64kB';
SET pg_ringctl.scan_threshold = 0;
SELECT * FROM explain('SELECT count(*) FROM generate_series(1, 3) g, LATERAL
                         (SELECT FROM small s WHERE s.id > g OFFSET 0) l');

-- Partitions: one ring for all
CREATE TABLE parted (id int, filler text) PARTITION BY RANGE (id);
CREATE TABLE parted_0 PARTITION OF parted FOR VALUES FROM (0) TO (100);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (100) TO (200);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (200) TO (300);
INSERT INTO parted SELECT i, repeat('x', 1800) FROM generate_series(0, 299) i;
VACUUM (ANALYZE, FREEZE) parted;
\c -
SELECT fresh();
SET pg_ringctl.scan_ring = '64kB';
SET pg_ringctl.scan_threshold = 0;
SELECT * FROM explain('SELECT * FROM parted');
-- some are not scanned
PREPARE pruned AS SELECT * FROM parted WHERE id < $1;
SET plan_cache_mode = force_generic_plan;
SELECT * FROM explain('EXECUTE pruned(150)');
SELECT * FROM explain('EXECUTE pruned(0)', 'RING');
DROP TABLE parted;

-- Changes
SELECT * FROM explain('UPDATE small SET v = v WHERE id = 0');
SELECT * FROM explain('INSERT INTO small SELECT * FROM small WHERE id = 0');
SELECT * FROM explain('CREATE TEMP TABLE t AS SELECT * FROM small');
DROP TABLE t;

--
-- What a scan would do
--
\c -
SET pg_ringctl.scan_ring = '1MB';
SELECT * FROM explain('SELECT count(*) FROM big', 'RING');
SELECT * FROM explain('SELECT FROM big, small', 'RING');
SELECT * FROM explain('SELECT FROM big', 'RING, FORMAT json');
SELECT * FROM explain('UPDATE big SET v = 0', 'RING');
SELECT * FROM explain('DELETE FROM big USING small WHERE big.ctid = small.ctid', 'RING');
SELECT * FROM explain('SELECT FROM big WHERE id = $1', 'GENERIC_PLAN, RING');
SELECT pg_ringctl_stats_reset() IS NOT NULL AS reset;
SELECT * FROM explain('SELECT FROM big', 'RING');
SELECT count(*) AS counted FROM pg_ringctl_stats;
SET pg_ringctl.scan_ring = 0;
SELECT * FROM explain('SELECT FROM big', 'RING');
SET pg_ringctl.scan_ring = '16GB';
SELECT * FROM explain('SELECT FROM big', 'RING');
SET pg_ringctl.max_ring = '512kB';
SELECT * FROM explain('SELECT FROM big', 'RING');
RESET pg_ringctl.max_ring;
SET pg_ringctl.scan_threshold = 5120;
SELECT * FROM explain('SELECT FROM big', 'RING');
SET pg_ringctl.scan_threshold = 5119;
SELECT * FROM explain('SELECT FROM big', 'RING');
RESET pg_ringctl.scan_threshold;
SET pg_ringctl.mode = observe;
SELECT * FROM explain('SELECT FROM small', 'RING');
SELECT ring ->> 'Source' AS source, ring ->> 'Reason' AS reason, (ring ->> 'Ring Buffers')::int > 0 AS ring
  FROM rings('SELECT FROM big', 'RING');
SET pg_ringctl.mode = off;
SELECT * FROM explain('SELECT FROM small', 'RING');
RESET pg_ringctl.mode;
RESET pg_ringctl.scan_ring;
SET effective_io_concurrency = 0;
SET io_combine_limit = 8;
SELECT * FROM explain('SELECT FROM big', 'RING');
RESET effective_io_concurrency;
RESET io_combine_limit;

-- What was said is what comes.
CREATE FUNCTION ring_of(options text) RETURNS text LANGUAGE sql
RETURN (SELECT coalesce((ring ->> 'Source') || ' ' || (ring ->> 'Ring Buffers'), 'none: ' || (ring ->> 'Reason')) FROM rings('SELECT FROM big', options));
SELECT setting, split_part(ring_of('RING'), ' ', 1) AS source,
       ring_of('RING') = ring_of('ANALYZE, RING') OR      -- or it has grown
       setting IN ('scan_ring=-1', 'mode=control') AND ring_of('ANALYZE, RING') LIKE 'chosen %' AS same
  FROM unnest('{scan_ring=-1, scan_ring=0, scan_ring=64, scan_ring=2000, scan_ring=65536,
                max_ring=128, mode=observe, scan_threshold=5120, mode=control}'::text[]) setting,
       LATERAL (SELECT set_config('pg_ringctl.scan_ring', '-1', false),
                       set_config('pg_ringctl.' || split_part(setting, '=', 1),
                                  split_part(setting, '=', 2), false) OFFSET 0) c;
DROP FUNCTION ring_of;
RESET ALL;

--
-- Not attached
--
SET pg_ringctl.scan_ring = '1MB';
CREATE TEMP TABLE temporary AS SELECT * FROM small;
SELECT * FROM explain('SELECT count(*) FROM temporary');
SELECT * FROM explain('SELECT count(*) FROM temporary', 'RING');
CREATE INDEX hot_id ON hot (id);
SELECT * FROM explain('SELECT v FROM hot WHERE id = 1');
SELECT * FROM explain('SELECT v FROM hot WHERE id = 1', 'RING, FORMAT yaml');
SET enable_indexscan = off;
SELECT * FROM explain('SELECT v FROM hot WHERE id = 1', 'RING');
SET enable_indexonlyscan = off;
SET enable_bitmapscan = off;
SELECT * FROM explain('SELECT 1 FROM pg_am WHERE amname = ''heap''');
RESET enable_indexscan;
RESET enable_indexonlyscan;
RESET enable_bitmapscan;
DROP INDEX hot_id;
SELECT * FROM explain('SELECT FROM small WHERE ctid = ''(0,1)''', 'RING');
SELECT * FROM explain('SELECT FROM small TABLESAMPLE system (100)', 'RING');
SELECT * FROM explain('SELECT FROM generate_series(1, 3)', 'RING');
CREATE MATERIALIZED VIEW matview AS SELECT * FROM small;
SELECT * FROM explain('SELECT FROM matview');		-- is touched
DROP MATERIALIZED VIEW matview;

SET pg_ringctl.mode = off;
SELECT * FROM explain('SELECT count(*) FROM big');
SELECT * FROM explain('SELECT * FROM small LIMIT 0');
SELECT ring FROM rings('SELECT count(*) FROM big');
RESET pg_ringctl.mode;
SET pg_ringctl.track = off;
SELECT * FROM explain('SELECT count(*) FROM small');
SELECT ring ->> 'Ring Buffers' AS big FROM rings('SELECT count(*) FROM big');
RESET pg_ringctl.track;

-- The kill switch; wait for it in commands of their own.
ALTER SYSTEM SET pg_ringctl.enabled = off;
SELECT pg_reload_conf();
\o /dev/null
SELECT 1 WHERE current_setting('pg_ringctl.enabled')::bool \watch i=0.05 c=600 m=1
\o
SELECT * FROM explain('SELECT count(*) FROM big');
SELECT * FROM explain('SELECT count(*) FROM small', 'RING');
ALTER SYSTEM RESET pg_ringctl.enabled;
SELECT pg_reload_conf();
\o /dev/null
SELECT 1 WHERE NOT current_setting('pg_ringctl.enabled')::bool \watch i=0.05 c=600 m=1
\o
SELECT * FROM explain('SELECT count(*) FROM small', 'RING');

--
-- TID range scans and bitmap heap scans
--
SELECT fresh();
SET pg_ringctl.scan_ring = '1MB';
SET enable_seqscan = off;
SELECT * FROM explain('SELECT count(*) FROM big WHERE ctid >= ''(100,1)'' AND ctid < ''(4100,1)''');
SELECT * FROM explain('SELECT count(*) FROM big WHERE ctid < ''(100,1)''');
-- (19 gives subplans other names.)
SELECT regexp_replace(line, '(InitPlan|SubPlan) \w+', '\1', 'g') AS explain
  FROM explain('SELECT count(*) FROM big WHERE ctid < ''(4100,1)'' AND ctid < (SELECT NULL::tid)') line;
SELECT regexp_replace(line, '(InitPlan|SubPlan) \w+', '\1', 'g') AS explain
  FROM explain('SELECT g, (SELECT count(*) FROM big WHERE ctid >= format(''(%s,1)'', g * 1000)::tid) FROM generate_series(1, 3) g') line;
-- what it would get, as far as the range is known
SELECT * FROM explain('SELECT count(*) FROM big WHERE ctid >= ''(100,1)'' AND ctid < ''(4100,1)''', 'RING');
SELECT * FROM explain('SELECT count(*) FROM big WHERE ctid < ''(100,1)''', 'RING');
CREATE INDEX big_v ON big (v);
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SELECT fresh();
SELECT * FROM explain('SELECT count(*) FROM big WHERE v < 60');
SELECT regexp_replace(line, '\m[1-9]\d{2} blocks are', 'N blocks are') AS explain
  FROM explain('SELECT count(*) FROM big WHERE v = 7') line;
-- what it would get: by the number of rows that is expected
SELECT regexp_replace(line, '\m[1-9]\d{2} blocks are', 'N blocks are') AS explain
  FROM explain('SELECT count(*) FROM big WHERE v = 7', 'RING') line;
SELECT * FROM explain('SELECT count(*) FROM big WHERE v < 60', 'RING');
SELECT * FROM explain('SELECT count(*) FROM big WHERE v < -1', 'RING');
-- the ring is one for the relation, even if few of its blocks are expected
SET pg_ringctl.scan_threshold = 0;
SET pg_ringctl.scan_ring = '8MB';
SET pg_ringctl.max_ring = '8MB';
SELECT * FROM explain('SELECT count(*) FROM big WHERE v = 7', 'RING');
RESET pg_ringctl.max_ring;
RESET pg_ringctl.scan_threshold;
SET pg_ringctl.scan_ring = 0;
SELECT * FROM explain('SELECT count(*) FROM big WHERE v < 60', 'RING');
SET pg_ringctl.mode = observe;
SELECT * FROM explain('SELECT count(*) FROM big WHERE v < 60', 'RING');
SELECT * FROM explain('SELECT count(*) FROM big WHERE ctid >= ''(100,1)''');
RESET pg_ringctl.mode;
SET pg_ringctl.scan_ring = '1MB';
RESET enable_seqscan;
RESET enable_indexscan;
RESET enable_indexonlyscan;
DROP INDEX big_v;

--
-- Not asked for
--
SELECT * FROM explain('SELECT count(*) FROM big', 'ANALYZE');
SELECT * FROM explain('SELECT count(*) FROM big', 'ANALYZE, RING off');
SELECT * FROM explain('SELECT count(*) FROM big', 'RING false');
SELECT * FROM explain('SELECT count(*) FROM big', 'RING, RING off');
SELECT * FROM explain('SELECT count(*) FROM small', 'RING 0, RING 1');
SELECT attempt('EXPLAIN (RING perhaps) SELECT 1');

--
-- Parallel: who reads how much is chance, the sums are not.
--
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT fresh();
SELECT regexp_replace(regexp_replace(regexp_replace(line,
           '(fills|reuses)=\d+', '\1=N', 'g'),
           '(Worker . Ring Blocks: total=)\d+( hit=0 read=)\d+', '\1N\2N'),
           '(Worker .:  actual rows=|actual rows=(?!1\.|3\.))\S+', '\1N')
  FROM explain('SELECT count(*) FROM big', 'ANALYZE, RING, VERBOSE') line
 WHERE line !~ 'Worker 1';
SELECT * FROM explain('SELECT count(*) FROM big', 'RING, VERBOSE');

-- The workers alone: what they did is all that was done.
SET parallel_leader_participation = off;
SELECT fresh();
CREATE TABLE ring AS SELECT ring FROM rings('SELECT count(*) FROM big', 'ANALYZE, RING, VERBOSE');
SELECT ring - '{Workers, Fills, Reuses}'::text[] AS ring,
       (ring -> 'Fills')::int + (ring -> 'Reuses')::int AS "read" FROM ring;
SELECT count(*) AS workers, min(w ->> 'Worker Number') AS first, max(w ->> 'Worker Number') AS last,
       sum((w -> 'Blocks')::int) AS blocks, sum((w -> 'Read Blocks')::int) AS "read",
       sum((w -> 'Fills')::int) = max((ring -> 'Fills')::int) AS fills,
       sum((w -> 'Reuses')::int) = max((ring -> 'Reuses')::int) AS reuses
  FROM ring, jsonb_array_elements(ring -> 'Workers') w;
-- not for all to see
SELECT ring ? 'Workers' AS workers, ring -> 'Blocks' AS blocks FROM rings('SELECT count(*) FROM big');
RESET parallel_leader_participation;
-- and with them, no more than all
SELECT ring -> 'Blocks' AS blocks, ring -> 'Unconsumed Blocks' AS unconsumed,
       (SELECT sum((w -> 'Blocks')::int) FROM jsonb_array_elements(ring -> 'Workers') w)
       <= (ring -> 'Blocks')::int AS parts
  FROM rings('SELECT count(*) FROM big', 'ANALYZE, RING, VERBOSE');

-- TID ranges, which 18 does not scan in parallel, and bitmaps
CREATE INDEX big_v ON big (v);
SET enable_seqscan = off;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SET min_parallel_index_scan_size = 0;
SELECT ring -> 'Blocks' AS blocks, ring -> 'Unconsumed Blocks' AS unconsumed
  FROM rings('SELECT count(*) FROM big WHERE ctid >= ''(1000,1)''');
SELECT count(*) AS gathers FROM explain('SELECT count(*) FROM big WHERE v < 60') line WHERE line ~ 'Gather';
SELECT (ring -> 'Blocks')::int > 3000 AS blocks, ring -> 'Unconsumed Blocks' AS unconsumed,
       (SELECT sum((w -> 'Blocks')::int) FROM jsonb_array_elements(ring -> 'Workers') w)
       <= (ring -> 'Blocks')::int AS parts
  FROM rings('SELECT count(*) FROM big WHERE v < 60', 'ANALYZE, RING, VERBOSE');
DROP INDEX big_v;
RESET enable_seqscan;
RESET enable_indexscan;
RESET enable_indexonlyscan;

-- Not parallel, but below a Gather; rescans of it: new workers each time
SET pg_ringctl.scan_threshold = 0;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
SELECT rel, (ring -> 'Blocks')::int / blocks(rel::regclass) AS scans, (ring -> 'Blocks')::int % blocks(rel::regclass) AS rest
  FROM rings('SELECT count(*) FROM hot h, small s WHERE h.id <= 8 AND h.v = s.v');
SELECT rel, (ring -> 'Blocks')::int / blocks(rel::regclass) AS scans, (ring -> 'Blocks')::int % blocks(rel::regclass) AS rest
  FROM rings('SELECT g, (SELECT count(*) FROM hot h WHERE h.id > g OFFSET 0) FROM generate_series(1, 3) g')
 ORDER BY 1;
DROP TABLE ring;

--
-- Index scans: where read-ahead, or a ring of a given size, is asked for
--
\c -
SET enable_seqscan = off;
SET enable_bitmapscan = off;
CREATE INDEX big_v ON big (v);
ANALYZE big;
SELECT fresh();
SELECT * FROM explain('SELECT filler FROM big WHERE v = 7 ORDER BY v LIMIT 150');
SET pg_ringctl.index_read_ahead = on;
SELECT * FROM explain('SELECT filler FROM big WHERE v = 7 ORDER BY v LIMIT 150', 'RING');
SELECT fresh();
SELECT * FROM explain('SELECT filler FROM big WHERE v = 7 ORDER BY v LIMIT 150');
SELECT * FROM explain('SELECT filler FROM big WHERE v = 7 ORDER BY v LIMIT 150');
SELECT * FROM explain('SELECT filler FROM big WHERE v = 7 AND id = 7', 'RING');
SELECT fresh();
SELECT n -> 'Read Ahead' -> 'Attached' AS attached, n -> 'Read Ahead' -> 'Blocks' AS blocks, n -> 'Read Ahead' ? 'Ring Buffers' AS ring
  FROM (SELECT string_agg(line, E'\n')::jsonb AS plan
          FROM explain('SELECT filler FROM big WHERE v = 7 ORDER BY v LIMIT 150', 'ANALYZE, RING, FORMAT json') line) p,
       jsonb_path_query(plan, 'strict $.**?(@."Read Ahead".type() == "object")') n;
DROP INDEX big_v;
CREATE INDEX big_hash ON big USING hash (v);
SELECT * FROM explain('SELECT filler FROM big WHERE v = 7 LIMIT 150');
DROP INDEX big_hash;
-- only a ring, with the first pages left in the pool
CREATE INDEX big_v ON big (v);
RESET pg_ringctl.index_read_ahead;
SET pg_ringctl.scan_ring = '256kB';
SET pg_ringctl.scan_threshold = 100;
SELECT * FROM explain('SELECT filler FROM big WHERE v = 7 ORDER BY v LIMIT 150', 'RING');
SELECT fresh();
SELECT * FROM explain('SELECT filler FROM big WHERE v = 7 ORDER BY v LIMIT 150');
DROP INDEX big_v;
DROP FUNCTION explain, rings;
