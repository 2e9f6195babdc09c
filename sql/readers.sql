-- readers: what reads a table beside the sequential scan.
--
-- Claims: TID range scans, big bitmap heap scans, TOAST values below a scan, COPY
-- TO and index builds go through rings: the hot table survives, they leave no more
-- pages than the ring has buffers, nothing escapes, and the result is the
-- server's.  Thresholds, policies and sizes are those of sequential scans.  What
-- is small is left alone and not counted, and in observe mode so is what the
-- server gives no ring.  Bulk loads write through a ring of the size that is set.
-- While there are free buffers, a scan leaves its pages there.
--
-- From 18 on bitmap heap scans read by a stream; 17 gives them no ring.  The option
-- RING of EXPLAIN is in explain.sql.

SELECT current_setting('server_version_num')::int >= 180000 AS streams_bitmaps,
       current_setting('server_version_num')::int < 190000 AS has_free_list \gset
CREATE INDEX big_v ON big (v);
CREATE INDEX big_id ON big (id);
-- A page of the TOAST table for each row.
CREATE TABLE doc (id int, body text STORAGE EXTERNAL);
INSERT INTO doc SELECT i, repeat(md5(i::text), 249) FROM generate_series(1, 2500) i;
VACUUM (ANALYZE, FREEZE) big, doc;
SELECT blocks('doc') < 512 AS small_table, blocks(reltoastrelid) > 2048 AS large_toast
  FROM pg_class WHERE oid = 'doc'::regclass;
SELECT reltoastrelid::regclass AS doc_toast FROM pg_class WHERE oid = 'doc'::regclass \gset

-- The copy of a table or query, as a digest.
CREATE FUNCTION copied(what text, options text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    file text := current_setting('data_directory') || '/readers.copy';
BEGIN
    EXECUTE format('COPY %s TO %L %s', what, file, options);
    RETURN md5(pg_read_binary_file(file));
END $$;

-- As judge(), for a kind of reader; also how many scans and blocks it counted.
-- "left" pages stay behind beside one ring.
CREATE FUNCTION judge_reader(kind text, query text, rel regclass DEFAULT 'big', "left" int DEFAULT 0,
                             VARIADIC settings text[] DEFAULT '{}')
RETURNS TABLE (same boolean, hot boolean, in_ring boolean, closed boolean, exact boolean, scans bigint, blocks bigint)
LANGUAGE plpgsql AS $$
DECLARE
    mode text := current_setting('pg_ringctl.mode');
    stock text;
BEGIN
    PERFORM apply(settings);
    PERFORM set_mode('off');
    stock := digest(query);
    PERFORM set_mode(mode);
    PERFORM fresh();
    same := stock NOT LIKE '0 %' AND stock = digest(query);
    hot := hot_survives();
    SELECT cached(rel) <= "left" + t.ring_buffers_max, t.escapes_pinned + t.escapes_dirty = 0, t.scans, t.blocks
      INTO in_ring, closed, scans, blocks FROM stats(rel, judge_reader.kind) t;
    exact := exact();
    RETURN NEXT;
END $$;

-- What was counted, but for sequential scans.
CREATE VIEW counted AS
    SELECT relid::regclass AS rel, kind, scans, blocks, escapes_pinned + escapes_dirty AS escapes, ring_buffers
      FROM pg_ringctl_stats WHERE kind <> 'seqscan' ORDER BY relid::regclass::text, kind;

-- The size of the only ring that was counted; in each row of a query anew.
CREATE FUNCTION ring(boolean) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT ring_buffers FROM counted); END $$;

-- A query that is left alone: it is not counted, and leaves about what it leaves in
-- the server.
CREATE FUNCTION left_alone(query text, rel regclass DEFAULT 'big', VARIADIC settings text[] DEFAULT '{}')
RETURNS TABLE (same boolean, counted bigint, as_server boolean) LANGUAGE plpgsql AS $$
DECLARE
    mode text;
    stock text;
    pages bigint;
BEGIN
    PERFORM apply(settings);
    mode := current_setting('pg_ringctl.mode');
    PERFORM set_mode('off'), fresh();
    stock := digest(query);
    pages := cached(rel);
    PERFORM set_mode(mode), fresh();
    same := stock = digest(query);
    as_server := abs(cached(rel) - pages) <= 0.1 * pages;
    counted := (SELECT count(*) FROM counted);
    RETURN NEXT;
END $$;

--
-- TID ranges
--
SET enable_seqscan = off;
EXPLAIN (COSTS off) SELECT id, v FROM big WHERE ctid >= '(10,2)' AND ctid < '(4000,1)';
SELECT ring, combine, v.*
  FROM unnest('{-1, 64kB, 128kB, 2MB}'::text[]) ring, unnest('{8kB, 128kB, 256kB}'::text[]) combine,
       LATERAL judge_reader('tidrangescan', 'SELECT id, v FROM big WHERE ctid >= ''(10,2)'' AND ctid < ''(4000,1)''',
                            'big', 0, 'pg_ringctl.scan_ring=' || ring, 'io_combine_limit=' || combine) v;
\c -
SET enable_seqscan = off;
SELECT what, v.*
  FROM (VALUES
        ('above', 'ctid > ''(99,4)'''),
        ('from', 'ctid >= ''(100,1)'''),
        ('below', 'ctid < ''(1000,1)'''),
        ('up to', 'ctid <= ''(999,4)'''),
        ('value on the left', '''(100,1)'' <= ctid AND ''(999,4)'' >= ctid'),
        ('the narrowest of several', 'ctid > ''(50,1)'' AND ctid >= ''(100,1)'' AND ctid < ''(999,9)'' AND ctid < ''(2000,1)'''),
        ('beyond the end', 'ctid >= ''(100,1)'' AND ctid < ''(99999999,1)'''),
        ('an expression', 'ctid >= (''('' || 10 * 10 || '',1)'')::tid'),
        ('a stable function', 'ctid >= (''('' || extract(year FROM now())::int / 4000 || '',1)'')::tid'),
        ('a subquery', 'ctid >= (SELECT max(ctid) FROM small)'),
        ('few rows', 'ctid >= ''(100,1)'' AND v % 100 = 7'),
        ('one row at the end', 'ctid >= ''(100,1)'' AND id % 20480 = 0')) r (what, range),
       LATERAL judge_reader('tidrangescan', 'SELECT id, v FROM big WHERE ' || range) v;
SELECT what, v.*
  FROM (VALUES
        ('no row', 'SELECT count(*) FROM big WHERE ctid >= ''(100,1)'' AND v % 100 < 0'),
        ('rescan: other ranges', 'SELECT b.id FROM generate_series(0, 3) g, LATERAL (SELECT id FROM big
             WHERE ctid >= format(''(%s,1)'', g * 1000)::tid AND ctid < format(''(%s,1)'', g * 1000 + 1000)::tid OFFSET 0) b'),
        ('rescan: small ones, too', 'SELECT b.id FROM generate_series(0, 3) g, LATERAL (SELECT id FROM big
             WHERE ctid < format(''(%s,1)'', 1000 - g * 333)::tid OFFSET 0) b'),
        ('rescan: none, too', 'SELECT b.id FROM generate_series(0, 3) g, LATERAL (SELECT id FROM big
             WHERE ctid < CASE WHEN g <> 1 THEN ''(1000,1)''::tid END OFFSET 0) b'),
        ('subselect', 'SELECT g, (SELECT sum(id) FROM big WHERE ctid > format(''(%s,1)'', g * 1000)::tid) FROM generate_series(0, 3) g'),
        ('sort', 'SELECT id FROM big WHERE ctid >= ''(100,1)'' ORDER BY v, id DESC')) q (what, query),
       LATERAL judge_reader('tidrangescan', query) v;
-- not to the end: how far look-ahead goes depends on the server
SELECT what, v.same, v.hot, v.in_ring, v.closed, v.exact, v.scans
  FROM (VALUES
        ('limit', 'SELECT id FROM big WHERE ctid >= ''(100,1)'' LIMIT 300'),
        ('rescan', 'SELECT b.id FROM generate_series(0, 3) g, LATERAL (SELECT id FROM big
             WHERE ctid > format(''(%s,1)'', g * 500)::tid AND v % 100 = g LIMIT 20) b'),
        ('exists', 'SELECT g FROM generate_series(0, 3) g WHERE EXISTS (SELECT FROM big
             WHERE ctid > format(''(%s,1)'', g * 500)::tid AND v % 100 = g OFFSET 0)')) q (what, query),
       LATERAL judge_reader('tidrangescan', query) v;
-- by two nodes at a time: two rings
SELECT what, v.*
  FROM (VALUES
        ('self-join', 'SELECT count(*) FROM (SELECT id FROM big WHERE ctid < ''(2000,1)'' OFFSET 0) a
                         JOIN (SELECT id FROM big WHERE ctid >= ''(1000,1)'' OFFSET 0) b USING (id)'),
        ('union', 'SELECT id FROM big WHERE ctid < ''(1000,1)'' UNION ALL SELECT id FROM big WHERE ctid >= ''(1000,1)'''),
        ('beside a whole scan', 'SELECT count(*) FROM (SELECT v FROM big WHERE ctid < ''(2000,1)'' OFFSET 0) a
                                  WHERE v IN (SELECT v FROM hot)')) q (what, query),
       LATERAL judge_reader('tidrangescan', query, 'big', 256) v;
-- no more than the threshold: 512 blocks, a quarter of shared_buffers
SELECT threshold, range, l.*
  FROM (VALUES (-1, 'ctid < ''(511,4)'''), (-1, 'ctid >= ''(4608,1)'''), (-1, 'ctid < ''(0,1)'''),
               (-1, 'ctid > ''(6000,1)'''), (-1, 'ctid > ''(2000,1)'' AND ctid < ''(1000,1)'''),
               (-1, 'ctid < NULL::tid'), (-1, 'ctid >= (SELECT NULL::tid) AND ctid < ''(4000,1)'''),
               (5120, 'ctid >= ''(0,1)''')) t (threshold, range),
       LATERAL left_alone('SELECT count(*), sum(id) FROM big WHERE ' || range, 'big',
                          'pg_ringctl.scan_threshold=' || threshold) l;
SELECT threshold, range, v.*
  FROM (VALUES (-1, 'ctid < ''(512,1)'''), (-1, 'ctid >= ''(4607,1)'''),	-- a block more
               (5119, 'ctid >= ''(0,1)'''), (0, 'ctid < ''(0,2)''')) t (threshold, range),
       LATERAL judge_reader('tidrangescan', 'SELECT count(*), sum(id) FROM big WHERE ' || range, 'big', 0,
                            'pg_ringctl.scan_threshold=' || threshold) v;
-- a ring of the size that is asked for; none; by a policy
SELECT scan_ring, max_ring, v.*, ring(v.same)
  FROM (VALUES ('64kB', '-1'), ('2000kB', '-1'), ('16GB', '-1'), ('1MB', '72kB')) r (scan_ring, max_ring),
       LATERAL judge_reader('tidrangescan', 'SELECT id FROM big WHERE ctid >= ''(0,1)''', 'big', 0,
                            'pg_ringctl.scan_ring=' || scan_ring, 'pg_ringctl.max_ring=' || max_ring) v;
SELECT * FROM left_alone('SELECT id FROM big WHERE ctid >= ''(0,1)''', 'big', 'pg_ringctl.scan_ring=0');
-- a function that gives the bound is called once
CREATE FUNCTION first_tid() RETURNS tid STABLE LANGUAGE plpgsql AS $$BEGIN RAISE NOTICE 'called'; RETURN '(4000,1)'; END$$;
SET plan_cache_mode = force_generic_plan;
PREPARE from_tid AS SELECT count(*) FROM big WHERE ctid >= first_tid();
SET client_min_messages = warning;
EXPLAIN (COSTS off) EXECUTE from_tid;	-- planning may call it, too
RESET client_min_messages;
EXECUTE from_tid;
DEALLOCATE from_tid;
-- a constant after the function's value is still looked at
SET client_min_messages = warning;
SELECT * FROM left_alone('SELECT id FROM big WHERE ctid >= first_tid() AND ctid < ''(100,1)''');
RESET client_min_messages;
DROP FUNCTION first_tid;
RESET plan_cache_mode;
-- a domain's constraint is checked once
CREATE FUNCTION is_good(tid) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN RAISE NOTICE 'checked'; RETURN true; END$$;
CREATE DOMAIN good_tid AS tid CHECK (is_good(VALUE));
SELECT count(*) FROM big WHERE ctid >= '(4000,1)'::good_tid;
DROP DOMAIN good_tid;
DROP FUNCTION is_good;
SELECT pg_ringctl_set_policy('big', '128kB', '5100');
SELECT v.*, ring(v.same)
  FROM judge_reader('tidrangescan', 'SELECT id FROM big WHERE ctid >= ''(0,1)''') v;
SELECT * FROM left_alone('SELECT id FROM big WHERE ctid > ''(20,1)''');
SELECT pg_ringctl_drop_policy('big');
-- the server gives it no ring: nothing to observe
SELECT * FROM left_alone('SELECT id FROM big WHERE ctid >= ''(0,1)''', 'big', 'pg_ringctl.mode=observe');
-- with a generic plan; after a null no other value is computed
PREPARE up_to_null (tid, int) AS
    SELECT count(*) FROM big WHERE ctid >= $1 AND ctid < format('(%s,0)', 100 / $2)::tid;
PREPARE range (tid, tid) AS SELECT count(*), sum(id) FROM big WHERE ctid >= $1 AND ctid < $2;
SET plan_cache_mode = force_generic_plan;
EXECUTE up_to_null(NULL, 0);
SELECT fresh();
EXECUTE range ('(10,1)', '(4000,1)');
EXECUTE range ('(10,1)', '(20,1)');
EXECUTE range (NULL, '(20,1)');
EXECUTE range ('(1000,1)', '(3000,1)');
SELECT *, hot_survives() FROM (SELECT rel, kind, scans, blocks, escapes FROM counted) c;
RESET plan_cache_mode;
DEALLOCATE range;
-- cursors, forward and back; also within what it has read
SELECT fresh();
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM big WHERE ctid >= '(10,1)' AND ctid < '(4000,1)';
FETCH 2 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH BACKWARD 2 FROM c;	-- before the first
FETCH 2 FROM c;
MOVE 10000 IN c;
FETCH 2 FROM c;
SELECT kind, blocks_done > 2500 AS done, blocks_total > 2500 AS total FROM pg_ringctl_rings WHERE pid = pg_backend_pid();
FETCH BACKWARD 3 FROM c;
MOVE ALL IN c;
FETCH BACKWARD 2 FROM c;
MOVE BACKWARD ALL IN c;
FETCH 1 FROM c;
FETCH LAST FROM c;
FETCH ABSOLUTE 5 FROM c;
DECLARE d CURSOR FOR SELECT id FROM big WHERE ctid >= '(10,1)';
FETCH 1 FROM d;
SAVEPOINT s;
SELECT 1/0;
ROLLBACK TO s;
FETCH 1 FROM c;
FETCH 1 FROM d;
CLOSE c;
FETCH 1 FROM d;
COMMIT;
BEGIN;
DECLARE h SCROLL CURSOR WITH HOLD FOR SELECT id FROM big WHERE ctid > '(2000,0)';
MOVE 3000 IN h;
COMMIT;
FETCH BACKWARD 1 FROM h;
FETCH LAST FROM h;
CLOSE h;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM big WHERE ctid >= '(10,1)' FOR UPDATE;
FETCH 1 FROM c;
MOVE 8000 IN c;
FETCH 1 FROM c;
ROLLBACK;
SELECT escapes, hot_survives(), exact() FROM counted;
-- pages that the scan itself dirties
CREATE TABLE loaded AS SELECT * FROM big;
CHECKPOINT;
SELECT fresh();
SELECT count(*), sum(id) FROM loaded WHERE ctid >= '(0,1)';
SELECT rel, kind, scans, blocks = blocks('loaded') AS all, escapes, hot_survives() FROM counted;
UPDATE loaded SET v = v + 1 WHERE ctid >= '(1000,1)' AND ctid < '(3000,1)' AND id % 40 = 0;
DELETE FROM loaded WHERE ctid >= '(3000,1)' AND id % 40 = 0;
SELECT rel, kind, scans, blocks > blocks('loaded') + 4000 AS all FROM counted;
SELECT count(*), sum(id), sum(v), hot_survives() FROM loaded;
DROP TABLE loaded;
RESET enable_seqscan;

--
-- Bitmap heap scans
--
SET enable_seqscan = off;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
-- As judge_reader(); 17 has no ring for them, and says what is expected.  The
-- first 512 reads, as many as the threshold, leave their pages in the pool.
CREATE FUNCTION judge_bitmap(query text, "left" int DEFAULT 512, VARIADIC settings text[] DEFAULT '{}')
RETURNS TABLE (same boolean, hot boolean, in_ring boolean, closed boolean, exact boolean, scans bigint, far boolean)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT j.same, j.hot, j.in_ring, j.closed, j.exact, j.scans, j.blocks > 512
      INTO same, hot, in_ring, closed, exact, scans, far
      FROM judge_reader('bitmapscan', query, 'big', "left", VARIADIC settings) j;
    IF current_setting('server_version_num')::int < 180000 THEN
        same := same AND scans IS NULL;
        hot := true;
        in_ring := true;
        closed := true;
        exact := true;
        scans := 1;
        far := true;
    END IF;
    RETURN NEXT;
END $$;
EXPLAIN (COSTS off) SELECT id, v FROM big WHERE v < 60;
SELECT ring, combine, v.*
  FROM unnest('{-1, 64kB, 128kB, 2MB}'::text[]) ring, unnest('{8kB, 128kB, 256kB}'::text[]) combine,
       LATERAL judge_bitmap('SELECT id, v FROM big WHERE v < 60', 512,
                            'pg_ringctl.scan_ring=' || ring, 'io_combine_limit=' || combine) v;
\c -
SET enable_seqscan = off;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SELECT what, v.*
  FROM (VALUES
        ('all', 'SELECT id, v FROM big WHERE v >= 0'),
        ('no row', 'SELECT count(*) FROM big WHERE v < 60 AND filler < '''''),
        ('some', 'SELECT id FROM big WHERE v < 60 AND id % 3 = 0'),
        ('or', 'SELECT id FROM big WHERE v < 30 OR v > 70'),
        ('and', 'SELECT id FROM big WHERE v < 90 AND id < 19000'),
        ('a parameter', 'SELECT id FROM big WHERE v < (SELECT max(v) FROM small)'),
        ('limit', 'SELECT id FROM big WHERE v < 60 LIMIT 2000'),
        ('sort', 'SELECT id FROM big WHERE v < 60 ORDER BY v, id DESC')) q (what, query),
       LATERAL judge_bitmap(query) v;
SELECT * FROM judge_bitmap('SELECT id FROM big WHERE v < 60', 512, 'work_mem=64kB');	-- lossy
-- rescans: the first reads of all are left open
SELECT what, v.same, v.hot, v.in_ring, v.closed, v.exact
  FROM (VALUES
        ('rescan', 'SELECT g, b.* FROM generate_series(0, 3) g, LATERAL (SELECT count(*), sum(id) FROM big WHERE v < 60 + g) b'),
        ('rescan: not all', 'SELECT g, (SELECT count(*) FROM big WHERE v < 60 AND g % 2 = 0) FROM generate_series(0, 3) g'),
        ('rescan: not to the end', 'SELECT g, b.id FROM generate_series(0, 3) g, LATERAL (SELECT id FROM big WHERE v < 60 + g LIMIT 1000) b')) q (what, query),
       LATERAL judge_bitmap(query) v;
-- by two nodes at a time
SELECT v.same, v.hot, v.in_ring, v.closed, v.exact
  FROM judge_bitmap('SELECT count(*) FROM (SELECT id FROM big WHERE v < 60 OFFSET 0) a
                       JOIN (SELECT id FROM big WHERE v > 30 OFFSET 0) b USING (id)', 2 * 512 + 256) v;
-- expected to read no more than the threshold; or to be given no ring
SELECT query, l.* FROM unnest('{SELECT id FROM big WHERE v < 2, SELECT id FROM big WHERE id < 400,
                                SELECT id FROM big WHERE v < 0}'::text[]) query, LATERAL left_alone(query) l;
SELECT * FROM left_alone('SELECT id FROM big WHERE v < 60', 'big', 'pg_ringctl.scan_threshold=5120');
SELECT * FROM left_alone('SELECT id FROM big WHERE v < 60', 'big', 'pg_ringctl.scan_ring=0');
SELECT * FROM left_alone('SELECT id FROM big WHERE v < 60', 'big', 'pg_ringctl.mode=observe');
-- a threshold of 0: closed from the first read
SELECT v.same, v.hot, v.in_ring, v.closed, v.exact, v.scans
  FROM unnest('{SELECT id FROM big WHERE v < 60, SELECT id FROM big WHERE v < 2}'::text[]) query,
       LATERAL judge_bitmap(query, 0, 'pg_ringctl.scan_threshold=0') v;
SELECT pg_ringctl_set_policy('big', '128kB', '100');
SELECT v.same, v.hot, v.in_ring, v.closed, v.exact, v.scans FROM judge_bitmap('SELECT id FROM big WHERE v < 2', 100) v;
SELECT pg_ringctl_drop_policy('big');
-- repeated: what the first one leaves is found
SELECT fresh();
SELECT count(*), sum(id) FROM big WHERE id < 6000;
SELECT count(*), sum(id) FROM big WHERE id < 6000;
SELECT count(*), sum(id) FROM big WHERE id < 6000;
SELECT CASE WHEN :'streams_bitmaps' THEN blks_hit > 500 ELSE blks_hit IS NULL END AS found
  FROM (SELECT sum(blks_hit) AS blks_hit FROM stats('big', 'bitmapscan')) s;
-- what is left stays there, also if the session's next ring is tight
SELECT fresh();
SET pg_ringctl.scan_ring = '2MB';
SELECT count(*) FROM (SELECT id FROM big WHERE v < 60 LIMIT 1000) b;
RESET pg_ringctl.scan_ring;
SELECT cached('big') AS "left" \gset
SELECT escapes FROM pg_ringctl_prewarm(:'doc_toast', '256kB');
SELECT :left > 256 AS many, cached('big') - :left AS taken;
-- the pages that were read first stay, also those that were in the ring's slots
SELECT fresh();
SET pg_ringctl.scan_ring = '2MB';
SELECT count(*) FROM big WHERE v < 60;
RESET pg_ringctl.scan_ring;
SELECT CASE WHEN :'streams_bitmaps' THEN cached('big') BETWEEN 512 + 256 - 32 AND 512 + 256 ELSE true END AS "left";
-- cursors
SELECT fresh();
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM big WHERE v < 60;
FETCH 2 FROM c;
MOVE 8000 IN c;
FETCH 1 FROM c;
SAVEPOINT s;
SELECT 1/0;
ROLLBACK TO s;
FETCH 1 FROM c;
SELECT count(*) = :'streams_bitmaps'::bool::int AS shown FROM pg_ringctl_rings
 WHERE pid = pg_backend_pid() AND kind = 'bitmapscan' AND blocks_done > 1000;
MOVE ALL IN c;
FETCH 1 FROM c;
COMMIT;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM big WHERE v < 60;
FETCH LAST FROM c;
FETCH FIRST FROM c;
COMMIT;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM big WHERE v < 60 FOR UPDATE;
MOVE 8000 IN c;
FETCH 1 FROM c;
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*), sum(id) FROM big WHERE v < 60;
COMMIT;
SELECT coalesce(sum(escapes), 0) AS escapes FROM counted;
SELECT exact() OR NOT :'streams_bitmaps' AS exact;
RESET enable_seqscan;
RESET enable_indexscan;
RESET enable_indexonlyscan;

--
-- TOAST values
--
CREATE TABLE doc_many (id int, pad text STORAGE PLAIN, body text STORAGE EXTERNAL);	-- the first pages have most of them
INSERT INTO doc_many SELECT i, NULL, repeat(md5(i::text), 124) FROM generate_series(1, 4400) i;
INSERT INTO doc_many SELECT i, repeat('x', 1800), NULL FROM generate_series(1, 4 * 600) i;
VACUUM (ANALYZE, FREEZE) doc_many;
SELECT reltoastrelid::regclass AS many_toast FROM pg_class WHERE oid = 'doc_many'::regclass \gset
-- one page more stays: the first row's value may be read before there is a ring
SELECT what, v.*
  FROM (VALUES
        ('all', 'SELECT id, md5(body) FROM doc'),
        ('aggregate', 'SELECT sum(length(body || '''')) FROM doc'),
        ('slices', 'SELECT substr(body, 7000, 10) FROM doc'),
        ('filter', 'SELECT id FROM doc WHERE body > ''8'''),
        ('later than the scan', 'SELECT md5(body) FROM (SELECT * FROM doc ORDER BY id DESC OFFSET 0) d'),
        ('hashed', 'SELECT count(*) FROM doc a JOIN doc b ON a.body = b.body'),
        ('nested loop', 'SELECT g, count(*) FROM generate_series(1, 3) g, LATERAL (SELECT FROM doc WHERE body < g::text OFFSET 0) d GROUP BY g'),
        ('subselect', 'SELECT g, (SELECT max(body) FROM doc WHERE id > g - g) FROM generate_series(1, 3) g'),
        ('one row, then many', 'SELECT n, (SELECT count(md5(body)) FROM (SELECT body FROM doc LIMIT n) d) FROM generate_series(1, 2001, 2000) n'),
        ('tid range', 'SELECT md5(body) FROM doc WHERE ctid > ''(0,1)'''),
        ('two at a time', 'SELECT md5(a.body), md5(b.body) FROM doc a JOIN doc b ON a.id = 2500 - b.id')) q (what, query),
       LATERAL judge_reader('toast', query, :'doc_toast', 512 + 1) v;
-- below a scan that has a ring; also those of its first blocks
SELECT what, v.*
  FROM (VALUES
        ('all', 'SELECT id, md5(body) FROM doc_many'),
        ('filter', 'SELECT id FROM doc_many WHERE body > ''8'''),
        ('the first ones', 'SELECT md5(body) FROM doc_many LIMIT 4000'),
        ('tid range', 'SELECT md5(body) FROM doc_many WHERE ctid >= ''(0,1)''')) q (what, query),
       LATERAL judge_reader('toast', query, :'many_toast', 512 + 100) v;
-- sizes; none; a threshold; a policy: those of the table
SELECT scan_ring, max_ring, v.*, ring(v.same)
  FROM (VALUES ('-1', '-1'), ('64kB', '-1'), ('2000kB', '-1'), ('1MB', '72kB')) r (scan_ring, max_ring),
       LATERAL judge_reader('toast', 'SELECT md5(body) FROM doc', :'doc_toast', 512 + 1,
                            'pg_ringctl.scan_ring=' || scan_ring, 'pg_ringctl.max_ring=' || max_ring) v;
SELECT * FROM left_alone('SELECT md5(body) FROM doc', :'doc_toast', 'pg_ringctl.scan_ring=0');
SELECT * FROM left_alone('SELECT md5(body) FROM doc', :'doc_toast', 'pg_ringctl.scan_threshold=5000');
SELECT * FROM left_alone('SELECT md5(body) FROM doc', :'doc_toast', 'pg_ringctl.mode=observe');
SELECT pg_ringctl_set_policy('doc', scan_threshold => '5000');
SELECT * FROM left_alone('SELECT md5(body) FROM doc', :'doc_toast');
SELECT pg_ringctl_set_policy('doc', '128kB');
SELECT v.*, ring(v.same)
  FROM judge_reader('toast', 'SELECT md5(body) FROM doc', :'doc_toast', 512 + 1) v;
SELECT pg_ringctl_drop_policy('doc');
-- partitions together leave what one table would leave, and pass one ring on
CREATE TABLE doc_parted (id int, pad text STORAGE PLAIN, body text STORAGE EXTERNAL) PARTITION BY RANGE (id);
SELECT format('CREATE TABLE doc_parted_%s PARTITION OF doc_parted FOR VALUES FROM (%s) TO (%s)', i, 700 * i, 700 * (i + 1))
  FROM generate_series(0, 3) i \gexec
INSERT INTO doc_parted SELECT i, repeat('x', 1800), repeat(md5(i::text), 249) FROM generate_series(0, 2799) i;
CREATE INDEX doc_parted_id ON doc_parted (id);
VACUUM (ANALYZE, FREEZE) doc_parted;
SET pg_ringctl.scan_threshold = 100;
SELECT fresh();
SELECT count(*) FROM doc_parted WHERE body > '';
SELECT sum(cached(reltoastrelid)) BETWEEN 100 AND 100 + 32 AS values_left FROM pg_class WHERE relname ~ 'doc_parted_\d$';
SELECT count(*) AS rings, sum(scans) AS scans, min(ring_buffers) AS buffers, sum(escapes) AS escapes FROM counted WHERE kind = 'toast';
SELECT fresh();
SET enable_seqscan = off;
SET enable_indexscan = off;
SELECT count(pad) FROM doc_parted WHERE id >= 0;
SELECT CASE WHEN :'streams_bitmaps' THEN sum(cached(oid)) BETWEEN 100 AND 100 + 64 ELSE true END AS pages_left
  FROM pg_class WHERE relname ~ 'doc_parted_\d$';
SELECT count(pad) FROM doc_parted WHERE id >= 0;
SELECT count(pad) FROM doc_parted WHERE id >= 0;
SELECT CASE WHEN :'streams_bitmaps' THEN sum(cached(oid)) BETWEEN 290 AND 300 + 64 ELSE true END AS more_left
  FROM pg_class WHERE relname ~ 'doc_parted_\d$';
RESET enable_seqscan;
RESET enable_indexscan;
RESET pg_ringctl.scan_threshold;
DROP TABLE doc_parted;
-- a few values, and look-ups by a key
CREATE INDEX doc_id ON doc (id);
SELECT query, l.* FROM unnest('{SELECT md5(body) FROM doc LIMIT 50, SELECT id FROM doc, SELECT count(body) FROM doc,
                                SELECT md5(body) FROM doc WHERE id = 77}'::text[]) query, LATERAL left_alone(query, :'doc_toast') l;
-- beside a scan, too: the ring reads each of their pages at most twice, and then leaves it in the pool
SELECT fresh();
DO $$
DECLARE
    toast oid := (SELECT reltoastrelid FROM pg_class WHERE oid = 'doc'::regclass);
    missed bigint;
    r record;
BEGIN
    missed := pg_stat_get_xact_blocks_hit(toast) - pg_stat_get_xact_blocks_fetched(toast);
    FOR r IN SELECT id, md5(body) FROM doc LOOP
        EXIT WHEN r.id > 1500;
        IF r.id > 700 THEN
            PERFORM md5(body) FROM doc WHERE id = 2000 + r.id % 60;
        END IF;
    END LOOP;
    missed := missed + pg_stat_get_xact_blocks_fetched(toast) - pg_stat_get_xact_blocks_hit(toast);
    ASSERT missed > 1500, missed;
    ASSERT missed <= 1550 + 3 * 61, missed;
END
$$;
SELECT cached(:'doc_toast') >= 512 + 60 AS all_there, kind, escapes FROM counted;
-- values larger than the ring that are fetched three times: no more than another quarter of the pool is left
CREATE TABLE doc_large (id int, pad text STORAGE PLAIN, body text STORAGE EXTERNAL);
INSERT INTO doc_large SELECT i, repeat('x', 3500), repeat(md5(i::text), 10000) FROM generate_series(1, 60) i;
VACUUM (ANALYZE, FREEZE) doc_large;
SELECT fresh();
SELECT count(md5(body || 'a') || md5(body || 'b') || md5(body || 'c')) FROM doc_large;
SELECT kind, escapes FROM counted;
SELECT blocks(reltoastrelid) > 2048 AS large, cached(reltoastrelid) <= 512 + 512 + 64 AS bounded FROM pg_class WHERE oid = 'doc_large'::regclass;
DROP TABLE doc_large;
SET enable_seqscan = off;
SELECT * FROM left_alone('SELECT g, (SELECT md5(body) FROM doc WHERE id = g) FROM generate_series(1, 500) g', :'doc_toast');
-- a query that is repeated finds what it has left, until all is there
SELECT fresh();
SELECT count(md5(body)) FROM doc WHERE id <= 900;
SELECT count(md5(body)) FROM doc WHERE id <= 900;
SELECT cached(:'doc_toast') >= 900 AS all_there;
RESET enable_seqscan;
-- values that are found
SELECT fresh();
SELECT count(md5(body)) FROM doc WHERE id <= 60;
SELECT count(*) AS counted FROM counted;
SELECT count(md5(body)) FROM doc WHERE id <= 90;
SELECT count(*) AS counted FROM counted;
-- changes write through no ring, but read through it
BEGIN;
UPDATE doc SET body = body || 'x' WHERE id <= 500;
DELETE FROM doc WHERE body > '8';
SELECT count(*), sum(length(body)) FROM doc;
ROLLBACK;
SELECT kind, scans > 0 AS scans, blocks > 2500 AS far FROM counted;
-- cursors, subtransactions, errors
SELECT fresh();
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, md5(body) FROM doc;
FETCH 1 FROM c;
MOVE 1000 IN c;
FETCH 1 FROM c;
SELECT kind, blocks_done > 400 AS done, blocks_total > 2048 AS total FROM pg_ringctl_rings WHERE pid = pg_backend_pid() AND kind = 'toast';
SAVEPOINT s;
SELECT sum(1 / (id - 2000)) FROM doc WHERE body > '';
ROLLBACK TO s;
SELECT max(md5(body)) FROM doc;
FETCH BACKWARD 2 FROM c;
MOVE ALL IN c;
FETCH BACKWARD 1 FROM c;
CLOSE c;
SELECT count(*) AS rings FROM pg_ringctl_rings WHERE pid = pg_backend_pid();
SAVEPOINT s;
DECLARE c CURSOR FOR SELECT id, md5(body) FROM doc;
MOVE 1000 IN c;
ROLLBACK TO s;
SELECT count(*) AS rings FROM pg_ringctl_rings WHERE pid = pg_backend_pid();
SAVEPOINT s;
DECLARE c CURSOR FOR SELECT id, md5(body) FROM doc;
MOVE 1000 IN c;
RELEASE s;
FETCH 1 FROM c;
COMMIT;
BEGIN;
DECLARE h CURSOR WITH HOLD FOR SELECT id, md5(body) FROM doc;
MOVE 1000 IN h;
COMMIT;
FETCH 1 FROM h;
CLOSE h;
SELECT exact(), escapes FROM counted;
-- what holds a TOAST table does not keep others from it, but for the server's own reasons
BEGIN;
DECLARE c CURSOR FOR SELECT id, md5(body) FROM doc;
MOVE 1000 IN c;
REINDEX TABLE :doc_toast;
FETCH 1 FROM c;
SELECT count(*) > 2000 AS chunks FROM :doc_toast;
FETCH 1 FROM c;
CREATE INDEX doc_id_2 ON doc (id);
FETCH 1 FROM c;
ALTER TABLE doc SET (toast.autovacuum_enabled = off);
ROLLBACK;
SELECT relname AS doc_toast_index FROM pg_class JOIN pg_index ON indexrelid = oid WHERE indrelid = :'doc_toast'::regclass \gset
BEGIN;
DECLARE c CURSOR FOR SELECT id, md5(body) FROM doc;
MOVE 1000 IN c;
CLUSTER :doc_toast USING :doc_toast_index;
FETCH 1 FROM c;
ROLLBACK;
SELECT what, attempt(format('DO $d$ DECLARE r record; BEGIN FOR r IN SELECT id, md5(body) FROM doc LOOP IF r.id = 1000 THEN %s; END IF; END LOOP; END $d$', what))
  FROM unnest('{TRUNCATE doc, DROP TABLE doc, ALTER TABLE doc ADD COLUMN x int, CLUSTER doc USING doc_id, REINDEX TABLE doc,
                ALTER TABLE doc ALTER COLUMN body SET STORAGE MAIN}'::text[]) what;
SELECT count(*), max(md5(body)) FROM doc;

--
-- COPY
--
SELECT what, options, v.*
  FROM (VALUES ('big', ''), ('big', '(FORMAT csv, HEADER)'), ('big', '(FORMAT binary)'), ('big (v, id)', ''),
               ('big', '(FORMAT csv, FORCE_QUOTE *, DELIMITER '';'')')) c (what, options),
       LATERAL judge_reader('copy', format('SELECT copied(%L, %L)', what, options)) v;
SELECT copied('big') = (SELECT md5(string_agg(concat_ws(E'\t', id, v, filler) || E'\n', '')) FROM big) AS as_text;
SELECT scan_ring, max_ring, v.*, ring(v.same)
  FROM (VALUES ('64kB', '-1'), ('2000kB', '-1'), ('1MB', '72kB')) r (scan_ring, max_ring),
       LATERAL judge_reader('copy', 'SELECT copied(''big'')', 'big', 0,
                            'pg_ringctl.scan_ring=' || scan_ring, 'pg_ringctl.max_ring=' || max_ring) v;
-- the first one after a load
CREATE TABLE loaded AS SELECT * FROM big;
CHECKPOINT;
SELECT fresh();
COPY loaded TO '/dev/null';
SELECT rel, kind, scans, blocks = blocks('loaded') AS all, escapes, hot_survives() FROM counted;
DROP TABLE loaded;
-- small ones; with a threshold of 0; none
SELECT * FROM left_alone('SELECT copied(''small''), copied(''small (id)'', ''(FORMAT binary)'')', 'small');
SELECT rel, v.* FROM unnest('{small, hot}'::text[]) rel,
       LATERAL judge_reader('copy', format('SELECT copied(%L)', rel), rel::regclass, 1000, 'pg_ringctl.scan_threshold=0') v;
SELECT * FROM left_alone('SELECT copied(''big'')', 'small', 'pg_ringctl.scan_threshold=5120');
SET pg_ringctl.scan_ring = 0;
SELECT fresh();
COPY big TO '/dev/null';
SELECT cached('big') > 1000 AS without_ring, (SELECT count(*) FROM counted) AS counted;
RESET pg_ringctl.scan_ring;
SELECT pg_ringctl_set_policy('big', '128kB');
SELECT v.*, ring(v.same) FROM judge_reader('copy', 'SELECT copied(''big'')') v;
SELECT pg_ringctl_drop_policy('big');
-- the server has a ring for it: observed, whatever is set
SET pg_ringctl.mode = off;
SELECT fresh();
COPY big TO '/dev/null';
SELECT count(*) FROM counted;
SET pg_ringctl.mode = observe;
SET pg_ringctl.scan_ring = '64kB';
SET pg_ringctl.scan_threshold = 0;
COPY big TO '/dev/null';
COPY small TO '/dev/null';
SELECT rel, kind, scans, blocks, ring_buffers >= 32 AS servers FROM counted;
RESET pg_ringctl.mode;
RESET pg_ringctl.scan_ring;
RESET pg_ringctl.scan_threshold;
-- its TOAST values, too; none is left in the pool
SELECT v.* FROM judge_reader('toast', 'SELECT copied(''doc'')', :'doc_toast') v;
SELECT kind, scans FROM counted;
-- what else can be copied; 17 and 18 refuse partitioned tables, and 17 materialized views
CREATE MATERIALIZED VIEW matview AS SELECT * FROM big;
CREATE TABLE parted (id int, v int, filler text) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10000);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (10000) TO (100000);
INSERT INTO parted SELECT * FROM big;
VACUUM (ANALYZE, FREEZE) matview, parted;
CREATE FUNCTION if_refused(what text, instead text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM copied(what);
    RETURN what;
EXCEPTION WHEN wrong_object_type THEN
    RETURN instead;
END $$;
SELECT kind, what, v.same, v.hot, v.in_ring, v.closed, v.exact
  FROM (VALUES ('seqscan', '(SELECT * FROM big)', '', 'big'), ('copy', 'matview', '(TABLE matview)', 'matview'),
               ('copy', 'parted', 'parted_2', 'parted_2')) c (kind, what, instead, rel),
       LATERAL judge_reader(CASE WHEN if_refused(what, instead) LIKE '(%' THEN 'seqscan' ELSE kind END,
                            format('SELECT copied(%L)', if_refused(what, instead)), rel::regclass) v;
DROP MATERIALIZED VIEW matview;
DROP TABLE parted;
DROP FUNCTION if_refused;
-- row-level security makes it a query, whose scan is a sequential one
CREATE ROLE regress_ringctl_copier;
ALTER TABLE big ENABLE ROW LEVEL SECURITY;
CREATE POLICY even ON big USING (id % 2 = 0);
GRANT SELECT ON big TO regress_ringctl_copier;
GRANT pg_write_server_files TO regress_ringctl_copier;
SELECT fresh();
SET ROLE regress_ringctl_copier;
COPY big (id, v) TO '/dev/null';
RESET ROLE;
SELECT kind, scans, blocks FROM pg_ringctl_stats;
DROP POLICY even ON big;
ALTER TABLE big DISABLE ROW LEVEL SECURITY;
REVOKE SELECT ON big FROM regress_ringctl_copier;
GRANT SELECT (id) ON big TO regress_ringctl_copier;
SET ROLE regress_ringctl_copier;
COPY big TO '/dev/null';
COPY big (id) TO '/dev/null';
RESET ROLE;
REVOKE SELECT (id) ON big FROM regress_ringctl_copier;
REVOKE pg_write_server_files FROM regress_ringctl_copier;
DROP ROLE regress_ringctl_copier;
-- errors
SELECT fresh();
COPY big TO PROGRAM 'head -c 100000 >/dev/null; exit 1';
COPY big (nothing) TO '/dev/null';
COPY big TO '/nowhere/at/all';
SELECT attempt('COPY big TO PROGRAM ''exit 1''') LIKE '38000: program "exit 1" failed%' AS failed;
COPY big TO '/dev/null';
SELECT kind, escapes, exact(), hot_survives() FROM counted;
SELECT count(*) AS rings FROM pg_ringctl_rings WHERE pid = pg_backend_pid();

--
-- Index builds
--
-- parallel_workers = 0: what a parallel build's workers read is not counted
CREATE TABLE indexed WITH (parallel_workers = 0) AS SELECT id, v, filler, point(id, v) AS p, ARRAY[v] AS a FROM big;
VACUUM (ANALYZE, FREEZE) indexed;
SELECT blocks('indexed') > 2 * 2048 AS big;
CREATE FUNCTION judge_build(command text, VARIADIC settings text[] DEFAULT '{}')
RETURNS TABLE (hot boolean, in_ring boolean, closed boolean, exact boolean, scans bigint, whole boolean) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM apply(settings);
    PERFORM fresh();
    EXECUTE command;
    hot := hot_survives();
    SELECT cached('indexed') <= t.ring_buffers_max, t.escapes_pinned + t.escapes_dirty = 0, t.scans, t.blocks = t.scans * blocks('indexed')
      INTO in_ring, closed, scans, whole FROM stats('indexed', 'index_build') t;
    exact := exact();
    RETURN NEXT;
END $$;
SELECT workers, command, v.*
  FROM unnest('{2, 0}'::text[]) workers, unnest('{
    CREATE INDEX i_btree ON indexed (v) INCLUDE (id), CREATE UNIQUE INDEX i_unique ON indexed ((id + 1)),
    CREATE INDEX i_partial ON indexed (id) WHERE v > 90, CREATE INDEX i_brin ON indexed USING brin (id),
    CREATE INDEX i_hash ON indexed USING hash (id), CREATE INDEX i_gist ON indexed USING gist (p),
    CREATE INDEX i_spgist ON indexed USING spgist (p), CREATE INDEX i_gin ON indexed USING gin (a)}'::text[]) command,
       LATERAL judge_build(replace(command, 'i_', 'i_' || workers || '_'), 'max_parallel_maintenance_workers=' || workers) v;
-- ADD PRIMARY KEY first looks for nulls, without a ring of ours
SELECT command, v.hot, v.closed, v.exact, v.scans, v.whole
  FROM unnest('{ALTER TABLE indexed ADD PRIMARY KEY (id), ALTER TABLE indexed ADD UNIQUE (id\, v)}'::text[]) command, LATERAL judge_build(command) v;
-- the indexes are complete, and not used by others as long as they are not
CREATE FUNCTION by_index(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    scanned text;
BEGIN
    PERFORM set_config('enable_indexscan', 'off', true), set_config('enable_indexonlyscan', 'off', true),
            set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'on', true);
    scanned := digest(query);
    PERFORM set_config('enable_indexscan', 'on', true), set_config('enable_indexonlyscan', 'on', true),
            set_config('enable_bitmapscan', 'on', true), set_config('enable_seqscan', 'off', true);
    RETURN scanned = digest(query);
END $$;
SELECT query, by_index(query) FROM unnest('{SELECT count(*)\, sum(id) FROM indexed WHERE v BETWEEN 10 AND 50, SELECT id FROM indexed WHERE id + 1 > 20000 ORDER BY id + 1,
    SELECT count(*) FROM indexed WHERE id BETWEEN 100 AND 1000 AND v > 90, SELECT count(*) FROM indexed WHERE p <@ box ''(10\,10)\,(500\,500)'',
    SELECT count(*) FROM indexed WHERE a @> ARRAY[7], SELECT count(*) FROM indexed WHERE id = 4711, SELECT id FROM indexed ORDER BY id\, v}'::text[]) query;
-- concurrently: the first of two scans
SELECT fresh();
CREATE INDEX CONCURRENTLY i_concurrently ON indexed (v);
SELECT rel, kind, scans, escapes, hot_survives() FROM counted;
REINDEX INDEX CONCURRENTLY i_concurrently;
REINDEX TABLE CONCURRENTLY indexed;
SELECT count(*) AS invalid FROM pg_index WHERE indrelid = 'indexed'::regclass AND NOT indisvalid;
SELECT rel, kind, scans > 2 AS scans, escapes FROM counted;
-- rebuilt, also with the table; not those that the server never builds in parallel
DROP INDEX i_2_gist, i_2_spgist, i_2_gin, i_2_hash, i_0_gist, i_0_spgist, i_0_gin, i_0_hash;
SELECT command, v.* FROM unnest('{REINDEX INDEX i_2_btree, REINDEX INDEX i_2_brin, REINDEX TABLE indexed}'::text[]) command, LATERAL judge_build(command) v;
SELECT pg_ringctl_stats_reset() IS NOT NULL AS reset;
CLUSTER indexed USING indexed_pkey;
VACUUM (FULL) indexed;
ALTER TABLE indexed ALTER COLUMN v TYPE bigint;
SELECT kind, scans > 15 AS scans, blocks > 50000 AS blocks, escapes FROM counted WHERE rel = 'indexed'::regclass;
SELECT bool_and(by_index(query)) FROM unnest('{SELECT count(*)\, sum(id) FROM indexed WHERE v BETWEEN 10 AND 50, SELECT id FROM indexed ORDER BY id}'::text[]) query;
-- sizes, none, small tables, observe
SELECT setting, v.hot, v.closed, v.scans, ring(v.hot)
  FROM unnest('{scan_ring=64kB, scan_ring=2000kB}'::text[]) setting,
       LATERAL judge_build('REINDEX INDEX i_concurrently', 'pg_ringctl.' || setting) v;
SELECT setting, hot, scans FROM unnest('{scan_ring=0, scan_threshold=100000}'::text[]) setting,
       LATERAL judge_build('REINDEX INDEX i_concurrently', 'pg_ringctl.' || setting);
SELECT fresh();
CREATE INDEX small_id ON small (id);
DROP INDEX small_id;
SELECT * FROM counted;
SET pg_ringctl.mode = observe;
REINDEX INDEX i_concurrently;
SELECT rel, kind, scans, ring_buffers >= 32 AS servers FROM counted;
SET pg_ringctl.mode = off;
SELECT pg_ringctl_stats_reset() IS NOT NULL AS reset;
REINDEX INDEX i_concurrently;
SELECT * FROM counted;
RESET pg_ringctl.mode;
-- errors, subtransactions; a function that scans the table that is indexed
BEGIN;
SAVEPOINT s;
\set VERBOSITY terse
CREATE UNIQUE INDEX i_fails ON indexed (v);
\set VERBOSITY default
ROLLBACK TO s;
CREATE UNIQUE INDEX i_works ON indexed ((id * 2));
ALTER TABLE indexed ADD COLUMN more int;
CREATE INDEX i_again ON indexed (more, id);
ROLLBACK;
CREATE INDEX i_fails ON indexed ((1 / (id - 15000)));
CREATE INDEX CONCURRENTLY i_fails ON indexed ((1 / (id - 15000)));
DROP INDEX i_fails;
CREATE FUNCTION scans(int, rel text) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    IF $1 % 5000 = 0 THEN
        EXECUTE format('SELECT count(*) FROM public.%I WHERE id < 10 AND ctid IS NOT NULL', rel);
        BEGIN
            PERFORM 1 / 0;
        EXCEPTION WHEN division_by_zero THEN
            NULL;
        END;
    END IF;
    RETURN $1;
END $$;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SET enable_bitmapscan = off;
SELECT fresh();
CREATE INDEX i_scans ON indexed (scans(id, 'big'));
SELECT kind, scans, blocks = scans * blocks(relid) AS whole, escapes_pinned + escapes_dirty AS escapes FROM pg_ringctl_stats ORDER BY kind;
SELECT by_index('SELECT count(*) FROM indexed WHERE scans(id, ''big'') BETWEEN 100 AND 200');
-- the server does not let it scan the same table
SELECT count(DISTINCT regexp_replace(attempt('CREATE INDEX ON indexed (scans(id, ''indexed''))'), '\d{4,}', 'N', 'g')) AS outcomes
  FROM unnest('{off, control}'::text[]) mode, LATERAL (SELECT set_mode(mode) WHERE mode <> '' OFFSET 0) s;
RESET enable_indexscan;
RESET enable_indexonlyscan;
RESET enable_bitmapscan;
DROP TABLE indexed;
SELECT count(*) AS rings FROM pg_ringctl_rings WHERE pid = pg_backend_pid();

--
-- What is left alone
--
CREATE TEMP TABLE temporary AS SELECT * FROM small;
SET pg_ringctl.scan_threshold = 0;
SET enable_seqscan = off;
SELECT pg_ringctl_stats_reset() IS NOT NULL AS reset;
CREATE INDEX temporary_id ON temporary (id);
SELECT count(*) FROM temporary WHERE ctid > '(2,0)';
COPY temporary TO '/dev/null';
SELECT count(*) > 0 AS rows FROM pg_class WHERE ctid > '(0,0)';
COPY pg_class TO '/dev/null';
REINDEX TABLE pg_am;
SELECT count(*) FROM big TABLESAMPLE system (1) REPEATABLE (1) WHERE id < 0;
ANALYZE small;
VACUUM small;
SELECT * FROM counted;
RESET enable_seqscan;
RESET pg_ringctl.scan_threshold;

--
-- The ring that bulk loads write through
--
SELECT current_setting('data_directory') || '/readers.copy' AS file \gset
COPY big TO :'file';
CREATE TABLE loaded (LIKE big);
-- The pages that are in shared_buffers after a load.
CREATE FUNCTION load(write_ring text, command text DEFAULT 'COPY loaded FROM %L', rel text DEFAULT 'loaded',
                     OUT cached bigint, OUT rows text) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('pg_ringctl.write_ring', write_ring, true);
    TRUNCATE loaded;
    PERFORM fresh();
    EXECUTE format(command, current_setting('data_directory') || '/readers.copy');
    cached := cached(rel::regclass);
    EXECUTE 'SELECT count(*) || '' '' || sum(id) FROM ' || rel INTO rows;
    IF command ~ '^CREATE' THEN
        EXECUTE regexp_replace(command, '^CREATE(.*) made .*', 'DROP\1 made');
    END IF;
END $$;
-- 16 MB, or an eighth of shared_buffers, 256 buffers, is what the server has.  The
-- server extends a table by up to 64 pages at a time: a ring of fewer can't hold them.
SELECT write_ring, l.* FROM unnest('{-1, 1MB, 1600kB, 16GB}'::text[]) write_ring, LATERAL load(write_ring) l;
SELECT cached > 1000 AS cached, rows FROM load('0');
-- what a function in WHERE reads and does, before COPY checks privileges, does not matter
CREATE FUNCTION shows() RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'SHOW work_mem'; END $$;
CREATE FUNCTION asks(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    PERFORM shows(), count(*) FROM loaded;
    RETURN (SELECT n FROM small LIMIT 1);
END $$;
SELECT * FROM load('1MB', 'COPY loaded FROM %L WHERE id >= asks(1)');
DROP FUNCTION asks, shows;
SET pg_ringctl.max_ring = '1MB';
SELECT * FROM load('2MB');
RESET pg_ringctl.max_ring;
SET pg_ringctl.mode = observe;
SELECT * FROM load('1MB');
RESET pg_ringctl.mode;
SELECT pg_ringctl_stats_reset() IS NOT NULL AS reset;
SELECT write_ring, what, l.*
  FROM unnest('{1MB, -1}'::text[]) write_ring,
       unnest('{CREATE TABLE made AS SELECT * FROM big, CREATE MATERIALIZED VIEW made AS SELECT * FROM big, CREATE TABLE made (id\, x) AS SELECT id\, v\, filler FROM big}'::text[]) what,
       LATERAL load(write_ring, what, 'made') l;
CREATE MATERIALIZED VIEW made AS SELECT id, v, filler, 'x'::text AS more FROM big;	-- has a TOAST table
SELECT write_ring, l.* FROM unnest('{1MB, -1}'::text[]) write_ring, LATERAL load(write_ring, 'REFRESH MATERIALIZED VIEW made', 'made') l;
DROP MATERIALIZED VIEW made;
SELECT * FROM counted WHERE kind <> 'index_build';	-- what it does is not counted
-- freezes, and fails; with a trigger that reads and writes the table
SELECT cached FROM load('1MB', 'COPY loaded FROM %L (FREEZE)');
CREATE FUNCTION reads_and_writes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.id % 5000 = 0 THEN
        INSERT INTO loaded SELECT count(*), -1 FROM loaded;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER before BEFORE INSERT ON loaded FOR EACH ROW WHEN (NEW.v >= 0) EXECUTE FUNCTION reads_and_writes();
SELECT cached < 512 AS ring, rows FROM load('1MB');
SELECT cached < 512 AS ring, rows FROM load('-1');
DROP TRIGGER before ON loaded;
CREATE TRIGGER after AFTER INSERT ON loaded FOR EACH ROW WHEN (NEW.v >= 0) EXECUTE FUNCTION reads_and_writes();
SELECT rows FROM load('1MB');
SELECT rows FROM load('-1');
DROP TRIGGER after ON loaded;
SET pg_ringctl.write_ring = '1MB';
TRUNCATE loaded;
COPY loaded FROM :'file';
COPY loaded (id) FROM PROGRAM 'echo 1; echo 2; echo x';
COPY loaded (id) FROM PROGRAM 'echo 1; exit 3';
COPY loaded (id) FROM PROGRAM 'echo 1; echo 2';
BEGIN;
SAVEPOINT s;
COPY loaded (id) FROM PROGRAM 'echo x';
ROLLBACK TO s;
COPY loaded (id) FROM PROGRAM 'echo 3';
SAVEPOINT s;
COPY loaded (id) FROM PROGRAM 'echo 4';
RELEASE s;
COMMIT;
SELECT count(*), sum(id) FROM loaded;
RESET pg_ringctl.write_ring;
-- partitions keep the server's ring
CREATE TABLE parted (id int, v int, filler text) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (100000);
SELECT * FROM load('1MB', 'COPY parted FROM %L', 'parted_1');
DROP TABLE parted, loaded;

--
-- Free buffers first: 17 and 18 have a list of them
--
SET pg_ringctl.free_buffers_first = on;
-- The buffers of a table that is dropped are free.  How many of these does a query
-- take, beside its ring?
CREATE FUNCTION take_free(query text, rel regclass, VARIADIC settings text[] DEFAULT '{}')
RETURNS TABLE (hot boolean, took boolean, exact boolean, took_more boolean) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM apply(settings);
    PERFORM digest(query);		-- rings of this session have their buffers
    hot := hot_survives();
    took := cached(rel) >= 250;
    exact := exact();
    PERFORM digest(query);
    took_more := cached(rel) > 700;
    RETURN NEXT;
END $$;
CREATE PROCEDURE free_up() LANGUAGE plpgsql AS $$
BEGIN
    CREATE TABLE freed AS SELECT * FROM big WHERE id <= 4 * 300;
    COMMIT;
    PERFORM fresh(), (SELECT count(*) FROM freed);
    DROP TABLE freed;
    COMMIT;
END $$;
-- 19 has no such list: what is expected where there is one
CREATE FUNCTION judge_free(query text, rel regclass, VARIADIC settings text[] DEFAULT '{}')
RETURNS TABLE (hot boolean, took boolean, exact boolean, took_more boolean) LANGUAGE sql
BEGIN ATOMIC
    SELECT t.hot, CASE WHEN current_setting('server_version_num')::int < 190000 THEN t.took ELSE NOT t.took END, t.exact, t.took_more
      FROM take_free(query, rel, VARIADIC settings) t;
END;
CALL free_up();
SELECT * FROM judge_free('SELECT id FROM big WHERE v >= 0', 'big');
CALL free_up();
SELECT * FROM judge_free('SELECT id FROM big WHERE ctid > ''(0,0)''', 'big', 'enable_seqscan=off');
CALL free_up();
SELECT * FROM judge_free('SELECT copied(''big'')', 'big');
CALL free_up();
-- the first values stay, with or without such a list
SELECT * FROM take_free('SELECT md5(body) FROM doc', :'doc_toast');
-- not where it is switched off, nor through a ring of a size that is set
CALL free_up();
SELECT * FROM take_free('SELECT id FROM big WHERE v >= 0', 'big', 'pg_ringctl.free_buffers_first=off');
CALL free_up();
SELECT * FROM take_free('SELECT id FROM big WHERE v >= 0', 'big', 'pg_ringctl.scan_ring=1MB');

DROP PROCEDURE free_up;
DROP FUNCTION judge_free, take_free, load, reads_and_writes, scans, by_index, judge_build, judge_bitmap, left_alone, ring, judge_reader, copied;
DROP VIEW counted;
DROP TABLE doc, doc_many, temporary;
DROP INDEX big_v, big_id;
